//! The pages about agents in the book are what the adapters' own tables say.
//!
//! `OSTLER_WRITE_PAGES=1` writes them anew.

#![expect(clippy::disallowed_methods, reason = "a page that is asked for is written")]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use model::event::HookHappening;
use model::session::FormatCertainty;
use ostler_adapters::hooks::{AgentHooks, HookMeaning};
use ostler_adapters::{ALL_ADAPTERS, Adapter, EnvLookup};

fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents")
}

/// Paths below `~`, and the variables that would move them.
fn places(look: impl Fn(&EnvLookup<'_>) -> Vec<PathBuf>) -> (Vec<String>, Vec<String>) {
    let asked: RefCell<BTreeSet<String>> = RefCell::default();
    let lookup = |name: &str| {
        if name == "HOME" {
            return Some(OsString::from("/~"));
        }
        asked.borrow_mut().insert(name.to_owned());
        None
    };
    let found = look(&EnvLookup::new(&lookup));
    let text = |path: PathBuf| format!("`{}`", path.display().to_string().replacen("/~", "~", 1));
    let variables = asked.into_inner().into_iter().map(|name| format!("`{name}`")).collect();
    (found.into_iter().map(text).collect(), variables)
}

const fn happening_words(happening: HookHappening) -> &'static str {
    match happening {
        HookHappening::SessionStart => "a session begins or goes on",
        HookHappening::TurnStart => "a turn begins",
        HookHappening::Progress => "it works",
        HookHappening::Waiting => "it waits for you",
        HookHappening::TurnEnd => "the turn is over",
        HookHappening::Compaction => "it shortened its memory of the conversation",
        HookHappening::SessionEnd => "the session is over",
        HookHappening::Sign => "a sign of life",
    }
}

fn meaning_words(meaning: HookMeaning) -> &'static str {
    match meaning {
        HookMeaning::Is(happening) => happening_words(happening),
        HookMeaning::Notification => "it waits for you, or a sign of life: the payload says which",
        HookMeaning::FailedTurn => "the turn failed",
        HookMeaning::Prompt => "a turn begins, or goes on if there is no new prompt",
    }
}

fn hooks_section(hooks: &AgentHooks) -> String {
    let (files, _) = places(|env| (hooks.wiring.user)(env).into_iter().collect());
    let mut page = format!(
        "## What hooks tell\n\n`ostler setup`, or `ostler hooks install`, writes {}. Then the agent reports:\n\n\
         | event | what it means |\n|---|---|\n",
        files.join(", ")
    );
    for (event, meaning) in hooks.events {
        page.push_str(&format!("| `{event}` | {} |\n", meaning_words(*meaning)));
    }
    let ends = hooks
        .events
        .iter()
        .any(|(_, meaning)| *meaning == HookMeaning::Is(HookHappening::SessionEnd));
    if !ends {
        page.push_str("\nIt does not report its end: that is told by its process.\n");
    }
    if hooks.wiring.notify.is_some() {
        page.push_str(
            "\nIt runs hooks only after you have trusted them (`/hooks` in it); until then it reports the end of each \
             turn through `notify`.\n",
        );
    }
    page
}

fn doubts(adapter: &dyn Adapter) -> Vec<String> {
    let profile = adapter.agent_profile();
    let mut doubts = Vec::new();
    if profile.certainty == FormatCertainty::Lab {
        doubts.push(
            "Versions other than those named above were not seen: whatever does not fit is reported as incomplete."
                .to_owned(),
        );
    } else {
        doubts.push(
            "Its formats were read from its documentation or sources and not seen with the real program: whatever does not \
             fit is reported as incomplete."
                .to_owned(),
        );
    }
    if profile.hooks.is_none() {
        doubts.push(
            "It has no hooks that ostler could use: turns are read from its files, and its end is noticed when somebody looks."
                .to_owned(),
        );
    }
    let tells_of_waiting = |hooks: &AgentHooks| {
        let waits = [HookMeaning::Is(HookHappening::Waiting), HookMeaning::Notification];
        hooks.events.iter().any(|(_, meaning)| waits.contains(meaning))
    };
    if profile.hooks.is_some_and(|hooks| !tells_of_waiting(hooks)) {
        doubts.push(
            "Its hooks do not tell that it waits for you: that is read from its files, as far as they say so."
                .to_owned(),
        );
    }
    if profile.opening.beyond_directory {
        doubts.push(
            "A process that names no session could have any of its sessions open, also those of other directories: none of \
             them is then called over."
                .to_owned(),
        );
    }
    if profile.opening.leaves_lock_behind {
        doubts.push(
            "Its own record of who has a session open can stay behind when another one is opened inside it.".to_owned(),
        );
    }
    if profile.opening.server_has_all {
        doubts.push("A server of its own may have every session open.".to_owned());
    }
    if adapter.control_table().is_none() {
        doubts.push(
            "What proves that a prompt arrived is not known: `ostler prompt` is refused for it."
                .to_owned(),
        );
    }
    doubts
}

fn render_page(adapter: &dyn Adapter) -> String {
    let profile = adapter.agent_profile();
    let (roots, variables) = places(|env| adapter.session_roots(env));
    let mut page = format!("# {}\n\n| | |\n|---|---|\n", profile.name);
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            page.push_str(&format!("| {name} | {value} |\n"));
        }
    };
    let code =
        |words: &[&str]| words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ");
    row("id", format!("`{}`", profile.id));
    row(
        "formats",
        match profile.certainty {
            FormatCertainty::Lab => "seen with the real program".to_owned(),
            _ => "read from documentation".to_owned(),
        },
    );
    row("its programs", code(profile.program.names));
    row("is looked for in", roots.join(", "));
    row("moved by", variables.join(", "));
    let resume = adapter.resume_words();
    if !resume.is_empty() {
        row("goes on by", format!("`{} ID`", resume.join(" ")));
    }
    page.push_str(&format!("\n## What is read\n\n{}\n\n", capitalize(profile.note)));
    if let Some(hooks) = profile.hooks {
        page.push_str(&hooks_section(hooks));
        page.push('\n');
    }
    page.push_str("## What is not known\n\n");
    doubts(adapter).iter().for_each(|doubt| page.push_str(&format!("- {doubt}\n")));
    format!("{}\n", page.trim_end())
}

fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let text = format!("{first}{}", letters.as_str());
    if text.ends_with('.') { text } else { format!("{text}.") }
}

fn render_list() -> String {
    let mut page = String::from(
        "# Agents\n\nWhat ostler knows of each, from the tables that it works by.\n\n| agent | formats | hooks |\n|---|---|---|\n",
    );
    for adapter in ALL_ADAPTERS {
        let profile = adapter.agent_profile();
        let formats = if profile.certainty == FormatCertainty::Lab { "seen" } else { "documented" };
        let hooks = profile.hooks.map_or("–", |_| "yes");
        page.push_str(&format!(
            "| [{}]({}.md) | {formats} | {hooks} |\n",
            profile.name, profile.id
        ));
    }
    page
}

#[test]
fn row_17_every_agent_has_a_page_that_says_what_its_tables_say() {
    let mut wanted = vec![("README".to_owned(), render_list())];
    for adapter in ALL_ADAPTERS {
        wanted.push((adapter.agent_profile().id.to_owned(), render_page(*adapter)));
    }
    let names: BTreeSet<String> = wanted.iter().map(|(name, _)| format!("{name}.md")).collect();
    for (name, page) in wanted {
        let path = pages().join(format!("{name}.md"));
        if std::env::var_os("OSTLER_WRITE_PAGES").is_some() {
            fs::write(&path, &page).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(written, page, "{}: OSTLER_WRITE_PAGES=1 writes it anew", path.display());
    }
    for entry in fs::read_dir(pages()).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(names.contains(&name), "docs/agents/{name} is of no agent");
    }
}
