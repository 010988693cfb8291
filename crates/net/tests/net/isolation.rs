//! What a member or an operator with valid keys tries to do to others. Each of these works in a shared account.

use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use bytes::Bytes;
use futures_util::StreamExt;
use net::fleet_files::{FleetDir, LINK_SEED, MemberFile, OPERATOR_LINK_SEED};
use net::hub::Hub;
use net::nats::{HubConnection, HubError, HubLogin, PutError, StoredRecord, connect_hub};
use serde_json::json;
use testkit::home::TempHome;

use super::fleet_kit::TestHub;
use super::kit::PATIENCE;

/// A hub, a member that attacks, a member that is attacked, and the hub's own eyes.
struct Siege {
    hub: TestHub,
    attacker: Intruder,
    attacked: Intruder,
    /// The id of the one that is attacked.
    victim: String,
    admin: HubConnection,
}

struct Intruder {
    home: TempHome,
    file: MemberFile,
}

impl Intruder {
    fn of(home: TempHome) -> Self {
        let dir = FleetDir::open(&home.join(".local/state/ostler"), "fleet").unwrap().unwrap();
        let file = dir.read_json("member.json").unwrap().unwrap();
        Self { home, file }
    }

    async fn login(
        &self,
        seed: &str,
        inbox: &str,
        timeout: Duration,
    ) -> Result<HubConnection, HubError> {
        let dir = FleetDir::open(&self.home.join(".local/state/ostler"), "fleet").unwrap().unwrap();
        let key = dir.need_key(seed).unwrap();
        let login = HubLogin {
            url: &self.file.url,
            ca: self.file.ca.as_deref(),
            key: &key,
            inbox,
            timeout,
            stays: false,
        };
        connect_hub(&login).await
    }

    async fn as_member(&self) -> HubConnection {
        self.login(LINK_SEED, &self.file.id, PATIENCE).await.unwrap()
    }

    async fn as_operator(&self) -> HubConnection {
        self.login(OPERATOR_LINK_SEED, &self.file.name, PATIENCE).await.unwrap()
    }
}

impl Siege {
    async fn lay() -> Self {
        let hub = TestHub::start(&["--plain"]);
        let victim = Intruder::of(hub.join("victim", "read"));
        let attacker = Intruder::of(hub.join("attacker", "reap"));
        let opened = Hub::open(&hub.home.join(".local/state/ostler")).unwrap();
        let admin = opened.connect_admin().await.unwrap();
        let mut own = victim.as_member().await;
        let id = victim.file.id.clone();
        own.put_record(&page(&id), None, b"the victim's page".to_vec()).await.unwrap();
        own.put_record(&format!("$KV.lease.{id}"), None, b"lease".to_vec()).await.unwrap();
        Self { hub, attacker, attacked: victim, victim: id, admin }
    }

    /// Everything that the hub has of the victim.
    async fn victims_records(&mut self) -> Vec<(String, Bytes)> {
        let mut found = Vec::new();
        for (bucket, filter) in [("inv", "$KV.inv"), ("lease", "$KV.lease")] {
            let subject = format!("$JS.API.DIRECT.GET.KV_{bucket}");
            let filter =
                format!("{filter}.{}{}", self.victim, if bucket == "inv" { ".>" } else { "" });
            let records = self.admin.read_records(&subject, &filter, Duration::from_secs(5)).await;
            let pair = |one: StoredRecord| (one.subject, one.bytes);
            found.extend(records.unwrap().into_iter().map(pair));
        }
        found
    }

    async fn assert_intact(&mut self) {
        let found = self.victims_records().await;
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].1, Bytes::from_static(b"the victim's page"));
        assert_eq!(found[1].1, Bytes::from_static(b"lease"));
    }
}

fn page(id: &str) -> String {
    format!("$KV.inv.{id}.active.0")
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

fn headers(name: &'static str, value: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(name, value);
    headers
}

fn is_refused<T>(answer: &Result<T, PutError>) -> bool {
    matches!(answer, Err(PutError::Hub(HubError::Refused(_))))
}

#[test]
fn row_3_own_lease_and_pages_are_accepted() {
    run(async {
        let mut siege = Siege::lay().await;
        let me = siege.attacker.file.id.clone();
        let mut member = siege.attacker.as_member().await;
        member.put_record(&format!("$KV.lease.{me}"), None, b"mine".to_vec()).await.unwrap();
        for name in net::record::page_names() {
            let subject = format!("$KV.inv.{me}.{name}");
            member.put_record(&subject, None, name.clone().into_bytes()).await.unwrap();
        }
        let found = siege
            .admin
            .read_records(
                "$JS.API.DIRECT.GET.KV_inv",
                &format!("$KV.inv.{me}.>"),
                Duration::from_secs(5),
            )
            .await
            .unwrap();
        assert_eq!(found.len(), 16);
        assert!(found.iter().all(|one| one.subject.as_bytes().ends_with(&one.bytes)), "{found:?}");
    });
}

#[test]
fn row_4_a_foreign_key_is_refused_within_a_second() {
    run(async {
        let mut siege = Siege::lay().await;
        let mut member = siege.attacker.as_member().await;
        let mut quickest = Duration::MAX;
        for subject in [
            page(&siege.victim),
            format!("$KV.lease.{}", siege.victim),
            "$KV.meta.operators".to_owned(),
            "$JS.API.STREAM.INFO.KV_lease".to_owned(),
            "$JS.API.STREAM.PURGE.KV_inv".to_owned(),
        ] {
            let begun = Instant::now();
            let answer = member.put_record(&subject, None, b"forged".to_vec()).await;
            assert!(is_refused(&answer), "{subject}: {answer:?}");
            quickest = quickest.min(begun.elapsed());
        }
        // Every one is told and none is a time-out; a busy machine may delay some of them.
        assert!(quickest < Duration::from_secs(1), "{quickest:?}");
        siege.assert_intact().await;
    });
}

#[test]
fn row_13_a_seventeenth_page_and_one_byte_too_many_are_refused() {
    run(async {
        let mut siege = Siege::lay().await;
        let me = siege.attacker.file.id.clone();
        let mut member = siege.attacker.as_member().await;
        member.put_record(&page(&me), None, vec![b'x'; 98_304]).await.unwrap();
        let too_large = member.put_record(&page(&me), None, vec![b'x'; 98_305]).await;
        assert!(is_refused(&too_large), "{too_large:?}");
        for name in ["active.8", "ended.8", "other.0", "active.0.more"] {
            let subject = format!("$KV.inv.{me}.{name}");
            let answer = member.put_record(&subject, None, b"more".to_vec()).await;
            assert!(is_refused(&answer), "{subject}: {answer:?}");
        }
        siege.assert_intact().await;
    });
}

/// Puts the attacker's own page with a header, and what the engine answers.
async fn put_with_header(siege: &Siege, name: &'static str, value: &str) -> String {
    let mut member = siege.attacker.as_member().await;
    let subject = page(&siege.attacker.file.id);
    let answer = member.ask(&subject, headers(name, value), "x".into()).await.unwrap();
    String::from_utf8_lossy(&answer.payload).into_owned()
}

#[test]
fn row_5_a_roll_up_is_refused_and_everybodys_keys_stay() {
    run(async {
        let mut siege = Siege::lay().await;
        for value in ["all", "sub"] {
            let answer = put_with_header(&siege, "Nats-Rollup", value).await;
            assert!(answer.contains("error"), "{value}: {answer}");
            siege.assert_intact().await;
        }
    });
}

#[test]
fn row_6_a_record_that_never_expires_is_refused() {
    run(async {
        let mut siege = Siege::lay().await;
        for value in ["never", "1h"] {
            let answer = put_with_header(&siege, "Nats-TTL", value).await;
            assert!(answer.contains("error"), "{value}: {answer}");
        }
        siege.assert_intact().await;
    });
}

/// Has the hub answer the attacker at subjects of the victim: nothing is changed, and nothing comes there.
async fn aim_replies(siege: &mut Siege, source: &str, targets: &[String]) {
    let (me, victim) = (siege.attacker.file.id.clone(), siege.victim.clone());
    let asks = format!("ostler.v1.ask.{victim}.>");
    let mut attacked = siege.attacked.as_member().await;
    let mut heard = attacked.client.subscribe(asks).await.unwrap();
    wait_until_heard(&mut attacked).await;
    let mut member = siege.attacker.as_member().await;
    for target in targets {
        let (source, target) = (source.to_owned(), target.clone());
        member.client.publish_with_reply(source, target, "evil".into()).await.unwrap();
    }
    // Whatever the hub makes of them it has made before it answers these.
    for fence in [page(&me), "ostler.v1.own.lease".to_owned()] {
        drop(member.ask(&fence, HeaderMap::new(), "fence".into()).await);
    }
    siege.assert_intact().await;
    let operator = siege.attacker.as_operator().await;
    let fence = format!("ostler.v1.ask.{victim}.read.attacker.fence");
    operator.client.publish(fence, "fence".into()).await.unwrap();
    let first = tokio::time::timeout(PATIENCE, heard.next()).await.unwrap().unwrap();
    assert_eq!(first.payload, Bytes::from_static(b"fence"), "something arrived before: {first:?}");
}

#[test]
fn row_7_a_put_with_a_reply_aimed_at_anothers_page_changes_nothing() {
    run(async {
        let mut siege = Siege::lay().await;
        let (me, victim) = (siege.attacker.file.id.clone(), siege.victim.clone());
        let targets = [page(&victim), format!("$KV.lease.{victim}")];
        aim_replies(&mut siege, &page(&me), &targets).await;
    });
}

#[test]
fn row_8_a_put_with_a_reply_aimed_at_anothers_orders_reaches_nobody() {
    run(async {
        let mut siege = Siege::lay().await;
        let (me, victim) = (siege.attacker.file.id.clone(), siege.victim.clone());
        let targets = [format!("ostler.v1.ask.{victim}.reap.attacker.destroy")];
        aim_replies(&mut siege, &page(&me), &targets).await;
    });
}

#[test]
fn row_9_a_read_of_the_own_lease_with_such_a_reply_changes_nothing() {
    run(async {
        let mut siege = Siege::lay().await;
        let (me, victim) = (siege.attacker.file.id.clone(), siege.victim.clone());
        let mut member = siege.attacker.as_member().await;
        member.put_record(&format!("$KV.lease.{me}"), None, b"evil".to_vec()).await.unwrap();
        drop(member);
        let targets = [
            page(&victim),
            format!("$KV.lease.{victim}"),
            format!("ostler.v1.ask.{victim}.reap.attacker.destroy"),
        ];
        aim_replies(&mut siege, "ostler.v1.own.lease", &targets).await;
    });
}

#[test]
fn row_10_an_operator_cannot_have_the_hub_write_either() {
    run(async {
        let mut siege = Siege::lay().await;
        let victim = siege.victim.clone();
        let mut attacked = siege.attacked.as_member().await;
        let asks = format!("ostler.v1.ask.{victim}.>");
        let mut heard = attacked.client.subscribe(asks).await.unwrap();
        wait_until_heard(&mut attacked).await;
        let mut operator = siege.attacker.as_operator().await;
        let question = json!({ "seq": 1, "next_by_subj": "$KV.meta.>", "batch": 10 }).to_string();
        for target in [page(&victim), format!("ostler.v1.ask.{victim}.reap.attacker.destroy")] {
            for what in ["lease", "inv", "meta", "clock"] {
                let source = format!("ostler.v1.get.main.{what}");
                let question = Bytes::from(question.clone());
                operator.client.publish_with_reply(source, target.clone(), question).await.unwrap();
            }
        }
        // Whatever the hub makes of them it has made before it answers these.
        for what in ["lease", "inv", "meta", "clock"] {
            let source = format!("ostler.v1.get.main.{what}");
            drop(operator.ask(&source, HeaderMap::new(), question.clone().into()).await);
        }
        let fence = format!("ostler.v1.ask.{victim}.read.attacker.fence");
        operator.client.publish(fence, "fence".into()).await.unwrap();
        let first = tokio::time::timeout(PATIENCE, heard.next()).await.unwrap().unwrap();
        assert_eq!(first.payload, Bytes::from_static(b"fence"), "before it came {first:?}");
        siege.assert_intact().await;
    });
}

#[test]
fn row_11_neither_members_nor_operators_make_consumers() {
    run(async {
        let siege = Siege::lay().await;
        let me = &siege.attacker.file.id;
        let own = [siege.attacker.as_member().await, siege.attacker.as_operator().await];
        for mut client in own {
            let deliver = format!("_INBOX.{me}.x");
            let config = json!({
                "stream_name": "KV_inv", "config": { "deliver_subject": deliver, "name": "evil" }
            });
            for subject in [
                "$JS.API.CONSUMER.CREATE.KV_inv",
                "$JS.API.CONSUMER.CREATE.KV_inv.evil",
                "$JS.API.CONSUMER.DURABLE.CREATE.KV_inv.evil",
            ] {
                let refused = client.ask_engine(subject, &config).await;
                assert!(matches!(refused, Err(HubError::Refused(_))), "{subject}: {refused:?}");
            }
        }
    });
}

#[test]
fn row_14_nobody_subscribes_to_inboxes_buckets_and_orders_of_others() {
    run(async {
        let siege = Siege::lay().await;
        let victim = &siege.victim;
        let own = [siege.attacker.as_member().await, siege.attacker.as_operator().await];
        for (at, mut client) in own.into_iter().enumerate() {
            for subject in [
                "_INBOX.>".to_owned(),
                format!("_INBOX.{victim}.>"),
                "$KV.>".to_owned(),
                ">".to_owned(),
                format!("ostler.v1.ask.{victim}.>"),
                "$SYS.>".to_owned(),
            ] {
                let _subscription = client.client.subscribe(subject.clone()).await.unwrap();
                let refused = next_refusal(&mut client).await;
                assert!(refused.is_some(), "{subject} is not refused ({at})");
            }
        }
    });
}

#[test]
fn row_12_a_message_id_of_another_drops_nothing_unnoticed() {
    run(async {
        let siege = Siege::lay().await;
        let me = siege.attacker.file.id.clone();
        let mut member = siege.attacker.as_member().await;
        let subject = page(&me);
        let mut answers = Vec::new();
        for payload in ["one", "two"] {
            let sent = member.ask(&subject, headers("Nats-Msg-Id", "same"), payload.into()).await;
            answers.push(net::nats::read_put_answer(&sent.unwrap().payload));
        }
        assert!(answers[0].is_ok(), "{answers:?}");
        assert!(
            matches!(&answers[1], Err(PutError::Hub(HubError::Refused(why))) if why.contains("duplicate")),
            "what was acknowledged and not stored is an error: {answers:?}"
        );
        // Ours never sends one, so that nobody's window concerns it.
        member.put_record(&subject, None, b"three".to_vec()).await.unwrap();
        let mut admin = siege.admin;
        let found =
            admin.read_records("$JS.API.DIRECT.GET.KV_inv", &subject, Duration::from_secs(5)).await;
        assert_eq!(found.unwrap()[0].bytes, Bytes::from_static(b"three"));
    });
}

/// Waits until the hub has what a member sent before. A flush only sends it; what is refused behind it proves that.
async fn wait_until_heard(member: &mut HubConnection) {
    member.client.publish("_R_.x", "unasked".into()).await.unwrap();
    assert!(next_refusal(member).await.is_some());
}

/// What the engine refuses of a connection, if it does so soon.
async fn next_refusal(connection: &mut HubConnection) -> Option<String> {
    let refusal = async {
        loop {
            let event = connection.events.recv().await?;
            if let Some(text) = net::nats::violation_in(&event) {
                return Some(text);
            }
        }
    };
    tokio::time::timeout(PATIENCE, refusal).await.ok().flatten()
}

#[test]
fn row_15_an_answer_that_nobody_asked_for_and_a_second_one_are_refused() {
    run(async {
        let siege = Siege::lay().await;
        let me = siege.attacker.file.id.clone();
        let mut member = siege.attacker.as_member().await;
        let operator = siege.attacker.as_operator().await;
        for subject in ["_INBOX.attacker.x", "_INBOX.victim.x", "_R_.x"] {
            member.client.publish(subject, "unasked".into()).await.unwrap();
            let refused = next_refusal(&mut member).await;
            assert!(refused.is_some(), "{subject}: an unasked answer is not refused");
        }
        let mut asks = member.client.subscribe(format!("ostler.v1.ask.{me}.>")).await.unwrap();
        wait_until_heard(&mut member).await;
        let subject = format!("ostler.v1.ask.{me}.read.attacker.show");
        let asking = operator.client.request(subject, "ask".into());
        let answering = async {
            let ask = asks.next().await.unwrap();
            let back = ask.reply.unwrap();
            for answer in ["first", "second"] {
                member.client.publish(back.clone(), answer.into()).await.unwrap();
            }
            next_refusal(&mut member).await
        };
        let (answer, refused) = tokio::join!(asking, answering);
        assert_eq!(answer.unwrap().payload, Bytes::from_static(b"first"));
        assert!(refused.is_some(), "a second answer is not refused");
    });
}

/// Connects with the member's key, and asks for its own lease.
async fn ask_as_member(member: &Intruder) -> Result<(), HubError> {
    let mut hub = member.login(LINK_SEED, &member.file.id, Duration::from_secs(5)).await?;
    hub.ask("ostler.v1.own.lease", HeaderMap::new(), "".into()).await.map(drop)
}

#[test]
fn row_16_a_third_connection_is_refused() {
    run(async {
        let siege = Siege::lay().await;
        let two = [siege.attacker.as_member().await, siege.attacker.as_member().await];
        let third = siege.attacker.login(LINK_SEED, &siege.attacker.file.id, PATIENCE).await;
        let why = match third {
            Err(error) => error.to_string(),
            // It is told that there are too many before it is cut.
            Ok(mut third) => {
                let cut = async {
                    loop {
                        match third.events.recv().await {
                            Some(async_nats::Event::ServerError(error)) => break error.to_string(),
                            Some(_) => {}
                            None => break String::new(),
                        }
                    }
                };
                tokio::time::timeout(PATIENCE, cut).await.unwrap_or_default()
            }
        };
        assert!(why.contains("maximum") && why.contains("connections"), "{why:?}");
        // With room again one of the same home is let in.
        drop(two);
        let begun = Instant::now();
        while let Err(error) = ask_as_member(&siege.attacker).await {
            assert!(begun.elapsed() < PATIENCE, "{error}");
        }
        drop(siege.hub);
    });
}

#[test]
fn an_operator_may_order_only_at_its_own_level_and_in_its_own_name() {
    run(async {
        let siege = Siege::lay().await;
        let hub = &siege.hub;
        let reader = Intruder::of(hub.join("reader", "read"));
        let mut reader = reader.as_operator().await;
        let victim = &siege.victim;
        for subject in [
            format!("ostler.v1.ask.{victim}.reap.reader.destroy"),
            format!("ostler.v1.ask.{victim}.drive.reader.prompt"),
            format!("ostler.v1.ask.{victim}.read.attacker.ls"),
        ] {
            let refused = reader.ask(&subject, HeaderMap::new(), "".into()).await;
            assert!(matches!(refused, Err(HubError::Refused(_))), "{subject}: {refused:?}");
        }
    });
}
