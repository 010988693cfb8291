//! Claude Code: real transcripts and registrations of 2.1.197 and 2.1.325.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod observe;

use model::conversation::ConversationRole;
use model::identity::{Identity, IdentityRecorder, MachineId};
use model::sighting::{
    RegistrationProof, RegistrationScope, TokenUsage, TranscriptDigest, TurnState,
};
use model::status::Activity;
use model::time::Time;
use observe::{Observed, fixtures, observe};
use ostler_adapters::ExtraFileKind;
use testkit::home::TempHome;

const NAMED: &str = "666e4f9b-6b85-4b9f-83d1-1435ba512bba";
const CLEARED: &str = "2f8e36cc-d48c-49aa-827d-657457e41ea0";
const HEADLESS: &str = "e9573f8e-cb4b-4551-975b-0228364582f0";
const SUBAGENT: &str = "af723b667edbb3de4";

fn look(version: &str) -> Observed {
    let home = TempHome::new();
    home.lay_out(&fixtures(&format!("claude-code/{version}")), ".claude");
    let observed = observe(ostler_adapters::by_id("claude-code").unwrap(), &home, &[]);
    assert!(observed.problems.is_empty(), "{:?}", observed.problems);
    observed
}

fn time(text: &str) -> Option<Time> {
    Some(Time::parse(text).unwrap())
}

/// What the lab's model reports for every request, times the number of requests.
fn requests(count: u64) -> Option<TokenUsage> {
    Some(TokenUsage { input: 1234 * count, output: 56 * count, cache_read: 0, cache_write: 0 })
}

/// What all the sessions of a version share.
fn common(version: &str, model: &str) -> TranscriptDigest {
    TranscriptDigest {
        cwd: Some("/home/user/repo".into()),
        model: Some(model.into()),
        branch: Some("master".into()),
        version: Some(version.into()),
        turn: TurnState::Closed,
        ..TranscriptDigest::default()
    }
}

#[test]
fn sessions_of_2_1_197() {
    let observed = look("2.1.197");
    let hi = TranscriptDigest {
        first_prompt: Some("hi there".into()),
        started_at: time("2026-11-15T17:51:21.093Z"),
        last_activity_at: time("2026-11-15T17:51:21.893Z"),
        tokens: requests(1),
        turns: 1,
        ..common("2.1.197", "claude-opus-4-8")
    };
    assert_eq!(*observed.digest("36daf00a-a422-47b9-af3b-8b492999df19"), hi);
    let wait = TranscriptDigest {
        first_prompt: Some("[[delay:4]] wait please".into()),
        started_at: time("2026-11-15T17:52:32.919Z"),
        last_activity_at: time("2026-11-15T17:52:37.527Z"),
        tokens: requests(1),
        turns: 1,
        ..common("2.1.197", "claude-opus-4-8")
    };
    assert_eq!(*observed.digest("25343982-63f6-4e77-9d75-ed272acfe961"), wait);
    assert_eq!(observed.sessions.len(), 2);
    assert!(observed.registrations.is_empty());
}

#[test]
fn a_long_session_counts_messages_not_lines_and_prompts_not_notices() {
    let observed = look("2.1.325");
    let expected = TranscriptDigest {
        title: Some("My Lab Session".into()),
        first_prompt: Some("[[delay:4]] first prompt".into()),
        started_at: time("2026-11-15T17:53:44.662Z"),
        last_activity_at: time("2026-11-15T17:54:44.362Z"),
        // Eleven lines of answers, eight messages; the sub-agent's is not among them.
        tokens: requests(8),
        cost_micro_usd: Some(54_504),
        cost_covers_subagents: true,
        // Beside four prompts there are a task notification, a reminder and three tool results.
        turns: 4,
        ..common("2.1.325", "claude-opus-5-5")
    };
    assert_eq!(*observed.digest(NAMED), expected);
}

#[test]
fn a_subagent_is_its_own_part_of_the_session() {
    let observed = look("2.1.325");
    let (source, digest) = &observed.sessions[SUBAGENT];
    assert_eq!(source.parent.as_deref(), Some(NAMED));
    let expected = TranscriptDigest {
        first_prompt: Some("please do the sub task".into()),
        started_at: time("2026-11-15T17:54:21.734Z"),
        last_activity_at: time("2026-11-15T17:54:22.746Z"),
        ended_at: time("2026-11-15T17:54:22.746Z"),
        tokens: requests(1),
        turns: 1,
        ..common("2.1.325", "claude-opus-5-5")
    };
    assert_eq!(*digest, expected);
    let attached: Vec<_> = observed
        .extras
        .iter()
        .map(|extra| (extra.path.file_name().unwrap().to_str().unwrap(), extra.kind))
        .collect();
    assert!(attached.contains(&("custom-title.json", ExtraFileKind::Attachment)), "{attached:?}");
    let meta = ("agent-af723b667edbb3de4.meta.json", ExtraFileKind::Attachment);
    assert!(attached.contains(&meta), "{attached:?}");
    assert!(observed.extras.iter().all(|extra| extra.session.as_deref() == Some(NAMED)));
}

#[test]
fn a_session_after_clear_and_a_headless_one() {
    let observed = look("2.1.325");
    let cleared = TranscriptDigest {
        title: Some("My Lab Session".into()),
        first_prompt: Some("after clear prompt".into()),
        started_at: time("2026-11-15T17:54:47.710Z"),
        last_activity_at: time("2026-11-15T17:54:52.184Z"),
        tokens: requests(1),
        turns: 1,
        ..common("2.1.325", "claude-opus-5-5")
    };
    assert_eq!(*observed.digest(CLEARED), cleared);
    let headless = TranscriptDigest {
        first_prompt: Some("[[delay:4]] [[tool:echo tool-ran; sleep 2]] please".into()),
        started_at: time("2026-11-15T17:52:55.218Z"),
        last_activity_at: time("2026-11-15T17:53:06.044Z"),
        // Three lines, two messages.
        tokens: requests(2),
        cost_micro_usd: Some(12_112),
        cost_covers_subagents: true,
        turns: 1,
        ..common("2.1.325", "claude-opus-5-5")
    };
    assert_eq!(*observed.digest(HEADLESS), headless);
    assert_eq!(observed.sessions.len(), 4);
}

#[test]
fn registrations_carry_every_recorded_field() {
    let observed = look("2.1.325");
    let of = |pid: u32| {
        let mut found = observed.registrations.iter().filter_map(|registration| {
            let RegistrationProof::Process { identity, holds: None } = &registration.proof else {
                return None;
            };
            (identity.pid == Some(pid)).then_some((registration, identity))
        });
        found.next().unwrap()
    };
    assert_eq!(observed.registrations.len(), 2);
    let (registration, identity) = of(25983);
    assert_eq!(registration.scope, RegistrationScope::Session(CLEARED.into()));
    assert_eq!(registration.activity, Some(Activity::Idle));
    assert_eq!(registration.waiting_for, None);
    let expected = Identity {
        pid: Some(25983),
        start: Some(73_940),
        machine: Some(MachineId::Plain("00000000000000000000000000000000".into())),
        pid_ns: Some(4_026_531_836),
        recorded_at: Some(Time::from_millis(1_794_765_292_239)),
        recorder: IdentityRecorder::Agent,
        comm: Some("claude".into()),
        ..Identity::default()
    };
    assert_eq!(*identity, expected);
    let expected = TranscriptDigest {
        cwd: Some("/home/user/repo".into()),
        name: Some("My Lab Session".into()),
        version: Some("2.1.325".into()),
        started_at: Some(Time::from_millis(1_794_765_219_834)),
        last_activity_at: Some(Time::from_millis(1_794_765_292_239)),
        ..TranscriptDigest::default()
    };
    assert_eq!(registration.digest, expected);
    // A background session that has not written a transcript yet.
    let (registration, identity) = of(17548);
    assert_eq!(
        registration.scope,
        RegistrationScope::Session("745c2be7-0b12-4ad7-bece-592453ff13f6".into())
    );
    assert_eq!(registration.activity, Some(Activity::Working));
    assert_eq!(identity.start, Some(263_130));
    assert_eq!(registration.digest.name.as_deref(), Some("[[delay:20]] background task"));
}

#[test]
fn the_conversation_is_told_in_order() {
    let observed = look("2.1.325");
    let said = observed.said(HEADLESS);
    let roles: Vec<_> = said.iter().map(|(role, _)| *role).collect();
    assert_eq!(roles.first(), Some(&ConversationRole::User));
    assert!(roles.ends_with(&[ConversationRole::Result, ConversationRole::Assistant]), "{roles:?}");
    assert!(said.contains(&(ConversationRole::Tool, "Bash".into())), "{said:?}");
    assert!(said.contains(&(ConversationRole::Result, "tool-ran".into())), "{said:?}");
}
