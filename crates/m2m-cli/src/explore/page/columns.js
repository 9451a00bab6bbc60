// One column, and two together.

import { chart, facts, get, h, panel, select, table, warnings } from "./dom.js";

const names = (release) => release.schema.map((column) => column.name);

export async function column({ release, where, about, signal, link }) {
  const name = about[0] ?? names(release)[0];
  const found = await get(`/api/columns/${encodeURIComponent(name)}`, { where, charts: true }, signal);
  const numbers = [["rows with a value", found.count.text], ["missing", found.missing.text]];
  for (const [name, label] of [["mean", "mean"], ["std", "standard deviation"], ["skewness", "skewness"]]) {
    if (found.moments[name]) numbers.push([label, found.moments[name].text]);
  }
  for (const atom of found.atoms) numbers.push([`exactly ${atom.at}`, atom.count.text]);
  const tails = [found.below && `${found.below.text} rows lie below`, found.above && `${found.above.text} rows lie above`].filter(Boolean);
  const caption = `Rows with their 95% intervals${tails.length ? `; ${tails.join(", ")} what is drawn` : ""}.`;
  const bars = found.histogram.map((bar) => [bar.label, bar.count.text]);
  return [
    h("div", { class: "controls" }, h("label", {}, "Column",
      select("column", names(release), found.name, (event) => { location.hash = link("column", [event.target.value]); }))),
    h("h1", {}, found.name, " ", h("span", { class: "kind" }, found.type)),
    warnings(found.warnings),
    h("div", { class: "grid" },
      panel("Distribution", chart(found.charts.histogram, caption)),
      found.charts.cdf && panel("Cumulative distribution", chart(found.charts.cdf, "The share of rows up to each value, with its 95% band.")),
      panel("Numbers", facts(numbers)),
      found.quantiles.length > 0 && panel("Quantiles", table(["part of the rows", "\tup to", "\t95% from", "\tto"],
        found.quantiles.map(({ q, value }) => [`${Math.round(100 * q)}%`, value.text, ends(value.low), ends(value.high)]), "Quantiles"))),
    panel("Bars", table([found.type === "category" || found.type === "boolean" ? "level" : "interval", "\trows"], bars, "Bars of the histogram")),
  ];
}

const ends = (end) => (typeof end === "number" ? Number(end.toPrecision(5)).toLocaleString("en") : String(end));

export async function pairs({ release, where, about, signal, link }) {
  const all = names(release);
  const x = about[0] ?? all[0];
  const y = about[1] ?? all.find((name) => name !== x) ?? x;
  const numeric = release.schema.filter((column) => "min" in column).length;
  const [matrix, pair] = await Promise.all([
    numeric > 1 ? get("/api/correlations", { where, charts: true }, signal) : null,
    all.length > 1 ? get("/api/pairs", { x, y, where, charts: true }, signal) : null,
  ]);
  const choose = (label, at, chosen) => h("label", {}, label, select(label, all, chosen, (event) => {
    const next = at === 0 ? [event.target.value, y] : [x, event.target.value];
    if (next[0] === next[1]) next[1 - at] = at === 0 ? x : y;
    location.hash = link("pairs", next);
  }));
  const groups = pair?.groups.map((group) => [group.x, group.rows.text, group.mean === undefined ? "" : group.mean?.text ?? "–"]);
  return [
    h("h1", {}, "Pairs of columns"),
    h("div", { class: "controls" }, choose("Across", 0, x), choose("Up", 1, y)),
    pair && h("div", { class: "grid" },
      panel(`${x} and ${y}`, chart(pair.charts.density, "Darker cells hold more rows. Cells that cannot be told from empty are blank.")),
      pair.charts.means && panel(`Mean of ${y} by ${x}`, chart(pair.charts.means, "Means of groups with 95% intervals; groups that noise swamps are left out.")),
      panel(`By ${x}`, table(pair.charts.means ? [x, "\trows", `\tmean of ${y}`] : [x, "\trows"],
        pair.charts.means ? groups : groups.map((row) => row.slice(0, 2)), `Groups of ${x}`))),
    matrix && panel("Correlations", warnings(matrix.warnings), chart(matrix.charts.matrix,
      "Blue goes up together, orange against each other; grey numbers cannot be told from zero.", true)),
  ];
}
