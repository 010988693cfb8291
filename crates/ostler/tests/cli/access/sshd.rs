//! The whole way, with a real sshd on loopback: open, log in, stop, prune, and read it all in the log.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testkit::access::{Sessions, is_root, make_key, wait_until};

use super::run;

struct Sshd {
    child: Child,
    port: u16,
    directory: PathBuf,
}

impl Sshd {
    /// Starts one that lets in whoever has `public`.
    fn start(directory: &Path, public: &Path) -> Option<Self> {
        let binary = ["/usr/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd"];
        let Some(binary) = binary.iter().find(|path| Path::new(path).exists()) else {
            testkit::access::skipped("openssh-server is not installed");
            return None;
        };
        // sshd of some distributions insists on it.
        let _ = fs::create_dir_all("/run/sshd");
        let host_key = directory.join("host_key");
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&host_key)
            .status()
            .unwrap();
        assert!(made.success());
        fs::copy(public, directory.join("authorized")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {key}\nAuthorizedKeysFile {auth}\n\
             StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\n",
            key = host_key.display(),
            auth = directory.join("authorized").display(),
        );
        fs::write(directory.join("sshd_config"), config).unwrap();
        let child = Command::new(binary)
            .args(["-D", "-e", "-f"])
            .arg(directory.join("sshd_config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(directory.join("sshd.log")).unwrap())
            .spawn()
            .unwrap();
        wait_until("sshd listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        let host = fs::read_to_string(host_key.with_extension("pub")).unwrap();
        let known = format!("[127.0.0.1]:{port} {host}");
        fs::write(directory.join("known_hosts"), known).unwrap();
        Some(Self { child, port, directory: directory.to_owned() })
    }

    /// The words that log in, without any key file.
    fn login(&self) -> Vec<String> {
        let known = self.directory.join("known_hosts");
        let words = [
            "ssh".to_owned(),
            "-F".to_owned(),
            "none".to_owned(),
            "-oBatchMode=yes".to_owned(),
            "-oIdentityFile=none".to_owned(),
            format!("-oUserKnownHostsFile={}", known.display()),
            format!("-p{}", self.port),
            "root@127.0.0.1".to_owned(),
            "echo arrived".to_owned(),
        ];
        words.to_vec()
    }

    fn said(&self) -> String {
        fs::read_to_string(self.directory.join("sshd.log")).unwrap()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn open_log_in_stop_prune_and_read_the_log() {
    if !is_root() {
        return;
    }
    let sessions = Sessions::new();
    let key = make_key(sessions.home.path(), "login");
    let Some(sshd) = Sshd::start(sessions.home.path(), &key.with_extension("pub")) else { return };
    let opened =
        run(&sessions, &format!("open --json --ttl 5m --key {}", key.display())).exits(0).result();
    let id = opened["id"].as_str().unwrap();
    fs::remove_file(&key).unwrap();

    let mut login = super::ostler(&sessions);
    login.args(["access", "exec", id, "--"]).args(sshd.login());
    let ran = super::super::run::ran(&mut login);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "arrived\n"), "{ran:?}\n{}", sshd.said());

    run(&sessions, &format!("stop {id}")).exits(0);
    let mut again = super::ostler(&sessions);
    again.args(["access", "exec", id, "--"]).args(sshd.login());
    assert_eq!(super::super::run::ran(&mut again).code, 4, "it was taken back");
    let pruned = run(&sessions, "prune").exits(0).stdout;
    assert!(pruned.starts_with(&format!("PRUNED {id} stopped\n")), "{pruned}");

    let log = run(&sessions, &format!("log {id} --json")).exits(0).result();
    let entries = log["entries"].as_array().unwrap();
    let events: Vec<&str> = entries.iter().map(|entry| entry["event"].as_str().unwrap()).collect();
    assert_eq!(events.first(), Some(&"opened"), "{events:?}");
    assert_eq!(events.last(), Some(&"pruned"), "{events:?}");
    assert!(events.contains(&"stopped") && events.contains(&"agent-ended"), "{events:?}");
    let sign = entries.iter().find(|entry| entry["event"] == "sign").expect("a login signs");
    assert_eq!(sign["granted"], true);
    assert_eq!(sign["destination"]["user"], "root");
    assert_eq!(sign["peer"]["comm"], "ssh");
    let host =
        Command::new("ssh-keygen").arg("-lf").arg(sessions.home.join("host_key.pub")).output();
    let host = String::from_utf8(host.unwrap().stdout).unwrap();
    assert!(host.contains(sign["destination"]["hostKey"].as_str().unwrap()), "{sign} {host}");
    let text = run(&sessions, &format!("log {id}")).exits(0).stdout;
    assert!(text.contains("for root at host SHA256:"), "{text}");
}

#[test]
fn a_key_for_one_host_does_not_open_another() {
    if !is_root() {
        return;
    }
    let sessions = Sessions::new();
    let key = make_key(sessions.home.path(), "limited");
    let places = ["here", "elsewhere"].map(|name| sessions.home.directory(name));
    let started = places.map(|place| Sshd::start(&place, &key.with_extension("pub")));
    let [Some(here), Some(elsewhere)] = started else { return };
    let known = fs::read_to_string(here.directory.join("known_hosts")).unwrap();
    let (_, host_key) = known.split_once(' ').unwrap();
    let hosts = sessions.home.write("hosts", format!("127.0.0.1 {host_key}"));
    let mut open = super::ostler(&sessions);
    open.args(["access", "open", "--json", "--ttl", "5m", "--destination", "127.0.0.1"]);
    open.arg("--known-hosts").arg(&hosts).arg("--key").arg(&key);
    let opened = super::super::run::ran(&mut open);
    if opened.stdout.contains("8.9 or newer") {
        testkit::access::skipped("this OpenSSH cannot limit keys to destinations");
        return;
    }
    let id = opened.exits(0).result()["id"].as_str().unwrap().to_owned();
    fs::remove_file(&key).unwrap();
    let log_in = |sshd: &Sshd| {
        let mut login = super::ostler(&sessions);
        login.args(["access", "exec", &id, "--"]).args(sshd.login());
        super::super::run::ran(&mut login)
    };
    assert_eq!(log_in(&here).stdout, "arrived\n", "{}", here.said());
    let ran = log_in(&elsewhere);
    assert!(ran.code == 255 && ran.stderr.contains("Permission denied"), "{ran:?}");
    // B18: a use that was refused is in the log, like one that was granted.
    let log = run(&sessions, &format!("log {id}")).exits(0).stdout;
    assert_eq!(log.matches("use a key for another destination").count(), 1, "{log}");
    run(&sessions, &format!("stop {id}")).exits(0);
}
