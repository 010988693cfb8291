//! Nothing foreign is ever written: the whole home is the same after every command.

use super::cases::{Case, REGISTRY, Stages, is_documented};

fn check_cases(part: usize) {
    let mut stages = Stages::default();
    let mut unexpected = Vec::new();
    for entry in REGISTRY.leaves().enumerate().filter(|(at, _)| at % 3 == part).map(|(_, one)| one)
    {
        // These are run beside the daemon or another machine; they touch nothing but ostler's own.
        let is_here = |stage: &str| !["served", "afar"].contains(&stage);
        let examples = entry.examples.iter().filter(|one| is_here(&one.stage));
        let examples = examples.map(|example| Case {
            kind: "example".to_owned(),
            stage: example.stage.clone(),
            before: Vec::new(),
            line: example.line.clone(),
            harmless: false,
        });
        for case in entry.cases.iter().cloned().chain(examples) {
            if entry.effect == "writesFiles" && !case.harmless {
                continue;
            }
            // Things that go wrong must not be written to either.
            let broken = Case { stage: "broken".to_owned(), ..case.clone() };
            let worked = case.stage == "worked";
            for (case, as_meant) in [(Some(&case), true), (worked.then_some(&broken), false)] {
                let Some(case) = case else { continue };
                let outcome = stages.run(case, &case.line);
                let (line, code) = (&case.line, outcome.ran.code);
                // In a home with damage a case may come to anything that is documented.
                let expected = match as_meant {
                    true => case.may_end_with(&entry.name, code),
                    false => is_documented(code),
                };
                if !expected {
                    unexpected.push(format!("{line}: {code}, {}", outcome.stderr));
                }
                let changes = &outcome.foreign;
                assert!(changes.is_empty(), "after `ostler {line}`: {changes:#?}");
                let reads = entry.effect == "reads";
                assert!(!reads || outcome.own.is_empty(), "`ostler {line}`: {:#?}", outcome.own);
            }
        }
    }
    assert!(unexpected.is_empty(), "{unexpected:#?}");
}

#[test]
fn every_command_leaves_foreign_files_as_they_are_1() {
    check_cases(0);
}

#[test]
fn every_command_leaves_foreign_files_as_they_are_2() {
    check_cases(1);
}

#[test]
fn every_command_leaves_foreign_files_as_they_are_3() {
    check_cases(2);
}
