//! The way through ssh, with a real sshd on a port of this machine: joining, reading when the hub is lost, and
//! what never goes that way.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::home::TempHome;
use testkit::pause::Pauses;
use testkit::run::{Ran, ran};

use super::fleet_kit::{
    TestHub, engine_directory, fleet_run, link_pid, signal_process, start_member, wait_for_link,
    with_engine, write_settings,
};
use super::kit::{TestDaemon, free_port, ostler, ostler_program, wait_until};

/// An sshd whose visitors are at home in one of the test's homes, and an `ssh` that knows the way there.
struct TestSshd {
    child: Child,
    directory: TempHome,
    port: u16,
}

impl TestSshd {
    /// Visitors find `ostler` of this build in their PATH, unless `program` is another one.
    fn start(home: &TempHome, program: Option<&str>) -> Self {
        let directory = TempHome::new();
        for name in ["host", "login"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(directory.join(name))
                .status();
            assert!(made.unwrap().success());
        }
        let programs = directory.directory("programs");
        match program {
            Some(script) => write_program(&directory, "programs/ostler", script),
            None => std::os::unix::fs::symlink(ostler_program(), programs.join("ostler")).unwrap(),
        }
        // sshd of some distributions insists on it.
        let _ = std::fs::create_dir_all("/run/sshd");
        let port = free_port();
        let path = format!("{}:{}:/usr/bin:/bin", programs.display(), engine_directory().display());
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {host}\nAuthorizedKeysFile {login}.pub\n\
             StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nLogLevel VERBOSE\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             SetEnv HOME={home} XDG_RUNTIME_DIR={home}/run TZ=UTC PATH={path}\n",
            host = directory.join("host").display(),
            login = directory.join("login").display(),
            home = home.path().display(),
        );
        directory.write("sshd_config", config);
        let log = std::fs::File::create(directory.join("sshd.log")).unwrap();
        let child = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(directory.join("sshd_config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("openssh-server is installed");
        let sshd = Self { child, directory, port };
        wait_until("an sshd that listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
        sshd.trust_host_key("host.pub");
        let config = format!(
            "Host far\n HostName 127.0.0.1\n Port {port}\n User root\n IdentitiesOnly yes\n \
             IdentityFile {login}\n UserKnownHostsFile {known}\n StrictHostKeyChecking yes\n",
            login = sshd.directory.join("login").display(),
            known = sshd.directory.join("known_hosts").display(),
        );
        sshd.directory.write("ssh_config", config);
        // ssh asks the password file for its home, not the environment.
        let script = format!(
            "#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n",
            sshd.directory.join("ssh_config").display()
        );
        write_program(&sshd.directory, "wrapper/ssh", &script);
        sshd
    }

    fn trust_host_key(&self, name: &str) {
        let key = String::from_utf8(self.directory.read(name)).unwrap();
        self.directory.write("known_hosts", format!("[127.0.0.1]:{} {key}", self.port));
    }

    /// `ostler` in a home whose ssh finds this sshd under the name `far`.
    fn visit(&self, home: &TempHome) -> Command {
        let mut command = with_engine(ostler(home));
        let environment: Vec<_> = command.get_envs().collect();
        let path = environment.iter().find(|(name, _)| *name == "PATH").unwrap().1.unwrap();
        let mut with_wrapper = self.directory.join("wrapper").into_os_string();
        with_wrapper.push(":");
        with_wrapper.push(path);
        command.env("PATH", with_wrapper);
        command
    }

    #[track_caller]
    fn run(&self, home: &TempHome, words: &[&str]) -> Ran {
        ran(self.visit(home).args(words))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("sshd.log")).unwrap()
    }

    /// How many came in by their key.
    fn visitors(&self) -> usize {
        self.log().matches("Accepted publickey").count()
    }
}

impl Drop for TestSshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write_program(home: &TempHome, below: &str, script: &str) {
    let path: PathBuf = home.write(below, script);
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// A laptop that may do everything on a server, by the hub and by ssh.
struct TwoWays {
    hub: TestHub,
    server: TempHome,
    laptop: TempHome,
    sshd: TestSshd,
    daemon: TestDaemon,
    pauses: Pauses,
}

impl TwoWays {
    fn new() -> Self {
        Self::renewing("10s")
    }

    fn renewing(renew: &str) -> Self {
        let hub = TestHub::start(&["--plain"]);
        let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "reap"));
        let sshd = TestSshd::start(&server, None);
        write_settings(&server, renew, "allow = \"reap\"\n");
        write_settings(&laptop, renew, "[fleet.ssh]\nserver = \"far\"\n");
        let pauses = Pauses::new();
        let mut command = with_engine(ostler(&server));
        pauses.apply(&mut command);
        let daemon = TestDaemon::with(command);
        hub.wait_for_state("server", "reachable");
        wait_for_link(&server);
        fleet_run(&server, &["create", "--name", "build", "--", "cat"]).exits(0);
        Self { hub, server, laptop, sshd, daemon, pauses }
    }
}

impl Drop for TwoWays {
    fn drop(&mut self) {
        let _ = ostler(&self.server).args(["destroy", "build"]).output();
    }
}

#[test]
fn row_19_one_line_by_ssh_makes_a_member() {
    let hub = TestHub::start(&[]);
    let sshd = TestSshd::start(&hub.home, None);
    let laptop = TempHome::new();
    laptop.write(".config/ostler/config.toml", "[fleet]\nrenew = \"1s\"\n");
    let words = ["--json", "fleet", "join", "--ssh", "far", "--name", "laptop"];
    let joined = sshd.run(&laptop, &words).exits(0).result();
    assert_eq!((&joined["joined"], &joined["name"]), (&json!(true), &json!("laptop")));
    assert_eq!(sshd.visitors(), 1);
    let _daemon = start_member(&laptop);
    hub.wait_for_state("laptop", "reachable");
    // The same name from another home is the hub's to refuse, and its words are told.
    let other = TempHome::new();
    let refused =
        sshd.run(&other, &["fleet", "join", "--ssh", "far", "--name", "laptop"]).exits(13);
    assert!(refused.stderr.contains("another member `laptop`"), "{}", refused.stderr);
    assert!(!other.join(".local/state/ostler/fleet/member.json").exists());
}

#[test]
fn row_45_without_the_hub_reads_and_orders_go_by_ssh_and_say_so() {
    let mut ways = TwoWays::new();
    let show = ["--json", "--host", "server", "show", "build"];
    let by_hub = ways.sshd.run(&ways.laptop, &show).exits(0).envelope();
    assert_eq!(by_hub["via"], "hub");
    assert_eq!(ways.sshd.visitors(), 0, "nobody went by ssh while the hub was there");
    ways.hub.kill_engine();
    let by_ssh = ways.sshd.run(&ways.laptop, &show).exits(0).envelope();
    assert_eq!((&by_ssh["via"], &by_ssh["member"]), (&json!("ssh"), &json!("server")));
    assert_eq!(by_ssh["result"]["session"]["id"], by_hub["result"]["session"]["id"]);
    let told = ways.sshd.run(&ways.laptop, &["--host", "server", "inspect", "build"]).exits(0);
    assert!(told.stderr.contains("server: through ssh"), "{}", told.stderr);
    // `--via hub` stays on its way.
    let words = ["--host", "server", "--via", "hub", "show", "build"];
    ways.sshd.run(&ways.laptop, &words).exits(6);
    // An order of which nothing was sent may go this way.
    let words = ["--json", "--host", "server", "destroy", "build"];
    let destroyed = ways.sshd.run(&ways.laptop, &words).exits(0).envelope();
    assert_eq!(destroyed["via"], "ssh");
    fleet_run(&ways.server, &["wait", "build", "--exit", "--timeout", "10000"]);
    // One whose way is not known is not guessed at.
    let missing = ways.sshd.run(&ways.laptop, &["--host", "nobody", "--via", "ssh", "du"]).exits(3);
    assert!(missing.stderr.contains("[fleet.ssh]"), "{}", missing.stderr);
    ways.hub.run_engine();
    let words = ["--json", "--host", "server", "--via", "ssh", "adapters"];
    assert_eq!(ways.sshd.run(&ways.laptop, &words).exits(0).envelope()["via"], "ssh");
}

#[test]
fn row_45_a_member_that_the_hub_does_not_reach_is_asked_by_ssh() {
    let ways = TwoWays::renewing("1s");
    let link = link_pid(&ways.daemon);
    signal_process(link, "-STOP");
    ways.hub.wait_for_state("server", "unreachable");
    let words = ["--json", "--host", "server", "show", "build"];
    let answer = ways.sshd.run(&ways.laptop, &words).exits(0).envelope();
    assert_eq!(answer["via"], "ssh");
    signal_process(link, "-CONT");
}

#[test]
fn row_71_an_order_that_was_sent_never_goes_by_ssh_too() {
    let mut ways = TwoWays::new();
    ways.pauses.arm("fleet.order.noted");
    let mut command = ways.sshd.visit(&ways.laptop);
    let words = ["--json", "--host", "server", "destroy", "build"];
    let child = command.args(words).stdout(Stdio::piped()).spawn().unwrap();
    ways.pauses.wait("fleet.order.noted");
    ways.hub.kill_engine();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(14), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(ways.sshd.visitors(), 0, "{}", ways.sshd.log());
    // It was on its way, and the member does it once it can.
    ways.pauses.release("fleet.order.noted");
    wait_until("the end of the terminal", || {
        let seen = fleet_run(&ways.server, &["--json", "inspect", "build"]);
        Some(()).filter(|()| !seen.stdout.contains("\"running\""))
    });
}

#[test]
fn row_72_hostile_targets_and_arguments_are_only_text() {
    let ways = TwoWays::new();
    let trap = ways.laptop.join("trap");
    for target in [
        format!("-oProxyCommand=touch {}", trap.display()),
        "-F/dev/null".to_owned(),
        "far\nfar".to_owned(),
        String::new(),
    ] {
        let text = format!("[fleet]\n[fleet.ssh]\nserver = {}\n", json!(target));
        ways.laptop.write(".config/ostler/config.toml", text);
        let refused = ways.sshd.run(&ways.laptop, &["--host", "server", "--via", "ssh", "du"]);
        assert_eq!(refused.code, 2, "{target:?}: {refused:?}");
    }
    assert_eq!(ways.sshd.visitors(), 0);
    ways.laptop.write(".config/ostler/config.toml", "[fleet]\n[fleet.ssh]\nserver = \"far\"\n");
    let evil = format!("$(touch {0}) `touch {0}` '; touch {0}; echo \" \\ *", trap.display());
    let words = ["--host", "server", "--via", "ssh", "type", "build", &evil];
    ways.sshd.run(&ways.laptop, &words).exits(0);
    let words = ["--json", "--host", "server", "--via", "ssh", "wait", "build", "--text", "\\ *"];
    ways.sshd.run(&ways.laptop, &words).exits(0);
    assert!(!trap.exists() && !ways.server.join("trap").exists());
    let snapshot = fleet_run(&ways.server, &["--json", "snapshot", "build"]).exits(0).stdout;
    assert!(snapshot.contains("$(touch"), "{snapshot}");
    // Another host key than the known one: ssh's own words are told, and nothing is run.
    let visitors = ways.sshd.visitors();
    ways.sshd.trust_host_key("login.pub");
    let words = ["--host", "server", "--via", "ssh", "show", "build"];
    let refused = ways.sshd.run(&ways.laptop, &words).exits(6);
    assert!(refused.stderr.contains("Host key verification failed"), "{}", refused.stderr);
    assert!(!refused.stderr.contains('\r') && !refused.stderr.contains('\x1b'));
    let words = ["--json", "--host", "server", "--via", "ssh", "destroy", "build"];
    let refused = ways.sshd.run(&ways.laptop, &words).exits(6);
    assert_eq!(refused.error(), "MEMBER_UNREACHABLE", "nothing was sent, so it is known");
    assert_eq!(ways.sshd.visitors(), visitors);
}

#[test]
fn row_72_a_remote_that_hangs_costs_its_time_and_leaves_no_ssh_behind() {
    let hub = TestHub::start(&["--plain"]);
    let laptop = hub.join("laptop", "reap");
    let sshd = TestSshd::start(&laptop, Some("#!/bin/sh\necho \"$@\" >>asked\nexec sleep 600\n"));
    laptop.write(".config/ostler/config.toml", "[fleet]\n[fleet.ssh]\nserver = \"far\"\n");
    let begun = Instant::now();
    let words = ["--json", "--host", "server", "--via", "ssh", "show", "build"];
    let late = sshd.run(&laptop, &words).exits(5);
    assert_eq!(late.error(), "MEMBER_TIMEOUT");
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
    let config = sshd.directory.join("ssh_config");
    let is_ours =
        |line: Vec<u8>| String::from_utf8_lossy(&line).contains(&*config.to_string_lossy());
    wait_until("the end of ssh", || {
        let processes = std::fs::read_dir("/proc").unwrap();
        let left = processes
            .filter_map(|one| std::fs::read(one.ok()?.path().join("cmdline")).ok())
            .any(is_ours);
        Some(()).filter(|()| !left)
    });
}

#[test]
fn row_72_the_greeting_and_the_order_have_one_time_together() {
    let hub = TestHub::start(&["--plain"]);
    let laptop = hub.join("laptop", "reap");
    let program = "#!/bin/sh\ncase $1 in version) sleep 15;; *) exec sleep 600;; esac\n";
    let sshd = TestSshd::start(&laptop, Some(program));
    laptop.write(".config/ostler/config.toml", "[fleet]\n[fleet.ssh]\nserver = \"far\"\n");
    let begun = Instant::now();
    let words = ["--json", "--host", "server", "--via", "ssh", "mark", "build", "x"];
    let late = sshd.run(&laptop, &words).exits(14);
    assert_eq!(late.error(), "MAY_HAVE_APPLIED");
    // A minute, and not a minute after the greeting.
    let taken = begun.elapsed();
    assert!((58..70).contains(&taken.as_secs()), "{taken:?}");
}
