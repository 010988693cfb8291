//! Sessions as people see them.

use std::fmt::Write;

use flows::observe::Observed;
use flows::resume::tmux_line;
use model::hosted::ProgramExit;
use model::rules::judge::{self, Verdict};
use model::rules::pins::PinRecord;
use model::session::{Certainty, ProcessClaim, Session, SessionKind};
use model::time::Time;
use model::wire::{Evidence, LaunchView, TmuxPane};

use crate::render::colour::{Colour, Painter};
use crate::render::fields::FieldPage;
use crate::render::{duration, text};

/// Whether the session is called live, over or busy by circumstances only.
pub(crate) fn is_derived(one: &Observed) -> bool {
    let liveness = one.verdict.liveness;
    let by_circumstances =
        (liveness.is_alive() || liveness.is_dead()) && one.verdict.certainty == Certainty::Derived;
    by_circumstances || (liveness.is_alive() && one.verdict.activity_derived)
}

/// What ostler itself wrote down about a session.
#[derive(Clone, Copy, Default)]
pub(crate) struct SessionNotes<'a> {
    pub(crate) pin: Option<&'a PinRecord>,
    pub(crate) launch: Option<&'a LaunchView>,
    pub(crate) exit: Option<&'a ProgramExit>,
    pub(crate) tmux: Option<&'a TmuxPane>,
}

/// One session in full.
pub(crate) fn render_session_details(
    one: &Observed,
    notes: SessionNotes<'_>,
    now: Time,
    paint: Painter,
) -> String {
    let mut lines = DetailLines { page: FieldPage::new(paint), now };
    lines.add_verdict(one);
    lines.add_notes(one, notes);
    lines.add_digest(&one.session);
    lines.page.into_text()
}

/// What is known of a session, as fields.
struct DetailLines {
    page: FieldPage,
    now: Time,
}

impl DetailLines {
    fn add(&mut self, name: &str, value: Option<String>) {
        self.page.push_field(name, value.as_deref().unwrap_or_default());
    }

    fn add_time(&mut self, name: &str, time: Option<Time>) {
        let time = time.map(|time| {
            let age = duration::age_phrase(self.now.since(time));
            format!("{} ({age})", duration::local_time(time))
        });
        self.add(name, time);
    }

    fn add_verdict(&mut self, one: &Observed) {
        let (session, verdict, digest) = (&one.session, &one.verdict, &one.session.digest);
        self.add("id", Some(session.id.clone()));
        self.add("agent", Some(join_details(session.agent, digest.version.as_deref())));
        self.add("title", session.display_title().map(str::to_owned));
        self.add("name", digest.name.clone());
        self.add("status", Some(verdict.status.as_str().to_owned()));
        let activity = verdict.activity.map(|activity| {
            let stale = if verdict.stale { ", stale: no sign of life" } else { "" };
            match judge::waiting_for(session, verdict) {
                Some(reason) => format!("{} for {reason}{stale}", activity.as_str()),
                None => format!("{}{stale}", activity.as_str()),
            }
        });
        self.add("activity", activity);
        let certainty = match verdict.certainty {
            Certainty::Proven => "proven",
            Certainty::Derived => "derived",
        };
        let (state, reason) = (verdict.liveness.as_str(), verdict.liveness.reason_code());
        self.add("liveness", Some(format!("{state} ({reason}), {certainty}")));
        self.add_processes(session, verdict);
    }

    fn add_processes(&mut self, session: &Session, verdict: &Verdict) {
        let claim = verdict.decided_by.map(|index| &session.claims[index]);
        let owners: Vec<&ProcessClaim> = match verdict.liveness.is_alive() {
            true => judge::proven_owners(session).collect(),
            false => Vec::new(),
        };
        let derived = claim.filter(|_| verdict.liveness.is_alive() && owners.is_empty());
        for claim in owners.iter().copied().chain(derived) {
            let Some(pid) = claim.identity.pid else { continue };
            let name = claim.identity.exe.as_deref().or(claim.identity.comm.as_deref());
            let does = claim.activity.filter(|_| owners.len() > 1);
            let name = match (name, does) {
                (Some(name), Some(does)) => Some(format!("{name}, {}", does.as_str())),
                (name, _) => name.map(str::to_owned),
            };
            self.add("process", Some(join_details(&format!("pid {pid}"), name.as_deref())));
        }
    }

    fn add_notes(&mut self, one: &Observed, notes: SessionNotes<'_>) {
        let exit = notes.exit.map(|exit| match (&exit.exit_signal, exit.exit_code) {
            (Some(signal), _) => format!("signal {signal}"),
            (None, code) => format!("code {}", code.unwrap_or_default()),
        });
        self.add("exit", exit);
        let shows = notes.tmux.map(|tmux| format!("{} of tmux: {}", tmux.pane, tmux_line(tmux)));
        self.add("pane", shows);
        self.add("warning", open_twice(one));
        self.add("held by", held_by_server(one));
        self.add("pinned", notes.pin.map(|pin| render_pin(pin, self.now)));
        let made_for = notes.launch.map(|launch| {
            let pid = launch.pid.map(|pid| format!("(pid {pid})"));
            join_details(&launch.agent, pid.as_deref())
        });
        self.add("made for", made_for);
    }

    fn add_digest(&mut self, session: &Session) {
        let digest = &session.digest;
        self.add("directory", digest.cwd.as_deref().map(text::home_as_tilde));
        self.add("branch", digest.branch.clone());
        let models = digest.model.iter().chain(&digest.other_models).cloned().collect::<Vec<_>>();
        self.add("model", Some(models.join(", ")));
        self.add_time("started", digest.started_at);
        self.add_time("last active", session.last_activity_at());
        // A terminal takes no turns: the agent in it does.
        let takes_turns = session.kind == SessionKind::Native && session.transcript.is_some();
        self.add("turns", takes_turns.then(|| digest.turns.to_string()));
        let tokens = digest.tokens.map(|tokens| {
            format!(
                "{} in, {} out, {} cache read, {} cache write",
                text::format_count(tokens.input),
                text::format_count(tokens.output),
                text::format_count(tokens.cache_read),
                text::format_count(tokens.cache_write)
            )
        });
        self.add("tokens", tokens);
        self.add("cost", digest.cost_micro_usd.map(|cost| format!("${:.4}", cost as f64 / 1e6)));
        self.add("parent", digest.parent.clone());
        for other in &session.linked {
            let name = if session.kind == SessionKind::Hosted { "runs" } else { "runs in" };
            self.add(name, Some(join_details(other.agent, Some(&other.id))));
        }
        self.add("resume", flows::resume::resume_line(session));
        let transcript = session.transcript.as_ref().map(|transcript| {
            format!("{} ({})", transcript.path.display(), text::format_bytes(transcript.bytes))
        });
        self.add("transcript", transcript);
    }
}

/// That one conversation is open in several processes, which overwrite each other's work.
pub(crate) fn open_twice(one: &Observed) -> Option<String> {
    let pids: Vec<String> = judge::proven_owners(&one.session)
        .filter_map(|claim| Some(claim.identity.pid?.to_string()))
        .collect();
    (pids.len() > 1 && one.session.kind == SessionKind::Native).then(|| {
        format!("{} is open in {} processes: pids {}", one.session.id, pids.len(), pids.join(", "))
    })
}

/// That a server of the agent's holds a conversation, and whether anybody could be looking at it.
pub(crate) fn held_by_server(one: &Observed) -> Option<String> {
    let claims = &one.session.claims;
    let (claim, shared) = claims.iter().find_map(|claim| Some((claim, claim.shared?)))?;
    let (agent, pid) = (one.session.agent, claim.identity.pid?);
    let conversations = text::format_plural(shared.conversations.into(), "conversation");
    let attached = match shared.windows {
        0 => format!("; no {agent} runs in its directory, so nobody is attached"),
        _ => String::new(),
    };
    Some(format!("{agent}'s server (pid {pid}), which has {conversations}{attached}"))
}

/// The same, where it explains a session without a viewer.
pub(crate) fn left_with_server(one: &Observed) -> Option<String> {
    let left = one.session.claims.iter().any(|claim| {
        claim.shared.is_some_and(|shared| shared.windows == 0) && claim.liveness.is_alive()
    });
    let held = held_by_server(one).filter(|_| left)?;
    Some(format!("{} is held by {held}", one.session.id))
}

fn render_pin(pin: &PinRecord, now: Time) -> String {
    let since = duration::age_phrase(now.since(pin.at));
    match &pin.note {
        Some(note) => format!("{since}: {note}"),
        None => since,
    }
}

fn join_details(first: &str, second: Option<&str>) -> String {
    match second {
        Some(second) => format!("{first} {second}"),
        None => first.to_owned(),
    }
}

/// The chain of evidence.
pub(crate) fn render_evidence(evidence: &[Evidence], paint: Painter) -> String {
    let mut out = String::new();
    for one in evidence {
        let age = duration::age_phrase(std::time::Duration::from_millis(one.age_ms));
        let _ = writeln!(out, "• {}: {}", text::one_line(&one.fact), text::one_line(&one.value));
        let origin = format!("  {}, {age}", text::one_line(&one.source));
        let _ = writeln!(out, "{}", paint.paint(Colour::Dim, &origin));
        let _ = writeln!(out, "  → {}", text::one_line(&one.effect));
    }
    text::for_locale(out)
}
