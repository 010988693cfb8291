//! What the help shows of commands that need another machine or a receiver works as it stands there.

use std::collections::BTreeSet;

use serde_json::Value;
use testkit::home::TempHome;
use testkit::run::Ran;

use super::fleet_kit::{TestHub, fleet_run, start_member};
use super::kit::run;
use super::webhooks::{Receiver, add_webhook};

/// The lines of the help's examples that only this suite can run, of commands that begin with a word.
fn lines_of(family: &str) -> BTreeSet<String> {
    let printed = run(&TempHome::new(), "_commands").exits(0).stdout;
    let registry: Value = serde_json::from_str(&printed).unwrap();
    let entries = registry["commands"].as_array().unwrap();
    let examples = entries.iter().flat_map(|entry| entry["examples"].as_array().unwrap());
    let afar = examples.filter(|one| one["stage"] == "afar");
    let lines = afar.map(|one| one["line"].as_str().unwrap().to_owned());
    lines.filter(|line| line.starts_with(family)).collect()
}

/// Runs one of the lines, with the line that the other side printed in its place.
#[track_caller]
fn show(left: &mut BTreeSet<String>, home: &TempHome, line: &str, printed: &str) -> Ran {
    assert!(left.remove(line), "no help shows `ostler {line}`");
    let words: Vec<&str> =
        line.split(' ').map(|word| if word == "LINE" { printed } else { word }).collect();
    fleet_run(home, &words)
}

fn word_of(text: &str, prefix: &str) -> String {
    text.split_whitespace().find(|word| word.starts_with(prefix)).unwrap().to_owned()
}

#[test]
fn row_17_every_example_of_the_fleet_works() {
    let left = &mut lines_of("fleet ");
    show(left, &TempHome::new(), "fleet init --advertise server.example.org", "").exits(0);
    let hub = TestHub::start(&["--plain"]);
    // This is how the hub of every test is run.
    assert!(left.remove("fleet hub"));
    let laptop = TempHome::new();
    laptop.write(".config/ostler/config.toml", "[fleet]\nrenew = \"1s\"\nlook = \"1s\"\n");
    let asked = show(left, &laptop, "fleet join --name laptop", "").exits(0).stdout;
    let request = word_of(&asked, "ostler-join:");
    let admitted = show(left, &hub.home, "fleet admit LINE", &request).exits(0).stdout;
    let answer = word_of(&admitted, "ostler-admit:");
    show(left, &laptop, "fleet join LINE", &answer).exits(0);
    let _daemon = start_member(&laptop);
    hub.wait_for_state("laptop", "reachable");
    show(left, &laptop, "fleet status", "").exits(0);
    let findings = show(left, &laptop, "fleet doctor", "");
    assert!([0, 1].contains(&findings.code), "{findings:?}");
    show(left, &hub.home, "fleet operator laptop --level drive", "").exits(0);
    let operators = show(left, &hub.home, "fleet operator", "").exits(0);
    assert!(operators.stdout.contains("drive"), "{operators:?}");
    show(left, &hub.home, "fleet evict laptop", "").exits(0);
    show(left, &hub.join("desk", "none"), "fleet leave", "").exits(0);
    assert!(left.is_empty(), "no test runs {left:?}");
}

#[test]
fn row_17_every_example_of_webhooks_works() {
    assert_eq!(lines_of("webhook "), BTreeSet::from(["webhook test ID".to_owned()]));
    let home = TempHome::new();
    let receiver = Receiver::start(&["200 OK"]);
    let id = add_webhook(&home, &receiver.url, "")["id"].as_str().unwrap().to_owned();
    run(&home, &format!("webhook test {id}")).exits(0);
}
