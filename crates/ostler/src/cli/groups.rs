//! `ostler groups`

use std::process::ExitCode;

use clap::Args;
use flows::groups::{judge_member, list_members, view_member};
use model::control::groups::{GroupMember, GroupMemberView, GroupsResult};
use store::state::MemberScope;

use crate::cli::{CliContext, complete};
use crate::error::Error;
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Drive, 9),
    answers: &[answer::<::model::control::groups::GroupsResult>()],
    examples: &[example("groups", "Every agent that was launched in a group, and its worktree.")],
    cases: &[
        empty("groups"),
        usual("groups").on(Grouped),
        refused("groups nobody"),
        also("groups")
    ],
    uncased: &[ONE_FILE],
    ..entry!("groups", GroupsArgs, run_groups)
}];

/// List what was launched in groups, with the worktree and the branch of each.
///
/// A worktree stays here for as long as it is there, whether its agent runs or not. `ostler ls --group` shows the
/// sessions, `ostler stop --group` ends them, `ostler gc --include worktrees` takes away what could not be lost.
#[derive(Debug, Args)]
pub(crate) struct GroupsArgs {
    /// Only this group.
    #[arg(value_name = "GROUP", add = complete::groups())]
    group: Option<String>,
}

impl GroupsArgs {
    pub(crate) fn run_groups(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let members = match &self.group {
            Some(group) => find_group(context, group)?,
            None => read_members(context, MemberScope::Every)?,
        };
        let machine = context.machine()?;
        let members = members.iter().map(|member| view_member(member, machine)).collect();
        let result = GroupsResult { members };
        if context.json {
            context.print_json(&result)?;
        } else if result.members.is_empty() {
            output::print_text("nothing was launched in a group\n")?;
        } else {
            output::print_text(&result.members.iter().map(member_line).collect::<String>())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn read_members(context: &CliContext, scope: MemberScope<'_>) -> Result<Vec<GroupMember>, Error> {
    let members = list_members(&context.ostler_home()?, scope);
    members.map_err(|error| Error::Events(error.into()))
}

/// The members of a group; one that nobody was launched in is not there.
pub(crate) fn find_group(context: &CliContext, group: &str) -> Result<Vec<GroupMember>, Error> {
    let members = match group {
        "" => Vec::new(),
        group => read_members(context, MemberScope::Of(group))?,
    };
    match members.is_empty() {
        true => {
            Err(Error::NotListed { text: group.to_owned(), kind: "group", list: "ostler groups" })
        }
        false => Ok(members),
    }
}

/// The terminals of a group whose agents are not proven to be gone.
pub(crate) fn live_terminals(context: &CliContext, group: &str) -> Result<Vec<String>, Error> {
    let machine = context.machine()?;
    let members = find_group(context, group)?.into_iter();
    let live = members.filter(|member| !judge_member(member, machine).is_dead());
    Ok(live.filter_map(|member| member.terminal).collect())
}

fn member_line(member: &GroupMemberView) -> String {
    let name = match &member.group {
        Some(group) => format!("{group}/{}", member.slot),
        None => member.slot.clone(),
    };
    let mut line = format!("{name}  {}  {}", member.agent, member.liveness);
    if let (Some(worktree), Some(branch)) = (&member.worktree, &member.branch) {
        let gone = if member.is_present == Some(false) { " (not there)" } else { "" };
        line.push_str(&format!("  {branch}  {}{gone}", text::home_as_tilde(worktree)));
    }
    if let Some(reason) = &member.reason {
        line.push_str(&format!("  {reason}"));
    }
    text::one_line(&line) + "\n"
}
