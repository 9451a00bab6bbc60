// The frame: views, the filter that they share, and the address, which holds both.

import { Refused, get, h } from "./dom.js";
import { overview } from "./overview.js";
import { column, pairs } from "./columns.js";
import { sql } from "./sql.js";
import { models, synthetic } from "./models.js";

const VIEWS = [
  ["overview", "Overview", overview],
  ["column", "Column", column],
  ["pairs", "Pairs", pairs],
  ["sql", "SQL", sql],
  ["models", "Models", models],
  ["synthetic", "Synthetic", synthetic],
];

const view = document.getElementById("view");
const where = document.getElementById("where");
const filtered = document.getElementById("filtered");
let release;
let pending = new AbortController();

/** What the address says: the view, what it is about, and the filter. */
function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...about] = path.split("/").map(decodeURIComponent);
  const known = VIEWS.some(([key]) => key === name);
  return { name: known ? name : "overview", about, where: new URLSearchParams(query).get("where") ?? "" };
}

export function link(name, about = [], condition = place().where) {
  const path = [name, ...about].map(encodeURIComponent).join("/");
  return `#/${path}${condition ? `?where=${encodeURIComponent(condition)}` : ""}`;
}

async function show() {
  const here = place();
  pending.abort();
  pending = new AbortController();
  const { signal } = pending;
  where.value = here.where;
  const [, title, draw] = VIEWS.find(([key]) => key === here.name);
  document.title = `${title} · ${release.name}`;
  document.getElementById("tabs").replaceChildren(...VIEWS.map(([key, name]) =>
    h("li", {}, h("a", { href: link(key), "aria-current": key === here.name ? "page" : null }, name))));
  view.classList.add("busy");
  filtered.classList.remove("bad");
  filtered.textContent = here.where ? "…" : "";
  const count = here.where ? get("/api/overview", { where: here.where, cards: false }, signal).catch((error) => error) : null;
  try {
    const content = await draw({ release, where: here.where, about: here.about, signal, link });
    const found = await count;
    if (signal.aborted) return;
    if (found instanceof Error) throw found;
    if (found) filtered.textContent = `${found.rows.text} of ${release.rows.text} rows`;
    view.replaceChildren(...[content].flat(Infinity).filter(Boolean));
  } catch (error) {
    if (signal.aborted) return;
    if (here.where && error instanceof Refused) {
      filtered.textContent = error.message;
      filtered.classList.add("bad");
    }
    view.replaceChildren(h("p", { class: "panel bad", role: "alert" }, error.message));
  } finally {
    if (!signal.aborted) {
      view.classList.remove("busy");
      view.dataset.ready = location.hash || "#/overview";
      performance.mark("ready");
    }
  }
}

function apply(condition) {
  const { name, about } = place();
  const next = link(name, about, condition.trim());
  if (next === location.hash) show();
  else location.hash = next;
}

document.getElementById("filter").addEventListener("submit", (event) => {
  event.preventDefault();
  apply(where.value);
});
document.getElementById("clear").addEventListener("click", () => apply(""));
window.addEventListener("hashchange", show);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (event.key === "/") {
    event.preventDefault();
    where.focus();
  } else if (/^[1-6]$/.test(event.key)) {
    location.hash = link(VIEWS[Number(event.key) - 1][0]);
  }
});

try {
  release = await get("/api/overview", { charts: true });
  document.getElementById("release-name").textContent = release.name;
  const budget = document.getElementById("budget");
  budget.textContent = release.privacy.budget;
  budget.hidden = false;
  await show();
} catch (error) {
  view.replaceChildren(h("p", { class: "panel bad", role: "alert" }, error.message));
}
