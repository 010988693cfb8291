//! `ostler top`

use std::io::IsTerminal;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use clap::Args;
use flows::observe::ObserveScope;
use flows::terminal::sight::TERMINAL_AGENT;
use model::session::SessionName;
use sys::machine::Machine;

use crate::cli::terminal::attach::AttachArgs;
use crate::cli::{CliContext, ls};
use crate::env;
use crate::error::{self, Error};
use crate::render::colour::Painter;
use crate::render::output;
use crate::top::{self, TopOptions, TopPalette, TopPlace, guard_dashboard, run_dashboard};

declare_commands![CommandEntry {
    place: HelpPlace(Everyday, 6),
    answers: &[answer::<wire::TopResult<'static>>()],
    examples: &[
        example("top --once", "Who needs you, in one look."),
        example("top --once --json", "The same for programs, by group."),
        example("top", "The dashboard: n goes to the next that needs you, ? lists the keys.")
    ],
    cases: &[
        empty("top --once"),
        usual("top --once --all --filter agent:codex"),
        refused("top --once --filter is:zombie"),
        incomplete("top --once --all --filter agent:codex"),
        also("top --once"),
        also("top --once --all")
    ],
    ..entry!("top", TopArgs, run_top)
}];

/// Show who needs you: a dashboard of every session, with its terminal, its talk and its evidence.
///
/// Those that wait for you come first; `n` goes from one to the next, Enter attaches, `i` types into the
/// terminal that is shown, `r` sends a prompt, `w` says why, `?` lists all keys. It is told of changes
/// and rests otherwise. Without a terminal, or with --once, it prints one look and ends.
#[derive(Debug, Default, Args)]
#[command(visible_aliases = ["dashboard", "d"])]
pub(crate) struct TopArgs {
    /// Print one look and end.
    #[arg(long)]
    once: bool,
    /// Ended sessions, too.
    #[arg(short, long)]
    all: bool,
    /// Only sessions that these words fit; as in `ostler ls --filter`.
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Signs of ASCII only.
    #[arg(long)]
    ascii: bool,
    /// No full screen: a numbered list, a line for each change, commands by word.
    #[arg(long, conflicts_with = "once")]
    accessible: bool,
    /// The line to the process that gives the terminal back if this one cannot.
    #[arg(long, hide = true, value_name = "NUMBER")]
    below_guard: Option<i32>,
    /// Only terminals, as agent-tty's dashboard has them.
    #[arg(skip)]
    pub(crate) terminals_only: bool,
    /// Begin with this session.
    #[arg(skip)]
    pub(crate) begin_with: Option<String>,
}

impl TopArgs {
    /// The dashboard of terminals alone.
    pub(crate) fn of_terminals(all: bool, session: Option<String>, guard: Option<i32>) -> Self {
        Self {
            all,
            below_guard: guard,
            terminals_only: true,
            begin_with: session,
            ..Self::default()
        }
    }

    fn scope(&self, words: &model::filter::FilterWords) -> ObserveScope {
        match self.all || words.wants_ended() {
            true => ObserveScope::All,
            false => ObserveScope::Active,
        }
    }

    fn palette(&self) -> TopPalette {
        TopPalette {
            has_colour: Painter::for_stdout().has_colour(),
            is_ascii: self.ascii || env::is_ascii_locale() || env::is_wide_locale(),
        }
    }

    pub(crate) fn run_top(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let words = ls::parse_filter(self.filter.as_deref(), context.now)?;
        let is_seen = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        if self.once || context.json || !is_seen {
            return self.print_once(context, &words);
        }
        if self.accessible || env::is_accessible() || env::dumb_terminal() {
            let attach = |terminal: &str| join_terminal(context, terminal);
            return top::run_accessible(self.place(context, &words)?, &attach);
        }
        match self.below_guard {
            None => guard_dashboard(),
            Some(number) => self.open_dashboard(context, &words, number),
        }
    }

    fn place(
        &self,
        context: &CliContext,
        words: &model::filter::FilterWords,
    ) -> Result<TopPlace, Error> {
        let agents = match self.terminals_only {
            true => vec![TERMINAL_AGENT.to_owned()],
            false => Vec::new(),
        };
        let terminals = context.terminals_home()?;
        let mut source = context.live_source(self.scope(words), &agents)?;
        if self.terminals_only {
            source.machine = Machine::with_home(terminals.root.clone());
        }
        Ok(TopPlace { source, terminals })
    }

    fn print_once(
        &self,
        context: &CliContext,
        words: &model::filter::FilterWords,
    ) -> Result<ExitCode, Error> {
        let observation = context.observe_now(self.scope(words), &[])?;
        let shows_ended = self.all || words.wants_ended();
        if context.json {
            let result = top::grouped_result(&observation, words, shows_ended, context.now);
            context.print_json(result)?;
        } else {
            let page =
                top::render_once(&observation, words, shows_ended, self.palette(), context.now);
            output::print_text(&page)?;
            ls::report_incomplete(&observation.incomplete);
        }
        Ok(error::exit_code_for(&observation.incomplete))
    }

    fn open_dashboard(
        &self,
        context: &CliContext,
        words: &model::filter::FilterWords,
        guard: i32,
    ) -> Result<ExitCode, Error> {
        let guard = sys::spawn::take_passed(guard).map(UnixStream::from);
        let settings = context.load_config()?.top;
        let attach = |terminal: &str| join_terminal(context, terminal);
        let selected = self.begin_with.as_ref().map(|id| SessionName::new(TERMINAL_AGENT, id));
        let options = TopOptions {
            palette: self.palette(),
            has_truecolor: env::has_truecolor(),
            mouse: settings.mouse,
            pane: settings.preview,
            by_project: settings.by_project,
            shows_ended: self.all,
            filter: self.filter.clone().unwrap_or_default(),
            keys: settings.keys,
            selected,
            attach: &attach,
            guard: guard.as_ref(),
        };
        run_dashboard(self.place(context, words)?, options)
    }
}

fn join_terminal(context: &CliContext, terminal: &str) -> Result<(), Error> {
    AttachArgs::of_terminal(terminal).run_attach(context).map(|_| ())
}
