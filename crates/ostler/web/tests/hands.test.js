// Hands on a terminal, lost and frozen connections, small and large pages: each in a real browser.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { IDS, Stage } from "./stage.js";

/** @type {Stage} */
let stage;
before(async () => { stage = await Stage.start({ web: ["--allow", "type"] }); }, { timeout: 120_000 });
after(async () => { await stage?.close(); });

const until = (page, what, argument) => page.waitForFunction(what, argument, { timeout: 20_000 });
const PAGES = ["/", ...["", "#terminal", "#facts", "#timeline", "#usage", "#files", "/play"].map((tab) => `/s/claude-code:${IDS.asks}${tab}`), "/search?q=token", "/usage", "/disk", "/clean", "/access"];
const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };

/** Waits until a page shows what it has to show. */
async function settled(page) {
  await page.waitForSelector("main h1");
  await until(page, () => !document.querySelector(".loading") && !/^(searching|Reading)/.test(document.querySelector("[role=status]:not(.said)")?.textContent ?? ""));
}

test("row 51 two pages and one attach: one types, everybody is told, and nobody's window changes the size", { timeout: 60_000 }, async () => {
  const id = stage.create("shared", "cat", 80, 24);
  const open = async (width) => {
    const page = await stage.open({ path: `/s/terminal:${id}`, browser: { viewport: { width, height: 700 } } });
    await page.getByText("watching", { exact: true }).waitFor();
    return page;
  };
  const [one, other] = [await open(1280), await open(500)];
  const screen = (page) => page.locator(".term .screen");
  const size = () => { const told = stage.json("inspect", "shared"); return [told.session?.cols ?? told.cols, told.session?.rows ?? told.rows]; };
  await one.getByRole("button", { name: "Take the keyboard" }).click();
  await one.getByText("typing", { exact: true }).waitFor();
  await other.getByText(/^watching · tab-\d+ types$/).waitFor();
  await one.keyboard.type("from one");
  await screen(other).getByText("from one").waitFor();
  // The other page takes over: the first is told, and what is typed there stays there.
  await other.getByRole("button", { name: "Take the keyboard" }).click();
  await other.getByText("typing", { exact: true }).waitFor();
  await one.getByText(/^watching · tab-\d+ types$/).waitFor();
  await one.keyboard.type("lost");
  await other.keyboard.type(" and two");
  await screen(one).getByText("from one and two").waitFor();
  assert.deepEqual(size(), [80, 24], "neither page has a size");
  // A person at a terminal takes it from both, without a size of their own.
  stage.create("seat", `exec ${stage.env.OSTLER} attach ${id} --take --keep-size`, 70, 20);
  await other.getByText("watching · somebody else types").waitFor();
  stage.run("type", "seat", " and three");
  for (const page of [one, other]) await screen(page).getByText("from one and two and three").waitFor();
  assert.ok(!(await screen(one).innerText()).includes("lost"));
  assert.deepEqual(size(), [80, 24]);
  // One who only looks changes nothing at all.
  stage.create("looker", `exec ${stage.env.OSTLER} attach ${id} --read-only`, 40, 10);
  stage.run("wait", "looker", "--text", "from one");
  assert.deepEqual(size(), [80, 24]);
  // The person leaves: the keyboard is free, and both pages say so.
  stage.run("send-keys", "seat", "Ctrl+]");
  for (const page of [one, other]) await page.getByText("watching", { exact: true }).waitFor();
  for (const page of [one, other]) {
    assert.deepEqual(page.wrong, []);
    await page.context().close();
  }
});

test("row 61 a connection that froze is told and made anew: nothing twice, nothing lost", { timeout: 60_000 }, async () => {
  const page = await stage.open({ before: (page) => page.clock.install() });
  await page.locator(".card", { hasText: "gateway-auth" }).waitFor();
  await page.getByText("updated by events").waitFor();
  stage.server.kill("SIGSTOP");
  // Nothing comes, and nothing ends: only the silence tells.
  await page.clock.fastForward(31_000);
  await page.getByText(/last heard/).waitFor();
  assert.ok(await page.locator(".card", { hasText: "gateway-auth" }).isVisible());
  stage.server.kill("SIGCONT");
  await page.getByText("updated by events").waitFor();
  const keys = await page.locator("[data-key]").evaluateAll((all) => all.map((one) => one.dataset.key));
  assert.equal(new Set(keys).size, keys.length, keys.join(" "));
  stage.run("type", "parser-rewrite", "q");
  await until(page, () => document.title.startsWith("(2)"));
  stage.run("type", "parser-rewrite", "w");
  await until(page, () => document.title.startsWith("(1)"));
  await page.context().close();
});

test("row 62 a dead key waits for its letter, and what is marked is copied", { timeout: 60_000 }, async () => {
  const id = stage.create("dead", "stty raw -echo; printf 'ready\\r\\n'; cat -v", 60, 8);
  stage.run("wait", "dead", "--text", "ready");
  const page = await stage.open({ path: `/s/terminal:${id}`, browser: { permissions: ["clipboard-read", "clipboard-write"] } });
  const screen = page.locator(".term .screen");
  await screen.getByText("ready").waitFor();
  await page.getByRole("button", { name: "Take the keyboard" }).click();
  await page.getByText("typing", { exact: true }).waitFor();
  const client = await page.context().newCDPSession(page);
  await client.send("Input.dispatchKeyEvent", { type: "keyDown", key: "Dead", code: "BracketLeft", windowsVirtualKeyCode: 219 });
  await client.send("Input.imeSetComposition", { text: "^", selectionStart: 1, selectionEnd: 1 });
  await client.send("Input.dispatchKeyEvent", { type: "keyUp", key: "Dead", code: "BracketLeft", windowsVirtualKeyCode: 219 });
  await client.send("Input.insertText", { text: "ê" });
  await page.keyboard.type("!");
  await screen.getByText("M-CM-*!").waitFor();
  assert.equal((await screen.innerText()).trim().split(/\s+/).pop(), "M-CM-*!", "the accent alone was not typed");
  await page.evaluate(() => getSelection().selectAllChildren(document.querySelector(".term .row")));
  await page.keyboard.press("Control+Shift+C");
  await page.evaluate(() => document.execCommand("copy"));
  assert.equal((await page.evaluate(() => navigator.clipboard.readText())).trim(), "ready");
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("row 63 the keyboard of a phone does not cover the cursor, and two fingers may zoom", { timeout: 60_000 }, async () => {
  const id = stage.create("tall", "seq 60; cat", 80, 50);
  stage.run("wait", "tall", "--text", "60");
  const page = await stage.open({ path: `/s/terminal:${id}`, browser: PHONE });
  await page.locator(".term .screen").getByText("60").waitFor();
  await page.getByRole("button", { name: "Take the keyboard" }).tap();
  await page.getByRole("toolbar", { name: "Keys" }).waitFor();
  // The page asks for the room above the keyboard (interactive-widget): the keyboard takes 320 of 740.
  await page.setViewportSize({ width: 360, height: 420 });
  const inSight = () => {
    const [cursor, bar] = [".term .cursor", ".keybar"].map((one) => document.querySelector(one).getBoundingClientRect());
    return cursor.top >= 0 && cursor.bottom <= bar.top + 1 && bar.bottom <= innerHeight + 1 && cursor.left >= 0 && cursor.right <= innerWidth;
  };
  await until(page, inSight);
  await page.keyboard.type("typed");
  await page.locator(".term .screen").getByText("typed").waitFor();
  await until(page, inSight);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
  // Nothing keeps two fingers from zooming, on the terminal neither.
  const other = await stage.open({ path: `/s/terminal:${id}`, browser: PHONE });
  await other.locator(".term .screen").getByText("60").waitFor();
  assert.doesNotMatch(await other.locator("meta[name=viewport]").getAttribute("content"), /user-scalable|maximum-scale/);
  const client = await other.context().newCDPSession(other);
  await client.send("Input.synthesizePinchGesture", { x: 180, y: 400, scaleFactor: 2 });
  await until(other, () => visualViewport.scale > 1.2);
  await other.context().close();
});

test("row 63 the chosen tab of a session is in sight on a phone", { timeout: 60_000 }, async () => {
  for (const tab of ["usage", "files"]) {
    const page = await stage.open({ path: `/s/claude-code:${IDS.asks}#${tab}`, browser: PHONE });
    await page.waitForSelector("[role=tab]");
    await until(page, () => { const box = document.querySelector("[aria-selected=true]").getBoundingClientRect(); return box.left >= 0 && box.right <= innerWidth; });
    await page.context().close();
  }
});

test("row 71 twice as large nothing is beside the page, and nothing moves where motion is not wanted", { timeout: 120_000 }, async () => {
  for (const path of PAGES) {
    const page = await stage.open({ path, browser: { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2, reducedMotion: "reduce" } });
    await settled(page);
    const told = await page.evaluate(() => ({
      wide: document.documentElement.scrollWidth,
      moving: document.getAnimations().length + [...document.querySelectorAll("*")].filter((one) => { const css = getComputedStyle(one); return css.animationName !== "none" || !/^(0s|all 0s)/.test(css.transitionDuration); }).length,
    }));
    assert.ok(told.wide <= 640, `${path} is ${told.wide} wide`);
    assert.equal(told.moving, 0, path);
    await page.context().close();
  }
});

test("the lines of an axis are round numbers that can be read, with little room above them", async () => {
  const page = await stage.open();
  const steps = await page.evaluate(async (file) => {
    const { axisSteps } = await import(file);
    return [1, 7, 20_440, 265_720, 999, 1000, 0.41, 5_800_000].map((most) => [most, axisSteps(most, 4)]);
  }, await page.evaluate(() => document.querySelector("script[type=module]").src.replace("app.js", "charts.js")));
  for (const [most, axis] of steps) {
    const top = axis[axis.length - 1];
    assert.equal(axis[0], 0);
    assert.ok(axis.length <= 6 && top >= most && top <= most * 1.6 + 1e-9, `${most}: ${axis}`);
    // Two digits are enough to say each of them.
    for (const value of axis) assert.ok(Math.abs(Number(value.toPrecision(2)) - value) < 1e-9 * Math.max(1, value) || Number.isInteger(Number((value / axis[1]).toFixed(6))), `${most}: ${axis}`);
  }
  await page.context().close();
});

test("an agent that finishes is done, also one whose session was never opened", { timeout: 60_000 }, async () => {
  const page = await stage.open();
  const row = page.locator(".srow", { hasText: "parser-rewrite" });
  await page.locator("section[aria-label=working]").filter({ has: row }).waitFor();
  assert.equal(await page.locator("section[aria-label=done]").count(), 0, "what was over before the page was opened is not done");
  stage.run("type", "parser-rewrite", "s");
  await page.locator("section[aria-label=done]").filter({ has: row }).waitFor();
  // It is still done for whoever loads the page again, until somebody looks at it.
  await page.reload();
  await page.locator("section[aria-label=done] .srow", { hasText: "parser-rewrite" }).click();
  await page.getByRole("heading", { name: "parser-rewrite" }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator(".folds button", { hasText: "2 idle" }).waitFor();
  assert.equal(await page.locator("section[aria-label=done]").count(), 0);
  stage.run("type", "parser-rewrite", "w");
  await page.locator("section[aria-label=working]").filter({ has: row }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("a draft goes under one name until it is known what became of it", { timeout: 60_000 }, async () => {
  const page = await stage.open({ path: `/s/claude-code:${IDS.rests}` });
  const asked = [];
  const told = { ok: false, error: { code: "MAY_HAVE_APPLIED", message: "no record holds it yet" } };
  const answers = [(route) => route.abort("connectionreset"), (route) => route.fulfill({ status: 504, json: told }), (route) => route.fulfill({ status: 409, json: { ...told, error: { code: "REFUSED", message: "a person types there" } } }),
    (route) => route.fulfill({ json: { ok: true, result: { state: "accepted", acceptedMs: 7 } } })];
  await page.route("**/prompt", (route) => { asked.push(route.request().postDataJSON()); return answers[asked.length - 1](route); });
  const box = page.getByLabel("Reply to the agent");
  const send = async (count, words) => {
    await page.getByRole("button", { name: "Send" }).click();
    await page.locator(".receipt", { hasText: words }).waitFor();
    assert.equal(asked.length, count);
  };
  await box.fill("go on");
  await send(1, "It may have been applied");
  // Another look at the page is no other draft.
  await page.reload();
  assert.equal(await box.inputValue(), "go on");
  await send(2, "no record holds it yet");
  await send(3, "a person types there");
  await send(4, "accepted after 7 ms");
  assert.equal(await box.inputValue(), "");
  assert.match(asked[0].requestId, /^[0-9a-f-]{36}$/);
  assert.deepEqual(asked.map((one) => one.text), ["go on", "go on", "go on", "go on"]);
  assert.equal(asked[1].requestId, asked[0].requestId);
  assert.equal(asked[2].requestId, asked[0].requestId);
  assert.notEqual(asked[3].requestId, asked[0].requestId, "nothing of it was sent, so it is another try");
  await page.context().close();
});

test("row 59 a reply is sent by keys alone, arrives once, and its receipt says so", { timeout: 90_000 }, async () => {
  const record = stage.drive("driven");
  const page = await stage.open();
  await page.locator(".folds button", { hasText: "idle" }).focus();
  await page.keyboard.press("Enter");
  await page.locator(".srow", { hasText: "driven" }).waitFor();
  for (let step = 0; step < 12; step++) {
    if (await page.evaluate(() => document.activeElement?.matches(".srow") && document.activeElement.textContent.includes("driven"))) break;
    await page.keyboard.press("j");
  }
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "driven" }).waitFor();
  await page.keyboard.press("r");
  await page.keyboard.type("mend the parser");
  await page.keyboard.press("Enter");
  await page.locator(".receipt", { hasText: "✓ accepted" }).waitFor();
  const prompts = readFileSync(record, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line).prompt).filter(Boolean);
  assert.deepEqual(prompts, ["mend the parser"]);
  await page.locator(".entry", { hasText: "mend the parser" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await page.getByText("needs you").first().waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
  stage.run("destroy", "--force", "driven");
});

test("row 62 every byte of a pasted megabyte arrives", { timeout: 90_000 }, async () => {
  const file = join(stage.home, "pasted");
  const id = stage.create("bytes", `stty raw -echo; printf ready; exec cat > ${file}`, 60, 8);
  stage.run("wait", "bytes", "--text", "ready");
  const page = await stage.open({ path: `/s/terminal:${id}` });
  await page.locator(".term .screen").getByText("ready").waitFor();
  await page.getByRole("button", { name: "Take the keyboard" }).click();
  await page.getByText("typing", { exact: true }).waitFor();
  let text = "";
  for (let at = 0; text.length < 800_000; at++) text += `${at} é日本 "quoted" \\ ${"x".repeat(at % 97)}\t`;
  text += "<end>";
  await page.evaluate((text) => {
    const data = new DataTransfer();
    data.setData("text/plain", text);
    document.querySelector(".keys-in").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  }, text);
  let got = "";
  for (const begun = Date.now(); !got.endsWith("<end>") && Date.now() - begun < 30_000;) {
    got = readFileSync(file, "utf8");
    await page.evaluate(() => new Promise(requestAnimationFrame));
  }
  assert.equal(got.length, text.length);
  assert.ok(got === text, "they are the same");
  assert.equal(await page.locator(".termbar [role=alert]").innerText(), "");
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("row 61 keys into a connection that froze are counted, and it is said that they may be lost", { timeout: 60_000 }, async () => {
  const id = stage.create("frozen", "stty -echo; printf ready; cat", 60, 8);
  stage.run("wait", "frozen", "--text", "ready");
  const page = await stage.open({ path: `/s/terminal:${id}`, before: (page) => page.clock.install() });
  await page.locator(".term .screen").getByText("ready").waitFor();
  await page.getByRole("button", { name: "Take the keyboard" }).click();
  await page.getByText("typing", { exact: true }).waitFor();
  const said = page.locator(".termbar [role=alert]");
  await page.keyboard.type("a");
  await page.keyboard.press("Enter");
  stage.run("wait", "frozen", "--text", "a");
  await page.clock.fastForward(2100);
  assert.equal(await said.innerText(), "", "what was acknowledged is not told of");
  stage.server.kill("SIGSTOP");
  await page.keyboard.type("xyz");
  await page.clock.fastForward(2100);
  await page.getByText("3 inputs not confirmed yet.").waitFor();
  await page.clock.fastForward(31_000);
  await page.getByText("The connection was lost. 3 inputs before that may not have arrived: look at the screen.").waitFor();
  await page.keyboard.type("z");
  await page.getByText("Not connected: nothing was typed. 3 inputs before that may not have arrived: look at the screen.").waitFor();
  stage.server.kill("SIGCONT");
  await page.getByText("updated by events").waitFor();
  await page.context().close();
});

/** Pages that hide and show themselves, and tell what they would have notified. */
const prepareSight = (page) => page.addInitScript(() => {
  let state = "visible";
  Object.defineProperty(document, "visibilityState", { get: () => state });
  window.hide = (isHidden) => { state = isHidden ? "hidden" : "visible"; document.dispatchEvent(new Event("visibilitychange")); };
  window.notified = [];
  window.Notification = class { static permission = "granted"; constructor(title) { window.notified.push(title); } };
});

test("row 58 two that need a person at once are both announced, and one tab notifies, if none is in sight", { timeout: 90_000 }, async () => {
  const one = await stage.open({ before: prepareSight });
  const other = await stage.open({ context: one.context(), before: prepareSight });
  const pages = [one, other];
  const both = async (count) => { for (const page of pages) await until(page, (count) => document.title.startsWith(`(${count})`), count); };
  // The answer to this question comes after what was asked before it.
  const notified = async () => (await Promise.all(pages.map((page) => page.evaluate(async () => { await navigator.locks.query(); return window.notified; })))).flat().sort();
  const inSight = (count) => until(one, async (count) => (await navigator.locks.query()).held.filter((lock) => lock.name === "ostler.in-sight").length === count, count);
  await both(1);
  await inSight(2);
  await other.evaluate(() => window.hide(true));
  await inSight(1);
  for (const name of ["parser-rewrite", "flaky-test"]) stage.run("type", name, "q");
  await both(3);
  const said = await one.locator("#said").innerText();
  assert.match(said, /parser-rewrite needs you/);
  assert.match(said, /flaky-test needs you/);
  assert.deepEqual(await notified(), [], "the other tab is in sight");
  for (const [name, key] of [["parser-rewrite", "w"], ["flaky-test", "s"]]) stage.run("type", name, key);
  await both(1);
  await one.evaluate(() => window.hide(true));
  await inSight(0);
  for (const name of ["parser-rewrite", "flaky-test"]) stage.run("type", name, "q");
  await both(3);
  await until(one, () => true);
  for (const begun = Date.now(); (await notified()).length < 2 && Date.now() - begun < 20_000;);
  assert.deepEqual(await notified(), ["flaky-test needs you", "parser-rewrite needs you"], "each once, whichever tab it was");
  for (const [name, key] of [["parser-rewrite", "w"], ["flaky-test", "s"]]) stage.run("type", name, key);
  await both(1);
  await one.context().close();
});

test("a group that is longer than what is shown is shown further, also beyond what the server sent at first", { timeout: 60_000 }, async () => {
  const windows = [];
  const page = await stage.open({ before: (page) => page.routeWebSocket("**/v1/stream", (socket) => {
    const server = socket.connectToServer();
    socket.onMessage((text) => {
      const message = JSON.parse(text);
      if (message.what === "sessions") windows.push(message.window);
      server.send(text);
    });
    server.onMessage((text) => {
      const frame = JSON.parse(text);
      if (frame.rev === 1) {
        for (let at = 0; at < Math.min(300, windows.at(-1)); at++) {
          const row = { key: `codex:${at}`, id: String(at), agent: "codex", kind: "native", status: "running", group: "working", title: `many ${at}`, liveness: { state: "alive", reason: "", certainty: "proven" } };
          frame.put.push(row);
          frame.order.push(row.key);
        }
        frame.about.groups.find((one) => one.group === "working").count += 300;
      }
      socket.send(JSON.stringify(frame));
    });
  }) });
  const group = page.locator("section[aria-label=working]");
  const more = group.getByRole("button", { name: /^Show more: \d+ are left$/ });
  await more.waitFor();
  const left = async () => Number((await more.innerText()).match(/\d+/)[0]);
  const all = await left() + 120;
  assert.ok(all > 300, `${all}`);
  await more.click();
  await until(page, (wanted) => document.querySelectorAll("section[aria-label=working] .srow").length >= wanted, 240);
  assert.equal(await left(), all - 240);
  await more.click();
  await until(page, (all) => document.querySelectorAll("section[aria-label=working] .srow").length === all, all);
  assert.equal(windows[0], 200);
  assert.equal(windows.at(-1), 400);
  assert.equal(await group.getByRole("button", { name: /Show more/ }).count(), 0);
  await page.context().close();
});

test("what is typed into a card is typed where it is asked, and Enter is left to a person", { timeout: 60_000 }, async () => {
  const page = await stage.open();
  const card = page.locator(".card", { hasText: "gateway-auth" });
  await card.locator(".term .row").first().waitFor();
  await card.getByLabel("Type an answer into gateway-auth").fill("x-y-z");
  await card.getByRole("button", { name: "Type", exact: true }).click();
  await card.locator(".term").getByText("x-y-z").waitFor();
  assert.equal(await card.getByLabel("Type an answer into gateway-auth").inputValue(), "");
  assert.match(await page.title(), /^\(1\)/, "it still asks");
  // Who types there is left there when another card comes.
  const box = card.getByLabel("Type an answer into gateway-auth");
  await box.fill("ha");
  stage.run("type", "parser-rewrite", "q");
  await page.locator(".card", { hasText: "parser-rewrite" }).waitFor();
  await page.keyboard.type("lf");
  assert.equal(await box.inputValue(), "half");
  stage.run("type", "parser-rewrite", "w");
  await until(page, () => document.title.startsWith("(1)"));
  await page.keyboard.type("n");
  assert.equal(await box.inputValue(), "halfn");
  // What could not be typed stays in its box.
  await page.route("**/type", (route) => route.fulfill({ status: 409, json: { ok: false, error: { code: "REFUSED", message: "a person types there" } } }));
  await card.getByLabel("Type an answer into gateway-auth").fill("more");
  await page.keyboard.press("Enter");
  await card.getByText("a person types there").waitFor();
  assert.equal(await card.getByLabel("Type an answer into gateway-auth").inputValue(), "more");
  await page.context().close();
});
