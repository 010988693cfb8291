//! A bounded, repeatable run over the saved seeds and mutations of them, on any toolchain. `cargo xtask
//! fuzz` asks the same questions for as long as one likes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use ostler_oracles::TARGETS;

/// A small generator of numbers that are always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % end.max(1)
    }
}

fn mutate(input: &[u8], others: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    const TELLING: &[&[u8]] =
        &[b"\0", b"\xff\xff\xff\xff", b"\n", b"\"", b"'", b"$(x)", b"-1", b"{", b"[[[[", b"\xc3"];
    let mut bytes = input.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len() + 1);
        match numbers.below(6) {
            0 => bytes.truncate(at),
            1 => bytes
                .splice(at..at, TELLING[numbers.below(TELLING.len())].iter().copied())
                .for_each(drop),
            2 if at < bytes.len() => bytes[at] ^= 1 << numbers.below(8),
            3 if at < bytes.len() => bytes[at] = u8::try_from(numbers.below(256)).unwrap(),
            4 => {
                let end = (at + numbers.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let other = &others[numbers.below(others.len())];
                let from = numbers.below(other.len() + 1);
                let end = (from + numbers.below(24)).min(other.len());
                bytes.splice(at..at, other[from..end].iter().copied()).for_each(drop);
            }
        }
    }
    bytes
}

fn fuzz() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz"))
}

/// The names of what is in a directory, without their endings.
fn names(directory: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(fuzz().join(directory)).unwrap();
    entries
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect()
}

fn replay(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let mut paths: Vec<_> = fs::read_dir(fuzz().join("seeds").join(name))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    paths.sort();
    let inputs: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(inputs.len() >= 4, "the seeds of {name} are there");
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for input in &inputs {
        (target.ask)(input);
        for _ in 0..target.mutations {
            (target.ask)(&mutate(input, &inputs, &mut numbers));
        }
    }
}

/// One test per target, so that they run beside each other; and the list of them.
macro_rules! replayed {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*
        const REPLAYED: &[&str] = &[$(stringify!($name)),*];
    };
}

replayed! { access_meta agent_env agent_protocol event_log fleet_records screen skim socket transcript }

#[test]
fn every_fuzz_target_is_built_seeded_and_replayed() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let built: BTreeSet<String> = manifest["bin"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bin| bin["name"].as_str().unwrap().to_owned())
        .collect();
    let asked = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    let replayed = REPLAYED.iter().map(|name| (*name).to_owned()).collect();
    for (what, names) in [
        ("fuzz/fuzz_targets", names("fuzz_targets")),
        ("fuzz/seeds", names("seeds")),
        ("the oracles", asked),
        ("this test", replayed),
    ] {
        assert_eq!(names, built, "{what}, against the programs of fuzz/Cargo.toml");
    }
}
