//! Terminals of another machine: watched, driven, and left alone when nobody looks any more.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use model::fleet_order::{OrderAnswer, OrderArguments, OrderAsk, OrderReply};
use model::hosted::stream::{FrameKind, take_frame};
use model::wire::FleetLevel;
use net::fleet_files::{FleetDir, MemberFile, OPERATOR_LINK_SEED, OPERATOR_SEAL_SEED};
use net::nats::{HubConnection, HubLogin, connect_hub};
use net::record::{MemberCertificate, read_certificate, read_chunk};
use net::seal::{SEAL_BYTES, SealKind, seal_json};
use net::terminal_stream::STREAM_LIFETIME;
use nkeys::KeyPair;
use serde_json::Value;
use testkit::home::TempHome;

use super::fleet_kit::{TestHub, fleet_run, signal_process, start_member, wait_for_link};
use super::kit::{PATIENCE, TestDaemon, ostler, ostler_program, wait_until};
use super::orders::set_allow;

/// A server with a terminal, and a laptop that looks at it.
struct Stage {
    hub: TestHub,
    server: TempHome,
    laptop: TempHome,
    _daemon: TestDaemon,
}

impl Stage {
    fn new(allow: &str, script: &str) -> Self {
        let hub = TestHub::start(&["--plain"]);
        let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "reap"));
        set_allow(&server, allow);
        let daemon = start_member(&server);
        hub.wait_for_state("server", "reachable");
        wait_for_link(&server);
        let words = ["create", "--name", "build", "--cols", "90", "--rows", "20", "--"];
        fleet_run(&server, &[&words[..], &["sh", "-c", script]].concat()).exits(0);
        Self { hub, server, laptop, _daemon: daemon }
    }

    /// A terminal on the laptop in which somebody has joined the server's.
    fn look(&self, more: &[&str]) {
        let program = ostler_program();
        let program = program.to_str().unwrap();
        let words = ["create", "--name", "view", "--cols", "90", "--rows", "20", "--", program];
        let line = [&words[..], &["attach", "server/build"], more].concat();
        fleet_run(&self.laptop, &line).exits(0);
    }

    fn wait_for(&self, home: &TempHome, terminal: &str, text: &str) {
        let words = ["wait", terminal, "--text", text, "--timeout", "90000"];
        let ended = fleet_run(home, &words);
        assert_eq!(ended.code, 0, "{ended:?}\n{}", screen_of(home, terminal));
    }

    fn viewers(&self) -> u64 {
        let seen = fleet_run(&self.server, &["--json", "inspect", "build"]).exits(0).result();
        seen["session"]["viewers"].as_u64().or(seen["viewers"].as_u64()).unwrap_or(99)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for (home, name) in [(&self.laptop, "view"), (&self.server, "build")] {
            let _ = ostler(home).args(["destroy", name, "--force"]).output();
        }
    }
}

/// How late the end of an attachment may be seen on a busy machine.
const LATE: Duration = Duration::from_secs(2);

fn screen_of(home: &TempHome, terminal: &str) -> String {
    fleet_run(home, &["snapshot", terminal, "--format", "text"]).stdout
}

#[test]
fn row_73_a_flood_ends_in_the_same_screen_here_and_there() {
    let flood =
        "echo ready; read go; head -c 38000000 /dev/urandom | base64; echo THE-END; exec cat";
    let stage = Stage::new("read", flood);
    stage.look(&["--read-only"]);
    stage.wait_for(&stage.laptop, "view", "ready");
    fleet_run(&stage.server, &["type", "build", "go\n"]).exits(0);
    stage.wait_for(&stage.server, "build", "THE-END");
    stage.wait_for(&stage.laptop, "view", "THE-END");
    wait_until("the same screen", || {
        let (near, far) = (screen_of(&stage.server, "build"), screen_of(&stage.laptop, "view"));
        Some(()).filter(|()| near == far)
    });
    // Whoever looks leaves no trace, and typing reaches nobody.
    fleet_run(&stage.laptop, &["type", "view", "not-typed\n"]).exits(0);
    fleet_run(&stage.server, &["type", "build", "typed-here\n"]).exits(0);
    stage.wait_for(&stage.laptop, "view", "typed-here");
    assert!(!screen_of(&stage.server, "build").contains("not-typed"));
    // Ctrl-] leaves, and the member hears of it at once.
    fleet_run(&stage.laptop, &["send-keys", "view", "Ctrl+]"]).exits(0);
    stage.wait_for(&stage.laptop, "view", "detached from server/build");
    wait_until("the end of the attachment", || Some(()).filter(|()| stage.viewers() == 0));
}

#[test]
fn row_76_what_is_typed_afar_is_typed_once_and_only_where_it_is_allowed() {
    let stage = Stage::new("drive", "echo ready; exec cat");
    stage.look(&[]);
    stage.wait_for(&stage.laptop, "view", "ready");
    for word in ["one", "two", "three"] {
        fleet_run(&stage.laptop, &["type", "view", &format!("{word}\n")]).exits(0);
    }
    stage.wait_for(&stage.server, "build", "three");
    stage.wait_for(&stage.laptop, "view", "three");
    wait_until("every line twice: typed, and by cat", || {
        let screen = screen_of(&stage.server, "build");
        Some(()).filter(|()| {
            ["one", "two", "three"].iter().all(|word| screen.matches(word).count() == 2)
        })
    });
    // The order stands in the member's journal, with who gave it.
    let journal = stage.server.read(".local/state/ostler/fleet/orders.json");
    let journal: Value = serde_json::from_slice(&journal).unwrap();
    let order = journal["orders"].as_array().unwrap().last().unwrap();
    assert_eq!((&order["command"], &order["operator"]), (&"attach".into(), &"laptop".into()));
    // From now on only looking is allowed.
    set_allow(&stage.server, "read");
    fleet_run(&stage.laptop, &["destroy", "view"]).exits(0);
    stage.look(&[]);
    stage.wait_for(&stage.laptop, "view", "lets operators do `read`");
    // What is no terminal, and who is no terminal.
    let missing = fleet_run(&stage.laptop, &["attach", "server/build"]);
    assert!(missing.stderr.contains("needs a terminal"), "{missing:?}");
    fleet_run(&stage.laptop, &["--json", "--host", "server", "--via", "ssh", "attach", "build"])
        .exits(2);
}

/// An operator that speaks for itself, message by message.
struct RawOperator {
    hub: HubConnection,
    seal: KeyPair,
    certificate: MemberCertificate,
    id: String,
    read_only: bool,
}

impl RawOperator {
    async fn connect(stage: &Stage, id: &str, read_only: bool) -> Self {
        let open = |home: &TempHome| {
            FleetDir::open(&home.join(".local/state/ostler"), "fleet").unwrap().unwrap()
        };
        let (dir, other) = (open(&stage.laptop), open(&stage.server));
        let file: MemberFile = dir.read_json("member.json").unwrap().unwrap();
        let server: MemberFile = other.read_json("member.json").unwrap().unwrap();
        let sealed = STANDARD.decode(&server.certificate).unwrap();
        let certificate = read_certificate(&server.root, &server.id, &sealed).unwrap();
        let login = HubLogin {
            url: &file.url,
            ca: None,
            key: &dir.need_key(OPERATOR_LINK_SEED).unwrap(),
            inbox: "laptop",
            timeout: Duration::from_secs(20),
            stays: false,
        };
        let hub = connect_hub(&login).await.unwrap();
        let seal = dir.need_key(OPERATOR_SEAL_SEED).unwrap();
        Self { hub, seal, certificate, id: id.to_owned(), read_only }
    }

    async fn say(&mut self, options: &[(&str, &str)], grant: Option<String>) -> OrderReply {
        let mut args = OrderArguments { words: vec!["build".to_owned()], ..Default::default() };
        let read_only = self.read_only.then_some(("read-only", ""));
        for (name, value) in options.iter().copied().chain(read_only) {
            let values = Some(value.to_owned()).filter(|value| !value.is_empty());
            args.options.insert(name.to_owned(), values.into_iter().collect());
        }
        let level = if self.read_only { FleetLevel::Read } else { FleetLevel::Drive };
        let ask = OrderAsk {
            v: 1,
            id: self.id.clone(),
            to: self.certificate.id.clone(),
            from: "laptop".to_owned(),
            level,
            verb: "attach".to_owned(),
            args,
            json: false,
            grant,
            cursor: None,
        };
        let subject =
            format!("ostler.v1.ask.{}.{}.laptop.attach", self.certificate.id, level.as_str());
        let sealed = seal_json(&self.seal, SealKind::Ask, &ask).unwrap();
        let answer = self.hub.ask(&subject, async_nats::HeaderMap::new(), sealed.into()).await;
        let answer: OrderAnswer =
            serde_json::from_slice(&answer.unwrap().payload[SEAL_BYTES..]).unwrap();
        answer.reply
    }

    /// Everything that the terminal shows from now on, as long as it shows something.
    async fn chunks(&self) -> async_nats::Subscriber {
        let subject = format!("ostler.v1.out.{}.term.laptop.{}", self.certificate.id, self.id);
        let chunks = self.hub.client.subscribe(subject).await.unwrap();
        self.hub.client.flush().await.unwrap();
        chunks
    }

    /// Reads chunks until their output says everything that is waited for; the position after them.
    async fn read_until(&self, chunks: &mut async_nats::Subscriber, texts: &[&str]) -> u64 {
        let (mut shown, mut position) = (String::new(), 0);
        while !texts.iter().all(|text| shown.contains(text)) {
            let next = tokio::time::timeout(PATIENCE, chunks.next()).await;
            let message = next.unwrap_or_else(|_| panic!("no {texts:?} in {shown:?}")).unwrap();
            let chunk = read_chunk(&self.certificate, &self.id, &message.payload).unwrap();
            assert!(read_chunk(&self.certificate, "01KOTHER", &message.payload).is_err());
            let mut frames = STANDARD.decode(&chunk.frames).unwrap();
            position = chunk.position + frames.len() as u64;
            while let Some((kind, payload)) = take_frame(&mut frames).unwrap() {
                if kind == FrameKind::Bytes {
                    shown.push_str(&String::from_utf8_lossy(&payload));
                }
            }
        }
        position
    }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

fn is_done(reply: &OrderReply) -> bool {
    matches!(reply, OrderReply::Done { exit: 0, .. })
}

#[test]
fn row_74_whoever_missed_something_is_shown_the_whole_screen() {
    let stage = Stage::new("read", "echo first-line; exec cat");
    run(async {
        let mut viewer = RawOperator::connect(&stage, "01KGAP", true).await;
        let mut chunks = viewer.chunks().await;
        assert!(is_done(&viewer.say(&[], None).await));
        let before = viewer.read_until(&mut chunks, &["first-line"]).await;
        // This one is lost on its way.
        fleet_run(&stage.server, &["type", "build", "second-line\n"]).exits(0);
        viewer.read_until(&mut chunks, &["second-line"]).await;
        assert!(is_done(&viewer.say(&[("stream", ""), ("redraw", "")], None).await));
        // What `cat` says again may still be on its way; only the whole screen has the first line in it.
        let after = viewer.read_until(&mut chunks, &["first-line", "second-line"]).await;
        assert!(after > before, "positions only grow");
        // Whoever only looks types nothing, whatever it says.
        let typed = [("stream", ""), ("input", &*STANDARD.encode("x\n")), ("number", "1")];
        let refused = viewer.say(&typed, None).await;
        assert!(matches!(refused, OrderReply::Refused { .. }), "{refused:?}");
        assert!(is_done(&viewer.say(&[("stream", ""), ("end", "")], None).await));
        let over = viewer.say(&[("stream", "")], None).await;
        assert!(matches!(over, OrderReply::Refused { .. }), "{over:?}");
    });
    wait_until("the end of the attachment", || Some(()).filter(|()| stage.viewers() == 0));
}

#[test]
fn row_76_a_repeated_number_is_acknowledged_and_not_typed() {
    let stage = Stage::new("drive", "echo ready; exec cat");
    run(async {
        let mut typist = RawOperator::connect(&stage, "01KTYPIST", false).await;
        let mut chunks = typist.chunks().await;
        // Without a permission nothing is opened, and one is for one attachment.
        let OrderReply::Prepared { grant, .. } = typist.say(&[], None).await else {
            panic!("no grant")
        };
        assert!(is_done(&typist.say(&[], Some(grant.clone())).await));
        let again = typist.say(&[], Some(grant)).await;
        assert!(matches!(again, OrderReply::Refused { .. }), "{again:?}");
        typist.read_until(&mut chunks, &["ready"]).await;
        let input = STANDARD.encode("word\n");
        for number in ["1", "1", "1"] {
            let typed = [("stream", ""), ("input", input.as_str()), ("number", number)];
            assert!(is_done(&typist.say(&typed, None).await));
        }
        let last = STANDARD.encode("last\n");
        let typed = [("stream", ""), ("input", last.as_str()), ("number", "2")];
        assert!(is_done(&typist.say(&typed, None).await));
        typist.read_until(&mut chunks, &["last"]).await;
    });
    stage.wait_for(&stage.server, "build", "last");
    wait_until("both lines", || {
        let screen = screen_of(&stage.server, "build");
        assert!(screen.matches("word").count() <= 2, "{screen}");
        let counts = (screen.matches("word").count(), screen.matches("last").count());
        Some(()).filter(|()| counts == (2, 2))
    });
}

#[test]
fn what_is_allowed_is_looked_up_for_whatever_is_typed() {
    let stage = Stage::new("drive", "echo ready; exec cat");
    run(async {
        let mut typist = RawOperator::connect(&stage, "01KTYPIST", false).await;
        let mut chunks = typist.chunks().await;
        let OrderReply::Prepared { grant, .. } = typist.say(&[], None).await else {
            panic!("no grant")
        };
        assert!(is_done(&typist.say(&[], Some(grant)).await));
        let input = STANDARD.encode("before\n");
        let typed = [("stream", ""), ("input", input.as_str()), ("number", "1")];
        assert!(is_done(&typist.say(&typed, None).await));
        typist.read_until(&mut chunks, &["before"]).await;
        // It is still open, and from now on only looking is allowed.
        set_allow(&stage.server, "read");
        let input = STANDARD.encode("after\n");
        let typed = [("stream", ""), ("input", input.as_str()), ("number", "2")];
        let refused = typist.say(&typed, None).await;
        assert!(matches!(refused, OrderReply::Refused { .. }), "{refused:?}");
    });
    fleet_run(&stage.server, &["type", "build", "the-end\n"]).exits(0);
    stage.wait_for(&stage.server, "build", "the-end");
    assert!(!screen_of(&stage.server, "build").contains("after"));
}

#[test]
fn row_76_an_open_attachment_is_not_driven_at_the_level_of_whoever_looks() {
    let stage = Stage::new("drive", "echo ready; exec cat");
    run(async {
        let mut typist = RawOperator::connect(&stage, "01KTYPIST", false).await;
        let mut chunks = typist.chunks().await;
        let OrderReply::Prepared { grant, .. } = typist.say(&[], None).await else {
            panic!("no grant")
        };
        assert!(is_done(&typist.say(&[], Some(grant)).await));
        typist.read_until(&mut chunks, &["ready"]).await;
        // From now on only looking is allowed, and it says that it only looks.
        set_allow(&stage.server, "read");
        typist.read_only = true;
        let input = STANDARD.encode("sneaked\n");
        for more in [("input", &*input), ("take", ""), ("size", "{\"cols\":33,\"rows\":11}")] {
            let refused = typist.say(&[("stream", ""), more, ("number", "1")], None).await;
            assert!(matches!(refused, OrderReply::Refused { .. }), "{more:?}: {refused:?}");
        }
        // To look on is fine.
        assert!(is_done(&typist.say(&[("stream", ""), ("redraw", "")], None).await));
    });
    fleet_run(&stage.server, &["type", "build", "the-end\n"]).exits(0);
    stage.wait_for(&stage.server, "build", "the-end");
    let seen = fleet_run(&stage.server, &["snapshot", "build", "--format", "text"]).exits(0);
    assert!(!seen.stdout.contains("sneaked"), "{}", seen.stdout);
}

#[test]
fn row_75_a_viewer_that_is_gone_is_not_served_for_longer_than_half_a_minute() {
    let stage = Stage::new("read", "echo ready; exec cat");
    stage.look(&["--read-only"]);
    stage.wait_for(&stage.laptop, "view", "ready");
    assert_eq!(stage.viewers(), 1);
    // The helper that speaks to the hub dies without a word.
    let needle = format!("HOME={}\0", stage.laptop.path().display());
    let helper = std::fs::read_dir("/proc").unwrap().find_map(|one| {
        let path = one.ok()?.path();
        let line = std::fs::read(path.join("cmdline")).ok()?;
        let environment = std::fs::read(path.join("environ")).ok()?;
        let is_helper = String::from_utf8_lossy(&line).contains("ostler-net\0view");
        let is_ours = String::from_utf8_lossy(&environment).contains(&needle);
        (is_helper && is_ours).then(|| path.file_name()?.to_str()?.parse::<u32>().ok())?
    });
    let begun = Instant::now();
    signal_process(helper.expect("a helper that views"), "-KILL");
    loop {
        let asked_at = begun.elapsed();
        if stage.viewers() == 0 {
            break;
        }
        assert!(asked_at < STREAM_LIFETIME + LATE, "it is still served after {asked_at:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    stage.wait_for(&stage.laptop, "view", "it may go on there");
    let _ = &stage.hub;
}
