// Search in every conversation; hits come as they are found.
import { getLines } from "./api.js";
import { failure, h, say } from "./dom.js";
import { state } from "./overview.js";
import { age, fullTime, groupOf, oneLine, pathOf, plain, plural, projectOf, size } from "./words.js";

/** How many hits of a session stand open. */
const SHOWN_HITS = 4;

/** @returns {import("./app.js").Page} */
export function searchPage() {
  const query = new URLSearchParams(location.search).get("q") ?? "";
  const box = h("input", { type: "search", class: "grow", "aria-label": "Words to find", placeholder: "words, \"exact words\", -without", value: query });
  const role = h("select", { "aria-label": "Who said it" }, [["", "anybody"], ["user", "you"], ["assistant", "agents"], ["tool,result", "tools"]].map(([value, name]) => h("option", { value }, name)));
  const since = h("select", { "aria-label": "Since" }, [["", "ever"], ["1d", "last day"], ["7d", "last week"], ["30d", "last month"]].map(([value, name]) => h("option", { value }, name)));
  const status = h("p", { class: "muted told", role: "status" });
  const list = h("div", {});
  const element = h("div", {}, h("h1", { class: "head" }, "Search"),
    h("form", { class: "toolbar searchform", role: "search", "aria-label": "Search in conversations", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); history.replaceState(null, "", `/search?q=${encodeURIComponent(box.value)}`); run(); } },
      box, role, since, h("button", { type: "submit", class: "primary" }, "Search")), status, list);
  /** @type {AbortController | null} */
  let running = null;
  /** @type {HTMLElement | null} */
  let hitsOf = null;

  async function run() {
    running?.abort();
    const mine = running = new AbortController();
    list.replaceChildren();
    hitsOf = null;
    if (!box.value.trim()) { status.textContent = ""; return; }
    status.textContent = "searching …";
    const parts = new URLSearchParams({ q: box.value, limit: "200" });
    if (role.value) parts.set("role", role.value);
    if (since.value) parts.set("since", since.value);
    let hits = 0;
    /** @type {any} */
    let session = null;
    try {
      await getLines(`/v1/search?${parts}`, (line) => {
        if (line.type === "session" || line.session?.agent || line.hits !== undefined) {
          session = line.session ?? line;
          list.append(sessionHead(session));
          for (const one of session.matched ?? []) { hits++; addHit(hit({ ...one, role: one.field, at: session.lastActivityAt }, session)); }
        }
        else if (line.text !== undefined || line.hit) { hits++; addHit(hit(line.hit ?? line, session)); }
        else if (line.scanned || line.end) {
          const end = line.end ?? line;
          status.textContent = `${plural(hits, "hit")} in ${plural(end.scanned.sessions, "session")} (${size(end.scanned.bytes)})${end.complete ? "" : "; there may be more"}`;
        }
      }, mine.signal);
      if (!hits) {
        say("Nothing found.");
        list.replaceChildren(h("div", { class: "empty" }, h("p", { class: "big" }, "Nothing found."), h("p", {}, "All words must stand in one entry. ", h("code", {}, "\"exact words\""), " and ", h("code", {}, "-without"), " work too.")));
      }
    } catch (error) {
      if (!mine.signal.aborted) { status.textContent = ""; list.replaceChildren(failure(/** @type {any} */ (error))); }
    }
  }

  /** A session with its hits; beyond the first few they are folded. @param {any} session */
  function sessionHead(session) {
    hitsOf = h("div", { class: "hits" });
    return h("section", { class: "panel found" }, h("h2", {}, state(groupOf(session), false), h("a", { class: "cut", href: pathOf(session) }, oneLine(session.title ?? session.id)),
      h("span", { class: "muted num" }, [session.agent, projectOf(session), age(session.lastActivityAt), session.hits ? plural(session.hits, "hit") : ""].filter(Boolean).join(" · "))), hitsOf);
  }

  /** @param {HTMLElement} line */
  function addHit(line) {
    const to = hitsOf ?? list;
    if (to.children.length < SHOWN_HITS) return to.append(line);
    let more = /** @type {HTMLElement | null} */ (to.querySelector(":scope > details"));
    if (!more) to.append(more = h("details", {}, h("summary", {})));
    /** @type {HTMLElement} */ (more).append(line);
    const summary = more?.querySelector("summary");
    if (summary && more) summary.textContent = `${more.children.length - 1} more`;
  }

  /** @param {any} hit @param {any} session */
  function hit(hit, session) {
    const signs = [...hit.text];
    /** @type {any[]} */
    const parts = [];
    let at = 0;
    for (const [from, to] of hit.ranges ?? []) {
      parts.push(plain(signs.slice(at, from).join("")), h("mark", {}, plain(signs.slice(from, to).join(""))));
      at = to;
    }
    parts.push(plain(signs.slice(at).join("")));
    const target = session ? `${pathOf(session)}#${hit.entry ? `e${hit.entry}` : "talk"}` : "/";
    const who = hit.tool ? oneLine(hit.tool) : hit.role === "user" ? "you" : hit.role === "assistant" ? "agent" : hit.role;
    return h("a", { class: "hit", href: target }, h("span", { class: "who cut" }, who), h("time", { class: "muted num", datetime: hit.at, title: fullTime(hit.at) }, age(hit.at)), h("span", { class: "text" }, parts));
  }

  if (query) run();
  setTimeout(() => box.focus());
  return { element, title: "Search", close: () => running?.abort() };
}
