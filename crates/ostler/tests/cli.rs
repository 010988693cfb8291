//! ostler as its users run it: the built binary, temporary homes, real processes.

#![allow(clippy::disallowed_methods, reason = "tests remove what they made")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cli {
    mod access;
    mod agent;
    mod architecture;
    mod badge;
    mod cases;
    mod codex_server;
    mod collect;
    mod commands;
    mod daemon;
    #[path = "../../build/declarations.rs"]
    mod declarations;
    mod dependencies;
    mod door;
    mod errors;
    mod feel;
    mod finalize;
    mod foreign_tree;
    mod fuses;
    mod gc_second_look;
    mod help;
    mod hidden_processes;
    mod homes;
    mod hook;
    mod hooks;
    mod hostile;
    mod index;
    mod inside;
    mod json_contract;
    mod launches;
    mod live;
    mod locks;
    mod logs;
    mod ls;
    mod metrics;
    mod names;
    mod nested;
    mod notify;
    mod openers;
    mod permissions;
    mod permits;
    mod pictures;
    mod pins;
    mod readme;
    mod reaper;
    mod run;
    mod search;
    mod service;
    mod service_failures;
    mod setup;
    mod setup_again;
    mod show;
    mod stop;
    mod upgrade;
    mod usage;
    mod watch;
    mod web;
    mod worktree_guard;
    mod writer;
}
