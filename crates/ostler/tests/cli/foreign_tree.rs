//! Nothing foreign is ever written: the whole home is the same after every command.

use testkit::home::TempHome;

use super::run::{ostler, ran, sample_home};

#[test]
fn every_command_leaves_foreign_files_as_they_are() {
    let home = sample_home();
    // Things that go wrong must not be written to either.
    home.fifo(".claude/sessions/77.json");
    home.link(".codex/sessions/out.jsonl", "/etc/hostname");
    home.write(".claude/projects/-x/broken.jsonl", b"{not json\n\xff\xfe\n");
    home.write(".claude/projects/-x/empty.jsonl", b"");
    let cache = TempHome::new();
    let before = home.snapshot();
    for line in [
        "ls",
        "ls -a",
        "ls -a --json",
        "ls -a --no-index",
        "ls -a -q",
        "ls -a --subagents --sort size",
        "show 666e4f9b",
        "show 666e4f9b --json",
        "why 666e4f9b",
        "why 666e4f9b --json",
        "logs 666e4f9b",
        "logs 666e4f9b --json",
        "adapters",
        "adapters --json",
        "du",
        "du --json",
        "access list",
        "access list --json --probe",
        "access prune",
        "access prune --dry-run",
        "access stop --orphaned",
        "access stop --all-expired",
        "status --all",
        "doctor",
        "summary 666e4f9b",
        "finalize",
        "gc --yes",
        "gc --include transcripts,temps,worktrees --older-than 0s",
        "pin 666e4f9b --note keep",
        "pin",
        "pin 666e4f9b --remove",
        "agents ls",
        "agents ls --json",
        "trash ls",
        "trash verify",
        "store ls",
        "store ls --json --limit all",
        "store verify",
        "vault ls",
        "events",
        "daemon status",
        "config show --origin",
        "config path",
        "hooks status",
        "hooks status --json",
        "hooks install --dry-run",
        "hooks install --dry-run --scope project",
        "hooks uninstall",
        "schema",
        "completions bash",
        "man",
        "version",
        "help",
    ] {
        // ostler's own places are the only ones that may be written: they are put elsewhere.
        let ran = ran(ostler(&home)
            .env("XDG_CACHE_HOME", cache.path())
            .env("OSTLER_HOME", cache.join("state"))
            .args(line.split(' ')));
        assert!([0, 12].contains(&ran.code), "{line}: {ran:?}");
        let changes = before.changes(&home.snapshot());
        assert!(changes.is_empty(), "after `ostler {line}`: {changes:#?}");
    }
}
