//! What looking costs: `cargo run --release -p ostler-sys --example cost [processes]`.
//! Budgets: a probe 15 µs, an owner walk 80 µs, a table of 500 processes a few milliseconds.

#![allow(clippy::print_stdout, reason = "its output is the measurement")]

use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use model::identity::Identity;
use ostler_sys::{owner, proc};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let processes: usize = std::env::args().nth(1).map_or(Ok(500), |count| count.parse())?;
    let mut crowd = (0..processes)
        .map(|_| Command::new("sleep").arg("600").stdin(Stdio::null()).spawn())
        .collect::<Result<Vec<Child>, _>>()?;
    let measured = measure();
    for child in &mut crowd {
        child.kill()?;
        child.wait()?;
    }
    measured
}

fn measure() -> Result<(), Failure> {
    let observer = proc::current_observer();
    let identity = proc::identify_self()?;
    let pid = std::process::id();
    let gone = Identity { pid: Some(observer.pid_max), ..identity.clone() };
    let parent = std::os::unix::process::parent_id();

    println!("{:<24}      best    median", "");
    report("observer", 1000, proc::current_observer);
    report("probe, alive", 10_000, || proc::probe_liveness(&identity, &observer));
    report("probe, gone", 10_000, || proc::probe_liveness(&gone, &observer));
    report("identify", 10_000, || proc::identify_as(pid, &observer));
    report("owner walk, one step", 1000, || owner::capture_as(&[], &[parent], &observer));
    report("owner walk, to the top", 1000, || owner::capture_as(&[], &[], &observer));
    report("table", 100, proc::read_process_table);
    report("table and appearances", 50, || {
        let table = proc::read_process_table();
        table.rows().iter().filter_map(|row| table.appearance(row.pid)).count()
    });

    let table = proc::read_process_table();
    let above = std::iter::successors(Some(pid), |&pid| table.get(pid).map(|row| row.ppid));
    println!("{} ancestors, {} processes", above.count() - 2, table.rows().len());
    Ok(())
}

fn report<T>(what: &str, times: usize, act: impl Fn() -> T) {
    let mut taken: Vec<Duration> = (0..times)
        .map(|_| {
            let begun = Instant::now();
            black_box(act());
            begun.elapsed()
        })
        .collect();
    taken.sort_unstable();
    let micros = |index: usize| taken[index].as_secs_f64() * 1e6;
    println!("{what:<24} {:>9.1} {:>9.1} µs", micros(0), micros(times / 2));
}
