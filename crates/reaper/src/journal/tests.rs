use super::*;

fn begun(step: u32, path: &[u8]) -> BegunStep {
    BegunStep {
        step,
        action: JournalAction::Trash,
        path: JournalPath(OsString::from_vec(path.to_vec()).into()),
        kind: RemovableKind::Temporary,
        why: "because".to_owned(),
        bytes: 3,
        print: None,
        lock: None,
    }
}

#[test]
fn a_journal_is_read_as_it_was_written_whatever_a_path_is_made_of() {
    let home = tempfile::tempdir().unwrap();
    let at = Time::from_millis(7);
    let mut journal = Journal::open(home.path(), "r").unwrap();
    let (command, version) = ("gc".to_owned(), "1".to_owned());
    journal.append(&JournalLine::Run { receipt: "r".to_owned(), command, at, version }).unwrap();
    journal.append(&JournalLine::Begin(begun(0, b"/a/plain"))).unwrap();
    journal.append(&JournalLine::Begin(begun(1, b"/a/\xff\n\x01"))).unwrap();
    journal.append(&JournalLine::Done { step: 1 }).unwrap();
    let receipt = read_receipt(home.path(), "r").unwrap();
    assert_eq!((receipt.command.as_str(), receipt.at, receipt.ended), ("gc", at, false));
    assert_eq!(receipt.steps[0], JournalStep::new(begun(0, b"/a/plain")));
    assert_eq!(receipt.steps[1].begun, begun(1, b"/a/\xff\n\x01"));
    assert_eq!(receipt.steps[1].state, StepState::Done);
    assert!(receipt.steps[0].is_open(), "it is not known what became of it");
}

#[test]
fn a_torn_line_is_passed_over_and_the_next_one_is_whole() {
    let home = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(home.path(), "r").unwrap();
    journal.append(&JournalLine::Begin(begun(0, b"/a"))).unwrap();
    let path = receipt_directory(home.path(), "r").join("journal.jsonl");
    File::options().append(true).open(&path).unwrap().write_all(b"{\"line\":\"do").unwrap();
    let mut journal = Journal::open(home.path(), "r").unwrap();
    journal.append(&JournalLine::Done { step: 0 }).unwrap();
    let receipt = read_receipt(home.path(), "r").unwrap();
    assert_eq!((receipt.unreadable, &receipt.steps[0].state), (1, &StepState::Done));
}

#[test]
fn a_journal_is_settled_when_its_last_line_says_so_and_only_then() {
    let home = tempfile::tempdir().unwrap();
    let at = Time::from_millis(7);
    let mut journal = Journal::open(home.path(), "r").unwrap();
    let is_settled = || is_settled(home.path(), "r");
    assert!(!is_settled(), "nothing is written");
    let long = vec![b'x'; 9000];
    for (line, settled) in [
        (JournalLine::Begin(begun(0, b"/a")), false),
        (JournalLine::Copied { step: 0 }, false),
        (JournalLine::Done { step: 0 }, false),
        (JournalLine::End { at }, true),
        (JournalLine::Undone { step: 0, at }, true),
        (JournalLine::Emptied { at }, true),
        (JournalLine::Begin(begun(1, &long)), false),
        (JournalLine::Failed { step: 1, reason: "x".repeat(9000) }, false),
        (JournalLine::End { at }, true),
    ] {
        journal.append(&line).unwrap();
        assert_eq!(is_settled(), settled, "{line:?}");
    }
    journal.file.write_all(b"{\"line\":\"end").unwrap();
    assert!(!is_settled(), "somebody died while writing");
}

#[test]
fn receipts_are_found_by_their_beginning() {
    let home = tempfile::tempdir().unwrap();
    for name in ["abc", "abd", "x"] {
        Journal::open(home.path(), name).unwrap();
    }
    assert_eq!(find_receipt(home.path(), "x").unwrap(), "x");
    assert!(matches!(find_receipt(home.path(), "ab"), Err(CollectError::Ambiguous { .. })));
    assert!(matches!(find_receipt(home.path(), "q"), Err(CollectError::NoReceipt(_))));
    assert!(matches!(find_receipt(home.path(), ""), Err(CollectError::NoReceipt(_))));
}
