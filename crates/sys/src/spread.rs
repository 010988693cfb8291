//! Parallel map over a slice on all cores, for many small system calls.

use std::collections::BTreeMap;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

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

/// What a panic said, as far as that is text.
pub fn panic_text(payload: &(dyn std::any::Any + Send)) -> &str {
    let fixed = payload.downcast_ref::<&str>().copied();
    fixed.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason")
}

/// Work on many things under way on all cores. Its results come in the order of the things; dropping
/// it cancels what is left, and waits for nothing.
pub struct OrderedWork<R> {
    results: mpsc::Receiver<(usize, thread::Result<R>)>,
    early: BTreeMap<usize, thread::Result<R>>,
    next: usize,
    count: usize,
    cancelled: Arc<AtomicBool>,
}

/// What came of waiting for the next result.
#[derive(Debug)]
pub enum OrderedStep<R> {
    /// The next result.
    Done(R),
    /// It is not there yet.
    Pending,
    /// There are no more.
    Finished,
}

/// Begins to work on `count` things, the first ones first. `each` is told when it is no longer wanted.
pub fn start_ordered<R: Send + 'static>(
    count: usize,
    each: impl Fn(usize, &Arc<AtomicBool>) -> R + Send + Sync + 'static,
) -> io::Result<OrderedWork<R>> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (sender, results) = mpsc::channel();
    let cancelled = Arc::new(AtomicBool::new(false));
    let (each, next) = (Arc::new(each), Arc::new(AtomicUsize::new(0)));
    for started in 0..cores.min(count) {
        let (each, next, sender) = (each.clone(), next.clone(), sender.clone());
        let cancelled = cancelled.clone();
        let work = move || {
            while !cancelled.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return;
                }
                let done = panic::catch_unwind(AssertUnwindSafe(|| each(index, &cancelled)));
                if sender.send((index, done)).is_err() {
                    return;
                }
            }
        };
        match thread::Builder::new().spawn(work) {
            Ok(_) => {}
            // Fewer threads do it too, if there is one.
            Err(_) if started > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(OrderedWork { results, early: BTreeMap::new(), next: 0, count, cancelled })
}

impl<R> OrderedWork<R> {
    /// Waits for the next result, at most so long. A panic of the work goes on here.
    pub fn next_within(&mut self, wait: Duration) -> OrderedStep<R> {
        if self.next >= self.count {
            return OrderedStep::Finished;
        }
        let until = Instant::now() + wait;
        while !self.early.contains_key(&self.next) {
            let left = until.saturating_duration_since(Instant::now());
            match self.results.recv_timeout(left) {
                Ok((index, done)) => drop(self.early.insert(index, done)),
                Err(_) => return OrderedStep::Pending,
            }
        }
        match self.early.remove(&self.next) {
            Some(Ok(done)) => {
                self.next += 1;
                OrderedStep::Done(done)
            }
            Some(Err(panic)) => panic::resume_unwind(panic),
            None => OrderedStep::Pending,
        }
    }
}

impl<R> std::fmt::Debug for OrderedWork<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OrderedWork").field("next", &self.next).field("count", &self.count).finish()
    }
}

impl<R> Drop for OrderedWork<R> {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
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

    #[test]
    fn results_come_in_order_and_a_drop_cancels() {
        let mut work = start_ordered(100, |index, _| index * 2).unwrap();
        let mut got = Vec::new();
        loop {
            match work.next_within(Duration::from_secs(10)) {
                OrderedStep::Done(one) => got.push(one),
                OrderedStep::Pending => panic!("too slow"),
                OrderedStep::Finished => break,
            }
        }
        assert_eq!(got, (0..100).map(|index| index * 2).collect::<Vec<_>>());
        let (sender, seen) = mpsc::channel();
        let work = start_ordered(1, move |_, cancelled| {
            sender.send(()).unwrap();
            while !cancelled.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            sender.send(()).unwrap();
        });
        seen.recv_timeout(Duration::from_secs(10)).unwrap();
        drop(work);
        seen.recv_timeout(Duration::from_secs(10)).unwrap();
    }
}
