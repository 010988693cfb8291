//! Hosted terminals as their users run them: real programs, real hosts, real signals.

#![allow(clippy::disallowed_methods, reason = "tests remove what they made")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

mod terminal {
    mod agent_tty;
    mod agents;
    mod artifacts;
    mod attach;
    mod better;
    mod contract;
    mod deliveries;
    mod endurance;
    mod faults;
    mod film;
    mod groups;
    mod headless;
    mod holders;
    mod launch;
    mod limits;
    mod mcp;
    mod mcp_prompts;
    mod moved_on;
    mod prompt;
    mod queue;
    mod resume;
    mod second_actors;
    mod settings;
    mod skills;
    mod stage;
    mod starved;
    mod submit;
    mod terms;
    mod top;
    mod top_hands;
    mod top_sizes;
    mod top_verbs;
    mod top_words;
    mod trees;
    mod trust;
}
