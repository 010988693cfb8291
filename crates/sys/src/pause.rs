//! Pause points (fail points): named places where a test can hold a process still.
//!
//! A race is tested by stopping one side at a named point, letting the other run, and going on.
//! A test arms a point by making a file of its name in the directory that `OSTLER_PAUSE` names
//! (see `testkit::pause`). Release builds have no such points.

/// Stops here if a test has armed `name`, until it lets go.
pub fn pause_at(name: &str) {
    #[cfg(debug_assertions)]
    if let Some(directory) = std::env::var_os("OSTLER_PAUSE") {
        hold_until_released(std::path::Path::new(&directory), name);
    }
    #[cfg(not(debug_assertions))]
    let _ = name;
}

/// The file's change of name says that the point was reached, and to one process only.
#[cfg(debug_assertions)]
fn hold_until_released(directory: &std::path::Path, name: &str) {
    let reached = directory.join(format!("{name}.reached"));
    if std::fs::rename(directory.join(name), &reached).is_err() {
        return;
    }
    while reached.exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Breaks here if a test has armed `name`: with a panic if the file says so, else with an error.
///
/// # Panics
/// If a test has asked for it.
pub fn break_at(name: &str) -> std::io::Result<()> {
    #[cfg(debug_assertions)]
    if let Some(directory) = std::env::var_os("OSTLER_PAUSE") {
        let point = std::path::Path::new(&directory).join(name);
        if let Ok(how) = std::fs::read_to_string(&point) {
            assert!(how != "panic", "asked to panic at {name}");
            return Err(std::io::Error::other(format!("asked to break at {name}")));
        }
    }
    #[cfg(not(debug_assertions))]
    let _ = name;
    Ok(())
}
