//! Codex, read from files that 0.166.0 wrote.
#![allow(clippy::disallowed_methods, reason = "tests make the files that the adapters read")]

mod fixture;

use std::path::PathBuf;

use fixture::time;
use model::conversation::ConversationRole;
use model::sighting::{
    RegistrationProof, RegistrationScope, TokenUsage, TranscriptDigest, TurnState,
};

const EXEC: &str = "01a1e059-e0bc-7313-8247-ecfc1125a526";
const TOOL: &str = "01a1e05a-8afe-7023-9c06-c72dd0ed785c";
const INTERRUPTED: &str = "01a1e05b-2a2f-7a73-94fb-06f3b2a6e9b4";
const NAMED: &str = "01a1e10d-20f3-76f3-874c-0e12abd24e0a";
const KILLED: &str = "01a1e10d-67bf-76c0-8cdd-28e6cdc456fd";

fn root() -> PathBuf {
    fixture::path("codex/0.166.0")
}

#[test]
fn every_rollout_is_found_once_and_nothing_is_a_problem() {
    let survey = fixture::survey("codex", &root());
    let mut ids: Vec<_> = survey.sources.iter().map(|source| source.id.as_str()).collect();
    ids.sort_unstable();
    let expected = [EXEC, TOOL, "01a1e05a-ed19-7bc1-ad6c-5fd672e690d9", INTERRUPTED, NAMED, KILLED];
    assert_eq!(ids, expected);
    assert_eq!(survey.problems, []);
}

#[test]
fn a_headless_turn_says_everything() {
    let survey = fixture::survey("codex", &root());
    assert_eq!(
        fixture::digest("codex", &survey, EXEC),
        TranscriptDigest {
            cwd: Some("/home/user/repo".into()),
            first_prompt: Some("hi there".into()),
            model: Some("fake-model".into()),
            branch: Some("master".into()),
            version: Some("0.166.0".into()),
            started_at: time("2026-11-15T17:55:49.084Z"),
            last_activity_at: time("2026-11-15T17:55:49.515Z"),
            tokens: Some(TokenUsage { input: 1234, output: 56, cache_read: 0, cache_write: 0 }),
            turns: 1,
            turn: TurnState::Closed,
            ..TranscriptDigest::default()
        }
    );
}

#[test]
fn two_responses_of_one_turn_are_counted_once_each() {
    let survey = fixture::survey("codex", &root());
    let read = fixture::digest("codex", &survey, TOOL);
    assert_eq!(read.turns, 1);
    assert_eq!(read.tokens, Some(TokenUsage { input: 2468, output: 112, ..TokenUsage::default() }));
}

#[test]
fn an_interrupted_turn_is_closed_and_its_notice_is_no_prompt() {
    let survey = fixture::survey("codex", &root());
    let read = fixture::digest("codex", &survey, INTERRUPTED);
    assert_eq!((read.turns, read.turn), (2, TurnState::Closed));
    assert_eq!(read.first_prompt.as_deref(), Some("[[delay:3]] codex first prompt"));
    assert_eq!(read.last_activity_at, time("2026-11-15T17:57:59.995Z"));
}

#[test]
fn a_killed_turn_is_open_and_has_spent_nothing() {
    let survey = fixture::survey("codex", &root());
    let read = fixture::digest("codex", &survey, KILLED);
    assert_eq!((read.turn, read.tokens, read.turns), (TurnState::Open, None, 1));
}

#[test]
fn the_name_of_a_thread_comes_from_the_index() {
    let survey = fixture::survey("codex", &root());
    assert_eq!(fixture::source(&survey, NAMED).name.as_deref(), Some("lab"));
    assert_eq!(fixture::source(&survey, EXEC).name, None);
    assert_eq!(fixture::digest("codex", &survey, NAMED).title, None);
}

#[test]
fn a_writer_lock_is_a_registration_of_its_thread() {
    let survey = fixture::survey("codex", &root());
    let mut scopes: Vec<_> = survey
        .registrations
        .iter()
        .map(|registration| {
            let stamp = ostler_adapters::files::stamp_path(&registration.source).unwrap();
            assert_eq!(registration.proof, RegistrationProof::Lock(stamp));
            let RegistrationScope::Session(id) = &registration.scope else {
                panic!("{registration:?}")
            };
            id.as_str()
        })
        .collect();
    scopes.sort_unstable();
    assert_eq!(scopes, [NAMED, KILLED]);
}

#[test]
fn the_conversation_is_told_and_can_be_followed() {
    use ConversationRole::{Assistant, Result, System, Tool, User};
    let survey = fixture::survey("codex", &root());
    let source = fixture::source(&survey, TOOL);
    let (said, end) = fixture::converse("codex", source, 0);
    assert_eq!(fixture::roles(&said), [System, System, User, Tool, Result, Assistant]);
    assert_eq!(said[2].text, "[[delay:4]][[tool:echo tool-ran; env | grep CODEX; sleep 2]] go");
    assert_eq!(said[3].tool.as_deref(), Some("exec_command"));
    assert!(said[4].text.contains("Process exited with code 0"));
    assert_eq!(said[5].text, "hello from the fake model");
    assert_eq!(end, source.stamp.bytes);
    assert_eq!(fixture::converse("codex", source, end), (vec![], end));
}

#[test]
fn a_compressed_rollout_reads_like_a_plain_one() {
    let home = tempfile::tempdir().unwrap();
    let survey = fixture::survey("codex", &root());
    let plain = fixture::source(&survey, TOOL);
    let bytes = std::fs::read(&plain.path).unwrap();
    let name = plain.path.file_name().unwrap().to_str().unwrap();
    let archive = home.path().join("archived_sessions");
    std::fs::create_dir(&archive).unwrap();
    let packed_path = archive.join(format!("{name}.zst"));
    let packed = zstd::encode_all(&bytes[..], 3).unwrap();
    std::fs::write(&packed_path, &packed).unwrap();

    let archived = fixture::survey("codex", home.path());
    let source = fixture::source(&archived, TOOL);
    assert_eq!(source.format, "codex-rollout-zst");
    assert_eq!(fixture::digest("codex", &archived, TOOL), fixture::digest("codex", &survey, TOOL));
    let (said, end) = fixture::converse("codex", source, 0);
    assert_eq!((said.len(), end), (6, bytes.len() as u64));
    let second_line = bytes.iter().position(|&byte| byte == b'\n').unwrap() as u64 + 1;
    assert_eq!(fixture::converse("codex", source, second_line), (said, end));

    // Cut off, it is an error, not a shorter session.
    std::fs::write(&packed_path, &packed[..packed.len() / 2]).unwrap();
    let cut = fixture::survey("codex", home.path());
    assert!(fixture::adapter("codex").read_digest(fixture::source(&cut, TOOL)).is_err());

    // With both forms there, the plain one counts.
    std::fs::write(archive.join(name), &bytes).unwrap();
    let both = fixture::survey("codex", home.path());
    assert_eq!(fixture::source(&both, TOOL).format, "codex-rollout");
    assert_eq!(both.extras.len(), 1);
}

#[test]
fn the_root_follows_the_environment() {
    assert_eq!(fixture::roots("codex", &[("HOME", "/h")]), [PathBuf::from("/h/.codex")]);
    let both = [("HOME", "/h"), ("CODEX_HOME", "/c")];
    assert_eq!(fixture::roots("codex", &both), [PathBuf::from("/c")]);
}
