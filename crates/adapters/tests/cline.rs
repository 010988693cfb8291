//! Cline, read from files that 3.0.65 wrote.
#![allow(clippy::disallowed_methods, reason = "tests make the files that the adapters read")]

mod fixture;

use std::path::{Path, PathBuf};

use fixture::time;
use model::conversation::ConversationRole;
use model::identity::Identity;
use model::sighting::{
    ProcessRegistration, RegistrationProof, RegistrationScope, TokenUsage, TranscriptDigest,
    TurnState,
};
use model::status::Activity;
use ostler_adapters::files;

const ENDED: &str = "1794766310658_92gws";
const KILLED: &str = "1794777812249_9jipf";

fn root() -> PathBuf {
    fixture::path("cline/3.0.65/data/sessions")
}

/// A copy that a test may change, and the root in it.
fn copied() -> (tempfile::TempDir, PathBuf) {
    let home = fixture::copied("cline/3.0.65/data");
    let sessions = home.path().join("sessions");
    (home, sessions)
}

#[test]
fn a_finished_session_says_everything_and_registers_nobody() {
    let survey = fixture::survey("cline", &root());
    assert_eq!(survey.problems, []);
    assert_eq!(survey.sources.len(), 2);
    assert_eq!(
        fixture::digest("cline", &survey, ENDED),
        TranscriptDigest {
            cwd: Some("/home/user/repo".into()),
            first_prompt: Some("[[tool:echo hi-from-tool]] hi there".into()),
            model: Some("fake-model".into()),
            branch: Some("master".into()),
            version: Some("3.0.65".into()),
            started_at: time("2026-11-15T18:11:50.728Z"),
            last_activity_at: time("2026-11-15T18:11:54.278Z"),
            ended_at: time("2026-11-15T18:11:54.278Z"),
            tokens: Some(TokenUsage { input: 1234, output: 56, cache_read: 0, cache_write: 0 }),
            // It says 0: no price is known for the model.
            cost_micro_usd: None,
            turns: 1,
            turn: TurnState::Closed,
            ..TranscriptDigest::default()
        }
    );
    let ended = RegistrationScope::Session(ENDED.into());
    assert!(survey.registrations.iter().all(|registration| registration.scope != ended));
}

#[test]
fn the_first_turn_is_open_before_there_is_a_message() {
    let survey = fixture::survey("cline", &root());
    assert_eq!(
        fixture::digest("cline", &survey, KILLED),
        TranscriptDigest {
            cwd: Some("/home/user/repo".into()),
            first_prompt: Some(
                "Reply to prompt-four [[say:answer to prompt-four]] [[delay:100]]".into()
            ),
            branch: Some("main".into()),
            version: Some("3.0.65".into()),
            started_at: time("2026-11-15T21:23:32.261Z"),
            last_activity_at: time("2026-11-15T21:23:32.261Z"),
            turns: 1,
            turn: TurnState::Open,
            ..TranscriptDigest::default()
        }
    );
}

#[test]
fn a_session_that_goes_on_registers_its_pid_and_the_database_it_holds() {
    let (home, sessions) = copied();
    std::fs::create_dir_all(home.path().join("db")).unwrap();
    let database = home.path().join("db/sessions.db");
    std::fs::write(&database, "x").unwrap();
    let survey = fixture::survey("cline", &sessions);
    let source =
        std::fs::canonicalize(&sessions).unwrap().join(KILLED).join(format!("{KILLED}.json"));
    assert_eq!(
        survey.registrations,
        [ProcessRegistration {
            scope: RegistrationScope::Session(KILLED.into()),
            proof: RegistrationProof::Process {
                identity: Identity {
                    recorded_at: time("2026-11-15T21:23:32.261Z"),
                    comm: Some("cline".into()),
                    ..Identity::recorded_by_agent(Some(26373))
                },
                holds: files::stamp_path(&database),
            },
            source,
            activity: Some(Activity::Working),
            waiting_for: None,
            digest: TranscriptDigest {
                cwd: Some("/home/user/repo".into()),
                version: Some("3.0.65".into()),
                started_at: time("2026-11-15T21:23:32.261Z"),
                ..TranscriptDigest::default()
            },
        }]
    );
}

#[test]
fn a_manifest_that_cannot_be_read_protects_its_session() {
    let (_home, sessions) = copied();
    let manifest = sessions.join(ENDED).join(format!("{ENDED}.json"));
    std::fs::write(&manifest, r#"{"version":1,"#).unwrap();
    let survey = fixture::survey("cline", &sessions);
    assert_eq!(survey.problems.len(), 1);
    let protects = |registration: &ProcessRegistration| {
        registration.scope == RegistrationScope::Session(ENDED.into())
            && matches!(&registration.proof, RegistrationProof::Process { identity, .. } if identity.pid.is_none())
    };
    assert!(survey.registrations.iter().any(protects));
    let read = fixture::digest("cline", &survey, ENDED);
    assert_eq!((read.turns, read.damage.broken, read.ended_at), (1, 1, None));
}

#[test]
fn messages_that_are_cut_off_are_damage_and_not_an_empty_session() {
    let (_home, sessions) = copied();
    let messages = sessions.join(ENDED).join(format!("{ENDED}.messages.json"));
    let whole = std::fs::read(&messages).unwrap();
    for cut in [0, whole.len() / 2] {
        std::fs::write(&messages, &whole[..cut]).unwrap();
        let survey = fixture::survey("cline", &sessions);
        let read = fixture::digest("cline", &survey, ENDED);
        assert_eq!((read.damage.broken, read.turns), (1, 1), "{cut} bytes");
        assert_eq!(
            read.tokens,
            Some(TokenUsage { input: 1234, output: 56, ..TokenUsage::default() })
        );
    }
    std::fs::remove_file(&messages).unwrap();
    let survey = fixture::survey("cline", &sessions);
    assert_eq!(fixture::source(&survey, ENDED).format, "cline-manifest");
    assert_eq!(fixture::digest("cline", &survey, ENDED).damage.broken, 0);
}

#[test]
fn a_teammate_belongs_to_its_session() {
    let (_home, sessions) = copied();
    let session = sessions.join(ENDED);
    let messages = session.join(format!("{ENDED}.messages.json"));
    std::fs::copy(messages, session.join("ada__1.messages.json")).unwrap();
    let survey = fixture::survey("cline", &sessions);
    let id = format!("{ENDED}/ada__1");
    assert_eq!(fixture::source(&survey, &id).parent.as_deref(), Some(ENDED));
    let read = fixture::digest("cline", &survey, &id);
    assert_eq!((read.turns, read.cwd), (1, None));
}

#[test]
fn the_conversation_is_told_message_by_message() {
    let survey = fixture::survey("cline", &root());
    let source = fixture::source(&survey, ENDED);
    let (said, end) = fixture::converse("cline", source, 0);
    assert_eq!(fixture::roles(&said), [ConversationRole::User, ConversationRole::Assistant]);
    assert_eq!(said[0].text, "[[tool:echo hi-from-tool]] hi there");
    assert_eq!(end, 2);
    assert_eq!(fixture::converse("cline", source, 1), (said[1..].to_vec(), 2));
}

#[test]
fn the_root_follows_the_environment() {
    let roots = |variables: &[(&str, &str)]| {
        let roots = fixture::roots("cline", variables);
        assert_eq!(roots.len(), 1);
        roots[0].clone()
    };
    let home = ("HOME", "/h");
    assert_eq!(roots(&[home]), Path::new("/h/.cline/data/sessions"));
    assert_eq!(roots(&[home, ("CLINE_DIR", "/c")]), Path::new("/c/data/sessions"));
    assert_eq!(roots(&[home, ("CLINE_DATA_DIR", "/d")]), Path::new("/d/sessions"));
    assert_eq!(roots(&[home, ("CLINE_SESSION_DATA_DIR", "/s")]), Path::new("/s"));
}
