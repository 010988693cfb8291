//! Nothing foreign is ever written: the whole home is the same after every command.

use super::run::{run, sample_home};

#[test]
fn every_command_leaves_foreign_files_as_they_are() {
    let home = sample_home();
    // Things that go wrong must not be written to either.
    home.fifo(".claude/sessions/77.json");
    home.link(".codex/sessions/out.jsonl", "/etc/hostname");
    home.write(".claude/projects/-x/broken.jsonl", b"{not json\n\xff\xfe\n");
    home.write(".claude/projects/-x/empty.jsonl", b"");
    let id = "666e4f9b";
    let before = home.snapshot();
    for line in [
        "ls", "ls -a", "ls -a --json", "ls -a --no-index", "ls -a -q", "ls -a --subagents --sort size",
        "show 666e4f9b", "show 666e4f9b --json", "why 666e4f9b", "why 666e4f9b --json",
        "logs 666e4f9b", "logs 666e4f9b --json", "adapters", "adapters --json", "du", "du --json",
        "config show --origin", "config path", "schema", "completions bash", "man", "version", "help",
    ] {
        let ran = run(&home, line);
        assert!([0, 12].contains(&ran.code), "{line}: {ran:?} {id}");
        let after = home.snapshot().without(".cache/ostler");
        assert_eq!(before, after, "after `ostler {line}`");
    }
}
