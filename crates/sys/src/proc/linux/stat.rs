//! `/proc/<pid>/stat`, as a pure function on bytes.
//!
//! The name in the second field is chosen by the process and may hold parentheses, spaces and
//! newlines, so the fields are counted from the *last* `)`. Anything unexpected is an error, not
//! a guess.

use model::liveness::RunState;

/// The fields that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) comm: Vec<u8>,
    pub(super) state: u8,
    pub(super) ppid: u32,
    pub(super) threads: u32,
    pub(super) start: u64,
}

/// The line is not one that the kernel writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotAStat;

impl Stat {
    pub(super) fn run_state(&self) -> RunState {
        match self.state {
            b'T' => RunState::Stopped,
            b't' => RunState::Traced,
            b'Z' | b'X' | b'x' => RunState::Exited,
            _ => RunState::Running,
        }
    }
}

/// Reads one line.
pub(super) fn parse_stat(line: &[u8]) -> Result<Stat, NotAStat> {
    let open = line.iter().position(|&byte| byte == b'(').ok_or(NotAStat)?;
    let close = line.iter().rposition(|&byte| byte == b')').ok_or(NotAStat)?;
    let comm = line.get(open + 1..close).ok_or(NotAStat)?;
    // Fields 3 and up.
    let rest = line[close + 1..].strip_prefix(b" ").ok_or(NotAStat)?;
    let rest = std::str::from_utf8(rest).map_err(|_| NotAStat)?;
    let mut fields = rest.trim_end_matches('\n').split(' ');
    let state = match fields.next().map(str::as_bytes) {
        Some(&[letter]) if letter.is_ascii_alphabetic() => letter,
        _ => return Err(NotAStat),
    };
    let ppid = parse_number(fields.next())?;
    let threads = parse_number(fields.nth(15))?;
    let start = parse_number(fields.nth(1))?;
    Ok(Stat { comm: comm.to_vec(), state, ppid, threads, start })
}

fn parse_number<N: std::str::FromStr>(field: Option<&str>) -> Result<N, NotAStat> {
    field.and_then(|text| text.parse().ok()).ok_or(NotAStat)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REST: &str =
        "S 7 9 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 12345 67 8 18446744073709551615";

    fn line(comm: &[u8], rest: &str) -> Vec<u8> {
        [b"42 (".as_slice(), comm, b") ", rest.as_bytes(), b"\n"].concat()
    }

    #[test]
    fn a_plain_line() {
        let expected =
            Stat { comm: b"bash".to_vec(), state: b'S', ppid: 7, threads: 3, start: 12345 };
        assert_eq!(parse_stat(&line(b"bash", REST)), Ok(expected));
    }

    #[test]
    fn names_that_try_to_look_like_fields() {
        for comm in [
            b")".as_slice(),
            b"(",
            b"",
            b") R 1 1 1 (",
            b"a) Z 1\n",
            b"\n\n(x)\n) S",
            b"\xff\xfe) \x01",
            b"tmux: server",
        ] {
            let stat = parse_stat(&line(comm, REST)).unwrap();
            assert_eq!((stat.comm.as_slice(), stat.state, stat.start), (comm, b'S', 12345));
        }
    }

    #[test]
    fn missing_parentheses_are_an_error() {
        for text in ["", "42", "42 bash S 7", "42 (bash S 7", "42 bash) S 7", "42 )bash( S 7"] {
            assert_eq!(parse_stat(text.as_bytes()), Err(NotAStat), "{text}");
        }
    }

    #[test]
    fn too_few_fields_are_an_error() {
        let fields: Vec<&str> = REST.split(' ').collect();
        for kept in 0..fields.len() {
            let parsed = parse_stat(&line(b"bash", &fields[..kept].join(" ")));
            assert_eq!(parsed.is_ok(), kept >= 20, "{kept} fields");
        }
    }

    #[test]
    fn fields_that_are_no_numbers_are_an_error() {
        for (index, garbage) in [(0, "SS"), (0, "1"), (1, "-3"), (17, "x"), (19, ""), (19, "1.5")] {
            let mut fields: Vec<&str> = REST.split(' ').collect();
            fields[index] = garbage;
            let text = line(b"bash", &fields.join(" "));
            assert_eq!(parse_stat(&text), Err(NotAStat), "field {index} = {garbage:?}");
        }
        let huge = REST.replace("12345", "99999999999999999999999");
        assert_eq!(parse_stat(&line(b"bash", &huge)), Err(NotAStat), "too large for any clock");
    }

    #[test]
    fn states_that_make_a_difference() {
        for (letter, expected) in [
            ("R", RunState::Running),
            ("S", RunState::Running),
            ("D", RunState::Running),
            ("I", RunState::Running),
            ("T", RunState::Stopped),
            ("t", RunState::Traced),
            ("Z", RunState::Exited),
            ("X", RunState::Exited),
        ] {
            let rest = format!("{letter}{}", &REST[1..]);
            assert_eq!(parse_stat(&line(b"x", &rest)).unwrap().run_state(), expected, "{letter}");
        }
    }

    proptest! {
        #[test]
        fn any_name_leaves_the_fields_alone(
            comm in proptest::collection::vec(any::<u8>(), 0..64),
            ppid in any::<u32>(),
            threads in any::<u32>(),
            start in any::<u64>(),
        ) {
            let rest = format!("R {ppid} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 {threads} 0 {start} 0 0");
            let expected = Stat { comm: comm.clone(), state: b'R', ppid, threads, start };
            prop_assert_eq!(parse_stat(&line(&comm, &rest)), Ok(expected));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _ = parse_stat(&bytes);
        }

        #[test]
        fn a_cut_line_is_an_error_or_the_same_answer(cut in 0usize..100) {
            let whole = line(b"a) b", REST);
            let cut = cut.min(whole.len());
            if let Ok(stat) = parse_stat(&whole[..cut]) {
                prop_assert_eq!(stat.comm, b"a) b");
                prop_assert!(b"12345".starts_with(stat.start.to_string().as_bytes()));
            }
        }
    }
}
