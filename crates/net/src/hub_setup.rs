//! Making a hub: keys, CA and certificate, configuration and streams; and becoming its engine.

use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use model::helper::{HelperFailure, HelperFailureKind};
use model::wire::FleetInitResult;

use crate::engine::{HubEngine, find_engine};
use crate::failure::internal_failure;
use crate::fleet_files::FleetDir;
use crate::hub::{
    ADMIN_SEED, ENGINE_CONFIG, HUB_DIRECTORY, HUB_FILE, Hub, HubFile, ROOT_SEED, SYSTEM_SEED,
    ensure_buckets,
};
use crate::hub_certificate::{
    RENEWAL_DAYS, days_of_certificate, make_certificates, renew_certificate,
};
use crate::hub_lock::open_to_change;
use crate::timeouts::{ENGINE_START_INTERVAL, ENGINE_START_TIMEOUT};

/// The port that members use by default.
const DEFAULT_PORT: u16 = 4222;

/// What a hub is made with.
#[derive(Clone, Debug)]
pub struct InitRequest {
    /// Where it listens.
    pub listen: String,
    /// The names and addresses that members use.
    pub advertise: Vec<String>,
    /// The site's name.
    pub site: String,
    /// Whether connections are in the clear.
    pub plain: bool,
}

/// Makes a hub's files; starts nothing that stays.
pub async fn init_hub(
    home: &Path,
    request: &InitRequest,
) -> Result<FleetInitResult, HelperFailure> {
    let engine = find_engine()?;
    let (host, port) = parse_listen(&request.listen)?;
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if request.plain && !is_loopback {
        return Err(HelperFailure::new(
            HelperFailureKind::Refused,
            format!("without TLS a hub listens on this machine only, not on {host}"),
            "leave `--plain` out, or listen on 127.0.0.1 and use an ssh tunnel",
        ));
    }
    if !crate::record::is_fleet_name(&request.site) {
        return Err(HelperFailure::new(
            HelperFailureKind::Input,
            format!("`{}` cannot name a site", request.site),
            "up to 63 of a-z, 0-9 and -",
        ));
    }
    let dir = FleetDir::create(home, HUB_DIRECTORY)?;
    if dir.has(HUB_FILE) {
        return Err(HelperFailure::new(
            HelperFailureKind::Refused,
            format!("there is a hub already in {}", dir.path().display()),
            "`ostler fleet status` tells more; nothing was changed",
        ));
    }
    let names = hub_names(&host, &request.advertise);
    let public = names.first().cloned().unwrap_or_else(|| host.clone());
    let public = if public.contains(':') { format!("[{public}]") } else { public };
    let url = format!("{}://{public}:{port}", if request.plain { "nats" } else { "tls" });
    for name in [ROOT_SEED, ADMIN_SEED, SYSTEM_SEED] {
        dir.ensure_key(name)?;
        sys::pause::pause_at("fleet.init.key");
    }
    if !request.plain {
        make_certificates(&dir, names)?;
        sys::pause::pause_at("fleet.init.certificates");
    }
    let file = HubFile {
        site: request.site.clone(),
        listen: format!("{}:{port}", if host.contains(':') { format!("[{host}]") } else { host }),
        url: url.clone(),
        plain: request.plain,
        members: Vec::new(),
        operators_version: 1,
        operators: Vec::new(),
    };
    // Last: a hub that was half made is made again.
    dir.write_json(HUB_FILE, &file)?;
    sys::pause::pause_at("fleet.init.described");
    let hub = Hub::open(home)?;
    hub.save()?;
    prepare_streams(&hub, &engine).await?;
    Ok(FleetInitResult {
        directory: hub.dir.path().to_string_lossy().into_owned(),
        url,
        engine: engine.version,
        root: hub.root.public_key(),
        unit: hub_unit(),
    })
}

fn parse_listen(text: &str) -> Result<(String, u16), HelperFailure> {
    let wrong = || {
        HelperFailure::new(
            HelperFailureKind::Input,
            format!("`{text}` is no address to listen on"),
            "write it like 0.0.0.0:4222, [::]:4222 or 127.0.0.1:4222",
        )
    };
    if let Ok(address) = text.parse::<std::net::SocketAddr>() {
        return Ok((address.ip().to_string(), address.port()));
    }
    let address: IpAddr = text.trim_matches(['[', ']']).parse().map_err(|_| wrong())?;
    Ok((address.to_string(), DEFAULT_PORT))
}

/// The names that the hub's certificate is good for; the first is the one that members are told.
fn hub_names(host: &str, advertise: &[String]) -> Vec<String> {
    let mut names = advertise.to_vec();
    let is_unspecified = host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
    if !is_unspecified {
        names.push(host.to_owned());
    }
    let own = std::fs::read_to_string("/etc/hostname").ok().or_else(run_hostname);
    names.extend(own.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()));
    names.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

fn run_hostname() -> Option<String> {
    String::from_utf8(Command::new("hostname").output().ok()?.stdout).ok()
}

fn hub_unit() -> String {
    let program = std::env::current_exe().ok();
    let program = program.map_or("ostler".into(), |path| path.with_file_name("ostler"));
    format!(
        "[Unit]\nDescription=ostler fleet hub\n\n[Service]\nExecStart={} fleet hub\nRestart=always\n\n\
         [Install]\nWantedBy=default.target\n",
        program.display()
    )
}

/// An engine of ours that listens on this machine only, for as long as the value lives.
struct BriefEngine(Child);

impl Drop for BriefEngine {
    fn drop(&mut self) {
        use sys::dropped::NoteDropped;

        // Our own child, not waited for yet. The engine writes what it has when it is told to end; what it
        // had no time for is made again.
        self.0.kill().note_dropped("ending the engine");
        self.0.wait().note_dropped("the end of the engine");
    }
}

/// Makes the streams and puts what root signed into them, with an engine that no other process can reach.
pub async fn prepare_streams(hub: &Hub, engine: &HubEngine) -> Result<(), HelperFailure> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map_err(|error| internal_failure(&error))?
        .port();
    let child = Command::new(&engine.path)
        .arg("-c")
        .arg(hub.dir.path().join(ENGINE_CONFIG))
        .args(["-a", "127.0.0.1", "-p", &port.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| internal_failure(&error))?;
    let mut running = BriefEngine(child);
    let begun = Instant::now();
    let mut admin = loop {
        match hub.connect_admin_at(port).await {
            Ok(admin) => break admin,
            Err(error) => {
                let ended = running.0.try_wait().ok().flatten();
                if ended.is_some() || begun.elapsed() > ENGINE_START_TIMEOUT {
                    return Err(engine_failure(hub, &error));
                }
                tokio::time::sleep(ENGINE_START_INTERVAL).await;
            }
        }
    };
    ensure_buckets(&mut admin, hub.file.members.len()).await?;
    hub.publish_meta(&mut admin).await?;
    Ok(())
}

fn engine_failure(hub: &Hub, error: &crate::nats::HubError) -> HelperFailure {
    let log = hub.dir.path().join("hub.log");
    HelperFailure::new(
        HelperFailureKind::Refused,
        format!("the hub's engine did not start: {error}"),
        format!("{} may say why", log.display()),
    )
}

/// Becomes the engine. Returns only if it cannot.
pub async fn become_engine(home: &Path) -> HelperFailure {
    let prepared = async {
        let engine = find_engine()?;
        let (hub, _lock) = open_to_change(home)?;
        // What follows from who is admitted is written again: an admit may have been killed between.
        hub.save()?;
        renew_if_due(&hub)?;
        check_config(&hub, &engine)?;
        let streams = hub.dir.path().join("store/jetstream/FLEET/streams");
        let is_missing = |bucket: &&str| !streams.join(format!("KV_{bucket}")).exists();
        if crate::hub::BUCKETS.iter().any(is_missing) {
            prepare_streams(&hub, &engine).await?;
        }
        Ok::<_, HelperFailure>((engine, hub))
    };
    match prepared.await {
        Err(failure) => failure,
        Ok((engine, hub)) => {
            let config = hub.dir.path().join(ENGINE_CONFIG);
            let error = Command::new(&engine.path)
                .arg("-c")
                .arg(config)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .exec();
            internal_failure(&format!("{} cannot be started: {error}", engine.path.display()))
        }
    }
}

/// Issues the hub's certificate anew if members refuse it, or will soon.
fn renew_if_due(hub: &Hub) -> Result<(), HelperFailure> {
    let name = hub.host_name();
    let is_due = match days_of_certificate(&hub.dir, name, sys::clock::now()) {
        Ok(days) => days.is_some_and(|days| days <= RENEWAL_DAYS),
        Err(_) => true,
    };
    if hub.file.plain || !is_due {
        return Ok(());
    }
    let (host, _) = parse_listen(&hub.file.listen)?;
    renew_certificate(&hub.dir, name, hub_names(&host, &[name.to_owned()]), sys::clock::now())
}

/// Has the engine check its configuration.
fn check_config(hub: &Hub, engine: &HubEngine) -> Result<(), HelperFailure> {
    let config = hub.dir.path().join(ENGINE_CONFIG);
    let output = Command::new(&engine.path).arg("-c").arg(&config).arg("-t").output();
    let output = output.map_err(|error| internal_failure(&error))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(HelperFailure::new(
            HelperFailureKind::Refused,
            format!("the engine refuses {}: {}", config.display(), last_line(&output.stderr)),
            "report it: ostler wrote this file",
        )),
    }
}

fn last_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().lines().last().unwrap_or("no reason").to_owned()
}
