//! What a page puts together from frames is what is on the screen, for every recorded stream, cut anywhere, seen
//! late or never.

use std::path::Path;
use std::sync::Arc;

use flows::terminal::screen::runs::RunPainter;
use flows::terminal::screen::{Screen, ScreenSize, Theme};
use proptest::prelude::*;
use serde_json::Value;
use tokio::sync::mpsc;

use super::terminal_channel::TerminalChannel;
use super::terminals::TerminalFeed;

/// Rows of runs as a page has them: text, CSS, whether wide.
#[derive(Default)]
struct PageRows {
    styles: Vec<String>,
    rows: Vec<Vec<(String, String, bool)>>,
    cursor: Value,
    generation: u64,
    bytes: usize,
}

impl PageRows {
    fn apply(&mut self, frame: &str) {
        self.bytes += frame.len();
        let frame: Value = serde_json::from_str(frame).unwrap();
        self.generation = frame["gen"].as_u64().unwrap();
        if frame["whole"] == true {
            self.styles.clear();
            let rows = frame["size"][1].as_u64().unwrap();
            self.rows = vec![Vec::new(); usize::try_from(rows).unwrap()];
        }
        for style in frame["styles"].as_array().into_iter().flatten() {
            self.styles.push(style.as_str().unwrap().to_owned());
        }
        for row in frame["rows"].as_array().into_iter().flatten() {
            let at = usize::try_from(row[0].as_u64().unwrap()).unwrap();
            self.rows[at] = row[1].as_array().unwrap().iter().map(|run| self.run(run)).collect();
        }
        if let Some(cursor) = frame.get("cursor") {
            self.cursor = cursor.clone();
        }
    }

    fn run(&self, run: &Value) -> (String, String, bool) {
        let style = usize::try_from(run[1].as_u64().unwrap()).unwrap();
        (run[0].as_str().unwrap().to_owned(), self.styles[style].clone(), run[2] == 1)
    }
}

/// The same of a screen, painted anew.
fn painted(screen: &Screen) -> Vec<Vec<(String, String, bool)>> {
    let mut styles = Vec::new();
    let rows = RunPainter::new(Theme::DARK).paint_rows(screen, &mut styles);
    let rows = serde_json::to_value(rows).unwrap();
    let page = PageRows { styles, ..PageRows::default() };
    let runs = |row: &Value| row.as_array().unwrap().iter().map(|run| page.run(run)).collect();
    rows.as_array().unwrap().iter().map(runs).collect()
}

fn recorded_streams() -> Vec<(ScreenSize, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../screen/fixtures");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let streams = paths.iter().filter_map(|path| {
        let (cols, rows) = path.extension()?.to_str()?.split_once('x')?;
        let size = ScreenSize { cols: cols.parse().ok()?, rows: rows.parse().ok()? };
        Some((size, std::fs::read(path).unwrap()))
    });
    streams.collect()
}

/// What happens between two parts of a stream.
#[derive(Clone, Copy, Debug)]
struct Cut {
    bytes: usize,
    is_sent: bool,
    is_seen: bool,
    resize: Option<(u16, u16)>,
}

fn cuts() -> impl Strategy<Value = Vec<Cut>> {
    let size = prop::option::weighted(0.05, (1_u16..140, 1_u16..50));
    let cut = (1_usize..3000, any::<bool>(), any::<bool>(), size);
    let cut =
        cut.prop_map(|(bytes, is_sent, is_seen, resize)| Cut { bytes, is_sent, is_seen, resize });
    prop::collection::vec(cut, 1..40)
}

fn play_stream(size: ScreenSize, bytes: &[u8], cuts: &[Cut]) {
    let feed = TerminalFeed::without_host(size).unwrap();
    let (wake, _woken) = mpsc::channel(64);
    let mut channel = TerminalChannel::of_feed(Arc::clone(&feed), "test".to_owned(), 1, wake);
    let mut page = PageRows::default();
    let mut rest = bytes;
    let mut steps = cuts.iter().cycle();
    while !rest.is_empty() {
        let cut = steps.next().unwrap();
        let (part, left) = rest.split_at(cut.bytes.min(rest.len()));
        rest = left;
        {
            let mut shown = feed.lock();
            drop(shown.screen.advance(part));
            if let Some((cols, rows)) = cut.resize {
                drop(shown.screen.resize(ScreenSize { cols, rows }));
            }
        }
        if cut.is_sent
            && let Some(frame) = channel.next_frame()
        {
            page.apply(&frame);
            // While it is unseen there is no other.
            assert!(channel.next_frame().is_none());
        }
        if cut.is_seen {
            channel.note_seen(page.generation);
        }
    }
    feed.lock().screen.release_frame();
    channel.note_seen(page.generation);
    if let Some(frame) = channel.next_frame() {
        page.apply(&frame);
    }
    let shown = feed.lock();
    assert_eq!(page.rows, painted(&shown.screen));
    let cursor = shown.screen.cursor();
    let place = if cursor.visible { vec![cursor.row, cursor.col] } else { Vec::new() };
    assert_eq!(page.cursor, serde_json::json!(place));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn row_46_whole_and_changes_are_the_screen(cuts in cuts(), first in 0_usize..8) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _entered = runtime.enter();
        // Every stream is played by some case; each case plays an eighth of them.
        for (size, bytes) in recorded_streams().into_iter().skip(first).step_by(8) {
            play_stream(size, &bytes, &cuts);
        }
    }
}

#[test]
fn row_48_an_answer_to_a_frame_that_was_never_sent_counts_as_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    let feed = TerminalFeed::without_host(ScreenSize { cols: 20, rows: 4 }).unwrap();
    let (wake, _woken) = mpsc::channel(4);
    let mut channel = TerminalChannel::of_feed(Arc::clone(&feed), "test".to_owned(), 1, wake);
    let mut page = PageRows::default();
    channel.note_seen(99);
    page.apply(&channel.next_frame().unwrap());
    drop(feed.lock().screen.advance(b"one"));
    assert!(channel.next_frame().is_none(), "the first frame is unseen");
    // Seen twice is seen once; what was lost is asked for by nobody, because the next frame has it all.
    for _ in 0..2 {
        channel.note_seen(1);
    }
    page.apply(&channel.next_frame().unwrap());
    drop(feed.lock().screen.advance(b" two"));
    channel.note_seen(1);
    assert!(channel.next_frame().is_none(), "the second frame is unseen");
    channel.note_seen(2);
    page.apply(&channel.next_frame().unwrap());
    assert_eq!(page.rows[0][0].0, "one two");
}

#[test]
fn row_52_a_flood_that_is_seen_sixty_times_a_second_is_under_a_hundredth_of_its_bytes() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    let feed = TerminalFeed::without_host(ScreenSize { cols: 80, rows: 24 }).unwrap();
    let (wake, _woken) = mpsc::channel(4);
    let mut channel = TerminalChannel::of_feed(Arc::clone(&feed), "test".to_owned(), 1, wake);
    let mut page = PageRows::default();
    let mut written = 0;
    // A program that writes 20 MB a second has written a third of a megabyte when the page draws again.
    for frame in 0..12_u32 {
        let line = format!("{frame:08} {}\r\n", "the quick brown fox ".repeat(3));
        let part = line.repeat(333_000 / line.len());
        written += part.len();
        drop(feed.lock().screen.advance(part.as_bytes()));
        while let Some(frame) = channel.next_frame() {
            page.apply(&frame);
        }
        channel.note_seen(page.generation);
    }
    assert!(page.bytes * 100 <= written, "{} of {written}", page.bytes);
}
