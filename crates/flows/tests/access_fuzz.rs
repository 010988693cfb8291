//! A bounded, repeatable run over the saved seeds and mutations of it, on any toolchain. The same
//! questions are asked without bounds by `cargo fuzz run agent_env corpus/agent_env seeds/agent_env`, `access_meta` and
//! `agent_protocol` in `fuzz/`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;

mod oracles;

/// How many mutations of each saved input are tried.
const MUTATIONS: usize = 3000;

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

fn run(target: &str, ask: fn(&[u8])) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut paths: Vec<_> = fs::read_dir(seeds).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    let inputs: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(inputs.len() >= 4, "the seeds of {target} are there");
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for input in &inputs {
        ask(input);
        for _ in 0..MUTATIONS {
            ask(&mutate(input, &inputs, &mut numbers));
        }
    }
}

#[test]
fn agent_env() {
    run("agent_env", oracles::agent_env);
}

#[test]
fn access_meta() {
    run("access_meta", oracles::access_meta);
}

#[test]
fn agent_protocol() {
    run("agent_protocol", oracles::agent_protocol);
}
