//! What driving agents costs: bounds of `control.md` §18, with an agent that keeps Claude Code's files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::{Bound, clean, side_by_side, time};

/// A tree of so many processes is stopped.
const TREE: usize = 1000;

/// So many deliveries are in the store that must not matter.
const DELIVERIES: usize = 10_000;

pub(super) fn measure(ostler: &Path, directory: &Path, runs: usize) -> Result<Vec<Bound>, String> {
    let bench = ControlBench::new(ostler, &directory.join("control"))?;
    let mut bounds = Vec::new();
    bounds.push(bench.measure_launch(runs)?);
    bounds.extend(bench.measure_delivery(runs)?);
    bounds.push(bench.measure_waiting()?);
    bounds.push(bench.measure_stop()?);
    bounds.push(bench.measure_tree()?);
    bounds.push(bench.measure_who(runs)?);
    bounds.push(bench.measure_metrics(runs)?);
    bounds.push(bench.measure_group()?);
    bounds.push(bench.measure_hosts()?);
    bounds.push(bench.measure_ledger(runs)?);
    bounds.extend(super::control_asks::measure(ostler, &directory.join("control-asks"))?);
    bench.stop_all();
    Ok(bounds)
}

struct ControlBench {
    ostler: PathBuf,
    home: PathBuf,
}

/// How long one prompt took in each of its steps, in milliseconds.
struct PromptSteps {
    entered: f64,
    answered: f64,
}

impl ControlBench {
    fn new(ostler: &Path, directory: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| error.to_string();
        let home = std::path::absolute(directory).map_err(failed)?;
        if home.exists() {
            Self { ostler: ostler.to_owned(), home: home.clone() }.stop_all();
            fs::remove_dir_all(&home).map_err(failed)?;
        }
        for below in ["bin", "run", "work"] {
            fs::create_dir_all(home.join(below)).map_err(failed)?;
        }
        fs::set_permissions(home.join("run"), PermissionsExt::from_mode(0o700)).map_err(failed)?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../crates/ostler/tests/terminal/fake_agent.py");
        let words = format!(
            "#!/bin/sh\nexec python3 {} {} claude={} $FAKE -- \"$@\"\n",
            script.display(),
            home.join("record").display(),
            home.join(".claude").display()
        );
        let program = home.join("bin/claude");
        fs::write(&program, words).map_err(failed)?;
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).map_err(failed)?;
        Ok(Self { ostler: ostler.to_owned(), home })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = clean(&self.ostler, &self.home);
        let path = format!("{}:/usr/bin:/bin", self.home.join("bin").display());
        command.env("PATH", path).env("XDG_RUNTIME_DIR", self.home.join("run"));
        command.current_dir(self.home.join("work")).args(words);
        command
    }

    fn ask(&self, words: &[&str]) -> Result<Value, String> {
        let output = self.command(&["--json"]).args(words).stdout(Stdio::piped()).output();
        let output = output.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut answer: Value =
            serde_json::from_str(&text).map_err(|error| format!("{words:?}: {error}: {text}"))?;
        match answer["ok"] == true {
            true => Ok(answer["result"].take()),
            false => Err(format!("{words:?}: {text}")),
        }
    }

    fn launch(&self, name: &str, options: &str) -> Result<Value, String> {
        let mut words = vec!["launch", "claude", "--name", name];
        let fake = format!("FAKE={options}");
        words.extend(["--env", &fake]);
        self.ask(&words)
    }

    fn stop_all(&self) {
        let listed = self.ask(&["ls"]).unwrap_or_default();
        for one in listed["sessions"].as_array().into_iter().flatten() {
            if let Some(id) = one["id"].as_str() {
                drop(self.command(&["stop", id, "--now"]).status());
            }
        }
    }

    /// A launch without a prompt, against `create` and a screen that has come to rest: the same knowledge.
    fn measure_launch(&self, runs: usize) -> Result<Bound, String> {
        let (mut launches, mut creates) = (Vec::new(), Vec::new());
        for run in 0..runs.min(9) {
            let (one, two) = (format!("l{run}"), format!("c{run}"));
            launches.push(time(&mut self.command(&["launch", "claude", "--name", &one]))?);
            let begun = Instant::now();
            time(&mut self.command(&["create", "--name", &two, "--agent", "claude"]))?;
            time(&mut self.command(&["wait", &two, "--text", "for help"]))?;
            time(&mut self.command(&["wait", &two, "--screen-stable-ms", "120"]))?;
            creates.push(begun.elapsed());
            for name in [one, two] {
                time(&mut self.command(&["stop", &name, "--now"]))?;
            }
        }
        let (launch, create) = (median(launches), median(creates));
        eprintln!("launch {launch:?}, create and wait {create:?}");
        Ok(Bound {
            what: "launch without a prompt, against create and waiting for its screen".to_owned(),
            measured: launch.as_secs_f64() / create.as_secs_f64(),
            limit: Some(1.5),
            unit: "x",
        })
    }

    fn measure_delivery(&self, runs: usize) -> Result<Vec<Bound>, String> {
        self.launch("d", "")?;
        let mut steps = Vec::new();
        let before = child_ticks();
        for run in 0..runs {
            steps.push(self.prompt_once("d", &format!("prompt number {run}, please"))?);
        }
        let prompts = child_ticks() - before;
        let before = child_ticks();
        for run in 0..runs {
            let text = format!("pasted number {run}");
            time(&mut self.command(&["paste", "d", &text]))?;
            time(&mut self.command(&["send-keys", "d", "Enter"]))?;
        }
        let plain = (child_ticks() - before).max(1);
        time(&mut self.command(&["stop", "d", "--now"]))?;
        let middle = |value: fn(&PromptSteps) -> f64| {
            let mut all: Vec<f64> = steps.iter().map(value).collect();
            all.sort_unstable_by(f64::total_cmp);
            all[all.len() / 2]
        };
        Ok(vec![
            Bound {
                what: "prompt: from the paste on the screen to Enter".to_owned(),
                measured: middle(|one| one.entered),
                limit: Some(150.0),
                unit: " ms",
            },
            Bound {
                what: "prompt: from the agent's record to the answer".to_owned(),
                measured: middle(|one| one.answered),
                limit: Some(20.0),
                unit: " ms",
            },
            Bound {
                what: "processor time of a prompt, against paste and send-keys".to_owned(),
                measured: prompts as f64 / plain as f64,
                limit: Some(3.0),
                unit: "x",
            },
        ])
    }

    /// The agent writes down when it was pasted to, when Enter came, and when it took the prompt.
    fn prompt_once(&self, target: &str, text: &str) -> Result<PromptSteps, String> {
        let seen = self.noted("at").len();
        time(&mut self.command(&["prompt", target, text]))?;
        let answered =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let noted = self.noted_lines();
        let at = |name: &str| {
            let mut new = noted.iter().skip(seen).filter(|line| line.get(name).is_some());
            new.next().and_then(|line| line["at"].as_f64())
        };
        let missing = || "the agent wrote no times down".to_owned();
        let pasted = at("pasted").ok_or_else(missing)?;
        let entered = at("enter").ok_or_else(missing)?;
        let recorded = at("recorded").ok_or_else(missing)?;
        Ok(PromptSteps { entered: (entered - pasted) * 1e3, answered: (answered - recorded) * 1e3 })
    }

    fn noted_lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.home.join("record")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn noted(&self, name: &str) -> Vec<Value> {
        self.noted_lines().into_iter().filter(|line| line.get(name).is_some()).collect()
    }

    /// Waiting for an agent costs nothing while nothing happens.
    fn measure_waiting(&self) -> Result<Bound, String> {
        self.launch("w", "")?;
        let mut wait = self.command(&["wait", "w", "--for-agent", "working", "--timeout", "9000"]);
        let mut child = wait.spawn().map_err(|error| error.to_string())?;
        std::thread::sleep(Duration::from_secs(3));
        let before = process_ticks(child.id());
        std::thread::sleep(Duration::from_secs(5));
        let spent = process_ticks(child.id()).saturating_sub(before);
        drop(child.kill());
        drop(child.wait());
        time(&mut self.command(&["stop", "w", "--now"]))?;
        Ok(Bound {
            what: "processor ticks of a wait for an agent, 5 s without a change".to_owned(),
            measured: spent as f64,
            limit: Some(0.0),
            unit: "",
        })
    }

    /// An agent that needs 200 ms for its end.
    fn measure_stop(&self) -> Result<Bound, String> {
        let script = "trap 'sleep 0.2; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
        let mut slowest = Vec::new();
        for run in 0..5 {
            let name = format!("s{run}");
            self.ask(&["create", "--name", &name, "--", "/bin/sh", "-c", script])?;
            time(&mut self.command(&["wait", &name, "--text", "ready"]))?;
            let stopped = self.ask(&["stop", &name])?;
            let told = stopped["stopped"][0]["processes"].as_array().cloned().unwrap_or_default();
            slowest.push(told.iter().filter_map(|one| one["ms"].as_u64()).max().unwrap_or(0));
        }
        slowest.sort_unstable();
        Ok(Bound {
            what: "stop of a program that ends 200 ms after SIGTERM, above that".to_owned(),
            measured: slowest[slowest.len() / 2] as f64 - 200.0,
            limit: Some(60.0),
            unit: " ms",
        })
    }

    /// A large tree, against one walk of the process table.
    fn measure_tree(&self) -> Result<Bound, String> {
        let script = format!(
            "i=0; while [ $i -lt {TREE} ]; do sleep 1000 & i=$((i+1)); done; echo ready; wait"
        );
        self.ask(&["create", "--name", "tree", "--", "/bin/sh", "-c", &script])?;
        time(&mut self.command(&["wait", "tree", "--text", "ready", "--timeout", "60000"]))?;
        let begun = Instant::now();
        let walked = walk_processes();
        let walk = begun.elapsed();
        let preview = self.command(&["stop", "tree", "--dry-run"]);
        let [floor, plan] = side_by_side(3, [self.command(&["version"]), preview])?;
        let above = plan.saturating_sub(floor);
        eprintln!("{walked} processes: walk {walk:?}, plan {above:?}");
        time(&mut self.command(&["stop", "tree", "--now"]))?;
        Ok(Bound {
            what: format!("plan of a stop of {TREE} processes, against one walk of /proc"),
            measured: above.as_secs_f64() / walk.as_secs_f64(),
            limit: Some(3.0),
            unit: "x",
        })
    }

    fn measure_who(&self, runs: usize) -> Result<Bound, String> {
        let launched = self.launch("who", "")?;
        let id = launched["session"]["id"].as_str().unwrap_or_default().to_owned();
        let commands = [self.command(&["show", &id]), self.command(&["who", &id])];
        let [show, who] = side_by_side(runs, commands)?;
        time(&mut self.command(&["stop", "who", "--now"]))?;
        eprintln!("show {show:?}, who {who:?}");
        Ok(ratio("who, against show", who, show, 1.2))
    }

    fn measure_metrics(&self, runs: usize) -> Result<Bound, String> {
        let commands = [self.command(&["ls", "-a", "--json"]), self.command(&["metrics"])];
        let [list, metrics] = side_by_side(runs, commands)?;
        eprintln!("ls -a --json {list:?}, metrics {metrics:?}");
        Ok(ratio("metrics, against ls -a --json", metrics, list, 1.3))
    }

    /// Eight agents in worktrees of their own, against eight worktrees and one agent.
    fn measure_group(&self) -> Result<Bound, String> {
        let repo = self.home.join("repo");
        let git = |script: &str| -> Result<Duration, String> {
            let mut command = Command::new("sh");
            command.args(["-ec", script]).current_dir(&self.home).env("HOME", &self.home);
            time(command.stdout(Stdio::null()).stderr(Stdio::null()))
        };
        git("git init -q repo; cd repo; git config user.email a@b; git config user.name a; \
             for i in $(seq 200); do echo $i > f$i; done; git add .; git commit -qm one")?;
        let floor =
            git("cd repo; for i in 1 2 3 4 5 6 7 8; do git worktree add -q ../tree$i; done")?;
        let one =
            time(self.command(&["launch", "claude", "begin", "--name", "one"]).current_dir(&repo))?;
        let slots: Vec<String> = (1..=8).map(|slot| format!("claude:m{slot}")).collect();
        let mut words = vec!["launch"];
        words.extend(slots.iter().map(String::as_str));
        words.extend(["begin with it", "--group", "g", "--worktree"]);
        let group = time(self.command(&words).current_dir(&repo))?;
        eprintln!("eight worktrees {floor:?}, one agent {one:?}, group {group:?}");
        time(&mut self.command(&["stop", "--group", "g", "--now"]))?;
        Ok(ratio("a group of 8, against 8 worktrees and one agent", group, floor + one, 1.3))
    }

    /// The memory of a host without a terminal, against one with.
    fn measure_hosts(&self) -> Result<Bound, String> {
        self.ask(&["create", "--name", "plain", "--", "/bin/sleep", "1000"])?;
        let file = self.home.join("prompt");
        fs::write(&file, "hello").map_err(|error| error.to_string())?;
        let file = file.to_string_lossy().into_owned();
        let words = [
            "launch",
            "claude",
            "--headless",
            "--file",
            &file,
            "--name",
            "piped",
            "--env",
            "FAKE=hangs=1",
        ];
        drop(self.ask(&words));
        let memory = |name: &str| -> Result<f64, String> {
            let shown = self.ask(&["inspect", name])?;
            let pid = shown["session"]["hostPid"].as_u64().ok_or("no host")?;
            let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with("Pss:")).unwrap_or_default();
            line.split_whitespace()
                .nth(1)
                .and_then(|kb| kb.parse().ok())
                .ok_or_else(|| "no memory".to_owned())
        };
        let measured = memory("piped")? / memory("plain")?;
        for name in ["plain", "piped"] {
            drop(self.command(&["stop", name, "--now"]).status());
        }
        Ok(Bound {
            what: "memory of a headless host, against one of a terminal".to_owned(),
            measured,
            limit: Some(1.0),
            unit: "x",
        })
    }

    /// Many deliveries in the store change nothing for the next one.
    fn measure_ledger(&self, runs: usize) -> Result<Bound, String> {
        self.launch("ledger", "")?;
        let prompt = |text: String| time(&mut self.command(&["prompt", "ledger", &text]));
        let mut few = Vec::new();
        for run in 0..runs {
            few.push(prompt(format!("before number {run}"))?);
        }
        let database = super::hook::state(&self.home).join("ostler.db");
        let copies = format!(
            "insert into delivery with recursive copy(n) as (select 1 union all select n + 1 from copy where n < {DELIVERIES}) \
             select one.id || '-' || n, one.agent, one.session, one.at, null, one.record, one.sender \
             from copy, (select * from delivery limit 1) as one"
        );
        testkit::sql::run_sql(&database, &copies)?;
        let mut many = Vec::new();
        for run in 0..runs {
            many.push(prompt(format!("after number {run}"))?);
        }
        time(&mut self.command(&["stop", "ledger", "--now"]))?;
        let (few, many) = (median(few), median(many));
        eprintln!("prompt {few:?}, with {DELIVERIES} deliveries {many:?}");
        Ok(ratio("prompt with 10000 deliveries in the store, against few", many, few, 1.1))
    }
}

fn ratio(what: &str, time: Duration, floor: Duration, limit: f64) -> Bound {
    let measured = time.as_secs_f64() / floor.as_secs_f64();
    Bound { what: what.to_owned(), measured, limit: Some(limit), unit: "x" }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Ticks of a process in user and kernel mode; `first` is the field of `stat` where they begin.
fn read_ticks(pid: &str, first: usize) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field =
        |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
    field(first) + field(first + 1)
}

fn process_ticks(pid: u32) -> u64 {
    read_ticks(&pid.to_string(), 11)
}

/// Ticks of the children that were waited for.
fn child_ticks() -> u64 {
    read_ticks("self", 13)
}

/// Reads what is always read of a process, of all of them.
fn walk_processes() -> usize {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).is_ok();
        read("stat") && read("cmdline")
    })
    .count()
}
