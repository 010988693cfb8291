//! `ostler badge`

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use flows::badge::count_badge;
use flows::observe::ObserveScope;
use flows::writer::ask_badge;
use model::wire::BadgeResult;
use sys::machine::Machine;

use crate::cli::CliContext;
use crate::error::{self, Error};
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(See, 5),
    answers: &[answer::<wire::BadgeResult>()],
    examples: &[
        example("badge", "Who waits, who works, of whom nothing is known."),
        example("badge --format tmux", "In colours, for tmux's status line."),
        example("badge --json", "As numbers.")
    ],
    cases: &[
        empty("badge"),
        empty("badge --format waybar"),
        usual("badge"),
        refused("badge --format dzen"),
        incomplete("badge"),
        also("badge --format prompt"),
        also("badge --format i3")
    ],
    ..entry!("badge", BadgeArgs, run_badge)
}];

/// Say in a few characters how the agents are: ▲ need you, ● work, ? unknown.
///
/// Made for status bars and prompts: with the daemon it costs hardly more than starting a program, without it
/// as much as `ostler ls`. Agents that rest are not shown, and nothing is printed where there is nothing to say.
/// The exit code is 0, also where something could not be read, except as plain text and JSON (then 12).
#[derive(Debug, Args)]
pub(crate) struct BadgeArgs {
    /// For whom.
    #[arg(short, long, value_enum, default_value = "plain")]
    format: BadgeFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BadgeFormat {
    /// `▲2 ●3 ?1`
    Plain,
    /// The same with tmux's colours.
    Tmux,
    /// JSON for waybar's custom modules: text, alt, class, tooltip.
    Waybar,
    /// JSON for i3blocks: full_text, short_text, color.
    I3,
    /// For shells' prompts: with a space behind it, or nothing at all.
    Prompt,
}

/// One sign, its number, what it means, and its colours in tmux and in JSON.
struct BadgePart {
    sign: char,
    count: usize,
    meaning: &'static str,
    class: &'static str,
    tmux: &'static str,
    colour: &'static str,
}

impl BadgeArgs {
    pub(crate) fn run_badge(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let counts = match ask_badge(context.machine()?) {
            Some(counts) => counts,
            None => {
                let observation = context.observe_now(ObserveScope::Active, &[])?;
                let counts = count_badge(&observation, context.now);
                // The process ends now; taking it apart first only costs time.
                std::mem::forget(observation);
                counts
            }
        };
        if context.json {
            context.print_json(counts)?;
            return Ok(exit_code(BadgeFormat::Plain, &counts));
        }
        output::print_text(&render_badge(self.format, &counts))?;
        Ok(exit_code(self.format, &counts))
    }
}

/// Answers from the daemon without building the command tree: a prompt waits. `None` when there is none
/// that knows, or the arguments are not the usual ones.
pub(crate) fn run_without_parser(arguments: &[OsString]) -> Option<ExitCode> {
    let words: Vec<&str> = arguments.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
    let format = match words.as_slice() {
        [] => BadgeFormat::Plain,
        ["--format" | "-f", format] => BadgeFormat::from_str(format, false).ok()?,
        [word] => BadgeFormat::from_str(word.strip_prefix("--format=")?, false).ok()?,
        _ => return None,
    };
    let counts = ask_badge(&Machine::here().ok()?)?;
    // A reader that is gone has no use for an error.
    match output::print_text(&render_badge(format, &counts)) {
        Ok(()) => Some(exit_code(format, &counts)),
        Err(_) => Some(ExitCode::SUCCESS),
    }
}

fn exit_code(format: BadgeFormat, counts: &BadgeResult) -> ExitCode {
    match counts.incomplete > 0 && format == BadgeFormat::Plain {
        true => error::exit_code_of("INCOMPLETE"),
        false => ExitCode::SUCCESS,
    }
}

fn badge_parts(counts: &BadgeResult) -> Vec<BadgePart> {
    let parts = [
        BadgePart {
            sign: '▲',
            count: counts.needs_you,
            meaning: "need you",
            class: "needs-you",
            tmux: "fg=red,bold",
            colour: "#ff5f5f",
        },
        BadgePart {
            sign: '●',
            count: counts.working,
            meaning: "work",
            class: "working",
            tmux: "fg=green",
            colour: "#87d787",
        },
        BadgePart {
            sign: '?',
            count: counts.unknown,
            meaning: "unknown",
            class: "unknown",
            tmux: "fg=yellow",
            colour: "#d7af5f",
        },
    ];
    parts.into_iter().filter(|part| part.count > 0).collect()
}

fn render_badge(format: BadgeFormat, counts: &BadgeResult) -> String {
    let parts = badge_parts(counts);
    let join = |render: &dyn Fn(&BadgePart) -> String| {
        parts.iter().map(render).collect::<Vec<_>>().join(" ")
    };
    let plain = text::for_locale(join(&|part| format!("{}{}", part.sign, part.count)));
    let first = parts.first();
    match format {
        BadgeFormat::Plain if plain.is_empty() => String::new(),
        BadgeFormat::Plain => plain + "\n",
        BadgeFormat::Prompt if plain.is_empty() => String::new(),
        BadgeFormat::Prompt => plain + " ",
        BadgeFormat::Tmux => {
            let line =
                join(&|part| format!("#[{}]{}{}#[default]", part.tmux, part.sign, part.count));
            text::for_locale(line) + "\n"
        }
        BadgeFormat::Waybar => {
            let class = first.map_or("idle", |part| part.class);
            let mut tooltip = join(&|part| format!("{} {},", part.count, part.meaning));
            tooltip.push_str(&format!(" {} idle", counts.idle));
            let line = serde_json::json!({
                "text": plain, "alt": class, "class": class, "tooltip": tooltip.trim_start(),
            });
            format!("{line}\n")
        }
        BadgeFormat::I3 => {
            let short = first.map(|part| text::for_locale(format!("{}{}", part.sign, part.count)));
            let mut line = serde_json::json!({
                "full_text": plain, "short_text": short.unwrap_or_default(),
            });
            if let Some(part) = first {
                line["color"] = part.colour.into();
            }
            format!("{line}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: BadgeResult =
        BadgeResult { needs_you: 2, working: 3, idle: 4, unknown: 1, incomplete: 0 };

    #[test]
    fn row_17_every_bar_gets_its_own_form() {
        assert_eq!(render_badge(BadgeFormat::Plain, &BUSY), "▲2 ●3 ?1\n");
        assert_eq!(render_badge(BadgeFormat::Prompt, &BUSY), "▲2 ●3 ?1 ");
        let tmux = render_badge(BadgeFormat::Tmux, &BUSY);
        assert!(tmux.starts_with("#[fg=red,bold]▲2#[default] #[fg=green]●3"), "{tmux}");
        let waybar: serde_json::Value =
            serde_json::from_str(&render_badge(BadgeFormat::Waybar, &BUSY)).unwrap();
        assert_eq!(waybar["class"], "needs-you");
        assert_eq!(waybar["tooltip"], "2 need you, 3 work, 1 unknown, 4 idle");
        let i3: serde_json::Value =
            serde_json::from_str(&render_badge(BadgeFormat::I3, &BUSY)).unwrap();
        assert_eq!((&i3["short_text"], &i3["color"]), (&"▲2".into(), &"#ff5f5f".into()));
    }

    #[test]
    fn row_17_nobody_to_speak_of_is_nothing_to_say() {
        let idle = BadgeResult { idle: 3, ..BadgeResult::default() };
        assert_eq!(render_badge(BadgeFormat::Plain, &idle), "");
        assert_eq!(render_badge(BadgeFormat::Prompt, &idle), "");
        assert_eq!(render_badge(BadgeFormat::Tmux, &idle), "\n");
        assert!(render_badge(BadgeFormat::Waybar, &idle).contains("\"tooltip\":\"3 idle\""));
    }
}
