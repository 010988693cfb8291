//! Qwen Code: real transcripts and registrations of 0.24.4.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod observe;

use model::conversation::ConversationRole;
use model::identity::{BootId, Identity, IdentityRecorder};
use model::sighting::{
    ProcessRegistration, RegistrationProof, RegistrationScope, TokenUsage, TranscriptDigest,
    TurnState,
};
use model::time::Time;
use observe::{Observed, fixtures, observe};
use testkit::home::TempHome;

const INTERACTIVE: &str = "49aa2249-5e2f-4617-b2ba-07eb04088e5b";
const HEADLESS: &str = "64da80e1-edde-4e9a-85c2-039901f35f1e";

fn home() -> TempHome {
    let home = TempHome::new();
    home.lay_out(&fixtures("qwen/0.24.4"), ".qwen");
    home
}

fn look(home: &TempHome) -> Observed {
    observe(ostler_adapters::by_id("qwen").unwrap(), home, &[])
}

fn time(text: &str) -> Option<Time> {
    Some(Time::parse(text).unwrap())
}

fn identity(registration: &ProcessRegistration) -> &Identity {
    match &registration.proof {
        RegistrationProof::Process { identity, .. } => identity,
        RegistrationProof::Lock(_) => panic!("a lock"),
    }
}

#[test]
fn a_headless_turn_with_a_tool() {
    let observed = look(&home());
    let expected = TranscriptDigest {
        cwd: Some("/home/user/repo".into()),
        first_prompt: Some(
            "[[delay:4]][[tool:env | grep -E 'QWEN|AGENT|GEMINI'; sleep 2]] go".into(),
        ),
        model: Some("fake-model".into()),
        branch: Some("master".into()),
        version: Some("0.24.4".into()),
        started_at: time("2026-11-15T18:02:43.596Z"),
        last_activity_at: time("2026-11-15T18:02:55.995Z"),
        // As usage_record.jsonl has it for this session.
        tokens: Some(TokenUsage { input: 2468, output: 112, cache_read: 0, cache_write: 0 }),
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(*observed.digest(HEADLESS), expected);
    assert!(observed.problems.is_empty(), "{:?}", observed.problems);
    let said = observed.said(HEADLESS);
    let roles: Vec<_> = said.iter().map(|(role, _)| *role).collect();
    assert_eq!(
        roles,
        [
            ConversationRole::User,
            ConversationRole::Tool,
            ConversationRole::Result,
            ConversationRole::Assistant
        ]
    );
    assert_eq!(said[1].1, "run_shell_command");
    assert_eq!(said[3].1, "hello from the fake model");
}

#[test]
fn an_interactive_session_counts_the_subagent_that_kept_no_transcript() {
    let observed = look(&home());
    let expected = TranscriptDigest {
        cwd: Some("/home/user/repo".into()),
        first_prompt: Some("hello interactive".into()),
        model: Some("fake-model".into()),
        branch: Some("master".into()),
        version: Some("0.24.4".into()),
        started_at: time("2026-11-15T18:31:22.766Z"),
        last_activity_at: time("2026-11-15T18:31:23.986Z"),
        // 1234 + 56 for the answer, and again for the memory extractor.
        tokens: Some(TokenUsage { input: 2468, output: 112, cache_read: 0, cache_write: 0 }),
        turns: 1,
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    };
    assert_eq!(*observed.digest(INTERACTIVE), expected);
}

#[test]
fn a_session_killed_in_mid_turn_is_open() {
    let observed = look(&home());
    let killed = observed.digest("99739ab8-2589-42c2-8e1e-8faabffa820f");
    assert_eq!((killed.turn.clone(), killed.turns, killed.tokens), (TurnState::Open, 1, None));
    assert_eq!(killed.branch.as_deref(), Some("main"));
    assert_eq!(observed.sessions.len(), 3);
}

#[test]
fn a_registration_says_all_it_knows_and_no_secret() {
    let home = home();
    let token = "a276bbdff75679652c8b0dec4e7092ce";
    let path = ".qwen/sessions/29453.json";
    let text = String::from_utf8(home.read(path)).unwrap().replace("REDACTED", token);
    assert!(text.contains(token));
    home.write(path, text);
    let observed = look(&home);
    let [registered, runtime] = &observed.registrations[..] else { panic!("{observed:?}") };
    assert_eq!(registered.scope, RegistrationScope::Session(INTERACTIVE.into()));
    let expected = Identity {
        pid: Some(29453),
        start: Some(298_547),
        boot: Some(BootId::Id("00000000-0000-0000-0000-000000000000".into())),
        pid_ns: Some(4_026_531_836),
        recorded_at: Some(Time::from_millis(1_794_767_469_926)),
        recorder: IdentityRecorder::Agent,
        comm: Some("qwen".into()),
        ..Identity::default()
    };
    assert_eq!(*identity(registered), expected);
    assert_eq!(registered.digest.cwd.as_deref(), Some("/home/user/repo"));
    assert_eq!(registered.digest.name.as_deref(), Some("repo-72"));
    assert_eq!(registered.digest.version.as_deref(), Some("0.24.4"));
    assert_eq!(registered.digest.started_at, Some(Time::from_millis(1_794_767_469_926)));

    assert_eq!(runtime.scope, RegistrationScope::Session(INTERACTIVE.into()));
    let expected = Identity {
        pid: Some(29453),
        recorded_at: Some(Time::from_millis(1_794_767_469_117)),
        recorder: IdentityRecorder::Agent,
        comm: Some("qwen".into()),
        ..Identity::default()
    };
    assert_eq!(*identity(runtime), expected);
    assert!(!format!("{observed:?}").contains(token));
}

#[test]
fn a_process_that_turned_to_another_session_is_not_claimed_for_the_old_one() {
    let home = home();
    // After /clear: the registration is rewritten, the old runtime file stays.
    let path = ".qwen/sessions/29453.json";
    let text = String::from_utf8(home.read(path)).unwrap().replace(INTERACTIVE, "new-session");
    home.write(path, text);
    let scopes: Vec<_> = look(&home).registrations.into_iter().map(|r| r.scope).collect();
    assert_eq!(scopes, [RegistrationScope::Session("new-session".into())]);
    // Without a registration the runtime file is all there is.
    home.remove(path);
    let scopes: Vec<_> = look(&home).registrations.into_iter().map(|r| r.scope).collect();
    assert_eq!(scopes, [RegistrationScope::Session(INTERACTIVE.into())]);
}

#[test]
fn a_registration_that_cannot_be_read_still_names_its_process() {
    let home = home();
    home.write(".qwen/sessions/29453.json", r#"{"schemaVersion":1,"pid":294"#);
    let observed = look(&home);
    assert!(observed.names(&home.join(".qwen/sessions/29453.json")));
    let unreadable: Vec<_> = observed
        .registrations
        .iter()
        .filter(|r| r.scope == RegistrationScope::Unreadable)
        .collect();
    assert_eq!(unreadable.len(), 1);
    assert_eq!(identity(unreadable[0]).pid, Some(29453));
}

#[test]
fn a_subagent_with_a_transcript_is_counted_there() {
    let home = home();
    let agent = "managed-auto-memory-extractor-cda7e50f";
    home.write(
        format!(".qwen/projects/-home-user-repo/subagents/{INTERACTIVE}/agent-{agent}.jsonl"),
        r#"{"type":"assistant","agentId":"x","timestamp":"2026-11-15T18:31:23.980Z","model":"fake-model","message":{"role":"model","parts":[{"text":"ok"}]},"usageMetadata":{"promptTokenCount":1234,"candidatesTokenCount":56,"totalTokenCount":1290}}
"#,
    );
    let observed = look(&home);
    let (source, digest) = &observed.sessions[agent];
    assert_eq!(source.parent.as_deref(), Some(INTERACTIVE));
    assert_eq!(digest.tokens.unwrap().input, 1234);
    assert_eq!(observed.digest(INTERACTIVE).tokens.unwrap().input, 1234);
}

#[test]
fn both_variables_are_honoured() {
    let home = TempHome::new();
    home.lay_out(&fixtures("qwen/0.24.4/sessions"), "q/sessions");
    home.lay_out(&fixtures("qwen/0.24.4/projects"), "r/projects");
    let adapter = ostler_adapters::by_id("qwen").unwrap();
    let observed = observe(adapter, &home, &[("QWEN_HOME", "q"), ("QWEN_RUNTIME_DIR", "r")]);
    assert_eq!(observed.sessions.len(), 3);
    assert_eq!(observed.registrations.len(), 2);
}

/// A session that a process is registered for, with one prompt that has no answer yet.
fn asked(home: &TempHome) {
    let line = |kind: &str, provenance: &str, at: &str, message: &str| {
        format!(
            r#"{{"uuid":"u","sessionId":"s1","timestamp":"2026-11-18T00:{at}Z","type":"{kind}","provenance":"{provenance}","cwd":"/home/user/repo","message":{message}}}"#
        ) + "\n"
    };
    let text = |text: &str| format!(r#"{{"role":"user","parts":[{{"text":"{text}"}}]}}"#);
    let chat = line("user", "real_user", "49:45.700", &text("first"))
        + &line("assistant", "assistant_output", "49:50.000", &text("ok"))
        + &line("user", "real_user", "50:34.158", &text("long one"));
    home.write(".qwen/projects/-home-user-repo/chats/s1.jsonl", chat);
    home.write(
        ".qwen/sessions/7.json",
        r#"{"pid":7,"sessionId":"s1","cwd":"/home/user/repo","startedAt":1794962971763}"#,
    );
}

/// Esc before there is an answer gives the prompt back, and takes it out of the list of what was typed.
#[test]
fn b12_a_prompt_that_was_taken_back_is_no_turn() {
    let home = TempHome::new();
    asked(&home);
    assert_eq!(look(&home).digest("s1").turn, TurnState::Open, "nothing says that it was");
    let entry = |message: &str, at: &str| {
        format!(
            r#"{{"sessionId":"s1","messageId":0,"type":"user","message":"{message}","timestamp":"2026-11-18T00:{at}Z"}}"#
        )
    };
    let list = format!(".qwen/tmp/{}/logs.json", sha256("/home/user/repo"));
    let typed = |entries: &[String]| {
        home.write(&list, format!("[{}]", entries.join(",")));
        look(&home).digest("s1").turn.clone()
    };
    let (first, second) = (entry("first", "49:45.401"), entry("long one", "50:34.100"));
    assert_eq!(typed(&[first.clone(), second]), TurnState::Open);
    assert_eq!(typed(&[first]), TurnState::Closed);
}

fn sha256(text: &str) -> String {
    use sha2::Digest as _;

    model::hex::to_hex(&sha2::Sha256::digest(text.as_bytes()))
}

#[test]
fn b12_a_refused_call_ends_the_turn() {
    let home = TempHome::new();
    asked(&home);
    let result = |status: &str| {
        format!(
            r#"{{"uuid":"u","sessionId":"s1","timestamp":"2026-11-18T00:50:50.000Z","type":"tool_result","provenance":"tool_result","message":{{"role":"user","parts":[]}},"toolCallResult":{{"callId":"c","status":"{status}"}}}}"#
        ) + "\n"
    };
    let chat = ".qwen/projects/-home-user-repo/chats/s1.jsonl";
    home.append(chat, result("success"));
    assert_eq!(look(&home).digest("s1").turn, TurnState::Open);
    home.append(chat, result("cancelled"));
    assert_eq!(look(&home).digest("s1").turn, TurnState::Closed);
}
