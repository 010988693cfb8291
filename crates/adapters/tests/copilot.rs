//! GitHub Copilot CLI, read from files that 1.0.102 wrote.
#![allow(clippy::disallowed_methods, reason = "tests make the files that the adapters read")]

mod fixture;

use std::path::PathBuf;

use fixture::time;
use model::conversation::ConversationRole;
use model::identity::Identity;
use model::sighting::{
    RegistrationProof, RegistrationScope, TokenUsage, TranscriptDigest, TurnState,
};
use ostler_adapters::files;

const ENDED: &str = "6125af29-0762-4b33-a944-13a0f18430cf";
const MIDTURN: &str = "72245c4e-511d-41a3-99bb-5029385b09a0";
const KILLED: &str = "544f4bef-31a6-4661-963d-ffc791388b7a";

fn root() -> PathBuf {
    fixture::path("copilot/1.0.102")
}

#[test]
fn a_finished_session_says_everything() {
    let survey = fixture::survey("copilot", &root());
    assert_eq!(survey.problems, []);
    assert_eq!(survey.sources.len(), 3);
    assert_eq!(
        fixture::digest("copilot", &survey, ENDED),
        TranscriptDigest {
            cwd: Some("/home/user/repo".into()),
            first_prompt: Some("[[delay:4]][[tool:env | grep -E 'COPILOT_[A-Z_]*SESSION|COPILOT_CLI|AGENT'; sleep 2]] go".into()),
            model: Some("fake-model".into()),
            branch: Some("master".into()),
            version: Some("1.0.102".into()),
            started_at: time("2026-11-15T18:03:27.781Z"),
            last_activity_at: time("2026-11-15T18:03:38.978Z"),
            ended_at: time("2026-11-15T18:03:38.978Z"),
            tokens: Some(TokenUsage { input: 2468, output: 112, cache_read: 0, cache_write: 0 }),
            turns: 1,
            turn: TurnState::Closed,
            ..TranscriptDigest::default()
        }
    );
}

#[test]
fn a_session_in_the_middle_of_a_turn_is_open() {
    let survey = fixture::survey("copilot", &root());
    let read = fixture::digest("copilot", &survey, MIDTURN);
    assert_eq!(
        (read.turn, read.turns, read.ended_at, read.tokens),
        (TurnState::Open, 1, None, None)
    );
    assert_eq!(read.started_at, time("2026-11-15T21:21:03.783Z"));
    assert_eq!(read.last_activity_at, time("2026-11-15T21:21:11.491Z"));
}

#[test]
fn a_session_without_events_is_known_by_its_workspace() {
    let survey = fixture::survey("copilot", &root());
    let source = fixture::source(&survey, KILLED);
    assert_eq!(source.format, "copilot-workspace");
    assert_eq!(
        fixture::digest("copilot", &survey, KILLED),
        TranscriptDigest {
            cwd: Some("/home/user/repo".into()),
            title: Some("Reply to prompt-four [[say:answer to prompt-four]] [[delay:100]]".into()),
            branch: Some("main".into()),
            started_at: time("2026-11-15T21:21:25.984Z"),
            last_activity_at: time("2026-11-15T21:21:26.239Z"),
            ..TranscriptDigest::default()
        }
    );
    assert_eq!(fixture::converse("copilot", source, 0), (vec![], 0));
}

#[test]
fn a_lock_names_the_process_and_the_file_it_holds() {
    let survey = fixture::survey("copilot", &root());
    let directory = root().join("session-state").join(MIDTURN);
    let registration = survey
        .registrations
        .iter()
        .find(|registration| registration.scope == RegistrationScope::Session(MIDTURN.into()))
        .unwrap();
    assert_eq!(registration.source, directory.join("inuse.22350.lock"));
    let lock = files::stamp_path(&registration.source).unwrap();
    assert_eq!(
        registration.proof,
        RegistrationProof::Process {
            identity: Identity {
                recorded_at: Some(lock.modified_at()),
                comm: Some("copilot".into()),
                ..Identity::recorded_by_agent(Some(22350))
            },
            holds: files::stamp_path(&directory.join("inuse.22350.hold")),
        }
    );
    assert_eq!(survey.registrations.len(), 2);
}

#[test]
fn a_lock_that_contradicts_its_name_is_a_problem_and_proves_nothing() {
    let home = fixture::copied("copilot/1.0.102");
    let lock = home.path().join("session-state").join(KILLED).join("inuse.23461.lock");
    let pid_with = |content: &str| {
        std::fs::write(&lock, content).unwrap();
        let survey = fixture::survey("copilot", home.path());
        let registration = survey
            .registrations
            .iter()
            .find(|registration| registration.scope == RegistrationScope::Session(KILLED.into()))
            .unwrap();
        let RegistrationProof::Process { identity, .. } = &registration.proof else { panic!() };
        (identity.pid, survey.problems.len())
    };
    assert_eq!(pid_with("23461\n"), (Some(23461), 0));
    assert_eq!(pid_with(""), (Some(23461), 1));
    assert_eq!(pid_with("7"), (None, 1));
}

#[test]
fn the_conversation_is_told() {
    use ConversationRole::{Assistant, Result, System, Tool, User};
    let survey = fixture::survey("copilot", &root());
    let source = fixture::source(&survey, ENDED);
    let (said, end) = fixture::converse("copilot", source, 0);
    assert_eq!(fixture::roles(&said), [User, System, Tool, Result, Assistant]);
    assert_eq!(said[2].tool.as_deref(), Some("bash"));
    assert!(said[3].text.starts_with("LAB_AGENT=copilot"));
    assert_eq!(said[4].text, "hello from the fake model");
    assert_eq!(end, source.stamp.bytes);
}

#[test]
fn the_root_follows_the_environment() {
    assert_eq!(fixture::roots("copilot", &[("HOME", "/h")]), [PathBuf::from("/h/.copilot")]);
    assert_eq!(fixture::roots("copilot", &[("COPILOT_HOME", "/c")]), [PathBuf::from("/c")]);
}
