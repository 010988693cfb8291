//! The operator's side of orders: one command for one member or for many, through the hub or through ssh.
//!
//! What only reads is asked once, and may be asked again by ssh. What changes something is prepared and
//! then carried out; once that was sent, an answer that does not come means *not known*, and it is not sent
//! again.

use std::path::Path;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use model::fleet_order::{OrderAsk, OrderReply, OrderRule, OrderedRunResult};
use model::helper::{HelperFailure, HelperFailureKind, OrderReport, OrderRequest, OrderWay};
use model::wire::{FleetLevel, MemberState, MemberView};
use nkeys::KeyPair;
use tokio::sync::watch;

use crate::failure::internal_failure;
use crate::fleet::{FleetReader, find_view};
use crate::fleet_files::{OPERATOR_SEAL_SEED, read_member};
use crate::merge::merge_records;
use crate::nats::{HubConnection, HubError, violation_in};
use crate::record::{MemberCertificate, RECORD_VERSION, read_answer, read_certificate};
use crate::seal::{SealKind, seal_json};
use crate::ssh::{SSH_FAILED, run_by_ssh, unreachable_by_ssh};
use crate::timeouts::{
    BUSY_RETRY_PAUSE, ORDER_COMMIT_TIMEOUT, ORDER_PREPARE_TIMEOUT, ORDER_READ_TIMEOUT,
    SSH_RUN_TIMEOUT,
};

/// How many members are asked at once.
const MOST_AT_ONCE: usize = 16;

/// The most parts of one answer: 16 MiB.
const MOST_ANSWER_PARTS: usize = 400;

/// How many refusals of the hub are remembered; whoever misses one waits for its answer in vain.
const MOST_VIOLATIONS: usize = 4096;

/// How often a part of an answer is asked for.
const MOST_PART_TRIES: usize = 3;

/// What every ask of one order needs.
pub(crate) struct OrderPost<'a> {
    pub(crate) client: async_nats::Client,
    violations: watch::Receiver<Vec<String>>,
    seal: &'a KeyPair,
    operator: &'a str,
    request: &'a OrderRequest,
    rule: &'static OrderRule,
    level: FleetLevel,
}

/// A member that is to be asked.
pub(crate) struct OrderTarget {
    pub(crate) view: MemberView,
    pub(crate) certificate: Option<MemberCertificate>,
}

/// Gives an order, or asks a question.
pub async fn give_order(
    home: &Path,
    request: &OrderRequest,
) -> Result<Vec<OrderReport>, HelperFailure> {
    let rule = OrderRule::of_command(&request.command).ok_or_else(|| {
        HelperFailure::new(
            HelperFailureKind::Input,
            format!("`{}` cannot be ordered from afar", request.command),
            "`ostler help fleet` lists what can be",
        )
    })?;
    rule.check_arguments(&request.args).map_err(|reason| {
        HelperFailure::new(HelperFailureKind::Input, reason, "run it on that machine")
    })?;
    if rule.streams {
        return Err(internal_failure(&"what goes on is no order"));
    }
    let level = rule.level_of(&request.args);
    let reader = FleetReader::find(home)?;
    let seal = read_member(home).and_then(|(dir, _)| dir.read_key(OPERATOR_SEAL_SEED))?;
    if seal.is_none() && request.via != Some(OrderWay::Ssh) {
        return Err(HelperFailure::new(
            HelperFailureKind::Refused,
            "this home is no operator of its fleet",
            "`ostler fleet leave`, then `ostler fleet join --level LEVEL`",
        ));
    }
    let timeout = Duration::from_millis(request.timeout_ms);
    let connected = match request.via {
        Some(OrderWay::Ssh) => Err(HubError::NoResponders),
        _ => look_at_members(&reader, timeout).await,
    };
    match (connected, seal) {
        (Ok((hub, targets)), Some(seal)) => {
            let post = OrderPost::new(hub, &seal, &reader.inbox, request, rule);
            order_targets(&post, choose_targets(targets, request)?).await
        }
        (Err(error), _) => order_without_hub(request, rule, level, &error).await,
        (Ok(_), None) => Err(internal_failure(&"no key to seal with")),
    }
}

/// Connects, and reads who there is.
pub(crate) async fn look_at_members(
    reader: &FleetReader,
    timeout: Duration,
) -> Result<(HubConnection, Vec<OrderTarget>), HubError> {
    let begun = Instant::now();
    let mut hub = reader.connect(timeout).await?;
    let left = timeout.saturating_sub(begun.elapsed());
    let (records, _) = reader.read_through(&mut hub, None, left).await?;
    let picture = merge_records(&reader.root, &records, None);
    let certificate_of = |id: &str| {
        let subject = format!("$KV.meta.member.{id}");
        let record = records.meta.iter().rev().find(|record| record.subject == subject)?;
        read_certificate(&reader.root, id, &record.bytes).ok()
    };
    let targets = picture.members.into_iter().map(|mut view| {
        view.here = reader.me.as_deref() == Some(view.id.as_str());
        OrderTarget { certificate: certificate_of(&view.id), view }
    });
    Ok((hub, targets.collect()))
}

/// The members that are meant; without a name, all others that have not left.
pub(crate) fn choose_targets(
    targets: Vec<OrderTarget>,
    request: &OrderRequest,
) -> Result<Vec<OrderTarget>, HelperFailure> {
    if request.hosts.is_empty() {
        let is_meant = |one: &OrderTarget| !one.view.here && one.view.state != MemberState::Left;
        return Ok(targets.into_iter().filter(is_meant).collect());
    }
    let views: Vec<MemberView> = targets.iter().map(|one| one.view.clone()).collect();
    let mut ids = Vec::new();
    for host in &request.hosts {
        ids.push(find_view(&views, host)?.id.clone());
    }
    Ok(targets.into_iter().filter(|one| ids.contains(&one.view.id)).collect())
}

async fn order_targets(
    post: &OrderPost<'_>,
    targets: Vec<OrderTarget>,
) -> Result<Vec<OrderReport>, HelperFailure> {
    let orders = targets.into_iter().map(|target| order_target(post, target));
    let reports: Vec<Result<OrderReport, HelperFailure>> =
        futures_util::stream::iter(orders).buffered(MOST_AT_ONCE).collect().await;
    reports.into_iter().collect()
}

async fn order_target(
    post: &OrderPost<'_>,
    target: OrderTarget,
) -> Result<OrderReport, HelperFailure> {
    let id = sys::random::new_ulid().map_err(|error| internal_failure(&error))?;
    let name = target.view.name.clone();
    let (sent, done) = order_member(post, &target, &id).await;
    let by_hub =
        |done| OrderReport { member: name.clone(), id: id.clone(), via: OrderWay::Hub, done };
    let failed_to_reach = matches!(&done, Err(failure) if matches!(
        failure.kind,
        HelperFailureKind::Unreachable | HelperFailureKind::Timeout
    ));
    let own = target.certificate.as_ref().and_then(|certificate| certificate.ssh.as_deref());
    let ssh = post.request.ssh.get(&name).map(String::as_str).or(own);
    // A question may be asked again; an order only if nothing of it was sent.
    let may_try = failed_to_reach && (post.level == FleetLevel::Read || !sent);
    match ssh.filter(|_| may_try && post.request.via.is_none()) {
        None => Ok(by_hub(done)),
        Some(ssh) => {
            let done = order_by_ssh(ssh, post.request, post.rule, post.level, &name).await;
            Ok(OrderReport { member: name, id, via: OrderWay::Ssh, done })
        }
    }
}

/// Asks or orders through the hub; and whether anything was sent.
async fn order_member(
    post: &OrderPost<'_>,
    target: &OrderTarget,
    id: &str,
) -> (bool, Result<OrderedRunResult, HelperFailure>) {
    let view = &target.view;
    let certificate = match target.reached_certificate() {
        Ok(certificate) => certificate,
        Err(failure) => return (false, Err(failure)),
    };
    let ask = post.new_ask(&view.id, id);
    let done = match post.level {
        FleetLevel::Read => {
            let timeout = if post.rule.waits { ORDER_COMMIT_TIMEOUT } else { ORDER_READ_TIMEOUT };
            match post.send_ask(certificate, &ask, timeout).await {
                Ok(reply) => post.take_answer(certificate, &ask, reply).await,
                Err(error) => Err(lost_before(post.level, &view.name, &error)),
            }
        }
        _ => order_in_two_steps(post, certificate, ask, &view.name).await,
    };
    (true, done)
}

async fn order_in_two_steps(
    post: &OrderPost<'_>,
    certificate: &MemberCertificate,
    mut ask: OrderAsk,
    name: &str,
) -> Result<OrderedRunResult, HelperFailure> {
    let grant = match post.prepare_order(certificate, &ask, name).await? {
        OrderReply::Prepared { grant, .. } => grant,
        reply => return post.take_answer(certificate, &ask, reply).await,
    };
    sys::pause::pause_at("fleet.order.granted");
    ask.grant = Some(grant);
    match post.send_ask(certificate, &ask, ORDER_COMMIT_TIMEOUT).await {
        Ok(reply) => post.take_answer(certificate, &ask, reply).await,
        // It reached no member.
        Err(HubError::NoResponders) => Err(lost_before(post.level, name, &HubError::NoResponders)),
        Err(error) => Err(not_known(name, &ask.id, &error.to_string())),
    }
}

/// Nothing was done: it was only prepared, or only asked for.
pub(crate) fn lost_before(level: FleetLevel, name: &str, error: &HubError) -> HelperFailure {
    let hint = "`ostler fleet status` tells more; try again, or `--via ssh`";
    let late = match level {
        FleetLevel::Read => HelperFailureKind::Timeout,
        _ => HelperFailureKind::Unreachable,
    };
    let (kind, reason) = match error {
        HubError::Refused(_) => (HelperFailureKind::Refused, error.to_string()),
        HubError::TimedOut => (late, format!("`{name}` did not answer in time; nothing was done")),
        error => (HelperFailureKind::Unreachable, format!("`{name}` is not reached: {error}")),
    };
    HelperFailure::new(kind, reason, hint)
}

fn not_known(name: &str, id: &str, reason: &str) -> HelperFailure {
    HelperFailure::new(
        HelperFailureKind::MayHaveApplied,
        format!("`{name}` was given the order {id}, and its answer did not come: {reason}"),
        format!("do not repeat it: `ostler --host {name} outcome {id}` tells what became of it"),
    )
}

impl OrderTarget {
    /// What its answers are read with, if it can be asked through the hub.
    pub(crate) fn reached_certificate(&self) -> Result<&MemberCertificate, HelperFailure> {
        let view = &self.view;
        let unreachable = |reason: String, hint: &str| {
            HelperFailure::new(HelperFailureKind::Unreachable, reason, hint)
        };
        let certificate = self.certificate.as_ref().ok_or_else(|| {
            let reason = view.reason.clone().unwrap_or_default();
            unreachable(format!("`{}` cannot be read: {reason}", view.name), "")
        })?;
        if !view.state.vouches() {
            let since = view.since.map_or(String::new(), |since| format!(" since {since}"));
            let hint = "`ostler fleet status` tells more; `--via ssh` goes another way";
            let state = view.state.as_str();
            let reason = format!("`{}` is {state}{since}; nothing was sent", view.name);
            return Err(unreachable(reason, hint));
        }
        Ok(certificate)
    }
}

impl<'a> OrderPost<'a> {
    pub(crate) fn new(
        hub: HubConnection,
        seal: &'a KeyPair,
        operator: &'a str,
        request: &'a OrderRequest,
        rule: &'static OrderRule,
    ) -> Self {
        let HubConnection { client, events } = hub;
        let violations = watch_violations(events);
        let level = rule.level_of(&request.args);
        Self { client, violations, seal, operator, request, rule, level }
    }

    /// What is asked of a member.
    pub(crate) fn new_ask(&self, to: &str, id: &str) -> OrderAsk {
        OrderAsk {
            v: RECORD_VERSION,
            id: id.to_owned(),
            to: to.to_owned(),
            from: self.operator.to_owned(),
            level: self.level,
            verb: self.rule.verb(),
            args: self.request.args.clone(),
            json: self.request.json,
            grant: None,
            cursor: None,
        }
    }

    /// Asks for a permission.
    pub(crate) async fn prepare_order(
        &self,
        certificate: &MemberCertificate,
        ask: &OrderAsk,
        name: &str,
    ) -> Result<OrderReply, HelperFailure> {
        sys::pause::pause_at("fleet.order.ready");
        let prepared = self.send_ask(certificate, ask, ORDER_PREPARE_TIMEOUT).await;
        prepared.map_err(|error| lost_before(self.level, name, &error))
    }

    /// Sends one ask. What the hub refuses is told at once.
    pub(crate) async fn send_ask(
        &self,
        certificate: &MemberCertificate,
        ask: &OrderAsk,
        timeout: Duration,
    ) -> Result<OrderReply, HubError> {
        let sealed = seal_json(self.seal, SealKind::Ask, ask);
        let sealed = sealed.map_err(|error| HubError::Protocol(error.to_string()))?;
        let subject =
            format!("ostler.v1.ask.{}.{}.{}.{}", ask.to, ask.level.as_str(), ask.from, ask.verb);
        let request = async_nats::Request::new()
            .headers(HeaderMap::new())
            .payload(sealed.into())
            .timeout(Some(timeout));
        let asking = self.client.send_request(subject.clone(), request);
        let mut violations = self.violations.clone();
        // What was refused before is not about this one, even on the same subject.
        let known = violations.borrow().len();
        let answer = tokio::select! {
            answer = asking => answer.map_err(|error| match error.kind() {
                async_nats::RequestErrorKind::TimedOut => HubError::TimedOut,
                async_nats::RequestErrorKind::NoResponders => HubError::NoResponders,
                _ => HubError::Protocol(error.to_string()),
            })?,
            refusal = next_violation(&mut violations, known, &subject) => return Err(HubError::Refused(refusal)),
        };
        let answer = read_answer(certificate, &answer.payload)
            .map_err(|error| HubError::Protocol(format!("its answer: {error}")))?;
        // Asks that were refused before they were understood have no id.
        match answer.id == ask.id || answer.id.is_empty() {
            true => Ok(answer.reply),
            false => Err(HubError::Protocol("its answer is to another order".to_owned())),
        }
    }

    /// What a reply comes to, with the parts of a long answer.
    pub(crate) async fn take_answer(
        &self,
        certificate: &MemberCertificate,
        ask: &OrderAsk,
        reply: OrderReply,
    ) -> Result<OrderedRunResult, HelperFailure> {
        let name = &certificate.name;
        // What was carried out is never told as a fault that leaves open whether anything was done.
        let lost = |reason: &str| match ask.grant {
            Some(_) => not_known(name, &ask.id, reason),
            None => HelperFailure::new(
                HelperFailureKind::Timeout,
                format!("`{name}` was asked, and {reason}"),
                "try again in a moment",
            ),
        };
        let (exit, first, mut cursor) = match reply {
            OrderReply::Done { exit, body, cursor } => (exit, body, cursor),
            OrderReply::Refused { reason, hint } => {
                let reason = format!("`{name}` says: {reason}");
                return Err(HelperFailure::new(HelperFailureKind::Refused, reason, hint));
            }
            OrderReply::Busy => {
                return Err(HelperFailure::new(
                    HelperFailureKind::Busy,
                    format!("`{name}` has too much to do; nothing was done"),
                    "try again in a moment",
                ));
            }
            OrderReply::Unknown { reason } => return Err(not_known(name, &ask.id, &reason)),
            OrderReply::Prepared { .. } => return Err(lost("it answered something else")),
        };
        let decode = |body: String| STANDARD.decode(body).map_err(|error| lost(&error.to_string()));
        let mut whole = decode(first)?;
        for _ in 0..MOST_ANSWER_PARTS {
            if cursor.is_none() {
                break;
            }
            sys::pause::pause_at("fleet.order.rest");
            let next = OrderAsk { cursor, grant: None, ..ask.clone() };
            let (body, more) =
                self.fetch_part(certificate, &next).await.map_err(|why| lost(&why))?;
            whole.extend(decode(body)?);
            cursor = more;
        }
        if cursor.is_some() {
            return Err(lost("its answer has no end"));
        }
        Ok(OrderedRunResult { exit, body: STANDARD.encode(whole) })
    }
}

impl OrderPost<'_> {
    /// A later part of an answer. One that does not come is asked for again: nothing is done by that.
    async fn fetch_part(
        &self,
        certificate: &MemberCertificate,
        next: &OrderAsk,
    ) -> Result<(String, Option<u64>), String> {
        let mut why = String::new();
        for _ in 0..MOST_PART_TRIES {
            match self.send_ask(certificate, next, ORDER_PREPARE_TIMEOUT).await {
                Ok(OrderReply::Done { body, cursor, .. }) => return Ok((body, cursor)),
                Ok(OrderReply::Busy) => tokio::time::sleep(BUSY_RETRY_PAUSE).await,
                Ok(OrderReply::Refused { reason, .. }) => return Err(reason),
                Ok(_) => break,
                Err(error) => why = format!(": {error}"),
            }
        }
        Err(format!("the rest of its answer did not come{why}"))
    }
}

/// Collects what the hub refuses, for all who ask at once.
fn watch_violations(
    mut events: tokio::sync::mpsc::UnboundedReceiver<async_nats::Event>,
) -> watch::Receiver<Vec<String>> {
    let (tell, told) = watch::channel(Vec::new());
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            if let Some(text) = violation_in(&event) {
                tell.send_modify(|all: &mut Vec<String>| {
                    if all.len() < MOST_VIOLATIONS {
                        all.push(text);
                    }
                });
            }
        }
    });
    told
}

/// Whether the hub refuses this subject, or the inbox into which its answer would come.
fn is_about(violation: &str, subject: &str) -> bool {
    violation.contains(&format!("\"{subject}\"")) || violation.contains("\"_INBOX.")
}

/// The next refusal of a subject beyond those that are known.
async fn next_violation(
    told: &mut watch::Receiver<Vec<String>>,
    known: usize,
    subject: &str,
) -> String {
    let find = |all: &Vec<String>| {
        all.iter().skip(known).find(|violation| is_about(violation, subject)).cloned()
    };
    match told.wait_for(|all| find(all).is_some()).await {
        Ok(all) => find(&all).unwrap_or_default(),
        Err(_) => std::future::pending().await,
    }
}

/// Orders without a hub: only by ssh, and only to members whose way is known here.
async fn order_without_hub(
    request: &OrderRequest,
    rule: &'static OrderRule,
    level: FleetLevel,
    error: &HubError,
) -> Result<Vec<OrderReport>, HelperFailure> {
    let is_chosen = request.via == Some(OrderWay::Ssh);
    if request.via == Some(OrderWay::Hub) {
        return Err(error.clone().into());
    }
    let hosts: Vec<&String> = match request.hosts.is_empty() {
        true => request.ssh.keys().collect(),
        false => request.hosts.iter().collect(),
    };
    if hosts.is_empty() {
        return Err(error.clone().into());
    }
    let mut orders = Vec::new();
    for name in hosts {
        let Some(target) = request.ssh.get(name) else {
            return Err(match is_chosen {
                false => error.clone().into(),
                true => HelperFailure::new(
                    HelperFailureKind::NotFound,
                    format!("how ssh reaches `{name}` is not known"),
                    format!("write `{name} = \"user@machine\"` under [fleet.ssh]"),
                ),
            });
        };
        orders.push(async move {
            let id = sys::random::new_ulid().map_err(|error| internal_failure(&error))?;
            let done = order_by_ssh(target, request, rule, level, name).await;
            Ok(OrderReport { member: name.clone(), id, via: OrderWay::Ssh, done })
        });
    }
    let reports: Vec<Result<OrderReport, HelperFailure>> =
        futures_util::stream::iter(orders).buffered(MOST_AT_ONCE).collect().await;
    reports.into_iter().collect()
}

async fn order_by_ssh(
    target: &str,
    request: &OrderRequest,
    rule: &OrderRule,
    level: FleetLevel,
    name: &str,
) -> Result<OrderedRunResult, HelperFailure> {
    let timeout = match level == FleetLevel::Read && !rule.waits {
        true => ORDER_READ_TIMEOUT,
        false => SSH_RUN_TIMEOUT,
    };
    // One span for all of it.
    let begun = Instant::now();
    let left = |most: Duration| timeout.saturating_sub(begun.elapsed()).min(most);
    if level > FleetLevel::Read {
        // A member that cannot be reached for this was not sent the order either.
        let most = left(ORDER_READ_TIMEOUT);
        let greeting = run_by_ssh(target, &["version".to_owned()], most).await?;
        if greeting.exit != 0 {
            return Err(unreachable_by_ssh(target, &greeting.stderr));
        }
    }
    let words = rule.command_line(&request.args, request.json);
    let run = run_by_ssh(target, &words, left(timeout)).await;
    let lost = |reason: &str| {
        HelperFailure::new(
            HelperFailureKind::MayHaveApplied,
            format!("`{name}` was given the order by ssh, and its answer did not come: {reason}"),
            "do not repeat it; look at what it would have changed",
        )
    };
    match run {
        Ok(run) if run.exit == SSH_FAILED && level > FleetLevel::Read => Err(lost(&run.stderr)),
        Ok(run) if run.exit == SSH_FAILED => Err(unreachable_by_ssh(target, &run.stderr)),
        Ok(run) => Ok(OrderedRunResult { exit: run.exit, body: encode_run(&run) }),
        Err(failure) if level > FleetLevel::Read => Err(lost(&failure.message)),
        Err(failure) => Err(failure),
    }
}

/// What it printed; a command that only complained is quoted with that.
fn encode_run(run: &crate::ssh::SshRun) -> String {
    match run.stdout.is_empty() {
        true => STANDARD.encode(&run.stderr),
        false => STANDARD.encode(&run.stdout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_4_a_refusal_is_told_to_whoever_asked_for_it_and_to_nobody_else() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (tell, mut told) = watch::channel(Vec::new());
            let text =
                |subject: &str| format!("Permissions Violation for Publish to \"{subject}\"");
            tell.send_modify(|all| all.push(text("ask.a")));
            tell.send_modify(|all| all.push(text("ask.b.more")));
            let mut next = async |known, subject| {
                let refusal = next_violation(&mut told, known, subject);
                tokio::time::timeout(Duration::from_millis(20), refusal).await.ok()
            };
            assert_eq!(
                next(0, "ask.a").await,
                Some(text("ask.a")),
                "also when another one follows"
            );
            assert_eq!(next(0, "ask.b").await, None, "another subject");
            assert_eq!(next(2, "ask.a").await, None, "it was refused before this was asked");
            tell.send_modify(|all| all.push(text("_INBOX.ada.x")));
            assert_eq!(next(2, "ask.a").await, Some(text("_INBOX.ada.x")), "no answer can come");
        });
    }
}
