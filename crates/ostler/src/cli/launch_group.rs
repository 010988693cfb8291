//! `ostler launch --group`, `--matrix` and `--worktree`: several agents at once, each in a place of its own.
//!
//! Everything that can be refused is refused before anything is made; then places are taken in the store, worktrees are
//! made one after the other, and agents are started side by side. A slot that fails then is told, and the others go on.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use flows::control::launch::preview_launch;
use flows::groups::note_started;
use flows::observe::{Observation, ObserveScope};
use flows::terminal::source;
use flows::work::carry_out_work;
use flows::worktrees::{WorktreeError, WorktreePlan, plan_worktrees};
use flows::writer::{GroupOrder, Work, WorkDone};
use model::control::groups::{
    GroupLaunchResult, GroupMember, GroupSlotResult, SLOT_VARIABLE, SkippedInclude, SlotFailure,
    SlotState, check_label, usual_slot_name,
};
use model::control::wire::LaunchResult;
use model::wire::IncompleteSource;
use sys::dropped::NoteDropped;

use crate::cli::launch::{LaunchArgs, SlotStart, find_agent, print_launch, render_launch};
use crate::cli::launch_matrix::{GroupSlot, parse_matrix};
use crate::cli::{CliContext, ls};
use crate::error::{self, Error};
use crate::render::{output, text};

/// Agents that are started together.
#[derive(Debug, Args)]
pub(crate) struct GroupArgs {
    /// Start every agent that is named (`AGENT` or `AGENT:MODEL`) as a member of this group.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Take the group's agents from a TOML file; each gets a worktree.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["agent", "model", "name"])]
    matrix: Option<PathBuf>,
    /// Give each a git worktree and a branch of its own, `ostler/GROUP/SLOT` or `ostler/NAME`.
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true)]
    worktree: Option<Option<String>>,
    /// The commit that worktrees begin with [default: HEAD].
    #[arg(long, value_name = "REF")]
    base: Option<String>,
}

impl GroupArgs {
    /// Whether this is no launch of one agent where it is asked for.
    pub(crate) const fn is_asked(&self) -> bool {
        self.group.is_some() || self.matrix.is_some() || self.worktree.is_some()
    }
}

/// What is to be started, checked.
struct GroupIntent {
    group: Option<String>,
    slots: Vec<GroupSlot>,
    prompt: Option<String>,
    worktrees: Option<WorktreePlan>,
    members: Vec<GroupMember>,
}

/// Starts the agents of a group, or one agent in a worktree of its own.
pub(crate) fn launch_slots(launch: &LaunchArgs, context: &CliContext) -> Result<ExitCode, Error> {
    let before = context.observe_now(ObserveScope::All, &[])?;
    let intent = plan_group(launch, context)?;
    let previews = preview_slots(launch, context, &intent, &before)?;
    if launch.dry_run {
        return print_previews(context, &intent, previews);
    }
    order_members(context, GroupOrder::Reserve { members: intent.members.clone() })?;
    sys::pause::pause_at("group.reserved");
    let make = |member| match &intent.worktrees {
        Some(plan) => plan.make_worktree(member),
        None => Ok(Vec::new()),
    };
    let made: Vec<Result<Vec<SkippedInclude>, String>> = intent.members.iter().map(make).collect();
    sys::pause::pause_at("group.made");
    // All at once, however many cores there are: each waits for its agent.
    let slots: Vec<_> = made.iter().enumerate().collect();
    let started = sys::spread::parallel_map_with(
        &slots,
        slots.len(),
        || (),
        |(), (index, made)| start_member(launch, context, &intent, *index, made, &before),
    );
    let (started, untold): (Vec<_>, Vec<_>) = started.into_iter().unzip();
    let incomplete = untold.into_iter().flatten().collect();
    let results = made.into_iter().zip(started);
    let results = results.map(|(made, started)| SlotOutcome { made, started }).collect();
    print_outcomes(context, intent, results, incomplete)
}

/// What became of one slot.
struct SlotOutcome {
    made: Result<Vec<SkippedInclude>, String>,
    started: Option<Result<LaunchResult, Error>>,
}

/// Starts the agent of one member, and writes down what became of it; returns that, and what could not be written.
fn start_member(
    launch: &LaunchArgs,
    context: &CliContext,
    intent: &GroupIntent,
    index: usize,
    made: &Result<Vec<SkippedInclude>, String>,
    before: &Observation,
) -> (Option<Result<LaunchResult, Error>>, Option<IncompleteSource>) {
    let member = &intent.members[index];
    let mut now = member.clone();
    let outcome = match made {
        Err(reason) => {
            (now.state, now.reason) = (SlotState::Failed, Some(reason.clone()));
            None
        }
        Ok(_) => {
            let slot = intent.slot_start(launch, index);
            let started = launch.start_slot(context, &slot, intent.prompt.clone(), before);
            sys::pause::pause_at("group.started");
            let launched = match &started {
                Ok(result) => Some(result),
                Err(Error::Launch(result)) => Some(&**result),
                Err(_) => None,
            };
            let hosted = launched.and_then(|result| {
                let terminals = context.terminals_home().ok_or_note("the terminals of a group")?;
                terminals
                    .open_session(result.terminal.as_deref()?)
                    .ok_or_note("the terminal of a group's agent")
            });
            if let Some(hosted) = hosted {
                now = note_started(&now, &hosted);
                now.session = launched.and_then(|one| Some(one.session.as_ref()?.id.clone()));
            } else {
                now.state = SlotState::Failed;
            }
            now.reason = started.as_ref().err().map(ToString::to_string);
            Some(started.map(|result| intent.describe_place(index, result)))
        }
    };
    let noted = order_members(context, GroupOrder::Note { member: Box::new(now) });
    let untold = noted.err().map(|error| IncompleteSource {
        source: "launch groups".to_owned(),
        path: None,
        reason: error.to_string(),
    });
    (outcome, untold)
}

impl GroupIntent {
    fn slot_start(&self, launch: &LaunchArgs, index: usize) -> SlotStart {
        let (slot, member) = (&self.slots[index], &self.members[index]);
        let place = self.worktrees.as_ref().zip(member.worktree.as_ref());
        let usual_name = self.group.as_ref().map(|group| format!("{group}-{}", slot.slot));
        let one_name = launch.start.name.clone().filter(|_| self.slots.len() == 1);
        SlotStart {
            agent: slot.agent.clone(),
            model: slot.model.clone(),
            arguments: slot.arguments.iter().chain(&launch.arguments).cloned().collect(),
            cwd: place.map(|(plan, place)| plan.directory_in(place)).or_else(|| launch.cwd.clone()),
            name: one_name.or(usual_name),
            env: vec![format!("{SLOT_VARIABLE}={}", member.id)],
        }
    }

    fn describe_place(&self, index: usize, result: LaunchResult) -> LaunchResult {
        let member = &self.members[index];
        LaunchResult {
            group: member.group.clone(),
            slot: Some(member.slot.clone()),
            worktree: member.worktree.as_ref().map(|made| made.path.clone()),
            ..result
        }
    }
}

fn plan_group(launch: &LaunchArgs, context: &CliContext) -> Result<GroupIntent, Error> {
    let asked = &launch.grouping;
    let (slots, text, file, base) = match &asked.matrix {
        Some(path) => {
            let read = std::fs::read_to_string(path);
            let read = read.map_err(|error| Error::Read {
                path: path.display().to_string(),
                reason: error.to_string(),
            })?;
            let matrix = parse_matrix(path, &read)?;
            (matrix.slots, None, matrix.prompt_file, matrix.base)
        }
        None => {
            let (slots, text) = read_slots(launch)?;
            (slots, text, None, None)
        }
    };
    let prompt = match (&file, &launch.file) {
        (Some(_), Some(_)) => {
            return Err(Error::usage_error(
                "the matrix names a prompt, and so does `--file`",
                "leave one of them out",
            ));
        }
        (Some(file), None) => {
            Some(source::read_text("text", None, Some(file.as_path()), context.personality)?)
        }
        (None, _) => launch.read_prompt(context, text.as_deref())?,
    };
    let stem = asked.matrix.as_ref().and_then(|path| path.file_stem());
    let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
    let group = asked.group.clone().or(stem);
    for name in group.iter().chain(slots.iter().map(|one| &one.slot)) {
        check_label(name).map_err(|reason| {
            Error::usage_error(format!("`{name}`: {reason}"), "choose another name")
        })?;
    }
    let machine = context.machine()?;
    let directory = match &launch.cwd {
        Some(cwd) => PathBuf::from(cwd),
        None => context.current_dir(),
    };
    let base = asked.base.clone().or(base);
    let wants_worktrees = asked.worktree.is_some() || asked.matrix.is_some();
    let worktrees = match wants_worktrees {
        true => Some(plan_worktrees(&directory, base.as_deref())?),
        false => None,
    };
    let launcher = machine
        .identify_process(std::process::id())
        .map_err(|error| Error::Output(std::io::Error::other(error.to_string())))?;
    let mut members = Vec::new();
    for one in &slots {
        members.push(GroupMember {
            id: sys::random::new_ulid()?,
            group: group.clone(),
            slot: one.slot.clone(),
            agent: one.agent.clone(),
            model: one.model.clone(),
            worktree: worktrees
                .as_ref()
                .map(|plan| plan.place_slot(machine, group.as_deref(), &one.slot)),
            terminal: None,
            session: None,
            launcher: launcher.clone(),
            process: None,
            state: SlotState::Planned,
            reason: None,
            made_at: machine.now(),
        });
    }
    if let Some(plan) = &worktrees {
        let places: Vec<_> = members.iter().filter_map(|one| one.worktree.clone()).collect();
        plan.check_places(&places)?;
    }
    Ok(GroupIntent { group, slots, prompt, worktrees, members })
}

/// The slots that the command line names, and the prompt if one stands behind them.
fn read_slots(launch: &LaunchArgs) -> Result<(Vec<GroupSlot>, Option<String>), Error> {
    let mut words: Vec<&str> = launch.given_words().collect();
    let is_slot =
        |word: &&str| flows::agent_named(word.split(':').next().unwrap_or(word)).is_some();
    let text = match words.last() {
        // What is no agent is a prompt only if it cannot be meant as an agent.
        Some(last) if words.len() > 1 && !is_slot(last) && last.contains(char::is_whitespace) => {
            words.pop()
        }
        Some(&"-") if words.len() > 1 => words.pop(),
        _ => None,
    };
    if launch.grouping.group.is_none() && words.len() > 1 {
        return Err(Error::usage_error(
            "several agents are a group, and it has no name",
            "name it with `--group`; a prompt of one word goes in with `--file -`",
        ));
    }
    let mut slots: Vec<GroupSlot> = Vec::new();
    for word in &words {
        let (agent, model) = match word.split_once(':') {
            Some((agent, model)) => (agent, Some(model.to_owned())),
            None => (*word, launch.model.clone()),
        };
        let agent = find_agent(agent)?;
        let named =
            launch.grouping.worktree.clone().flatten().or_else(|| launch.start.name.clone());
        let usual = usual_slot_name(agent, model.as_deref());
        let slot = named.filter(|_| words.len() == 1).unwrap_or(usual);
        if slots.iter().any(|one| one.slot == slot) {
            return Err(Error::usage_error(
                format!("two slots are called `{slot}`"),
                "give them names in a file: `--matrix`",
            ));
        }
        slots.push(GroupSlot { slot, agent: agent.to_owned(), model, arguments: Vec::new() });
    }
    Ok((slots, text.map(str::to_owned)))
}

/// Checks every slot as if it were started in the directory that was asked from.
fn preview_slots(
    launch: &LaunchArgs,
    context: &CliContext,
    intent: &GroupIntent,
    before: &Observation,
) -> Result<Vec<LaunchResult>, Error> {
    let mut previews = Vec::new();
    for index in 0..intent.slots.len() {
        let slot = SlotStart { cwd: launch.cwd.clone(), ..intent.slot_start(launch, index) };
        let mut request = launch.slot_request(context, &slot, intent.prompt.clone())?;
        // A worktree of its own is empty.
        request.exclusive &= intent.worktrees.is_none();
        let preview = preview_launch(&request, context.machine()?, before)?;
        let mut preview = intent.describe_place(index, preview);
        if let Some(worktree) = &preview.worktree {
            preview.cwd.clone_from(worktree);
        }
        previews.push(preview);
    }
    Ok(previews)
}

fn order_members(context: &CliContext, order: GroupOrder) -> Result<Vec<GroupMember>, Error> {
    let work = Work::Group(Box::new(order));
    let done = carry_out_work(&work, &context.machine()?.next_turn(), &mut |_, _| {});
    match done.map_err(Error::Order)? {
        (WorkDone::Members(members), _) => Ok(members),
        _ => Err(error::unexpected_answer()),
    }
}

fn print_previews(
    context: &CliContext,
    intent: &GroupIntent,
    previews: Vec<LaunchResult>,
) -> Result<ExitCode, Error> {
    let Some(group) = &intent.group else {
        let only = previews.first().ok_or_else(error::unexpected_answer)?;
        return print_launch(context, only);
    };
    let slots = previews.into_iter().zip(&intent.members).map(|(preview, member)| {
        GroupSlotResult { launch: Some(Box::new(preview)), ..blank_slot(member) }
    });
    let result = GroupLaunchResult {
        group: group.clone(),
        base: intent.worktrees.as_ref().map(|plan| plan.base.clone()),
        uncommitted: intent.worktrees.as_ref().is_some_and(|plan| plan.uncommitted),
        slots: slots.collect(),
        dry_run: true,
        incomplete: Vec::new(),
    };
    print_group(context, &result)?;
    Ok(ExitCode::SUCCESS)
}

fn blank_slot(member: &GroupMember) -> GroupSlotResult {
    GroupSlotResult {
        slot: member.slot.clone(),
        agent: member.agent.clone(),
        worktree: member.worktree.as_ref().map(|made| made.path.clone()),
        branch: member.worktree.as_ref().map(|made| made.branch.clone()),
        launch: None,
        failure: None,
        skipped: Vec::new(),
    }
}

fn print_outcomes(
    context: &CliContext,
    intent: GroupIntent,
    outcomes: Vec<SlotOutcome>,
    incomplete: Vec<IncompleteSource>,
) -> Result<ExitCode, Error> {
    let Some(group) = intent.group.clone() else {
        return print_only(context, outcomes, incomplete);
    };
    let mut code = error::exit_code_for(&incomplete);
    let mut is_failed = false;
    let mut slots = Vec::new();
    for (index, (outcome, member)) in outcomes.into_iter().zip(&intent.members).enumerate() {
        let mut slot = blank_slot(member);
        let failure = match (outcome.made, outcome.started) {
            (Err(reason), _) => Some(worktree_failed(member, reason)),
            (Ok(skipped), started) => {
                slot.skipped = skipped;
                match started {
                    Some(Ok(result)) => {
                        slot.launch = Some(Box::new(result));
                        None
                    }
                    Some(Err(error)) => Some(error),
                    None => None,
                }
            }
        };
        if let Some(error) = failure {
            let body = error.to_body();
            slot.failure = Some(SlotFailure { code: body.code.to_owned(), message: body.message });
            // The first slot that failed says how the command ends.
            if !is_failed {
                (code, is_failed) = (error.exit_code(), true);
            }
            if let Error::Launch(result) = error {
                slot.launch = Some(Box::new(intent.describe_place(index, *result)));
            }
        }
        slots.push(slot);
    }
    let plan = intent.worktrees.as_ref();
    let result = GroupLaunchResult {
        group,
        base: plan.map(|plan| plan.base.clone()),
        uncommitted: plan.is_some_and(|plan| plan.uncommitted),
        slots,
        dry_run: false,
        incomplete,
    };
    print_group(context, &result)?;
    Ok(code)
}

/// One agent in a worktree of its own answers as any launch does.
fn print_only(
    context: &CliContext,
    outcomes: Vec<SlotOutcome>,
    incomplete: Vec<IncompleteSource>,
) -> Result<ExitCode, Error> {
    let only = outcomes.into_iter().next().ok_or_else(error::unexpected_answer)?;
    match only.made {
        Err(reason) => return Err(WorktreeError::Unreadable(reason).into()),
        Ok(skipped) => report_skipped(&skipped),
    }
    let started = only.started.ok_or_else(error::unexpected_answer)?;
    let mut result = started?;
    result.incomplete.extend(incomplete);
    print_launch(context, &result)
}

fn worktree_failed(member: &GroupMember, reason: String) -> Error {
    let path = member.worktree.as_ref().map_or("", |made| made.path.as_str());
    Error::Write { path: path.to_owned(), reason }
}

fn report_skipped(skipped: &[SkippedInclude]) {
    for one in skipped {
        let line = format!("`{}` was not copied: {}", one.path, one.reason);
        output::print_notice(&text::one_line(&line));
    }
}

fn print_group(context: &CliContext, result: &GroupLaunchResult) -> Result<(), Error> {
    if context.json {
        return context.print_json(result);
    }
    let mut page = String::new();
    for slot in &result.slots {
        page.push_str(&format!("{}/{}: ", result.group, slot.slot));
        match (&slot.launch, &slot.failure) {
            (_, Some(failure)) => page.push_str(&(text::one_line(&failure.message) + "\n")),
            (Some(launch), None) => page.push_str(&render_launch(launch)),
            (None, None) => page.push('\n'),
        }
        report_skipped(&slot.skipped);
    }
    output::print_text(&page)?;
    if result.uncommitted {
        output::print_notice("changes that are not committed are in no worktree");
    }
    ls::report_incomplete(&result.incomplete);
    Ok(())
}
