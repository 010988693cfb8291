//! Work on all cores, where the work is many small looks at the system.

use std::thread;

/// Does something with each of many things, and gives what came of them in their order. A core is given
/// `fewest` of them or more: for fewer, a thread would cost more than it saves.
pub fn parallel_map<T: Sync, R: Send>(
    things: &[T],
    fewest: usize,
    each: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let share = things.len().div_ceil(cores).max(fewest.max(1));
    let (first, rest) = things.split_at(share.min(things.len()));
    let work = |things: &[T]| things.iter().map(&each).collect::<Vec<R>>();
    thread::scope(|threads| {
        let shares: Vec<_> = rest
            .chunks(share)
            .map(|share| (share, thread::Builder::new().spawn_scoped(threads, move || work(share))))
            .collect();
        let mut done = work(first);
        for (share, worker) in shares {
            done.extend(match worker {
                Ok(worker) => {
                    worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                }
                // Where there can be no more threads, this one does it.
                Err(_) => work(share),
            });
        }
        done
    })
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
}
