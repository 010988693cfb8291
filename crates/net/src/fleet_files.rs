//! The fleet's files in ostler's home: keys (0600, in a directory of 0700), what the hub said when this home
//! joined, and what the link last saw. Every read checks owner and mode through a directory descriptor.

use std::path::{Path, PathBuf};

use model::helper::{HelperFailure, HelperFailureKind};
use model::time::Time;
use model::wire::FleetLevel;
use nkeys::KeyPair;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sys::private::{PrivateDir, PrivateFileFault};

/// The largest file.
const MOST_FILE_BYTES: u64 = 16 << 20;

/// A directory of the fleet's files.
#[derive(Debug)]
pub struct FleetDir {
    dir: PrivateDir,
    path: PathBuf,
}

/// What a joined member knows of its fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberFile {
    pub id: String,
    pub name: String,
    pub site: String,
    /// Where the hub listens.
    pub url: String,
    /// The hub's CA; none where connections are in the clear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The fleet's public key.
    pub root: String,
    /// Its certificate, sealed, as base64.
    pub certificate: String,
    /// What it may do as an operator.
    pub level: FleetLevel,
    /// When it joined.
    pub joined_at: Time,
    /// Whether it has left since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

/// What the link last saw, for `fleet status` and `fleet doctor`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkReport {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Whether it publishes, and why not.
    pub state: String,
    /// The last sequence of its lease.
    pub sequence: u64,
    /// What the hub refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<String>,
    /// The highest version of the operator list that was seen.
    #[serde(default)]
    pub operators_version: u64,
}

/// The file that says that this home has joined.
pub const MEMBER_FILE: &str = "member.json";

/// The seed files: member and operator, each with a key to connect and one to seal.
pub const LINK_SEED: &str = "link.seed";
/// The key that seals a member's records.
pub const SEAL_SEED: &str = "seal.seed";
/// The key that an operator connects with.
pub const OPERATOR_LINK_SEED: &str = "operator-link.seed";
/// The key that seals an operator's orders.
pub const OPERATOR_SEAL_SEED: &str = "operator-seal.seed";

/// A failure to read one of the fleet's files.
pub fn read_failure(path: &Path, reason: impl std::fmt::Display) -> HelperFailure {
    HelperFailure::new(
        HelperFailureKind::Read,
        format!("{} cannot be used: {reason}", path.display()),
        "it must be yours, with mode 0600 in a directory of mode 0700",
    )
}

fn write_failure(path: &Path, reason: impl std::fmt::Display) -> HelperFailure {
    HelperFailure::new(
        HelperFailureKind::Write,
        format!("{} cannot be written: {reason}", path.display()),
        "check the path, its permissions and the room on the disk",
    )
}

impl FleetDir {
    /// The fleet's directory of a home; none if there is none.
    pub fn open(home: &Path, below: &str) -> Result<Option<Self>, HelperFailure> {
        let path = home.join(below);
        if !path.exists() {
            return Ok(None);
        }
        let dir = sys::private::open_own_dir(&path).map_err(|error| read_failure(&path, error))?;
        Ok(Some(Self { dir, path }))
    }

    /// The same, made if it is missing.
    pub fn create(home: &Path, below: &str) -> Result<Self, HelperFailure> {
        let mut path = home.to_owned();
        let create = |path: &Path| {
            sys::private::create_private_dir(path).map_err(|error| write_failure(path, error))
        };
        create(&path)?;
        for part in Path::new(below) {
            path.push(part);
            create(&path)?;
        }
        let dir = sys::private::open_own_dir(&path).map_err(|error| read_failure(&path, error))?;
        Ok(Self { dir, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a file is there.
    pub fn has(&self, name: &str) -> bool {
        self.dir.facts_of(name.as_ref()).is_ok_and(|facts| facts.is_some())
    }

    /// Writes a file (0600), all of it or nothing.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), HelperFailure> {
        let written = self.dir.write_atomic(name, bytes);
        written.map_err(|error| write_failure(&self.path.join(name), error))
    }

    /// Writes a value as JSON.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), HelperFailure> {
        let path = self.path.join(name);
        let text = serde_json::to_vec_pretty(value).map_err(|error| write_failure(&path, error))?;
        self.write(name, &text)
    }

    /// Reads a file; none if it is missing. One that others can use is refused.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, HelperFailure> {
        match self.dir.read_private(name, MOST_FILE_BYTES) {
            Ok((bytes, _)) => Ok(Some(bytes)),
            Err(PrivateFileFault::Missing) => Ok(None),
            Err(fault) => Err(read_failure(&self.path.join(name), fault)),
        }
    }

    /// Reads a value.
    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, HelperFailure> {
        let Some(bytes) = self.read(name)? else { return Ok(None) };
        let parsed = serde_json::from_slice(&bytes);
        parsed.map(Some).map_err(|error| read_failure(&self.path.join(name), error))
    }

    /// Makes a key, unless there is one.
    pub fn ensure_key(&self, name: &str) -> Result<KeyPair, HelperFailure> {
        if let Some(key) = self.read_key(name)? {
            return Ok(key);
        }
        let key = KeyPair::new_user();
        let seed = key.seed().map_err(|error| write_failure(&self.path.join(name), error))?;
        self.write(name, seed.as_bytes())?;
        Ok(key)
    }

    /// Reads a key; none if it is missing or was given up.
    pub fn read_key(&self, name: &str) -> Result<Option<KeyPair>, HelperFailure> {
        let Some(bytes) = self.read(name)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        if text.trim().is_empty() {
            return Ok(None);
        }
        let key = KeyPair::from_seed(text.trim());
        key.map(Some).map_err(|_| read_failure(&self.path.join(name), "it holds no key"))
    }

    /// The key of that name, which has to be there.
    pub fn need_key(&self, name: &str) -> Result<KeyPair, HelperFailure> {
        self.read_key(name)?.ok_or_else(|| read_failure(&self.path.join(name), "it is missing"))
    }

    /// Forgets the keys of a member that leaves: their files are emptied. The seal goes last: as long as it is there,
    /// a command that was killed on the way can be done again.
    pub fn give_up_keys(&self) -> Result<(), HelperFailure> {
        let give_up = |name: &str| match self.has(name) {
            true => self.write(name, b""),
            false => Ok(()),
        };
        [OPERATOR_LINK_SEED, OPERATOR_SEAL_SEED, LINK_SEED].into_iter().try_for_each(give_up)?;
        sys::pause::pause_at("fleet.keys.sealed");
        give_up(SEAL_SEED)
    }
}

/// The member that this home is, with its directory.
pub fn read_member(home: &Path) -> Result<(FleetDir, MemberFile), HelperFailure> {
    let missing = || {
        HelperFailure::new(
            HelperFailureKind::Refused,
            "this home is in no fleet",
            "`ostler fleet join` asks to be a member; docs/fleet.md has the whole way",
        )
    };
    let dir = FleetDir::open(home, "fleet")?.ok_or_else(missing)?;
    let member: MemberFile = dir.read_json(MEMBER_FILE)?.ok_or_else(missing)?;
    if member.left {
        return Err(missing());
    }
    Ok((dir, member))
}

/// What names this machine for ever.
pub fn this_machine() -> String {
    sys::proc::current_observer().machine_hashed.unwrap_or_default()
}
