// What was released, and every column at a glance.

import { chart, facts, get, h, panel } from "./dom.js";

function card(column, link) {
  const numbers = [];
  if (column.moments.mean) numbers.push(["mean", column.moments.mean.text]);
  if (column.quantiles[0]) numbers.push(["median", column.quantiles[0].value.text]);
  if (!column.moments.mean) {
    const largest = [...column.histogram].sort((a, b) => b.count.value - a.count.value).slice(0, 2);
    for (const level of largest) numbers.push([level.label, level.count.text]);
  }
  if (column.missing.low > 0) numbers.push(["missing", column.missing.text]);
  return h("li", {}, h("a", { class: "card", href: link("column", [column.name]) },
    h("h3", {}, column.name, h("span", { class: "kind" }, column.type)),
    chart(column.charts?.spark), facts(numbers)));
}

export async function overview({ release, where, signal, link }) {
  const found = where ? await get("/api/overview", { where, charts: true }, signal) : release;
  const { privacy } = release;
  const rest = release.schema.slice(found.columns.length);
  return [
    h("h1", {}, release.name),
    h("p", { class: "lead" }, `${found.rows.text} rows${where ? " meet the condition" : ""}, ${release.schema.length} columns, published once under `,
      h("strong", {}, privacy.budget), ` ${privacy.neighbours}.`),
    h("ul", { class: "cards" }, found.columns.map((column) => card(column, link))),
    rest.length > 0 && panel("More columns", h("p", {}, rest.flatMap((column) =>
      [h("a", { href: link("column", [column.name]) }, column.name), " "]))),
    h("div", { class: "grid" },
      panel("What the release promises", h("p", {}, privacy.promise), privacy.guess && h("p", {}, privacy.guess),
        h("p", { class: "note" }, "Asking costs nothing: whatever is computed here is computed from the published file alone.")),
      panel("What is in it", h("ul", {}, release.contents.map((text) => h("li", {}, text))),
        h("p", { class: "note mono" }, `hash ${release.hash}`))),
  ];
}
