//! The highest version of the operator list that this member has seen, for each fleet that it was in: a hub that
//! brings an older list back is not believed. What cannot be read permits nothing.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::fleet_files::FleetDir;

/// Where it is noted, below the fleet's directory.
const SEEN_FILE: &str = "operators-seen.json";

/// Versions by the fleet's public key.
#[derive(Debug)]
pub(crate) struct SeenOperators {
    versions: BTreeMap<String, u64>,
    /// Why what was noted cannot be used.
    fault: Option<String>,
}

/// The file, also as it was before it named a fleet.
#[derive(Deserialize)]
#[serde(untagged)]
enum SeenFile {
    ByFleet(BTreeMap<String, u64>),
    OfThisFleet(u64),
}

impl SeenOperators {
    /// Reads what a member of the fleet with that key has seen.
    pub(crate) fn read(dir: &FleetDir, root: &str) -> Self {
        let (versions, fault) = match dir.read_json(SEEN_FILE) {
            Ok(None) => (BTreeMap::new(), None),
            Ok(Some(SeenFile::ByFleet(versions))) => (versions, None),
            Ok(Some(SeenFile::OfThisFleet(version))) => {
                (BTreeMap::from([(root.to_owned(), version)]), None)
            }
            Err(failure) => (BTreeMap::new(), Some(failure.message)),
        };
        Self { versions, fault }
    }

    /// Notes a list of that version; refused if it is older than one that was seen, or if that cannot be told or noted.
    pub(crate) fn note(
        &mut self,
        dir: &FleetDir,
        root: &str,
        version: u64,
    ) -> Result<(), (String, String)> {
        if let Some(fault) = &self.fault {
            let file = dir.path().join(SEEN_FILE);
            return Err((
                format!("this member cannot tell which operator list is the newest: {fault}"),
                format!(
                    "if the list of `ostler fleet operator` on the hub is right, remove {} on this member and restart its daemon",
                    file.display()
                ),
            ));
        }
        let seen = self.versions.get(root).copied().unwrap_or(0);
        if version < seen {
            return Err((
                format!(
                    "the hub has an older operator list ({version}) than one that was seen ({seen})"
                ),
                "restart the hub: `ostler fleet hub`; `ostler fleet doctor` tells more".to_owned(),
            ));
        }
        if version > seen {
            let mut versions = self.versions.clone();
            versions.insert(root.to_owned(), version);
            let cannot = |failure: model::helper::HelperFailure| {
                let reason =
                    format!("this member cannot note which operator list it saw: {failure}");
                (reason, failure.hint)
            };
            dir.write_json(SEEN_FILE, &versions).map_err(cannot)?;
            self.versions = versions;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_of_one_fleet_and_what_cannot_be_read_permits_nothing() {
        let home = testkit::home::TempHome::new();
        let dir = FleetDir::create(&home.join("state"), "fleet").unwrap();
        SeenOperators::read(&dir, "one").note(&dir, "one", 7).unwrap();
        // Another fleet counts by itself, and this one is not forgotten over it.
        SeenOperators::read(&dir, "other").note(&dir, "other", 2).unwrap();
        let (reason, _) = SeenOperators::read(&dir, "one").note(&dir, "one", 6).unwrap_err();
        assert!(reason.contains("older operator list (6)"), "{reason}");
        SeenOperators::read(&dir, "one").note(&dir, "one", 7).unwrap();
        // As it was before it named a fleet.
        dir.write(SEEN_FILE, b"9").unwrap();
        assert!(SeenOperators::read(&dir, "one").note(&dir, "one", 8).is_err());
        dir.write(SEEN_FILE, b"{ \"one\": 7").unwrap();
        let (reason, hint) = SeenOperators::read(&dir, "one").note(&dir, "one", 8).unwrap_err();
        assert!(reason.contains("cannot tell") && hint.contains(SEEN_FILE), "{reason} {hint}");
    }
}
