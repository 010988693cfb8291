//! The parallel map: work on all cores, where the work is many looks at files and processes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many cores there are to work on.
pub fn count_cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does something with each of many things, and gives what came of them in their order. There is a worker
/// for each core, and for each `fewest` things: for fewer, a thread would cost more than it saves.
pub fn parallel_map<T: Sync, R: Send + Sync>(
    things: &[T],
    fewest: usize,
    each: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let workers = count_cores().min(things.len().div_ceil(fewest.max(1)));
    parallel_map_with(things, workers, || (), |(), thing| each(thing))
}

/// As [`parallel_map`], with so many workers, each of which has something of its own that `prepare` makes.
/// Each takes the next thing when it is done with one, so that a slow thing holds up no other.
pub fn parallel_map_with<T: Sync, R: Send + Sync, S>(
    things: &[T],
    workers: usize,
    prepare: impl Fn() -> S + Sync,
    each: impl Fn(&mut S, &T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<R>> = things.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        let mut own = prepare();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(thing) = things.get(index) else { return };
            // Each index is handed out once.
            let _ = results[index].set(each(&mut own, thing));
        }
    };
    thread::scope(|threads| {
        // Where there can be no more threads, those that are there do it.
        let others: Vec<_> = (1..workers.min(things.len()))
            .map_while(|_| thread::Builder::new().spawn_scoped(threads, work).ok())
            .collect();
        work();
        for other in others {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_done_once_and_told_in_order() {
        for count in [0, 1, 31, 32, 33, 64, 65, 1000] {
            let things: Vec<usize> = (0..count).collect();
            let doubled: Vec<usize> = things.iter().map(|thing| thing * 2).collect();
            assert_eq!(parallel_map(&things, 32, |thing| thing * 2), doubled, "{count}");
        }
    }

    #[test]
    #[should_panic(expected = "this one")]
    fn a_panic_is_not_lost() {
        let things: Vec<usize> = (0..100).collect();
        parallel_map(&things, 1, |thing| assert!(*thing != 99, "this one"));
    }

    #[test]
    fn every_worker_has_its_own_and_a_slow_thing_holds_up_no_other() {
        let prepared = AtomicUsize::new(0);
        let things: Vec<usize> = (0..100).collect();
        let counted = parallel_map_with(
            &things,
            3,
            || (prepared.fetch_add(1, Ordering::Relaxed), 0),
            |(_, done), thing| {
                *done += 1;
                (*thing, *done)
            },
        );
        assert_eq!(prepared.into_inner(), 3);
        assert!(counted.iter().map(|(thing, _)| thing).eq(&things));
        assert!(counted.iter().all(|(_, done)| (1..=100).contains(done)));
    }
}
