//! A store in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use model::time::Time;
use ostler_openclaw::rules::document::Document;
use ostler_openclaw::rules::file::{File, FileKind, Reason, archived};
use ostler_openclaw::rules::maintain::{
    Act, Facts, Hold, Plan, Request, Retire, Store, Transcript, Trigger, Verdict, maintain,
    taken_by_gateway,
};
use ostler_openclaw::rules::policy::Policy;
use serde_json::{Value, json};

pub(crate) const NOW: Time = Time::from_millis(1_790_000_000_000);
pub(crate) const DAY: i64 = 86_400_000;

/// Where the store lies.
const DIRECTORY: &str = "/s";

/// An index, the files beside it, and what is asked.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) entries: Vec<(String, Value)>,
    pub(crate) files: Vec<File>,
    pub(crate) holds: BTreeMap<String, Hold>,
    pub(crate) transcripts: BTreeMap<String, Transcript>,
    pub(crate) policy: Policy,
    pub(crate) acts: bool,
    pub(crate) trigger: Trigger,
    pub(crate) active: Option<String>,
    pub(crate) fix_missing: bool,
    pub(crate) retire: Retire<'static>,
    pub(crate) drop_unusable: bool,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            files: Vec::new(),
            holds: BTreeMap::new(),
            transcripts: BTreeMap::new(),
            policy: Policy::default(),
            acts: true,
            trigger: Trigger::Cleanup,
            active: None,
            fix_missing: false,
            retire: Retire::Nobody,
            drop_unusable: false,
        }
    }

    pub(crate) fn policy(mut self, maintenance: Value) -> Self {
        self.policy = Policy::parse(Some(&maintenance)).unwrap();
        self
    }

    pub(crate) fn entry(mut self, key: &str, value: Value) -> Self {
        self.entries.push((key.to_owned(), value));
        self
    }

    /// An entry of that age, whose session has its key's last part for an id.
    pub(crate) fn aged(self, key: &str, age_ms: i64) -> Self {
        let id: String = key.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let value = json!({ "sessionId": id, "updatedAt": NOW.millis() - age_ms });
        self.entry(key, value)
    }

    pub(crate) fn file(mut self, name: &str, bytes: u64, age_ms: i64) -> Self {
        self.files.push(File {
            name: name.to_owned(),
            bytes,
            modified: Time::from_millis(NOW.millis() - age_ms),
            kind: FileKind::of(name, "sessions.json"),
            held: false,
        });
        self
    }

    pub(crate) fn text(&self) -> String {
        let values: Vec<(String, String)> =
            self.entries.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
        ostler_openclaw::rules::document::write(
            values.iter().map(|(key, value)| (key.as_str(), value.as_str())),
        )
    }

    fn facts(&self) -> Vec<Facts> {
        let at = |name: &str| self.files.iter().position(|file| file.name == name);
        let fact = |(key, value): &(String, Value)| {
            let own = own_transcript(value);
            let named = named_transcript(value);
            let transcript = self.transcripts.get(key).copied().unwrap_or_default();
            let astray = named.as_ref().is_some_and(|named| *named != own);
            Facts {
                transcript,
                file: at(named.as_ref().unwrap_or(&own)),
                own: at(&own).filter(|_| astray && transcript == Transcript::Sound),
                hold: self.holds.get(key).copied(),
            }
        };
        self.entries.iter().map(fact).collect()
    }

    /// Looks at a store and plans, and says something about both.
    fn planned<T>(&self, say: impl FnOnce(&Store<'_>, &Request<'_>, Plan) -> T) -> T {
        let text = self.text();
        let document = Document::parse(text.as_bytes()).unwrap();
        let facts = self.facts();
        let store =
            Store { directory: DIRECTORY, document: &document, facts: &facts, files: &self.files };
        let request = Request {
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
        say(&store, &request, maintain(&store, &request))
    }

    pub(crate) fn plan(&self) -> Plan {
        self.planned(|_, _, plan| plan)
    }

    /// The index after the plan was carried out.
    pub(crate) fn written(&self) -> String {
        self.planned(|store, _, plan| store.document.edited(|index| plan.edit(index)))
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
        let word = |act| if act == Act::Archive { '>' } else { '-' };
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
                if *verdict == Verdict::Repair {
                    value["sessionFile"] = format!("{DIRECTORY}/{}", own_transcript(&value)).into();
                }
                (key.clone(), value)
            })
            .collect();
        after.files.clear();
        for (index, file) in self.files.iter().enumerate() {
            let act = plan.files.iter().find(|change| change.file == index).map(|one| one.act);
            match act {
                Some(Act::Remove) => {}
                Some(Act::Archive) => {
                    let name = archived(&file.name, Reason::Deleted, NOW);
                    let kind = FileKind::of(&name, "sessions.json");
                    after.files.push(File { name, kind, ..file.clone() });
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
