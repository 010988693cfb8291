//! What every adapter must stand: one battery over all of them.
//!
//! Each case damages one file in a home that an agent has worked in, looks, and asks three things:
//! does the damage become visible (a session that is told anyway, or a problem that names the
//! file), are all the other sessions what they were, and is every byte and time below the home
//! what it was. To add an adapter, add its line to the table of the bench.

#![expect(clippy::disallowed_methods, reason = "tests write, and run themselves as nobody")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bench;
mod observe;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench::{Bench, Shape, TABLE, each};
use model::sighting::{RegistrationProof, RegistrationScope, TranscriptDamage, TranscriptDigest};
use observe::{fixtures, observe};
use ostler_adapters::{ALL_ADAPTERS, TranscriptSource};
use testkit::home::{TempHome, lay_out_samples};

const ANY: &[Shape] = &[Shape::Lines, Shape::Document, Shape::Text, Shape::Database];
const JSON: &[Shape] = &[Shape::Lines, Shape::Document];
const FLAT: &[Shape] = &[Shape::Lines, Shape::Document, Shape::Text];

#[test]
fn every_adapter_has_one_line_and_every_id_is_unique() {
    for adapter in ALL_ADAPTERS {
        let id = adapter.agent_profile().id;
        assert_eq!(TABLE.iter().filter(|line| line.agent == id).count(), 1, "{id}");
        assert_eq!(
            ALL_ADAPTERS.iter().filter(|other| other.agent_profile().id == id).count(),
            1,
            "{id}"
        );
    }
}

/// An agent's name stands in its own module and in the list of adapters, and nowhere else in the product:
/// whoever adds one touches one existing file. OpenClaw has a crate of its own.
#[test]
fn adding_an_adapter_touches_one_existing_file() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut sources = Vec::new();
    for one in std::fs::read_dir(crates).unwrap().map(|one| one.unwrap()) {
        let others = ["adapters", "openclaw", "testkit", "oracles"];
        if !others.iter().any(|other| one.file_name() == *other) {
            collect_sources(&one.path().join("src"), &mut sources);
        }
    }
    assert!(sources.len() > 100, "{sources:?}");
    // A module of tests may have a file of its own, or a directory of them.
    let is_tests = |path: &Path| {
        path.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("tests"))
    };
    sources.retain(|path| !is_tests(path) && !path.parent().is_some_and(is_tests));
    for path in sources {
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        for adapter in ALL_ADAPTERS {
            let id = adapter.agent_profile().id;
            // The store has a table of that name.
            let is_table = id == "cursor" && path.ends_with("store/src/state/cursors.rs");
            let named = id != "openclaw" && !is_table && text.contains(&format!("\"{id}\""));
            assert!(!named, "{} knows {id}", path.display());
        }
    }
}

fn collect_sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
        let path = entry.path();
        if path.is_dir() {
            collect_sources(&path, found);
        } else if path.extension().is_some_and(|is| is == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

#[test]
fn all_agents_in_one_home() {
    let home = TempHome::new();
    lay_out_samples(&home, &fixtures(""));
    let tree = home.snapshot();
    for adapter in ALL_ADAPTERS {
        let bench = Bench::new(*adapter);
        let observed = observe(*adapter, &home, bench.line.variables);
        // More where a fixture has several versions.
        let (found, expected) = (observed.sessions.len(), bench.before.sessions.len());
        assert!(found >= expected, "{}: {found} of {expected}", bench.agent());
        assert!(observed.problems.is_empty(), "{}: {:?}", bench.agent(), observed.problems);
    }
    assert_eq!(tree.changes(&home.snapshot()), [""; 0]);
}

#[test]
fn empty_home() {
    for adapter in ALL_ADAPTERS {
        let bench = Bench::new(*adapter);
        let empty = TempHome::new();
        for _ in ["no directory of the agent", "an empty one"] {
            let tree = empty.snapshot();
            let observed = observe(*adapter, &empty, bench.line.variables);
            let nothing = observed.sessions.is_empty()
                && observed.registrations.is_empty()
                && observed.problems.is_empty();
            assert!(nothing, "{}: {observed:#?}", bench.agent());
            assert_eq!(tree.changes(&empty.snapshot()), [""; 0], "{}", bench.agent());
            empty.directory(bench.place());
        }
    }
}

#[test]
fn truncated_last_line() {
    each(ANY, |bench| {
        let bytes = bench.home.read(bench.victim());
        let lines = matches!(bench.line.shape, Shape::Lines | Shape::Text);
        let cut = if lines {
            let last = bytes.trim_ascii_end().iter().rposition(|byte| *byte == b'\n').unwrap();
            last + (bytes.len() - last) / 2
        } else {
            bytes.len() / 2
        };
        bench.home.write(bench.victim(), &bytes[..cut]);
        let observed = bench.look_unharmed(&bench.victim());
        bench.check_visible(&observed);
        if lines {
            for id in bench.victims() {
                let (was, is) = (bench.before.digest(id), observed.digest(id));
                assert_eq!(is.first_prompt, was.first_prompt, "{}", bench.agent());
                assert_eq!(is.cwd, was.cwd, "{}", bench.agent());
                assert_eq!(is.started_at, was.started_at, "{}", bench.agent());
            }
        }
    });
}

#[test]
fn line_of_20_mb() {
    each(FLAT, |bench| {
        let filler = vec![b'a'; 20 << 20];
        match bench.line.shape {
            Shape::Lines => bench.home.append(bench.victim(), long_line(&filler)),
            Shape::Document => insert_field(bench, &filler),
            _ => bench.home.append(bench.victim(), [&filler[..], b"\n"].concat()),
        }
        let observed = bench.look_unharmed(&bench.victim());
        bench.check_same(&observed, TranscriptDamage::default());
    });
}

#[test]
fn line_that_is_too_long_to_be_read() {
    each(FLAT, |bench| {
        let filler = vec![b'a'; 40 << 20];
        match bench.line.shape {
            Shape::Lines => bench.home.append(bench.victim(), long_line(&filler)),
            Shape::Document => insert_field(bench, &filler),
            _ => bench.home.append(bench.victim(), [&filler[..], b"\n"].concat()),
        }
        let observed = bench.look_unharmed(&bench.victim());
        bench.check_visible(&observed);
        if bench.line.shape != Shape::Document {
            bench.check_same(&observed, TranscriptDamage { broken: 0, oversized: 1 });
        }
    });
}

fn long_line(filler: &[u8]) -> Vec<u8> {
    [br#"{"type":"from-the-future","text":""#, filler, b"\"}\n"].concat()
}

/// Puts an unknown field of that text in front of the others.
fn insert_field(bench: &Bench, text: &[u8]) {
    let bytes = bench.home.read(bench.victim());
    let rest = bytes.strip_prefix(b"{").unwrap();
    let field = [br#"{"zzUnknown":""#, text, br#"","#, rest].concat();
    bench.home.write(bench.victim(), field);
}

#[test]
fn invalid_utf8() {
    each(FLAT, |bench| {
        let broken = [b"\xff", &bench.word().as_bytes()[1..]].concat();
        let bytes = bench.home.read(bench.victim());
        bench.home.write(bench.victim(), bench.marked(&bytes, &broken));
        let observed = bench.look_unharmed(&bench.victim());
        bench.check_visible(&observed);
        if bench.line.shape == Shape::Lines {
            let replaced = bench.victims().into_iter().any(|id| {
                let prompt = observed.digest(id).first_prompt.as_deref();
                prompt.is_some_and(|prompt| prompt.contains('\u{fffd}'))
            });
            assert!(replaced, "{}: {observed:#?}", bench.agent());
            bench.home.append(bench.victim(), b"\xff\xfe\xfd\n");
            let damaged = bench.look_unharmed(&bench.victim());
            for id in bench.victims() {
                assert_eq!(damaged.digest(id).damage.broken, 1, "{}", bench.agent());
                assert_eq!(damaged.digest(id).tokens, observed.digest(id).tokens);
            }
        }
    });
}

#[test]
fn unknown_records_and_fields() {
    const RECORD: &str = r#"{"type":"from-the-future","id":{"a":[1,{"b":null}]},"message":7,"timestamp":{},"payload":["}"],"data":"x","version":[]}"#;
    each(JSON, |bench| {
        let text = String::from_utf8(bench.home.read(bench.victim())).unwrap();
        let unknown = r#"{"zzUnknown":{"deep":["}",1,null,"\""]},"#;
        if bench.line.shape == Shape::Document {
            bench.home.write(bench.victim(), text.replacen('{', unknown, 1));
        } else {
            let lines = text.lines().map(|line| line.replacen('{', unknown, 1));
            let lines = lines.chain([RECORD.to_owned(), String::new()]);
            bench.home.write(bench.victim(), lines.collect::<Vec<_>>().join("\n"));
        }
        let observed = bench.look_unharmed(&bench.victim());
        bench.check_same(&observed, TranscriptDamage::default());
    });
    each(&[Shape::Database], |bench| {
        change_database(bench, |database| {
            let query = "select name from sqlite_master where type = 'table' and sql like 'create table%' and name not like 'sqlite_%'";
            let mut statement = database.prepare(query).unwrap();
            let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
            let names: Vec<_> = names.map(Result::unwrap).collect();
            for name in names {
                // Tables of an extension refuse, and are not read.
                let change = format!("alter table \"{name}\" add column zz_unknown text");
                let _ = database.execute_batch(&change);
            }
            database.execute_batch("create table zz_unknown (a)").unwrap();
        });
        let observed = bench.look_unharmed(&bench.victim());
        bench.check_same(&observed, TranscriptDamage::default());
    });
}

#[test]
fn future_version() {
    each(JSON, |bench| {
        let text = String::from_utf8(bench.home.read(bench.victim())).unwrap();
        let mut later = text.clone();
        for key in ["version", "schemaVersion", "v", "cli_version", "copilotVersion"] {
            later = replace_values(&later, key);
        }
        bench.home.write(bench.victim(), later);
        let observed = bench.look_unharmed(&bench.victim());
        bench.check_visible(&observed);
        for id in bench.victims() {
            if let Some((_, digest)) = observed.sessions.get(id) {
                let before = bench.before.digest(id).clone();
                let version = digest.version.clone();
                assert_eq!(*digest, TranscriptDigest { version, ..before }, "{}", bench.agent());
            }
        }
    });
    each(&[Shape::Database], |bench| {
        change_database(bench, |database| {
            database.pragma_update(None, "user_version", 99_999).unwrap();
        });
        let observed = bench.look_unharmed(&bench.victim());
        bench.check_visible(&observed);
    });
}

/// Replaces every number or text under `key` by one of a version far ahead.
fn replace_values(text: &str, key: &str) -> String {
    let quoted = format!("\"{key}\":");
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(&quoted) {
        let (before, after) = rest.split_at(at + quoted.len());
        out.push_str(before);
        let value = after.trim_start();
        let end = value.find([',', '}', '\n']).unwrap();
        out.push_str(if value.starts_with('"') { "\"999.0.0\"" } else { "999" });
        rest = &value[end..];
    }
    out + rest
}

fn change_database(bench: &Bench, change: impl Fn(&rusqlite::Connection)) {
    let database = bench.home.database(bench.victim());
    change(&database);
    database.close().unwrap();
}

#[test]
fn unreadable_file() {
    each(ANY, |bench| {
        // A link to itself cannot be opened by anyone.
        let path = bench.home.link(bench.victim(), bench.victim_path());
        let observed = bench.look_unharmed(&bench.victim());
        assert!(observed.names(&path), "{}: {:?}", bench.agent(), observed.problems);
    });
    if is_root() && !run_as_nobody("unreadable_file") {
        eprintln!("SKIPPED: root reads everything, and this test could not be run as nobody");
        return;
    }
    if !is_root() {
        each(ANY, |bench| {
            let path = bench.home.forbid(bench.victim());
            let observed = bench.look_unharmed(&bench.victim());
            assert!(observed.names(&path), "{}: {:?}", bench.agent(), observed.problems);
            let told = |id: &&str| observed.sessions.contains_key(*id);
            let victims = bench.victims();
            // A session may be known from elsewhere, but not by what its transcript says.
            for id in victims.iter().filter(|id| told(id)) {
                assert_eq!(observed.digest(id).turns, 0, "{}", bench.agent());
            }
        });
    }
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0
}

/// Runs one test of this file again as a user without rights. `false` if that is not possible
/// here (the checkout may be out of that user's reach); a failure of the test itself is one here.
fn run_as_nobody(test: &str) -> bool {
    use std::os::unix::process::CommandExt;

    const NOBODY: u32 = 65534;
    let as_nobody = |program: &Path, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).uid(NOBODY).gid(NOBODY).output()
    };
    let fixtures = fixtures("");
    let within_reach = as_nobody(Path::new("ls"), &[fixtures.to_str().unwrap()]);
    if !within_reach.is_ok_and(|output| output.status.success()) {
        return false;
    }
    let this = std::env::current_exe().unwrap();
    let Ok(output) = as_nobody(&this, &["--exact", test, "--nocapture"]) else {
        return false;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "as nobody:\n{said}\n{complained}");
    assert!(said.contains("1 passed"), "as nobody:\n{said}\n{complained}");
    true
}

const MARK: &str = "VICTIM-SECRET";

#[test]
fn symlink_out_of_the_root() {
    each(ANY, |bench| {
        let outside = TempHome::new();
        let bytes = bench.home.read(bench.victim());
        let marked = match bench.line.shape {
            Shape::Database => bytes,
            _ => bench.marked(&bytes, MARK.as_bytes()),
        };
        let target = outside.write("secret", marked);
        let path = bench.home.link(bench.victim(), &target);
        let observed = bench.look_unharmed(&bench.victim());
        assert!(observed.names(&path), "{}: {:?}", bench.agent(), observed.problems);
        assert!(!format!("{observed:?}").contains(MARK), "{}", bench.agent());
    });
}

#[test]
fn symlinked_directory_out_of_the_root() {
    each(ANY, |bench| {
        let directory = bench.victim().parent().unwrap().to_owned();
        if directory == bench.place() {
            return; // The root itself may be a link.
        }
        let outside = TempHome::new();
        std::fs::rename(bench.home.join(&directory), outside.join("away")).unwrap();
        if bench.line.shape != Shape::Database {
            let name = bench.victim().file_name().unwrap().to_owned();
            let below = Path::new("away").join(name);
            let bytes = outside.read(&below);
            outside.write(&below, bench.marked(&bytes, MARK.as_bytes()));
        }
        let path = bench.home.link(&directory, outside.join("away"));
        let observed = bench.look_unharmed(&directory);
        assert!(observed.names(&path), "{}: {:?}", bench.agent(), observed.problems);
        assert!(!format!("{observed:?}").contains(MARK), "{}", bench.agent());
        for id in bench.victims() {
            let told = observed.sessions.get(id);
            assert!(told.is_none_or(|(_, digest)| digest.turns == 0), "{}", bench.agent());
        }
    });
}

#[test]
fn fifo_in_the_directory() {
    each(ANY, |bench| {
        let path = bench.home.fifo(bench.victim());
        let observed = bench.look_unharmed(&bench.victim());
        assert!(observed.names(&path), "{}: {:?}", bench.agent(), observed.problems);
    });
}

#[test]
fn file_of_zero_bytes() {
    each(ANY, |bench| {
        let path = bench.home.write(bench.victim(), b"");
        let observed = bench.look_unharmed(&bench.victim());
        assert!(observed.names(&path), "{}: {:?}", bench.agent(), observed.problems);
        for id in bench.victims() {
            // Invented is what only the empty file could have said. Another file may tell of the
            // session, but then it shows that something is missing.
            let known_otherwise = |(source, digest): &(TranscriptSource, TranscriptDigest)| {
                let other = source.beside.iter().any(|(_, stamp)| stamp.bytes > 0);
                other && !digest.damage.is_none()
            };
            let told = observed.sessions.get(id);
            assert!(told.is_none_or(known_otherwise), "{}: {told:?}", bench.agent());
        }
    });
}

#[test]
fn file_growing_while_it_is_read() {
    each(FLAT, |bench| {
        let bytes = bench.home.read(bench.victim());
        let tree = bench.home.snapshot().without(&bench.victim());
        let stop = Arc::new(AtomicBool::new(false));
        let writer = {
            let (home, victim, stop) = (bench.home.clone(), bench.victim(), stop.clone());
            let shape = bench.line.shape;
            std::thread::spawn(move || {
                let start = bytes.trim_ascii_end().iter().rposition(|byte| *byte == b'\n');
                let last = &bytes[start.map_or(0, |start| start + 1)..];
                let (torn, rest) = last.split_at(last.len() / 2);
                for _ in 0..400 {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    if shape == Shape::Document {
                        // Rewritten in place, as some agents do: for a moment it is cut off.
                        overwrite(&home.join(&victim), &bytes);
                    } else {
                        home.append(&victim, torn);
                        home.append(&victim, rest);
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
            })
        };
        for _ in 0..10 {
            let observed = bench.look();
            bench.check_healthy(&observed, &bench.victim());
            bench.check_visible(&observed);
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        let changes = tree.changes(&bench.home.snapshot().without(&bench.victim()));
        assert!(changes.is_empty(), "{} changed the home: {changes:#?}", bench.agent());
        let observed = bench.look_unharmed(&bench.victim());
        for id in bench.victims() {
            let (was, is) = (bench.before.digest(id), observed.digest(id));
            assert_eq!(is.damage, TranscriptDamage::default(), "{}", bench.agent());
            assert_eq!((is.turns, &is.cwd), (was.turns, &was.cwd), "{}", bench.agent());
        }
    });
}

fn overwrite(path: &Path, bytes: &[u8]) {
    use std::io::Write;

    let mut file = std::fs::OpenOptions::new().write(true).truncate(true).open(path).unwrap();
    for part in bytes.chunks(bytes.len() / 3 + 1) {
        file.write_all(part).unwrap();
    }
}

/// A registration that cannot be read may be that of a living process.
#[test]
fn registration_that_cannot_be_read() {
    type Spoil = fn(&TempHome, &Path);
    let ways: [(&str, Spoil); 6] = [
        ("cut off", |home, file| {
            let bytes = home.read(file);
            home.write(file, &bytes[..bytes.len() / 2]);
        }),
        ("empty", |home, file| drop(home.write(file, b""))),
        ("huge", |home, file| drop(home.write(file, vec![b' '; 9 << 20]))),
        ("a FIFO", |home, file| drop(home.fifo(file))),
        ("a directory", |home, file| drop(home.directory(file))),
        ("a link out of the root", |home, file| drop(home.link(file, "/etc/passwd"))),
    ];
    for (way, spoil) in ways {
        each(ANY, |bench| {
            let Some((file, pid)) = bench.line.registration else {
                return;
            };
            let file = bench.place().join(file);
            spoil(&bench.home, &file);
            let observed = bench.look_unharmed(&file);
            let agent = bench.agent();
            assert!(observed.names(&bench.home.join(&file)), "{agent}, {way}: {observed:#?}");
            let warned = observed.registrations.iter().any(|registration| {
                let RegistrationProof::Process { identity, .. } = &registration.proof else {
                    return false;
                };
                registration.scope == RegistrationScope::Unreadable && identity.pid == Some(pid)
            });
            assert!(warned, "{agent}, {way}: {:?}", observed.registrations);
        });
    }
}
