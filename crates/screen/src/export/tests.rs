use super::*;
use crate::Theme;

const HEADER: RecordingHeader<'_> = RecordingHeader {
    size: ScreenSize { cols: 12, rows: 3 },
    timestamp: 1_700_000_000,
    title: "a <title>",
    session_id: "01HX",
    term: "xterm-256color",
    tool_version: "0.1.0",
};

fn record(mut recorder: impl RecordingWriter) {
    let mut at = 0;
    let items = [
        RecordingEvent::Output(b"one\r\ntwo \xe6\xbc"),
        RecordingEvent::Output(b"\xa2\r\n"),
        RecordingEvent::Input("ls\n"),
        RecordingEvent::Output(b"\x1b[1;31mthree\x1b[0m bad \xff\r\n"),
        RecordingEvent::Marker("half <way>"),
        RecordingEvent::Resize(ScreenSize { cols: 20, rows: 2 }),
        RecordingEvent::Output(b"a line that is longer than the screen\r\n</script>"),
        RecordingEvent::Exit(3),
    ];
    for item in items {
        recorder.record(Duration::from_millis(at), item).unwrap();
        at += 250;
    }
    recorder.finish().unwrap();
}

fn text(make: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    make(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn asciicast_v2() {
    let cast = text(|out| record(CastV2::new(out, &HEADER).unwrap()));
    insta::assert_snapshot!(cast);
    let again = text(|out| record(CastV2::new(out, &HEADER).unwrap()));
    assert_eq!(cast, again);
}

#[test]
fn asciicast_v3() {
    insta::assert_snapshot!(text(|out| record(CastV3::new(out, &HEADER).unwrap())));
}

#[test]
fn txt() {
    insta::assert_snapshot!(text(|out| record(Txt::new(out, &HEADER))));
}

#[test]
fn html_is_one_page_that_loads_nothing() {
    let page = text(|out| record(Html::new(out, &HEADER, Theme::DARK).unwrap()));
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));
    assert_eq!(page.matches("</script>").count(), 2, "the recording cannot end the script");
    let (_, rest) = page.split_once("id=\"frames\">").unwrap();
    let (frames, _) = rest.split_once("</script>").unwrap();
    let _: serde_json::Value = serde_json::from_str(frames).unwrap();
    insta::assert_snapshot!(frames);
}

#[test]
fn txt_needs_no_memory_for_what_has_passed() {
    let mut out = io::sink();
    let mut txt = Txt::new(&mut out, &HEADER);
    for _ in 0..50 {
        txt.record(Duration::ZERO, RecordingEvent::Output(&b"line\r\n".repeat(10_000))).unwrap();
        assert!(txt.screen.scrollback(1).is_empty());
    }
}
