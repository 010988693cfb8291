//! What is kept of a terminal: the files and the list of them belong together, whatever fails.

use std::path::Path;
use std::time::Duration;

use super::stage::{Name, Stage};

/// A session that has said something, and its artifacts' directory.
fn spoken(stage: &Stage) -> (String, std::path::PathBuf) {
    let id = stage.script("echo one; sleep 100");
    stage.ok(&["wait", &id, "--text", "one"]);
    let artifacts = stage.directory(&id).join("artifacts");
    (id, artifacts)
}

fn unfinished_in(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    names.filter(|name| name.ends_with(".tmp")).collect()
}

fn export<'a>(id: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["record", "export", id, "--format", "asciicast"], more].concat()
}

#[test]
fn an_export_that_cannot_be_listed_replaces_nothing() {
    let stage = Stage::new(Name::Ostler);
    let (id, artifacts) = spoken(&stage);
    let kept = stage.ok(&export(&id, &[]))["artifactPath"].as_str().unwrap().to_owned();
    let before = std::fs::read(&kept).unwrap();
    // The same events again, which is the same name.
    let lock = sys::lock::take_within(&artifacts.join(".lock"), Duration::ZERO).unwrap();
    let lock = lock.into_lock().unwrap();
    assert_eq!(stage.fails(&export(&id, &[])).1, "STORAGE_WRITE_ERROR");
    assert_eq!(std::fs::read(&kept).unwrap(), before, "what is listed is there");
    assert_eq!(unfinished_in(&artifacts), [""; 0]);
    drop(lock);
    assert_eq!(stage.ok(&["inspect", &id])["artifacts"]["health"], "healthy");
    stage.ok(&export(&id, &[]));
    assert_eq!(stage.ok(&["inspect", &id])["artifacts"]["total"], 1);
}

#[test]
fn where_the_list_is_damaged_files_stay_as_they_were() {
    for name in [Name::Ostler, Name::AgentTty] {
        let stage = Stage::new(name);
        let (id, artifacts) = spoken(&stage);
        let kept = stage.ok(&export(&id, &[]))["artifactPath"].as_str().unwrap().to_owned();
        stage.ok(&["screenshot", &id]);
        let out = stage.home.write("own.cast", "of the user");
        std::fs::write(artifacts.join("manifest.json"), "{").unwrap();
        let names = || {
            let names = std::fs::read_dir(&artifacts).unwrap().map(|one| one.unwrap().file_name());
            names.collect::<std::collections::BTreeSet<_>>()
        };
        let (before, content) = (names(), std::fs::read(&kept).unwrap());
        assert_eq!(stage.fails(&export(&id, &[])).1, "MANIFEST_VALIDATION_ERROR");
        let into_own = export(&id, &["--out", out.to_str().unwrap()]);
        assert_eq!(stage.fails(&into_own).1, "MANIFEST_VALIDATION_ERROR");
        assert_eq!(stage.fails(&["screenshot", &id]).1, "MANIFEST_VALIDATION_ERROR");
        // What is new goes, as nothing would ever find it again.
        assert_eq!(
            stage.fails(&["screenshot", &id, "--hide-cursor"]).1,
            "MANIFEST_VALIDATION_ERROR"
        );
        assert_eq!(names(), before, "{name:?}");
        assert_eq!(std::fs::read(&kept).unwrap(), content);
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "of the user");
        assert_eq!(unfinished_in(stage.home.path()), [""; 0]);
    }
}

#[test]
fn an_export_that_cannot_get_its_name_leaves_nothing_beside_it() {
    let stage = Stage::new(Name::Ostler);
    let (id, artifacts) = spoken(&stage);
    let kept = stage.ok(&export(&id, &[]))["artifactPath"].as_str().unwrap().to_owned();
    std::fs::remove_file(&kept).unwrap();
    std::fs::create_dir(&kept).unwrap();
    assert_eq!(stage.fails(&export(&id, &[])).1, "EXPORT_ERROR");
    assert_eq!(unfinished_in(&artifacts), [""; 0]);
}
