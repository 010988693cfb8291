//! The owner walk below real wrappers. A fake agent (the helper under the agent's name, or a
//! script under the agent's package) starts the wrapper, the wrapper starts the hook, and the hook
//! says whom it takes for its owner.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{Running, helper, helper_named, output, permits};

/// Runs `words` below a fake agent and returns the agent's pid and what the hook said.
fn below_agent(words: &[&str]) -> (String, String) {
    let home = tempfile::tempdir().unwrap();
    let agent = helper_named(home.path(), "claude");
    run_agent(Command::new(agent).arg("run"), words)
}

fn run_agent(agent: &mut Command, words: &[&str]) -> (String, String) {
    let child = agent
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    (pid, String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// That the hook below this wrapper finds the agent.
#[track_caller]
fn finds_the_agent(words: &[&str]) {
    let (agent, said) = below_agent(words);
    assert_eq!(said, format!("{agent} Agent(\"claude\")"), "{words:?}");
}

fn hook() -> String {
    helper().display().to_string()
}

fn is_there(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("SKIPPED: no `{program}` on this machine");
    }
    found
}

#[test]
fn directly() {
    finds_the_agent(&[&hook(), "owner"]);
}

#[test]
fn below_sh() {
    // The second command keeps the shell from replacing itself.
    finds_the_agent(&["sh", "-c", "\"$1\" owner; true", "sh", &hook()]);
}

#[test]
fn below_bash_in_bash() {
    if is_there("bash") {
        let inner = format!("bash -c '{} owner; true'; true", hook());
        finds_the_agent(&["bash", "-c", &inner]);
    }
}

#[test]
fn below_env() {
    finds_the_agent(&["env", "A=b", "sh", "-c", "\"$1\" owner; true", "sh", &hook()]);
}

#[test]
fn below_timeout() {
    finds_the_agent(&["timeout", "60", &hook(), "owner"]);
}

#[test]
fn below_nice() {
    finds_the_agent(&["nice", "-n", "1", &hook(), "owner"]);
}

#[test]
fn below_xargs() {
    finds_the_agent(&["sh", "-c", "echo owner | xargs \"$1\"; true", "sh", &hook()]);
}

#[test]
fn below_flock() {
    if is_there("flock") {
        let home = tempfile::tempdir().unwrap();
        let lock = home.path().join("lock").display().to_string();
        finds_the_agent(&["flock", &lock, &hook(), "owner"]);
    }
}

#[test]
fn below_script() {
    if is_there("script") {
        finds_the_agent(&["script", "-qec", &format!("{} owner", hook()), "/dev/null"]);
    }
}

#[test]
fn below_setsid() {
    if is_there("setsid") {
        finds_the_agent(&["setsid", "--wait", "--fork", &hook(), "owner"]);
    }
}

#[test]
fn below_stdbuf() {
    if is_there("stdbuf") {
        finds_the_agent(&["stdbuf", "-oL", &hook(), "owner"]);
    }
}

#[test]
fn below_strace() {
    if is_there("strace") && permits(&["strace", "-qq", "-o", "/dev/null"]) {
        finds_the_agent(&["strace", "-qq", "-o", "/dev/null", &hook(), "owner"]);
    }
}

#[test]
fn below_a_subreaper() {
    finds_the_agent(&[&hook(), "subreaper", &hook(), "owner"]);
}

/// Whoever started the hook is gone; it was handed to the nearest subreaper, below the agent.
#[test]
fn handed_to_a_subreaper() {
    let orphaned = "\"$1\" orphan $$ & true";
    let (agent, said) = below_agent(&[&hook(), "subreaper", "sh", "-c", orphaned, "sh", &hook()]);
    assert_eq!(said, format!("{agent} Agent(\"claude\")"));
}

/// A script under the agent's package, run by an interpreter.
fn package(directory: &Path, code: &str) -> PathBuf {
    let package = directory.join("node_modules/@anthropic-ai/claude-code");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::write(package.join("cli.js"), code).unwrap();
    package.join("cli.js")
}

#[test]
fn an_agent_hosted_by_python() {
    if is_there("python3") {
        let home = tempfile::tempdir().unwrap();
        let code = "import subprocess, sys\nsys.exit(subprocess.call(sys.argv[1:]))\n";
        let script = package(home.path(), code);
        let shell = ["sh", "-c", "\"$1\" owner; true", "sh", &hook()];
        let (agent, said) = run_agent(Command::new("python3").arg(script), &shell);
        assert_eq!(said, format!("{agent} Agent(\"claude\")"));
    }
}

#[test]
fn an_agent_hosted_by_node() {
    if is_there("node") {
        let home = tempfile::tempdir().unwrap();
        let code = "const [program, ...args] = process.argv.slice(2);\n\
            const options = { stdio: 'inherit' };\n\
            process.exit(require('child_process').spawnSync(program, args, options).status);\n";
        let script = package(home.path(), code);
        let shell = ["sh", "-c", "\"$1\" owner; true", "sh", &hook()];
        let (agent, said) = run_agent(Command::new("node").arg(script), &shell);
        assert_eq!(said, format!("{agent} Agent(\"claude\")"));
    }
}

#[test]
fn an_agent_started_by_a_symlink() {
    let home = tempfile::tempdir().unwrap();
    let versioned = helper_named(home.path(), "2.1.325");
    let link = home.path().join("claude");
    std::os::unix::fs::symlink(versioned, &link).unwrap();
    let (agent, said) = run_agent(Command::new(link).arg("run"), &[&hook(), "owner"]);
    assert_eq!(said, format!("{agent} Agent(\"claude\")"));
}

#[test]
fn an_agent_whose_executable_was_replaced() {
    let home = tempfile::tempdir().unwrap();
    let agent = helper_named(home.path(), "claude");
    let shell =
        ["sh", "-c", "rm \"$2\"; \"$1\" owner; true", "sh", &hook(), agent.to_str().unwrap()];
    let (pid, said) = run_agent(Command::new(&agent).arg("run"), &shell);
    assert_eq!(said, format!("{pid} Agent(\"claude\")"));
}

#[test]
fn the_nearest_of_two_agents() {
    let home = tempfile::tempdir().unwrap();
    let inner = helper_named(home.path(), "claude").display().to_string();
    let tell_pid = "echo $$; exec \"$1\" run \"$2\" owner";
    let (outer, said) = below_agent(&["sh", "-c", tell_pid, "sh", &inner, &hook()]);
    let (inner, said) = said.split_once('\n').unwrap();
    assert_eq!(said, format!("{inner} Agent(\"claude\")"));
    assert_ne!(inner, outer);
}

#[test]
fn a_claim_above_the_hook_is_preferred() {
    // The shell, nearer than the agent, is named as the owner.
    let (_, said) = below_agent(&["sh", "-c", "echo $$; \"$1\" owner $$; true", "sh", &hook()]);
    let (shell, said) = said.split_once('\n').unwrap();
    assert_eq!(said, format!("{shell} Claim"));
    // And so is one above the nearest agent.
    let home = tempfile::tempdir().unwrap();
    let inner = helper_named(home.path(), "claude").display().to_string();
    let (outer, said) = below_agent(&[&inner, "run", &hook(), "owner", "{}"]);
    assert_eq!(said, format!("{outer} Claim"));
}

#[test]
fn a_claim_that_is_not_above_the_hook_is_ignored() {
    let bystander = Running::helper("wait");
    let (agent, said) = below_agent(&[&hook(), "owner", &bystander.pid().to_string()]);
    assert_eq!(said, format!("{agent} Agent(\"claude\")"));
    for nonsense in ["0", "1", "4294967295"] {
        let (agent, said) = below_agent(&[&hook(), "owner", nonsense]);
        assert_eq!(said, format!("{agent} Agent(\"claude\")"), "{nonsense}");
    }
}

#[test]
fn a_claim_of_another_user_is_ignored() {
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    if !permits(&nobody) {
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let hook = helper_named(home.path(), "hook").display().to_string();
    let script = "setpriv --reuid=65534 --regid=65534 --clear-groups \"$1\" owner $$; true";
    let (agent, said) = below_agent(&["sh", "-c", script, "sh", &hook]);
    assert_eq!(said, format!("{agent} Agent(\"claude\")"));
}

#[test]
fn an_unknown_agent_that_was_there_before() {
    let home = tempfile::tempdir().unwrap();
    let agent = helper_named(home.path(), "novel-agent");
    let shell = ["setsid", "sh", "-c", "\"$1\" owner; true", "sh", &hook()];
    let (pid, said) = run_agent(Command::new(agent).arg("age"), &shell);
    assert_eq!(said, format!("{pid} Steady"));
}

/// Neither is the owner: the wrapper is not the agent, and what is above both is neither.
#[test]
fn p8_a_slow_wrapper_of_an_unknown_agent_is_no_owner() {
    let home = tempfile::tempdir().unwrap();
    let agent = helper_named(home.path(), "novel-agent").display().to_string();
    let wrapper = helper_named(home.path(), "slow-wrapper").display().to_string();
    let (_, said) =
        run_agent(Command::new(&agent).arg("run"), &[&wrapper, "age", &hook(), "owner"]);
    assert_eq!(said, "none");
    let apart = ["setsid", &wrapper, "age", &hook(), "owner"];
    let (_, said) = run_agent(Command::new(&agent).arg("age"), &apart);
    assert_eq!(said, "none");
}

#[test]
fn an_unknown_program_started_for_the_hook_is_no_owner() {
    let home = tempfile::tempdir().unwrap();
    let runner = helper_named(home.path(), "hook-runner");
    let (pid, said) = run_agent(Command::new(runner).arg("run"), &[&hook(), "owner"]);
    // Something further up may have been there before, such as the test itself.
    assert!(!said.starts_with(&format!("{pid} ")), "{said}");
}

#[test]
fn pid_1_is_no_owner() {
    let sandbox = ["unshare", "--pid", "--fork", "--mount-proc"];
    if !permits(&sandbox) {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let agent = helper_named(home.path(), "claude");
    let mut command = Command::new(sandbox[0]);
    command.args(&sandbox[1..]).arg(&agent).arg("run").arg(helper()).arg("owner");
    assert_eq!(output(&mut command), "none", "an agent that is pid 1 cannot be told from init");
    // One level deeper it is an ordinary process of that namespace.
    let mut command = Command::new(sandbox[0]);
    command.args(&sandbox[1..]).arg(helper()).arg("run").arg(agent).arg("run");
    command.arg(helper()).arg("owner");
    assert_eq!(output(&mut command), "2 Agent(\"claude\")");
}

#[test]
fn an_agent_too_far_up_is_not_found() {
    let hook = hook();
    let mut words = [hook.as_str(), "run"].repeat(33);
    words.extend([hook.as_str(), "owner"]);
    let (agent, said) = below_agent(&words);
    assert!(!said.starts_with(&agent), "{said}");
    let mut words = [hook.as_str(), "run"].repeat(31);
    words.extend([hook.as_str(), "owner"]);
    finds_the_agent(&words);
}

#[test]
fn without_a_process_table_there_is_no_owner() {
    if !permits(&["unshare", "--mount"]) {
        return;
    }
    let script = "umount -l /proc; exec \"$@\"";
    let args = [hook(), "owner".to_owned()];
    assert_eq!(output(&mut support::in_own_mounts(script, &args)), "none");
}
