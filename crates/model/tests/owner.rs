//! The choice of an owner: each rule by example, then the properties that hold for any chain.

use std::time::Duration;

use ostler_model::program::{AgentProgram, ProcessAppearance};
use ostler_model::rules::owner::{
    MAX_ANCESTORS, OwnerBasis, OwnerChoice, OwnerQuestion, ProcessAncestor, choose_owner,
};
use proptest::prelude::*;
use proptest::sample::select;

const CLAUDE: (&str, AgentProgram) = (
    "claude",
    AgentProgram {
        names: &["claude"],
        packages: &["@anthropic-ai/claude-code"],
        servers: &[],
        helpers: &["bg-spare"],
    },
);

const US: u32 = 1000;
const OLD: Duration = Duration::from_secs(60);
const YOUNG: Duration = Duration::from_millis(999);

/// A chain of programs, nearest first, numbered from 100; all of our user and all old.
fn chain(programs: &[&str]) -> Vec<ProcessAncestor> {
    (100..).zip(programs).map(|(pid, program)| ancestor(pid, program)).collect()
}

fn ancestor(pid: u32, program: &str) -> ProcessAncestor {
    let args: Vec<String> = program.split(' ').map(Into::into).collect();
    let name = args[0].rsplit('/').next().unwrap_or("");
    ProcessAncestor {
        pid,
        uid: US,
        appearance: ProcessAppearance {
            comm: name.chars().take(15).collect(),
            exe: Some(format!("/usr/bin/{name}")),
            args,
        },
        older_by: OLD,
        in_hook_group: false,
    }
}

fn chosen(chain: &[ProcessAncestor], claims: &[u32]) -> Option<OwnerChoice> {
    let question = OwnerQuestion { rules: &[CLAUDE], claims, uid: US };
    choose_owner(question, chain.iter().cloned())
}

fn at(index: usize, basis: OwnerBasis) -> Option<OwnerChoice> {
    Some(OwnerChoice { index, basis })
}

#[test]
fn a_known_agent_wins_over_anything_nearer() {
    let chain = chain(&["sh", "editor", "node /x/@anthropic-ai/claude-code/cli.js", "bash"]);
    assert_eq!(chosen(&chain, &[]), at(2, OwnerBasis::Agent("claude")));
}

#[test]
fn the_nearest_known_agent_wins() {
    let chain = chain(&["sh", "claude", "bash", "claude"]);
    assert_eq!(chosen(&chain, &[]), at(1, OwnerBasis::Agent("claude")));
}

#[test]
fn a_helper_process_of_an_agent_is_passed_over() {
    let chain = chain(&["claude bg-spare", "claude"]);
    assert_eq!(chosen(&chain, &[]), at(1, OwnerBasis::Agent("claude")));
}

#[test]
fn a_known_agent_may_be_young() {
    let mut chain = chain(&["sh", "claude"]);
    chain[1].older_by = Duration::ZERO;
    assert_eq!(chosen(&chain, &[]), at(1, OwnerBasis::Agent("claude")));
}

#[test]
fn a_claim_is_preferred_if_it_is_above_the_hook_and_of_our_user() {
    let mut chain = chain(&["sh", "claude", "launcher"]);
    assert_eq!(chosen(&chain, &[102]), at(2, OwnerBasis::Claim));
    assert_eq!(chosen(&chain, &[100]), at(0, OwnerBasis::Claim));
    assert_eq!(chosen(&chain, &[7]), at(1, OwnerBasis::Agent("claude")));
    chain[2].uid = 0;
    assert_eq!(chosen(&chain, &[102]), at(1, OwnerBasis::Agent("claude")));
}

#[test]
fn an_unknown_program_is_an_owner_if_it_was_there_a_second_before() {
    let mut chain = chain(&["sh", "novel-agent", "bash", "terminal"]);
    assert_eq!(chosen(&chain, &[]), at(1, OwnerBasis::Steady));
    chain[1].older_by = Duration::from_secs(1);
    assert_eq!(chosen(&chain, &[]), at(1, OwnerBasis::Steady));
    chain[1].older_by = YOUNG;
    assert_eq!(chosen(&chain, &[]), at(3, OwnerBasis::Steady));
}

#[test]
fn programs_that_pass_on_are_no_owners() {
    for program in [
        "sh",
        "bash",
        "zsh",
        "dash",
        "fish",
        "ash",
        "ksh",
        "csh",
        "tcsh",
        "nu",
        "elvish",
        "pwsh",
        "busybox",
        "env",
        "sudo",
        "doas",
        "su",
        "timeout",
        "nice",
        "xargs",
        "flock",
        "script",
        "time",
        "strace",
        "setsid",
        "stdbuf",
        "unshare",
        "direnv",
        "mise",
        "uv",
        "npx",
        "npm",
        "git",
        "cargo",
        "go",
        "ostler",
        "node /usr/lib/node_modules/npm/bin/npx-cli.js -y x",
        "node /usr/bin/npm exec x",
        "bun /x/bin/pnpm dlx x",
    ] {
        assert_eq!(chosen(&chain(&[program]), &[]), None, "{program}");
    }
    let mut renamed = ancestor(100, "node");
    renamed.appearance.args = vec!["npm exec some-agent".into()];
    assert_eq!(chosen(&[renamed], &[]), None, "npm renames its process");
}

#[test]
fn an_interpreter_with_a_script_of_its_own_may_be_an_agent() {
    for program in ["node /x/agent.js", "python3 -u /x/agent.py", "python3.12 agent", "bun run"] {
        assert_eq!(chosen(&chain(&[program]), &[]), at(0, OwnerBasis::Steady), "{program}");
    }
}

#[test]
fn what_adopts_orphans_is_no_owner_nor_is_anything_above() {
    for reaper in ["systemd --user", "init", "launchd", "tini", "containerd-shim-runc-v2"] {
        assert_eq!(chosen(&chain(&["sh", reaper, "daemon"]), &[]), None, "{reaper}");
    }
    let mut tmux = ancestor(100, "tmux");
    tmux.appearance.comm = "tmux: server".into();
    assert_eq!(chosen(&[tmux.clone(), ancestor(101, "daemon")], &[]), None);
    // Where the executable cannot be read, the short name must do.
    tmux.appearance.exe = None;
    assert_eq!(chosen(&[tmux], &[]), None);
}

#[test]
fn pid_1_ends_the_walk() {
    let chain = [ancestor(1, "claude"), ancestor(100, "claude")];
    assert_eq!(chosen(&chain, &[1, 100]), None);
}

#[test]
fn no_ancestors_no_owner() {
    assert_eq!(chosen(&[], &[100]), None);
}

#[test]
fn no_more_is_asked_for_than_the_choice_needs() {
    let mut asked = 0;
    let question = OwnerQuestion { rules: &[CLAUDE], claims: &[], uid: US };
    let ancestors = chain(&["sh", "claude", "bash", "terminal"]);
    let lazily = ancestors.into_iter().inspect(|_| asked += 1);
    assert_eq!(choose_owner(question, lazily), at(1, OwnerBasis::Agent("claude")));
    assert_eq!(asked, 2);
    let mut asked = 0;
    let endless = std::iter::repeat_with(|| ancestor(100, "sh")).inspect(|_| asked += 1);
    assert_eq!(choose_owner(question, endless), None);
    assert!(asked <= MAX_ANCESTORS + 1, "{asked}");
}

#[test]
fn p8_an_unknown_program_in_the_hooks_group_leaves_no_owner() {
    let mut chain = chain(&["sh", "slow-wrapper", "sh", "novel-agent", "bash", "terminal"]);
    assert_eq!(chosen(&chain, &[]), at(1, OwnerBasis::Steady));
    chain[1].in_hook_group = true;
    assert_eq!(chosen(&chain, &[]), None);
    // The shells between an agent and its hook are known for what they are.
    chain[1] = ancestor(101, "bash");
    chain[1].in_hook_group = true;
    assert_eq!(chosen(&chain, &[]), at(3, OwnerBasis::Steady));
    chain[3] = ancestor(103, "claude");
    chain[2] = ancestor(102, "slow-wrapper");
    chain[2].in_hook_group = true;
    assert_eq!(chosen(&chain, &[]), at(3, OwnerBasis::Agent("claude")));
}

prop_compose! {
    fn any_ancestor()(
        pid in 0_u32..40,
        uid in select(vec![US, 0]),
        program in select(vec![
            "sh", "env", "claude", "claude bg-spare", "agent", "node x.js", "systemd", "npm",
        ]),
        millis in 0_u64..3000,
        readable in any::<bool>(),
        in_hook_group in any::<bool>(),
    ) -> ProcessAncestor {
        let mut ancestor = ancestor(pid, program);
        ancestor.uid = uid;
        ancestor.older_by = Duration::from_millis(millis);
        ancestor.in_hook_group = in_hook_group;
        if !readable {
            ancestor.appearance.exe = None;
        }
        ancestor
    }
}

proptest! {
    #[test]
    fn whatever_is_chosen_has_earned_it(
        chain in proptest::collection::vec(any_ancestor(), 0..40),
        claims in proptest::collection::vec(0_u32..40, 0..3),
    ) {
        let Some(choice) = chosen(&chain, &claims) else { return Ok(()) };
        let owner = &chain[choice.index];
        prop_assert!(choice.index < MAX_ANCESTORS);
        prop_assert!(chain[..=choice.index].iter().all(|ancestor| ancestor.pid > 1));
        match choice.basis {
            OwnerBasis::Claim => prop_assert!(claims.contains(&owner.pid) && owner.uid == US),
            OwnerBasis::Agent(name) => {
                prop_assert_eq!(name, "claude");
                prop_assert!(CLAUDE.1.matches(&owner.appearance));
            }
            OwnerBasis::Steady => {
                prop_assert!(owner.older_by >= Duration::from_secs(1));
                prop_assert!(!owner.in_hook_group);
                let known = ["sh", "env", "npm", "systemd"];
                prop_assert!(!known.contains(&owner.appearance.comm.as_str()));
                let below = &chain[..choice.index];
                prop_assert!(below.iter().all(|ancestor| ancestor.appearance.comm != "systemd"));
            }
        }
    }

    #[test]
    fn a_claim_that_does_not_hold_changes_nothing(
        chain in proptest::collection::vec(any_ancestor(), 0..20),
        claim in 100_u32..200,
    ) {
        prop_assert_eq!(chosen(&chain, &[claim]), chosen(&chain, &[]));
    }
}
