//! How it feels: what is printed can be typed, what waits comes first, what is wrong says what to do.

use std::fs;
use std::process::Command;

use testkit::home::TempHome;

use super::live::FakeAgent;
use super::run::{Ran, claude_session, ostler, ran, run, sample_home};
use super::setup::at_a_terminal;

/// Ids of one second, as Codex, Pi and terminals have them: they share their first characters.
fn close_id(n: u32) -> String {
    format!("01a1e3c6-7abc-7000-8000-{n:012}")
}

/// The ids that the table prints.
fn printed_ids(table: &str) -> Vec<String> {
    let heading = table.lines().next().unwrap();
    let at = heading.find("  ID  ").unwrap() + 2;
    let rows = table.lines().skip(1).filter(|line| line.len() > at && !line.ends_with(')'));
    rows.map(|line| line[at..].split(' ').next().unwrap().to_owned()).collect()
}

fn wide(home: &TempHome, line: &str) -> Ran {
    ran(ostler(home).env("COLUMNS", "200").args(line.split_whitespace()))
}

fn git(directory: &std::path::Path, line: &str) {
    let mut command = Command::new("git");
    command.current_dir(directory).args(["-c", "user.name=a", "-c", "user.email=a@b"]);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", directory);
    let done = command.args(line.split_whitespace()).output().unwrap();
    assert!(done.status.success(), "git {line}: {done:?}");
}

#[test]
fn b5_the_id_that_ls_prints_works() {
    let home = TempHome::new();
    let live = FakeAgent::start(&home, "claude", home.path());
    for n in 1..=3 {
        claude_session(&home, &close_id(n), "/repo", "hello");
    }
    let registration = live.registration(&close_id(2), home.path());
    home.write(format!(".claude/sessions/{}.json", live.pid()), registration.to_string());
    // Plain `ls` shows one of three; what it prints must mean that one of all.
    for line in ["ls", "ls --agent claude-code", "ls -a", "status --all"] {
        let table = wide(&home, line).stdout;
        let ids = printed_ids(&table);
        assert!(!ids.is_empty(), "{line}: {table}");
        for id in ids {
            let shown = run(&home, &format!("show {id} --json")).exits(0).result();
            let whole = shown["session"]["id"].as_str().unwrap().to_owned();
            assert!(whole.starts_with(&id), "{line}: {id} is not {whole}");
        }
    }
    live.kill();
}

#[test]
fn b5_every_printed_id_of_every_agent_works() {
    let home = sample_home();
    let table = wide(&home, "ls -a --subagents --sort agent").stdout;
    let ids = printed_ids(&table);
    assert!(ids.len() > 20, "{table}");
    for id in &ids {
        run(&home, &format!("show {id} --json")).result();
        assert!(!id.starts_with("session_") && !id.starts_with("ses_"), "{id} says nothing");
    }
}

#[test]
fn b16_a_dot_means_the_nearest_session_of_the_worktree() {
    let home = TempHome::new();
    let repo = home.directory("repo");
    git(&repo, "init -q -b main");
    git(&repo, "commit -q --allow-empty -m one");
    git(&repo, "worktree add -q ../linked");
    let linked = home.join("linked");
    fs::create_dir_all(linked.join("src/deep")).unwrap();
    fs::create_dir_all(repo.join("src")).unwrap();
    let (top, deep) = (linked.to_str().unwrap().to_owned(), linked.join("src/deep"));
    claude_session(&home, &close_id(1), &top, "of the worktree");
    claude_session(&home, &close_id(2), deep.to_str().unwrap(), "of deep");
    let dot = |directory: &std::path::Path| {
        ran(ostler(&home).current_dir(directory).args(["show", ".", "--json"]))
    };
    let id = |ran: Ran| ran.exits(0).result()["session"]["id"].as_str().unwrap().to_owned();
    assert_eq!(id(dot(&linked)), close_id(1));
    assert_eq!(id(dot(&linked.join("src"))), close_id(1), "the nearest above");
    assert_eq!(id(dot(&deep)), close_id(2));
    dot(&repo.join("src")).exits(3);
    dot(home.path()).exits(3);
}

#[test]
fn b16_status_sees_the_linked_worktrees() {
    let home = TempHome::new();
    let repo = home.directory("repo");
    git(&repo, "init -q -b main");
    git(&repo, "commit -q --allow-empty -m one");
    git(&repo, "worktree add -q ../linked");
    let linked = home.join("linked");
    let live = FakeAgent::start(&home, "claude", &linked);
    claude_session(&home, &close_id(1), linked.to_str().unwrap(), "in the worktree");
    let registration = live.registration(&close_id(1), &linked);
    home.write(format!(".claude/sessions/{}.json", live.pid()), registration.to_string());
    for directory in [&repo, &linked] {
        let mut command = ostler(&home);
        let status = ran(command.current_dir(directory).args(["status", "--json"])).exits(0);
        assert_eq!(status.sessions().len(), 1, "{}", directory.display());
        assert_eq!(status.result()["worktrees"].as_array().unwrap().len(), 1);
    }
    // Claude Code wrote no branch into this one: that of its directory is shown, marked.
    let table = wide(&home, "ls").stdout;
    assert!(table.contains("  ~linked  "), "{table}");
    git(&linked, "checkout -q --detach");
    assert!(!wide(&home, "ls").stdout.contains("~linked"));
    live.kill();
}

#[test]
fn waiting_comes_first_and_says_for_what() {
    let home = TempHome::new();
    let agents: Vec<FakeAgent> =
        (0..2).map(|_| FakeAgent::start(&home, "claude", home.path())).collect();
    for (n, agent) in agents.iter().enumerate() {
        let n = n as u32 + 1;
        claude_session(&home, &close_id(n), "/repo", &format!("prompt {n}"));
        let mut registration = agent.registration(&close_id(n), home.path());
        if n == 2 {
            registration["status"] = "waiting".into();
            registration["waitingFor"] = "permission for Bash".into();
        }
        home.write(format!(".claude/sessions/{}.json", agent.pid()), registration.to_string());
    }
    let table = ran(ostler(&home).env("COLUMNS", "160").env("CLICOLOR_FORCE", "1").arg("ls"));
    let rows: Vec<&str> = table.stdout.lines().skip(1).collect();
    assert!(rows[0].contains("\u{1b}[1;33mwaiting\u{1b}[0m"), "{}", table.stdout);
    assert!(rows[0].contains("for permission for Bash"), "{}", table.stdout);
    assert!(rows[1].contains("\u{1b}[32mworking\u{1b}[0m"), "{}", table.stdout);
    agents.into_iter().for_each(FakeAgent::kill);
}

#[test]
fn many_rows_have_headings_and_a_home_is_a_tilde() {
    let home = TempHome::new();
    let project = home.join("code/project");
    for n in 1..=9 {
        claude_session(&home, &close_id(n), project.to_str().unwrap(), "hello");
    }
    let table = wide(&home, "ls -a").stdout;
    assert_eq!(table.lines().nth(1), Some("ended (9)"), "{table}");
    assert!(table.contains("  ~/code/project  "), "{table}");
    assert!(!wide(&home, "ls -a --limit 8").stdout.contains("ended ("));
}

#[test]
fn b18_a_terminal_without_our_signs_gets_none() {
    let home = TempHome::new();
    claude_session(&home, &close_id(1), "/repo", &"a long title ".repeat(9));
    for line in ["ls -a", "why -", "show -"] {
        let mut command = ostler(&home);
        command.env("COLUMNS", "80").env("LC_ALL", "C").args(line.split_whitespace());
        let out = ran(&mut command).stdout;
        assert!(out.is_ascii(), "{line}: {out}");
    }
    assert!(!ran(ostler(&home).env("COLUMNS", "80").args(["ls", "-a"])).stdout.is_ascii());
}

#[test]
fn agents_and_states_are_taken_by_the_words_people_use() {
    let home = TempHome::new();
    claude_session(&home, &close_id(1), "/repo", "hello");
    for agent in ["claude", "cc", "claude-code", "Claude-Code"] {
        assert_eq!(run(&home, &format!("ls -a -q --agent {agent}")).stdout.lines().count(), 1);
    }
    for agent in ["cursor-agent", "gemini-cli", "codex-cli"] {
        run(&home, &format!("ls --agent {agent}")).exits(0);
    }
    let wrong = run(&home, "ls --agent claud-code").exits(2).stderr;
    assert!(wrong.contains("did you mean `claude-code`?"), "{wrong}");
    assert!(!run(&home, "ls --agent zzzz").exits(2).stderr.contains("did you mean"));
    assert_eq!(run(&home, "ls -q --status dead").stdout.lines().count(), 1);
    assert_eq!(run(&home, "ls -q --status alive").stdout, "");
}

#[test]
fn show_tells_how_to_resume() {
    let home = TempHome::new();
    claude_session(&home, &close_id(1), "/a b/repo", "hello");
    let id = close_id(1);
    let shown = run(&home, "show -").stdout;
    assert!(shown.contains(&format!("resume  cd '/a b/repo' && claude --resume {id}")), "{shown}");
    let json = run(&home, "show - --json").result();
    assert_eq!(json["resume"], serde_json::json!(["claude", "--resume", id]));
}

#[test]
fn show_names_the_pane_of_tmux_that_an_agent_is_in() {
    let home = TempHome::new();
    let agent = FakeAgent::with(&home, "claude", home.path(), |command| {
        command.arg("1000").env("TMUX", "/tmp/tmux 0/lab,12,0").env("TMUX_PANE", "%3")
    });
    claude_session(&home, &close_id(1), home.path().to_str().unwrap(), "hello");
    let registration = agent.registration(&close_id(1), home.path());
    home.write(format!(".claude/sessions/{}.json", agent.pid()), registration.to_string());
    let shown = run(&home, "show -").stdout;
    assert!(
        shown.contains("pane  %3 of tmux: tmux -S '/tmp/tmux 0/lab' switch-client -t %3"),
        "{shown}"
    );
    let json = run(&home, "show - --json").result();
    assert_eq!(json["tmux"], serde_json::json!({ "socket": "/tmp/tmux 0/lab", "pane": "%3" }));
    agent.kill();
    assert_eq!(run(&home, "show - --json").result().get("tmux"), None);
}

#[test]
fn b7_a_session_that_is_not_hosted_is_said_to_be_elsewhere() {
    let home = TempHome::new();
    let live = FakeAgent::start(&home, "claude", home.path());
    claude_session(&home, &close_id(1), "/repo", "hello");
    let registration = live.registration(&close_id(1), home.path());
    home.write(format!(".claude/sessions/{}.json", live.pid()), registration.to_string());
    for command in ["snapshot", "inspect", "destroy", "verify", "screenshot"] {
        let ran = run(&home, &format!("{command} 01a1e3c6")).exits(3);
        let place = format!("is not hosted by ostler: it runs as pid {}", live.pid());
        assert!(ran.stderr.contains(&place), "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains("claude --resume"), "{command}: {}", ran.stderr);
    }
    live.kill();
    let over = run(&home, "inspect 01a1e3c6").exits(3).stderr;
    assert!(over.contains("hint: `cd /repo && claude --resume"), "{over}");
    assert!(run(&home, "inspect nope").exits(3).stderr.contains("no session `nope`"));
}

#[test]
fn b17_messages_name_the_list_to_look_in() {
    let home = TempHome::new();
    let cases = [
        ("access stop nope", "ostler access list"),
        ("access log nope", "ostler access list"),
        ("vault show nope", "ostler vault ls"),
        ("create --cols 99999 -- true", "at most 65535"),
        ("wait nope", "nothing to wait for"),
        ("agents delete nope", "there is no OpenClaw here"),
        ("access open --key /nope", "ssh-keygen -y -f FILE"),
    ];
    for (line, words) in cases {
        let said = run(&home, line).stderr;
        assert!(said.contains(words), "{line}: {said}");
    }
    let none = run(&home, "ls --activity waiting").exits(0).stdout;
    assert_eq!(none, "No live agent session is like that. `-a` looks at ended ones too.\n");
}

#[test]
fn a_family_without_a_command_means_the_usual_one() {
    let home = super::run::sample_home();
    for (family, usual) in [
        ("hooks", "status"),
        ("daemon", "status"),
        ("config", "show"),
        ("trash", "ls"),
        ("vault", "ls"),
        ("access", "list"),
        ("store", "ls"),
        ("agents", "ls"),
        ("webhook", "ls"),
        ("fuse", "ls"),
        ("skills", "list"),
    ] {
        let (short, whole) = (run(&home, family), run(&home, &format!("{family} {usual}")));
        assert_eq!((short.code, &short.stdout), (whole.code, &whole.stdout), "{family}");
        assert_eq!(short.stderr, whole.stderr, "{family}");
        let json = run(&home, &format!("{family} --json")).envelope();
        assert_eq!(json["command"], format!("{family} {usual}"));
        let help = run(&home, &format!("{family} --help")).exits(0).stdout;
        assert!(help.contains(&format!("Without a command: `{family} {usual}`.")), "{help}");
    }
    assert_eq!(run(&home, "hooks --no-such-option").code, 2);
    assert_eq!(run(&home, "hooks instal").code, 2);
}

#[test]
fn b18_events_of_no_session_are_an_error() {
    let home = TempHome::new();
    claude_session(&home, &close_id(1), "/repo", "hello");
    run(&home, "events --session nope").exits(3);
    run(&home, "events --session 01a1e3c6").exits(2);
    run(&home, &format!("events --session {}", close_id(1))).exits(0);
}

#[test]
fn b15_gc_says_why_first_and_whole_at_every_width() {
    let home = TempHome::new();
    let path = claude_session(&home, &close_id(1), "/repo", "the title of it");
    super::collect::age(&path, 100);
    for columns in ["60", "80", "120"] {
        let line = "gc --include transcripts --older-than 1d";
        let mut command = ostler(&home);
        let out = ran(command.env("COLUMNS", columns).args(line.split(' '))).exits(0).stdout;
        let why = run(&home, &format!("{line} --json")).result()["items"][0]["why"].clone();
        let flat = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            flat.starts_with(&format!("would go transcript: {}", why.as_str().unwrap())),
            "{out}"
        );
        assert!(out.contains("claude-code · the title of it"), "{out}");
        assert!(out.contains("~/.claude/"), "{out}");
    }
}

#[test]
fn b15_a_repository_without_a_remote_is_said_to_have_none() {
    let home = TempHome::new();
    let repo = home.directory("repo");
    git(&repo, "init -q -b main");
    home.write("repo/file", "some bytes");
    git(&repo, "add file");
    git(&repo, "commit -q -m one");
    git(&repo, "worktree add -q ../linked");
    let linked = home.join("linked");
    let path = claude_session(&home, &close_id(1), linked.to_str().unwrap(), "hello");
    super::collect::age(&path, 100);
    let plan = run(&home, "gc --include worktrees --older-than 1d --json").exits(0).result();
    let items = plan["items"].as_array().unwrap();
    let tree = items.iter().find(|item| item["kind"] == "worktree").unwrap();
    assert_eq!(tree["action"], "stays");
    let reason = tree["refused"]["reason"].as_str().unwrap();
    assert!(reason.contains("the repository has no remote"), "{reason}");
    assert!(tree["bytes"].as_u64().unwrap() > 0, "{tree}");
}

#[test]
fn row_17_a_narrow_terminal_shows_names_before_titles() {
    let home = TempHome::new();
    run(&home, "create --name harness -- /bin/sh").exits(0);
    let table = |columns: &str| ran(ostler(&home).env("COLUMNS", columns).arg("ls")).stdout;
    let (wide, narrow) = (table("160"), table("60"));
    run(&home, "destroy harness").exits(0);
    assert!(wide.contains("NAME") && wide.matches("harness").count() == 1, "{wide}");
    assert!(!narrow.contains("NAME") && narrow.contains("harness · /bin/sh"), "{narrow}");
}

#[test]
fn row_17_a_newcomer_at_a_terminal_is_told_how_to_go_on() {
    let home = TempHome::new();
    let told = [
        ("create --name harness -- /bin/sh", "`ostler attach harness` joins it; Ctrl-] leaves"),
        ("events", "`ostler setup` lets agents report"),
        ("show nothing", "`ostler ls -a` lists every session"),
    ]
    .map(|(line, said)| (line, said, at_a_terminal(&home, line, "").stdout));
    let created = run(&home, "create --name other -- /bin/sh").exits(0);
    for name in ["harness", "other"] {
        run(&home, &format!("destroy {name}")).exits(0);
    }
    for (line, said, shown) in told {
        assert!(shown.contains(said), "{line}: {shown}");
    }
    // Programs read what they always read.
    assert_eq!((created.stdout.lines().count(), created.stderr.as_str()), (1, ""), "{created:?}");
}

#[test]
fn row_17_a_machine_without_agents_says_where_it_looked() {
    let home = TempHome::new();
    assert!(run(&home, "ls -a").exits(0).stdout.contains("`ostler adapters` shows"));
    assert!(run(&home, "show -").exits(3).stderr.contains("there is none yet"));
}
