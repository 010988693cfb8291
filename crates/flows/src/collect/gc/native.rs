//! What agents left: temporary files, archives, transcripts of sessions that are over.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adapters::ExtraKind;
use model::plan::{Kind, Refusal};
use model::rules::guard;
use model::rules::retain::{Candidate, Limits};
use model::session::{self, Name};
use model::summary::{Kept, Summary};
use model::time::{Time, millis};

use super::{Ask, Check, Planning};
use crate::collect::Planned;
use crate::observe::{Observation, Observed};

/// Temporary files and archives.
pub(super) fn leftovers(ask: &Ask, now: Time, observation: &Observation, planning: &mut Planning) {
    let mut originals = Originals::default();
    for report in &observation.agents {
        let agent = report.adapter.about().id;
        if !ask.is_about(agent) {
            continue;
        }
        let mut places = Places::of(&report.roots);
        for extra in &report.extras {
            let (kind, set, why) = match extra.kind {
                ExtraKind::Temporary => {
                    (Kind::Temporary, ask.retention.temps, "left over from an interrupted write")
                }
                ExtraKind::Archive => {
                    (Kind::Archive, ask.retention.archives, "the agent itself set it aside")
                }
                ExtraKind::Attachment => continue,
            };
            if !places.hold(&extra.path) {
                continue;
            }
            let mut planned = Planned::seen(kind, extra.path.clone(), extra.print, agent, why);
            planned.item.session.clone_from(&extra.session);
            if planned.note_age(now) <= ask.older_than(set) {
                continue;
            }
            if kind == Kind::Temporary && !originals.is_sound(&planned.path) {
                planning.stay(planned, Refusal::OnlyCopy);
            } else {
                let of = extra.session.iter().map(|session| Name::new(agent, session));
                planning.add(ask, planned, Check::Unopened, of.collect());
            }
        }
    }
}

/// The directories of an agent in which things were left, each asked about once.
struct Places {
    roots: Vec<PathBuf>,
    known: HashMap<PathBuf, bool>,
}

impl Places {
    fn of(roots: &[PathBuf]) -> Self {
        let resolved = roots.iter().filter_map(|root| std::fs::canonicalize(root).ok());
        Self { roots: resolved.collect(), known: HashMap::new() }
    }

    /// Whether a path really lies in one of the agent's own directories, links resolved.
    fn hold(&mut self, path: &Path) -> bool {
        let Some(parent) = path.parent() else { return false };
        if let Some(known) = self.known.get(parent) {
            return *known;
        }
        let inside = std::fs::canonicalize(parent)
            .is_ok_and(|real| self.roots.iter().any(|root| real.starts_with(root)));
        self.known.insert(parent.to_owned(), inside);
        inside
    }
}

/// The files that temporary ones were to replace, each looked at once.
#[derive(Default)]
struct Originals(HashMap<PathBuf, bool>);

impl Originals {
    /// Whether what a temporary file was to replace is there and whole. One of which it is not known
    /// what it was to replace stands for nothing else.
    fn is_sound(&mut self, temporary: &Path) -> bool {
        let Some(original) = original_of(temporary) else { return true };
        if let Some(known) = self.0.get(&original) {
            return *known;
        }
        let text = std::fs::read(&original).unwrap_or_default();
        let sound = serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok();
        self.0.insert(original, sound);
        sound
    }
}

/// `x.json` for `x.json.<anything>.tmp`.
fn original_of(temporary: &Path) -> Option<PathBuf> {
    let name = temporary.file_name()?.to_str()?;
    let end = name.find(".json.")? + ".json".len();
    Some(temporary.with_file_name(&name[..end]))
}

/// Transcripts of sessions that are over: by age, or the oldest of all that are too many.
pub(super) fn transcripts(
    ask: &Ask,
    now: Time,
    observation: &Observation,
    planning: &mut Planning,
) {
    let mut sharers: HashMap<&Path, usize> = HashMap::new();
    let all = || {
        let both = observation.sessions.iter().chain(&observation.subagents);
        both.filter(|one| one.session.kind == session::Kind::Native)
    };
    for one in all() {
        if let Some(transcript) = &one.session.transcript {
            *sharers.entry(&transcript.path).or_default() += 1;
        }
    }
    let (mut found, mut candidates): (Vec<(Planned, &Observed)>, _) = (Vec::new(), Vec::new());
    for one in all().filter(|one| ask.is_about(one.session.agent)) {
        let Some(transcript) = &one.session.transcript else { continue };
        // A file that holds several sessions is a store of the agent's, not a transcript.
        if sharers.get(transcript.path.as_path()) != Some(&1) || !is_plain(&transcript.path) {
            continue;
        }
        let agent = one.session.agent;
        let why = format!("the session is over ({})", one.verdict.status.word());
        let Ok(mut planned) = Planned::new(Kind::Transcript, &transcript.path, agent, why) else {
            continue;
        };
        // What the file says and what the session says: the younger counts.
        let last = one.session.last_activity_at().map(|at| now.since(at));
        let age = last.map(|last| last.min(planned.age(now)));
        planned.item.age_ms = age.map(millis);
        planned.item.session = Some(one.session.id.clone());
        planned.item.evidence = vec![one.verdict.liveness.reason().to_owned()];
        let may_go = guard::may_collect(&one.verdict).is_ok();
        found.push((planned, one));
        // What a sub-agent wrote is part of the session that it worked for.
        let parent = one.session.digest.parent.iter().map(|parent| Name::new(agent, parent));
        let of = parent.chain([one.session.name()]).collect();
        candidates.push((Candidate { age, bytes: transcript.bytes, may_go }, of));
    }
    let older_than = ask.older_than_ms.map(Duration::from_millis).or(ask.retention.transcripts);
    let max_bytes = ask.max_bytes.or(ask.retention.transcript_bytes);
    let goes = planning.choose(&candidates, Limits { older_than, max_bytes });
    let of = candidates.into_iter().map(|(_, of)| of);
    for ((planned, one), (of, goes)) in found.into_iter().zip(of.zip(goes)) {
        if goes {
            let kept = Kept {
                agent: one.session.agent.to_owned(),
                session: one.session.id.clone(),
                kept_at: now,
                summary: Summary::of(&one.session.digest),
                files: Vec::new(),
            };
            planning.add(ask, planned, Check::Transcript(Box::new(kept)), of);
        }
    }
}

/// Whether it is a file of lines, and no database that an agent also keeps other things in.
fn is_plain(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("jsonl" | "json" | "md"))
}
