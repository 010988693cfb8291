//! `ostler skills`: what an agent should read before it uses ostler.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use flows::terminal::screen::Personality;
use model::hosted::{Code, Fault};
use model::wire::{SkillPathResult, SkillResult, SkillView, SkillsResult};

use crate::cli::Context;
use crate::error::Error;
use crate::render::output;

/// A skill that is part of the program.
struct Skill {
    name: &'static str,
    content: &'static str,
    /// Under which names it is listed.
    personalities: &'static [Personality],
}

const ALL: &[Skill] = &[
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
pub(crate) struct Skills {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
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

impl Skills {
    pub(crate) const fn name(&self) -> &'static str {
        match self.what {
            What::List => "skills list",
            What::Get { .. } => "skills get",
            What::Path { .. } => "skills path",
        }
    }

    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        match &self.what {
            What::List => list(context)?,
            What::Get { name } => get(context, name)?,
            What::Path { name } => path(context, name)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn offered(context: &Context) -> impl Iterator<Item = &'static Skill> {
    let personality = context.personality;
    ALL.iter().filter(move |skill| skill.personalities.contains(&personality))
}

fn find(context: &Context, name: &str) -> Result<&'static Skill, Fault> {
    offered(context).find(|skill| skill.name == name).ok_or_else(|| {
        let names: Vec<&str> = offered(context).map(|skill| skill.name).collect();
        let message = format!("no skill `{name}`; there are: {}", names.join(", "));
        Fault::new(Code::SkillNotFound, message)
    })
}

fn list(context: &Context) -> Result<(), Error> {
    let skills: Vec<SkillView> = offered(context)
        .map(|skill| SkillView {
            name: skill.name,
            description: skill.description(),
            source: "bundled",
        })
        .collect();
    if context.json {
        return context.answer(SkillsResult { skills });
    }
    let lines: Vec<String> =
        skills.iter().map(|skill| format!("{}  {}\n", skill.name, skill.description)).collect();
    output::text(&lines.concat())
}

fn get(context: &Context, name: &str) -> Result<(), Error> {
    let skill = find(context, name)?;
    if context.json {
        let path = put_on_disk(skill)?.join("SKILL.md").to_string_lossy().into_owned();
        let content = skill.content;
        return context.answer(SkillResult { name: skill.name, source: "bundled", path, content });
    }
    output::text(skill.content)
}

fn path(context: &Context, name: &str) -> Result<(), Error> {
    let skill = find(context, name)?;
    let path = put_on_disk(skill)?.to_string_lossy().into_owned();
    if context.json {
        return context.answer(SkillPathResult { name: skill.name, source: "bundled", path });
    }
    output::text(&format!("{path}\n"))
}

/// A skill is part of the program; those who want a directory get a copy in the cache.
fn put_on_disk(skill: &Skill) -> Result<PathBuf, Error> {
    let cache = sys::dirs::of_this_process()
        .map_err(|error| Error::usage(error.to_string(), "set `HOME` or `XDG_CACHE_HOME`"))?
        .cache;
    let version = env!("CARGO_PKG_VERSION");
    let directory = cache.join("skills").join(version).join(skill.name);
    let file = directory.join("SKILL.md");
    let write = || -> std::io::Result<()> {
        if std::fs::read(&file).is_ok_and(|found| found == skill.content.as_bytes()) {
            return Ok(());
        }
        std::fs::create_dir_all(&directory)?;
        sys::atomic::replace(&file, skill.content.as_bytes())
    };
    write().map_err(|error| Error::Write {
        path: file.display().to_string(),
        reason: error.to_string(),
    })?;
    Ok(directory)
}
