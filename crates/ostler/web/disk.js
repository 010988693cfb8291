// What sessions take on disk: a treemap, and a table with the same numbers.
import { get } from "./api.js";
import { squarify } from "./charts.js";
import { failure, h, svg } from "./dom.js";
import { oneLine, plural, size } from "./words.js";

/** @returns {import("./app.js").Page} */
export function diskPage() {
  const body = h("div", {});
  const element = h("div", {}, h("h1", { class: "head" }, "Disk"), body);
  get("/v1/du").then(draw, (error) => body.replaceChildren(failure(error)));

  /** @param {any} told */
  function draw(told) {
    if (!told.totalBytes) return body.replaceChildren(h("p", { class: "empty" }, "Agents keep nothing here."));
    const width = 1080, height = 420;
    const map = svg("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Bytes by agent and project: the table below has the same numbers" });
    const agents = told.agents.map((/** @type {any} */ agent) => ({ value: agent.bytes, item: agent }));
    squarify(agents, 0, 0, width, height).forEach((box, at) => {
      const projects = box.item.projects.map((/** @type {any} */ one) => ({ value: one.bytes, item: one }));
      const rest = box.item.bytes - projects.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.value, 0);
      if (rest > 0) projects.push({ value: rest, item: { cwd: "beside transcripts", bytes: rest } });
      for (const cell of squarify(projects, box.x, box.y, box.width, box.height)) {
        const name = oneLine((cell.item.cwd ?? "no directory known").split("/").pop());
        map.append(svg("rect", { x: cell.x, y: cell.y, width: cell.width, height: cell.height, rx: 3, "fill-opacity": Math.max(0.62, 1 - at * 0.08) }, svg("title", {}, `${box.item.agent} · ${oneLine(cell.item.cwd ?? "")}: ${size(cell.value)}`)));
        if (cell.width > 90 && cell.height > 36) {
          const room = Math.floor(cell.width / 7);
          map.append(svg("text", { x: cell.x + 8, y: cell.y + 18 }, `${box.item.agent} · ${name}`.slice(0, room)), svg("text", { x: cell.x + 8, y: cell.y + 33 }, size(cell.value)));
        }
      }
    });
    const row = (/** @type {string} */ name, /** @type {number} */ bytes, /** @type {string} */ more, /** @type {boolean} */ isHead) => h("tr", { class: isHead ? "verdict" : null }, h("td", {}, oneLine(name)), h("td", { class: "right" }, size(bytes)), h("td", { class: "right" }, more));
    body.replaceChildren(h("section", { class: "panel" }, h("h2", {}, `${size(told.totalBytes)} in all`), map), h("p", { class: "toolbar" }, h("a", { href: "/clean" }, "What of it may go →")),
      h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "bytes" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "agent, project"), h("th", { scope: "col", class: "right" }, "bytes"), h("th", { scope: "col", class: "right" }, "sessions"))),
        h("tbody", {}, told.agents.flatMap((/** @type {any} */ agent) => [row(agent.agent, agent.bytes, plural(agent.sessions, "session"), true),
          ...agent.projects.slice(0, 12).map((/** @type {any} */ one) => row(one.cwd ?? "no directory known", one.bytes, String(one.sessions), false))])))));
  }
  return { element, title: "Disk" };
}
