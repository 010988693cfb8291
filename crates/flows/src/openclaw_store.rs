//! Changing OpenClaw's stores: by its gateway if that runs, else by ostler's writer.

use openclaw::config::OpenClawConfig;
use openclaw::gateway;
use openclaw::store::{
    CleanupRequest, SessionStoreRequest, StoreChangeError, StoreError, StoreSelection,
    clean_beside, read_policy, refuse_remote,
};
use openclaw::wire::{StoreCleanupResult, StoreRebuildResult};
use sys::machine::Machine;

use crate::work::{self, OrderError};
use crate::writer::{DaemonCallError, Work, WorkDone};

/// Why a store was not changed, or is not known to have been.
#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The gateway did not do it, or may have.
    #[error(transparent)]
    Gateway(#[from] gateway::GatewayError),
    /// The writer did not do it, or may have.
    #[error(transparent)]
    Order(#[from] OrderError),
}

impl From<StoreChangeError> for CleanError {
    fn from(error: StoreChangeError) -> Self {
        match error {
            StoreChangeError::Store(error) => Self::Store(error),
            StoreChangeError::Gateway(error) => Self::Gateway(error),
            StoreChangeError::NotDone(failure) => Self::Order(OrderError::NotDone(failure)),
        }
    }
}

/// Cleans up. A store that was named by its path is never the gateway's business.
pub fn clean(
    machine: &Machine,
    ask: &SessionStoreRequest,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<StoreCleanupResult, CleanError> {
    let (config, variables) =
        machine.note_variables(|machine| OpenClawConfig::load(&machine.env()));
    let config = config.map_err(StoreError::from)?;
    let policy = read_policy(&config)?;
    if !matches!(ask.selection, StoreSelection::Path(_)) {
        refuse_remote(&config).map_err(OrderError::NotDone)?;
        if let Err(owned) = gateway::prove_unowned(&config, machine) {
            let pins = store::state::read_pins(machine.home());
            let cleanup = ask.cleanup_request(&config, &policy, &pins, machine);
            let cleanup = CleanupRequest { beside: Some(&owned.owner), ..cleanup };
            return Ok(clean_beside(&cleanup, ask, &owned, progress)?);
        }
    }
    let work = Work::StoreCleanup(Box::new(SessionStoreRequest { variables, ..ask.clone() }));
    match work::carry_out_work(&work, machine, progress)? {
        (WorkDone::StoreCleanup(result), transport) => {
            Ok(StoreCleanupResult { transport: Some(transport.as_str().into()), ..*result })
        }
        _ => {
            Err(OrderError::Call(DaemonCallError::MayHaveApplied("another answer".to_owned()))
                .into())
        }
    }
}

/// Has a new index written.
pub fn rebuild(
    machine: &Machine,
    ask: &SessionStoreRequest,
) -> Result<StoreRebuildResult, CleanError> {
    let (config, variables) =
        machine.note_variables(|machine| OpenClawConfig::load(&machine.env()));
    config.map_err(StoreError::from)?;
    let work = Work::StoreRebuild(Box::new(SessionStoreRequest { variables, ..ask.clone() }));
    match work::carry_out_work(&work, machine, &mut |_, _| {})? {
        (WorkDone::StoreRebuild(result), _) => Ok(*result),
        _ => {
            Err(OrderError::Call(DaemonCallError::MayHaveApplied("another answer".to_owned()))
                .into())
        }
    }
}
