//! The log: exact bytes, numbers without gaps, and what happens to it when things go wrong.

#![allow(clippy::disallowed_methods, reason = "tests remove what they made")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::Write;
use std::path::Path;

use model::hosted::{LogFact, LogPayload};
use model::time::Time;
use ostler_host::log::{self, LogReader, LogWriter};
use screen::Personality;

const AT: Time = Time::from_millis(1_794_765_224_662);

fn outputs(directory: &Path) -> (Vec<Vec<u8>>, LogReader) {
    let mut reader = LogReader::open(directory).unwrap();
    let mut all = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let LogPayload::Output(bytes) = event.payload {
            all.push(bytes.to_vec());
        }
    }
    (all, reader)
}

fn write(directory: &Path, dialect: Personality, chunks: &[&[u8]]) {
    let mut writer = LogWriter::create(directory, dialect).unwrap();
    for chunk in chunks {
        writer.push_output(AT, chunk);
        writer.flush(AT);
    }
    writer.close(AT);
}

#[test]
fn invalid_utf8_and_binary_noise_are_byte_exact() {
    let directory = tempfile::tempdir().unwrap();
    let noise: Vec<u8> = (0..=255).collect();
    let chunks: [&[u8]; 4] =
        [b"plain \x1b[31m\"text\"\r\n", &noise, b"\xff\xfe", "日本".as_bytes()];
    write(directory.path(), Personality::Ostler, &chunks);
    let (read, reader) = outputs(directory.path());
    assert_eq!(read, chunks.map(<[u8]>::to_vec));
    assert!(reader.problems.is_empty() && reader.torn.is_none());
    let text = fs::read_to_string(directory.path().join(log::LOG_FILE)).unwrap();
    let raws: Vec<bool> = text.lines().map(|line| line.contains("\"raw\":")).collect();
    assert_eq!(raws, [false, true, true, false], "only where text is not enough");
}

#[test]
fn lines_are_as_agent_tty_writes_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::create(directory.path(), Personality::AgentTty).unwrap();
    writer.push_output(AT, b"a\xffb");
    writer.push(
        AT,
        &LogFact::InputRun { command: "ls".into(), no_wait: true, marker: None, by: None },
    );
    writer.push(
        AT,
        &LogFact::RunComplete { marker: "m".into(), input_run_seq: Some(1), exit_code: Some(0) },
    );
    writer.push(AT, &LogFact::Exit { exit_code: Some(0), exit_signal: None });
    writer.close(AT);
    let text = fs::read_to_string(directory.path().join(log::LOG_FILE)).unwrap();
    let ts = "\"ts\":\"2026-11-15T17:53:44.662Z\"";
    let expected = [
        format!("{{\"seq\":0,{ts},\"type\":\"output\",\"payload\":{{\"data\":\"a\u{fffd}b\"}}}}"),
        format!(
            "{{\"seq\":1,{ts},\"type\":\"input_run\",\"payload\":{{\"command\":\"ls\",\"noWait\":true}}}}"
        ),
        format!(
            "{{\"seq\":2,{ts},\"type\":\"run_complete\",\"payload\":{{\"inputRunSeq\":1,\"marker\":\"m\"}}}}"
        ),
        format!(
            "{{\"seq\":3,{ts},\"type\":\"exit\",\"payload\":{{\"exitCode\":0,\"exitSignal\":null}}}}"
        ),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_torn_tail_is_told_and_repaired() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), Personality::Ostler, &[b"one", b"two"]);
    let path = directory.path().join(log::LOG_FILE);
    let whole = fs::metadata(&path).unwrap().len();
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"seq\":2,\"ts\":\"2026").unwrap();
    let (read, reader) = outputs(directory.path());
    assert_eq!(read, [b"one", b"two"]);
    assert_eq!(reader.torn, Some(19));
    assert_eq!(log::repair_log(directory.path()).unwrap(), Some(19));
    assert_eq!(fs::metadata(&path).unwrap().len(), whole);
    assert_eq!(log::repair_log(directory.path()).unwrap(), None);
}

#[test]
fn a_bad_line_in_the_middle_is_named_with_its_place_and_skipped() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), Personality::Ostler, &[b"one", b"two", b"three"]);
    let path = directory.path().join(log::LOG_FILE);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&path, format!("{}\n{{oh no\n{}\n", lines[0], lines[2])).unwrap();
    let (read, reader) = outputs(directory.path());
    assert_eq!(read, [b"one".to_vec(), b"three".to_vec()]);
    assert_eq!(reader.problems.len(), 1);
    assert_eq!(reader.problems[0].offset, lines[0].len() as u64 + 1);
}

#[test]
fn a_missing_line_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), Personality::Ostler, &[b"one", b"two", b"three"]);
    let path = directory.path().join(log::LOG_FILE);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&path, format!("{}\n{}\n", lines[0], lines[2])).unwrap();
    let (_, reader) = outputs(directory.path());
    assert_eq!(reader.problems[0].reason, "event 2 where 1 was expected");
}

#[test]
fn after_the_greatest_number_any_number_may_come() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), Personality::Ostler, &[b"one"]);
    let path = directory.path().join(log::LOG_FILE);
    let line = fs::read_to_string(&path).unwrap();
    let last = line.replacen("\"seq\":0", &format!("\"seq\":{}", u64::MAX), 1);
    fs::write(&path, format!("{last}{{oh no\n{line}")).unwrap();
    let (read, reader) = outputs(directory.path());
    assert_eq!(read, [b"one", b"one"]);
    assert_eq!(reader.problems.len(), 2, "the number, and the bad line: {:?}", reader.problems);
}

#[test]
fn a_line_that_is_being_written_is_read_once_it_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), Personality::Ostler, &[b"one"]);
    let path = directory.path().join(log::LOG_FILE);
    let line = fs::read_to_string(&path).unwrap().replacen("\"seq\":0", "\"seq\":1", 1);
    let mut reader = LogReader::open(directory.path()).unwrap();
    reader.next_event().unwrap().unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&line.as_bytes()[..20]).unwrap();
    assert!(reader.next_event().unwrap().is_none());
    file.write_all(&line.as_bytes()[20..]).unwrap();
    assert_eq!(reader.next_event().unwrap().unwrap().seq, 1);
    assert!(reader.problems.is_empty());
}

/// A log of lines that hold so many bytes of output each.
fn write_lines(directory: &Path, lengths: &[usize]) {
    let file = fs::File::create(directory.join(log::LOG_FILE)).unwrap();
    let mut file = std::io::BufWriter::new(file);
    for (seq, length) in lengths.iter().enumerate() {
        let data = "x".repeat(*length);
        writeln!(
            file,
            "{{\"seq\":{seq},\"ts\":\"2026-11-15T10:00:00.000Z\",\"type\":\"output\",\
             \"payload\":{{\"data\":\"{data}\"}}}}"
        )
        .unwrap();
    }
}

#[test]
fn lines_longer_than_what_is_read_at_once_are_whole() {
    let directory = tempfile::tempdir().unwrap();
    let lengths = [1, 100_000, 262_000, 262_144, 5, 3_000_000, 0, 131_072, 7];
    write_lines(directory.path(), &lengths);
    let (read, reader) = outputs(directory.path());
    assert_eq!(read.iter().map(Vec::len).collect::<Vec<_>>(), lengths);
    assert!(read.concat().iter().all(|byte| *byte == b'x'));
    assert!(reader.problems.is_empty() && reader.torn.is_none());
    assert_eq!(reader.offset(), fs::metadata(directory.path().join(log::LOG_FILE)).unwrap().len());
}

#[test]
fn a_line_that_is_too_long_is_named_and_skipped() {
    let directory = tempfile::tempdir().unwrap();
    write_lines(directory.path(), &[3, 70 << 20, 4]);
    let (read, reader) = outputs(directory.path());
    assert_eq!(read.iter().map(Vec::len).collect::<Vec<_>>(), [3, 4]);
    let problems: Vec<String> = reader.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, ["at byte 83: a line of 73400400 bytes, which is too long"]);
    assert_eq!(reader.offset(), fs::metadata(directory.path().join(log::LOG_FILE)).unwrap().len());
}

#[test]
fn the_chain_shows_a_log_that_was_changed() {
    let directory = tempfile::tempdir().unwrap();
    let block = vec![b'x'; 3 << 20];
    write(directory.path(), Personality::Ostler, &[&block, &block, &block, b"end"]);
    let (log, chain) =
        (directory.path().join(log::LOG_FILE), directory.path().join(log::CHAIN_FILE));
    let length = fs::metadata(&log).unwrap().len();
    let sound = log::verify_chain(&log, &chain).unwrap().unwrap();
    assert_eq!((sound.bytes, sound.broken), (length, None));
    let mut bytes = fs::read(&log).unwrap();
    bytes[7 << 20] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let changed = log::verify_chain(&log, &chain).unwrap().unwrap();
    assert!(changed.broken.unwrap().starts_with("link 2 does not fit"));
    bytes.truncate(1 << 20);
    fs::write(&log, &bytes).unwrap();
    let cut = log::verify_chain(&log, &chain).unwrap().unwrap();
    assert!(cut.broken.unwrap().contains("are gone"));
    fs::remove_file(&chain).unwrap();
    assert_eq!(log::verify_chain(&log, &chain).unwrap(), None);
}

#[test]
fn on_a_full_disk_the_log_pauses_and_the_gap_is_recorded() {
    let mount = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=256k", "ostler-test"])
        .arg(mount.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("skipped: a small file system cannot be mounted here");
        return;
    }
    let ballast = mount.path().join("ballast");
    fs::write(&ballast, vec![0; 100 << 10]).unwrap();
    let mut writer = LogWriter::create(mount.path(), Personality::Ostler).unwrap();
    let chunk = [b'x'; 10_000];
    let mut sent = 0u64;
    while writer.pause_report().is_none() {
        writer.push_output(AT, &chunk);
        writer.flush(AT);
        sent += 1;
        assert!(sent < 100, "256 KiB are never full");
    }
    let last = writer.last_seq();
    assert_eq!(writer.push_output(AT, &chunk), last.unwrap() + 1, "a lost event takes no number");
    fs::remove_file(&ballast).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    writer.flush(AT);
    assert_eq!(writer.pause_report(), None);
    writer.push_output(AT, b"after");
    writer.close(AT);

    let mut reader = LogReader::open(mount.path()).unwrap();
    let (mut whole, mut gap, mut count) = (0, None, 0);
    while let Some(event) = reader.next_event().unwrap() {
        assert_eq!(event.seq, count);
        count += 1;
        match event.payload {
            LogPayload::Output(b"after") => assert!(gap.is_some(), "the gap comes first"),
            LogPayload::Output(bytes) => whole += bytes.len() as u64,
            LogPayload::Fact(LogFact::Gap { bytes, events, .. }) => gap = Some((bytes, events)),
            other => panic!("{other:?}"),
        }
    }
    assert!(reader.problems.is_empty() && reader.torn.is_none(), "{:?}", reader.problems);
    assert_eq!(
        whole + gap.unwrap().0,
        (sent + 1) * chunk.len() as u64,
        "nothing is unaccounted for"
    );
    drop(reader);
    drop(writer);
    let unmounted = std::process::Command::new("umount").arg(mount.path()).status().unwrap();
    assert!(unmounted.success());
}

proptest::proptest! {
    #[test]
    fn garbage_between_events_never_panics_and_is_always_named(garbage: Vec<u8>) {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), Personality::Ostler, &[b"one", b"two"]);
        let path = directory.path().join(log::LOG_FILE);
        let text = fs::read(&path).unwrap();
        let middle = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let damaged = [&text[..middle], &garbage, b"\n", &text[middle..]].concat();
        fs::write(&path, damaged).unwrap();
        let (read, reader) = outputs(directory.path());
        proptest::prop_assert_eq!(read.first().map(Vec::as_slice), Some(&b"one"[..]));
        proptest::prop_assert_eq!(read.last().map(Vec::as_slice), Some(&b"two"[..]));
        proptest::prop_assert!(!reader.problems.is_empty());
    }
}
