//! The bench of the conformance battery: a home per adapter, laid out by its line in [`TABLE`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use model::sighting::{TranscriptDamage, TranscriptDigest};
use ostler_adapters::{ALL_ADAPTERS, Adapter};
use testkit::home::TempHome;

use crate::observe::{Observed, fixtures, observe};

/// How an agent's fixture is laid out and what to damage in it.
pub(crate) struct Line {
    pub(crate) agent: &'static str,
    /// The directory of the fixture: the version that wrote it.
    pub(crate) version: &'static str,
    pub(crate) shape: Shape,
    /// The file to damage, in the agent's place.
    pub(crate) victim: &'static str,
    /// Variables beside `HOME`, with values below the home.
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// A registration of a process, in the agent's place, and its pid.
    pub(crate) registration: Option<(&'static str, u32)>,
}

impl Line {
    pub(crate) const fn of(
        agent: &'static str,
        version: &'static str,
        shape: Shape,
        victim: &'static str,
    ) -> Self {
        Self { agent, version, shape, victim, variables: &[], registration: None }
    }

    pub(crate) const fn with(mut self, variables: &'static [(&'static str, &'static str)]) -> Self {
        self.variables = variables;
        self
    }

    pub(crate) const fn registered(mut self, file: &'static str, pid: u32) -> Self {
        self.registration = Some((file, pid));
        self
    }
}

/// What kind of file holds a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One JSON object a line.
    Lines,
    /// One JSON document.
    Document,
    /// Plain text.
    Text,
    /// An SQLite database of many sessions.
    Database,
}

#[rustfmt::skip]
pub(crate) const TABLE: &[Line] = &[
    Line::of("claude-code", "2.1.325", Shape::Lines, "projects/-home-user-repo/e9573f8e-cb4b-4551-975b-0228364582f0.jsonl")
        .registered("sessions/25983.json", 25983),
    Line::of("codex", "0.166.0", Shape::Lines, "sessions/2026/11/15/rollout-2026-11-15T17-57-13-01a1e05b-2a2f-7a73-94fb-06f3b2a6e9b4.jsonl"),
    Line::of("opencode", "1.18.33", Shape::Database, "opencode.db"),
    Line::of("gemini", "0.61.0", Shape::Lines, "tmp/repo/chats/session-2026-11-15T18-01-361de265.jsonl"),
    Line::of("pi", "0.73.1", Shape::Lines, "agent/sessions/--home-user-repo--/2026-11-15T18-02-09-078Z_01a1e05f-ad35-700a-a6ce-2e45ef7e3470.jsonl"),
    Line::of("openclaw", "2026.9.6", Shape::Database, "agents/main/agent/openclaw-agent.sqlite"),
    Line::of("copilot", "1.0.102", Shape::Lines, "session-state/6125af29-0762-4b33-a944-13a0f18430cf/events.jsonl"),
    Line::of("qwen", "0.24.4", Shape::Lines, "projects/-home-user-repo/chats/64da80e1-edde-4e9a-85c2-039901f35f1e.jsonl")
        .registered("sessions/29453.json", 29453),
    Line::of("droid", "0.215.0", Shape::Lines, "sessions/-home-user-repo/040b39a0-ca85-4785-84a6-9e74397d5763.jsonl"),
    Line::of("kimi", "2.1.0", Shape::Lines, "sessions/wd_repo_c430811f14b9/session_1378c799-a803-4174-9079-f682ee580d4a/agents/main/wire.jsonl"),
    Line::of("cline", "3.0.65", Shape::Document, "data/sessions/1794766310658_92gws/1794766310658_92gws.messages.json"),
    Line::of("kilo", "7.7.7", Shape::Database, "kilo.db"),
    Line::of("vibe", "3.0.2", Shape::Document, "logs/session/unified/c3eb52db-deaa-593a-8adc-69aa21a37a72/generations/0000000000000008/projection-state.json"),
    Line::of("hermes", "0.19.0", Shape::Database, "state.db"),
    Line::of("continue", "1.5.47", Shape::Document, "sessions/707020ce-8757-40e5-8a34-fb45787d2f71.json"),
    Line::of("cursor", "2026.09", Shape::Lines, "projects/home-user-repo/agent-transcripts/c0ffee00-0000-4000-8000-000000000001/c0ffee00-0000-4000-8000-000000000001.jsonl"),
    Line::of("goose", "schema-16", Shape::Database, "sessions/sessions.db"),
    Line::of("amp", "2026.03", Shape::Document, "threads/T-0a1b2c3d-0000-4000-8000-000000000001.json"),
    Line::of("aider", "0.86.2", Shape::Text, ".aider.chat.history.md").with(&[("PWD", "repo")]),
    Line::of("crush", "documented", Shape::Database, "crush.db"),
];

/// A home to be damaged, and what was there before.
pub(crate) struct Bench {
    pub(crate) adapter: &'static dyn Adapter,
    pub(crate) line: &'static Line,
    pub(crate) home: Arc<TempHome>,
    pub(crate) before: Observed,
}

impl Bench {
    pub(crate) fn new(adapter: &'static dyn Adapter) -> Self {
        let agent = adapter.agent_profile().id;
        let line = TABLE.iter().find(|line| line.agent == agent);
        let line = line.unwrap_or_else(|| panic!("{agent} has no line in the battery's table"));
        let home = TempHome::new();
        home.lay_out_agent(agent, &fixtures(&format!("{agent}/{}", line.version)));
        let before = observe(adapter, &home, line.variables);
        assert!(before.problems.is_empty(), "{agent}: {:?}", before.problems);
        let bench = Self { adapter, line, home: Arc::new(home), before };
        assert!(!bench.victims().is_empty(), "{agent}: {} holds no session", line.victim);
        bench
    }

    pub(crate) fn agent(&self) -> &'static str {
        self.line.agent
    }

    /// Where the agent has its files, below the home.
    pub(crate) fn place(&self) -> &'static Path {
        Path::new(testkit::home::place(self.agent()).1)
    }

    /// The file to damage, below the home.
    pub(crate) fn victim(&self) -> PathBuf {
        self.place().join(self.line.victim)
    }

    pub(crate) fn victim_path(&self) -> PathBuf {
        self.home.join(self.victim())
    }

    pub(crate) fn is_below(&self, path: &Path, above: &Path) -> bool {
        let home = self.home.path().canonicalize().unwrap();
        path.strip_prefix(home).is_ok_and(|path| path.starts_with(above))
    }

    /// The sessions that are read from the victim.
    pub(crate) fn victims(&self) -> Vec<&str> {
        let all = self.before.sessions.iter();
        let those = all.filter(|(_, (source, _))| {
            let beside = source.beside.iter().map(|(path, _)| path);
            beside.chain([&source.path]).any(|path| self.is_below(path, &self.victim()))
        });
        those.map(|(id, _)| id.as_str()).collect()
    }

    /// A word of the first prompt, written the same in every format: it marks what came from the
    /// victim.
    pub(crate) fn word(&self) -> String {
        let prompts = self.victims().into_iter();
        let prompt = prompts.filter_map(|id| self.before.digest(id).first_prompt.clone()).next();
        let prompt = prompt.unwrap_or_else(|| panic!("{}: no prompt", self.agent()));
        let mut words = prompt.split(|c: char| !c.is_ascii_alphanumeric());
        words.find(|word| word.len() > 2).map(str::to_owned).unwrap_or_default()
    }

    /// The bytes of the victim with that word replaced.
    pub(crate) fn marked(&self, bytes: &[u8], by: &[u8]) -> Vec<u8> {
        let word = self.word().into_bytes();
        let mut out = Vec::new();
        let mut rest = bytes;
        while let Some(at) = rest.windows(word.len()).position(|found| found == word) {
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(by);
            rest = &rest[at + word.len()..];
        }
        out.extend_from_slice(rest);
        assert_ne!(out, bytes, "{}: {:?} is nowhere", self.agent(), self.word());
        out
    }

    /// Looks again, with a watchdog: nothing may block.
    pub(crate) fn look(&self) -> Observed {
        let (adapter, home, variables) = (self.adapter, self.home.clone(), self.line.variables);
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let _ = send.send(observe(adapter, &home, variables));
        });
        match receive.recv_timeout(Duration::from_secs(60)) {
            Ok(observed) => observed,
            Err(RecvTimeoutError::Timeout) => panic!("{} blocks", self.agent()),
            Err(RecvTimeoutError::Disconnected) => panic!("{} panicked", self.agent()),
        }
    }

    /// Looks again and checks what must hold whatever the damage is: nothing is changed, and every
    /// session that is not below `damaged` is what it was.
    pub(crate) fn look_unharmed(&self, damaged: &Path) -> Observed {
        let tree = self.home.snapshot();
        let observed = self.look();
        let changes = tree.changes(&self.home.snapshot());
        assert!(changes.is_empty(), "{} changed the home: {changes:#?}", self.agent());
        self.check_healthy(&observed, damaged);
        observed
    }

    pub(crate) fn check_healthy(&self, observed: &Observed, damaged: &Path) {
        for (id, (source, digest)) in &self.before.sessions {
            let beside = source.beside.iter().map(|(path, _)| path);
            let touched = beside.chain([&source.path]).any(|path| self.is_below(path, damaged));
            if !touched {
                assert_eq!(observed.digest(id), digest, "{}: {id}", self.agent());
            }
        }
    }

    /// Every session of the victim is told, or a problem names the file.
    pub(crate) fn check_visible(&self, observed: &Observed) {
        let told = self.victims().iter().all(|id| observed.sessions.contains_key(*id));
        let named = observed.names(&self.victim_path());
        assert!(told || named, "{}: neither told nor named: {observed:#?}", self.agent());
    }

    /// Whether the sessions of the victim are told as before, with this damage and version.
    pub(crate) fn check_same(&self, observed: &Observed, damage: TranscriptDamage) {
        for id in self.victims() {
            let digest = TranscriptDigest { damage, ..self.before.digest(id).clone() };
            assert_eq!(*observed.digest(id), digest, "{}: {id}", self.agent());
        }
    }
}

/// Runs a case for every adapter whose sessions have one of these shapes.
pub(crate) fn each(shapes: &[Shape], case: impl Fn(&Bench)) {
    for adapter in ALL_ADAPTERS {
        let bench = Bench::new(*adapter);
        if shapes.contains(&bench.line.shape) {
            case(&bench);
        }
    }
}
