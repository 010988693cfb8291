// The page in a real browser: what it shows, what it refuses, what it survives.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { IDS, Stage } from "./stage.js";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SESSION = `/s/claude-code:${IDS.asks}`;
const PAGES = ["/", SESSION, `${SESSION}#terminal`, `${SESSION}#facts`, `${SESSION}#timeline`, `${SESSION}#usage`, `${SESSION}#files`, `${SESSION}/play`, "/search?q=token", "/usage", "/disk", "/clean", "/access"];

/** @type {Stage} */
let stage;
before(async () => { stage = await Stage.start(); }, { timeout: 120_000 });
after(async () => { await stage?.close(); });

/** Waits until a page shows what it has to show. */
async function settled(page) {
  await page.waitForSelector("main h1");
  await page.waitForFunction(() => !document.querySelector(".loading") && !/^(searching|Reading)/.test(document.querySelector("[role=status]:not(.said)")?.textContent ?? ""), undefined, { timeout: 20_000 });
}

/** Waits until something is true in the page. */
const until = (page, what, argument) => page.waitForFunction(what, argument, { timeout: 20_000 });

test("row 35 the key is gone from the address, and a second tab without one must sign in", async () => {
  const page = await stage.open();
  assert.equal(new URL(page.url()).hash, "");
  await page.getByText("needs you").first().waitFor();
  const other = await (await stage.browser.newContext()).newPage();
  await other.goto(stage.link);
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  await other.context().close();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("row 55 no violation, no console error, no foreign request on any page", async () => {
  for (const path of PAGES) {
    const page = await stage.open({ path });
    await settled(page);
    assert.deepEqual(page.wrong, [], path);
    await page.context().close();
  }
});

test("row 56 axe finds nothing, light and dark, wide and narrow", async () => {
  const told = [];
  for (const width of [1280, 360]) {
    const page = await stage.open({ browser: { viewport: { width, height: 740 }, bypassCSP: true, reducedMotion: "reduce" } });
    for (const path of PAGES) {
      await page.goto("about:blank");
      await page.goto(stage.url + path);
      await settled(page);
      await page.evaluate(AXE);
      // What the bar covers after scrolling is not what is judged.
      await page.evaluate(() => scrollTo(0, 0));
      told.push(...await axeFinds(page, `${path} ${width}`));
    }
    await page.context().close();
  }
  assert.deepEqual(told, []);
});

/** What axe finds, in both themes. */
async function axeFinds(page, name) {
  const told = [];
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const found = await page.evaluate((runOnly) => window.axe.run(document, { runOnly }), ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]);
    told.push(...found.violations.map((one) => `${name} ${colorScheme} ${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`).join(" | ")}`));
  }
  return told;
}

/** What a page can be brought to show: where, and by what. */
const SHOWN = [
  ["keys", "/", (page) => page.keyboard.press("?")],
  ["this browser", "/", (page) => page.getByRole("button", { name: "This browser" }).click()],
  ["the right to type", "/", (page) => page.getByRole("button", { name: /may watch|type/ }).first().click()],
  ["all actions", SESSION, (page) => page.keyboard.press(".")],
  ["open lists", "/", async (page) => { for (const name of ["idle", "ended"]) await page.locator(".folds button", { hasText: name }).click(); await page.locator("section[aria-label=ended] .srow").first().waitFor(); }],
  ["open folds", SESSION, async (page) => { for (const fold of await page.locator("details summary").all()) await fold.click(); }],
  ["read mode", `${SESSION}#terminal`, async (page) => { await page.locator(".term .row").first().waitFor(); await page.getByRole("button", { name: "Earlier lines" }).click(); await page.getByRole("button", { name: "Read mode" }).click(); }],
  ["open plan", "/clean", async (page) => { await page.getByLabel("Left alone for longer than").selectOption("0s"); for (const fold of await page.locator("details summary").all()) await fold.click(); }],
  ["sign-in", "/", async (page) => { await page.evaluate(() => dispatchEvent(new Event("ostler-signed-out"))); await page.getByRole("heading", { name: "Sign in" }).waitFor(); }],
];

test("row 56 axe finds nothing in what is opened: dialogs, lists, read mode, sign-in; and none is wider than 320 px", { timeout: 240_000 }, async () => {
  const told = [];
  for (const width of [1280, 320]) {
    for (const [name, path, open] of SHOWN) {
      const page = await stage.open({ path, browser: { viewport: { width, height: 740 }, bypassCSP: true, reducedMotion: "reduce" } });
      await settled(page);
      if (path === "/") await page.locator(".card .term .row").first().waitFor();
      await open(page);
      await page.evaluate(AXE);
      await page.evaluate(() => scrollTo(0, 0));
      told.push(...await axeFinds(page, `${name} ${width}`));
      const wide = await page.evaluate(() => Math.max(document.documentElement.scrollWidth, ...[...document.querySelectorAll("dialog")].map((one) => one.scrollWidth - one.clientWidth + innerWidth)));
      if (wide > width) told.push(`${name} is ${wide} wide at ${width}`);
      await page.context().close();
    }
  }
  assert.deepEqual(told, []);
});

test("no page is wider than 320 px", { timeout: 120_000 }, async () => {
  const told = [];
  for (const path of PAGES) {
    const page = await stage.open({ path, browser: { viewport: { width: 320, height: 640 } } });
    await settled(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    if (wide > 320) told.push(`${path} is ${wide} wide`);
    await page.context().close();
  }
  assert.deepEqual(told, []);
});

test("row 57 a hostile transcript is text", async () => {
  const page = await stage.open({ path: `/s/claude-code:${IDS.hostile}` });
  await page.getByText("window.hacked = 1").first().waitFor();
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator("main script, main img, main svg[onload], main a[href^='javascript']").count(), 0);
  const text = await page.locator("main").innerText();
  assert.ok(text.includes("<script>"), text);
  assert.ok(text.includes("\\u{202e}"), "the override is made visible");
  assert.ok(!text.includes("\u202e"));
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("row 58 a new needs-you appears without reload, is announced once, and the title counts", async () => {
  const page = await stage.open();
  await until(page, () => document.title.startsWith("(1)"));
  await page.evaluate(() => {
    window.heard = [];
    new MutationObserver((list) => window.heard.push(...list.flatMap((one) => [...one.addedNodes].map((node) => node.textContent)))).observe(document.getElementById("said"), { childList: true });
  });
  stage.run("type", "parser-rewrite", "q");
  await until(page, () => document.title.startsWith("(2)"));
  await page.locator(".card", { hasText: "parser-rewrite" }).waitFor();
  await page.waitForTimeout(500);
  const heard = (await page.evaluate(() => window.heard)).filter((text) => text.includes("parser-rewrite"));
  assert.equal(heard.length, 1, JSON.stringify(heard));
  stage.run("type", "parser-rewrite", "w");
  await until(page, () => document.title.startsWith("(1)"));
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("row 64 what is locked says so, and opens when a person confirms the code", async () => {
  const page = await stage.open({ path: `/s/claude-code:${IDS.rests}` });
  await page.getByRole("button", { name: /Stop/ }).waitFor();
  assert.equal(await page.getByRole("button", { name: /Stop/ }).getByRole("img", { name: "locked" }).count(), 1);
  await page.getByRole("tab", { name: "Terminal" }).click();
  await page.getByRole("button", { name: /Take the keyboard/ }).click();
  const command = await page.locator("dialog .code").innerText();
  stage.run(...command.split(" ").slice(1));
  await page.locator("dialog").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Take the keyboard", exact: true }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("row 62 a terminal is typed into: text, keys, composed text, paste, and left by one key", async () => {
  stage.run("create", "--name", "cat", "--cols", "60", "--rows", "12", "--", "sh", "-c", "stty raw -echo; printf 'ready\\r\\n'; cat -v");
  stage.run("wait", "cat", "--text", "ready");
  const id = stage.json("inspect", "cat").session?.sessionId ?? stage.json("inspect", "cat").sessionId;
  const page = await stage.open({ path: `/s/terminal:${id}` });
  const screen = page.locator(".term .screen");
  await screen.getByText("ready").waitFor();
  await page.getByRole("button", { name: "Take the keyboard" }).click();
  await page.getByText("typing", { exact: true }).waitFor();
  await page.keyboard.type("hello é");
  await screen.getByText("hello M-CM-)").waitFor();
  await page.keyboard.press("Control+c");
  await page.keyboard.press("ArrowUp");
  await screen.getByText("^C^[[A").waitFor();
  const client = await page.context().newCDPSession(page);
  await client.send("Input.imeSetComposition", { text: "に", selectionStart: 1, selectionEnd: 1 });
  await client.send("Input.insertText", { text: "日本" });
  await screen.getByText("M-fM-^WM-%M-fM-^\\M-,").waitFor();
  // Find, select and copy are the browser's: the rows are text.
  assert.ok(await page.evaluate(() => { getSelection().selectAllChildren(document.querySelector(".term .row")); return getSelection().toString().includes("ready"); }));
  await page.evaluate(() => {
    getSelection().removeAllRanges();
    const input = document.querySelector(".keys-in");
    input.focus();
    const data = new DataTransfer();
    data.setData("text/plain", `<${"x".repeat(1_000_000)}>`);
    input.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  });
  await until(page, () => /x>\s*$/.test(document.querySelector(".term .screen").innerText.trimEnd()));
  await page.keyboard.press("Control+]");
  await page.getByText("watching").waitFor();
  await page.keyboard.type("zzz");
  await page.waitForTimeout(200);
  assert.ok(!(await screen.innerText()).includes("zzz"), "what is typed outside stays outside");
  stage.run("destroy", "--force", "cat");
  await page.getByText(/^over:/).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("row 59 keyboard only: overview, session, reply, back", async () => {
  const page = await stage.open();
  await page.locator(".srow", { hasText: "parser-rewrite" }).waitFor();
  await page.keyboard.press("n");
  await page.getByRole("heading", { name: "gateway-auth" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("needs you").first().waitFor();
  await page.locator(".folds button", { hasText: "idle" }).focus();
  await page.keyboard.press("Enter");
  await page.locator(".srow", { hasText: "flaky-test" }).waitFor();
  for (let step = 0; step < 12; step++) {
    if (await page.evaluate(() => document.activeElement?.textContent?.includes("flaky-test"))) break;
    await page.keyboard.press("j");
  }
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "flaky-test" }).waitFor();
  await page.keyboard.press("r");
  await page.keyboard.type("and the other one?");
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), "TEXTAREA");
  await page.keyboard.press("Escape");
  await page.keyboard.press("3");
  await page.getByRole("columnheader", { name: "effect" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("needs you").first().waitFor();
  // The draft belongs to the session it was begun for.
  await page.goBack();
  await page.getByRole("tab", { name: "Talk" }).click();
  assert.equal(await page.getByLabel("Reply to the agent").inputValue(), "and the other one?");
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("row 60 twelve tabs are live", async () => {
  const context = await stage.browser.newContext();
  const pages = [];
  for (let at = 0; at < 12; at++) pages.push(await stage.open({ context }));
  for (const page of pages) await until(page, () => document.title.startsWith("(1)"));
  stage.run("type", "parser-rewrite", "q");
  for (const page of pages) await until(page, () => document.title.startsWith("(2)"));
  stage.run("type", "parser-rewrite", "w");
  for (const page of pages) await until(page, () => document.title.startsWith("(1)"));
  await context.close();
});

test("row 63 a phone has no sideways scroll and a bar of keys", async () => {
  for (const path of PAGES) {
    const page = await stage.open({ path, browser: { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 } });
    await settled(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 360, `${path} is ${wide} wide`);
    if (path.endsWith("#terminal")) {
      await page.getByRole("button", { name: "Take the keyboard" }).tap();
      await page.getByRole("toolbar", { name: "Keys" }).waitFor();
      const small = await page.locator(".keybar button").evaluateAll((all) => all.filter((one) => one.getBoundingClientRect().height < 44).length);
      assert.equal(small, 0);
      await page.getByRole("button", { name: /Leave/ }).tap();
    }
    await page.context().close();
  }
});

test("row 67 clean up and undo, with the numbers of the command line", async () => {
  const code = await stage.open({ path: "/clean" });
  await code.getByRole("button", { name: /manage/ }).click();
  stage.run(...(await code.locator("dialog .code").innerText()).split(" ").slice(1));
  await code.locator("dialog").waitFor({ state: "detached" });
  stage.run("create", "--name", "old", "--", "true");
  stage.run("wait", "old", "--exit");
  const page = await stage.open({ path: "/clean" });
  await page.getByLabel("Left alone for longer than").selectOption("0s");
  const plan = () => stage.json("gc", "--older-than", "0s");
  const before = plan();
  assert.ok(before.count > 0);
  await until(page, (count) => document.querySelector(".panel h2")?.textContent.startsWith(`${count} thing`), before.count);
  assert.match(await page.locator(".panel h2").first().innerText(), new RegExp(`plan ${before.plan.slice(0, 8)}`));
  // What is left out is in neither the plan nor what is done.
  await page.locator(".planline summary").first().click();
  const first = page.getByRole("button", { name: /^Leave out / }).first();
  const path = (await first.getAttribute("aria-label")).replace("Leave out ", "");
  await first.click();
  await page.getByText("1 thing left out by you").waitFor();
  await until(page, (count) => document.querySelector(".panel h2")?.textContent.startsWith(`${count} thing`), stage.json("gc", "--older-than", "0s", "--keep", path).count);
  if (await page.getByRole("button", { name: /to the trash/ }).count()) {
    await page.getByRole("button", { name: /to the trash/ }).click();
    await page.locator("dialog").getByRole("button", { name: "Move to the trash" }).click();
    await page.getByText(/moved to the trash. Receipt/).waitFor();
  }
  assert.ok(plan().items.some((item) => item.path === path && item.action !== "stays"), "what was left out is still there");
  await page.getByRole("button", { name: "Look at all again" }).click();
  await until(page, (count) => document.querySelector(".panel h2")?.textContent.startsWith(`${count} thing`), plan().count);
  await page.getByRole("button", { name: /to the trash/ }).click();
  await page.locator("dialog").getByRole("button", { name: "Move to the trash" }).click();
  await until(page, (count) => document.querySelector(".panel h2")?.textContent.startsWith(`${count} thing`), 0);
  assert.equal(plan().count, 0);
  await page.getByRole("button", { name: "Undo" }).first().click();
  await page.getByText(/brought back/).first().waitFor();
  assert.ok(plan().count > 0);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
  await code.context().close();
});

test("row 71 twice the text: all of it grows, nothing is beside the page or cut off", { timeout: 120_000 }, async () => {
  for (const width of [1280, 640, 360]) {
    for (const path of ["/", SESSION, `${SESSION}#facts`, "/search?q=token", "/usage", "/clean", "/access"]) {
      const page = await stage.open({ path, browser: { viewport: { width, height: 740 } } });
      await page.waitForSelector("main h1");
      const sizes = () => page.evaluate(() => Object.fromEntries(["main h1", "body", "button", ".srow", ".entry .body p", "table.plain td"].map((one) => [one, document.querySelector(one)]).filter(([, one]) => one).map(([name, one]) => [name, parseFloat(getComputedStyle(one).fontSize)])));
      const usual = await sizes();
      const client = await page.context().newCDPSession(page);
      await client.send("Page.setFontSizes", { fontSizes: { standard: 32, fixed: 26 } });
      await page.waitForFunction(() => getComputedStyle(document.documentElement).fontSize === "32px");
      const twice = await sizes();
      // A heading of a narrow page is smaller than that of a wide one, and twice as large there.
      for (const [name, size] of Object.entries(usual)) assert.ok(twice[name] >= size * 1.49, `${path} at ${width}: ${name} ${size} and ${twice[name]}`);
      const told = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth,
        // Text that is cut where it stands, without dots that say so and without a box of its own to scroll in.
        cut: [...document.querySelectorAll("button, h1, h2, summary, label, .srow, .card .ask, td, th")].filter((one) => one.checkVisibility() && one.scrollHeight > one.clientHeight + 4 && one.clientHeight && getComputedStyle(one).display !== "inline" && !["auto", "scroll"].includes(getComputedStyle(one).overflowY)).map((one) => `${one.className || one.tagName} ${one.textContent?.slice(0, 30)} ${one.scrollHeight} in ${one.clientHeight}`),
      }));
      assert.ok(told.wide <= width, `${path} at ${width} is ${told.wide} wide`);
      assert.deepEqual(told.cut, [], `${path} at ${width}`);
      assert.deepEqual(page.wrong, []);
      await page.context().close();
    }
  }
});

test("row 71 forced colours: what is chosen, asked, wrong and focused is seen without ours", { timeout: 60_000 }, async () => {
  const page = await stage.open({ browser: { forcedColors: "active" } });
  await page.locator(".card", { hasText: "gateway-auth" }).waitFor();
  const look = (/** @type {string} */ selector) => page.locator(selector).first().evaluate((one) => { const css = getComputedStyle(one); return { back: css.backgroundColor, border: css.borderTopStyle, wide: parseFloat(css.borderTopWidth), outline: css.outlineStyle, text: one.textContent }; });
  assert.equal((await look(".card")).border, "solid");
  await page.goto(`${stage.url}${SESSION}`);
  await page.locator(".entry .body").first().waitFor();
  const [chosen, other] = [await look("[role=tab][aria-selected=true]"), await look("[role=tab][aria-selected=false]")];
  assert.notEqual(chosen.back, other.back, "the tab that is chosen");
  const tools = page.getByRole("button", { name: "all tools" });
  const before = (await look(".talkbar [aria-pressed]")).back;
  await tools.click();
  assert.notEqual((await look(".talkbar [aria-pressed]")).back, before, "a switch that is on");
  assert.equal((await look(".entry.user")).border, "solid");
  const chip = await look(".chip");
  assert.ok(chip.border === "solid" && chip.wide >= 1 && /\S \S/.test(chip.text), JSON.stringify(chip));
  await page.keyboard.press("Tab");
  assert.equal((await look(":focus-visible")).outline, "solid");
  // Charts keep their own colours, which are told apart.
  await page.goto(`${stage.url}${SESSION}#usage`);
  await page.locator("svg.chart rect").first().waitFor();
  assert.ok(await page.evaluate(() => new Set([...document.querySelectorAll("svg.chart rect")].map((one) => getComputedStyle(one).fill)).size > 1));
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test("row 71 no script: the page says how to enable it", async () => {
  const bare = await (await stage.browser.newContext({ javaScriptEnabled: false })).newPage();
  await bare.goto(stage.url);
  assert.match(await bare.locator("main").innerText(), /needs JavaScript/);
  await bare.context().close();
});

test("row 61 a lost server is told, nothing is lost, and a restart asks to sign in", async () => {
  const page = await stage.open({ path: `/s/claude-code:${IDS.rests}` });
  await page.getByLabel("Reply to the agent").fill("a draft");
  await page.context().setOffline(true);
  await stage.stopServer();
  await page.getByText(/last heard/).waitFor();
  assert.equal(await page.getByLabel("Reply to the agent").inputValue(), "a draft");
  assert.ok(await page.getByRole("heading", { name: "flaky-test" }).isVisible());
  await stage.serve([]);
  await page.context().setOffline(false);
  await page.getByRole("heading", { name: "Sign in" }).waitFor({ timeout: 20_000 });
  await page.goto(stage.link);
  await page.waitForSelector("#bar .brand");
  await page.goto(`${stage.url}/s/claude-code:${IDS.rests}`);
  await page.getByRole("tab", { name: "Talk" }).click();
  assert.equal(await page.getByLabel("Reply to the agent").inputValue(), "a draft");
  await page.context().close();
});
