//! Looks at a temporary home through the public API, the way ostler itself does.
#![allow(dead_code, reason = "every test file takes what it needs")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use model::conversation::{ConversationEntry, ConversationRole};
use model::sighting::{ProcessRegistration, TranscriptDigest};
use ostler_adapters::{Adapter, EnvLookup, ExtraFile, Survey, SurveyProblem, TranscriptSource};
use testkit::home::TempHome;

/// Everything one adapter tells about a home.
#[derive(Debug)]
pub(crate) struct Observed {
    /// Every session, by id.
    pub(crate) sessions: BTreeMap<String, (TranscriptSource, TranscriptDigest)>,
    /// What was said in each, from the beginning.
    pub(crate) conversations: BTreeMap<String, Vec<ConversationEntry>>,
    pub(crate) registrations: Vec<ProcessRegistration>,
    pub(crate) extras: Vec<ExtraFile>,
    /// What could not be read: by the survey, or as a transcript.
    pub(crate) problems: Vec<SurveyProblem>,
}

/// Surveys every root of `adapter` in an environment of `HOME` and `variables` (whose values are
/// paths below the home) and reads everything that is found.
pub(crate) fn observe(
    adapter: &dyn Adapter,
    home: &TempHome,
    variables: &[(&str, &str)],
) -> Observed {
    let lookup = |name: &str| -> Option<OsString> {
        let variable = variables.iter().find(|(variable, _)| *variable == name);
        match variable {
            Some((_, below)) => Some(home.join(below).into_os_string()),
            None => (name == "HOME").then(|| home.path().as_os_str().to_owned()),
        }
    };
    let mut observed = Observed {
        sessions: BTreeMap::new(),
        conversations: BTreeMap::new(),
        registrations: Vec::new(),
        extras: Vec::new(),
        problems: Vec::new(),
    };
    for root in adapter.session_roots(&EnvLookup::new(&lookup)) {
        let mut survey = Survey::new(&root);
        adapter.survey_root(&mut survey);
        observed.registrations.append(&mut survey.registrations);
        observed.extras.append(&mut survey.extras);
        observed.problems.append(&mut survey.problems);
        for (source, digest) in survey.ready {
            observed.keep(adapter, source, digest);
        }
        for source in survey.sources {
            match adapter.read_digest(&source) {
                Ok(digest) => observed.keep(adapter, *source, digest),
                Err(error) => observed
                    .problems
                    .push(SurveyProblem { path: source.path, reason: error.to_string() }),
            }
        }
    }
    observed
}

impl Observed {
    fn keep(&mut self, adapter: &dyn Adapter, source: TranscriptSource, digest: TranscriptDigest) {
        let mut said = Vec::new();
        if let Err(error) = adapter.read_conversation(&source, 0, &mut |entry| said.push(entry)) {
            self.problems
                .push(SurveyProblem { path: source.path.clone(), reason: error.to_string() });
        }
        self.conversations.insert(source.id.clone(), said);
        self.sessions.entry(source.id.clone()).or_insert((source, digest));
    }

    /// The digest of a session that must be there.
    pub(crate) fn digest(&self, id: &str) -> &TranscriptDigest {
        let ids: Vec<_> = self.sessions.keys().collect();
        &self.sessions.get(id).unwrap_or_else(|| panic!("no {id} among {ids:?}")).1
    }

    /// Who said what in a session, tools by name.
    pub(crate) fn said(&self, id: &str) -> Vec<(ConversationRole, String)> {
        let said = self.conversations[id].iter();
        said.map(|entry| (entry.role, entry.tool.clone().unwrap_or(entry.text.clone()))).collect()
    }

    /// Whether a problem names that path or something below it, however the way there is written.
    pub(crate) fn names(&self, path: &Path) -> bool {
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        let resolved = parent.and_then(|parent| Some(parent.join(path.file_name()?)));
        let mut problems = self.problems.iter().map(|problem| &problem.path);
        problems.any(|problem| resolved.as_ref().is_some_and(|path| problem.starts_with(path)))
    }
}

/// The fixtures of an agent.
pub(crate) fn fixtures(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(below)
}
