//! Self-diagnosis (`ostler doctor`): what may be wrong with ostler itself, each with a reason and a remedy.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use model::config::OstlerConfig;
use model::status::Activity;
use model::wire::{DoctorFinding, HookState};
use store::state::StateStore;
use sys::machine::Machine;

use crate::observe::Observation;
use crate::tracks::{self, intake};
use crate::{hook, hooks};

/// How many problems of hooks are shown.
const MAX_PROBLEMS_SHOWN: usize = 3;

/// Looks at ostler's own files.
pub fn examine_home(machine: &Machine, config: &OstlerConfig) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    findings.push(examine_directory("home", machine.home()));
    findings.push(runtime(machine));
    findings.extend(hook_problems(machine));
    findings.extend(examine_spool(machine));
    findings.extend(examine_store(machine, config));
    findings.extend(examine_access(machine));
    findings.extend(trash(machine));
    findings
}

/// What the reaper left for a person to decide.
fn trash(machine: &Machine) -> Vec<DoctorFinding> {
    let finding = |matter: model::wire::UndecidedView| {
        let places = matter.places.join(", ");
        let found = format!("{}: {}; kept: {places}", matter.path, matter.reason);
        DoctorFinding::note("trash", found, matter.remedy)
    };
    reaper::undecided(machine.home()).into_iter().map(finding).collect()
}

/// How far the hooks of the agents are that were ever run here.
pub fn examine_hooks(machine: &Machine, program: &Path) -> Vec<DoctorFinding> {
    let request = hooks::HooksRequest { machine, program, project: None };
    let agents = crate::adapter_ids().filter(|agent| {
        let known = adapters::by_id(agent).is_some_and(|one| one.agent_profile().hooks.is_some());
        known && hooks::is_present(agent, machine)
    });
    let finding = |agent: &'static str| {
        let check = format!("hooks of {agent}");
        let install = format!("`ostler hooks install {agent}`");
        match hooks::hooks_status(agent, &request).map(|status| status.state) {
            Ok(None | Some(HookState::Installed)) => DoctorFinding::ok(check, "installed"),
            Ok(Some(HookState::NotInstalled)) => DoctorFinding::note(
                check,
                "not installed: ends are known only when looked for",
                install,
            ),
            Ok(Some(HookState::NotTrusted)) => DoctorFinding::note(
                check,
                "installed, and not run until you trust them",
                "trust them in it",
            ),
            Ok(Some(HookState::Outdated)) => {
                DoctorFinding::note(check, "of another version or place", install)
            }
            Ok(Some(HookState::ForeignEdited)) => {
                DoctorFinding::note(check, "changed by somebody else", install)
            }
            Err(error) => DoctorFinding::problem(check, error.to_string(), "put the file right"),
        }
    };
    agents.map(finding).collect()
}

/// Access sessions that need a person's attention.
fn examine_access(machine: &Machine) -> Vec<DoctorFinding> {
    let found = access::findings::find_problems(machine);
    if found.is_empty() {
        return vec![DoctorFinding::ok("access", "no access session needs attention")];
    }
    let finding = |one: access::findings::AccessFinding| {
        let id = one.id.map(|id| format!("{id}: ")).unwrap_or_default();
        let words = format!("{id}{}", one.message);
        if one.code.is_problem() {
            DoctorFinding::problem("access", words, one.remedy)
        } else {
            DoctorFinding::note("access", words, one.remedy)
        }
    };
    found.into_iter().map(finding).collect()
}

/// Agents' files that could not be read.
pub fn examine_sources(observation: &Observation) -> Vec<DoctorFinding> {
    let found = observation.incomplete.iter().map(|one| {
        let path = one.path.as_deref().unwrap_or("");
        let found = format!("{path}: {}", one.reason);
        DoctorFinding::note(format!("{} files", one.source), found, "`ostler ls --json` lists them")
    });
    found.collect()
}

/// Agents that are newer than what their control tables were measured with.
pub fn examine_versions(observation: &Observation) -> Vec<DoctorFinding> {
    let mut newer: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for one in &observation.sessions {
        let control =
            adapters::by_id(one.session.agent).and_then(|adapter| adapter.control_table());
        let (Some(version), Some(control)) = (one.session.digest.version.as_deref(), control)
        else {
            continue;
        };
        if version_numbers(version) > version_numbers(control.measured) {
            newer.insert(one.session.agent, (version, control.measured));
        }
    }
    let finding = |(agent, (version, measured)): (&str, (&str, &str))| {
        let found = format!("{version} runs here; how it is driven was measured with {measured}");
        let remedy =
            "nothing is assumed: what cannot be proven is refused; `ostler attach` always works";
        DoctorFinding::note(format!("driving {agent}"), found, remedy)
    };
    newer.into_iter().map(finding).collect()
}

/// The numbers of a version, up to what is none.
fn version_numbers(version: &str) -> Vec<u64> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

fn examine_directory(check: &str, path: &Path) -> DoctorFinding {
    let shown = path.display();
    match sys::private::verify_private_dir(path) {
        Ok(()) => DoctorFinding::ok(check, format!("{shown} is private")),
        Err(sys::private::PrivateError::Io { source, .. })
            if source.kind() == io::ErrorKind::NotFound =>
        {
            DoctorFinding::ok(check, format!("{shown} is made when it is needed"))
        }
        Err(error) => {
            let remedy = format!("make it yours alone: chmod 700 {shown}");
            DoctorFinding::problem(check, error.to_string(), remedy)
        }
    }
}

/// One that cannot be used is no fault of this user's, and sockets have another place.
fn runtime(machine: &Machine) -> DoctorFinding {
    use sys::private::{PrivateError, open_guarded_dir};

    const CHECK: &str = "runtime directory";
    match open_guarded_dir(machine.runtime()) {
        Err(error) if !matches!(&error, PrivateError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound) =>
        {
            let instead = crate::writer::fallback_directory(machine.home());
            let found = format!("{error}; sockets are in {} instead", instead.display());
            let remedy = "nothing has to be done; XDG_RUNTIME_DIR can name another directory";
            DoctorFinding::note(CHECK, found, remedy)
        }
        _ => examine_directory(CHECK, machine.runtime()),
    }
}

fn hook_problems(machine: &Machine) -> Vec<DoctorFinding> {
    let logs = hook::problem_logs(Some(machine.home()), machine.runtime());
    let texts = logs.iter().filter_map(|log| std::fs::read_to_string(log).ok());
    let text: String = texts.collect();
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return vec![DoctorFinding::ok("hooks", "no problems logged")];
    }
    let last = lines[lines.len().saturating_sub(MAX_PROBLEMS_SHOWN)..].join("; ");
    let found = format!("{} problems logged, last: {last}", lines.len());
    let remedy = "mend what they name, then set the log aside";
    vec![DoctorFinding { fixable: true, ..DoctorFinding::problem("hooks", found, remedy) }]
}

fn examine_spool(machine: &Machine) -> Vec<DoctorFinding> {
    let rejected = std::fs::read(intake::rejected_path(machine.home())).unwrap_or_default();
    let lines = rejected.iter().filter(|byte| **byte == b'\n').count();
    if lines == 0 {
        return vec![DoctorFinding::ok("spool", "every line was understood")];
    }
    let path = intake::rejected_path(machine.home()).display().to_string();
    let found = format!("{lines} lines could not be understood; they are in {path}");
    vec![DoctorFinding::note("spool", found, "a full disk tears lines; nothing else is lost")]
}

fn examine_store(machine: &Machine, config: &OstlerConfig) -> Vec<DoctorFinding> {
    let state = match StateStore::open_read_only(machine.home()) {
        Ok(Some(state)) => state,
        Ok(None) => return vec![DoctorFinding::ok("store", "nothing recorded yet")],
        Err(error) => {
            return vec![DoctorFinding::problem("store", error.to_string(), "use a newer ostler")];
        }
    };
    let mut findings = Vec::new();
    match state.check_integrity() {
        Ok(wrong) if wrong.is_empty() => findings.push(DoctorFinding::ok("store", "sound")),
        Ok(wrong) => {
            let remedy = "move it aside; sessions are still told from agents' own files";
            findings.push(DoctorFinding::problem("store", wrong.join("; "), remedy));
        }
        Err(error) => {
            findings.push(DoctorFinding::problem("store", error.to_string(), "see the reason"))
        }
    }
    match tracks::open_now(machine.home(), Some(&state)) {
        Ok(open) => findings.extend(examine_stuck(&open, config, machine)),
        Err(error) => {
            findings.push(DoctorFinding::problem("spool", error.to_string(), "see the reason"))
        }
    }
    findings
}

/// Open sessions of which nothing can be said, or that should have said something.
fn examine_stuck(
    open: &[store::state::TrackedSession],
    config: &OstlerConfig,
    machine: &Machine,
) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for one in open {
        let name = tracks::session_name(&one.agent, &one.id);
        let quiet =
            one.track.last_sign_at.is_some_and(|at| machine.now().since(at) > config.stale_after);
        let owner = one.track.owner.as_ref();
        let liveness = owner.map(|owner| machine.probe_process(owner));
        let (found, remedy) = match liveness {
            None if quiet => (
                "its agent could not be found when it was last heard of".to_owned(),
                "it is left alone; its next turn names its agent again",
            ),
            Some(liveness) if !liveness.is_alive() && !liveness.is_dead() => (
                format!("its agent cannot be seen from here ({})", liveness.reason_code()),
                "run `ostler finalize` where the agent ran",
            ),
            Some(liveness) if liveness.is_dead() => {
                ("its agent is gone".to_owned(), "`ostler finalize` ends it")
            }
            Some(_) if quiet && one.track.activity == Some(Activity::Working) => (
                "working without a sign of life for too long".to_owned(),
                "look at its terminal; it may wait for an answer",
            ),
            _ => continue,
        };
        findings.push(DoctorFinding::note(format!("session {name}"), found, remedy));
    }
    findings
}

/// Does what fixable findings name: sets logs of problems aside.
pub fn fix_problem_logs(machine: &Machine) -> io::Result<Vec<String>> {
    let mut done = Vec::new();
    for log in hook::problem_logs(Some(machine.home()), machine.runtime()) {
        if log.exists() {
            let aside = log.with_extension("log.old");
            #[expect(
                clippy::disallowed_methods,
                reason = "a log of its own problems is set aside"
            )]
            sys::atomic::rename_over(&log, &aside)?;
            done.push(format!("set {} aside as {}", log.display(), aside.display()));
        }
    }
    Ok(done)
}
