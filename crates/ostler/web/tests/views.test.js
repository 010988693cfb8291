// Many sessions, long conversations, recordings, charts, states that are broken or empty: each in a real browser.
import assert from "node:assert/strict";
import { appendFileSync, mkdirSync, openSync, closeSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { IDS, Stage } from "./stage.js";

/** @type {Stage} */
let stage;
before(async () => {
  stage = await Stage.start({ web: ["--allow", "manage"] });
}, { timeout: 120_000 });
after(async () => { await stage?.close(); });

const until = (page, what, argument) => page.waitForFunction(what, argument, { timeout: 30_000 });
const address = (id) => `/s/claude-code:${id}`;

/** Ended sessions, small ones, spread over projects and days. */
function fill(home, count) {
  for (let at = 0; at < count; at++) {
    const id = `aaaaaaaa-0000-4000-8000-${String(at).padStart(12, "0")}`;
    const directory = join(home, ".claude/projects", `-old-${at % 40}`);
    mkdirSync(directory, { recursive: true });
    const when = new Date(Date.now() - (at + 1) * 600_000).toISOString();
    const line = (type, message, uuid) => JSON.stringify({ parentUuid: null, isSidechain: false, userType: "external", cwd: `/old/project-${at % 40}`, sessionId: id, version: "2.1.0", type, message, uuid, timestamp: when });
    writeFileSync(join(directory, `${id}.jsonl`), `${line("user", { role: "user", content: `old task ${at}` }, `u${at}`)}\n${line("assistant", { id: `m${at}`, role: "assistant", model: "claude-sonnet-4-5", content: [{ type: "text", text: "done" }], usage: { input_tokens: 10 + at, output_tokens: 5 } }, `a${at}`)}\n`);
  }
}

test("row 65 a thousand sessions: a window of rows, paged and filtered by the server", { timeout: 120_000 }, async () => {
  fill(stage.home, 1000);
  stage.run("ls", "-a", "--limit", "1");
  const page = await stage.open();
  await page.locator(".card", { hasText: "gateway-auth" }).waitFor();
  const fold = page.locator(".folds button", { hasText: "ended" });
  await until(page, () => /1,00\d ended/.test(document.querySelector(".folds")?.textContent ?? ""));
  await page.evaluate(() => {
    window.long = [];
    new PerformanceObserver((list) => window.long.push(...list.getEntries().map((one) => one.duration))).observe({ entryTypes: ["longtask"] });
  });
  // What this machine takes just now for a window of rows, drawn with nothing of the page's: a busy one gets as many times longer.
  const bare = await page.evaluate(() => {
    const times = Array.from({ length: 9 }, () => {
      const begun = performance.now(), list = document.body.appendChild(document.createElement("ul"));
      for (let at = 0; at < 80 * 9; at++) list.appendChild(document.createElement("li")).textContent = `row ${at}`;
      void list.offsetHeight;
      list.remove();
      return performance.now() - begun;
    }).sort((one, other) => one - other);
    return times[4];
  });
  await fold.click();
  await page.locator(".srow", { hasText: "old task 5" }).first().waitFor();
  const rowsNow = () => page.locator("section[aria-label=ended] .srow").evaluateAll((all) => all.map((one) => one.dataset.key));
  const seen = new Set(await rowsNow());
  for (let step = 0; step < 400; step++) {
    const state = await page.evaluate(async () => {
      scrollBy(0, innerHeight);
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      return { nodes: document.querySelectorAll("*").length, rows: [...document.querySelectorAll("section[aria-label=ended] .srow")].map((one) => one.dataset.key) };
    });
    assert.ok(state.nodes <= 2500, `${state.nodes} nodes`);
    assert.ok(state.rows.length <= 120, `${state.rows.length} rows`);
    state.rows.forEach((key) => seen.add(key));
    if (state.rows.some((key) => key?.endsWith("000000000999"))) break;
    await page.waitForTimeout(20);
  }
  const long = await page.evaluate(() => window.long);
  const most = Math.max(50, 5 * bare);
  assert.deepEqual(long.filter((one) => one > most), [], `a task took longer than ${most.toFixed(0)} ms`);
  const missing = Array.from({ length: 1000 }, (_, at) => `claude-code:aaaaaaaa-0000-4000-8000-${String(at).padStart(12, "0")}`).filter((key) => !seen.has(key));
  assert.deepEqual(missing, [], "every one was seen on the way down");
  // The way back up shows the same rows, and nothing is asked for again.
  await page.evaluate(() => scrollTo(0, 0));
  await page.locator(".srow", { hasText: "old task 0" }).first().waitFor();
  await page.getByLabel("Filter sessions").fill("project:project-7 task");
  await until(page, () => /^·? ?25 ended/.test(document.querySelector("section[aria-label=ended] h2")?.textContent ?? ""));
  // Who needs you is told whatever the filter says.
  assert.ok(await page.locator(".card", { hasText: "gateway-auth" }).isVisible());
  assert.match(await page.title(), /^\(1\)/);
  await page.getByLabel("Filter sessions").fill("colour:red");
  await page.getByText(/the filter cannot be understood/).waitFor();
  assert.deepEqual(page.wrong.filter((one) => !/400/.test(one)), []);
  await page.context().close();
});

test("row 66 a long conversation: a window, anchors, folds that stay open when entries come", { timeout: 180_000 }, async () => {
  const id = "66666666-6666-4666-8666-666666666666";
  const directory = join(stage.home, ".claude/projects/-long");
  mkdirSync(directory, { recursive: true });
  const file = join(directory, `${id}.jsonl`);
  const line = (number, type, message) => `${JSON.stringify({ parentUuid: null, isSidechain: false, userType: "external", cwd: "/long", sessionId: id, version: "2.1.0", type, message, uuid: `l${number}`, timestamp: new Date(Date.now() - 600_000 + number).toISOString() })}\n`;
  const said = (number) => line(number, "assistant", { id: `m${number}`, role: "assistant", model: "x", content: [{ type: "text", text: `answer number ${number} ${"word ".repeat(400)}` }], usage: { input_tokens: 1, output_tokens: 1 } });
  const tool = (number) => line(number, "assistant", { id: `m${number}`, role: "assistant", model: "x", content: [{ type: "tool_use", id: `t${number}`, name: "Bash", input: { command: `echo ${number}` } }], usage: { input_tokens: 1, output_tokens: 1 } });
  const output = openSync(file, "w");
  writeSync(output, line(0, "user", { role: "user", content: "begin" }));
  const count = Number(process.env.OSTLER_LONG ?? 4000);
  for (let number = 1; number <= count; number++) writeSync(output, said(number));
  for (let number = 1; number <= 3; number++) writeSync(output, tool(count + number));
  closeSync(output);
  const page = await stage.open({ path: address(id) });
  const fold = page.locator("details.tools").last();
  await fold.locator("summary").click();
  await fold.getByText(`echo ${count + 1}`).waitFor();
  assert.ok(await page.evaluate(() => document.querySelectorAll(".entry, .tool").length) <= 400);
  // Further tools make the same fold longer, and it stays open.
  appendFileSync(file, tool(count + 4));
  await page.reload();
  await page.locator("details.tools").last().locator("summary").click();
  appendFileSync(file, tool(count + 5));
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await page.getByRole("button", { name: "newest" }).click();
  await page.locator("details.tools summary", { hasText: "5 tool calls" }).waitFor();
  assert.ok(await page.locator("details.tools").last().evaluate((one) => one.open));
  // An address of an entry is shown where it is, with what stands round it.
  await page.goto("about:blank");
  await page.goto(`${stage.url}${address(id)}#e3000`);
  await page.locator("#e3000.found").waitFor();
  assert.ok(await page.locator("#e3000").evaluate((one) => { const box = one.getBoundingClientRect(); return box.top < innerHeight && box.bottom > 0; }));
  await page.getByRole("button", { name: "Show earlier" }).click();
  await page.locator("#e2900").waitFor();
  await page.getByRole("button", { name: "Show later" }).click();
  await page.locator("#e3100").waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("row 66 what comes in many parts is followed to its end, an open fold stays open, and who reads further up keeps a window", { timeout: 120_000 }, async () => {
  const call = (/** @type {number} */ number) => ["assistant", [{ type: "tool_use", id: `toolu_live_${number}`, name: "Bash", input: { command: `echo live ${number}` } }]];
  const grow = (/** @type {any[]} */ turns) => stage.say(IDS.works, "parser", turns, -turns.length * 60_000);
  const page = await stage.open({ path: address(IDS.works) });
  await page.locator(".entry", { hasText: "Reading grammar.rs" }).waitFor();
  // A fold that is open when further tools come, live: it grows, and stays open.
  grow([call(1), call(2)]);
  const fold = page.locator("details.tools").last();
  await fold.locator("summary", { hasText: "2 tool calls" }).click();
  await fold.getByText("echo live 2").waitFor();
  grow([call(3)]);
  await fold.locator("summary", { hasText: "3 tool calls" }).waitFor();
  await fold.getByText("echo live 3").waitFor();
  assert.ok(await fold.evaluate((one) => one.open));
  // More than is asked for at once: the end is shown all the same, and what comes then, too.
  const said = (/** @type {number} */ from, /** @type {number} */ count) => Array.from({ length: count }, (_, at) => ["assistant", `live answer ${from + at}`]);
  grow(said(0, 250));
  await page.getByText("live answer 249", { exact: true }).waitFor();
  grow(said(250, 1));
  await page.getByText("live answer 250", { exact: true }).waitFor();
  assert.ok(await page.evaluate(() => innerHeight + scrollY >= document.documentElement.scrollHeight - 120));
  // Far more than the window: the newest.
  grow(said(251, 700));
  await page.getByText("live answer 950", { exact: true }).waitFor();
  assert.ok(await page.evaluate(() => document.querySelectorAll(".entry").length <= 400));
  // Further up nothing moves, nothing piles up, and it is said how much came.
  await page.evaluate(() => scrollTo(0, 0));
  grow(said(951, 600));
  const fresh = page.getByRole("button", { name: /^600 new/ });
  await fresh.waitFor();
  assert.equal(await page.evaluate(() => scrollY), 0);
  assert.ok(await page.evaluate(() => document.querySelectorAll(".entry").length <= 400));
  await fresh.click();
  await page.getByText("live answer 1550", { exact: true }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("row 66 one question at a time: what fails is said and can be asked again, and nothing is there twice", { timeout: 60_000 }, async () => {
  const page = await stage.open({ path: address(IDS.works) });
  await page.getByText("live answer 1550", { exact: true }).waitFor();
  await answer(page, "**/talk?from=*", 503, { json: { ok: false, error: { code: "BUSY", message: "too many commands run", hint: "ask again in a moment" } } });
  await page.getByRole("button", { name: "Show earlier" }).click();
  await page.locator(".notice.bad", { hasText: "too many commands run" }).waitFor();
  await page.getByText("live answer 1550", { exact: true }).waitFor();
  await page.unroute("**/talk?from=*");
  await page.getByRole("button", { name: "Show earlier" }).evaluate((one) => { one.click(); one.click(); });
  await until(page, () => document.querySelectorAll(".entry").length === 300);
  assert.equal(await page.locator(".notice.bad").count(), 0);
  assert.equal(await page.evaluate(() => new Set([...document.querySelectorAll(".entry")].map((one) => one.id)).size), 300);
  await page.context().close();
});

test("a masked secret is shown to who may manage, entry by entry", { timeout: 60_000 }, async () => {
  const id = "99999999-1111-4111-8111-999999999999", secret = `sk-ant-api03-${"a1B2".repeat(24)}`;
  stage.write(id, "masked", [["user", `use ${secret} for it`], ["assistant", "It is used."]]);
  await stage.allow("manage");
  const page = await stage.open({ path: address(id) });
  await page.getByText("It is used.").waitFor();
  assert.doesNotMatch(await page.locator(".talk").innerText(), /a1B2/);
  await page.getByRole("button", { name: "show 1 masked secret" }).click();
  await page.locator(".entry.user", { hasText: secret }).waitFor();
  assert.equal(await page.getByRole("button", { name: /masked secret/ }).count(), 0);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("row 68 a recording plays, seeks, has marks, and ends as the live screen", { timeout: 60_000 }, async () => {
  const id = stage.create("film", "printf '\\033[31mred one\\033[0m\\r\\n'; read a; printf 'second line\\r\\n'; read b; printf '\\033[2J\\033[Hlast \\033[1;44mblue\\033[0m 日本'; cat", 50, 8);
  stage.run("wait", "film", "--text", "one");
  stage.run("mark", "film", "after one");
  stage.run("type", "film", "x", "--append-newline");
  stage.run("wait", "film", "--text", "second");
  // Frames are some time apart: a mark has one of its own, however soon the screen changes again.
  stage.run("mark", "film", "after two");
  stage.run("type", "film", "y", "--append-newline");
  stage.run("wait", "film", "--text", "last");
  const live = await stage.open({ path: `/s/terminal:${id}` });
  await live.locator(".term .screen").getByText("last").waitFor();
  const look = (page) => page.evaluate(() => [...document.querySelectorAll(".term .row")].map((row) => [...row.children].map((run) => { const css = getComputedStyle(run); return [run.textContent, css.color, css.backgroundColor, css.fontWeight]; })));
  const wanted = await look(live);
  await live.getByRole("link", { name: "Recording" }).click();
  const page = live;
  await page.getByText(/pauses are at most two seconds/).waitFor();
  assert.ok((await page.locator(".term .screen").innerText()).trim().length >= 0);
  await page.getByRole("button", { name: /after one/ }).click();
  assert.match(await page.locator(".term .screen").innerText(), /red one/);
  assert.doesNotMatch(await page.locator(".term .screen").innerText(), /second/);
  await page.getByLabel("Find in the output").fill("second line");
  await page.getByRole("button", { name: "Find" }).click();
  await page.locator(".plainlist button").first().click();
  assert.match(await page.locator(".term .screen").innerText(), /second line/);
  const seek = page.getByLabel("Place in the recording");
  await seek.evaluate((one) => { one.value = one.max; one.dispatchEvent(new Event("input")); });
  assert.deepEqual(await look(page), wanted);
  await seek.evaluate((one) => { one.value = 0; one.dispatchEvent(new Event("input")); });
  await page.getByLabel("Speed").selectOption("8");
  await page.getByRole("button", { name: "Play" }).click();
  await page.locator(".term .screen").getByText("last").waitFor();
  await page.getByRole("button", { name: "Play" }).waitFor();
  assert.deepEqual(await look(page), wanted);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("row 69 charts are their tables, and the treemap is what du says", { timeout: 60_000 }, async () => {
  const page = await stage.open({ path: "/usage" });
  const numbers = (texts) => texts.map((text) => Number(text.replace(/,/g, "")));
  for (const by of ["Day", "Project", "Model", "Agent"]) {
    await page.getByRole("button", { name: by, exact: true }).click();
    await until(page, (name) => document.querySelector("table.plain th")?.textContent === name, by.toLowerCase());
    await page.waitForSelector("svg.chart rect");
    const table = await page.locator("table.plain tbody tr").evaluateAll((rows) => rows.map((row) => [...row.querySelectorAll("td.right")].map((cell) => cell.textContent)));
    const cells = table.slice(0, -1).flatMap((row) => numbers(row.slice(0, 4))).filter((value) => value > 0).sort((one, other) => one - other);
    const bars = await page.locator("svg.chart rect").evaluateAll((all) => all.map((one) => ({ value: Number(one.dataset.value), length: Math.max(Number(one.getAttribute("height")), 0), wide: Number(one.getAttribute("width")) })));
    const drawn = bars.map((one) => one.value).sort((one, other) => one - other);
    if (table.length <= 21) assert.deepEqual(drawn, cells, by);
    // Lengths are in the same ratio as the numbers.
    const size = by === "Day" ? "length" : "wide";
    const big = bars.filter((one) => one[size] > 20);
    const scale = big[0].value / big[0][size];
    for (const one of big) assert.ok(Math.abs(one.value / one[size] / scale - 1) < 0.02, `${by}: ${JSON.stringify(one)}`);
    const sums = numbers(table[table.length - 1].slice(0, 4));
    sums.forEach((sum, kind) => assert.equal(table.slice(0, -1).reduce((all, row) => all + numbers([row[kind]])[0], 0), sum, by));
  }
  await page.goto(`${stage.url}/disk`);
  await page.waitForSelector("svg.map rect[data-bytes]");
  const du = stage.json("du");
  const cells = await page.locator("svg.map rect[data-bytes]").evaluateAll((all) => all.map((one) => ({ bytes: Number(one.dataset.bytes), area: Number(one.getAttribute("width")) * Number(one.getAttribute("height")) })));
  assert.equal(cells.reduce((sum, one) => sum + one.bytes, 0), du.totalBytes);
  const rows = await page.locator("td[data-bytes]").evaluateAll((all) => all.map((one) => Number(one.dataset.bytes)));
  assert.equal(rows.reduce((sum, one) => sum + one, 0), 2 * du.totalBytes, "agents and their projects");
  const scale = cells[0].bytes / cells[0].area;
  for (const one of cells.filter((cell) => cell.area > 100)) assert.ok(Math.abs(one.bytes / one.area / scale - 1) < 0.05, JSON.stringify(one));
  await page.locator("button.linklike").first().click();
  await page.locator("[role=status] .srow").first().waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

/** What the page shows when the API answers something else than usual. */
async function answer(page, pattern, status, body) {
  await page.route(pattern, (route) => (route.request().method() === "GET" && status >= 400 && body.onlyWrites ? route.continue() : route.fulfill({ status, contentType: "application/json", body: JSON.stringify(body.json ?? body) })));
}

test("row 70 empty, incomplete, refused, gone and may-have-been-applied have their words", { timeout: 90_000 }, async () => {
  for (const colorScheme of ["light", "dark"]) {
    const error = (code, message, hint) => ({ onlyWrites: true, json: { ok: false, error: { code, message, hint } } });
    const page = await stage.open({ path: `/s/claude-code:${IDS.rests}`, browser: { colorScheme } });
    // Refused: the refusal, the evidence, the remedy; nothing that tries again.
    await answer(page, "**/v1/sessions/*/pin", 409, error("REFUSED", "it is pinned by another user", "ask them"));
    await page.getByRole("button", { name: "Pin" }).click();
    await page.locator(".notice.bad", { hasText: "it is pinned by another user ask them" }).waitFor();
    assert.equal(await page.getByRole("button", { name: /again|retry/i }).count(), 0);
    await picture(page, `refused-${colorScheme}`);
    await page.unroute("**/v1/sessions/*/pin");
    // May have been applied: says so, and how to look.
    await answer(page, "**/v1/sessions/*/pin", 504, error("MAY_HAVE_APPLIED", "the daemon did not answer", "look at `ostler pins`"));
    await page.getByRole("button", { name: "Pin" }).click();
    await page.locator(".notice.bad", { hasText: "It may have been applied" }).waitFor();
    await picture(page, `may-have-been-applied-${colorScheme}`);
    await page.goto(`${stage.url}/s/claude-code:99999999-9999-4999-8999-999999999999`);
    await page.getByRole("heading", { name: "Not found" }).waitFor();
    // What was looked for and what helps are set off, and the way back is there.
    assert.deepEqual(await page.locator(".notice.bad code").allInnerTexts(), ["claude-code:99999999-9999-4999-8999-999999999999", "ostler ls -a"]);
    await page.getByRole("link", { name: "← overview" }).waitFor();
    await picture(page, `gone-${colorScheme}`);
    await page.context().close();
    const incomplete = await stage.open({ browser: { colorScheme }, before: (page) => page.routeWebSocket("**/v1/stream", (socket) => {
      const server = socket.connectToServer();
      server.onMessage((text) => {
        const frame = JSON.parse(text);
        if (frame.about) frame.about.incomplete = [{ source: "codex", path: "/home/x/.codex", reason: "permission denied" }, { source: "goose", reason: "locked" }];
        socket.send(JSON.stringify(frame));
      });
    }) });
    await incomplete.locator("summary", { hasText: "2 sources could not be read" }).click();
    await incomplete.getByText("permission denied").first().waitFor();
    await picture(incomplete, `incomplete-${colorScheme}`);
    await incomplete.context().close();
  }
});

/** A picture for people to look at, where OSTLER_PICTURES names a directory. */
async function picture(page, name) {
  if (process.env.OSTLER_PICTURES) await page.screenshot({ path: join(process.env.OSTLER_PICTURES, `${name}.png`) });
}

/** The same in both themes. */
async function pictures(page, name) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await picture(page, `${name}-${colorScheme}`);
  }
}

test("row 70 a machine without agents says where it looked, a quiet one what ended", { timeout: 60_000 }, async () => {
  const bare = await Stage.start({ agents: false });
  try {
    const page = await bare.open();
    await page.getByText("No agent was found on this machine.").waitFor();
    await page.getByText("/.claude").first().waitFor();
    await pictures(page, "no-agents");
    bare.write(IDS.rests, "tests", [["user", "fix the flaky test"], ["assistant", "Fixed."]]);
    await page.reload();
    await page.getByText("All quiet. Nothing is running.").waitFor();
    await page.locator(".empty .srow", { hasText: "fix the flaky test" }).waitFor();
    await pictures(page, "quiet");
    for (const [path, words] of [["/search?q=nosuchword", "Nothing found."], ["/access", "Nothing is lent."], ["/clean", "Nothing to collect."]]) {
      await page.goto(bare.url + path);
      await page.getByText(words).first().waitFor();
    }
    await page.goto(`${bare.url}/s/claude-code:${IDS.rests}#terminal`);
    await page.getByText("It runs in no terminal of ostler's.").waitFor();
    assert.deepEqual(page.wrong, []);
  } finally {
    await bare.close();
  }
});

test("row 70 a session that ends while it is open stays, with its draft, and says how it ended", { timeout: 60_000 }, async () => {
  const page = await stage.open({ path: `/s/claude-code:${IDS.rests}` });
  await page.getByLabel("Reply to the agent").fill("a draft that stays");
  const id = (await stage.api("GET", `/v1/sessions/claude-code:${IDS.rests}`)).result.session.linked.find((one) => one.agent === "terminal").id;
  stage.run("destroy", "--force", id);
  await page.locator(".notice.over", { hasText: /Ended .*proven/ }).waitFor();
  assert.equal(await page.getByLabel("Reply to the agent").inputValue(), "a draft that stays");
  await page.context().close();
});

test("row 41 a server that dies while it applies: the page says that it may have been applied", { timeout: 60_000 }, async () => {
  stage.run("create", "--name", "old", "--", "true");
  stage.run("wait", "old", "--exit");
  const page = await stage.open({ path: "/clean" });
  await page.getByLabel("Left alone for longer than").selectOption("0s");
  await page.getByRole("button", { name: /to the trash/ }).click();
  // The request is on its way when the server stops, and never answered.
  await page.route("**/v1/gc", async (route) => { if (route.request().method() === "POST") await route.abort("connectionreset"); else await route.continue(); });
  await page.locator("dialog").getByRole("button", { name: "Move to the trash" }).click();
  await page.locator(".notice.bad", { hasText: "It may have been applied" }).waitFor();
  await page.context().close();
});

test("row 72 a page of another version is loaded anew, once, and then says so", { timeout: 60_000 }, async () => {
  let loads = 0;
  const page = await stage.open({ before: async (page) => {
    page.on("load", () => loads++);
    await page.addInitScript(() => new MutationObserver(() => { const meta = document.querySelector("meta[name=ostler-version]"); if (meta && window.name !== "current") meta.content = "other"; }).observe(document, { childList: true, subtree: true }));
  } });
  await page.getByText("the server is of another version: reload this page").waitFor();
  assert.equal(loads, 2);
  await page.evaluate(() => { window.name = "current"; });
  await page.reload();
  await page.locator(".card", { hasText: "gateway-auth" }).waitFor();
  await page.getByText("updated by events").waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("row 62 the mouse goes to a program that asked for it, and stays the browser's with Shift", { timeout: 60_000 }, async () => {
  const id = stage.create("mouse", "stty raw -echo; printf '\\033[?1002h\\033[?1006hready'; cat -v", 60, 10);
  stage.run("wait", "mouse", "--text", "ready");
  const page = await stage.open({ path: `/s/terminal:${id}` });
  const screen = page.locator(".term .screen");
  await screen.getByText("ready").waitFor();
  const box = await screen.boundingBox();
  const cell = { x: box.width / 60, y: 17 };
  const at = (col, row) => [box.x + (col + 0.5) * cell.x, box.y + (row + 0.5) * cell.y];
  // A watcher's mouse is the browser's.
  await page.mouse.click(...at(3, 4));
  await page.getByRole("button", { name: "Take the keyboard" }).click();
  await page.getByText("typing", { exact: true }).waitFor();
  await page.mouse.move(...at(3, 4));
  await page.mouse.down();
  await page.mouse.move(...at(8, 4));
  await page.mouse.up();
  await page.mouse.wheel(0, 40);
  await page.mouse.click(...at(1, 2), { button: "right" });
  await screen.getByText("^[[<2;2;3m").waitFor();
  const typed = (await screen.innerText()).replace(/\s/g, "");
  assert.equal(typed, "ready^[[<0;4;5M^[[<32;9;5M^[[<0;9;5m^[[<65;9;5M^[[<2;2;3M^[[<2;2;3m");
  await page.keyboard.down("Shift");
  await page.mouse.move(...at(0, 0));
  await page.mouse.down();
  await page.mouse.move(...at(5, 0));
  await page.mouse.up();
  await page.keyboard.up("Shift");
  assert.equal((await screen.innerText()).replace(/\s/g, ""), typed);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("a terminal's rows are text of a named region, and read mode reads new lines out, five a second", { timeout: 60_000 }, async () => {
  const id = stage.create("reader", "stty -echo; echo first line; while read n; do seq -f 'line %g' $n; done", 60, 12);
  stage.run("wait", "reader", "--text", "first");
  const page = await stage.open({ path: `/s/terminal:${id}` });
  const region = page.getByRole("region", { name: "Terminal reader" });
  await region.getByText("first line").waitFor();
  const tree = await page.locator(".term").first().ariaSnapshot();
  assert.match(tree, /first line/);
  await page.getByRole("button", { name: "Read mode" }).click();
  const frozen = page.getByRole("region", { name: /standing still/ });
  stage.run("type", "reader", "20", "--append-newline");
  const log = page.getByRole("log", { name: "New lines" });
  const begun = Date.now();
  await log.getByText("line 20").waitFor();
  const lines = await log.locator("div").count();
  assert.ok(Date.now() - begun >= (lines - 2) * 190, `${lines} lines in ${Date.now() - begun} ms`);
  assert.equal((await frozen.innerText()).trim(), "first line");
  await page.getByRole("button", { name: "Read mode" }).click();
  await region.getByText("line 20").waitFor();
  await page.getByRole("button", { name: "Earlier lines" }).click();
  await page.getByLabel("Lines that scrolled away").getByText("first line").waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("a session whose agent is gone is finalized as it was shown, and one that lives is not", { timeout: 60_000 }, async () => {
  const id = "88888888-8888-4888-8888-888888888888";
  const cwd = stage.write(id, "gone", [["user", "go on"], ["assistant", "Gone."]]);
  const transcript = join(stage.home, ".claude/projects/-gone", `${id}.jsonl`);
  const hook = (event) => `printf '{"session_id":"${id}","cwd":"${cwd}","transcript_path":"${transcript}","source":"startup","prompt":"go on"}' | CLAUDE_PID=$$ ${stage.env.OSTLER} hook claude-code ${event};`;
  stage.run("create", "--name", "gone", "--cwd", cwd, "--", "bash", "-c", `${hook("SessionStart")} ${hook("UserPromptSubmit")} echo told; read end`);
  stage.run("wait", "gone", "--text", "told");
  const page = await stage.open({ path: address(id) });
  await page.getByRole("heading", { name: /gone|go on/ }).waitFor();
  stage.run("destroy", "--force", "gone");
  await page.locator(".notice.over").waitFor();
  const finalize = async () => {
    await page.getByRole("button", { name: "All actions" }).click();
    await page.locator("dialog").getByRole("button", { name: "Finalize" }).click();
  };
  await finalize();
  await page.locator("dialog").getByText(id).waitFor();
  assert.doesNotMatch(stage.run("events"), /exited/, "it was only shown");
  await page.locator("dialog").getByRole("button", { name: "Finalize it" }).click();
  await page.locator("dialog").waitFor({ state: "detached" });
  for (const begun = Date.now(); !/exited/.test(stage.run("events")) && Date.now() - begun < 20_000;);
  assert.match(stage.run("events"), new RegExp(`exited.*${id}`));
  await finalize();
  await page.getByText("No hook told of it, or it is finalized already.").waitFor();
  // One that runs is left alone, with the reason.
  await page.goto(stage.url + address(IDS.works));
  await page.getByRole("heading", { name: "parser-rewrite" }).waitFor();
  await finalize();
  await page.getByText("Its agent is not proven to be gone.").waitFor();
  assert.deepEqual(page.wrong.filter((one) => !/404/.test(one)), []);
  await page.context().close();
});

test("a browser that is kept signed in is signed in after a restart, in every tab", { timeout: 60_000 }, async () => {
  const page = await stage.open();
  await page.getByRole("button", { name: "This browser" }).click();
  await page.getByRole("button", { name: "Keep this browser signed in" }).click();
  await page.getByText("Kept signed in for thirty days.").waitFor();
  await stage.stopServer();
  await stage.serve(["--allow", "manage"]);
  const other = await page.context().newPage();
  await other.goto(stage.url);
  await other.locator(".card", { hasText: "gateway-auth" }).waitFor();
  await other.getByRole("button", { name: "This browser" }).click();
  await other.getByRole("button", { name: "Sign out" }).click();
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.context().close();
});
