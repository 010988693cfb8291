//! Runs the binary in a home of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::home::{TempHome, lay_out_samples};
pub(crate) use testkit::run::{Ran, ran};

/// A home with the fixtures of every adapter, as the agents would have written them.
pub(crate) fn sample_home() -> TempHome {
    let home = TempHome::new();
    lay_out_samples(&home, &fixtures());
    name_ended_processes(&home);
    home
}

/// Copilot and Cline write down a pid and nothing else. The samples' numbers may be those of live
/// processes of this machine, so the home gets the number of one that has just ended.
fn name_ended_processes(home: &TempHome) {
    let mut ended = Command::new("true").spawn().unwrap();
    let pid = ended.id().to_string();
    ended.wait().unwrap();
    for name in ["22350", "23461"] {
        for session in std::fs::read_dir(home.join(".copilot/session-state")).unwrap() {
            let file = |pid: &str, end: &str| format!("inuse.{pid}.{end}");
            let session = session.unwrap().path();
            let lock = session.join(file(name, "lock"));
            if lock.exists() {
                std::fs::write(&lock, &pid).unwrap();
                std::fs::rename(lock, session.join(file(&pid, "lock"))).unwrap();
                let hold = session.join(file(name, "hold"));
                std::fs::rename(hold, session.join(file(&pid, "hold"))).unwrap();
            }
        }
    }
    for session in ["1794766310658_92gws", "1794777812249_9jipf"] {
        let path = home.join(format!(".cline/data/sessions/{session}/{session}.json"));
        let text = std::fs::read_to_string(&path).unwrap();
        let named = text.replace("31269", &pid).replace("26373", &pid);
        std::fs::write(path, named).unwrap();
    }
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../adapters/fixtures")
}

/// The binary, with nothing in its environment but the home.
pub(crate) fn ostler(home: &TempHome) -> Command {
    testkit::run::bare(env!("CARGO_BIN_EXE_ostler"), home)
}

/// Runs a command line, split at spaces.
#[track_caller]
pub(crate) fn run(home: &TempHome, line: &str) -> Ran {
    ran(ostler(home).args(line.split_whitespace()))
}

/// A Claude Code transcript of one finished turn.
pub(crate) fn claude_transcript(id: &str, cwd: &str, prompt: &str) -> String {
    let prompt = serde_json::to_string(prompt).unwrap();
    format!(
        r#"{{"type":"user","sessionId":"{id}","cwd":"{cwd}","gitBranch":"main","version":"2.1.325","timestamp":"2026-11-15T10:00:00.000Z","message":{{"role":"user","content":{prompt}}}}}
{{"type":"assistant","sessionId":"{id}","cwd":"{cwd}","gitBranch":"main","version":"2.1.325","timestamp":"2026-11-15T10:00:05.000Z","message":{{"id":"msg_{id}","role":"assistant","model":"claude-opus-5-5","content":[{{"type":"text","text":"done"}}],"stop_reason":"end_turn","usage":{{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":2,"cache_creation_input_tokens":1}}}}}}
"#
    )
}

/// Writes such a transcript where Claude Code would.
pub(crate) fn claude_session(home: &TempHome, id: &str, cwd: &str, prompt: &str) -> PathBuf {
    let slug = cwd.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    home.write(format!(".claude/projects/{slug}/{id}.jsonl"), claude_transcript(id, cwd, prompt))
}
