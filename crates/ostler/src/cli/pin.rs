//! `ostler pin`

use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::observe::ObserveScope;
use flows::pins;
use flows::work::carry_out_work;
use flows::writer::{Work, WorkDone};
use model::wire::{PinResult, PinView};

use crate::cli::{CliContext, complete};
use crate::error::{self, Error};
use crate::render::{duration, output, text};

declare_commands![CommandEntry {
    place: HelpPlace(CleanUp, 5),
    effect: WritesState,
    answers: &[answer::<wire::PinResult>()],
    examples: &[
        example("pin 666e4f9b --note keep", "Never collect it, whatever its age."),
        example("pin", "What is pinned.")
    ],
    cases: &[
        empty("pin"),
        usual("pin").after(&["pin 666e4f9b --note keep"]),
        refused("pin no-such-session").on(Worked),
        also("pin"),
        also("pin 666e4f9b --note keep"),
        also("pin 666e4f9b --remove").after(&["pin 666e4f9b --note keep"])
    ],
    uncased: &[ONE_FILE],
    ..entry!("pin", PinArgs, run_pin)
}];

/// Keep sessions for good: whatever is pinned is never collected.
///
/// Neither age nor size nor `--yes` takes it: its terminal, its transcript, its copies in the vault, the
/// worktree it worked in. Without a session, lists what is pinned.
#[derive(Debug, Args)]
pub(crate) struct PinArgs {
    /// The sessions: ids, unambiguous prefixes, names, `.` or `-`.
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(complete::complete_sessions))]
    sessions: Vec<String>,
    /// Take the pin away.
    #[arg(long, requires = "sessions")]
    remove: bool,
    /// Why, for whoever reads the list.
    #[arg(long, value_name = "TEXT", requires = "sessions", conflicts_with = "remove")]
    note: Option<String>,
}

impl PinArgs {
    pub(crate) fn run_pin(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine()?;
        if self.sessions.is_empty() {
            return print_pins(context, &pins::list_pins(machine.home())?);
        }
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let here = context.current_dir();
        let find = |text: &String| pins::find_pinnable(&observation, text, &here, self.remove);
        let sessions = self.sessions.iter().map(find).collect::<Result<_, _>>()?;
        let work = Work::Pin { sessions, note: self.note.clone(), remove: self.remove };
        let done = carry_out_work(&work, machine, &mut |_, _| {});
        match done.map_err(Error::Order)? {
            (WorkDone::Pin(result), transport) => {
                let transport = Some(transport.as_str().to_owned());
                print_pins(context, &PinResult { transport, ..result })
            }
            _ => Err(error::unexpected_answer()),
        }
    }
}

fn print_pins(context: &CliContext, result: &PinResult) -> Result<ExitCode, Error> {
    if context.json {
        context.print_json(result)?;
    } else {
        let mut page: String = result.pins.iter().map(|pin| pin_line(context, pin)).collect();
        if page.is_empty() {
            page.push_str("nothing is pinned\n");
        }
        output::print_text(&page)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn pin_line(context: &CliContext, pin: &PinView) -> String {
    let state = match (pin.pinned, pin.changed) {
        (true, _) => "pinned",
        (false, true) => "not pinned any more",
        (false, false) => "was not pinned",
    };
    let mut line = format!("{state} {}:{}", pin.agent, pin.session);
    if let Some(at) = pin.pinned_at {
        line.push_str(&format!("  {}", duration::age_phrase(context.now.since(at))));
    }
    if let Some(note) = &pin.note {
        line.push_str(&format!("  {note}"));
    }
    text::one_line(&line) + "\n"
}
