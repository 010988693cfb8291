//! Every command that can be ordered: its answer from afar is the one that it gives there. And what a member that has
//! much to do answers.

use std::collections::BTreeSet;
use std::process::Stdio;

use model::fleet_order::{ORDER_RULES, OrderRule};
use model::wire::FleetLevel;
use serde_json::{Value, json};

use super::fleet_kit::{fleet_run, signal_process, with_engine};
use super::kit::{ostler, wait_until};
use super::orders::{Pair, steady};

/// The rule of a line: the longest command that it begins with.
fn rule_of(line: &[&str]) -> &'static OrderRule {
    let begins =
        |rule: &&OrderRule| rule.command.split(' ').zip(line).all(|(word, given)| word == *given);
    ORDER_RULES.iter().filter(begins).max_by_key(|rule| rule.command.len()).unwrap()
}

/// The lines are of every command whose level is one of these. Terminals have tests of their own, and a list of
/// sessions is the fleet's.
#[track_caller]
fn assert_all_covered(lines: &[&[&str]], levels: &[FleetLevel]) {
    let given: BTreeSet<&str> = lines.iter().map(|line| rule_of(line).command).collect();
    let has_own = |rule: &OrderRule| rule.streams || rule.command == "ls";
    let all = ORDER_RULES.iter().filter(|rule| levels.contains(&rule.level) && !has_own(rule));
    assert_eq!(given, all.map(|rule| rule.command).collect());
}

#[test]
fn row_59_each_answer_equals_the_local_commands() {
    let pair = Pair::with("read");
    let made = fleet_run(&pair.server, &["--json", "create", "--name", "build", "--", "cat"]);
    let id = made.exits(0).result()["sessionId"].as_str().unwrap().to_owned();
    let lines: &[&[&str]] = &[
        &["show", "build"],
        &["why", &id],
        &["who", &id],
        &["inspect", &id],
        &["adapters"],
        &["du"],
        &["doctor"],
        &["status"],
        &["events"],
        &["ps"],
        &["trash", "ls"],
        &["snapshot", &id],
        &["screenshot", &id],
        &["gc"],
        &["logs", &id],
        &["peek", &id],
        &["search", "no-such-word"],
        &["usage"],
        &["access", "list"],
        &["outcome", "01KABCDEFGHJKMNPQRSTVWXYZ0"],
        &["wait", &id, "--idle-ms", "10"],
    ];
    assert_all_covered(lines, &[FleetLevel::Read]);
    for line in lines {
        let with_json: Vec<&str> = ["--json"].iter().chain(*line).copied().collect();
        // What is always given from afar.
        let near: Vec<&str> = match rule_of(line).always {
            [] => with_json.clone(),
            always => {
                assert_eq!(always, ["no-sweep"]);
                with_json.iter().copied().chain(["--no-sweep"]).collect()
            }
        };
        let (afar, near) = (pair.order(&with_json), fleet_run(&pair.server, &near));
        assert_eq!(afar.code, near.code, "{line:?}: {afar:?}");
        // These are lines and no envelope.
        match rule_of(line).command {
            "events" => assert_eq!(afar.stdout, near.stdout),
            _ => assert_eq!(steady(afar.envelope()), steady(near.envelope()), "{line:?}"),
        }
    }
    // The same for people, and by an address instead of the option.
    let afar = fleet_run(&pair.laptop, &["show", "server/build"]).exits(0);
    assert!(afar.stdout.contains(&id[..8]) || afar.stdout.contains("build"), "{}", afar.stdout);
    let missing = pair.order(&["--json", "show", "no-such-session"]).exits(3);
    assert_eq!(missing.error(), "SESSION_NOT_FOUND");
    let missing = pair.order(&["show", "no-such-session"]).exits(3);
    assert!(missing.stderr.contains("server: "), "{}", missing.stderr);
    fleet_run(&pair.laptop, &["show", "nowhere/build"]).exits(3);
    pair.order(&["setup"]).exits(2);
    pair.order(&["screenshot", &id, "--out", "/tmp/picture"]).exits(2);
    pair.order(&["prompt", &id, "x", "--file", "/etc/passwd"]).exits(2);
    fleet_run(&pair.server, &["destroy", "build"]).exits(0);
}

/// Every path of an answer with the type of what is there, and its words where those are ours.
fn shape_of(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            fields
                .iter()
                .for_each(|(name, value)| shape_of(value, &format!("{path}/{name}"), found));
        }
        Value::Array(values) => {
            values.iter().for_each(|one| shape_of(one, &format!("{path}/*"), found));
        }
        Value::Bool(_) => drop(found.insert(format!("{path}: {value}"))),
        Value::String(_) if path.ends_with("/code") || path.ends_with("/status") => {
            found.insert(format!("{path}: {value}"));
        }
        Value::String(_) => drop(found.insert(format!("{path}: text"))),
        Value::Number(_) => drop(found.insert(format!("{path}: number"))),
        Value::Null => drop(found.insert(format!("{path}: null"))),
    }
}

#[test]
fn row_59_what_changes_something_answers_as_it_does_there() {
    let pair = Pair::with("reap");
    // One terminal for each side; `@` is its name. What cannot be done is refused alike.
    let lines: &[&[&str]] = &[
        &["create", "--name", "@", "--cwd", "/", "--", "sh"],
        &["type", "@", "x"],
        &["paste", "@", "y"],
        &["send-keys", "@", "Enter"],
        &["run", "@", "true", "--no-wait"],
        &["resize", "@", "--cols", "70", "--rows", "10"],
        &["mark", "@", "a mark"],
        &["signal", "@", "WINCH"],
        &["pin", "@"],
        &["pin", "@", "--remove"],
        &["prompt", "@", "hello"],
        &["stop", "@", "--dry-run"],
        &["destroy", "@"],
        &["finalize", "--dry-run"],
        &["undo", "01KABCDEFGHJKMNPQRSTVWXYZ0"],
        &["access", "stop", "nobody"],
    ];
    assert_all_covered(lines, &[FleetLevel::Drive, FleetLevel::Reap]);
    for line in lines {
        let named = |name: &'static str| -> Vec<&str> {
            let words = line.iter().map(|word| if *word == "@" { name } else { *word });
            ["--json"].into_iter().chain(words).collect()
        };
        let near = fleet_run(&pair.server, &named("near"));
        let afar = pair.order(&named("afar"));
        assert_eq!(afar.code, near.code, "{line:?}: {afar:?} {near:?}");
        let (mut one, mut other) = (BTreeSet::new(), BTreeSet::new());
        shape_of(&steady(near.envelope()), "", &mut one);
        shape_of(&steady(afar.envelope()), "", &mut other);
        assert_eq!(one, other, "{line:?}");
    }
}

#[test]
fn whoever_asks_for_more_than_four_things_at_once_is_told_to_wait() {
    let pair = Pair::with("read");
    // A daemon that does not answer holds whatever is asked.
    signal_process(pair.daemon().0.id(), "-STOP");
    let ask = || {
        let mut command = with_engine(ostler(&pair.laptop));
        command.args(["--json", "--host", "server", "adapters"]).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut children: Vec<_> = (0..6).map(|_| ask()).collect();
    wait_until("two that are told to wait", || {
        let ended = children.iter_mut().filter_map(|child| child.try_wait().unwrap());
        Some(()).filter(|()| ended.count() >= 2)
    });
    signal_process(pair.daemon().0.id(), "-CONT");
    let mut codes = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let code = output.status.code().unwrap();
        if code != 0 {
            assert_eq!((code, &told["error"]["code"]), (5, &json!("BUSY")), "{told}");
            assert_eq!(told["error"]["retryable"], true, "{told}");
        }
        codes.push(code);
    }
    codes.sort_unstable();
    assert_eq!(codes, [0, 0, 0, 0, 5, 5]);
    pair.order(&["adapters"]).exits(0);
}
