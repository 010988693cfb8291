//! What is asked of the writer, and the proof it needs before it writes.

use std::collections::BTreeMap;
use std::path::Path;

use crate::rules::policy::MaintenancePolicy;
use model::plan::Refusal;
use serde::{Deserialize, Serialize};
use sys::machine::Machine;

use super::find::{StorePlace, StoreSelection};
use super::plan::CleanupRequest;
use super::{StoreError, read_policy};
use crate::config::OpenClawConfig;
use crate::{gateway, locks};
use model::failure::{Failure, FailureKind};
use model::rules::pins::Pins;

/// What is asked for. It is whole: who carries it out needs nothing else from who asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionStoreRequest {
    pub selection: StoreSelection,
    /// Whether to act although the policy only warns.
    pub enforce: bool,
    /// A key that must stay.
    pub active: Option<String>,
    /// Whether entries without a transcript go, and those that lead astray from theirs are put right.
    pub fix_missing: bool,
    /// Whether rows of single peers go if direct chats share the main session.
    pub fix_dm_scope: bool,
    /// Whether entries that are no sessions go.
    pub drop_unusable: bool,
    /// Whether what stays is listed too.
    pub with_kept: bool,
    /// The plans that were consented to; none means any plan.
    pub consent: Option<Vec<String>>,
    /// The variables that say where OpenClaw keeps things.
    pub variables: BTreeMap<String, String>,
}

impl SessionStoreRequest {
    /// What is asked for, in the light of OpenClaw's configuration.
    pub fn cleanup_request<'a>(
        &'a self,
        config: &'a OpenClawConfig,
        policy: &'a MaintenancePolicy,
        pins: &'a Pins,
        machine: &'a Machine,
    ) -> CleanupRequest<'a> {
        CleanupRequest {
            config,
            policy,
            pins,
            machine,
            enforce: self.enforce,
            active: self.active.as_deref(),
            fix_missing: self.fix_missing,
            fix_dm_scope: self.fix_dm_scope,
            drop_unusable: self.drop_unusable,
            with_kept: self.with_kept,
            beside: None,
        }
    }

    /// Reads OpenClaw's configuration, as the client would read it.
    pub(super) fn read_configuration(
        &self,
        machine: &Machine,
    ) -> Result<(OpenClawConfig, MaintenancePolicy), StoreError> {
        let asker = machine.with_variables(&self.variables);
        let config = OpenClawConfig::load(&asker.env())?;
        let policy = read_policy(&config)?;
        Ok((config, policy))
    }
}

/// Makes sure that no other process writes these stores: no gateway owns them, and no lock of an older
/// release is held. A store that a person named and that is not OpenClaw's own has no gateway.
pub(super) fn prove_ours(
    config: &OpenClawConfig,
    places: &[StorePlace],
    machine: &Machine,
) -> Result<(), Failure> {
    if places.iter().any(|place| !place.named || is_openclaws(config, &place.path)) {
        gateway::prove_unowned(config, machine).map_err(|owned| Failure {
            kind: FailureKind::Refused,
            message: owned.to_string(),
            hint: "stop OpenClaw first: `openclaw gateway stop`".to_owned(),
        })?;
    }
    for place in places {
        if let Some(held) = locks::find_lock(&place.path, machine).and_then(|lock| lock.refusal()) {
            return Err(Failure {
                kind: FailureKind::Refused,
                message: format!("the store {} is in use: {held}", place.path.display()),
                hint: Refusal::Busy { who: String::new() }.remedy().to_owned(),
            });
        }
    }
    Ok(())
}

/// Whether a gateway with this configuration would use a store.
fn is_openclaws(config: &OpenClawConfig, store: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let store = real(store);
    store.starts_with(real(&config.state))
        || config.agents.iter().any(|agent| real(&agent.store) == store)
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::Config(_) | StoreError::Policy { .. } | StoreError::NoAgent { .. } => {
                FailureKind::Input
            }
            StoreError::NoKey(_) | StoreError::Nothing(_) => FailureKind::NotFound,
            StoreError::Ambiguous { .. } => FailureKind::Input,
            StoreError::Read { .. } | StoreError::Broken { .. } | StoreError::Pins(_) => {
                FailureKind::Read
            }
            StoreError::Database(_) => FailureKind::Refused,
        };
        Self { kind, message: error.to_string(), hint: error.remedy() }
    }
}
