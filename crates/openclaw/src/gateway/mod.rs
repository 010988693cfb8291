//! OpenClaw's gateway: who owns its files now, and asking it to change them.
//!
//! The gateway keeps its files in memory and writes them back, so that a second writer beside it
//! destroys what either wrote. A change is therefore the gateway's if it runs, and ours only on the
//! proof that it does not. Whatever goes wrong once it was asked is the end: it may have been done.

use std::time::Duration;

use serde_json::Value;

mod client;
mod owner;
mod processes;
mod websocket;

pub use client::{CallError, call};
pub(crate) use owner::words as owner_words;
pub use owner::{Owned, Owner, Unowned, owner, prove_unowned};

use super::config::Config;

/// Who makes a change.
#[derive(Debug)]
pub enum Route {
    /// The gateway has made it, and says this.
    Gateway(Value),
    /// Nobody else does.
    Local(Unowned),
}

/// Why a change was not made, or is not known to have been.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The gateway could not be asked, refused, or did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// It could not be asked, and may be there.
    #[error(transparent)]
    Owned(#[from] Owned),
}

/// Has the gateway make a change, or says that it is ours to make. Only a gateway on this machine
/// that nobody listens for, and that is proven not to run, leaves it to us.
pub fn dispatch(
    config: &Config,
    method: &str,
    params: &Value,
    patience: Duration,
) -> Result<Route, GatewayError> {
    match call(&config.gateway, method, params, patience) {
        Ok(answer) => Ok(Route::Gateway(answer)),
        Err(CallError::NotRunning { .. }) if config.gateway.remote.is_none() => {
            Ok(Route::Local(prove_unowned(config)?))
        }
        Err(error) => Err(error.into()),
    }
}
