//! Homes to measure on: Claude Code transcripts of the size and shape that real ones have.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Makes a home of that many sessions, unless it is there already.
pub(super) fn ensure(home: &Path, sessions: usize, generator: Option<&Path>) -> Result<(), String> {
    if home.join(".claude/projects").exists() {
        return Ok(());
    }
    eprintln!("making a home of {sessions} sessions in {}", home.display());
    match generator {
        Some(script) => {
            let status = Command::new("python3")
                .arg(script)
                .arg("--home")
                .arg(home)
                .args(["--sessions", &sessions.to_string()])
                .args(["--max-lines", "120", "--max-kb", "180"])
                .status()
                .map_err(|error| error.to_string())?;
            if status.success() {
                Ok(())
            } else {
                Err(format!("the generator ended with {status}"))
            }
        }
        None => generate(home, sessions).map_err(|error| error.to_string()),
    }
}

/// A small generator of numbers that are always the same.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn text(&mut self, bytes: u64) -> String {
        const WORDS: [&str; 12] = [
            "session", "parser", "socket", "buffer", "render", "merge", "retry", "schema",
            "branch", "token", "layout", "worker",
        ];
        let mut text = String::new();
        while (text.len() as u64) < bytes {
            text.push_str(WORDS[self.below(12) as usize]);
            text.push_str(if self.below(12) == 0 { "\\n" } else { " " });
        }
        text
    }
}

fn generate(home: &Path, sessions: usize) -> std::io::Result<()> {
    let mut random = Random(1);
    for session in 0..sessions as u64 {
        let project = random.below(40);
        let directory = home.join(format!(".claude/projects/-home-user-code-{project:02}"));
        fs::create_dir_all(&directory)?;
        let id = format!(
            "{:08x}-{:04x}-4000-8000-{session:012x}",
            random.below(1 << 31),
            random.below(1 << 16)
        );
        fs::write(
            directory.join(format!("{id}.jsonl")),
            transcript(&mut random, &id, project, session),
        )?;
    }
    Ok(())
}

fn transcript(random: &mut Random, id: &str, project: u64, session: u64) -> String {
    let lines = 20 + random.below(100);
    let line_bytes = (50_000 + random.below(130_000)) / lines;
    let mut out = String::new();
    let mut second = 0;
    let mut common = |random: &mut Random, kind: &str| {
        second = (second + 1 + random.below(20)) % 86_400;
        format!(
            r#""isSidechain":false,"type":"{kind}","uuid":"{:016x}","timestamp":"2026-{:02}-{:02}T{:02}:{:02}:{:02}.000Z","userType":"external","cwd":"/home/user/code/{project:02}","sessionId":"{id}","version":"2.1.325","gitBranch":"main""#,
            random.below(1 << 31),
            1 + session % 12,
            1 + session % 28,
            second / 3600,
            second / 60 % 60,
            second % 60,
        )
    };
    let head = common(random, "user");
    let _ =
        writeln!(out, r#"{{{head},"message":{{"role":"user","content":"{}"}}}}"#, random.text(80));
    for line in (1..lines).step_by(3) {
        let usage = format!(
            r#""usage":{{"input_tokens":{},"output_tokens":{},"cache_creation_input_tokens":0,"cache_read_input_tokens":{}}}"#,
            random.below(4000),
            random.below(900),
            random.below(90_000),
        );
        // One line per content block, usage repeated, as the real program writes it.
        for block in ["text", "tool_use"] {
            let head = common(random, "assistant");
            let body = random.text(line_bytes / 2);
            let _ = writeln!(
                out,
                r#"{{{head},"message":{{"id":"msg_{line}","role":"assistant","model":"claude-opus-5-5","content":[{{"type":"{block}","text":"{body}"}}],"stop_reason":"tool_use",{usage}}}}}"#
            );
        }
        let head = common(random, "user");
        let body = random.text(line_bytes * 2);
        let _ = writeln!(
            out,
            r#"{{{head},"message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{line}","content":"{body}"}}]}},"toolUseResult":{{"stdout":"","stderr":""}}}}"#
        );
    }
    out
}
