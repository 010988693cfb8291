//! One member that is real: a home with its daemon and its link, whose terminals die, which takes orders, and rests.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use futures_util::StreamExt;
use model::fleet_order::{OrderArguments, OrderAsk, OrderReply};
use model::wire::FleetLevel;
use net::hub::Hub;
use net::nats::{HubConnection, connect_hub};
use net::record::{MemberCertificate, RECORD_VERSION, read_answer, read_page};
use net::seal::{SealKind, seal_json};
use serde_json::json;

use super::{Failure, Load, OPERATOR_NAME, Running, say};

/// How many times a death is measured.
const DEATHS: usize = 60;

/// How many orders are measured: fewer than a member has permissions for at a time.
const ORDERS: usize = 50;

/// For how long a daemon rests; its CPU time is counted in hundredths of a second.
const REST: Duration = Duration::from_secs(60);

/// A home with its daemon.
pub(super) struct RealMember {
    daemon: Running,
    certificate: MemberCertificate,
}

impl RealMember {
    /// Joins like any other, beside everybody.
    pub(super) fn start(load: &Load) -> Result<Self, Failure> {
        let options = &load.options;
        // A new terminal is no event: it is seen when the machine is looked at, by default every half a minute.
        write_settings(load, "look = \"1s\"\n")?;
        let asked = options.run("real", &["fleet", "join", "--name", "real", "--level", "none"])?;
        let request = asked["request"].as_str().ok_or("no request")?.to_owned();
        let begun = Instant::now();
        let admitted = options.run("hub", &["fleet", "admit", &request])?;
        say("admit beside everybody", begun.elapsed().as_secs_f64(), "s", None);
        options.run("real", &["fleet", "join", admitted["answer"].as_str().ok_or("no answer")?])?;
        let hub = Hub::open(&options.state("hub"))?;
        let certificate = hub.file.members.iter().find(|one| one.name == "real").cloned();
        let certificate = certificate.ok_or("it was not admitted")?;
        Ok(Self { daemon: start_daemon(load, "real")?, certificate })
    }

    /// Its terminals die while somebody watches the fleet.
    pub(super) async fn measure_deaths(&self, load: &Load) -> Result<(), Failure> {
        let options = &load.options;
        let watcher = connect_operator(load).await?;
        let subject = format!("ostler.v1.out.{}.state.*.*", self.certificate.id);
        let mut notices = watcher.client.subscribe(subject).await?;
        watcher.client.flush().await?;
        let mut delays = Vec::new();
        for _ in 0..DEATHS {
            let made = options.run("real", &["create", "--", "sleep", "1000"])?;
            let id = made["sessionId"].as_str().ok_or("no session")?.to_owned();
            self.wait_for_status(&mut notices, &id, true).await?;
            let seen = options.run("real", &["inspect", &id])?;
            let child = seen["session"]["childPid"].as_u64().or(seen["childPid"].as_u64());
            let child = i32::try_from(child.ok_or("no process")?)?;
            let killed = Instant::now();
            Command::new("kill").args(["-9", &child.to_string()]).status()?;
            self.wait_for_status(&mut notices, &id, false).await?;
            delays.push(killed.elapsed().as_secs_f64() * 1e3);
        }
        delays.sort_by(f64::total_cmp);
        let median = delays[DEATHS / 2];
        say("row 79: death of a terminal until a watcher knows, median", median, "ms", None);
        let p99 = delays[(DEATHS * 99).div_ceil(100) - 1];
        say("row 79: death of a terminal until a watcher knows, p99", p99, "ms", Some(100.0));
        Ok(())
    }

    /// Waits for a notice in which a session is alive, or in which it is not any more.
    async fn wait_for_status(
        &self,
        notices: &mut async_nats::Subscriber,
        id: &str,
        alive: bool,
    ) -> Result<(), Failure> {
        let waiting = async {
            while let Some(notice) = notices.next().await {
                let name = notice.subject.rsplitn(3, '.').collect::<Vec<_>>();
                let [number, kind, _] = name.as_slice() else { continue };
                let page = format!("{kind}.{number}");
                let Ok(page) = read_page(&self.certificate, &page, &notice.payload) else {
                    continue;
                };
                let found = page.sessions.iter().find(|one| one.get("id") == Some(&json!(id)));
                let is_alive =
                    found.is_some_and(|one| one.get("status") == Some(&json!("running")));
                // An active page without it says as much as any page in which it is over.
                let is_over = !is_alive && (found.is_some() || *kind == "active");
                if (alive && is_alive) || (!alive && is_over) {
                    return Ok(());
                }
            }
            Err("the watcher was cut off".into())
        };
        tokio::time::timeout(Duration::from_secs(30), waiting).await?
    }

    /// An order that is prepared, against a bare request on the same way. Nothing is carried out: that costs what
    /// the command costs.
    pub(super) async fn measure_orders(&self, load: &Load) -> Result<(), Failure> {
        let echo = &load.members[1];
        let echo_id = &echo.certificate.id;
        let other = connect_hub(&load.login(&echo.link, echo_id, false)).await?;
        let mut asks = other.client.subscribe(format!("ostler.v1.ask.{echo_id}.>")).await?;
        other.client.flush().await?;
        let client = other.client.clone();
        tokio::spawn(async move {
            while let Some(ask) = asks.next().await {
                let Some(back) = ask.reply else { continue };
                // Whoever asked notices that nothing comes.
                let _ = client.publish(back, ask.payload).await;
            }
        });
        let mut operator = connect_operator(load).await?;
        let (mut bare, mut ordered) = (Vec::new(), Vec::new());
        for _ in 0..ORDERS {
            let begun = Instant::now();
            let ask = self.new_ask()?;
            let sealed = seal_json(&load.operator_seal, SealKind::Ask, &ask)?;
            let subject = format!("ostler.v1.ask.{}.drive.{OPERATOR_NAME}.mark", ask.to);
            let answer = operator.ask(&subject, HeaderMap::new(), sealed.clone().into()).await?;
            match read_answer(&self.certificate, &answer.payload)?.reply {
                OrderReply::Prepared { .. } => {}
                other => return Err(format!("it was not prepared: {other:?}").into()),
            }
            ordered.push(begun.elapsed().as_secs_f64() * 1e3);
            let begun = Instant::now();
            let subject = format!("ostler.v1.ask.{echo_id}.drive.{OPERATOR_NAME}.mark");
            operator.ask(&subject, HeaderMap::new(), sealed.into()).await?;
            bare.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        bare.sort_by(f64::total_cmp);
        ordered.sort_by(f64::total_cmp);
        let (bare, ordered) = (bare[ORDERS / 2], ordered[ORDERS / 2]);
        say("bare request through the hub, median", bare, "ms", None);
        say("order, sealed, checked and prepared, median", ordered, "ms", None);
        say("row 80: round trip of an order to a bare request", ordered / bare, "x", Some(3.0));
        Ok(())
    }

    fn new_ask(&self) -> Result<OrderAsk, Failure> {
        let words = vec!["nothing".to_owned(), "a mark".to_owned()];
        Ok(OrderAsk {
            v: RECORD_VERSION,
            id: sys::random::new_ulid()?,
            to: self.certificate.id.clone(),
            from: OPERATOR_NAME.to_owned(),
            level: FleetLevel::Drive,
            verb: "mark".to_owned(),
            args: OrderArguments { words, ..OrderArguments::default() },
            json: false,
            grant: None,
            cursor: None,
        })
    }

    /// What membership costs a daemon at rest, against one in no fleet.
    pub(super) async fn measure_rest(self, load: &Load) -> Result<(), Failure> {
        std::fs::create_dir_all(load.options.home("alone"))?;
        drop(self.daemon);
        write_settings(load, "")?;
        let (own, alone) = (start_daemon(load, "real")?, start_daemon(load, "alone")?);
        // What both do when they begin.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let (member, alone) = (own.0.id(), alone.0.id());
        let link = find_link(member)?;
        let read = || Ok::<_, Failure>([cpu_time(member)?, cpu_time(alone)?, cpu_time(link)?]);
        let before = read()?;
        tokio::time::sleep(REST).await;
        let after = read()?;
        let share = |at: usize| 100.0 * (after[at] - before[at]) / REST.as_secs_f64();
        say("daemon at rest, in no fleet: CPU", share(1), "%", None);
        say("row 80: daemon at rest: CPU above that", share(0) - share(1), "%", Some(0.1));
        say("row 80: link at rest, a process of its own: CPU", share(2), "%", Some(0.5));
        Ok(())
    }
}

/// Settings of the real member: operators may drive, and what is given here.
fn write_settings(load: &Load, more: &str) -> Result<(), Failure> {
    let config = load.options.home("real").join(".config/ostler/config.toml");
    std::fs::create_dir_all(config.parent().ok_or("no directory")?)?;
    Ok(std::fs::write(&config, format!("[fleet]\nallow = \"drive\"\n{more}"))?)
}

fn start_daemon(load: &Load, home: &str) -> Result<Running, Failure> {
    let mut daemon = load.options.command(home);
    Ok(Running(daemon.args(["daemon", "run"]).stderr(Stdio::null()).spawn()?))
}

async fn connect_operator(load: &Load) -> Result<HubConnection, Failure> {
    Ok(connect_hub(&load.login(&load.operator, OPERATOR_NAME, false)).await?)
}

/// CPU time of a process and of its threads that ended, in seconds.
fn cpu_time(pid: u32) -> Result<f64, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = stat.rsplit_once(") ").ok_or("an odd line")?.1;
    let ticks = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap_or(0.0));
    Ok(ticks.sum::<f64>() / 100.0)
}

/// The link that a daemon has started.
fn find_link(daemon: u32) -> Result<u32, Failure> {
    for task in std::fs::read_dir(format!("/proc/{daemon}/task"))? {
        let children = std::fs::read_to_string(task?.path().join("children"))?;
        for pid in children.split_whitespace() {
            let line = std::fs::read(format!("/proc/{pid}/cmdline"))?;
            if String::from_utf8_lossy(&line).contains("\0link") {
                return Ok(pid.parse()?);
            }
        }
    }
    Err("the daemon has no link".into())
}
