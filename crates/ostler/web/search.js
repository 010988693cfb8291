// Search in every conversation; hits come as they are found.
import { getLines } from "./api.js";
import { failure, h, say } from "./dom.js";
import { state } from "./overview.js";
import { age, groupOf, oneLine, pathOf, plain, plural, projectOf, size } from "./words.js";

/** @returns {import("./app.js").Page} */
export function searchPage() {
  const query = new URLSearchParams(location.search).get("q") ?? "";
  const box = h("input", { type: "search", class: "grow", "aria-label": "Words to find", placeholder: "words, \"exact words\", -without", value: query });
  const role = h("select", { "aria-label": "Who said it" }, [["", "anybody"], ["user", "you"], ["assistant", "agents"], ["tool,result", "tools"]].map(([value, name]) => h("option", { value }, name)));
  const since = h("select", { "aria-label": "Since" }, [["", "ever"], ["1d", "last day"], ["7d", "last week"], ["30d", "last month"]].map(([value, name]) => h("option", { value }, name)));
  const status = h("p", { class: "muted", role: "status" });
  const list = h("div", {});
  const element = h("div", {}, h("h1", { class: "head" }, "Search"),
    h("form", { class: "toolbar", role: "search", "aria-label": "Search in conversations", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); history.replaceState(null, "", `/search?q=${encodeURIComponent(box.value)}`); run(); } },
      box, role, since, h("button", { type: "submit", class: "primary" }, "Search")), status, list);
  /** @type {AbortController | null} */
  let running = null;

  async function run() {
    running?.abort();
    const mine = running = new AbortController();
    list.replaceChildren();
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
        if (line.type === "session" || line.session?.agent || line.hits !== undefined) { session = line.session ?? line; list.append(sessionHead(session)); }
        else if (line.text !== undefined || line.hit) { hits++; list.append(hit(line.hit ?? line, session)); }
        else if (line.scanned || line.end) {
          const end = line.end ?? line;
          status.textContent = `${plural(hits, "hit")} in ${plural(end.scanned.sessions, "session")} (${size(end.scanned.bytes)})${end.complete ? "" : "; there may be more"}`;
        }
      }, mine.signal);
      if (!hits) say("Nothing found.");
    } catch (error) {
      if (!mine.signal.aborted) { status.textContent = ""; list.replaceChildren(failure(/** @type {any} */ (error))); }
    }
  }

  /** @param {any} session */
  function sessionHead(session) {
    return h("h2", { class: "head found" }, state(groupOf(session), false), h("a", { href: pathOf(session) }, oneLine(session.title ?? session.id)),
      h("span", { class: "muted num" }, [session.agent, projectOf(session), age(session.lastActivityAt), session.hits ? plural(session.hits, "hit") : ""].filter(Boolean).join(" · ")));
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
    const target = session ? `${pathOf(session)}#talk` : "/";
    return h("div", { class: "hit" }, h("a", { href: target }, `${hit.tool ? oneLine(hit.tool) : hit.role} ${hit.entry ? `#${hit.entry}` : ""}`), " ", h("time", { class: "muted num", datetime: hit.at }, age(hit.at)), h("pre", {}, parts));
  }

  if (query) run();
  setTimeout(() => box.focus());
  return { element, title: "Search", close: () => running?.abort() };
}
