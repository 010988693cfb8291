//! Every row of the fleet's specification is a test that carries its number, or a bound of the benchmark that does.

use std::collections::BTreeSet;
use std::path::Path;

/// How many rows there are, and which of them `cargo xtask bench fleet` measures.
const ROWS: std::ops::RangeInclusive<u32> = 1..=80;
const BOUNDS: std::ops::RangeInclusive<u32> = 77..=80;

fn read_numbers(text: &str, mark: &str) -> BTreeSet<u32> {
    let digits = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
    text.split(mark).skip(1).filter_map(|rest| digits(rest).parse().ok()).collect()
}

fn read_sources(directory: &str) -> String {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let files = std::fs::read_dir(place).unwrap().map(|one| one.unwrap().path());
    let sources = files.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    sources.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn every_row_of_the_specification_has_a_test_that_runs() {
    let tests = read_sources("tests/net") + &read_sources("src");
    let mut found = read_numbers(&tests, "fn row_");
    found.extend(
        read_numbers(&read_sources("examples/fleet_load"), "\"row ")
            .into_iter()
            .filter(|row| BOUNDS.contains(row)),
    );
    let missing: Vec<u32> = ROWS.filter(|row| !found.contains(row)).collect();
    assert_eq!(missing, Vec::<u32>::new());
    assert!(!tests.contains(concat!("#[", "ignore")), "one that does not run shows nothing");
}
