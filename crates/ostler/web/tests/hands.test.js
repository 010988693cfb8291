// Hands on a terminal, lost and frozen connections, small and large pages: each in a real browser.
import assert from "node:assert/strict";
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
  await other.getByText("watching · somebody else types").waitFor();
  await one.keyboard.type("from one");
  await screen(other).getByText("from one").waitFor();
  // The other page takes over: the first is told, and what is typed there stays there.
  await other.getByRole("button", { name: "Take the keyboard" }).click();
  await other.getByText("typing", { exact: true }).waitFor();
  await one.getByText("watching · somebody else types").waitFor();
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
