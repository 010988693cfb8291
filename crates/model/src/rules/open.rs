//! Who could have a session open: bipartite matching of runs with sessions.
//!
//! An agent that registers nothing can open any of its sessions from inside its own interface, and
//! then the files say nothing until the next prompt. So the question is asked from the process's
//! side: a *run* whose session nothing settles could have any of its candidates open. A session
//! that such a run could have open is never firmly over.

use std::time::Duration;

use crate::liveness::WallClock;
use crate::time::Time;

/// A process may write its first line a little before the start time that the table shows.
pub const START_SLACK: Duration = Duration::from_secs(2);

/// An agent may write a last line a little after it has reported the end.
pub const END_SLACK: Duration = Duration::from_secs(5);

/// A live process of an agent of which nothing says for certain which session it has open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnsettledRun {
    /// When it began; not known means that it may have written anything.
    pub began_at: Option<Time>,
    /// The session that its arguments, a hook, or a lock that it may have left behind name.
    pub named: Option<usize>,
    /// Whether a hook named it, which says as much as a record that the run wrote.
    pub is_told: bool,
}

impl UnsettledRun {
    /// The run as its hooks last told of it: it had that session open then. What was written before says no more about
    /// what it has open now, as if it had begun then with that session; but it may have opened another one since,
    /// without a word. Under a clock that was set the two times are of two clocks, and all of it counts.
    #[must_use]
    pub fn told_of(self, session: Option<usize>, at: Time, clock: &WallClock) -> Self {
        let began_at = match clock.was_never_set() {
            true => self.began_at.max(Some(at)),
            false => self.began_at,
        };
        Self { began_at, named: session, is_told: session.is_some() }
    }
}

/// A session that no process is proven to have open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenCandidate {
    /// Its own first record.
    pub started_at: Option<Time>,
    /// Its own last record. The time of a file that many sessions share says nothing.
    pub written_at: Option<Time>,
    /// Whether it holds a prompt. One that exists only because an interface was
    /// started gives way to one that is being written.
    pub prompted: bool,
    /// The end that was recorded, if one was.
    pub ended_at: Option<Time>,
}

/// What the unsettled runs mean for one session. Runs are named by their index, the likeliest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Attachment {
    /// Written since the runs began, and there is a run for each such session.
    Held(Vec<usize>),
    /// More sessions were written than there are runs: one of them may be this one's.
    MaybeOpen(Vec<usize>),
    /// Not written since, but these runs may have resumed it without a word.
    NotAttached(Vec<usize>),
    /// No unsettled run could have it open.
    #[default]
    NoRun,
}

/// A run that has no session so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpareRun {
    pub run: usize,
    /// Others, of which it may be one instead: there is a session for all but one of them.
    pub perhaps: Vec<usize>,
}

/// How runs and sessions go together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachments {
    /// For each candidate.
    pub sessions: Vec<Attachment>,
    /// Runs that are left over.
    pub spare: Vec<SpareRun>,
}

/// How strong the sign is that a session is open; a stronger one is given a run first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sign {
    Written,
    Named,
    StartedEmpty,
    /// An older session whose last record falls into the slack before the run began: as a rule it is the
    /// one that was left a moment before, and only a clock that is off makes it the run's.
    WrittenInSlack,
}

/// One session that shows a sign of being open, and the runs that it can belong to.
struct Contender {
    session: usize,
    sign: Sign,
    runs: Vec<usize>,
}

/// Matches runs with the sessions that `can_open` says they could have open.
pub fn attach_runs(
    runs: &[UnsettledRun],
    candidates: &[OpenCandidate],
    can_open: impl Fn(usize, usize) -> bool,
) -> Attachments {
    let mut sessions = vec![Attachment::NoRun; candidates.len()];
    let mut contenders = Vec::new();
    for (session, candidate) in candidates.iter().enumerate() {
        let able: Vec<usize> = (0..runs.len()).filter(|&run| can_open(run, session)).collect();
        if able.is_empty() {
            continue;
        }
        contenders.extend(find_contender(runs, candidate, session, &able));
        sessions[session] = Attachment::NotAttached(able);
    }
    let mut spare = Vec::new();
    for (members, contenders) in group_contenders(runs.len(), contenders) {
        seat_contenders(&members, contenders, &mut sessions, &mut spare);
    }
    spare.sort_by_key(|one| one.run);
    Attachments { sessions, spare }
}

/// Whether a session shows a sign of being open in one of the runs that are `able` to.
fn find_contender(
    runs: &[UnsettledRun],
    candidate: &OpenCandidate,
    session: usize,
    able: &[usize],
) -> Option<Contender> {
    let lives_on = candidate
        .ended_at
        .is_none_or(|ended| candidate.written_at.is_some_and(|at| at > ended.plus(END_SLACK)));
    let wrote = |run: &usize| match (runs[*run].began_at, candidate.written_at) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(began), Some(written)) => written >= began.minus(START_SLACK),
    };
    let names = |run: &usize| {
        let since = candidate.ended_at.is_none_or(|ended| runs[*run].began_at > Some(ended));
        runs[*run].named == Some(session) && since
    };
    let writers: Vec<usize> = able.iter().copied().filter(wrote).collect();
    // Its first record tells it from a session that this run began: an agent may round times down.
    let in_slack = |run: &usize| {
        runs[*run].began_at.is_some_and(|began| {
            candidate.written_at.is_some_and(|at| latest_of_stamp(at) < began)
                && candidate.started_at.is_some_and(|at| at < began.minus(START_SLACK))
        })
    };
    let was_left = !writers.is_empty() && writers.iter().all(in_slack);
    let is_written = lives_on && candidate.prompted && !writers.is_empty() && !was_left;
    let is_told = |run: &usize| runs[*run].is_told && names(run);
    if is_written || able.iter().any(is_told) {
        let signs = |run: &usize| is_told(run) || (is_written && wrote(run));
        let runs = able.iter().copied().filter(signs).collect();
        return Some(Contender { session, sign: Sign::Written, runs });
    }
    let namers: Vec<usize> = able.iter().copied().filter(names).collect();
    if !namers.is_empty() {
        return Some(Contender { session, sign: Sign::Named, runs: namers });
    }
    let sign = if was_left { Sign::WrittenInSlack } else { Sign::StartedEmpty };
    (lives_on && !writers.is_empty()).then_some(Contender { session, sign, runs: writers })
}

/// The latest moment that a record's time can stand for: some agents stamp whole seconds.
fn latest_of_stamp(at: Time) -> Time {
    match at.as_millis() % 1000 {
        0 => at.plus(Duration::from_millis(999)),
        _ => at,
    }
}

/// Runs that contend for the same sessions, each with those sessions.
fn group_contenders(runs: usize, contenders: Vec<Contender>) -> Vec<(Vec<usize>, Vec<Contender>)> {
    fn find_root(parents: &mut [usize], mut run: usize) -> usize {
        while parents[run] != run {
            parents[run] = parents[parents[run]];
            run = parents[run];
        }
        run
    }
    let mut parents: Vec<usize> = (0..runs).collect();
    for one in &contenders {
        let first = find_root(&mut parents, one.runs[0]);
        for &run in &one.runs[1..] {
            let other = find_root(&mut parents, run);
            parents[other] = first;
        }
    }
    let mut parts: Vec<(Vec<usize>, Vec<Contender>)> =
        (0..runs).map(|_| (Vec::new(), Vec::new())).collect();
    for run in 0..runs {
        let part = find_root(&mut parents, run);
        parts[part].0.push(run);
    }
    for one in contenders {
        let part = find_root(&mut parents, one.runs[0]);
        parts[part].1.push(one);
    }
    parts.retain(|(members, _)| !members.is_empty());
    parts
}

/// Gives each contender a run of its own, the strongest signs first. Where there are not enough runs
/// for all of one kind, it is unknown which of them is open.
fn seat_contenders(
    members: &[usize],
    mut contenders: Vec<Contender>,
    sessions: &mut [Attachment],
    spare: &mut Vec<SpareRun>,
) {
    contenders.sort_by_key(|one| one.sign);
    let mut seats: Vec<(usize, Option<usize>)> = members.iter().map(|&run| (run, None)).collect();
    let mut unclear = false;
    let mut from = 0;
    while from < contenders.len() {
        let sign = contenders[from].sign;
        let to = from + contenders[from..].iter().take_while(|one| one.sign == sign).count();
        let free = seats.iter().filter(|(_, held)| held.is_none()).count();
        let before = seats.clone();
        let all_seated = to - from <= free
            && (from..to).all(|one| take_seat(one, &contenders, &mut seats, &mut Vec::new()));
        if all_seated {
            from = to;
            continue;
        }
        seats = before;
        if free > 0 {
            for one in &contenders[from..to] {
                sessions[one.session] = Attachment::MaybeOpen(one.runs.clone());
            }
            // A weaker candidate may be open as well, unless it only exists: then it stays derived.
            let may_be = |one: &&Contender| one.sign != Sign::StartedEmpty;
            for one in contenders[to..].iter().filter(may_be) {
                sessions[one.session] = Attachment::MaybeOpen(one.runs.clone());
            }
            // Which run has none is not known either.
            unclear = true;
        }
        break;
    }
    for &(run, held) in &seats {
        match held.map(|one| &contenders[one]) {
            Some(one) => {
                let others = one.runs.iter().copied().filter(|&other| other != run);
                let likeliest_first = std::iter::once(run).chain(others).collect();
                sessions[one.session] = Attachment::Held(likeliest_first);
            }
            None if !unclear => {
                let shares = |run: usize| contenders.iter().any(|one| one.runs.contains(&run));
                let perhaps = members.iter().copied().filter(|&other| other != run && shares(run));
                spare.push(SpareRun { run, perhaps: perhaps.collect() });
            }
            None => {}
        }
    }
}

/// Finds a run for a contender, moving others to theirs if need be (an augmenting path).
fn take_seat(
    one: usize,
    contenders: &[Contender],
    seats: &mut [(usize, Option<usize>)],
    tried: &mut Vec<usize>,
) -> bool {
    // The latest run can have written the fewest sessions.
    for &run in contenders[one].runs.iter().rev() {
        if tried.contains(&run) {
            continue;
        }
        tried.push(run);
        let Some(seat) = seats.iter().position(|(member, _)| *member == run) else { continue };
        let sitting = seats[seat].1;
        if sitting.is_none_or(|sitting| take_seat(sitting, contenders, seats, tried)) {
            seats[seat].1 = Some(one);
            return true;
        }
    }
    false
}
