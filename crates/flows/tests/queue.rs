//! The daemon's queue: what was asked first is done first, and a failure is its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::failure::FailureKind;
use model::session::SessionName;
use ostler_flows::daemon::{Daemon, describe_daemon};
use ostler_flows::pins;
use ostler_flows::writer::{DaemonAnswer, DaemonOrder, Work, WorkDone};
use store::writer;
use testkit::machine::FakeMachine;

#[test]
fn row_67_patches_are_made_in_the_order_of_the_queue_and_one_failure_is_its_own() {
    let fake = FakeMachine::new();
    let machine = fake.machine();
    let home = machine.home();
    let writer = writer::become_writer(home, Duration::ZERO).unwrap();
    let about = describe_daemon(machine.runtime(), "test", machine.now());
    let (daemon, queue) = Daemon::new(writer, fake.machine(), about).unwrap();
    let answers = Arc::new(Mutex::new(Vec::new()));
    for number in 0..50 {
        let work = match number {
            30 => Work::Undo { receipt: Some("nothing".to_owned()), beside: false },
            // Each two patch the same row: the later note is the one that stays.
            _ => Work::Pin {
                sessions: vec![SessionName::new("codex", (number / 2).to_string())],
                note: Some(format!("note {number}")),
                remove: false,
            },
        };
        let answers = Arc::clone(&answers);
        let reply = move |answer| answers.lock().unwrap().push((number, answer));
        queue.put(DaemonOrder::Work(Box::new(work)), reply);
    }
    queue.put(DaemonOrder::Stop, |_| {});
    drop(daemon.run(&mut |problem| panic!("{problem}")).unwrap());
    let answers = answers.lock().unwrap();
    assert_eq!(answers.len(), 50);
    for (place, (number, answer)) in answers.iter().enumerate() {
        assert_eq!(place, *number, "answered in the order of the queue");
        match answer {
            DaemonAnswer::Done(done) => {
                let WorkDone::Pin(result) = &**done else { panic!("{done:?}") };
                assert_eq!(result.pins[0].note, Some(format!("note {number}")));
                assert!(result.pins[0].changed);
            }
            DaemonAnswer::NotDone(failure) => {
                assert_eq!((*number, failure.kind), (30, FailureKind::NotFound));
                assert!(failure.message.contains("nothing"), "{failure}");
            }
            other => panic!("{number}: {other:?}"),
        }
    }
    let mut notes: Vec<(usize, String)> = pins::list_pins(home)
        .unwrap()
        .pins
        .into_iter()
        .map(|pin| (pin.session.parse().unwrap(), pin.note.unwrap()))
        .collect();
    notes.sort_unstable();
    let last: Vec<(usize, String)> =
        (0..25).map(|row| (row, format!("note {}", row * 2 + 1))).collect();
    assert_eq!(notes, last);
}
