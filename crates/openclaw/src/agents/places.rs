//! Places of agents: which of them are really the same, and which may be moved away at all.

use std::path::{Path, PathBuf};

use model::plan::Refusal;

use crate::config::{ConfiguredAgent, OpenClawConfig};

/// Where a path really leads. What is not there yet is where it would be made.
pub(super) fn real_path(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (std::fs::canonicalize(ancestor), path.strip_prefix(ancestor))
        {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

/// Whether one is the other, in it, or around it.
fn paths_overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// The other agents whose workspace is this one, in it, or around it, or that keep something in it.
pub(super) fn workspace_sharers(workspace: &Path, others: &[ConfiguredAgent]) -> Vec<String> {
    let own = real_path(workspace);
    agent_ids(others, |other| {
        paths_overlap(&own, &real_path(&other.workspace)) || keeps_in(&own, other)
    })
}

/// The other agents of whom something is in a directory, or is that directory.
pub(super) fn keepers_in(directory: &Path, others: &[ConfiguredAgent]) -> Vec<String> {
    let own = real_path(directory);
    agent_ids(others, |other| keeps_in(&own, other))
}

fn keeps_in(directory: &Path, agent: &ConfiguredAgent) -> bool {
    let theirs = [&agent.workspace, &agent.agent_dir, &agent.sessions_dir, &agent.store];
    theirs.into_iter().any(|theirs| real_path(theirs).starts_with(directory))
}

/// The ids of some agents, each once: one may be in two configurations.
fn agent_ids(agents: &[ConfiguredAgent], wanted: impl Fn(&ConfiguredAgent) -> bool) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for agent in agents.iter().filter(|agent| wanted(agent)) {
        if !ids.contains(&agent.id) {
            ids.push(agent.id.clone());
        }
    }
    ids
}

/// The place that would be moved away: a link at its end is not followed. Only what lies in the home,
/// in OpenClaw's state or in a temporary directory may go, and never what others are in.
pub(super) fn within_bounds(
    config: &OpenClawConfig,
    ostler: &Path,
    path: &Path,
) -> Result<PathBuf, Refusal> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Refusal::OutOfBounds);
    };
    let place = real_path(parent).join(name);
    let mut roots = vec![real_path(&config.home), real_path(&config.state)];
    roots.extend(config.temporary.iter().map(|directory| real_path(directory)));
    let inside = roots.iter().any(|root| place.starts_with(root) && place != *root);
    let agents = config.state.join("agents");
    let precious = [&config.home, &config.state, &agents, &config.path, &ostler.to_owned()];
    let holds = precious.into_iter().any(|one| real_path(one).starts_with(&place));
    if inside && !holds { Ok(place) } else { Err(Refusal::OutOfBounds) }
}

#[cfg(test)]
mod tests {
    use testkit::home::TempHome;

    use super::*;

    fn agent(id: &str, workspace: PathBuf) -> ConfiguredAgent {
        let nowhere = PathBuf::from("/nowhere").join(id);
        ConfiguredAgent {
            id: id.to_owned(),
            is_default: false,
            is_configured: true,
            workspace,
            agent_dir: nowhere.join("agent"),
            sessions_dir: nowhere.join("sessions"),
            store: nowhere.join("sessions/sessions.json"),
        }
    }

    #[test]
    fn row_87_a_workspace_that_is_in_another_or_around_it_is_shared() {
        let home = TempHome::new();
        home.directory("ws");
        home.directory("ws/child");
        home.link("alias", home.join("ws"));
        let others = |path: &str| vec![agent("lab", home.join(path))];
        for shared in ["ws", "ws/child", "ws/child/deeper", "", "alias", "alias/child"] {
            assert_eq!(workspace_sharers(&home.join("ws"), &others(shared)), ["lab"], "{shared}");
        }
        assert_eq!(workspace_sharers(&home.join("alias"), &others("ws")), ["lab"]);
    }

    #[test]
    fn row_88_a_name_that_begins_like_another_is_not_in_it() {
        let home = TempHome::new();
        for name in ["ws", "ws-ops"] {
            home.directory(name);
        }
        let others = [agent("lab", home.join("ws"))];
        assert_eq!(workspace_sharers(&home.join("ws-ops"), &others), Vec::<String>::new());
    }

    #[test]
    fn row_89_a_workspace_that_is_not_there_yet_is_compared_by_name() {
        let home = TempHome::new();
        home.directory("ws");
        home.link("alias", home.join("ws"));
        let missing = [agent("lab", home.join("ws/not/yet"))];
        assert_eq!(workspace_sharers(&home.join("ws"), &missing), ["lab"]);
        let by_link = [agent("lab", home.join("alias/not/yet"))];
        assert_eq!(workspace_sharers(&home.join("ws"), &by_link), ["lab"]);
        assert!(workspace_sharers(&home.join("nor/this"), &missing).is_empty());
    }

    #[test]
    fn a_workspace_in_which_another_agent_keeps_things_is_shared() {
        let home = TempHome::new();
        let mut other = agent("lab", PathBuf::from("/elsewhere"));
        other.agent_dir = home.join("ws/lab");
        assert_eq!(workspace_sharers(&home.join("ws"), &[other]), ["lab"]);
    }
}
