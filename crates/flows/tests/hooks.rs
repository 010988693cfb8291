//! Installing and uninstalling hooks over documents that nobody would write by hand.

#![allow(clippy::unwrap_used, reason = "a test says what it means with unwrap")]
#![allow(clippy::disallowed_methods, reason = "tests remove what they made")]

use std::fs;
use std::path::Path;

use ostler_flows::hooks::{HookAction, HooksRequest, State, change_hooks, hooks_status};
use proptest::prelude::*;
use testkit::machine::FakeMachine;

/// Blanks and comments as they may stand between any two tokens.
fn gap() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => Just(String::new()),
        3 => Just(" ".to_owned()),
        2 => Just("\n".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => "/\\*[ a-z,\\{\\}\\[\\]\"/]{0,6}\\*/",
        1 => "//[ a-z,\\{\\}\\[\\]\"\\*]{0,6}\n",
    ];
    prop::collection::vec(piece, 0..3).prop_map(|pieces| pieces.concat())
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("hooks".to_owned()),
        Just("Stop".to_owned()),
        Just("matcher".to_owned()),
        "[a-z\u{e9}]{1,4}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("-1.5e3".to_owned()),
        "\"([a-z {},:/*\\[\\]\u{1F600}]|\\\\\"|\\\\\\\\){0,6}\"",
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (prop::collection::vec((gap(), inner.clone(), gap()), 0..3), any::<bool>(), gap())
                .prop_map(|(children, comma, end)| joined('[', ']', children, comma, &end)),
            (members(inner), any::<bool>(), gap())
                .prop_map(|(children, comma, end)| joined('{', '}', children, comma, &end)),
        ]
    })
}

type Children = Vec<(String, String, String)>;

/// Members of an object; no key is there twice.
fn members(value: impl Strategy<Value = String>) -> impl Strategy<Value = Children> {
    prop::collection::btree_map(key(), (gap(), gap(), gap(), value, gap()), 0..4).prop_map(
        |members| {
            let member = |(key, (before, colon, after, value, end)): (String, _)| {
                let end: String = end;
                (before, format!("\"{key}\"{colon}:{after}{value}"), end)
            };
            members.into_iter().map(member).collect()
        },
    )
}

fn joined(open: char, close: char, children: Children, comma: bool, end: &str) -> String {
    let count = children.len();
    let mut out = String::from(open);
    for (index, (before, child, after)) in children.into_iter().enumerate() {
        out.push_str(&before);
        out.push_str(&child);
        out.push_str(&after);
        if index + 1 < count || comma {
            out.push(',');
        }
    }
    out.push_str(end);
    out.push(close);
    out
}

/// The hooks of somebody else.
fn others() -> impl Strategy<Value = String> {
    let hook = (gap(), gap())
        .prop_map(|(a, b)| (a, "{ \"type\": \"command\", \"command\": \"beep\" }".to_owned(), b));
    let group = (prop::collection::vec(hook, 0..3), any::<bool>(), gap())
        .prop_map(|(hooks, c, e)| format!("{{\"hooks\":{}}}", joined('[', ']', hooks, c, &e)));
    let list = (prop::collection::vec((gap(), group, gap()), 0..3), any::<bool>(), gap())
        .prop_map(|(groups, comma, end)| joined('[', ']', groups, comma, &end));
    let event = prop_oneof![Just("Stop"), Just("SessionStart"), Just("Other")];
    (prop::collection::btree_map(event, (gap(), list, gap()), 0..3), any::<bool>(), gap()).prop_map(
        |(events, comma, end)| {
            let member = |(name, (before, list, after)): (&str, (String, String, String))| {
                (before, format!("\"{name}\": {list}"), after)
            };
            joined('{', '}', events.into_iter().map(member).collect(), comma, &end)
        },
    )
}

/// Settings of an agent: anything, and perhaps hooks.
fn document() -> impl Strategy<Value = String> {
    let rest = members(value()).prop_map(|mut members| {
        members.retain(|(_, member, _)| !member.starts_with("\"hooks\""));
        members
    });
    (gap(), rest, prop::option::of((gap(), others(), gap())), any::<bool>(), gap(), gap()).prop_map(
        |(start, mut members, hooks, comma, end, tail)| {
            if let Some((before, hooks, after)) = hooks {
                members.insert(members.len() / 2, (before, format!("\"hooks\":{hooks}"), after));
            }
            format!("{start}{}{tail}", joined('{', '}', members, comma, &end))
        },
    )
}

/// What uninstalling removes goes as the program would have it, without a home.
fn take_away(path: &Path, _: &[u8]) -> std::io::Result<()> {
    std::fs::remove_file(path)
}

fn within<T>(home: &Path, act: impl FnOnce(&HooksRequest<'_>) -> T) -> T {
    let fake = FakeMachine::new();
    fake.set_variable("HOME", home);
    let program = Path::new("/usr/bin/ostler");
    act(&HooksRequest { machine: &fake.machine(), program, project: None })
}

fn is_within(text: &str, longer: &str) -> bool {
    let mut rest = longer.chars();
    text.chars().all(|c| rest.any(|other| other == c))
}

/// The hashes are those under which Codex 0.166.0 runs the hooks without being told to trust them.
#[test]
fn codex_trusts_exactly_the_hooks_that_its_user_has_seen() {
    use sha2::{Digest, Sha256};

    let home = tempfile::tempdir().unwrap();
    let hooks = home.path().join(".codex/hooks.json");
    let settings = home.path().join(".codex/config.toml");
    within(home.path(), |request| {
        let state = || hooks_status("codex", request).unwrap().state;
        change_hooks("codex", request, HookAction::Install, false, &take_away).unwrap();
        assert_eq!(state(), Some(State::NotTrusted));
        let written: serde_json::Value =
            serde_json::from_slice(&fs::read(&hooks).unwrap()).unwrap();
        let mut text = fs::read_to_string(&settings).unwrap();
        for (event, groups) in written["hooks"].as_object().unwrap() {
            let snake = event.chars().fold(String::new(), |out, c| match c.is_uppercase() {
                true if !out.is_empty() => format!("{out}_{}", c.to_ascii_lowercase()),
                _ => format!("{out}{}", c.to_ascii_lowercase()),
            });
            let hook = &groups[0]["hooks"][0];
            let (command, timeout) = (&hook["command"], &hook["timeout"]);
            let identity = format!(
                r#"{{"event_name":"{snake}","hooks":[{{"async":false,"command":{command},"timeout":{timeout},"type":"command"}}]}}"#
            );
            let hash: String =
                Sha256::digest(identity).iter().map(|byte| format!("{byte:02x}")).collect();
            let name = format!("{}:{snake}:0:0", hooks.display());
            text.push_str(&format!("[hooks.state.\"{name}\"]\ntrusted_hash = \"sha256:{hash}\"\n"));
        }
        fs::write(&settings, &text).unwrap();
        assert_eq!(state(), Some(State::Installed));
        fs::write(&settings, text.replacen("sha256:", "sha256:0", 1)).unwrap();
        assert_eq!(state(), Some(State::NotTrusted), "another hook was trusted");
        fs::write(&settings, text.replacen("trusted_hash", "enabled = false\ntrusted_hash", 1))
            .unwrap();
        assert_eq!(state(), Some(State::NotTrusted), "it was switched off");
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn uninstalling_undoes_installing(document in document()) {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".claude/settings.json");
        fs::create_dir(home.path().join(".claude")).unwrap();
        fs::write(&file, &document).unwrap();
        within(home.path(), |request| {
            change_hooks("claude-code", request, HookAction::Install, false, &take_away).unwrap();
            let installed = fs::read_to_string(&file).unwrap();
            prop_assert!(is_within(&document, &installed), "{}", installed);
            let state = hooks_status("claude-code", request).unwrap().state;
            prop_assert_eq!(state, Some(State::Installed), "{}", installed);
            change_hooks("claude-code", request, HookAction::Uninstall, false, &take_away).unwrap();
            prop_assert_eq!(&fs::read_to_string(&file).unwrap(), &document);
            Ok(())
        })?;
    }

    /// Without the file from before, and with a change of somebody else's, nothing but the hooks goes.
    #[test]
    fn only_the_hooks_go_when_others_have_changed_the_file(document in document()) {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".claude/settings.json");
        fs::create_dir(home.path().join(".claude")).unwrap();
        fs::write(&file, &document).unwrap();
        within(home.path(), |request| {
            change_hooks("claude-code", request, HookAction::Install, false, &take_away).unwrap();
            let installed = fs::read_to_string(&file).unwrap();
            fs::write(&file, format!("{installed} /* more */")).unwrap();
            change_hooks("claude-code", request, HookAction::Uninstall, false, &take_away).unwrap();
            let after = fs::read_to_string(&file).unwrap();
            prop_assert!(!after.contains("ostler-hooks"), "{}", after);
            let blanks = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(blanks(&after), blanks(&format!("{document} /* more */")), "{}", after);
            let state = hooks_status("claude-code", request).unwrap().state;
            prop_assert_eq!(state, Some(State::NotInstalled));
            Ok(())
        })?;
    }
}
