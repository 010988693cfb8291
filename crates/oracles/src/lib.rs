//! What must hold for any bytes that come from outside.
//!
//! Every reader of foreign bytes has one question here. A fuzz target of the same name asks it without
//! end; the test suite asks it of the saved seeds and of a bounded number of mutations of them.
#![forbid(unsafe_code)]

mod access;
mod event_log;
mod fleet;
mod scratch;
mod screen;
mod skim;
mod socket;
mod transcript;

pub use self::access::{access_meta, agent_env, agent_protocol};
pub use self::event_log::event_log;
pub use self::fleet::fleet_records;
pub use self::screen::screen;
pub use self::skim::skim;
pub use self::socket::socket;
pub use self::transcript::transcript;

#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the fuzz target, and of the directory of its seeds.
    pub name: &'static str,
    /// Asks it; panics when something does not hold.
    pub ask: fn(&[u8]),
    /// How many mutations of each seed the test suite tries: as many as take about a second.
    pub mutations: usize,
}

pub const TARGETS: &[Target] = &[
    Target { name: "access_meta", ask: access_meta, mutations: 3000 },
    Target { name: "agent_env", ask: agent_env, mutations: 3000 },
    Target { name: "agent_protocol", ask: agent_protocol, mutations: 3000 },
    Target { name: "event_log", ask: event_log, mutations: 60 },
    Target { name: "fleet_records", ask: fleet_records, mutations: 10 },
    Target { name: "screen", ask: screen, mutations: 150 },
    Target { name: "skim", ask: skim, mutations: 3000 },
    Target { name: "socket", ask: socket, mutations: 100 },
    Target { name: "transcript", ask: transcript, mutations: 30 },
];
