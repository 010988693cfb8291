//! The member's side of orders: who may ask for what, grants for one use, and the journal.
//!
//! An order that changes something takes two steps. It is prepared, which answers what would happen and
//! grants a permission; it is carried out with that permission, which is good for one use, for half a
//! minute by this machine's own clock, and for this run of the link. So an order that arrives late or twice
//! does nothing. What is carried out is noted before it is handed to the daemon, which runs it as it runs
//! a local command: through the writer and its re-check.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::{Client, Message};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::fleet_order::{
    ORDER_JOURNAL, OrderAnswer, OrderArguments, OrderAsk, OrderEntry, OrderJournal, OrderReply,
    OrderRule, OrderState, OrderedRun, OrderedRunResult, state_of_exit,
};
use model::helper::FleetRights;
use model::wire::FleetLevel;
use nkeys::KeyPair;
use serde_json::Value;
use sys::dropped::NoteDropped;

use crate::answer_parts::{HeldAnswers, decode_body};
use crate::daemon_client::{DaemonClient, DaemonClientError};
use crate::fleet_files::FleetDir;
use crate::operators_seen::SeenOperators;
use crate::record::{FleetOperator, OperatorList, RECORD_VERSION, read_ask, read_operators};
use crate::seal::{SealKind, seal_json};
use crate::terminal_stream::{StreamOpening, TerminalStreams, is_follow_up};
use crate::timeouts::{GRANT_LIFETIME, OPERATORS_TIMEOUT, VOID_TIME};

/// How many prepared orders there may be.
const MOST_GRANTS: usize = 64;

/// How many asks are answered at once, of one operator and of all.
const MOST_OF_OPERATOR: usize = 4;
const MOST_ASKS: usize = 16;

/// How many orders one operator may make void within [`VOID_TIME`].
const MOST_VOID: usize = 64;

/// Who answers orders, and by what right.
#[derive(Debug)]
pub struct OrderDesk {
    /// The member's id.
    me: String,
    /// The fleet's key.
    root: String,
    seal: KeyPair,
    daemon: DaemonClient,
    state: Mutex<DeskState>,
}

#[derive(Debug)]
struct DeskState {
    dir: FleetDir,
    journal: OrderJournal,
    grants: HashMap<String, OrderGrant>,
    asking: BTreeMap<String, usize>,
    held: HeldAnswers,
    operators_seen: SeenOperators,
    streams: TerminalStreams,
    void: Vec<VoidOrder>,
}

/// An order that was asked about before it came. It cannot come any more; nothing of it is left when whoever gave
/// it has given up.
#[derive(Debug)]
struct VoidOrder {
    id: String,
    asked_by: String,
    until: Instant,
}

/// A permission for one use.
#[derive(Debug)]
struct OrderGrant {
    id: String,
    operator: String,
    verb: String,
    arguments: OrderArguments,
    plan: Option<String>,
    until: Instant,
}

/// An ask that was verified.
struct VerifiedAsk {
    ask: OrderAsk,
    rule: &'static OrderRule,
    level: FleetLevel,
}

fn refused(reason: impl Into<String>, hint: &str) -> OrderReply {
    OrderReply::Refused { reason: reason.into(), hint: hint.to_owned() }
}

/// Level, operator and verb of an order's subject; none of anything that is not shaped like one.
fn parse_subject<'a>(me: &str, subject: &'a str) -> Option<(FleetLevel, &'a str, &'a str)> {
    let mut parts = subject.strip_prefix("ostler.v1.ask.")?.strip_prefix(me)?.split('.').skip(1);
    let level = FleetLevel::parse(parts.next()?)?;
    let (operator, verb) = (parts.next()?, parts.next()?);
    let is_shaped = parts.next().is_none() && level > FleetLevel::None;
    is_shaped.then_some((level, operator, verb))
}

impl OrderDesk {
    /// Opens the desk of a member; the journal of earlier runs is read, their grants are void.
    pub fn open(
        home_dir: FleetDir,
        me: &str,
        root: &str,
        seal: KeyPair,
        daemon: DaemonClient,
    ) -> Self {
        let name = journal_name();
        let journal = home_dir.read_json(name).ok().flatten().unwrap_or_default();
        let operators_seen = SeenOperators::read(&home_dir, root);
        let state = DeskState {
            dir: home_dir,
            journal,
            grants: HashMap::new(),
            asking: BTreeMap::new(),
            held: HeldAnswers::default(),
            operators_seen,
            streams: TerminalStreams::default(),
            void: Vec::new(),
        };
        Self { me: me.to_owned(), root: root.to_owned(), seal, daemon, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, DeskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one message, if it is an order.
    pub async fn answer_message(self: Arc<Self>, client: Client, message: Message) {
        let Some((level, operator, verb)) = parse_subject(&self.me, &message.subject) else {
            return;
        };
        let Some(back) = message.reply.clone() else { return };
        let Some(_place) = AskPlace::take(&self, operator) else {
            return self.send_reply(&client, back, "", OrderReply::Busy).await;
        };
        let verified = self.verify_ask(&client, level, operator, verb, &message.payload).await;
        let (id, reply) = match verified {
            Ok(verified) => (verified.ask.id.clone(), self.carry_out(&client, verified).await),
            Err((id, reply)) => (id, reply),
        };
        self.send_reply(&client, back, &id, reply).await;
    }

    async fn send_reply(
        &self,
        client: &Client,
        back: async_nats::Subject,
        id: &str,
        reply: OrderReply,
    ) {
        let (v, id, from) = (RECORD_VERSION, id.to_owned(), self.me.clone());
        let answer = OrderAnswer { v, id, from, reply };
        let Ok(sealed) = seal_json(&self.seal, SealKind::Answer, &answer) else { return };
        client.publish(back, sealed.into()).await.note_dropped("the answer to an order");
    }

    /// Checks seal, operator list, addressee, level and permission, in this order.
    async fn verify_ask(
        &self,
        client: &Client,
        level: FleetLevel,
        operator: &str,
        verb: &str,
        payload: &[u8],
    ) -> Result<VerifiedAsk, (String, OrderReply)> {
        let without_id = |reply: OrderReply| (String::new(), reply);
        // What is allowed is looked up for every order, also for what is typed into an attachment.
        let (list, allow) = tokio::join!(self.read_list(client), self.read_allow());
        let list = list.map_err(without_id)?;
        let found = list.operators.iter().find(|one| one.name == operator);
        let found = found.ok_or_else(|| {
            without_id(refused(
                format!("`{operator}` is no operator of this fleet"),
                "`ostler fleet operator` on the hub lists them",
            ))
        })?;
        check_operator(found).map_err(without_id)?;
        let ask = read_ask(&found.seal, payload).map_err(|error| {
            without_id(refused(format!("the order cannot be believed: {error}"), "give it again"))
        })?;
        let id = ask.id.clone();
        let is_for_us = ask.to == self.me && ask.from == operator;
        if !is_for_us || ask.verb != verb || ask.level != level {
            return Err((id, refused("the order names something else than its subject", "")));
        }
        let rule = OrderRule::of_verb(verb).ok_or_else(|| {
            let hint = "`ostler help fleet` lists what can be; update ostler there";
            (id.clone(), refused(format!("`{verb}` cannot be ordered from afar"), hint))
        })?;
        let needed = rule.level_of(&ask.args);
        let said = |reason: String, hint: &str| (id.clone(), refused(reason, hint));
        if needed != level || found.level < level {
            return Err(said(
                format!("that takes the level `{}`", needed.as_str()),
                "`ostler fleet operator NAME --level LEVEL` on the hub raises it",
            ));
        }
        let allow = allow.map_err(|reply| (id.clone(), reply))?;
        if allow < level {
            return Err(said(
                format!(
                    "this member lets operators do `{}`, and that takes `{}`",
                    allow.as_str(),
                    level.as_str()
                ),
                "`allow` under [fleet] in its own configuration raises it",
            ));
        }
        rule.check_arguments(&ask.args).map_err(|reason| said(reason, "leave it out"))?;
        Ok(VerifiedAsk { ask, rule, level })
    }

    /// The operator list as the hub has it; one that is older than one that was seen is refused.
    async fn read_list(&self, client: &Client) -> Result<OperatorList, OrderReply> {
        let asking = client.request("ostler.v1.own.operators", "".into());
        let answer = tokio::time::timeout(OPERATORS_TIMEOUT, asking).await;
        let failed =
            || refused("this member cannot learn who is an operator now", "try again in a moment");
        let answer = answer.map_err(|_| failed())?.map_err(|_| failed())?;
        let list = read_operators(&self.root, &answer.payload).map_err(|_| failed())?;
        let DeskState { dir, operators_seen, .. } = &mut *self.lock();
        let noted = operators_seen.note(dir, &self.root, list.version);
        noted.map_err(|(reason, hint)| refused(reason, &hint))?;
        Ok(list)
    }

    /// What this home's settings let operators do now.
    async fn read_allow(&self) -> Result<FleetLevel, OrderReply> {
        let rights: Result<FleetRights, _> =
            self.daemon.get("/v1/net/rights", Duration::ZERO).await;
        rights.map(|rights| rights.allow).map_err(|error| {
            let hint = "`ostler daemon status` there tells more";
            refused(format!("this member cannot tell what it allows: {error}"), hint)
        })
    }

    async fn carry_out(&self, client: &Client, verified: VerifiedAsk) -> OrderReply {
        let VerifiedAsk { ask, rule, level } = verified;
        if rule.streams && (is_follow_up(&ask) || level == FleetLevel::Read || ask.grant.is_some())
        {
            return self.attend_terminal(client, &ask, rule, level).await;
        }
        if let Some(from) = ask.cursor {
            return self.lock().held.next_part(&ask, from);
        }
        match (level, &ask.grant) {
            (FleetLevel::Read, _) => self.read_for(&ask, rule).await,
            (_, None) => self.prepare(&ask, rule, level).await,
            (_, Some(grant)) => self.commit(&ask, rule, level, grant).await,
        }
    }

    async fn read_for(&self, ask: &OrderAsk, rule: &OrderRule) -> OrderReply {
        if rule.command == "outcome" && !self.void_unknown(ask) {
            return OrderReply::Busy;
        }
        match self.run_there(&ask.verb, &ask.args, ask.json).await {
            Ok(result) => self.lock().held.reply_in_parts(ask, result),
            Err(DaemonClientError::Refused { reason, .. }) => refused(reason, ""),
            Err(error) => refused(error.to_string(), "`ostler daemon status` there tells more"),
        }
    }

    /// An order that is asked about and was never noted cannot come any more: otherwise *not applied*
    /// would be a guess. Nothing is written for that: with the run its grants end too. Whether there was room.
    fn void_unknown(&self, ask: &OrderAsk) -> bool {
        let Some(id) = ask.args.words.first() else { return true };
        let mut state = self.lock();
        if state.journal.find(id).is_some() || id.len() > 64 || state.is_void(id) {
            return true;
        }
        if state.void.iter().filter(|one| one.asked_by == ask.from).count() >= MOST_VOID {
            return false;
        }
        state.grants.retain(|_, grant| grant.id != *id);
        let (id, asked_by, until) = (id.clone(), ask.from.clone(), Instant::now() + VOID_TIME);
        state.void.push(VoidOrder { id, asked_by, until });
        true
    }

    async fn prepare(&self, ask: &OrderAsk, rule: &OrderRule, level: FleetLevel) -> OrderReply {
        let plan = match rule.command {
            "gc" => match self.plan_of(ask).await {
                Ok(plan) => Some(plan),
                Err(reply) => return reply,
            },
            _ => None,
        };
        let Ok(random) = sys::random::random_bytes::<16>() else { return OrderReply::Busy };
        let grant = model::hex::to_hex(&random);
        let mut state = self.lock();
        if state.is_void(&ask.id) {
            return refused("it was asked about before it came; nothing was done", "give it again");
        }
        state.grants.retain(|_, grant| grant.until > Instant::now());
        if state.grants.len() >= MOST_GRANTS {
            return OrderReply::Busy;
        }
        state.grants.insert(
            grant.clone(),
            OrderGrant {
                id: ask.id.clone(),
                operator: ask.from.clone(),
                verb: ask.verb.clone(),
                arguments: ask.args.clone(),
                plan: plan.clone(),
                until: Instant::now() + GRANT_LIFETIME,
            },
        );
        let would =
            format!("{}: {}", level.as_str(), rule.command_line(&ask.args, false).join(" "));
        let expires_ms = model::time::whole_millis(GRANT_LIFETIME);
        OrderReply::Prepared { grant, expires_ms, would, plan }
    }

    /// The plan that a collection is bound to: what would go now.
    async fn plan_of(&self, ask: &OrderAsk) -> Result<String, OrderReply> {
        let mut preview = ask.args.clone();
        preview.options.remove("yes");
        let wanted = preview.options.remove("plan").and_then(|values| values.into_iter().next());
        let run = self.run_there("gc", &preview, true).await;
        let run = run.map_err(|error| refused(error.to_string(), ""))?;
        let body: Value = decode_body(&run)
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let Some(plan) = body.pointer("/result/plan").and_then(Value::as_str) else {
            let reason = body.pointer("/error/message").and_then(Value::as_str);
            return Err(refused(reason.unwrap_or("there is no plan"), "look at it: `ostler gc`"));
        };
        match wanted.filter(|wanted| wanted != plan) {
            None => Ok(plan.to_owned()),
            Some(_) => Err(refused(
                format!("the plan is another one now ({plan})"),
                "look at it again: `ostler gc`",
            )),
        }
    }

    /// Joins a terminal for an operator, or does what is said about one that was joined.
    async fn attend_terminal(
        &self,
        client: &Client,
        ask: &OrderAsk,
        rule: &OrderRule,
        level: FleetLevel,
    ) -> OrderReply {
        if is_follow_up(ask) {
            return self.lock().streams.follow_up(ask, level);
        }
        if !self.lock().streams.has_room() {
            return OrderReply::Busy;
        }
        let entry = match &ask.grant {
            Some(grant) => match self.use_grant(ask, rule, level, grant) {
                Ok((entry, _)) => Some(entry),
                Err(reply) => return reply,
            },
            None => None,
        };
        let (me, daemon, seal) = (&self.me, &self.daemon, self.seal.clone());
        let opening = StreamOpening { me, client, daemon, seal };
        let joined = opening.join_terminal(ask).await;
        if let Some(entry) = entry {
            let is_joined = joined.is_ok();
            let state = if is_joined { OrderState::Applied } else { OrderState::NotApplied };
            self.lock().note(OrderEntry { state, exit: is_joined.then_some(0), ..entry });
        }
        match joined {
            Err(reply) => reply,
            Ok((welcome, connection)) => {
                let words = self.lock().streams.begin(ask);
                opening.start_stream(ask, connection, words);
                let welcome = serde_json::to_vec(&welcome).unwrap_or_default();
                OrderReply::Done { exit: 0, body: STANDARD.encode(welcome), cursor: None }
            }
        }
    }

    /// Uses up a permission and notes the order, before anything is done: whoever asks afterwards is told the
    /// truth.
    fn use_grant(
        &self,
        ask: &OrderAsk,
        rule: &OrderRule,
        level: FleetLevel,
        grant: &str,
    ) -> Result<(OrderEntry, Option<String>), OrderReply> {
        let entry = OrderEntry {
            id: ask.id.clone(),
            operator: ask.from.clone(),
            level,
            command: rule.command.to_owned(),
            at: sys::clock::now(),
            state: OrderState::Begun,
            exit: None,
            receipt: None,
        };
        let mut state = self.lock();
        let granted = state.grants.remove(grant).filter(|granted| granted.is_for(ask));
        let Some(granted) = granted.filter(|_| state.journal.find(&ask.id).is_none()) else {
            return Err(refused(
                "its permission was used, has expired, or is of an earlier run; \
                 nothing was done now",
                "`ostler --host NAME outcome ID` tells what became of it; else give it again",
            ));
        };
        match state.note(entry.clone()) {
            true => Ok((entry, granted.plan)),
            false => {
                Err(refused("it cannot be noted here, so nothing was done", "look at its disk"))
            }
        }
    }

    async fn commit(
        &self,
        ask: &OrderAsk,
        rule: &OrderRule,
        level: FleetLevel,
        grant: &str,
    ) -> OrderReply {
        let (entry, plan) = match self.use_grant(ask, rule, level, grant) {
            Ok(used) => used,
            Err(reply) => return reply,
        };
        let mut args = ask.args.clone();
        args.options.extend(plan.map(|plan| ("plan".to_owned(), vec![plan])));
        sys::pause::pause_at("fleet.order.noted");
        let run = self.run_there(&ask.verb, &args, ask.json).await;
        sys::pause::pause_at("fleet.order.done");
        let (entry, reply) = match run {
            Ok(result) => {
                let receipt = decode_body(&result)
                    .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
                    .and_then(|body| Some(body.pointer("/result/receipt")?.as_str()?.to_owned()));
                let state = state_of_exit(result.exit);
                let exit = Some(result.exit);
                (
                    OrderEntry { state, exit, receipt, ..entry },
                    self.lock().held.reply_in_parts(ask, result),
                )
            }
            // It said no before it began.
            Err(DaemonClientError::Refused { reason, .. }) => {
                (OrderEntry { state: OrderState::NotApplied, ..entry }, refused(reason, ""))
            }
            Err(error) => (
                OrderEntry { state: OrderState::Unknown, ..entry },
                OrderReply::Unknown { reason: error.to_string() },
            ),
        };
        self.lock().note(entry);
        reply
    }

    async fn run_there(
        &self,
        verb: &str,
        args: &OrderArguments,
        json: bool,
    ) -> Result<OrderedRunResult, DaemonClientError> {
        let run = OrderedRun { verb: verb.to_owned(), args: args.clone(), json };
        self.daemon.post("/v1/net/order", &run).await
    }
}

/// The journal's name in the fleet's directory.
fn journal_name() -> &'static str {
    ORDER_JOURNAL.rsplit('/').next().unwrap_or(ORDER_JOURNAL)
}

fn check_operator(operator: &FleetOperator) -> Result<(), OrderReply> {
    match operator.not_after.filter(|end| *end < sys::clock::now()) {
        None => Ok(()),
        Some(end) => Err(refused(
            format!("`{}` was an operator until {end}", operator.name),
            "`ostler fleet operator` on the hub lists them",
        )),
    }
}

impl OrderGrant {
    fn is_for(&self, ask: &OrderAsk) -> bool {
        self.until > Instant::now()
            && (&self.id, &self.operator, &self.verb) == (&ask.id, &ask.from, &ask.verb)
            && self.arguments == ask.args
    }
}

impl DeskState {
    /// Whether an order was asked about before it came.
    fn is_void(&mut self, id: &str) -> bool {
        self.void.retain(|one| one.until > Instant::now());
        self.void.iter().any(|one| one.id == id)
    }

    /// Writes the journal; whether that worked.
    fn note(&mut self, entry: OrderEntry) -> bool {
        self.journal.note(entry);
        let written = self.dir.write_json(journal_name(), &self.journal);
        let is_written = written.is_ok();
        written.note_dropped("the journal of orders");
        is_written
    }
}

/// One of the places at the desk, for as long as the value lives.
struct AskPlace<'a> {
    desk: &'a OrderDesk,
    operator: String,
}

impl<'a> AskPlace<'a> {
    fn take(desk: &'a OrderDesk, operator: &str) -> Option<Self> {
        let mut state = desk.lock();
        let all: usize = state.asking.values().sum();
        let own = state.asking.entry(operator.to_owned()).or_default();
        if *own >= MOST_OF_OPERATOR || all >= MOST_ASKS {
            return None;
        }
        *own += 1;
        Some(Self { desk, operator: operator.to_owned() })
    }
}

impl Drop for AskPlace<'_> {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        let left = state.asking.get(&self.operator).copied().unwrap_or(0).saturating_sub(1);
        match left {
            0 => state.asking.remove(&self.operator),
            left => state.asking.insert(self.operator.clone(), left),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_subjects_of_the_right_shape_are_orders() {
        let read = |subject: &str| parse_subject("me", subject).map(|(level, ..)| level);
        assert_eq!(read("ostler.v1.ask.me.read.ada.show"), Some(FleetLevel::Read));
        for subject in [
            "ostler.v1.ask.me.none.ada.show",
            "ostler.v1.ask.me.read.ada",
            "ostler.v1.ask.me.read.ada.show.more",
            "ostler.v1.ask.you.read.ada.show",
            "ostler.v1.out.me.state.lease",
            "_INBOX.me.x",
            "",
        ] {
            assert_eq!(read(subject), None, "{subject}");
        }
    }
}
