// What sessions take on disk: a treemap, and a table with the same numbers.
import { get } from "./api.js";
import { fitText, sized, squarify } from "./charts.js";
import { failure, h, headRow, loading, svg, tableBox } from "./dom.js";
import { sessionRow } from "./overview.js";
import { groupOf, oneLine, plural, size } from "./words.js";

const DAY = 86_400_000;
const TONES = ["this week", "this month", "longer ago"];

/** @param {string | undefined} at */
const toneOf = (at) => { const days = at ? (Date.now() - Date.parse(at)) / DAY : Infinity; return days <= 7 ? 0 : days <= 30 ? 1 : 2; };

/** @param {string | undefined} cwd */
const nameOfProject = (cwd) => oneLine(cwd ? cwd.split("/").pop() || cwd : "no directory known");

/** @returns {import("./app.js").Page} */
export function diskPage() {
  const body = h("div", {}, loading("Counting …")), opened = h("div", { role: "status" });
  const element = h("div", {}, h("h1", { class: "head" }, "Disk"), body);
  Promise.all([get("/v1/du"), get("/v1/sessions?all=true&limit=500")]).then(([told, list]) => draw(told, list.sessions), (error) => body.replaceChildren(failure(error)));

  /** @param {any} told @param {any[]} sessions the newest ones */
  function draw(told, sessions) {
    if (!told.totalBytes) return body.replaceChildren(h("div", { class: "empty" }, h("p", { class: "big" }, "Agents keep nothing here.")));
    /** @type {Map<string, string>} */
    const newest = new Map();
    for (const one of sessions) {
      const place = `${one.agent} ${one.cwd ?? ""}`;
      if ((one.lastActivityAt ?? "") > (newest.get(place) ?? "")) newest.set(place, one.lastActivityAt);
    }
    const cells = told.agents.map((/** @type {any} */ agent) => {
      const projects = agent.projects.map((/** @type {any} */ one) => ({ value: one.bytes, item: { ...one, tone: toneOf(newest.get(`${agent.agent} ${one.cwd ?? ""}`)) } }));
      const rest = agent.bytes - projects.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.value, 0);
      if (rest > 0) projects.push({ value: rest, item: { beside: true, bytes: rest, tone: 2 } });
      return { value: agent.bytes, item: { agent: agent.agent, projects } };
    });
    const row = (/** @type {any} */ cells, /** @type {boolean} */ isHead) => h("tr", { class: isHead ? "verdict" : null }, h("td", {}, cells[0]), h("td", { class: "right", "data-bytes": cells[1] }, size(cells[1])), h("td", { class: "right" }, cells[2]));
    body.replaceChildren(h("section", { class: "panel" }, h("h2", {}, `${size(told.totalBytes)} in all`),
      h("div", { class: "legend" }, "last active", TONES.map((name, tone) => h("span", {}, svg("svg", { viewBox: "0 0 10 10", class: "map", "aria-hidden": "true" }, svg("rect", { class: `tone${tone}`, width: 10, height: 10, rx: 2 })), name))),
      sized((width) => drawMap(cells, width))), opened,
    h("p", { class: "toolbar" }, h("a", { href: "/clean" }, "What of it may go →")),
    tableBox("bytes", headRow([["agent, project"], ["bytes", "right"], ["sessions", "right"]]),
      h("tbody", {}, told.agents.flatMap((/** @type {any} */ agent) => [row([oneLine(agent.agent), agent.bytes, agent.sessions.toLocaleString("en")], true),
        ...cells.find((/** @type {any} */ one) => one.item.agent === agent.agent).item.projects.map((/** @type {any} */ one) => row([one.item.beside ? "beside transcripts" : h("button", { type: "button", class: "linklike", onclick: () => openProject(agent.agent, one.item) }, oneLine(one.item.cwd ?? "no directory known")), one.value, one.item.sessions?.toLocaleString("en") ?? ""], false))]))));
  }

  /** @param {any[]} agents @param {number} width */
  function drawMap(agents, width) {
    const height = Math.max(240, Math.min(460, width * 0.42)), head = 22;
    const map = svg("svg", { class: "map", width, height, role: "img", "aria-label": "Bytes by agent and project: the table below has the same numbers" });
    for (const box of squarify(agents, 0, 0, width, height)) {
      const hasHead = box.height > 60 && box.width > 60;
      const top = hasHead ? head : 0;
      if (hasHead) map.append(svg("text", { class: "agent", x: box.x + 2, y: box.y + 15 }, fitText(`${box.item.agent} · ${size(box.value)}`, box.width - 8)));
      for (const cell of squarify(box.item.projects, box.x, box.y + top, box.width, box.height - top)) {
        const name = cell.item.beside ? "beside transcripts" : nameOfProject(cell.item.cwd);
        const rect = svg("rect", { class: `tone${cell.item.tone}`, x: cell.x, y: cell.y, width: cell.width, height: cell.height, rx: 3, "data-bytes": cell.value },
          svg("title", {}, `${box.item.agent} · ${oneLine(cell.item.cwd ?? name)}: ${size(cell.value)}`));
        if (!cell.item.beside) rect.addEventListener("click", () => openProject(box.item.agent, cell.item));
        map.append(rect);
        if (cell.width > 64 && cell.height > 40) {
          map.append(svg("text", { class: `on${cell.item.tone}`, x: cell.x + 8, y: cell.y + 19 }, fitText(name, (cell.width - 12) * (cell.item.tone ? 1 : 0.87))), svg("text", { class: `on${cell.item.tone}`, x: cell.x + 8, y: cell.y + 35 }, fitText(size(cell.value), cell.width - 12)));
        }
      }
    }
    return map;
  }

  /** Which sessions a cell is made of. @param {string} agent @param {any} project */
  async function openProject(agent, project) {
    try {
      const told = await get(`/v1/sessions?all=true&limit=500&agent=${encodeURIComponent(agent)}`);
      const rows = told.sessions.filter((/** @type {any} */ one) => (one.cwd ?? "") === (project.cwd ?? "")).slice(0, 60);
      opened.replaceChildren(h("section", { class: "panel" }, h("h2", {}, `${nameOfProject(project.cwd)} · ${size(project.bytes)} · ${plural(project.sessions, "session")}`),
        h("ul", { class: "rows" }, rows.map((/** @type {any} */ one) => h("li", {}, sessionRow({ ...one, key: `${one.agent}:${one.id}`, group: groupOf(one) }))))));
      opened.scrollIntoView({ block: "nearest" });
    } catch (error) {
      opened.replaceChildren(failure(/** @type {any} */ (error)));
    }
  }

  return { element, title: "Disk" };
}
