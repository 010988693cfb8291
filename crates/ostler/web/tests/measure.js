// The bounds of the page, measured in a real browser: `cargo xtask bench web` runs this and judges what it prints.
import { closeSync, mkdirSync, openSync, readFileSync, readdirSync, rmSync, writeSync } from "node:fs";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { IDS, Stage } from "./stage.js";

const bounds = [];
const bound = (what, measured, limit, unit) => { bounds.push({ what, measured, limit, unit }); console.error(`${what}: ${measured.toFixed(2)}${unit}${limit === null ? "" : `, at most ${limit.toFixed(2)}`}`); };
const sorted = (list) => [...list].sort((one, other) => one - other);
const part = (list, share) => sorted(list)[Math.min(list.length - 1, Math.floor(list.length * share))];
const FLOOD = 60_000_000;

/** A page that does nothing but send a key and show what comes back: what the machine makes of the best there is. */
async function echoServer() {
  const html = "<!doctype html><textarea></textarea><p></p><script>const p=document.querySelector('p'),s=new WebSocket(`ws://${location.host}/`);s.onmessage=(e)=>{p.textContent+=e.data};document.querySelector('textarea').onkeydown=(e)=>{e.preventDefault();s.send(e.key)};s.onopen=()=>{document.title='open'}</script>";
  const server = createServer((request, response) => { response.setHeader("Content-Type", "text/html"); response.end(html); });
  server.on("upgrade", (request, socket) => {
    const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
    socket.setNoDelay(true);
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    socket.on("error", () => {});
    socket.on("data", (data) => {
      if ((data[0] & 15) !== 1) return;
      const length = data[1] & 127, mask = data.subarray(2, 6), body = Buffer.from(data.subarray(6, 6 + length));
      body.forEach((byte, at) => { body[at] = byte ^ mask[at % 4]; });
      socket.write(Buffer.concat([Buffer.from([0x81, length]), body]));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

/** Milliseconds from each key to the change of an element, and to the frame in which it was painted. */
async function keyTimes(page, element, count) {
  await page.evaluate((element) => {
    window.times = [];
    window.painted = [];
    let pressed = 0;
    document.addEventListener("keydown", () => { pressed = performance.now(); }, true);
    // A message that is sent in a frame's callback comes after its painting.
    const afterPaint = (begun) => requestAnimationFrame(() => { const { port1, port2 } = new MessageChannel(); port1.onmessage = () => window.painted.push(performance.now() - begun); port2.postMessage(0); });
    new MutationObserver(() => { if (pressed) { window.times.push(performance.now() - pressed); afterPaint(pressed); pressed = 0; } }).observe(document.querySelector(element), { childList: true, subtree: true, characterData: true });
  }, element);
  for (let key = 0; key < count; key++) {
    await page.keyboard.press("abcdefghijklmnopqrstuvwxyz"[key % 26]);
    await page.waitForFunction((wanted) => window.times.length >= wanted, key + 1, { polling: 4 });
  }
  await page.waitForFunction((wanted) => window.painted.length >= wanted, count);
  return page.evaluate(() => ({ shown: window.times, painted: window.painted }));
}

async function measureEcho(stage, count = 150) {
  const id = stage.create("echo", "stty raw -echo; printf ready; cat", 80, 24);
  stage.run("wait", "echo", "--text", "ready");
  const page = await stage.open({ path: `/s/terminal:${id}` });
  await page.locator(".term .screen").getByText("ready").waitFor();
  await page.getByRole("button", { name: "Take the keyboard" }).click();
  await page.locator(".term.typing").waitFor();
  const server = await echoServer();
  const bare = await (await stage.browser.newContext()).newPage();
  await bare.goto(`http://127.0.0.1:${server.address().port}/`);
  await bare.waitForFunction(() => document.title === "open");
  await bare.focus("textarea");
  const floor = await keyTimes(bare, "p", count);
  await page.bringToFront();
  const own = await keyTimes(page, ".term .screen", count);
  for (const [name, share, most] of [["p50", 0.5, 5], ["p99", 0.99, 25]]) {
    bound(`key to DOM, ${name} (a bare echo page: ${part(floor.shown, share).toFixed(2)} ms)`, part(own.shown, share), Math.max(most, 2 * part(floor.shown, share)), " ms");
  }
  bound(`key to paint, beyond the DOM, p50 (a bare echo page: ${(part(floor.painted, 0.5) - part(floor.shown, 0.5)).toFixed(2)} ms)`, part(own.painted, 0.5) - part(own.shown, 0.5), 17, " ms");
  await bare.context().close();
  await page.context().close();
  server.close();
}

/** Seconds that a program takes for its output. */
async function floodSeconds(stage, name, watch) {
  const file = join(stage.home, `${name}.took`);
  const id = stage.create(name, `read go; begun=$(date +%s%N); yes 'the quick brown fox jumps over the lazy dog 0123456789' | head -c ${FLOOD}; echo $(( $(date +%s%N) - begun )) > ${file}; echo; echo the end; cat`, 80, 24);
  const page = watch ? await stage.open({ before: (page) => { page.heard = 0; page.on("websocket", (socket) => socket.on("framereceived", (frame) => { page.heard += frame.payload.length; })); }, path: `/s/terminal:${id}` }) : null;
  if (page) await page.waitForSelector(".term .row");
  stage.run("type", name, "go", "--append-newline");
  stage.run("wait", name, "--text", "the end", "--timeout", "300000");
  if (page) await page.locator(".term .screen").getByText("the end").waitFor();
  const heard = page?.heard ?? 0;
  await page?.context().close();
  stage.run("destroy", "--force", name);
  return { seconds: Number(readFileSync(file, "utf8")) / 1e9, heard };
}

async function measureFlood(stage, rounds = 3) {
  const alone = [], watched = [];
  let heard = 0;
  for (let round = 0; round < rounds; round++) {
    alone.push((await floodSeconds(stage, `alone${round}`, false)).seconds);
    const told = await floodSeconds(stage, `watched${round}`, true);
    watched.push(told.seconds);
    heard = Math.max(heard, told.heard);
  }
  bound("bytes to the page of a 60 MB flood", (heard / FLOOD) * 100, 1, " %");
  bound("a watched flood against an unwatched one", part(watched, 0.5) / part(alone, 0.5), 1.05, "x");
  const id = stage.create("endless", "trap 'echo; echo STOPPED; exec cat' INT; read go; yes flood", 80, 24);
  const page = await stage.open({ path: `/s/terminal:${id}` });
  await page.getByRole("button", { name: "Take the keyboard" }).click();
  await page.locator(".term.typing").waitFor();
  await page.keyboard.press("Enter");
  await page.locator(".term .screen").getByText("flood").first().waitFor();
  await page.evaluate(() => {
    document.addEventListener("keydown", () => { window.pressed = performance.now(); }, true);
    new MutationObserver(() => { if (!window.stopped && document.querySelector(".term .screen").textContent.includes("STOPPED")) window.stopped = performance.now(); }).observe(document.querySelector(".term .screen"), { childList: true, subtree: true });
  });
  await page.keyboard.press("Control+c");
  await page.waitForFunction(() => window.stopped);
  bound("Ctrl+C in a flood until it is seen", await page.evaluate(() => window.stopped - window.pressed), 150, " ms");
  await page.context().close();
}

async function measureReady(stage, rounds = 7) {
  const times = [];
  let bytes = 0, files = 0, code = 0;
  for (let round = 0; round < rounds; round++) {
    const asked = [];
    const page = await stage.open({ before: async (page) => {
      page.on("request", (request) => asked.push(new URL(request.url()).pathname));
      page.on("websocket", (socket) => socket.on("framereceived", (frame) => { if (frame.payload.includes("\"rev\":1,") || frame.payload.includes("\"rev\":1}")) bytes = Math.max(bytes, frame.payload.length); }));
      await page.addInitScript(() => new MutationObserver(() => { if (!window.ready && document.querySelector(".card .ask")?.textContent) window.ready = performance.now(); }).observe(document, { childList: true, subtree: true, characterData: true }));
    } });
    await page.waitForFunction(() => window.ready);
    times.push(await page.evaluate(() => window.ready - performance.getEntriesByType("navigation")[0].responseEnd));
    code = await page.evaluate(() => performance.getEntriesByType("resource").filter((one) => /\.(js|css)$/.test(one.name)).reduce((sum, one) => sum + one.decodedBodySize, 0));
    files = asked.filter((path) => !path.startsWith("/v1/") && !path.endsWith(".ttf")).length;
    await page.context().close();
  }
  bound("needs-you readable after the document, 10,000 sessions", part(times, 0.5), 400, " ms");
  bound("bytes of the first rows, 10,000 sessions", bytes / 1000, 60, " KB");
  bound("files of the first load, without the font", files, 10, "");
  bound("script and style of the first load", code / 1000, 90, " KB");
}

async function measureScroll(stage) {
  const page = await stage.open();
  await page.locator(".folds button", { hasText: "ended" }).click();
  await page.locator("section[aria-label=ended] .srow").first().waitFor();
  const busy = setInterval(() => stage.say(IDS.works, "parser", [["user", "one more line"]]), 20);
  const told = await page.evaluate(async () => {
    const long = [];
    new PerformanceObserver((list) => long.push(...list.getEntries().map((one) => one.duration))).observe({ entryTypes: ["longtask"] });
    let nodes = 0;
    for (let step = 0; step < 600; step++) {
      scrollBy(0, innerHeight);
      await new Promise((resolve) => requestAnimationFrame(resolve));
      nodes = Math.max(nodes, document.querySelectorAll("*").length);
    }
    return { longest: Math.max(0, ...long), nodes };
  });
  clearInterval(busy);
  bound("longest task while scrolling 10,000 rows with 50 changes a second", told.longest, 50, " ms");
  bound("nodes while scrolling", told.nodes, 2500, "");
  await page.context().close();
}

async function measureChange(stage, count = 30) {
  const page = await stage.open();
  await page.locator(".srow", { hasText: "parser-rewrite" }).waitFor();
  const times = [];
  for (let round = 0; round < count; round++) {
    const before = await page.locator(".srow", { hasText: "parser-rewrite" }).locator("time").getAttribute("datetime");
    await page.evaluate((before) => {
      window.seen = 0;
      const watch = new MutationObserver(() => {
        const row = [...document.querySelectorAll(".srow")].find((one) => one.textContent.includes("parser-rewrite"));
        if (row?.querySelector("time").getAttribute("datetime") !== before) { window.seen = performance.timeOrigin + performance.now(); watch.disconnect(); }
      });
      watch.observe(document.querySelector("main"), { childList: true, subtree: true, attributes: true });
    }, before);
    const begun = performance.timeOrigin + performance.now();
    // Said now: an older line is no newer than the hooks with which the agent began a moment ago.
    stage.say(IDS.works, "parser", [["user", `line ${round}`]], -60_000);
    await page.waitForFunction(() => window.seen, undefined, { polling: 5 });
    times.push(await page.evaluate(() => window.seen) - begun);
  }
  bound("a change on disk until the page shows it, p50", part(times, 0.5), 60, " ms");
  bound("a change on disk until the page shows it, p99", part(times, 0.99), 150, " ms");
  await page.context().close();
}

/** The end of a process until the page shows it. */
async function measureEnd(stage, count = 15) {
  const page = await stage.open();
  await page.locator(".srow", { hasText: "parser-rewrite" }).waitFor();
  const times = [];
  for (let round = 0; round < count; round++) {
    const name = `mortal${round}`;
    const file = join(stage.home, `${name}.pid`);
    stage.create(name, `echo $$ > ${file}; exec sleep 1000`, 80, 24);
    await page.locator(".srow", { hasText: name }).waitFor();
    await page.evaluate((name) => {
      window.seen = 0;
      const watch = new MutationObserver(() => { if (![...document.querySelectorAll("section[aria-label=working] .srow")].some((one) => one.textContent.includes(name))) { window.seen = performance.timeOrigin + performance.now(); watch.disconnect(); } });
      watch.observe(document.querySelector("main"), { childList: true, subtree: true, characterData: true });
    }, name);
    const begun = performance.timeOrigin + performance.now();
    process.kill(Number(readFileSync(file, "utf8")), "SIGKILL");
    await page.waitForFunction(() => window.seen, undefined, { polling: 5 });
    times.push(await page.evaluate(() => window.seen) - begun);
  }
  bound("the end of a process until the page shows it, p50", part(times, 0.5), 60, " ms");
  bound("the end of a process until the page shows it, p99", part(times, 0.99), 150, " ms");
  await page.context().close();
}

/** A conversation of 200 MB until its first screen is there. */
async function measureTalk(stage, rounds = 5) {
  const id = "88888888-8888-4888-8888-888888888888";
  const directory = join(stage.home, ".claude/projects/-huge");
  mkdirSync(directory, { recursive: true });
  const file = openSync(join(directory, `${id}.jsonl`), "w");
  const line = (number, type, message) => `${JSON.stringify({ parentUuid: null, isSidechain: false, userType: "external", cwd: "/huge", sessionId: id, version: "2.1.0", type, message, uuid: `h${number}`, timestamp: new Date(Date.now() - 3_600_000 + number).toISOString() })}\n`;
  writeSync(file, line(0, "user", { role: "user", content: "begin" }));
  const word = "word ".repeat(1800);
  for (let number = 1, written = 0; written < 200_000_000; number++) written += writeSync(file, line(number, "assistant", { id: `h${number}`, role: "assistant", model: "x", content: [{ type: "text", text: `answer ${number} ${word}` }], usage: { input_tokens: 1, output_tokens: 1 } }));
  closeSync(file);
  stage.run("ls", "-a", "-q");
  const times = [];
  for (let round = 0; round < rounds; round++) {
    const page = await stage.open({ path: `/s/claude-code:${id}`, before: (page) => page.addInitScript(() => new MutationObserver(() => { if (!window.ready && document.querySelector(".entry .body")?.textContent) window.ready = performance.now(); }).observe(document, { childList: true, subtree: true })) });
    await page.waitForFunction(() => window.ready, undefined, { timeout: 60_000 });
    times.push(await page.evaluate(() => window.ready - performance.getEntriesByType("navigation")[0].responseEnd));
    await page.context().close();
  }
  rmSync(directory, { recursive: true, force: true });
  bound("talk of 200 MB until its first screen", part(times, 0.5), 300, " ms");
  bound("resident memory of the server after it", statusOf(stage.server.pid, "VmRSS") / 1000, 45, " MB");
}

/**
 * Frames as an agent redraws them: everything is written anew, and a dozen rows of a 200 by 50 screen differ. The server
 * has the emulator and sends those; an emulator in the page has to read and draw what the program writes.
 */
const REDRAWN = { frames: 240, rows: 12, cols: 200, lines: 50 };

/** What the main thread spends on each frame, by our rows and by xterm.js. */
async function measureRedraw(stage) {
  const spent = async (page, draw, argument) => {
    const client = await page.context().newCDPSession(page);
    await client.send("Performance.enable");
    const taken = async () => (await client.send("Performance.getMetrics")).metrics.find((one) => one.name === "TaskDuration").value;
    await page.evaluate(draw, { ...REDRAWN, ...argument, frames: 30 });
    const before = await taken();
    await page.evaluate(draw, { ...REDRAWN, ...argument });
    return ((await taken()) - before) * 1000 / REDRAWN.frames;
  };
  const own = await stage.open();
  const file = await own.evaluate(() => document.querySelector("script[type=module]").src.replace("app.js", "screen.js"));
  const ours = await spent(own, async ({ frames, rows, cols, lines, file }) => {
    const { ScreenView } = await import(file);
    const view = new ScreenView("redraw");
    document.querySelector("main").replaceChildren(view.element);
    view.apply({ whole: true, size: [cols, lines], styles: ["", "color:#8ccb8c", "color:#6cc7e6;font-weight:700", "color:#a89f91"], rows: Array.from({ length: lines }, (_, at) => [at, [["line ".repeat(30), 3]]]) });
    for (let frame = 0; frame < frames; frame++) {
      view.apply({ rows: Array.from({ length: rows }, (_, at) => [lines - rows + at, [[`${frame} `, 2], ["fn refresh() -> Result ".repeat(4), at % 3], [`${frame * at} tokens `, 1], ["esc to interrupt ".repeat(3), 3]]]), cursor: [lines - 1, frame % cols] });
      await new Promise((resolve) => requestAnimationFrame(resolve));
    }
  }, { file });
  await own.context().close();
  const xterm = createRequire(import.meta.url).resolve("@xterm/xterm");
  const other = await (await stage.browser.newContext({ viewport: { width: 1700, height: 1000 } })).newPage();
  await other.setContent("<div id=term></div>");
  await other.addStyleTag({ path: join(xterm, "../../css/xterm.css") });
  await other.addScriptTag({ path: xterm });
  const theirs = await spent(other, async ({ frames, rows, cols, lines }) => {
    document.querySelector("#term").replaceChildren();
    const term = new window.Terminal({ cols, rows: lines, fontSize: 13 });
    term.open(document.querySelector("#term"));
    term.write(Array.from({ length: lines }, (_, at) => `\x1b[${at + 1};1H\x1b[90m${"line ".repeat(30)}`).join(""));
    for (let frame = 0; frame < frames; frame++) {
      term.write(Array.from({ length: lines - rows }, (_, at) => `\x1b[${at + 1};1H\x1b[2K\x1b[90m${"line ".repeat(30)}`).join("") + Array.from({ length: rows }, (_, at) => `\x1b[${lines - rows + at + 1};1H\x1b[2K\x1b[1;36m${frame} \x1b[0;3${at % 3 + 1}m${"fn refresh() -> Result ".repeat(4)}\x1b[32m${frame * at} tokens \x1b[90m${"esc to interrupt ".repeat(3)}`).join(""));
      await new Promise((resolve) => requestAnimationFrame(resolve));
    }
  }, {});
  await other.context().close();
  bound(`main thread for a frame of 200 by 50 against xterm.js (${ours.toFixed(2)} and ${theirs.toFixed(2)} ms)`, ours / theirs, 1 / 3, "x");
}

const statusOf = (pid, name) => Number(readFileSync(`/proc/${pid}/status`, "utf8").match(new RegExp(`${name}:\\s+(\\d+)`))?.[1] ?? 0);
const switches = (pid) => readdirSync(`/proc/${pid}/task`).reduce((sum, task) => sum + Number(readFileSync(`/proc/${pid}/task/${task}/status`, "utf8").match(/voluntary_ctxt_switches:\s+(\d+)/)?.[1] ?? 0), 0);
const ticks = (pid) => { const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" "); return Number(fields[11]) + Number(fields[12]); };

async function measureRest(stage) {
  const pid = stage.server.pid;
  bound("resident memory of the server, 10,000 sessions", statusOf(pid, "VmRSS") / 1000, 45, " MB");
  const id = stage.create("wide", "seq 1000; cat", 200, 50);
  const before = statusOf(pid, "VmRSS");
  const watching = await stage.open({ path: `/s/terminal:${id}` });
  await watching.waitForSelector(".term .row");
  await watching.waitForTimeout(2000);
  bound("memory for a watched terminal of 200 by 50", Math.max(0, statusOf(pid, "VmRSS") - before) / 1000, 1.5, " MB");
  const shared = await stage.browser.newContext();
  await (await stage.open({ context: shared })).close();
  const further = 8;
  const each = [];
  // The first time counts for threads and their heaps, which stay; the others for the viewers.
  for (const isCounted of [false, true, true, true]) {
    const alone = statusOf(pid, "VmRSS");
    const viewers = [];
    for (let viewer = 0; viewer < further; viewer++) viewers.push(await stage.open({ context: shared, path: `/s/terminal:${id}` }));
    for (const page of viewers) await page.waitForSelector(".term .row");
    await watching.waitForTimeout(2000);
    if (isCounted) each.push(Math.max(0, statusOf(pid, "VmRSS") - alone) / 1000 / further);
    for (const page of viewers) await page.close();
    await watching.waitForTimeout(1000);
  }
  bound("memory for each further viewer of it, p50", part(each, 0.5), 0.256, " MB");
  await shared.close();
  await watching.context().close();
  const context = await stage.browser.newContext();
  const pages = [];
  let pushed = 0;
  for (let tab = 0; tab < 12; tab++) pages.push(await stage.open({ context, before: (page) => { if (tab === 0) page.on("websocket", (socket) => socket.on("framereceived", (frame) => { if (!frame.payload.includes("\"ping\"")) pushed += frame.payload.length; })); } }));
  for (const page of pages) await page.waitForFunction(() => document.title.startsWith("(1)"));
  const begun = performance.now();
  stage.run("type", "parser-rewrite", "q");
  for (const page of pages) await page.waitForFunction(() => document.title.startsWith("(2)"));
  bound("until the last of twelve tabs was told, with the hook that told it", (performance.now() - begun) / 1000, 5, " s");
  for (const page of pages.slice(1)) await page.close();
  await pages[0].waitForTimeout(15_000);
  const seconds = Number(process.env.OSTLER_IDLE ?? 60);
  pushed = 0;
  const [tick, woken] = [ticks(pid), switches(pid)];
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  bound(`ticks of the server in ${seconds} s of rest, one page open`, ticks(pid) - tick, 0, "");
  bound("wake-ups a minute of the server, one page open", ((switches(pid) - woken) * 60) / seconds, 5, "");
  bound(`bytes to an open page in ${seconds} s of rest, beside pings`, pushed, 0, "");
  await context.close();
}

const home = process.env.OSTLER_BENCH_HOME;
const stage = await Stage.start({ web: ["--allow", "type"], ...(home ? { home } : {}) });
stage.keep = Boolean(home);
try {
  await (await stage.open()).context().close();
  const wanted = new RegExp(process.env.OSTLER_MEASURE ?? ".");
  for (const [name, measure] of Object.entries({ ready: measureReady, echo: measureEcho, change: measureChange, end: measureEnd, scroll: measureScroll, redraw: measureRedraw, rest: measureRest, talk: measureTalk, flood: measureFlood })) {
    if (wanted.test(name)) await measure(stage);
  }
} finally {
  await stage.close();
  if (home) for (const made of ["api", "parser", "tests", "hostile", "run"]) rmSync(join(home, made), { recursive: true, force: true });
}
console.log(JSON.stringify(bounds));
