//! The route table, and finding a route in it.

use super::route::FieldUse::{
    Count, CountUnless, Each, Exact, Flag, Identity, IdentityUnless, Opt, UpTo, Word, Words,
};
use super::route::RouteFieldPlace::{Body, Path, Query};
use super::route::{
    ApiRight, ApiRoute, DoorRoute, FieldUse, RouteField, RouteWork, field, need, route,
};

const SESSION: RouteField = need("id", Path, Exact, "The session: its whole id, or `agent:id`.");
const TERMINAL: RouteField = need("id", Path, Exact, "The hosted session: its whole id.");

const INCLUDE: &str = "What else to look at: `transcripts`, `temps`, `worktrees`, by commas.";
const KEEP: &str = "What is to stay: a session's id, or a path; what is at, in or above it.";
const OLDER: &str = "Only what has been left alone for longer, e.g. `30d`.";

use ApiRight::{Anybody, Manage, Type, Watch};
use RouteWork::{Command, Door, File, Lines};

pub(crate) const ROUTES: &[ApiRoute] = &[
    route(
        "POST",
        "/v1/tab",
        Anybody,
        "Signs a tab in: a one-time key for a token.",
        Door(DoorRoute::SignIn),
        &[need("key", Body, FieldUse::Own, "The key of the link.")],
    ),
    route("GET", "/v1/tab", Watch, "What this token may do.", Door(DoorRoute::Tab), &[]),
    route("DELETE", "/v1/tab", Watch, "Signs the tab out.", Door(DoorRoute::SignOut), &[]),
    route(
        "POST",
        "/v1/tab/ask",
        Watch,
        "Asks for a right: a code, which a person confirms with `ostler web allow CODE`.",
        Door(DoorRoute::AskRight),
        &[need("right", Body, FieldUse::Own, "`type` or `manage`.")],
    ),
    route(
        "POST",
        "/v1/tab/keep",
        Watch,
        "Keeps this browser signed in for thirty days, also when the server starts anew.",
        Door(DoorRoute::Keep),
        &[],
    ),
    route(
        "POST",
        "/v1/tickets",
        Watch,
        "A ticket for one WebSocket, for ten seconds.",
        Door(DoorRoute::Ticket),
        &[],
    ),
    route(
        "GET",
        "/v1/stream",
        Anybody,
        "The WebSocket (`ostler.v1`), with a ticket in its protocols.",
        Door(DoorRoute::Stream),
        &[],
    ),
    route("GET", "/v1/openapi.json", Watch, "This document.", Door(DoorRoute::Document), &[]),
    route(
        "GET",
        "/v1/sessions",
        Watch,
        "Sessions: the live ones, or all of them.",
        Command(&["ls"]),
        &[
            field("all", Query, Flag("--all"), "Ended ones too."),
            field("filter", Query, Opt("--filter"), "Filter words, as in `ls --filter`."),
            field("agent", Query, Opt("--agent"), "Only these agents, by commas."),
            field("group", Query, Opt("--attention"), "Only of these groups, by commas."),
            field("sort", Query, Opt("--sort"), "Another order than activity."),
            field(
                "limit",
                Query,
                Count("--limit", 500),
                "At most so many, and never more than 500.",
            ),
            field(
                "after",
                Query,
                Opt("--after"),
                "What comes after this one: `after` of an answer.",
            ),
        ],
    ),
    route(
        "GET",
        "/v1/sessions/{id}",
        Watch,
        "Everything about one session.",
        Command(&["show"]),
        &[SESSION],
    ),
    route(
        "GET",
        "/v1/sessions/{id}/why",
        Watch,
        "Why its state is what it is, and whether it may be collected.",
        Command(&["why"]),
        &[SESSION],
    ),
    route(
        "GET",
        "/v1/sessions/{id}/summary",
        Watch,
        "What it came to.",
        Command(&["summary"]),
        &[SESSION],
    ),
    route(
        "GET",
        "/v1/sessions/{id}/usage",
        Watch,
        "What each answer of a model used, in order.",
        Command(&["usage", "--series"]),
        &[SESSION],
    ),
    route(
        "GET",
        "/v1/sessions/{id}/talk",
        Watch,
        "Its conversation, in blocks, with secrets masked.",
        Command(&["logs", "--blocks"]),
        &[
            SESSION,
            field("from", Query, Opt("--from"), "The number of the first entry, from 1."),
            field(
                "limit",
                Query,
                CountUnless("--limit", 200, "last"),
                "At most so many entries, and never more than 200.",
            ),
            field("last", Query, UpTo("--lines", 200), "Only the last so many entries."),
        ],
    ),
    route(
        "POST",
        "/v1/sessions/{id}/reveal",
        Manage,
        "One entry of its conversation, with nothing masked; who asked is an event.",
        Command(&["logs", "--blocks", "--reveal", "--limit=1"]),
        &[SESSION, need("entry", Body, Opt("--from"), "The entry's number, from 1.")],
    ),
    route(
        "GET",
        "/v1/sessions/{id}/timeline",
        Watch,
        "What hooks and ostler told of it, one event on a line.",
        Lines(&["events"], ""),
        &[need("id", Path, Opt("--session"), "The session's full id.")],
    ),
    route("GET", "/v1/sessions/{id}/who", Watch, "Who holds it.", Command(&["who"]), &[SESSION]),
    route(
        "POST",
        "/v1/sessions/{id}/prompt",
        Type,
        "Prompts the agent, and proves that the prompt arrived.",
        Command(&["prompt", "--timeout=5s"]),
        &[
            SESSION,
            need("text", Body, Word, "The prompt."),
            field(
                "requestId",
                Body,
                Opt("--key"),
                "A name for this prompt: under the same name the same text is sent once.",
            ),
        ],
    ),
    route(
        "POST",
        "/v1/sessions/{id}/stop",
        Manage,
        "Stops the agent, if it is still the process that was meant.",
        Command(&["stop"]),
        &[
            SESSION,
            need("identity", Body, Identity, "The process: `pid:start`, as `owner` says."),
            field("dryRun", Body, Flag("--dry-run"), "Only what would be signalled."),
            field("turn", Body, Flag("--turn"), "Only its turn."),
        ],
    ),
    route(
        "POST",
        "/v1/sessions/{id}/finalize",
        Manage,
        "Ends a session whose owner is proven to be gone, if it is still the one that was shown.",
        Command(&["finalize"]),
        &[
            SESSION,
            field(
                "identity",
                Body,
                IdentityUnless("dryRun"),
                "The process that had it, as `dryRun` names it; needed without `dryRun`.",
            ),
            field("dryRun", Body, Flag("--dry-run"), "Only what would be done."),
        ],
    ),
    route(
        "PUT",
        "/v1/sessions/{id}/pin",
        Manage,
        "Keeps it for good.",
        Command(&["pin"]),
        &[SESSION, field("note", Body, Opt("--note"), "Why.")],
    ),
    route(
        "DELETE",
        "/v1/sessions/{id}/pin",
        Manage,
        "Takes the pin away.",
        Command(&["pin", "--remove"]),
        &[SESSION],
    ),
    route(
        "GET",
        "/v1/search",
        Watch,
        "Finds words in every conversation, one object on a line.",
        Lines(&["search", "--stream"], " --stream"),
        &[
            need("q", Query, Word, "The words."),
            field("regex", Query, Flag("--regex"), "The query is a regular expression."),
            field("case", Query, Flag("--case"), "Case counts."),
            field("agent", Query, Opt("--agent"), "Only these agents, by commas."),
            field("since", Query, Opt("--since"), "Only since then, e.g. `3d`."),
            field("filter", Query, Opt("--filter"), "Only sessions that these words fit."),
            field("role", Query, Opt("--role"), "Only what these said."),
            field(
                "limit",
                Query,
                UpTo("--limit", 1000),
                "At most so many hits; as in `search` if it is not given.",
            ),
        ],
    ),
    route(
        "GET",
        "/v1/usage",
        Watch,
        "Tokens and cost.",
        Command(&["usage"]),
        &[
            field("by", Query, Opt("--by"), "`day`, `agent`, `project` or `model`."),
            field("since", Query, Opt("--since"), "Only since then."),
            field("until", Query, Opt("--until"), "Only before then."),
            field("agent", Query, Opt("--agent"), "Only these agents, by commas."),
        ],
    ),
    route("GET", "/v1/du", Watch, "Bytes of sessions.", Command(&["du"]), &[]),
    route("GET", "/v1/adapters", Watch, "Agents and their roots.", Command(&["adapters"]), &[]),
    route(
        "GET",
        "/v1/doctor",
        Watch,
        "What is wrong with this machine's set-up.",
        Command(&["doctor", "--no-sweep"]),
        &[],
    ),
    route(
        "GET",
        "/v1/gc",
        Watch,
        "What may be removed and why; nothing is changed.",
        Command(&["gc"]),
        &[
            field("include", Query, Opt("--include"), INCLUDE),
            field("olderThan", Query, Opt("--older-than"), OLDER),
            field("keep", Query, Each("--keep"), KEEP),
        ],
    ),
    route(
        "POST",
        "/v1/gc",
        Manage,
        "Moves to the trash what that very plan says.",
        Command(&["gc", "--yes"]),
        &[
            need("planHash", Body, Opt("--plan"), "The plan, as it was shown."),
            field("include", Body, Opt("--include"), INCLUDE),
            field("olderThan", Body, Opt("--older-than"), OLDER),
            field("keep", Body, Each("--keep"), KEEP),
        ],
    ),
    route("GET", "/v1/receipts", Watch, "What was removed.", Command(&["trash", "ls"]), &[]),
    route(
        "POST",
        "/v1/receipts/{id}/undo",
        Manage,
        "Brings it back.",
        Command(&["undo"]),
        &[need("id", Path, Word, "The receipt.")],
    ),
    route("GET", "/v1/access", Watch, "Lent credentials.", Command(&["access", "list"]), &[]),
    route(
        "POST",
        "/v1/access/{id}/stop",
        Manage,
        "Ends lent access.",
        Command(&["access", "stop"]),
        &[need("id", Path, Word, "The access session.")],
    ),
    route(
        "POST",
        "/v1/terminals",
        Manage,
        "Starts a terminal.",
        Command(&["create"]),
        &[
            field("command", Body, Words, "The program and its arguments."),
            field("agent", Body, Opt("--agent"), "A known agent."),
            field("cwd", Body, Opt("--cwd"), "Where."),
            field("name", Body, Opt("--name"), "A name to call it by."),
            field("cols", Body, Opt("--cols"), "Columns."),
            field("rows", Body, Opt("--rows"), "Rows."),
        ],
    ),
    route(
        "GET",
        "/v1/terminals/{id}",
        Watch,
        "Everything about a terminal.",
        Command(&["inspect"]),
        &[TERMINAL],
    ),
    route(
        "DELETE",
        "/v1/terminals/{id}",
        Manage,
        "Ends a terminal.",
        Command(&["destroy"]),
        &[TERMINAL, field("force", Body, Flag("--force"), "At once.")],
    ),
    route(
        "GET",
        "/v1/terminals/{id}/snapshot",
        Watch,
        "Its screen.",
        Command(&["snapshot"]),
        &[
            TERMINAL,
            field("scrollback", Query, Flag("--include-scrollback"), "With what scrolled away."),
            field("cells", Query, Flag("--include-cells"), "With every cell."),
        ],
    ),
    route(
        "GET",
        "/v1/terminals/{id}/screenshot.png",
        Watch,
        "Its screen as a picture.",
        File(&["screenshot", "--out=-"], "image/png"),
        &[TERMINAL, field("profile", Query, Opt("--profile"), "How to draw it.")],
    ),
    route(
        "GET",
        "/v1/terminals/{id}/scrollback",
        Watch,
        "Lines that scrolled away, the oldest first.",
        Command(&["scrollback"]),
        &[
            TERMINAL,
            field("from", Query, Opt("--from"), "The first line, from 0."),
            field("limit", Query, Count("--limit", 2000), "At most so many lines."),
        ],
    ),
    route(
        "GET",
        "/v1/terminals/{id}/recording",
        Watch,
        "Its recording as frames, one on a line.",
        Lines(&["frames"], ""),
        &[TERMINAL, field("from", Query, Opt("--from"), "Not before this moment, e.g. `90s`.")],
    ),
    route(
        "POST",
        "/v1/terminals/{id}/run",
        Type,
        "Gives the shell a command.",
        Command(&["run"]),
        &[
            TERMINAL,
            need("command", Body, Word, "The command."),
            field("timeout", Body, Opt("--timeout"), "How long to wait, in milliseconds."),
            field("noWait", Body, Flag("--no-wait"), "Do not wait."),
            field("capture", Body, Flag("--capture"), "Give back what it printed."),
        ],
    ),
    route(
        "POST",
        "/v1/terminals/{id}/type",
        Type,
        "Types text.",
        Command(&["type"]),
        &[TERMINAL, need("text", Body, Word, "The text.")],
    ),
    route(
        "POST",
        "/v1/terminals/{id}/paste",
        Type,
        "Pastes text.",
        Command(&["paste"]),
        &[TERMINAL, need("text", Body, Word, "The text.")],
    ),
    route(
        "POST",
        "/v1/terminals/{id}/keys",
        Type,
        "Presses keys.",
        Command(&["send-keys"]),
        &[TERMINAL, need("keys", Body, Words, "The keys, by name.")],
    ),
    route(
        "POST",
        "/v1/terminals/{id}/batch",
        Type,
        "Several steps.",
        Command(&["batch"]),
        &[TERMINAL, need("steps", Body, Word, "The steps, as JSON text.")],
    ),
    route(
        "POST",
        "/v1/terminals/{id}/resize",
        Type,
        "Changes its size.",
        Command(&["resize"]),
        &[
            TERMINAL,
            need("cols", Body, Opt("--cols"), "Columns."),
            need("rows", Body, Opt("--rows"), "Rows."),
        ],
    ),
    route(
        "POST",
        "/v1/terminals/{id}/signal",
        Type,
        "Sends a signal.",
        Command(&["signal"]),
        &[TERMINAL, need("signal", Body, Word, "The signal.")],
    ),
    route(
        "POST",
        "/v1/terminals/{id}/mark",
        Type,
        "Sets a mark in its log.",
        Command(&["mark"]),
        &[TERMINAL, need("label", Body, Word, "What it says.")],
    ),
    route(
        "POST",
        "/v1/terminals/{id}/wait",
        Watch,
        "Waits for something on its screen.",
        Command(&["wait"]),
        &[
            TERMINAL,
            field("text", Body, Opt("--text"), "Text on the screen."),
            field("gone", Body, Opt("--gone"), "Text that is no longer there."),
            field("exit", Body, Flag("--exit"), "The program's end."),
            field("timeout", Body, Opt("--timeout"), "How long, in milliseconds."),
        ],
    ),
    route(
        "GET",
        "/v1/events",
        Watch,
        "Events, one on a line.",
        Lines(&["events"], ""),
        &[
            field("since", Query, Opt("--since"), "After this cursor."),
            field("follow", Query, Flag("--follow"), "Go on with what comes next."),
        ],
    ),
];

/// A route with the values of the names in its path.
#[derive(Debug)]
pub(crate) struct RouteMatch {
    pub(crate) route: &'static ApiRoute,
    /// By name, decoded.
    pub(crate) path: Vec<(&'static str, String)>,
}

/// Why no route fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoute {
    /// No such path.
    Path,
    /// The path is there, and not with this method.
    Method,
}

/// Finds the route of a request. Segments are matched before they are decoded, so that no encoded slash
/// reaches another route.
pub(crate) fn match_route(method: &str, path: &str) -> Result<RouteMatch, NoRoute> {
    let mut wrong = NoRoute::Path;
    for route in ROUTES {
        let Some(values) = match_path(route.path, path) else { continue };
        if route.method == method {
            return Ok(RouteMatch { route, path: values });
        }
        wrong = NoRoute::Method;
    }
    Err(wrong)
}

fn match_path(pattern: &'static str, path: &str) -> Option<Vec<(&'static str, String)>> {
    let mut values = Vec::new();
    let mut given = path.split('/');
    for wanted in pattern.split('/') {
        let segment = given.next()?;
        match wanted.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(name) => {
                let value = super::arguments::decode_percent(segment)?;
                values.push((name, Some(value).filter(|value| !value.is_empty())?));
            }
            None if wanted == segment => {}
            None => return None,
        }
    }
    given.next().is_none().then_some(values)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn row_31_every_route_is_found_by_its_own_path_and_no_other() {
        let mut seen = HashSet::new();
        for route in ROUTES {
            assert!(seen.insert((route.method, route.path)), "{} twice", route.path);
            let path = route.path.replace("{id}", "claude-code:a%2Fb");
            let found = match_route(route.method, &path).unwrap();
            assert_eq!((found.route.method, found.route.path), (route.method, route.path));
            for (_, value) in found.path {
                assert_eq!(value, "claude-code:a/b");
            }
            assert_eq!(match_route("TRACE", &path).unwrap_err(), NoRoute::Method);
            assert_eq!(match_route(route.method, &format!("{path}/")).unwrap_err(), NoRoute::Path);
        }
    }

    #[test]
    fn row_40_paths_that_try_tricks_are_no_route() {
        for path in [
            "/v1/sessions/../openapi.json",
            "/v1//sessions",
            "/v1/sessions//why",
            "/v1/sessions/%/why",
            "/v1/sessions/%zz/why",
            "/v1/sessions/%ff/why",
            "/v1/sessions/a%00b/why",
            "/V1/sessions",
            "v1/sessions",
            "",
        ] {
            assert!(match_route("GET", path).is_err(), "{path}");
        }
    }

    #[test]
    fn fields_of_a_path_are_those_in_its_braces() {
        for route in ROUTES {
            let braces = route.path.matches('{').count();
            let fields = route.fields.iter().filter(|field| field.place == Path);
            assert_eq!(fields.count(), braces, "{}", route.path);
            assert!(route.method != "GET" || route.fields.iter().all(|one| one.place != Body));
        }
    }
}
