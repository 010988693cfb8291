//! The verbs of the dashboard, each in a thread of its own: the same journeys as the commands.
//!
//! What was planned is what is done: a plan is kept as it was shown, and refused if it is another by then.

use std::any::Any;
use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{Receiver, Sender, channel};

use flows::control::deliveries::ControlLedger;
use flows::control::prompt::{PromptError, PromptRequest, deliver_prompt};
use flows::gc;
use flows::live::LiveSource;
use flows::observe::{Observation, ObserveScope};
use flows::stop::{SessionGlance, StopOptions, StopPlan, plan_stop};
use flows::terminal::TerminalHome;
use flows::work::carry_out_work;
use flows::writer::{AskLimits, GcConsent, GcRequest, Work, WorkDone};
use model::control::delivery::{DeliveryRecord, delivery_failure};
use model::control::wire::{ProcessEnding, StoppedProcess, StoppedSession};
use model::rules::judge::proven_owners;
use model::session::SessionName;
use model::status::Activity;
use model::wire::{GcResult, ItemFate};
use sys::dropped::NoteDropped;

use super::pane::{PaneKind, PaneText};
use super::replies::ReplyOutcome;
use super::state::{TopConsent, TopMode};
use crate::error::{self, Error};
use crate::render::text;
use crate::timeouts::{
    AGENT_STOP_GRACE, CONDENSE_TIME_BUDGET, REPLY_ACCEPT_TIMEOUT, REPLY_IDLE_TIMEOUT,
};

/// How many things of a plan are listed.
const MAX_LISTED_ITEMS: usize = 200;

/// Where the verbs work.
#[derive(Clone, Debug)]
pub(crate) struct TopPlace {
    pub(crate) source: LiveSource,
    pub(crate) terminals: TerminalHome,
}

/// What a plan that was shown would do.
#[derive(Debug)]
pub(crate) enum KeptPlan {
    Stop(Box<StopPlan>),
    CleanUp { ask: Box<GcRequest>, consent: GcConsent },
    Finalize { sessions: Vec<String> },
}

/// What a thread has to say.
#[derive(Debug)]
pub(crate) enum WorkOutcome {
    /// What a pane shows of a session.
    Text {
        pane: PaneKind,
        name: SessionName,
        text: PaneText,
    },
    /// What the search of that number found so far.
    Found {
        number: u64,
        text: PaneText,
    },
    /// A plan to show, and to keep until a `y`.
    Plan {
        text: PaneText,
        mode: TopMode,
        plan: KeptPlan,
    },
    Said(String),
    /// What is shown while nothing runs.
    Quiet(Vec<String>),
    /// What was cleaned up or brought back, and the receipt of what can be undone from here now.
    CleanedUp {
        receipt: Option<String>,
        sentence: String,
    },
    /// What became of a prompt: its receipt, in words.
    Delivered {
        target: SessionName,
        text: String,
        receipt: String,
        outcome: ReplyOutcome,
    },
}

/// Threads that work, and what they found.
#[derive(Debug)]
pub(crate) struct TopWorkers {
    sender: Sender<WorkOutcome>,
    receiver: Receiver<WorkOutcome>,
    bell: io::PipeReader,
    ring: io::PipeWriter,
}

impl TopWorkers {
    pub(crate) fn new() -> io::Result<Self> {
        let (sender, receiver) = channel();
        let (bell, ring) = io::pipe()?;
        sys::watch::set_nonblocking(bell.as_fd())?;
        sys::watch::set_nonblocking(ring.as_fd())?;
        Ok(Self { sender, receiver, bell, ring })
    }

    /// What to poll for reading.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Begins something that may take a while.
    pub(crate) fn begin(&self, work: impl FnOnce() -> WorkOutcome + Send + 'static) {
        self.begin_or(work, WorkOutcome::Said);
    }

    /// As [`Self::begin`]; if the work broke off, what is to be said of it becomes another outcome.
    pub(crate) fn begin_or(
        &self,
        work: impl FnOnce() -> WorkOutcome + Send + 'static,
        broken: impl FnOnce(String) -> WorkOutcome + Send + 'static,
    ) {
        let work = move |tell: &dyn Fn(WorkOutcome) -> bool| {
            tell(work());
        };
        self.start(work, broken);
    }

    /// Begins something that tells more than once; `false` says that nobody listens any more.
    pub(crate) fn begin_telling(
        &self,
        work: impl FnOnce(&dyn Fn(WorkOutcome) -> bool) + Send + 'static,
    ) {
        self.start(work, WorkOutcome::Said);
    }

    fn start(
        &self,
        work: impl FnOnce(&dyn Fn(WorkOutcome) -> bool) + Send + 'static,
        broken: impl FnOnce(String) -> WorkOutcome + Send + 'static,
    ) {
        let sender = self.sender.clone();
        let begun = self.ring.try_clone().and_then(|ring| {
            let tell = move |outcome| tell_outcome(&sender, &ring, outcome);
            std::thread::Builder::new().spawn(move || {
                let done = panic::catch_unwind(AssertUnwindSafe(|| {
                    sys::pause::break_at("top.work").note_dropped("a point of tests");
                    work(&tell);
                }));
                if let Err(payload) = done {
                    tell(broken(describe_break(&*payload)));
                }
            })
        });
        if let Err(error) = begun {
            let sentence = format!("It could not be begun: {error}.");
            tell_outcome(&self.sender, &self.ring, WorkOutcome::Said(sentence));
        }
    }

    /// What is finished.
    pub(crate) fn take_outcomes(&self) -> Vec<WorkOutcome> {
        let mut rung = [0; 64];
        while matches!((&self.bell).read(&mut rung), Ok(count) if count > 0) {}
        self.receiver.try_iter().collect()
    }
}

/// Hands over what a thread has to say; `false` if nobody listens any more.
fn tell_outcome(
    sender: &Sender<WorkOutcome>,
    mut ring: &io::PipeWriter,
    outcome: WorkOutcome,
) -> bool {
    let is_heard = sender.send(outcome).is_ok();
    if is_heard {
        // A full pipe has rung already.
        let _ = ring.write(&[1]);
    }
    is_heard
}

/// What is said of work that broke off by a defect of ours.
fn describe_break(payload: &(dyn Any + Send)) -> String {
    let what = sys::spread::panic_text(payload);
    format!(
        "It broke off, and how far it came is not known ({what}): look before you try again; \
         `ostler doctor --bundle` makes a bug report."
    )
}

/// An error with its remedy, in one sentence.
fn describe_error(error: &Error) -> String {
    match error.remedy_hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

fn said(result: Result<String, Error>) -> WorkOutcome {
    WorkOutcome::Said(result.unwrap_or_else(|error| describe_error(&error)))
}

/// What became of a reply, and its receipt in words.
fn describe_delivery(delivery: DeliveryRecord) -> (ReplyOutcome, String) {
    if delivery_failure(delivery.state, None).is_none() {
        let after = delivery.accepted_ms.unwrap_or_default();
        let words = format!("{} by {} after {after} ms", delivery.state.as_str(), delivery.agent);
        return (ReplyOutcome::Arrived, words);
    }
    let outcome = match delivery.state.may_be_proven_later() {
        true => ReplyOutcome::InDoubt,
        false => ReplyOutcome::NotSent,
    };
    (outcome, describe_error(&Error::NotDelivered(Box::new(delivery))))
}

/// What became of a stop, in a sentence that claims nothing that others did.
pub(super) fn describe_stop(stopped: &StoppedSession, target: &SessionName) -> String {
    let gone = |told: &&StoppedProcess| told.how == ProcessEnding::AlreadyGone;
    let gone = stopped.processes.iter().filter(gone).count();
    let held = if stopped.respawned { " It is held again by a new process." } else { "" };
    match stopped.left.len() {
        0 if stopped.was_gone_already() => {
            format!("{target} was gone already: nothing was signalled.{held}")
        }
        0 if gone > 0 => {
            let all = stopped.processes.len();
            format!("Stopped {target}; {gone} of its {all} processes were gone already.{held}")
        }
        0 => format!("Stopped {target}.{held}"),
        left => format!("{left} of its processes did not end."),
    }
}

impl TopPlace {
    pub(super) fn observe_all(&self) -> Observation {
        let source = LiveSource { scope: ObserveScope::All, ..self.source.clone() };
        source.observe_on(&self.source.machine.next_turn())
    }

    /// Sends a prompt to the session it was written for.
    pub(crate) fn deliver(&self, target: SessionName, text: String, key: String) -> WorkOutcome {
        let request = PromptRequest {
            target: target.clone(),
            text: text.clone(),
            into_working: false,
            is_command: false,
            over_person: false,
            key: Some(key),
            wait_idle: false,
            path: crate::env::lookup_variable("PATH").unwrap_or_default(),
            idle_timeout: REPLY_IDLE_TIMEOUT,
            accept_timeout: REPLY_ACCEPT_TIMEOUT,
        };
        let mut observe = || Ok(self.observe_all());
        let mut ledger = ControlLedger::new(&self.source.machine.next_turn());
        let delivered = deliver_prompt(&self.terminals, &request, &mut ledger, &mut observe);
        let (outcome, receipt) = match delivered {
            Ok(delivery) => describe_delivery(delivery),
            Err(error) => {
                let outcome = match &error {
                    // The host may have pressed Enter before it went.
                    PromptError::Terminal(_) | PromptError::Unfinished(..) => ReplyOutcome::InDoubt,
                    _ => ReplyOutcome::NotSent,
                };
                (outcome, describe_error(&Error::from(error)))
            }
        };
        WorkOutcome::Delivered { target, text, receipt, outcome }
    }

    /// What would be signalled to stop a session's agent.
    pub(crate) fn plan_stop(&self, target: &SessionName) -> WorkOutcome {
        let observation = self.observe_all();
        let is_it = |session: &model::session::Session| session.session_name() == *target;
        let Some(one) = observation.sessions.iter().find(|one| is_it(&one.session)) else {
            return WorkOutcome::Said("It is no longer there.".to_owned());
        };
        let plan = match plan_stop(&observation, one, &self.terminals, &[]) {
            Ok(plan) => plan,
            Err(error) => return WorkOutcome::Said(describe_error(&Error::from(error))),
        };
        let mut page = format!("Stop {target}?\n\n");
        for told in plan.preview().processes {
            let process = told.process;
            page.push_str(&format!(
                "pid {} {} (started {}) would end\n",
                process.pid.unwrap_or(0),
                text::one_line(process.comm.as_deref().unwrap_or("")),
                process.start.map_or_else(|| "?".to_owned(), |start| start.to_string()),
            ));
        }
        page.push_str(
            "\nIt is asked first; what is left after 10 s is ended. Nothing is deleted.\n",
        );
        page.push_str("y stops it; any other key does nothing.");
        WorkOutcome::Plan {
            text: PaneText::of_page(&page),
            mode: TopMode::Confirm(TopConsent::Stop(target.clone())),
            plan: KeptPlan::Stop(Box::new(plan)),
        }
    }

    /// Stops what was shown.
    pub(crate) fn carry_out_stop(&self, plan: StopPlan, target: &SessionName) -> WorkOutcome {
        let options = StopOptions { grace: AGENT_STOP_GRACE, now: false, turn_only: false };
        let watched = plan.watched_agent().cloned();
        let look_again = || self.glance_at(target, watched.as_ref());
        let stopped = plan.carry_out(&options, &self.terminals, &look_again);
        said(stopped.map_err(Error::from).map(|stopped| describe_stop(&stopped, target)))
    }

    /// What is true of a session by now. A terminal does what `within` does, the agent in it.
    fn glance_at(&self, name: &SessionName, within: Option<&SessionName>) -> Option<SessionGlance> {
        if name.agent == "terminal" {
            let hosted = self.terminals.open_session(&name.id).ok()?;
            let held = hosted.as_settled().status().is_active();
            let agent = within.and_then(|agent| self.glance_at(agent, None));
            let activity = agent.map_or(Activity::Unknown, |agent| agent.activity);
            return Some(SessionGlance { held, activity });
        }
        let seen = self.observe_all();
        let one = seen.sessions.iter().find(|one| one.session.session_name() == *name)?;
        Some(SessionGlance {
            held: proven_owners(&one.session).next().is_some(),
            activity: one.verdict.activity.unwrap_or(Activity::Unknown),
        })
    }

    fn gc_request(&self) -> GcRequest {
        GcRequest {
            include: Vec::new(),
            older_than_ms: None,
            max_bytes: None,
            keep: Vec::new(),
            agents: Vec::new(),
            retention: self.source.config.retention.clone(),
            runtime: self.source.machine.runtime().to_owned(),
            variables: std::collections::BTreeMap::new(),
            adapter_roots: self.source.config.adapter_roots.clone(),
        }
    }

    fn plan_gc(&self, ask: &mut GcRequest) -> GcResult {
        gc::plan_gc_here(ask, &self.source.machine.next_turn()).into_preview()
    }

    /// What may be cleaned up, with reasons.
    pub(crate) fn plan_clean_up(&self) -> WorkOutcome {
        let mut ask = self.gc_request();
        let preview = self.plan_gc(&mut ask);
        let going: Vec<_> =
            preview.items.iter().filter(|item| item.action == ItemFate::WouldGo).collect();
        if going.is_empty() {
            return WorkOutcome::Said("There is nothing to clean up.".to_owned());
        }
        let things = text::format_plural(preview.count, "thing");
        let size = text::format_bytes(preview.bytes);
        let mut page = format!("{things}, {size} (plan {})\n\n", preview.plan);
        for item in going.iter().take(MAX_LISTED_ITEMS) {
            let one = &item.item;
            page.push_str(&format!("{}: {}\n", one.kind.as_str(), one.why));
            let path = text::home_as_tilde(&one.path);
            page.push_str(&format!("  {} · {path}\n", text::format_bytes(one.bytes)));
        }
        page.push_str("\ny moves them to the trash, u brings them back.");
        let paths: HashSet<String> = going.iter().map(|item| item.item.path.clone()).collect();
        let plan = preview.plan.clone();
        WorkOutcome::Plan {
            text: PaneText::of_page(&page),
            mode: TopMode::Confirm(TopConsent::CleanUp { plan: plan.clone() }),
            plan: KeptPlan::CleanUp { ask: Box::new(ask), consent: GcConsent { plan, paths } },
        }
    }

    /// Cleans up what was shown, or nothing if it is another plan by now.
    pub(crate) fn carry_out_clean_up(&self, ask: GcRequest, consent: GcConsent) -> WorkOutcome {
        sys::pause::pause_at("top.consented");
        let mut again = self.gc_request();
        let now = self.plan_gc(&mut again);
        if now.plan != consent.plan {
            return WorkOutcome::Said(
                "Refused: the plan is another one now. c shows it again; nothing was moved."
                    .to_owned(),
            );
        }
        let work = Work::Gc { ask: Box::new(ask), consent };
        match self.have_done(&work) {
            Ok(WorkDone::Gc(result)) => {
                let things = text::format_plural(result.count, "thing");
                let bytes = text::format_bytes(result.bytes);
                let sentence =
                    format!("{things}, {bytes}, moved to the trash; u brings them back.");
                match result.receipt {
                    Some(receipt) => WorkOutcome::CleanedUp { receipt: Some(receipt), sentence },
                    None => WorkOutcome::Said("Nothing was there to be moved any more.".to_owned()),
                }
            }
            Ok(_) => said(Err(error::unexpected_answer())),
            Err(error) => said(Err(error)),
        }
    }

    fn have_done(&self, work: &Work) -> Result<WorkDone, Error> {
        let done = carry_out_work(work, &self.source.machine.next_turn(), &mut |_, _| {});
        done.map(|(done, _)| done).map_err(Error::Order)
    }

    /// Brings back what was cleaned up under this receipt. What is not brought back can be tried again.
    pub(crate) fn undo(&self, receipt: String) -> WorkOutcome {
        let work = Work::Undo { receipt: Some(receipt.clone()), beside: false };
        let error = match self.have_done(&work) {
            Ok(WorkDone::Undo(result)) => {
                let stays = result.items.iter().filter(|item| item.refused.is_some()).count();
                let sentence = match stays {
                    0 => format!("What was cleaned up is back (receipt {receipt})."),
                    stays => format!(
                        "{stays} of {} things stay in the trash; `ostler undo {receipt}` says why.",
                        result.items.len()
                    ),
                };
                let receipt = (stays > 0).then_some(receipt);
                return WorkOutcome::CleanedUp { receipt, sentence };
            }
            Ok(_) => error::unexpected_answer(),
            Err(error) => error,
        };
        WorkOutcome::CleanedUp { receipt: Some(receipt), sentence: describe_error(&error) }
    }

    /// Pins a session, or takes its pin away.
    pub(crate) fn pin(&self, target: SessionName, remove: bool) -> WorkOutcome {
        let words = if remove { "not pinned any more" } else { "pinned: never collected" };
        let told = format!("{target} is {words}.");
        let work = Work::Pin { sessions: vec![target], note: None, remove };
        said(self.have_done(&work).map(|_| told))
    }

    /// Which sessions would be ended because their agents are gone.
    pub(crate) fn plan_finalize(&self) -> WorkOutcome {
        let machine = &self.source.machine.next_turn();
        let budget = CONDENSE_TIME_BUDGET;
        let request = flows::finalize::SweepRequest { machine, only: &[], budget };
        let swept = match flows::finalize::preview_sweep(&request) {
            Ok(swept) => swept,
            Err(error) => {
                return WorkOutcome::Said(describe_error(&Error::Order(error.into())));
            }
        };
        let sessions: Vec<String> =
            swept.ended.iter().map(|one| format!("{}:{}", one.agent, one.session)).collect();
        if sessions.is_empty() {
            return WorkOutcome::Said("There is nothing to finalize.".to_owned());
        }
        let mut page = "These sessions' agents are gone:\n\n".to_owned();
        for one in &swept.ended {
            page.push_str(&format!("{}:{}  {}\n", one.agent, one.session, one.reason));
        }
        page.push_str("\ny ends them and keeps a summary; any other key does nothing.");
        WorkOutcome::Plan {
            text: PaneText::of_page(&page),
            mode: TopMode::Confirm(TopConsent::Finalize { sessions: sessions.clone() }),
            plan: KeptPlan::Finalize { sessions },
        }
    }

    /// Ends the sessions that were shown.
    pub(crate) fn carry_out_finalize(&self, sessions: &[String]) -> WorkOutcome {
        let machine = &self.source.machine.next_turn();
        let budget = CONDENSE_TIME_BUDGET;
        let request = flows::finalize::SweepRequest { machine, only: sessions, budget };
        let swept = flows::work::sweep_as_writer(&request, AskLimits::LONG);
        said(swept.map_err(Error::Order).map(|swept| {
            let ended = text::format_plural(swept.ended.len() as u64, "session");
            format!("{ended} ended.")
        }))
    }
}
