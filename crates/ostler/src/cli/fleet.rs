//! `ostler fleet`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use model::helper::{FleetAsk, HelperAsk, OperatorEnd};
use model::time::Time;
use model::wire::{
    FleetAdmitResult, FleetDepartureResult, FleetDoctorResult, FleetInitResult, FleetJoinResult,
    FleetLevel, FleetOperatorsResult, FleetStatusResult, MemberView, SessionCounts,
};
use serde::de::DeserializeOwned;

use crate::cli::CliContext;
use crate::error::{self, Error};
use crate::helper;
use crate::render::{duration, output, text};

declare_commands![
    CommandEntry {
        place: HelpPlace(SetUp, 6),
        usual_member: "status",
        ..entry!("fleet", FleetArgs, run_fleet_command)
    },
    CommandEntry {
        place: HelpPlace(SetUp, 1),
        effect: WritesState,
        answers: &[answer::<wire::FleetInitResult>()],
        examples: &[example(
            "fleet init --advertise server.example.org",
            "Make this machine the hub, by the name that the others reach it by."
        )
        .on(Afar)],
        cases: &[refused("fleet init --no-such-option")],
        uncased: &[(Usual, NEEDS_ENGINE), ONE_HOME, ONE_PROGRAM],
        ..entry!("fleet init")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 2),
        examples: &[
            example("fleet hub", "Run it; `fleet init` prints a unit for systemd.").on(Afar)
        ],
        cases: &[refused("fleet hub")],
        uncased: &[(Usual, NEEDS_ENGINE), ONE_HOME, ONE_PROGRAM],
        ..entry!("fleet hub")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 3),
        effect: WritesState,
        answers: &[answer::<wire::FleetJoinResult>()],
        examples: &[
            example("fleet join --name laptop", "Ask: it prints the line for the hub.").on(Afar),
            example("fleet join LINE", "Be a member, with the line that `fleet admit` printed.")
                .on(Afar)
        ],
        cases: &[refused("fleet join --no-such-option")],
        uncased: &[(Usual, NEEDS_ENGINE), ONE_HOME, ONE_PROGRAM],
        ..entry!("fleet join")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 4),
        effect: WritesState,
        answers: &[answer::<wire::FleetAdmitResult>()],
        examples: &[
            example("fleet admit LINE", "With the line that `fleet join` printed.").on(Afar)
        ],
        cases: &[refused("fleet admit ostler-join:x")],
        uncased: &[(Usual, NEEDS_ENGINE), ONE_HOME, ONE_PROGRAM],
        ..entry!("fleet admit")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 5),
        effect: WritesState,
        answers: &[answer::<wire::FleetDepartureResult>()],
        examples: &[example("fleet leave", "This machine is a member no longer.").on(Afar)],
        cases: &[refused("fleet leave")],
        uncased: &[(Usual, NEEDS_ENGINE), ONE_HOME, ONE_PROGRAM],
        ..entry!("fleet leave")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 6),
        effect: WritesState,
        answers: &[answer::<wire::FleetDepartureResult>()],
        examples: &[example("fleet evict laptop", "On the hub: it is a member no longer.").on(Afar)],
        cases: &[refused("fleet evict nobody")],
        uncased: &[(Usual, NEEDS_ENGINE), ONE_HOME, ONE_PROGRAM],
        ..entry!("fleet evict")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 7),
        effect: WritesState,
        answers: &[answer::<wire::FleetOperatorsResult>()],
        examples: &[
            example("fleet operator", "On the hub: who may do what.").on(Afar),
            example("fleet operator laptop --level drive", "It may prompt agents elsewhere, too.")
                .on(Afar)
        ],
        cases: &[refused("fleet operator")],
        uncased: &[(Usual, NEEDS_ENGINE), ONE_HOME, ONE_PROGRAM],
        ..entry!("fleet operator")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 8),
        answers: &[answer::<wire::FleetStatusResult>()],
        examples: &[example("fleet status", "Which members are reachable.").on(Afar)],
        cases: &[refused("fleet status")],
        uncased: &[(Usual, NEEDS_ENGINE), ONE_HOME, ONE_PROGRAM],
        ..entry!("fleet status")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 9),
        answers: &[answer::<wire::FleetDoctorResult>()],
        examples: &[example("fleet doctor", "What is wrong, and what to do about it.").on(Afar)],
        cases: &[refused("fleet doctor")],
        uncased: &[(Usual, NEEDS_ENGINE), ONE_HOME, ONE_PROGRAM],
        ..entry!("fleet doctor")
    }
];

/// Why there is no usual case here.
const NEEDS_ENGINE: &str = "it needs nats-server and other homes: tests/net/fleet.rs of crates/net";

/// See the sessions of many machines in one list.
///
/// One machine is the hub (`init`, `hub`); others join it and publish what they know of themselves, signed.
/// A machine that falls silent is unreachable since then and its sessions are unknown, never dead, and nothing
/// is ever removed because of what a hub says. docs/fleet.md shows a laptop and a server in five minutes.
#[derive(Debug, Args)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    action: FleetCommand,
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// Make this home a hub: keys, CA, configuration. Starts nothing.
    Init(FleetInitArgs),
    /// Run the hub: checks its configuration, then becomes nats-server.
    Hub,
    /// Ask to be a member, or be one with the line that `admit` gave.
    Join(FleetJoinArgs),
    /// Admit a member on the hub, with the line that its `join` gave.
    Admit(FleetAdmitArgs),
    /// Leave the fleet: the hub is told and this home's keys are given up.
    Leave,
    /// Remove a member from the hub; nothing on its machine is touched.
    Evict {
        /// Its name, or the beginning of it.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// List operators, change what one may do, or remove one.
    Operator {
        /// Whose level is changed; without it, all are listed.
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// What the operator may do: read, drive or reap; none removes the operator.
        #[arg(long, value_name = "LEVEL", requires = "name", value_parser = parse_level)]
        level: Option<FleetLevel>,
        /// Until when: a time such as 2026-12-31T18:00:00Z, or `never`; as before if nobody says.
        #[arg(long, value_name = "WHEN", requires = "name", value_parser = parse_end)]
        until: Option<OperatorEnd>,
    },
    /// Tell how every member is.
    Status(FleetTimeoutArgs),
    /// Tell what is wrong, each with its remedy.
    Doctor(FleetTimeoutArgs),
}

#[derive(Debug, Args)]
struct FleetInitArgs {
    /// Where it listens.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:4222")]
    listen: String,
    /// A name or address that members use for this machine; the first is the one they are told.
    #[arg(long, value_name = "HOST")]
    advertise: Vec<String>,
    /// The site's name.
    #[arg(long, value_name = "NAME", default_value = "main")]
    name: String,
    /// Without TLS, on this machine's own addresses only.
    #[arg(long)]
    plain: bool,
}

#[derive(Debug, Args)]
struct FleetJoinArgs {
    /// The line that `ostler fleet admit` printed on the hub.
    #[arg(value_name = "LINE")]
    answer: Option<String>,
    /// The hub as ssh names it: it is asked through ssh.
    #[arg(long, value_name = "HUB", conflicts_with = "answer")]
    ssh: Option<String>,
    /// What this member is called; this machine's name if nobody says.
    #[arg(long, value_name = "NAME", conflicts_with = "answer")]
    name: Option<String>,
    /// What this home may do to others: none, read, drive or reap.
    #[arg(long, value_name = "LEVEL", default_value = "read", value_parser = parse_level)]
    level: FleetLevel,
    /// Make new keys, for a home that was copied.
    #[arg(long, conflicts_with = "answer")]
    new: bool,
}

#[derive(Debug, Args)]
struct FleetAdmitArgs {
    /// The line that `ostler fleet join` printed on the member.
    #[arg(value_name = "LINE")]
    request: String,
    /// The most it may do to others, if it asks for that; `read` if nobody says.
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    level: Option<FleetLevel>,
    /// Until when it may do that: a time such as 2026-12-31T18:00:00Z.
    #[arg(long, value_name = "WHEN", value_parser = super::fuse::parse_time)]
    until: Option<Time>,
    /// How operators reach it by ssh when the hub does not, unless their own settings say.
    #[arg(long, value_name = "TARGET")]
    ssh: Option<String>,
    /// Wait for its first lease for so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    wait: u64,
}

#[derive(Debug, Args)]
struct FleetTimeoutArgs {
    /// How many seconds the hub is waited for.
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    timeout: u64,
}

pub(crate) fn parse_level(text: &str) -> Result<FleetLevel, String> {
    FleetLevel::parse(text).ok_or_else(|| "one of none, read, drive, reap".to_owned())
}

fn parse_end(text: &str) -> Result<OperatorEnd, String> {
    match text {
        "never" => Ok(OperatorEnd::Never),
        text => super::fuse::parse_time(text).map(OperatorEnd::At),
    }
}

impl FleetArgs {
    pub(crate) fn run_fleet_command(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let in_ms = |seconds: u64| seconds.saturating_mul(1000);
        match &self.action {
            FleetCommand::Init(init) => {
                let what = FleetAsk::Init {
                    listen: init.listen.clone(),
                    advertise: init.advertise.clone(),
                    site: init.name.clone(),
                    plain: init.plain,
                };
                print_fleet(context, &ask_fleet(context, what)?, describe_init)
            }
            FleetCommand::Hub => {
                need_fleet(context)?;
                helper::become_helper(context.machine()?, HelperAsk::Fleet { what: FleetAsk::Hub })
            }
            FleetCommand::Join(join) => {
                let result: FleetJoinResult = ask_fleet(context, join.to_ask())?;
                if result.joined {
                    helper::wake_helpers(context.machine()?);
                }
                print_fleet(context, &result, describe_join)
            }
            FleetCommand::Admit(admit) => {
                need_fleet(context)?;
                let what = FleetAsk::Admit {
                    request: admit.request.clone(),
                    level: admit.level,
                    ssh: admit.ssh.clone(),
                    until: admit.until,
                    wait_ms: in_ms(admit.wait),
                };
                print_fleet(context, &ask_fleet(context, what)?, describe_admit)
            }
            FleetCommand::Leave => {
                need_fleet(context)?;
                let result: FleetDepartureResult = ask_fleet(context, FleetAsk::Leave)?;
                helper::wake_helpers(context.machine()?);
                print_fleet(context, &result, describe_departure)
            }
            FleetCommand::Evict { name } => {
                need_fleet(context)?;
                let what = FleetAsk::Evict { member: name.clone() };
                print_fleet(context, &ask_fleet(context, what)?, describe_departure)
            }
            FleetCommand::Operator { name, level, until } => {
                need_fleet(context)?;
                let (level, until) = (*level, *until);
                let what = match name {
                    Some(name) if level.is_some() || until.is_some() => {
                        FleetAsk::SetOperator { name: name.clone(), level, until }
                    }
                    _ => FleetAsk::Operators,
                };
                print_fleet(context, &ask_fleet(context, what)?, describe_operators)
            }
            FleetCommand::Status(FleetTimeoutArgs { timeout }) => {
                need_fleet(context)?;
                let what = FleetAsk::Overview { timeout_ms: in_ms(*timeout) };
                let result: FleetStatusResult = ask_fleet(context, what)?;
                print_fleet(context, &result, describe_status)?;
                if !context.json {
                    super::ls::report_incomplete(&result.incomplete);
                }
                Ok(error::exit_code_for(&result.incomplete))
            }
            FleetCommand::Doctor(FleetTimeoutArgs { timeout }) => {
                need_fleet(context)?;
                let what = FleetAsk::Doctor { timeout_ms: in_ms(*timeout) };
                let result: FleetDoctorResult = ask_fleet(context, what)?;
                print_fleet(context, &result, describe_doctor)?;
                Ok(if result.healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            }
        }
    }
}

impl FleetJoinArgs {
    fn to_ask(&self) -> FleetAsk {
        if let Some(answer) = &self.answer {
            return FleetAsk::Joined { answer: answer.clone() };
        }
        let name = self.name.clone().unwrap_or_else(own_name);
        let (level, new) = (self.level, self.new);
        match &self.ssh {
            Some(target) => FleetAsk::JoinBySsh { target: target.clone(), name, level, new },
            None => FleetAsk::Join { name, level, new },
        }
    }
}

/// This machine's name, as a member may be called.
fn own_name() -> String {
    let name = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let name = name.trim().split('.').next().unwrap_or("").to_lowercase();
    let plain: String = name
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .take(63)
        .collect();
    if plain.is_empty() { "member".to_owned() } else { plain }
}

/// That there is no fleet here is told without the helper.
pub(crate) fn need_fleet(context: &CliContext) -> Result<(), Error> {
    match context.machine()?.home().join("fleet").exists() {
        true => Ok(()),
        false => Err(Error::Refused {
            what: "this home is in no fleet".to_owned(),
            hint: "`ostler fleet init` makes a hub, `ostler fleet join` asks to be a member; \
                   docs/fleet.md has the whole way"
                .to_owned(),
        }),
    }
}

/// Asks the helper.
pub(crate) fn ask_fleet<T: DeserializeOwned>(
    context: &CliContext,
    what: FleetAsk,
) -> Result<T, Error> {
    helper::ask_helper(context.machine()?, HelperAsk::Fleet { what })
}

fn print_fleet<T: serde::Serialize>(
    context: &CliContext,
    result: &T,
    describe: fn(&T) -> String,
) -> Result<ExitCode, Error> {
    match context.json {
        true => context.print_json(result)?,
        false => output::print_text(&describe(result))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn describe_init(result: &FleetInitResult) -> String {
    format!(
        "The hub's files are in {}\nMembers connect to {} (nats-server {})\n\n\
         Run it with `ostler fleet hub`, or as a unit:\n\n{}\n\
         Then, on each machine: `ostler fleet join`, and its line to `ostler fleet admit` here.\n",
        result.directory, result.url, result.engine, result.unit
    )
}

fn describe_join(result: &FleetJoinResult) -> String {
    match (&result.request, &result.url) {
        (Some(request), _) => format!(
            "On the hub, run:\n\n  ostler fleet admit {request}{}\n\n\
             and here: `ostler fleet join LINE` with the line that it prints. \
             Its keys are {}: the hub must say the same.\n",
            // Looking is what everybody gets.
            match result.level {
                FleetLevel::None | FleetLevel::Read => String::new(),
                level => format!(" --level {}", level.as_str()),
            },
            result.fingerprint.as_deref().unwrap_or("")
        ),
        (None, url) => format!(
            "`{}` is a member of {}. The daemon publishes it: `ostler daemon start`.\n",
            result.name,
            url.as_deref().unwrap_or("its hub")
        ),
    }
}

fn describe_admit(result: &FleetAdmitResult) -> String {
    let more = match result.asked > result.level {
        false => String::new(),
        true => format!(
            "; it asks for `{asked}`, and `--level {asked}` gives that",
            asked = result.asked.as_str()
        ),
    };
    format!(
        "admitted `{}` ({}), keys {}, as an operator: {}{more}\n\nOn that machine, run:\n\n  ostler fleet join {}\n",
        result.name,
        result.id,
        result.fingerprint,
        result.level.as_str(),
        result.answer
    )
}

fn describe_departure(result: &FleetDepartureResult) -> String {
    let told = if result.told { "" } else { "; the hub was not told: `ostler fleet evict` there" };
    format!("`{}` is no member any more{told}\n", result.name)
}

fn describe_operators(result: &FleetOperatorsResult) -> String {
    let line = |one: &model::wire::OperatorView| {
        let end = one.not_after.map_or(String::new(), |end| format!("  until {end}"));
        format!("{}  {}{end}\n", one.name, one.level.as_str())
    };
    let lines: String = result.operators.iter().map(line).collect();
    if lines.is_empty() { "there are no operators\n".to_owned() } else { lines }
}

fn describe_doctor(result: &FleetDoctorResult) -> String {
    let mut page = String::new();
    for one in &result.findings {
        page.push_str(&text::one_line(&format!("{}  {}: {}", one.grade, one.what, one.finding)));
        page.push('\n');
        if let Some(remedy) = one.remedy.as_ref().filter(|_| one.grade != "ok") {
            page.push_str(&text::one_line(&format!("  {remedy}")));
            page.push('\n');
        }
    }
    page
}

fn describe_status(result: &FleetStatusResult) -> String {
    let mut page = match (&result.hub.version, &result.hub.reason) {
        (Some(version), _) => {
            format!("hub {} (nats-server {version}), site {}\n", result.hub.url, result.site)
        }
        (None, reason) => format!(
            "hub {} cannot be reached from here: {}\n",
            result.hub.url,
            reason.as_deref().unwrap_or("no reason")
        ),
    };
    for member in &result.members {
        page.push_str(&text::one_line(&member_line(member)));
        page.push('\n');
    }
    page
}

/// One member in a line.
pub(crate) fn member_line(member: &MemberView) -> String {
    let mut line = format!("{}  {}", member.name, member.state.as_str());
    if member.here {
        line.push_str(" (here)");
    }
    if let Some(age) = member.age_ms {
        let age = std::time::Duration::from_millis(age);
        line.push_str(&format!("  heard {}", duration::age_phrase(age)));
    }
    if let Some(skew) = member.clock_skew_ms {
        line.push_str(&format!("  clock off by {} s", skew / 1000));
    }
    if let Some(SessionCounts { working, waiting, idle, unknown, ended }) = member.counts {
        let past = if member.state.vouches() { "" } else { "last said: " };
        line.push_str(&format!(
            "  {past}{working} working, {waiting} waiting, {idle} idle, {unknown} unknown, {ended} ended"
        ));
    }
    if let Some(count) = member.truncated {
        line.push_str(&format!("  {count} more not published"));
    }
    if let Some(allow) = &member.allow {
        line.push_str(&format!("  allows {allow}"));
    }
    line
}
