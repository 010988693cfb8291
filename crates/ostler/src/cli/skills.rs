//! `ostler skills`: what an agent should read before it uses ostler.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use flows::terminal::screen::Personality;
use model::hosted::{FaultCode, HostFault};
use model::wire::{SkillPathResult, SkillResult, SkillView, SkillsResult};

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::output;

declare_commands![
    CommandEntry {
        place: HelpPlace(SetUp, 5),
        usual_member: "list",
        ..entry!("skills", SkillsArgs, run_skills)
    },
    CommandEntry {
        place: HelpPlace(SetUp, 1),
        answers: &[answer::<wire::SkillsResult>()],
        examples: &[example("skills list", "What an agent may read.")],
        cases: &[usual("skills list"), refused("skills list --no-such-option")],
        uncased: &[ONE_HOME, ONE_PROGRAM],
        ..entry!("skills list")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 2),
        answers: &[answer::<wire::SkillResult>()],
        examples: &[example(
            "skills get ostler",
            "What an agent should know before it uses ostler."
        )],
        cases: &[
            usual("skills get dogfood-tui"),
            refused("skills get nothing"),
            also("skills get ostler")
        ],
        uncased: &[ONE_HOME, ONE_PROGRAM],
        ..entry!("skills get")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 3),
        effect: WritesState,
        answers: &[answer::<wire::SkillPathResult>()],
        examples: &[example(
            "skills path ostler",
            "Where it lies, for an agent that reads directories."
        )],
        cases: &[usual("skills path ostler"), refused("skills path nothing")],
        uncased: &[ONE_HOME, ONE_PROGRAM],
        ..entry!("skills path")
    }
];

/// A skill that is part of the program.
struct Skill {
    name: &'static str,
    content: &'static str,
    /// Under which names it is listed.
    personalities: &'static [Personality],
}

const ALL_SKILLS: &[Skill] = &[
    Skill {
        name: "ostler",
        content: include_str!("../../skills/ostler/SKILL.md"),
        personalities: &[Personality::Ostler],
    },
    Skill {
        name: "agent-tty",
        content: include_str!("../../skills/agent-tty/SKILL.md"),
        personalities: &[Personality::AgentTty],
    },
    Skill {
        name: "dogfood-tui",
        content: include_str!("../../skills/dogfood-tui/SKILL.md"),
        personalities: &[Personality::Ostler, Personality::AgentTty],
    },
];

impl Skill {
    /// The line of its head that says when to use it.
    fn description(&self) -> &'static str {
        let line = self.content.lines().find_map(|line| line.strip_prefix("description: "));
        line.unwrap_or_default()
    }
}

/// Print what an agent should know about ostler.
#[derive(Debug, Args)]
pub(crate) struct SkillsArgs {
    #[command(subcommand)]
    what: SkillsCommand,
}

#[derive(Debug, Subcommand)]
enum SkillsCommand {
    /// List the skills.
    List,
    /// Print a skill.
    Get {
        /// Its name.
        name: String,
    },
    /// Print the directory that a skill is in.
    Path {
        /// Its name.
        name: String,
    },
}

impl SkillsArgs {
    pub(crate) const fn envelope_name(&self) -> &'static str {
        match self.what {
            SkillsCommand::List => "skills list",
            SkillsCommand::Get { .. } => "skills get",
            SkillsCommand::Path { .. } => "skills path",
        }
    }

    pub(crate) fn run_skills(&self, context: &CliContext) -> Result<ExitCode, Error> {
        match &self.what {
            SkillsCommand::List => list_skills(context)?,
            SkillsCommand::Get { name } => print_skill(context, name)?,
            SkillsCommand::Path { name } => print_skill_path(context, name)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn offered_skills(context: &CliContext) -> impl Iterator<Item = &'static Skill> {
    let personality = context.personality;
    ALL_SKILLS.iter().filter(move |skill| skill.personalities.contains(&personality))
}

fn find_skill(context: &CliContext, name: &str) -> Result<&'static Skill, HostFault> {
    offered_skills(context).find(|skill| skill.name == name).ok_or_else(|| {
        if context.personality == Personality::AgentTty {
            return HostFault::new(FaultCode::SkillNotFound, "Skill not found.").with("name", name);
        }
        let names: Vec<&str> = offered_skills(context).map(|skill| skill.name).collect();
        let message = format!("no skill `{name}`; there are: {}", names.join(", "));
        HostFault::new(FaultCode::SkillNotFound, message)
    })
}

fn list_skills(context: &CliContext) -> Result<(), Error> {
    let skills: Vec<SkillView> = offered_skills(context)
        .map(|skill| SkillView {
            name: skill.name,
            description: skill.description(),
            source: "bundled",
        })
        .collect();
    if context.json {
        return context.print_json(SkillsResult { skills });
    }
    let lines: Vec<String> =
        skills.iter().map(|skill| format!("{}  {}\n", skill.name, skill.description)).collect();
    output::print_text(&lines.concat())
}

fn print_skill(context: &CliContext, name: &str) -> Result<(), Error> {
    let skill = find_skill(context, name)?;
    if context.json {
        let path = put_on_disk(skill)?.join("SKILL.md").to_string_lossy().into_owned();
        let content = skill.content;
        return context.print_json(SkillResult {
            name: skill.name,
            source: "bundled",
            path,
            content,
        });
    }
    output::print_text(skill.content)
}

fn print_skill_path(context: &CliContext, name: &str) -> Result<(), Error> {
    let skill = find_skill(context, name)?;
    let path = put_on_disk(skill)?.to_string_lossy().into_owned();
    if context.json {
        return context.print_json(SkillPathResult { name: skill.name, source: "bundled", path });
    }
    output::print_text(&format!("{path}\n"))
}

/// A skill is part of the program; those who want a directory get a copy in the cache.
fn put_on_disk(skill: &Skill) -> Result<PathBuf, Error> {
    let cache = sys::dirs::of_this_process()
        .map_err(|error| Error::usage_error(error.to_string(), "set `HOME` or `XDG_CACHE_HOME`"))?
        .cache;
    let version = env!("CARGO_PKG_VERSION");
    let directory = cache.join("skills").join(version).join("skill-data").join(skill.name);
    let file = directory.join("SKILL.md");
    let write = || -> std::io::Result<()> {
        if std::fs::read(&file).is_ok_and(|found| found == skill.content.as_bytes()) {
            return Ok(());
        }
        std::fs::create_dir_all(&directory)?;
        sys::atomic::write_unsynced(&file, skill.content.as_bytes())
    };
    write().map_err(|error| Error::Write {
        path: file.display().to_string(),
        reason: error.to_string(),
    })?;
    Ok(directory)
}
