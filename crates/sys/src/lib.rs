//! The operating system as ostler sees it.
//!
//! The only crate that may use `unsafe` and ask for the platform. Everything here reports what
//! the system says and decides nothing: the rules over these facts are in `model`.
//! Nothing is cached between calls, so an answer is never older than the call.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod append;
pub mod atomic;
pub mod beneath;
pub mod bounded_run;
pub mod browser;
pub mod clock;
pub mod dirs;
pub mod disk;
pub mod dropped;
pub mod exchange;
pub mod fingerprint;
pub mod hash;
pub mod input;
pub mod lock;
pub mod lockfile;
pub mod log;
pub mod machine;
pub mod memory;
pub mod orphans;
pub mod owner;
pub mod pause;
pub mod private;
pub mod proc;
pub mod pty;
pub mod random;
pub mod relocate;
pub mod sender;
pub mod service;
pub mod signals;
pub mod socket;
pub mod spawn;
pub mod spread;
pub mod terminal;
pub mod timer;
pub mod trash;
pub mod tree;
pub mod tree_facts;
pub mod wall_clock;
pub mod watch;
pub mod watch_set;
pub mod writer_lock;
