//! A store in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use model::time::Time;
use ostler_openclaw::rules::document::IndexDocument;
use ostler_openclaw::rules::file::{ArchiveReason, StoreDirFile, StoreFileKind, archive_name};
use ostler_openclaw::rules::maintain::{
    EntryFacts, EntryVerdict, HoldReason, MaintenancePlan, MaintenanceRequest, MaintenanceTrigger,
    RetiredPeers, StoreFileAction, StoreSnapshot, TranscriptState, plan_maintenance,
    taken_by_gateway,
};
use ostler_openclaw::rules::policy::MaintenancePolicy;
use serde_json::{Value, json};

pub(crate) const NOW: Time = Time::from_millis(1_790_000_000_000);
pub(crate) const DAY: i64 = 86_400_000;

/// Where the store lies.
const DIRECTORY: &str = "/s";

/// An index, the files beside it, and what is asked.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) entries: Vec<(String, Value)>,
    pub(crate) files: Vec<StoreDirFile>,
    pub(crate) holds: BTreeMap<String, HoldReason>,
    pub(crate) transcripts: BTreeMap<String, TranscriptState>,
    pub(crate) policy: MaintenancePolicy,
    pub(crate) acts: bool,
    pub(crate) trigger: MaintenanceTrigger,
    pub(crate) active: Option<String>,
    pub(crate) fix_missing: bool,
    pub(crate) retire: RetiredPeers<'static>,
    pub(crate) drop_unusable: bool,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            files: Vec::new(),
            holds: BTreeMap::new(),
            transcripts: BTreeMap::new(),
            policy: MaintenancePolicy::default(),
            acts: true,
            trigger: MaintenanceTrigger::Cleanup,
            active: None,
            fix_missing: false,
            retire: RetiredPeers::Nobody,
            drop_unusable: false,
        }
    }

    pub(crate) fn policy(mut self, maintenance: Value) -> Self {
        self.policy = MaintenancePolicy::parse(Some(&maintenance)).unwrap();
        self
    }

    pub(crate) fn entry(mut self, key: &str, value: Value) -> Self {
        self.entries.push((key.to_owned(), value));
        self
    }

    /// An entry of that age, whose session has its key's last part for an id.
    pub(crate) fn aged(self, key: &str, age_ms: i64) -> Self {
        let id: String = key.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let value = json!({ "sessionId": id, "updatedAt": NOW.as_millis() - age_ms });
        self.entry(key, value)
    }

    pub(crate) fn file(mut self, name: &str, bytes: u64, age_ms: i64) -> Self {
        self.files.push(StoreDirFile {
            name: name.to_owned(),
            bytes,
            modified: Time::from_millis(NOW.as_millis() - age_ms),
            kind: StoreFileKind::from_name(name, "sessions.json"),
            held: false,
        });
        self
    }

    pub(crate) fn text(&self) -> String {
        let values: Vec<(String, String)> =
            self.entries.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
        ostler_openclaw::rules::document::write_index(
            values.iter().map(|(key, value)| (key.as_str(), value.as_str())),
        )
    }

    fn facts(&self) -> Vec<EntryFacts> {
        let at = |name: &str| self.files.iter().position(|file| file.name == name);
        let fact = |(key, value): &(String, Value)| {
            let own = own_transcript(value);
            let named = named_transcript(value);
            let transcript = self.transcripts.get(key).copied().unwrap_or_default();
            let astray = named.as_ref().is_some_and(|named| *named != own);
            EntryFacts {
                transcript,
                file: at(named.as_ref().unwrap_or(&own)),
                own: at(&own).filter(|_| astray && transcript == TranscriptState::Sound),
                hold: self.holds.get(key).copied(),
            }
        };
        self.entries.iter().map(fact).collect()
    }

    /// Looks at a store and plans, and says something about both.
    fn planned<T>(
        &self,
        say: impl FnOnce(&StoreSnapshot<'_>, &MaintenanceRequest<'_>, MaintenancePlan) -> T,
    ) -> T {
        let text = self.text();
        let document = IndexDocument::parse(text.as_bytes()).unwrap();
        let facts = self.facts();
        let store = StoreSnapshot {
            directory: DIRECTORY,
            document: &document,
            facts: &facts,
            files: &self.files,
        };
        let request = MaintenanceRequest {
            policy: &self.policy,
            acts: self.acts,
            trigger: self.trigger,
            now: NOW,
            active: self.active.as_deref(),
            fix_missing: self.fix_missing,
            retire: self.retire,
            drop_unusable: self.drop_unusable,
            main_key: "main",
        };
        say(&store, &request, plan_maintenance(&store, &request))
    }

    pub(crate) fn plan(&self) -> MaintenancePlan {
        self.planned(|_, _, plan| plan)
    }

    /// The index after the plan was carried out.
    pub(crate) fn written(&self) -> String {
        self.planned(|store, _, plan| store.document.with_edits(|index| plan.entry_edit(index)))
    }

    /// The keys that a gateway takes besides the plan, with any write.
    pub(crate) fn taken_besides(&self) -> Vec<String> {
        let taken = self.planned(|store, request, plan| taken_by_gateway(store, &plan, request));
        taken.into_iter().map(|index| self.entries[index].0.clone()).collect()
    }

    /// The keys that stay, in the order of the index.
    pub(crate) fn kept(&self) -> Vec<String> {
        let plan = self.plan();
        let stays = |index: &usize| !plan.entries[*index].removes();
        (0..self.entries.len()).filter(stays).map(|index| self.entries[index].0.clone()).collect()
    }

    /// What a plan does to files: `-name` for one that goes, `>name` for one that is put away.
    pub(crate) fn changed(&self) -> Vec<String> {
        let plan = self.plan();
        let word = |act| if act == StoreFileAction::Archive { '>' } else { '-' };
        let mut words: Vec<String> = plan
            .files
            .iter()
            .map(|change| format!("{}{}", word(change.act), self.files[change.file].name))
            .collect();
        words.sort();
        words
    }

    /// The store as it is after its plan was carried out.
    pub(crate) fn applied(&self) -> Self {
        let plan = self.plan();
        let mut after = self.clone();
        after.entries = std::iter::zip(&self.entries, &plan.entries)
            .filter(|(_, verdict)| !verdict.removes())
            .map(|((key, value), verdict)| {
                let mut value = value.clone();
                if *verdict == EntryVerdict::Repair {
                    value["sessionFile"] = format!("{DIRECTORY}/{}", own_transcript(&value)).into();
                }
                (key.clone(), value)
            })
            .collect();
        after.files.clear();
        for (index, file) in self.files.iter().enumerate() {
            let act = plan.files.iter().find(|change| change.file == index).map(|one| one.act);
            match act {
                Some(StoreFileAction::Remove) => {}
                Some(StoreFileAction::Archive) => {
                    let name = archive_name(&file.name, ArchiveReason::Deleted, NOW);
                    let kind = StoreFileKind::from_name(&name, "sessions.json");
                    after.files.push(StoreDirFile { name, kind, ..file.clone() });
                }
                None => after.files.push(file.clone()),
            }
        }
        after
    }
}

/// The transcript that a session has by its id.
fn own_transcript(value: &Value) -> String {
    format!("{}.jsonl", value["sessionId"].as_str().unwrap_or(""))
}

/// The transcript that an entry names, if it names one.
pub(crate) fn named_transcript(value: &Value) -> Option<String> {
    let path = value["sessionFile"].as_str()?;
    Some(path.strip_prefix("/s/").unwrap_or(path).to_owned())
}

pub(crate) fn days(count: u64) -> Duration {
    Duration::from_secs(count * 86_400)
}
