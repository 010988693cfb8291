//! Terminals over the WebSocket: screen states that merge, one writer, watchers that change nothing.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::home::TempHome;

use super::client::{Heard, PageSocket, WebUnderTest};
use crate::cli::run::{ostler, ran, run};

/// A terminal that is destroyed with its test.
struct HostedUnderTest<'a> {
    home: &'a TempHome,
    id: String,
}

impl<'a> HostedUnderTest<'a> {
    fn create(home: &'a TempHome, command: &[&str]) -> Self {
        let mut create = ostler(home);
        create.args(["create", "--json", "--cols", "60", "--rows", "10", "--"]).args(command);
        let made = ran(&mut create).exits(0).result();
        Self { home, id: made["sessionId"].as_str().unwrap().to_owned() }
    }

    /// The lines of its snapshot.
    fn lines(&self) -> Vec<String> {
        let shown = run(self.home, &format!("snapshot {} --json", self.id)).exits(0).result();
        let lines = shown["visibleLines"].as_array().unwrap().iter();
        let text = |line: &Value| line["text"].as_str().or(line.as_str()).unwrap().to_owned();
        lines.map(|line| text(line).trim_end().to_owned()).collect()
    }
}

impl Drop for HostedUnderTest<'_> {
    fn drop(&mut self) {
        run(self.home, &format!("destroy --force {}", self.id));
    }
}

/// What a page shows: rows put together from frames.
#[derive(Default)]
struct ShownPage {
    rows: Vec<String>,
    writer: String,
    writer_name: String,
    size: Value,
    generation: u64,
    frames: usize,
    over: bool,
}

impl ShownPage {
    fn apply(&mut self, frame: &Value) {
        self.frames += 1;
        self.over |= frame.get("over").is_some();
        self.generation = frame["gen"].as_u64().unwrap();
        if frame["whole"] == true {
            self.size = frame["size"].clone();
            self.rows =
                vec![String::new(); usize::try_from(frame["size"][1].as_u64().unwrap()).unwrap()];
        }
        for row in frame["rows"].as_array().into_iter().flatten() {
            let text: String =
                row[1].as_array().unwrap().iter().map(|run| run[0].as_str().unwrap()).collect();
            self.rows[usize::try_from(row[0].as_u64().unwrap()).unwrap()] = text;
        }
        if let Some(writer) = frame["writer"].as_str() {
            self.writer = writer.to_owned();
            self.writer_name = frame["writerName"].as_str().unwrap_or_default().to_owned();
        }
    }

    fn shown_lines(&self) -> Vec<String> {
        self.rows.iter().map(|row| row.trim_end().to_owned()).collect()
    }

    fn text(&self) -> String {
        self.rows.iter().map(|row| row.trim_end()).collect::<Vec<_>>().join("\n")
    }

    /// Shows and acknowledges frames until the page is as expected.
    #[track_caller]
    fn follow(&mut self, socket: &mut PageSocket, what: &str, fits: impl Fn(&Self) -> bool) {
        while !fits(self) {
            match socket.hear() {
                Heard::Json(frame) if frame.get("gen").is_some() => {
                    self.apply(&frame);
                    socket
                        .send(&json!({ "op": "seen", "ch": frame["ch"], "gen": self.generation }));
                }
                Heard::Json(frame) if frame.get("error").is_some() => panic!("{frame}"),
                Heard::Json(_) => {}
                other => panic!("{other:?} while waiting for {what}: {:?}", self.text()),
            }
        }
    }
}

impl ShownPage {
    /// Goes on showing until the server says no.
    #[track_caller]
    fn hear_refusal(&mut self, socket: &mut PageSocket) -> Value {
        loop {
            match socket.hear() {
                Heard::Json(told) if told.get("error").is_some() => return told["error"].clone(),
                Heard::Json(frame) if frame.get("gen").is_some() => {
                    self.apply(&frame);
                    socket
                        .send(&json!({ "op": "seen", "ch": frame["ch"], "gen": self.generation }));
                }
                Heard::Json(_) => {}
                other => panic!("{other:?} while waiting for a refusal"),
            }
        }
    }
}

impl ShownPage {
    /// Goes on showing until an input is answered; whether it was typed.
    #[track_caller]
    fn hear_typed(&mut self, socket: &mut PageSocket, n: u64) -> bool {
        loop {
            match socket.hear() {
                Heard::Json(told) if told["typed"] == n => return true,
                Heard::Json(told) if told["n"] == n && told.get("error").is_some() => return false,
                Heard::Json(frame) if frame.get("gen").is_some() => {
                    self.apply(&frame);
                    socket
                        .send(&json!({ "op": "seen", "ch": frame["ch"], "gen": self.generation }));
                }
                Heard::Json(_) => {}
                other => panic!("{other:?} while waiting for input {n}"),
            }
        }
    }
}

fn subscribe(socket: &mut PageSocket, id: &str) {
    socket.send(&json!({ "op": "sub", "ch": 1, "what": "terminal", "id": id }));
}

#[test]
fn row_46_what_a_page_shows_is_the_snapshot() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let script = "printf '\\033[31mred\\033[0m 日本 e\\314\\201\\n'; for i in $(seq 30); do echo line $i; done; \
                  printf '\\033[2;5Hover\\033[9;1H'; cat";
    let hosted = HostedUnderTest::create(&home, &["/bin/sh", "-c", script]);
    let mut socket = web.open_socket(&token);
    subscribe(&mut socket, &hosted.id);
    let mut page = ShownPage::default();
    page.follow(&mut socket, "the end of the script", |page| page.text().contains("over"));
    assert_eq!(page.shown_lines(), hosted.lines());
}

#[test]
fn row_46_the_first_frame_is_the_whole_screen_and_whose_keyboard_it_is() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let script = "printf '\\033[?1002hready'; cat";
    let hosted = HostedUnderTest::create(&home, &["/bin/sh", "-c", script]);
    run(&home, &format!("wait {} --text ready", hosted.id)).exits(0);
    // Each time it is joined anew: nobody else watches it.
    for time in 0..20 {
        let mut socket = web.open_socket(&token);
        subscribe(&mut socket, &hosted.id);
        let frame = socket.hear_until("the first frame", |frame| frame.get("gen").is_some());
        let mut page = ShownPage::default();
        page.apply(&frame);
        assert_eq!(page.text().trim_end(), "ready", "the {time}. time: {frame}");
        assert_eq!((page.writer.as_str(), &frame["mouse"]), ("none", &json!("drag")), "{frame}");
    }
}

#[test]
fn row_47_frames_merge_while_one_is_unseen() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let script =
        "read go; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i; done; echo the end; cat";
    let hosted = HostedUnderTest::create(&home, &["/bin/sh", "-c", script]);
    let mut socket = web.open_socket(&token);
    subscribe(&mut socket, &hosted.id);
    let first = socket.hear_until("the first frame", |frame| frame.get("gen").is_some());
    run(&home, &format!("type {} go --append-newline", hosted.id)).exits(0);
    run(&home, &format!("wait {} --text end", hosted.id)).exits(0);
    // Nothing was acknowledged, so nothing more was sent.
    socket.stream.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
    assert_eq!(socket.hear(), Heard::Gone);
    socket.stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut page = ShownPage::default();
    page.apply(&first);
    socket.send(&json!({ "op": "seen", "ch": 1, "gen": page.generation }));
    page.follow(&mut socket, "the newest state", |page| page.text().contains("the end"));
    assert!(page.frames <= 4, "{} frames for 3000 lines", page.frames);
}

/// Kilobytes that a process has in memory.
fn resident_kilobytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn row_47_a_page_that_never_answers_costs_no_memory_and_others_see_everything() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let script = "read go; yes 0123456789012345678901234567890123456789 | head -c 3000000; \
                  echo the end; cat";
    let hosted = HostedUnderTest::create(&home, &["/bin/sh", "-c", script]);
    let mut deaf = web.open_socket(&token);
    subscribe(&mut deaf, &hosted.id);
    deaf.hear_until("the first frame", |frame| frame.get("gen").is_some());
    let mut good = web.open_socket(&token);
    subscribe(&mut good, &hosted.id);
    let mut page = ShownPage::default();
    page.follow(&mut good, "the first frame", |page| page.generation > 0);
    let before = resident_kilobytes(web.pid());
    run(&home, &format!("type {} go --append-newline", hosted.id)).exits(0);
    page.follow(&mut good, "the end", |page| page.text().contains("the end"));
    let grown = resident_kilobytes(web.pid()).saturating_sub(before);
    assert!(grown < 2048, "{grown} KB more after 3 MB that one page has not seen");
}

#[test]
fn row_49_sizes_other_screens_clears_scrolls_and_whole_frames_are_the_snapshot() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "--allow type");
    let token = web.sign_in();
    let steps = [
        "\\033[?1049h\\033[2J\\033[3;3Hother",
        "\\033[?1049l",
        "\\033[2J\\033[Hclear",
        "\\033[2;5r\\033[5;1H\\n\\n\\nscrolled\\033[r",
        "\\033[?2026h\\033[2J\\033[1;1Hone\\033[2;1Htwo\\033[?2026l",
        "\\033[10;1H\\n\\n\\n\\nlast",
    ];
    let printed: Vec<String> =
        steps.iter().map(|step| format!("read go; printf '{step}'")).collect();
    let script = format!("stty -echo; seq 30; echo ready; {}; cat", printed.join("; "));
    let hosted = HostedUnderTest::create(&home, &["/bin/sh", "-c", &script]);
    let mut socket = web.open_socket(&token);
    subscribe(&mut socket, &hosted.id);
    let mut page = ShownPage::default();
    page.follow(&mut socket, "the beginning", |page| page.text().contains("ready"));
    let words = ["other", "ready", "clear", "scrolled", "two", "last"];
    for (at, word) in words.into_iter().enumerate() {
        run(&home, &format!("type {} go --append-newline", hosted.id)).exits(0);
        page.follow(&mut socket, word, |page| page.text().contains(word));
        run(&home, &format!("wait {} --text {word}", hosted.id)).exits(0);
        assert_eq!(page.shown_lines(), hosted.lines(), "step {at}, {word}");
    }
    for size in [[30, 6], [90, 20], [60, 10]] {
        let [cols, rows] = size;
        run(&home, &format!("resize {} --cols {cols} --rows {rows}", hosted.id)).exits(0);
        page.follow(&mut socket, "the new size", |page| page.size == json!(size));
        assert_eq!(page.shown_lines(), hosted.lines(), "{size:?}");
    }
}

#[test]
fn row_53_the_mouse_is_what_send_keys_types() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "--allow type");
    let token = web.sign_in();
    let script = "stty raw -echo; printf '\\033[?1002h\\033[?1006hready\\r\\n'; cat -v";
    let hosted = HostedUnderTest::create(&home, &["/bin/sh", "-c", script]);
    run(&home, &format!("wait {} --text ready", hosted.id)).exits(0);
    let mut socket = web.open_socket(&token);
    subscribe(&mut socket, &hosted.id);
    let told = socket.hear_until("the mouse", |frame| frame["mouse"] == "drag");
    let mut page = ShownPage::default();
    page.apply(&told);
    socket.send(&json!({ "op": "seen", "ch": 1, "gen": page.generation }));
    let keys = ["Press@3,4", "Drag@5,4", "Release@5,4", "WheelUp@1,1", "RightClick@2,2"];
    run(&home, &format!("send-keys {} {}", hosted.id, keys.join(" "))).exits(0);
    let end = "^[[<2;3;3m";
    let joined = |page: &ShownPage| page.text().replace('\n', "");
    page.follow(&mut socket, "the command's", |page| joined(page).contains(end));
    socket.send(&json!({ "op": "take", "ch": 1 }));
    page.follow(&mut socket, "the keyboard", |page| page.writer == "you");
    socket.send(&json!({ "op": "keys", "ch": 1, "n": 1, "keys": keys }));
    page.follow(&mut socket, "the page's", |page| joined(page).matches(end).count() == 2);
    let typed = joined(&page).replace("ready", "");
    let (first, second) = typed.split_at(typed.len() / 2);
    assert_eq!(first, second, "{typed}");
    // What the program did not ask for is refused, and nothing is typed.
    socket.send(&json!({ "op": "keys", "ch": 1, "n": 2, "keys": ["Move@1,1"] }));
    assert_eq!(page.hear_refusal(&mut socket)["code"], "INVALID_KEYS");
}

#[test]
fn row_48_51_one_writes_and_a_repeated_number_is_typed_once() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "--allow type");
    let token = web.sign_in();
    let hosted = HostedUnderTest::create(&home, &["/bin/cat"]);
    let mut one = web.open_socket(&token);
    let mut other = web.open_socket(&token);
    let (mut page, mut second) = (ShownPage::default(), ShownPage::default());
    for socket in [&mut one, &mut other] {
        subscribe(socket, &hosted.id);
    }
    page.follow(&mut one, "the first frame", |page| page.generation > 0);
    second.follow(&mut other, "the first frame", |page| page.generation > 0);
    // A watcher types nothing.
    one.send(&json!({ "op": "text", "ch": 1, "n": 1, "text": "no" }));
    assert_eq!(page.hear_refusal(&mut one)["code"], "REFUSED");
    one.send(&json!({ "op": "fit", "ch": 1, "cols": 10, "rows": 5 }));
    assert_eq!(page.hear_refusal(&mut one)["code"], "REFUSED");
    one.send(&json!({ "op": "take", "ch": 1 }));
    page.follow(&mut one, "the keyboard", |page| page.writer == "you");
    for n in [7, 7, 8] {
        one.send(&json!({ "op": "text", "ch": 1, "n": n, "text": format!("<{n}>") }));
    }
    page.follow(&mut one, "what was typed", |page| page.text().contains("<8>"));
    assert_eq!(page.text().matches("<7>").count(), 1, "{}", page.text());
    // Another page takes over, and the first is told.
    other.send(&json!({ "op": "take", "ch": 1 }));
    second.follow(&mut other, "the keyboard", |page| page.writer == "you");
    // By its name, as `ostler web ls` has it: both pages are of one tab here.
    page.follow(&mut one, "the loss of the keyboard", |page| page.writer_name == "tab-1");
    assert_eq!(page.writer, "other");
    one.send(&json!({ "op": "text", "ch": 1, "n": 9, "text": "late" }));
    assert_eq!(page.hear_refusal(&mut one)["code"], "REFUSED");
    // The size returns with the last writer.
    other.send(&json!({ "op": "fit", "ch": 1, "cols": 40, "rows": 8 }));
    second.follow(&mut other, "the new size", |page| page.size == json!([40, 8]));
    other.send(&json!({ "op": "release", "ch": 1 }));
    second.follow(&mut other, "the old size", |page| page.size == json!([60, 10]));
    second.follow(&mut other, "a free keyboard", |page| page.writer == "none");
}

/// Modes that change what a key is.
const KEY_MODES: [&str; 7] = [
    "",
    "\\033[?1h",
    "\\033=",
    "\\033[?1h\\033=\\033[?2004h",
    "\\033[?66h\\033[20h",
    "\\033[>4;2m",
    "\\033[>1u",
];

/// Every named key, alone and with others held, and characters with others held.
fn every_key() -> Vec<String> {
    let named = [
        "Up",
        "Down",
        "Left",
        "Right",
        "Home",
        "End",
        "PageUp",
        "PageDown",
        "Insert",
        "Delete",
        "Enter",
        "Tab",
        "Backspace",
        "Escape",
        "F1",
        "F2",
        "F3",
        "F4",
        "F5",
        "F6",
        "F7",
        "F8",
        "F9",
        "F10",
        "F11",
        "F12",
        "Space",
    ];
    let mut keys: Vec<String> = named.iter().map(|key| (*key).to_owned()).collect();
    for key in ["Up", "Left", "Home", "PageUp", "Delete", "F1", "F5", "Enter", "Tab", "Backspace"] {
        for held in ["Shift", "Ctrl", "Alt", "Ctrl+Shift", "Ctrl+Alt"] {
            keys.push(format!("{held}+{key}"));
        }
    }
    for sign in "abcdefghijklmnopqrstuvwxyz[]\\".chars() {
        keys.extend([format!("Ctrl+{sign}"), format!("Alt+{sign}")]);
    }
    keys.extend(["x", "Ä", "Alt+Ä", "Ctrl+Space"].map(str::to_owned));
    keys
}

#[test]
fn row_53_in_every_mode_every_key_is_what_send_keys_types() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "--allow type");
    let token = web.sign_in();
    for mode in KEY_MODES {
        let typed = home.join("typed");
        std::fs::write(&typed, "").unwrap();
        let script =
            format!("stty raw -echo; printf '{mode}ready'; exec cat >> {}", typed.display());
        let hosted = HostedUnderTest::create(&home, &["/bin/sh", "-c", &script]);
        run(&home, &format!("wait {} --text ready", hosted.id)).exits(0);
        let mut socket = web.open_socket(&token);
        subscribe(&mut socket, &hosted.id);
        socket.send(&json!({ "op": "take", "ch": 1 }));
        let mut page = ShownPage::default();
        page.follow(&mut socket, "the keyboard", |page| page.writer == "you");
        let (mut n, mut compared) = (0, 0);
        let mut press = |keys: &[String], socket: &mut PageSocket, page: &mut ShownPage| {
            n += 1;
            socket.send(&json!({ "op": "keys", "ch": 1, "n": n, "keys": keys }));
            page.hear_typed(socket, n)
        };
        // Which keys there are is the same for both; what is refused types nothing.
        let keys: Vec<String> = every_key()
            .into_iter()
            .filter(|key| press(std::slice::from_ref(key), &mut socket, &mut page))
            .collect();
        assert!(keys.len() > 90, "{mode}: {} keys", keys.len());
        assert!(press(&["|".to_owned()], &mut socket, &mut page));
        let alone = read_until(&typed, 1);
        // Everything at once, and by the command.
        assert!(press(&keys, &mut socket, &mut page));
        assert!(press(&["|".to_owned()], &mut socket, &mut page));
        let mut command = ostler(&home);
        command.args(["send-keys", &hosted.id, "--"]).args(&keys).arg("|");
        ran(&mut command).exits(0);
        let all = read_until(&typed, 3);
        let parts: Vec<&[u8]> = all.split(|byte| *byte == b'|').collect();
        for part in &parts[..3] {
            assert_eq!(
                part.escape_ascii().to_string(),
                parts[0].escape_ascii().to_string(),
                "{mode}"
            );
            compared += 1;
        }
        assert_eq!((compared, &alone[..alone.len() - 1]), (3, parts[0]), "{mode}");
        // A paste is in brackets where the program asked for them, from both.
        let text = "first\nsecond\ttab";
        socket.send(&json!({ "op": "paste", "ch": 1, "n": 1000, "text": text }));
        assert!(page.hear_typed(&mut socket, 1000));
        ran(ostler(&home).args(["type", &hosted.id, "|"])).exits(0);
        ran(ostler(&home).args(["paste", &hosted.id, text])).exits(0);
        ran(ostler(&home).args(["type", &hosted.id, "|"])).exits(0);
        let all = read_until(&typed, 5);
        let parts: Vec<&[u8]> = all.split(|byte| *byte == b'|').collect();
        assert_eq!(
            parts[3].escape_ascii().to_string(),
            parts[4].escape_ascii().to_string(),
            "{mode}"
        );
    }
}

/// What a file holds, once it holds so many bars.
fn read_until(file: &std::path::Path, bars: usize) -> Vec<u8> {
    let has_come = || {
        let bytes = std::fs::read(file).unwrap();
        (bytes.iter().filter(|byte| **byte == b'|').count() >= bars).then_some(bytes)
    };
    crate::cli::live::wait_until("everything was typed", || has_come().is_some());
    has_come().unwrap()
}

#[test]
fn row_54_garbage_is_closed_with_a_code_and_others_live() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let hosted = HostedUnderTest::create(&home, &["/bin/cat"]);
    let mut good = web.open_socket(&token);
    subscribe(&mut good, &hosted.id);
    good.hear_until("the first frame", |frame| frame.get("gen").is_some());
    for (kind, payload, code) in [
        (1, b"no json".to_vec(), 4002),
        (2, b"{}".to_vec(), 4002),
        (1, br#"{"op":"hello","version":"other"}"#.to_vec(), 4001),
    ] {
        let mut bad = web.open_socket(&token);
        bad.send_frame(kind, &payload);
        assert_eq!(bad.hear(), Heard::Closed(code));
    }
    let mut huge = web.open_socket(&token);
    huge.send_frame(1, &vec![b' '; 2 << 20]);
    assert!(matches!(huge.hear(), Heard::Gone | Heard::Closed(_)));
    for unknown in [
        json!({ "op": "dance" }),
        json!({ "op": "sub", "ch": 2, "what": "moon" }),
        json!({ "op": "keys", "ch": 9 }),
    ] {
        good.send(&unknown);
        good.hear_until("an error", |told| told.get("error").is_some());
    }
    for ch in 2..30 {
        good.send(&json!({ "op": "sub", "ch": ch, "what": "terminal", "id": hosted.id }));
    }
    good.hear_until("too many", |told| told["error"]["code"] == "TOO_MANY");
    good.send(&json!({ "op": "sub", "ch": 1, "what": "terminal", "id": "no-such-terminal" }));
    good.hear_until("not found", |told| told["ch"] == 1 && told.get("error").is_some());
}

#[test]
fn row_65_a_page_is_given_as_many_rows_as_it_asks_for_and_counts_of_all() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let _terminals =
        [(), (), ()].map(|()| HostedUnderTest::create(&home, &["/bin/sh", "-c", "exec cat"]));
    let mut socket = web.open_socket(&token);
    let working = |frame: &Value| {
        let groups = frame["about"]["groups"].as_array().unwrap().iter();
        groups.filter(|one| one["group"] == "working").map(|one| one["count"].clone()).next()
    };
    for (window, rows) in [(json!(2), 2), (Value::Null, 3), (json!(1), 1), (json!(1_000_000), 3)] {
        socket.send(&json!({ "op": "sub", "ch": 7, "what": "sessions", "window": window }));
        let told = socket.hear_until("sessions", |frame| {
            frame["rev"] == 1 && frame["put"].as_array().is_some_and(|put| put.len() == rows)
        });
        assert_eq!(told["order"].as_array().unwrap().len(), rows, "{told}");
        assert_eq!(working(&told), Some(json!(3)), "{told}");
    }
}

#[test]
fn row_50_the_end_of_a_terminal_is_told() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let hosted = HostedUnderTest::create(&home, &["/bin/cat"]);
    let mut socket = web.open_socket(&token);
    subscribe(&mut socket, &hosted.id);
    let mut page = ShownPage::default();
    page.follow(&mut socket, "the first frame", |page| page.generation > 0);
    run(&home, &format!("destroy --force {}", hosted.id)).exits(0);
    page.follow(&mut socket, "its end", |page| page.over);
}

/// The process that hosts a terminal.
fn host_of(home: &TempHome, id: &str) -> String {
    let told = run(home, &format!("inspect {id} --json")).exits(0).result();
    let host = told["session"]["hostPid"].as_u64().or(told["hostPid"].as_u64());
    host.unwrap_or_else(|| panic!("{told}")).to_string()
}

fn send_signal(signal: &str, pid: &str) {
    assert!(std::process::Command::new("kill").args([signal, pid]).status().unwrap().success());
}

#[test]
fn row_47_a_host_that_does_not_answer_holds_up_no_other_terminal() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "--allow type");
    let token = web.sign_in();
    let stuck = HostedUnderTest::create(&home, &["/bin/cat"]);
    let good = HostedUnderTest::create(&home, &["/bin/cat"]);
    let host = host_of(&home, &stuck.id);
    send_signal("-STOP", &host);
    let mut socket = web.open_socket(&token);
    let mut other = web.open_socket(&token);
    subscribe(&mut socket, &stuck.id);
    for ch in [2, 3] {
        socket.send(&json!({ "op": "sub", "ch": ch, "what": "terminal", "id": good.id }));
    }
    subscribe(&mut other, &good.id);
    // On the same socket and on another, before anything is known of the one that does not answer.
    let told = socket.hear_until("a frame", |told| told.get("ch").is_some());
    assert!(told.get("gen").is_some() && told["ch"] != 1, "{told}");
    let told = other.hear_until("a frame", |told| told.get("ch").is_some());
    assert!(told.get("gen").is_some(), "{told}");
    // What was asked of it before it was there counts once it is: here, that it is left.
    socket.send(&json!({ "op": "take", "ch": 1 }));
    socket.send(&json!({ "op": "unsub", "ch": 3 }));
    send_signal("-CONT", &host);
    let mut page = ShownPage::default();
    loop {
        match socket.hear() {
            Heard::Json(frame) if frame["ch"] == 1 && frame.get("gen").is_some() => {
                page.apply(&frame);
                socket.send(&json!({ "op": "seen", "ch": 1, "gen": page.generation }));
                if page.writer == "you" {
                    break;
                }
            }
            Heard::Json(told) if told["ch"] == 1 && told.get("error").is_some() => {
                // It was given up before it went on: then it can be joined anew.
                subscribe(&mut socket, &stuck.id);
                socket.send(&json!({ "op": "take", "ch": 1 }));
            }
            Heard::Json(_) => {}
            end => panic!("{end:?} while waiting for the keyboard"),
        }
    }
}

#[test]
fn row_50_a_host_whose_program_was_replaced_is_watched_and_typed_into() {
    let home = TempHome::new();
    let old = home.write("bin/ostler", "");
    let here = env!("CARGO_BIN_EXE_ostler");
    std::fs::remove_file(&old).unwrap();
    if std::fs::hard_link(here, &old).is_err() {
        std::fs::copy(here, &old).unwrap();
    }
    let mut create = testkit::run::bare(old.to_str().unwrap(), &home);
    create.args(["create", "--json", "--cols", "60", "--rows", "10", "--", "/bin/cat"]);
    let made = ran(&mut create).exits(0).result();
    let hosted =
        HostedUnderTest { home: &home, id: made["sessionId"].as_str().unwrap().to_owned() };
    // An upgrade puts another file in its place.
    std::fs::remove_file(&old).unwrap();
    std::fs::write(&old, "another release").unwrap();
    let exe = std::fs::read_link(format!("/proc/{}/exe", host_of(&home, &hosted.id))).unwrap();
    assert!(exe.to_string_lossy().ends_with("bin/ostler (deleted)"), "{exe:?}");
    let web = WebUnderTest::start(&home, "--allow type");
    let token = web.sign_in();
    let mut socket = web.open_socket(&token);
    subscribe(&mut socket, &hosted.id);
    socket.send(&json!({ "op": "take", "ch": 1 }));
    let mut page = ShownPage::default();
    page.follow(&mut socket, "the keyboard", |page| page.writer == "you");
    socket.send(&json!({ "op": "text", "ch": 1, "n": 1, "text": "still here" }));
    page.follow(&mut socket, "what was typed", |page| page.text().contains("still here"));
}

#[test]
fn row_50_a_host_that_is_killed_is_told_and_the_tab_lives() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "");
    let token = web.sign_in();
    let doomed = HostedUnderTest::create(&home, &["/bin/cat"]);
    let other = HostedUnderTest::create(&home, &["/bin/sh", "-c", "echo still here; cat"]);
    let mut socket = web.open_socket(&token);
    subscribe(&mut socket, &doomed.id);
    let mut page = ShownPage::default();
    page.follow(&mut socket, "the first frame", |page| page.generation > 0);
    send_signal("-9", &host_of(&home, &doomed.id));
    page.follow(&mut socket, "its end", |page| page.over);
    subscribe(&mut socket, &other.id);
    let mut page = ShownPage::default();
    page.follow(&mut socket, "the other", |page| page.text().contains("still here"));
}

#[test]
fn row_45_typing_carries_by_and_who_did_what_is_an_event() {
    let home = TempHome::new();
    let web = WebUnderTest::start(&home, "--allow type");
    let token = web.sign_in();
    let hosted = HostedUnderTest::create(&home, &["/bin/cat"]);
    let mut socket = web.open_socket(&token);
    subscribe(&mut socket, &hosted.id);
    socket.send(&json!({ "op": "take", "ch": 1 }));
    let mut page = ShownPage::default();
    page.follow(&mut socket, "the keyboard", |page| page.writer == "you");
    socket.send(&json!({ "op": "text", "ch": 1, "n": 1, "text": "from the page" }));
    page.follow(&mut socket, "what was typed", |page| page.text().contains("from the page"));
    let path = format!("/v1/terminals/{}/type", hosted.id);
    let typed = web.call("POST", &path, &token, &json!({ "text": "by a call" }));
    assert_eq!(typed.status, 200, "{}", typed.text());
    run(&home, &format!("type {} nobody", hosted.id)).exits(0);
    let log = run(&home, &format!("inspect {} --json", hosted.id)).exits(0).result();
    let directory = home.join(format!(".local/state/ostler/sessions/{}", hosted.id));
    let log = std::fs::read_to_string(directory.join("events.jsonl"))
        .unwrap_or_else(|error| panic!("{error}: {log}"));
    let by = |text: &str| {
        let line = log.lines().find(|line| line.contains(text)).unwrap();
        serde_json::from_str::<Value>(line).unwrap()["payload"]["by"].clone()
    };
    assert_eq!(by("from the page"), "web:tab-1");
    assert_eq!(by("by a call"), "web:tab-1");
    assert_eq!(by("nobody"), Value::Null);
    // Events are written beside; the last of them is the call's.
    let events = loop {
        let events = run(&home, "events --json").exits(0).stdout;
        if events.contains("page.command") {
            break events;
        }
    };
    for kind in ["page.watched", "page.keyboard", "page.typed", "page.command"] {
        let line =
            events.lines().find(|line| line.contains(kind)).unwrap_or_else(|| panic!("{kind}"));
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["detail"]["by"], "web:tab-1", "{event}");
    }
    assert!(!events.contains("from the page"), "what was typed is in the log alone");
}
