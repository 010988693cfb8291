//! Hostile input end to end: ids, texts, files and repositories that were made to do harm.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::json;
use testkit::home::TempHome;

use super::run::{fixtures, ostler, ran, run};

/// Runs one hook of OpenCode's.
fn opencode_hook(home: &TempHome, event: &str, id: &str) {
    let payload = json!({"session_id": id, "cwd": home.path()}).to_string();
    let payload = home.write("payload", payload);
    let stdin = fs::File::open(payload).unwrap();
    ran(ostler(home).args(["hook", "opencode", event]).stdin(Stdio::from(stdin))).exits(0);
}

/// A home with OpenCode's database and the ids in it.
fn opencode_home() -> (TempHome, Vec<String>) {
    let home = TempHome::new();
    home.lay_out_agent("opencode", &fixtures().join("opencode/1.18.33"));
    let database = home.database(".local/share/opencode/opencode.db");
    let mut rows = database.prepare("select id from session order by id").unwrap();
    let ids = rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    drop(rows);
    (home, ids)
}

#[test]
fn h7_a_conversation_out_of_a_database_is_written_below_to_or_not_at_all() {
    let (home, ids) = opencode_home();
    let id = &ids[0];
    opencode_hook(&home, "session-start", id);
    opencode_hook(&home, "session-end", id);
    run(&home, "finalize").exits(0);
    let before = fs::read_dir(home.join(".local/share/opencode")).unwrap().count();
    let refused = ran(ostler(&home).args(["vault", "restore", id, "--json"])).exits(13);
    assert_eq!(refused.error(), "REFUSED");
    let after = fs::read_dir(home.join(".local/share/opencode")).unwrap().count();
    assert_eq!(before, after, "nothing was written into the agent's data");
    let to = ran(ostler(&home).args(["vault", "restore", id, "--to", "out", "--json"])).exits(0);
    let shown = ran(ostler(&home).args(["vault", "show", id, "--json"])).result();
    let hash = shown["files"][0]["sha256"].as_str().unwrap().to_owned();
    assert_eq!(to.result()["written"], json!([format!("out/{hash}")]));
    assert!(!home.read(format!("out/{hash}")).is_empty());
}

#[test]
fn h7_what_an_older_version_kept_under_a_hostile_id_is_not_written_there() {
    let (home, ids) = opencode_home();
    let id = &ids[0];
    opencode_hook(&home, "session-start", id);
    opencode_hook(&home, "session-end", id);
    run(&home, "finalize").exits(0);
    // A manifest as it was written before ids were looked at.
    let hostile = home.join(".local/share/opencode/opencode.db#x/../../../../.ssh/rc");
    home.database(super::agent::state(&home).join("ostler.db"))
        .execute(
            "update kept set manifest = json_remove(json_set(manifest, '$.files[0].path', ?1), \
             '$.files[0].form')",
            [hostile.to_str().unwrap()],
        )
        .unwrap();
    ran(ostler(&home).args(["vault", "restore", id])).exits(13);
    assert!(!home.join(".ssh").exists());
    assert!(!home.join(".local/share/opencode/opencode.db#x").exists());
    ran(ostler(&home).args(["vault", "restore", id, "--to", "out"])).exits(0);
    assert_eq!(fs::read_dir(home.join("out")).unwrap().count(), 1);
}

#[test]
fn h7_a_session_with_an_id_that_is_a_path_is_shown_and_never_tracked() {
    let (home, ids) = opencode_home();
    let hostile = "x/../../../../.ssh/rc";
    home.database(".local/share/opencode/opencode.db")
        .execute_batch(&format!(
            "pragma foreign_keys=off; update session set id = '{hostile}' where id = '{}'; \
             update message set session_id = '{hostile}' where session_id = '{0}';",
            ids[0]
        ))
        .unwrap();
    assert_eq!(run(&home, "ls -a --json").exits(0).session(hostile)["agent"], "opencode");
    for event in ["session-start", "session-end"] {
        opencode_hook(&home, event, hostile);
    }
    run(&home, "finalize").exits(0);
    ran(ostler(&home).args(["vault", "restore", hostile])).exits(3);
    assert!(!home.join(".ssh").exists());
    let doctor = run(&home, "doctor --json");
    assert!(doctor.stdout.contains("names no session by an id"), "{doctor:?}");
}

/// Runs a command line of ostler's on a terminal of its own and gives back what that was sent.
fn on_terminal(home: &TempHome, line: &str) -> String {
    let ostler = ostler(home);
    let command = format!("{} {line}", env!("CARGO_BIN_EXE_ostler"));
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).env_clear().current_dir(home.path());
    for (name, value) in ostler.get_envs() {
        script.env(name, value.unwrap_or_default());
    }
    let output = script.env("TERM", "dumb").stdin(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether nothing in a text acts on a terminal or hides in it.
fn is_clean(text: &str) -> bool {
    let is_hidden = |c: char| matches!(c, '\u{200b}' | '\u{202e}' | '\u{2028}' | '\u{e0041}');
    !text.chars().any(|c| (c.is_control() && !"\r\n\t".contains(c)) || is_hidden(c))
}

#[test]
fn m10_errors_and_hints_are_escaped() {
    let home = TempHome::new();
    for tail in ["\u{1b}]0;owned\u{7}1", "\u{1b}]0;owned\u{7}2\u{202e}\u{e0041}"] {
        let transcript = super::run::claude_transcript("abc", "/x", "hello");
        home.write(format!(".claude/projects/x/abc{tail}.jsonl"), transcript);
    }
    let ran = run(&home, "show abc").exits(2);
    assert!(ran.stderr.contains("abc\\u{1b}]0;owned"), "{ran:?}");
    assert!(is_clean(&ran.stderr), "{ran:?}");
    assert!(is_clean(&ran.stdout), "{ran:?}");
}

#[test]
fn m10_a_terminal_is_sent_no_bytes_of_others() {
    let home = TempHome::new();
    let id = "11111111-1111-4111-8111-111111111111";
    let mut agent = super::agent::Agent::start(&home, id);
    agent.begin();
    let hostile = "\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\u{2028}\u{200b}\u{e0041}";
    let path = agent.transcript.clone();
    home.append(
        &path,
        super::run::claude_transcript(id, "/x", hostile).replace("\\u009b", "\u{9b}"),
    );
    home.append(&path, "\u{1b}]0;raw\u{7}\n");
    agent.kill();
    run(&home, "finalize").exits(0);
    let piped = run(&home, "vault cat 1111").exits(0).stdout;
    assert!(piped.contains("\u{1b}]0;raw"), "a pipe gets the bytes as they were");
    for line in ["vault cat 1111", "vault export 1111", "vault export 1111 --no-redact"] {
        let sent = on_terminal(&home, line);
        assert!(sent.contains("owned") && is_clean(&sent), "{line}: {sent:?}");
    }
    for line in ["ls -a --json", "summary 1111 --json", "events --json", "vault ls --json"] {
        let sent = on_terminal(&home, line);
        assert!(sent.contains("{") && is_clean(&sent), "{line}: {sent:?}");
    }
}

#[test]
fn surfaces_show_hostile_text_and_nothing_else_of_it() {
    use testkit::hostile::{CORPUS, MARKER, is_harmless, lay_out_corpus};

    let home = TempHome::new();
    lay_out_corpus(&home);
    let before = home.snapshot();
    for line in [
        "top --once --all",
        "top --once --all --json",
        "top --once --all --ascii",
        "top --accessible",
        "search --limit 0 --regex PWNED",
        "search --limit 0 --json --regex PWNED",
        "search --limit 0 --json --stream --regex PWNED",
        "usage --by project",
        "usage --by model",
        "usage --by day --json",
        "usage --by project --csv",
        "usage --by model --csv",
    ] {
        let sent = on_terminal(&home, line);
        assert!(is_harmless(&sent), "{line}: {sent:?}");
        assert!(
            sent.contains(MARKER) || line.contains("accessible") || line.contains("day"),
            "{line}: {sent:?}"
        );
        // Into a pipe, JSON is the text as it was, and everything else is made harmless all the same.
        let piped = run(&home, line).stdout;
        let is_json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
        match (line.contains("--json"), line.contains("--stream")) {
            (true, true) => assert!(piped.lines().all(is_json), "{line}: {piped}"),
            (true, false) => assert!(is_json(&piped), "{line}: {piped}"),
            _ => assert!(is_harmless(&piped), "{line}: {piped:?}"),
        }
    }
    let hits =
        run(&home, "search --limit 0 --json PWNED").result()["hits"].as_array().unwrap().len();
    assert!(hits >= CORPUS.len() * 3, "each is found in every kind of entry: {hits}");
    assert!(!home.join("PWNED").exists(), "no shell has seen it");
    let changed = before.changes(&home.snapshot());
    assert!(changed.iter().all(|change| !change.contains(".claude")), "{changed:?}");
}

#[test]
fn m1_completion_never_offers_what_a_shell_would_run() {
    let home = TempHome::new();
    for id in ["abc$(touch PWNED)", "abd`touch PWNED`", "abe;touch PWNED", "abf-1.2:3@4+5_6", "-rf"]
    {
        home.write(
            format!(".claude/projects/x/{id}.jsonl"),
            super::run::claude_transcript("x", "/x", "hello"),
        );
    }
    let program = env!("CARGO_BIN_EXE_ostler");
    let directory = std::path::Path::new(program).parent().unwrap().to_str().unwrap();
    let path = format!("{directory}:{}", std::env::var("PATH").unwrap());
    // What bash does at the key: it calls the function and inserts what that answers.
    let complete = |word: &str| {
        let script = format!(
            "source <(ostler completions bash); \
             COMP_WORDS=(ostler show '{word}'); COMP_CWORD=2; COMP_LINE='ostler show {word}'; \
             COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9; \
             function=$(complete -p ostler | sed -E 's/.*-F ([^ ]+).*/\\1/'); \
             \"$function\" ostler '{word}' show; \
             for one in \"${{COMPREPLY[@]}}\"; do eval \"echo ostler show $one\"; done"
        );
        let mut bash = testkit::run::bare("bash", &home);
        ran(bash.args(["--norc", "-c", &script]).env("PATH", &path)).exits(0).stdout
    };
    assert!(complete("abf").contains("abf-1.2:3@4+5_6"));
    for word in ["abc", "abd", "abe", "ab", "-"] {
        let offered = complete(word);
        assert!(!offered.contains("PWNED") && !offered.contains("-rf"), "{offered}");
    }
    assert!(!home.join("PWNED").exists());
}

/// A repository with a linked worktree that is merged and pushed, and an old session in that.
fn worktree_home() -> TempHome {
    let home = TempHome::new();
    let script = "set -e; git init -q --bare remote.git; git clone -q remote.git repo 2>/dev/null; cd repo; \
        git config user.email a@b; git config user.name a; \
        git checkout -q -b main; echo one > file; git add .; git commit -q -m one; \
        git push -q origin main; git remote set-head origin main; \
        git worktree add -q ../wt -b topic origin/main; git push -q origin topic";
    ran(testkit::run::bare("sh", &home).args(["-c", script])).exits(0);
    let id = "33333333-3333-4333-8333-333333333333";
    let cwd = home.join("wt");
    super::collect::age(&super::run::claude_session(&home, id, cwd.to_str().unwrap(), "work"), 1);
    home
}

#[test]
fn m2_a_preview_runs_no_command_of_the_repository() {
    let home = worktree_home();
    let plan = |home: &TempHome| run(home, "gc --include worktrees --older-than 0s --json");
    let clean = plan(&home);
    for attributes in ["repo/.git/info/attributes", "wt/.gitattributes"] {
        for way in ["clean", "process"] {
            let pwned = home.join("PWNED");
            let script = format!(
                "cd repo; git config filter.x.{way} 'sh -c \"id > {}; cat\"'; \
                 git config filter.x.required true; mkdir -p .git/info; \
                 echo '* filter=x' > ../{attributes}; sleep 0.01; touch ../wt/file",
                pwned.display()
            );
            ran(testkit::run::bare("sh", &home).args(["-c", &script])).exits(0);
            let looked = plan(&home);
            assert!(!pwned.exists(), "{attributes} {way}: {looked:?}");
            let reset = format!("rm ../{attributes}; git config --remove-section filter.x");
            ran(testkit::run::bare("sh", &home)
                .args(["-c", &reset])
                .current_dir(home.join("repo")));
        }
    }
    // The test would show it: git itself runs the filter.
    let script = "git config filter.x.clean 'sh -c \"id > ../PWNED; cat\"'; mkdir -p .git/info; \
        echo '* filter=x' > .git/info/attributes; touch ../wt/file; git -C ../wt status";
    ran(testkit::run::bare("sh", &home).args(["-c", script]).current_dir(home.join("repo")));
    assert!(home.join("PWNED").exists() || home.join("wt/../PWNED").exists(), "{clean:?}");
}

#[test]
fn m3_hooks_of_a_project_stay_in_the_project() {
    let home = TempHome::new();
    let secret = "{\"auths\": {\"x\": {\"auth\": \"c2VjcmV0\"}}}";
    home.write(".docker/config.json", secret);
    home.directory("project/.claude");
    home.link("project/.claude/settings.local.json", home.join(".docker/config.json"));
    let install = |home: &TempHome| {
        let mut command = ostler(home);
        command.args(["hooks", "install", "claude-code", "--scope", "project", "--json"]);
        ran(command.current_dir(home.join("project")))
    };
    let refused = install(&home);
    assert_eq!(refused.code, 13, "{refused:?}");
    assert!(refused.stdout.contains("leads out of the project"), "{refused:?}");
    assert_eq!(home.read(".docker/config.json"), secret.as_bytes());
    // The same through a directory.
    fs::remove_file(home.join("project/.claude/settings.local.json")).unwrap();
    fs::remove_dir(home.join("project/.claude")).unwrap();
    home.directory("elsewhere");
    home.link("project/.claude", home.join("elsewhere"));
    assert_eq!(install(&home).code, 13);
    assert_eq!(fs::read_dir(home.join("elsewhere")).unwrap().count(), 0);
    // What is in the project is changed, and kept in ostler's home, not in the work tree.
    fs::remove_file(home.join("project/.claude")).unwrap();
    home.write("project/.claude/settings.local.json", "{\"a\": 1}\n");
    install(&home).exits(0);
    assert_eq!(fs::read_dir(home.join("project/.claude")).unwrap().count(), 1);
    let kept: Vec<_> =
        fs::read_dir(super::agent::state(&home).join("hook-backups")).unwrap().collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(fs::read(kept[0].as_ref().unwrap().path()).unwrap(), b"{\"a\": 1}\n");
    let mut command = ostler(&home);
    command.args(["hooks", "uninstall", "claude-code", "--scope", "project"]);
    ran(command.current_dir(home.join("project"))).exits(0);
    assert_eq!(home.read("project/.claude/settings.local.json"), b"{\"a\": 1}\n");
    assert_eq!(fs::read_dir(super::agent::state(&home).join("hook-backups")).unwrap().count(), 0);
}

/// Runs a command line and fails if that takes longer than a person would wait.
#[track_caller]
fn runs_within(home: &TempHome, seconds: u64, line: &str) -> testkit::run::Ran {
    let begun = std::time::Instant::now();
    let ran = run(home, line);
    let took = begun.elapsed();
    assert!(took.as_secs() < seconds, "{line} took {took:?}");
    ran
}

#[test]
fn m12_a_view_in_the_place_of_a_table_is_refused_and_the_rest_listed() {
    for table in ["session", "message"] {
        let (home, _) = opencode_home();
        let id = "44444444-4444-4444-8444-444444444444";
        super::run::claude_session(&home, id, "/x", "hello");
        home.database(".local/share/opencode/opencode.db")
            .execute_batch(&format!(
                "pragma foreign_keys=off; alter table {table} rename to was_{table}; \
                 create view {table} as with recursive n(id) as (select 1 union all select id + 1 \
                 from n) select w.* from n, was_{table} w where n.id < 0;"
            ))
            .unwrap();
        let listed = runs_within(&home, 20, "ls -a --json").exits(12);
        assert_eq!(listed.session(id)["agent"], "claude-code");
        assert!(listed.stdout.contains("is a view and not a table"), "{listed:?}");
    }
}

#[test]
fn m12_a_sparse_transcript_stops_nothing() {
    let home = TempHome::new();
    let (id, other) =
        ("55555555-5555-4555-8555-555555555555", "66666666-6666-4666-8666-666666666666");
    super::run::claude_session(&home, other, "/x", "hello");
    let path = super::run::claude_session(&home, id, "/x", "large");
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(200 << 30).unwrap();
    drop(file);
    let listed = runs_within(&home, 30, "ls -a --json").exits(12);
    listed.session(other);
    assert_eq!(listed.session(id)["title"], "large", "its beginning is read");
    assert!(listed.stdout.contains("too large"), "{listed:?}");
    runs_within(&home, 30, "status --json");
    let told = runs_within(&home, 30, &format!("logs {id}"));
    assert!(told.stdout.contains("large"), "{told:?}");
}

#[test]
fn m12_a_sparse_transcript_of_a_session_that_is_over_is_not_copied_by_a_sweep() {
    let home = TempHome::new();
    let id = "55555555-5555-4555-8555-555555555555";
    let mut agent = super::agent::Agent::start(&home, id);
    agent.begin();
    let file = fs::OpenOptions::new().write(true).open(&agent.transcript).unwrap();
    file.set_len(200 << 30).unwrap();
    drop(file);
    agent.kill();
    runs_within(&home, 30, "finalize --json").exits(0);
    let kept = run(&home, "vault show 5555 --json").exits(0).result();
    assert_eq!(kept["files"], json!([]));
    assert_eq!(kept["summary"]["prompts"], json!(["do it"]));
    assert!(agent.transcript.exists());
}

#[test]
fn m12_a_small_file_that_unpacks_to_anything_is_read_in_part_and_once() {
    let home = TempHome::new();
    let id = "0199a213-81c0-7800-8aa1-bbab2a035a53";
    let header = format!(
        "{{\"timestamp\":\"2026-11-15T10:00:00.000Z\",\"type\":\"session_meta\",\"payload\":{{\"id\":\"{id}\",\
         \"timestamp\":\"2026-11-15T10:00:00.000Z\",\"cwd\":\"/x\",\"originator\":\"codex_cli_rs\",\"cli_version\":\"0.166.0\"}}}}\n"
    );
    let directory = home.join(".codex/sessions/2026/11/15");
    fs::create_dir_all(&directory).unwrap();
    home.write("header", header);
    let name = format!("rollout-2026-11-15T10-00-00-{id}.jsonl.zst");
    let script = format!(
        "(cat header; head -c 6G /dev/zero | tr '\\0' '\\n') | head -c 3G | zstd -q -1 -o {}/{name}",
        directory.display()
    );
    if ran(testkit::run::bare("sh", &home).args(["-c", &format!("command -v zstd && {script}")]))
        .code
        != 0
    {
        // Without zstd's program there is nothing to unpack.
        return;
    }
    let listed = runs_within(&home, 60, "ls -a --json").exits(12);
    assert!(listed.stdout.contains("too large"), "{listed:?}");
    assert_eq!(listed.session(id)["agent"], "codex");
}

#[test]
fn l8_a_pipe_in_the_place_of_an_index_is_not_waited_for() {
    let home = TempHome::new();
    home.write(".openclaw/openclaw.json", "{\"agents\": {\"list\": [{\"id\": \"main\"}]}}");
    fs::create_dir_all(home.join(".openclaw/agents/main/sessions")).unwrap();
    home.fifo(".openclaw/agents/main/sessions/sessions.json");
    let mut command = Command::new("timeout");
    command.args(["20", env!("CARGO_BIN_EXE_ostler"), "agents", "ls", "--json"]);
    command.env_clear().env("HOME", home.path()).env("PATH", std::env::var("PATH").unwrap());
    let listed = ran(command.current_dir(home.path()));
    assert_ne!(listed.code, 124, "it waited: {listed:?}");
    assert!(listed.stdout.contains("not a file"), "{listed:?}");
}
