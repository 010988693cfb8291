// Pictures of the page for docs/pictures, with a home full of work: `node tests/pictures.js DIRECTORY`.
import { join } from "node:path";
import { IDS, Stage } from "./stage.js";

const out = process.argv[2] ?? "../../../docs/pictures";
const PROJECTS = ["gateway", "docs-site", "parser", "billing", "mobile", "infra", "search", "design-system", "importer", "release-notes"];
const TASKS = ["make the retry idempotent", "why is the nightly build red?", "port the config loader", "write the migration guide", "speed up the cold start", "remove the old flag", "add a fuzz target", "explain the lock order"];

const stage = await Stage.start({ web: ["--allow", "manage"] });
try {
  for (let at = 0; at < 60; at++) {
    const project = PROJECTS[Math.floor((at * at) / 36) % PROJECTS.length];
    const turns = Array.from({ length: 2 + ((at * 7) % 24) }, (_, turn) => (turn % 2 ? ["assistant", `Step ${turn} of it is done. `.repeat(8 + ((at * 13) % 50))] : ["user", TASKS[(at + turn) % TASKS.length]]));
    stage.write(`77777777-0000-4000-8000-${String(at).padStart(12, "0")}`, project, turns, at * 17 * 3_600_000 + 7_200_000);
  }
  stage.makeAgent(IDS.also, "docs-site", "docs-site", "Which of the two layouts?", "the new landing page", [["user", "make the landing page calmer"], ["assistant", "Two layouts would work."]]);
  stage.run("mark", "gateway-auth", "asked for the tests");
  const shots = [
    ["web-overview", "/", { colorScheme: "light" }],
    ["web-talk", `/s/claude-code:${IDS.asks}`, { colorScheme: "light" }],
    ["web-terminal", `/s/claude-code:${IDS.asks}#terminal`, { colorScheme: "dark" }],
    ["web-play", `/s/claude-code:${IDS.asks}/play`, { colorScheme: "light" }],
    ["web-usage", "/usage", { colorScheme: "light" }],
    ["web-disk", "/disk", { colorScheme: "dark" }],
    ["web-phone", "/", { colorScheme: "dark", viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 }],
  ];
  await (await stage.open()).context().close();
  for (const [name, path, browser] of shots) {
    const page = await stage.open({ path, browser: { viewport: { width: 1180, height: 760 }, ...browser } });
    await page.evaluate(() => localStorage.setItem("ostler.hooks-note", "seen"));
    await page.goto("about:blank");
    await page.goto(stage.url + path);
    await page.waitForSelector("main h1");
    await page.waitForFunction(() => !document.querySelector(".loading") && !/^Reading/.test(document.querySelector("main [role=status]")?.textContent ?? ""));
    if (name === "web-play") await page.getByLabel("Place in the recording").evaluate((one) => { one.value = one.max; one.dispatchEvent(new Event("input")); });
    await page.waitForTimeout(1500);
    if (name === "web-talk") await page.evaluate(() => scrollTo(0, 0));
    await page.screenshot({ path: join(out, `${name}.png`) });
    await page.context().close();
  }
} finally {
  await stage.close();
}
