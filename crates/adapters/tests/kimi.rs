//! Kimi Code, read from files that 2.1.0 wrote.
#![allow(clippy::disallowed_methods, reason = "tests make the files that the adapters read")]

mod fixture;

use std::path::PathBuf;

use fixture::time;
use model::conversation::ConversationRole;
use model::sighting::{TokenUsage, TranscriptDigest, TurnState};

const TOOL: &str = "session_1378c799-a803-4174-9079-f682ee580d4a";
const PLAIN: &str = "session_bc61c280-a4ba-4919-9035-99a46ce7a180";
const MIDTURN: &str = "session_dbd19759-d614-4ac1-9e35-5b1de3b3d6cf";
const WORKSPACE: &str = "sessions/wd_repo_c430811f14b9";

fn root() -> PathBuf {
    fixture::path("kimi/2.1.0")
}

#[test]
fn a_turn_with_a_tool_says_everything() {
    let survey = fixture::survey("kimi", &root());
    assert_eq!(survey.problems, []);
    let mut ids: Vec<_> = survey.sources.iter().map(|source| source.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [TOOL, PLAIN, MIDTURN]);
    assert_eq!(
        fixture::digest("kimi", &survey, TOOL),
        TranscriptDigest {
            cwd: Some("/home/user/repo".into()),
            first_prompt: Some("[[delay:4]][[tool:env | grep -E 'KIMI|AGENT'; sleep 2]] go".into()),
            model: Some("fake-model".into()),
            // createdAt 1794766266628 and updatedAt 1794766277437 of state.json.
            started_at: time("2026-11-15T18:11:06.628Z"),
            last_activity_at: time("2026-11-15T18:11:17.437Z"),
            tokens: Some(TokenUsage { input: 2468, output: 112, cache_read: 0, cache_write: 0 }),
            turns: 1,
            turn: TurnState::Closed,
            ..TranscriptDigest::default()
        }
    );
    let plain = fixture::digest("kimi", &survey, PLAIN);
    assert_eq!(plain.tokens, Some(TokenUsage { input: 1234, output: 56, ..TokenUsage::default() }));
}

#[test]
fn a_session_in_the_middle_of_a_turn_is_open_and_its_prompt_is_no_title() {
    let survey = fixture::survey("kimi", &root());
    let read = fixture::digest("kimi", &survey, MIDTURN);
    assert_eq!((read.turn, read.turns, read.tokens), (TurnState::Open, 1, None));
    assert_eq!((read.title, read.model), (None, None));
    assert_eq!(read.last_activity_at, time("2026-11-15T21:22:06.190Z"));
}

#[test]
fn a_custom_title_is_a_title_and_a_broken_state_is_damage() {
    let home = fixture::copied("kimi/2.1.0");
    let state = home.path().join(WORKSPACE).join(PLAIN).join("state.json");
    let text = std::fs::read_to_string(&state).unwrap();
    let titled = text.replace(r#""isCustomTitle":false"#, r#""isCustomTitle":true,"title":"Mine""#);
    std::fs::write(&state, titled).unwrap();
    let read =
        |home: &std::path::Path| fixture::digest("kimi", &fixture::survey("kimi", home), PLAIN);
    assert_eq!(read(home.path()).title.as_deref(), Some("Mine"));
    std::fs::write(&state, "").unwrap();
    let broken = read(home.path());
    assert_eq!((broken.damage.broken, broken.turns, broken.cwd), (1, 1, None));
}

#[test]
fn a_sub_agent_belongs_to_its_session_and_a_silent_session_is_known_by_its_state() {
    let home = fixture::copied("kimi/2.1.0");
    let session = home.path().join(WORKSPACE).join(PLAIN);
    let main = session.join("agents/main");
    std::fs::rename(&main, session.join("agents/agent-0")).unwrap();
    let survey = fixture::survey("kimi", home.path());
    let child = fixture::source(&survey, &format!("{PLAIN}/agent-0"));
    assert_eq!(child.parent.as_deref(), Some(PLAIN));
    assert_eq!(fixture::source(&survey, PLAIN).format, "kimi-state");
    let read = fixture::digest("kimi", &survey, PLAIN);
    assert_eq!(read.cwd.as_deref(), Some("/home/user/repo"));
    assert_eq!((read.turns, read.turn), (0, TurnState::Unknown));
}

#[test]
fn the_conversation_is_told() {
    use ConversationRole::{Assistant, Result, System, Tool, User};
    let survey = fixture::survey("kimi", &root());
    let source = fixture::source(&survey, TOOL);
    let (said, end) = fixture::converse("kimi", source, 0);
    assert_eq!(fixture::roles(&said), [User, System, System, Tool, Result, Assistant]);
    assert_eq!(said[3].tool.as_deref(), Some("Bash"));
    assert_eq!(said[4].text, "LAB_AGENT=kimi\nKIMI_DISABLE_TELEMETRY=1\n");
    assert_eq!(said[5].text, "hello from the fake model");
    assert_eq!(end, source.stamp.bytes);
}

#[test]
fn the_root_follows_the_environment() {
    assert_eq!(fixture::roots("kimi", &[("HOME", "/h")]), [PathBuf::from("/h/.kimi-code")]);
    assert_eq!(fixture::roots("kimi", &[("KIMI_CODE_HOME", "/k")]), [PathBuf::from("/k")]);
}
