//! OpenClaw's gateway: who owns its files now, and asking it to change them.
//!
//! The gateway keeps its files in memory and writes them back, so that a second writer beside it
//! destroys what either wrote. A change is therefore the gateway's if it runs, and ours only on the
//! proof that it does not. A failure after the question is final: it may have been done.

use std::time::Duration;

use serde_json::Value;
use sys::machine::Machine;

mod client;
mod owner;
mod processes;
mod websocket;

pub use client::{GatewayCallError, call_gateway};
pub(crate) use owner::describe_owner as owner_words;
pub use owner::{GatewayOwner, Owned, Unowned, find_owner, prove_unowned};

use super::config::OpenClawConfig;

/// Who makes a change.
#[derive(Debug)]
pub enum GatewayRoute {
    /// The gateway has made it, and says this.
    Gateway(Value),
    /// No other process does.
    Local(Unowned),
}

/// Why a change was not made, or is not known to have been.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The gateway could not be asked, refused, or did not answer.
    #[error(transparent)]
    Call(#[from] GatewayCallError),
    /// It could not be asked, and may be there.
    #[error(transparent)]
    Owned(#[from] Owned),
}

/// Has the gateway make a change, or says that it is ours to make. Only a gateway on this machine
/// without a listener, and that is proven not to run, leaves it to us.
pub fn dispatch_change(
    config: &OpenClawConfig,
    method: &str,
    params: &Value,
    patience: Duration,
    machine: &Machine,
) -> Result<GatewayRoute, GatewayError> {
    match call_gateway(&config.gateway, method, params, patience) {
        Ok(answer) => Ok(GatewayRoute::Gateway(answer)),
        Err(GatewayCallError::NotRunning { .. }) if config.gateway.remote.is_none() => {
            Ok(GatewayRoute::Local(prove_unowned(config, machine)?))
        }
        Err(error) => Err(error.into()),
    }
}
