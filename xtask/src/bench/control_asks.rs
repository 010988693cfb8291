//! What a hook costs that waits for a permission: until it waits, and while it does.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{Bound, clean, time};

/// How many hooks are timed.
const HOOKS: usize = 41;

/// How long a hook may take at most until it waits.
const MOST: Duration = Duration::from_secs(5);

pub(super) fn measure(ostler: &Path, home: &Path) -> Result<Vec<Bound>, String> {
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(home).map_err(failed)?;
    let requests = home.join(".local/state/ostler/permits");
    let (mut asked, mut floor, mut memory) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..HOOKS {
        floor.push(time(&mut clean(Path::new("/bin/true"), home))?);
        let begun = Instant::now();
        let mut hook = start_hook(ostler, home).map_err(failed)?;
        while !has_request(&requests) {
            if begun.elapsed() > MOST {
                drop(hook.kill());
                return Err("the hook has not asked for anything".to_owned());
            }
            std::hint::spin_loop();
        }
        asked.push(begun.elapsed());
        memory = read_own_memory(hook.id());
        drop(hook.kill());
        drop(hook.wait());
        fs::remove_dir_all(&requests).map_err(failed)?;
    }
    asked.sort_unstable();
    floor.sort_unstable();
    let (asked, floor) = (asked[HOOKS / 2], floor[HOOKS / 2]);
    eprintln!("a hook asks after {asked:?}, /bin/true takes {floor:?}");
    Ok(vec![
        Bound {
            what: "hook with a permission marker until it waits, against /bin/true".to_owned(),
            measured: asked.as_secs_f64() / floor.as_secs_f64(),
            limit: Some(2.5),
            unit: "x",
        },
        Bound {
            what: "memory of its own, of a hook that waits".to_owned(),
            measured: memory,
            limit: Some(2.0),
            unit: " MB",
        },
    ])
}

fn start_hook(ostler: &Path, home: &Path) -> std::io::Result<Child> {
    let mut command = clean(ostler, home);
    command.args(["hook", "claude-code", "PermissionRequest"]).env("OSTLER_PERMITS", "60s");
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    let payload =
        br#"{"session_id":"x","cwd":"/","tool_name":"Bash","tool_input":{"command":"ls"}}"#;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(payload)?;
    }
    Ok(child)
}

fn has_request(requests: &Path) -> bool {
    let entries = fs::read_dir(requests).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.path().extension().is_some_and(|end| end == "json"))
}

/// In megabytes, without what it shares with other processes of the same program.
fn read_own_memory(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or(f64::MAX) / 1024.0
}
