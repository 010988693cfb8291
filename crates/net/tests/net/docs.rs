//! What docs/fleet.md tells people to type works as it stands there.

use std::process::{Child, Stdio};

use testkit::home::TempHome;
use testkit::run::{Ran, ran};

use super::faults::{Cable, HUB_ADDRESS};
use super::fleet_kit::with_engine;
use super::kit::{ostler, wait_until};

const PAGE: &str = include_str!("../../../../docs/fleet.md");

/// The lines of the page's first section that are typed, each with the machine that it says.
fn typed_lines() -> Vec<(&'static str, &'static str)> {
    let section = PAGE.split("## A laptop and a server in five minutes").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let (mut machine, mut lines) = ("", Vec::new());
    for line in section.lines() {
        if line.starts_with("On the server") {
            machine = "server";
        } else if line.starts_with("On the laptop") {
            machine = "laptop";
        } else if let Some(typed) = line.strip_prefix("$ ostler ") {
            lines.push((machine, typed.split("   #").next().unwrap().trim()));
        }
    }
    lines
}

/// The word of an output that begins so.
fn word_of(text: &str, prefix: &str) -> Option<String> {
    text.split_whitespace().find(|word| word.starts_with(prefix)).map(str::to_owned)
}

struct RunningHub(Option<Child>);

impl Drop for RunningHub {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_laptop_and_a_server_in_five_minutes_by_the_lines_of_the_page() {
    let lines = typed_lines();
    assert!(lines.len() >= 8, "{lines:?}");
    let cable = Cable::lay();
    let (server, laptop) = (TempHome::new(), TempHome::new());
    let mut hub = RunningHub(None);
    let (mut request, mut answer) = (String::new(), String::new());
    for (machine, line) in lines {
        // The reader's own name of the server, and the lines that the other machine printed.
        let words: Vec<String> = line
            .split_whitespace()
            .map(|word| match word {
                "server.example.org" => HUB_ADDRESS.to_owned(),
                _ if word.starts_with("ostler-join:") => request.clone(),
                _ if word.starts_with("ostler-admit:") => answer.clone(),
                _ => word.to_owned(),
            })
            .collect();
        let (home, end) = if machine == "server" { (&server, 0) } else { (&laptop, 1) };
        let command = || cable.inside(end, with_engine(ostler(home)).args(&words));
        if words == ["fleet", "hub"] {
            let child = command().stderr(Stdio::null()).spawn().unwrap();
            hub.0 = Some(child);
            wait_until("a hub that listens", || {
                let log = server.join(".local/state/ostler/fleet/hub/hub.log");
                let log = std::fs::read_to_string(log).ok()?;
                Some(()).filter(|()| log.contains("Server is ready"))
            });
            continue;
        }
        // Right after the daemon was started nobody may have heard of it yet.
        let done: Ran = wait_until(&format!("`ostler {line}` on the {machine}"), || {
            Some(ran(&mut command())).filter(|ran| ran.code == 0)
        });
        request = word_of(&done.stdout, "ostler-join:").unwrap_or(request);
        answer = word_of(&done.stdout, "ostler-admit:").unwrap_or(answer);
    }
    let mut status = with_engine(ostler(&laptop));
    let told = ran(&mut cable.inside(1, status.args(["fleet", "status"]))).exits(0);
    assert!(told.stdout.contains("laptop"), "{}", told.stdout);
    ran(&mut cable.inside(1, ostler(&laptop).args(["daemon", "stop"]))).exits(0);
}
