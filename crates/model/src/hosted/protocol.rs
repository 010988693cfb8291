//! The host protocol (RPC): every request that a terminal's host understands, with the type of its answer.
//!
//! One request per connection, one line of JSON each way, as agent-tty's clients send it:
//! `{id, method, params?}` and `{id, ok, result}` or `{id, ok, error}`. Both sides of that protocol are
//! strict: what the other does not know is refused. What ostler adds is therefore said only where it is
//! asked for, by a request whose `dialect` is `ostler`, and such a request is sent only to a host of ostler's.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::wire::{
    AttachParams, AttachResult, DestroyParams, DestroyResult, Dimensions, HostReport,
    InspectParams, KeyframeParams, KeyframeResult, KeysParams, KeysResult, MarkParams, PasteParams,
    ReadyParams, ReadyResult, RenderParams, RunParams, RunResult, ScreenshotParams,
    ScreenshotResult, SeqResult, SignalAnswer, SignalParams, SnapshotParams, SnapshotResult,
    SubmissionProofAnswer, SubmissionProofParams, SubmitParams, SubmitResult, TypeParams,
    WaitParams, WaitResult,
};
use super::{FaultCode, HostFault};

/// What a host says of itself to agent-tty's clients, which know two renderers by name.
const RENDERERS: [&str; 2] = ["ghostty-web", "libghostty-vt"];

/// The longest text and pattern that are looked for on a screen.
pub const LONGEST_TEXT: usize = 1000;
/// The longest pattern.
pub const LONGEST_PATTERN: usize = 200;

/// Whose protocol a request speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostDialect {
    /// agent-tty's, to the letter.
    #[default]
    AgentTty,
    /// With what ostler adds.
    Ostler,
}

/// The parameters of a request, and what answers it.
pub trait HostQuery: Serialize + DeserializeOwned {
    /// The name of the request.
    const METHOD: &'static str;
    /// The parameters that agent-tty knows; `None` when it does not know the request.
    const AGENT_TTY: Option<&'static [&'static str]>;
    type Answer: Serialize + DeserializeOwned;

    /// Refuses values that the type allows and the protocol does not.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

macro_rules! host_protocol {
    ($($(#[$doc:meta])* $variant:ident = $method:literal: $params:ty => $answer:ty, $known:expr, $check:expr;)+) => {
        /// A request of a terminal's host.
        #[derive(Clone, Debug)]
        pub enum HostRequest {
            $($(#[$doc])* $variant($params),)+
        }

        $(impl HostQuery for $params {
            const METHOD: &'static str = $method;
            const AGENT_TTY: Option<&'static [&'static str]> = $known;
            type Answer = $answer;

            fn check(&self) -> Result<(), String> {
                let check: fn(&Self) -> Result<(), String> = $check;
                check(self)
            }
        })+

        impl HostRequest {
            fn parse(method: &str, params: &str, dialect: HostDialect) -> Result<Self, String> {
                match method {
                    $($method => parse_query(params, dialect).map(Self::$variant),)+
                    _ => Err(unsupported(method)),
                }
            }
        }
    };
}

host_protocol! {
    /// Everything about the session.
    Inspect = "inspect": InspectParams => HostReport, Some(&[]), |_| Ok(());
    /// The screen, as data.
    Snapshot = "snapshot": SnapshotParams => SnapshotResult,
        Some(&["format", "includeScrollback", "includeCells", "rendererName"]),
        |query| check_renderer(query.renderer_name.as_deref());
    /// The screen, as a picture that the host keeps.
    Screenshot = "screenshot": ScreenshotParams => ScreenshotResult,
        Some(&["profile", "showCursor", "rendererName"]),
        |query| {
            check_renderer(query.renderer_name.as_deref())?;
            let length = |name: &String| name.chars().count();
            match query.profile.as_ref().map(length) {
                Some(0) => Err("`profile` must not be empty".to_owned()),
                _ => Ok(()),
            }
        };
    /// The screen itself, to be drawn by the client.
    Keyframe = "keyframe": KeyframeParams => KeyframeResult, None, |_| Ok(());
    Type = "type": TypeParams => SeqResult, Some(&["text"]), |query| require_filled("text", &query.text);
    Paste = "paste": PasteParams => SeqResult, Some(&["text"]), |query| require_filled("text", &query.text);
    /// Submit a text to the program: paste, see that it stands in the composer, Enter.
    Submit = "submit": SubmitParams => SubmitResult, None, SubmitParams::check_text;
    /// The client needs no more of its submission.
    SubmissionProof = "submissionProof": SubmissionProofParams => SubmissionProofAnswer, None,
        |_| Ok(());
    /// Wait until the program takes a text.
    AwaitReady = "awaitReady": ReadyParams => ReadyResult, None, |_| Ok(());
    /// Give the shell a command.
    Run = "run": RunParams => RunResult, Some(&["command", "noWait", "timeoutMs"]), |query| {
        if query.timeout_ms == Some(0) {
            return Err("`timeoutMs` must be positive".to_owned());
        }
        require_filled("command", &query.command)
    };
    /// Set a mark.
    Mark = "mark": MarkParams => SeqResult, Some(&["label"]), |_| Ok(());
    SendKeys = "sendKeys": KeysParams => KeysResult, Some(&["keys"]), |query| {
        if query.keys.is_empty() {
            return Err("`keys` must not be empty".to_owned());
        }
        query.keys.iter().try_for_each(|key| require_filled("keys", key))
    };
    /// Change the size.
    Resize = "resize": Dimensions => Dimensions, Some(&["cols", "rows"]), |query| {
        if query.cols == 0 || query.rows == 0 {
            return Err("`cols` and `rows` must be positive integers".to_owned());
        }
        Ok(())
    };
    /// Send a signal.
    Signal = "signal": SignalParams => SignalAnswer, Some(&["signal"]),
        |query| require_filled("signal", &query.signal);
    /// Wait for the end, or for silence.
    Wait = "wait": WaitParams => WaitResult, Some(&["exit", "idleMs", "timeoutMs"]), |query| {
        if query.idle_ms == Some(0) {
            return Err("`idleMs` must be positive".to_owned());
        }
        Ok(())
    };
    /// Wait for something on the screen.
    WaitForRender = "waitForRender": RenderParams => WaitResult,
        Some(&[
            "text", "regex", "screenStableMs", "cursorRow", "cursorCol", "afterSeq", "timeoutMs",
            "rendererName",
        ]),
        RenderParams::check_conditions;
    /// End the session.
    Destroy = "destroy": DestroyParams => DestroyResult, Some(&["force"]), |_| Ok(());
    /// Become a viewer; frames follow the answer.
    Attach = "attach": AttachParams => AttachResult, None, |_| Ok(());
}

impl RenderParams {
    /// Whether anything is waited for, and nothing that excludes the other.
    fn check_conditions(&self) -> Result<(), String> {
        check_renderer(self.renderer_name.as_deref())?;
        if self.text.is_some() && self.regex.is_some() {
            return Err("`text` and `regex` are mutually exclusive".to_owned());
        }
        let of_length = |name: &str, text: Option<&String>, most: usize| match text {
            Some(text) if text.is_empty() || text.chars().count() > most => {
                Err(format!("`{name}` must have 1 to {most} characters"))
            }
            _ => Ok(()),
        };
        of_length("text", self.text.as_ref(), LONGEST_TEXT)?;
        of_length("gone", self.gone.as_ref(), LONGEST_TEXT)?;
        of_length("regex", self.regex.as_ref(), LONGEST_PATTERN)?;
        if self.screen_stable_ms == Some(0) {
            return Err("`screenStableMs` must be positive".to_owned());
        }
        if !self.has_condition() {
            return Err("at least one condition must be given".to_owned());
        }
        Ok(())
    }

    /// Whether anything is waited for.
    pub fn has_condition(&self) -> bool {
        self.text.is_some()
            || self.regex.is_some()
            || self.gone.is_some()
            || self.changed_since.is_some()
            || self.screen_stable_ms.is_some()
            || self.cursor_row.is_some()
            || self.cursor_col.is_some()
    }
}

fn require_filled(name: &str, text: &str) -> Result<(), String> {
    if text.is_empty() { Err(format!("`{name}` must not be empty")) } else { Ok(()) }
}

fn check_renderer(name: Option<&str>) -> Result<(), String> {
    match name {
        Some(name) if !RENDERERS.contains(&name) => {
            Err(format!("`rendererName` must be one of: {}", RENDERERS.join(", ")))
        }
        _ => Ok(()),
    }
}

fn unsupported(method: &str) -> String {
    format!("Unsupported method: {method}")
}

fn parse_query<Q: HostQuery>(params: &str, dialect: HostDialect) -> Result<Q, String> {
    if dialect == HostDialect::AgentTty {
        let Some(known) = Q::AGENT_TTY else { return Err(unsupported(Q::METHOD)) };
        let given: BTreeMap<Cow<'_, str>, IgnoredAny> =
            serde_json::from_slice(params.as_bytes()).map_err(|error| error.to_string())?;
        if let Some(unknown) = given.keys().find(|key| !known.contains(&&***key)) {
            return Err(format!("unrecognized key in params: `{unknown}`"));
        }
    }
    let query: Q = serde_json::from_slice(params.as_bytes()).map_err(|error| error.to_string())?;
    query.check()?;
    Ok(query)
}

/// A request as it came in.
#[derive(Debug)]
pub struct IncomingRequest {
    /// What the answer must carry.
    pub id: String,
    /// How it was asked, and so how it is answered.
    pub dialect: HostDialect,
    /// What is wanted, or why it is refused.
    pub request: Result<HostRequest, HostFault>,
}

/// The id of an answer to what had none.
pub const UNKNOWN_ID: &str = "unknown";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    id: String,
    method: String,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(default)]
    dialect: HostDialect,
}

/// `null` is something, and not an object.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

impl IncomingRequest {
    /// Reads one line.
    pub fn parse(line: &[u8]) -> Self {
        let refused = |id: &str, reason: String| Self {
            id: id.to_owned(),
            dialect: HostDialect::AgentTty,
            request: Err(HostFault::new(FaultCode::RpcError, reason)),
        };
        let envelope: Envelope<'_> = match serde_json::from_slice(line) {
            Ok(envelope) => envelope,
            Err(error) => return refused(&id_of(line), error.to_string()),
        };
        let Envelope { id, method, params, dialect } = envelope;
        if id.is_empty() || method.is_empty() {
            let id = if id.is_empty() { UNKNOWN_ID } else { &id };
            return refused(id, "`id` and `method` must not be empty".to_owned());
        }
        let params = params.map_or("{}", RawValue::get);
        let request = if params.starts_with('{') {
            HostRequest::parse(&method, params, dialect)
        } else {
            Err("`params` must be an object".to_owned())
        };
        let request = request.map_err(|reason| HostFault::new(FaultCode::RpcError, reason));
        Self { id, dialect, request }
    }

    /// What came is no request at all.
    pub fn unreadable(reason: &str) -> Self {
        Self {
            id: UNKNOWN_ID.to_owned(),
            dialect: HostDialect::AgentTty,
            request: Err(HostFault::new(FaultCode::RpcError, reason)),
        }
    }
}

/// The id in what could otherwise not be understood.
fn id_of(line: &[u8]) -> String {
    let value: Option<Value> = serde_json::from_slice(line).ok();
    let id = value.as_ref().and_then(|value| value.get("id")).and_then(Value::as_str);
    id.filter(|id| !id.is_empty()).unwrap_or(UNKNOWN_ID).to_owned()
}

#[derive(Serialize)]
struct Outgoing<'a> {
    id: &'a str,
    method: &'a str,
    params: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    dialect: Option<HostDialect>,
}

/// Parameters of ours that say what agent-tty's hosts do anyway.
const IMPLIED: [&str; 3] = ["bracketed", "plain", "wait"];

/// The line that asks `query` of a host. What a host of agent-tty's does not know is left out where it
/// changes nothing, and is an error where it would.
pub fn request_line<Q: HostQuery>(query: &Q, dialect: HostDialect) -> Result<Vec<u8>, HostFault> {
    let internal =
        |error: serde_json::Error| HostFault::new(FaultCode::InternalError, error.to_string());
    let mut params = serde_json::to_value(query).map_err(internal)?;
    if params.is_null() {
        params = Value::Object(Map::new());
    }
    if dialect == HostDialect::AgentTty {
        let foreign = |what: &str| {
            HostFault::invalid_input(format!(
                "{what} is not known to the host of this session, which agent-tty made"
            ))
        };
        let known = Q::AGENT_TTY.ok_or_else(|| foreign(&format!("`{}`", Q::METHOD)))?;
        if let Value::Object(params) = &mut params {
            params.retain(|_, value| !value.is_null());
            let extra = params.iter().find(|(key, value)| {
                let says_nothing = **value == Value::Bool(false) || IMPLIED.contains(&&***key);
                !known.contains(&&***key) && !says_nothing
            });
            if let Some((key, _)) = extra {
                return Err(foreign(&format!("`{key}` of `{}`", Q::METHOD)));
            }
            params.retain(|key, _| known.contains(&&**key));
        }
    }
    let dialect = (dialect == HostDialect::Ostler).then_some(dialect);
    let outgoing = Outgoing { id: "1", method: Q::METHOD, params, dialect };
    let mut line = serde_json::to_vec(&outgoing).map_err(internal)?;
    line.push(b'\n');
    Ok(line)
}

#[derive(Serialize)]
#[serde(untagged)]
enum Reply<'a> {
    Done { id: &'a str, ok: bool, result: &'a Value },
    Refused { id: &'a str, ok: bool, error: &'a WireFault<'a> },
}

/// A fault as it goes over the socket: agent-tty's clients know two fields.
#[derive(Serialize)]
struct WireFault<'a> {
    code: FaultCode,
    message: &'a str,
}

/// The line that answers a request.
pub fn reply_line(id: &str, answer: &Result<Value, HostFault>) -> Vec<u8> {
    let line = match answer {
        Ok(result) => serde_json::to_vec(&Reply::Done { id, ok: true, result }),
        Err(HostFault { code, message, .. }) => {
            let message = if message.is_empty() { code.as_str() } else { message };
            let error = &WireFault { code: *code, message };
            serde_json::to_vec(&Reply::Refused { id, ok: false, error })
        }
    };
    // Strings and numbers always have a form.
    let mut line = line.unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &str) -> (String, HostFault) {
        let parsed = IncomingRequest::parse(line.as_bytes());
        (parsed.id, parsed.request.unwrap_err())
    }

    #[test]
    fn f6_2_3_what_agent_tty_refuses_is_refused_with_its_code_and_id() {
        for (line, id) in [
            ("nonsense", "unknown"),
            ("[]", "unknown"),
            ("{\"id\":7,\"method\":\"inspect\"}", "unknown"),
            ("{\"id\":\"\",\"method\":\"inspect\"}", "unknown"),
            ("{\"id\":\"a\"}", "a"),
            ("{\"id\":\"a\",\"method\":\"\"}", "a"),
            ("{\"id\":\"a\",\"method\":\"nope\"}", "a"),
            ("{\"id\":\"a\",\"method\":\"inspect\",\"extra\":1}", "a"),
            ("{\"id\":\"a\",\"method\":\"inspect\",\"params\":null}", "a"),
            ("{\"id\":\"a\",\"method\":\"inspect\",\"params\":[]}", "a"),
            ("{\"id\":\"a\",\"method\":\"inspect\",\"params\":{\"x\":1}}", "a"),
            ("{\"id\":\"a\",\"method\":\"type\",\"params\":{\"text\":\"\"}}", "a"),
            (
                "{\"id\":\"a\",\"method\":\"type\",\"params\":{\"text\":\"x\",\"bracketed\":true}}",
                "a",
            ),
            ("{\"id\":\"a\",\"method\":\"run\",\"params\":{\"command\":\"\"}}", "a"),
            (
                "{\"id\":\"a\",\"method\":\"run\",\"params\":{\"command\":\"x\",\"capture\":true}}",
                "a",
            ),
            ("{\"id\":\"a\",\"method\":\"sendKeys\",\"params\":{\"keys\":[]}}", "a"),
            ("{\"id\":\"a\",\"method\":\"sendKeys\",\"params\":{\"keys\":[\"\"]}}", "a"),
            ("{\"id\":\"a\",\"method\":\"resize\",\"params\":{\"cols\":0,\"rows\":5}}", "a"),
            ("{\"id\":\"a\",\"method\":\"waitForRender\",\"params\":{}}", "a"),
            (
                "{\"id\":\"a\",\"method\":\"waitForRender\",\"params\":{\"text\":\"x\",\"rendererName\":\"no\"}}",
                "a",
            ),
            ("{\"id\":\"a\",\"method\":\"attach\"}", "a"),
            ("{\"id\":\"a\",\"method\":\"keyframe\"}", "a"),
        ] {
            let (named, fault) = fault(line);
            assert_eq!((named.as_str(), fault.code), (id, FaultCode::RpcError), "{line}");
        }
    }

    #[test]
    fn f6_2_3_nothing_that_agent_tty_refuses_is_sent_to_its_hosts() {
        let line = |line: Vec<u8>| String::from_utf8(line).unwrap();
        let theirs = HostDialect::AgentTty;
        let paste = PasteParams { text: "x".to_owned(), bracketed: true, by: None };
        assert_eq!(
            line(request_line(&paste, theirs).unwrap()),
            "{\"id\":\"1\",\"method\":\"paste\",\"params\":{\"text\":\"x\"}}\n"
        );
        assert_eq!(
            line(request_line(&InspectParams {}, theirs).unwrap()),
            "{\"id\":\"1\",\"method\":\"inspect\",\"params\":{}}\n"
        );
        let wait = WaitParams { exit: true, ..WaitParams::default() };
        assert!(!line(request_line(&wait, theirs).unwrap()).contains("idleMs"));
        // What they cannot do is an error, not something else done instead.
        let group = SignalParams { signal: "SIGINT".to_owned(), group: true };
        assert_eq!(request_line(&group, theirs).unwrap_err().code, FaultCode::InvalidInput);
        let gone = RenderParams { gone: Some("x".to_owned()), ..RenderParams::default() };
        assert!(request_line(&gone, theirs).unwrap_err().message.contains("`gone`"));
        assert!(request_line(&KeyframeParams {}, theirs).is_err());
        assert!(
            line(request_line(&gone, HostDialect::Ostler).unwrap())
                .contains("\"dialect\":\"ostler\"")
        );
    }

    #[test]
    fn every_line_of_ours_is_understood_by_our_host() {
        let query = RunParams {
            command: "ls".to_owned(),
            no_wait: false,
            timeout_ms: None,
            capture: true,
            by: None,
        };
        for dialect in [HostDialect::Ostler, HostDialect::AgentTty] {
            let query = RunParams { capture: dialect == HostDialect::Ostler, ..query.clone() };
            let line = request_line(&query, dialect).unwrap();
            let parsed = IncomingRequest::parse(line.trim_ascii_end());
            assert_eq!((parsed.id.as_str(), parsed.dialect), ("1", dialect));
            assert!(matches!(parsed.request, Ok(HostRequest::Run(_))), "{parsed:?}");
        }
    }
}
