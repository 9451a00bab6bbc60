// Models of the rows, and synthetic rows.

import { chart, download, facts, get, h, panel, post, select, table } from "./dom.js";

const LEARNERS = ["linear", "ridge", "logistic", "multinomial", "poisson", "svm"];
const quoted = (name) => (/^[a-z_][a-z0-9_]*$/i.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

/** The model that suits a target. */
function suited(column) {
  if (column.type === "boolean") return "logistic";
  if (column.type === "category") return column.levels.length > 2 ? "multinomial" : "logistic";
  return "linear";
}

export async function models({ release, where }) {
  const all = release.schema;
  const target = all.find((column) => column.type === "boolean") ?? all.find((column) => "min" in column) ?? all[0];
  const chosen = all.filter((column) => column !== target && column.type !== "date" && column.type !== "datetime").slice(0, 3);
  const formula = h("input", { id: "formula", class: "mono", spellcheck: "false" });
  const learner = select("learner", LEARNERS, suited(target));
  const boxes = h("fieldset", {}, h("legend", {}, "Predictors"));
  const spell = () => {
    const names = [...boxes.querySelectorAll("input:checked")].map((box) => quoted(box.value));
    formula.value = `${quoted(aim.value)} ~ ${names.join(" + ") || "1"}`;
  };
  const aim = select("target", all.map((column) => column.name), target.name, () => {
    learner.value = suited(all.find((column) => column.name === aim.value));
    offer();
    spell();
  });
  const offer = () => boxes.replaceChildren(boxes.firstChild, ...all.filter((column) => column.name !== aim.value).map((column) =>
    h("label", {}, h("input", { type: "checkbox", value: column.name, checked: chosen.includes(column), change: spell }), column.name)));
  offer();
  spell();
  const result = h("div", { id: "fitted", "aria-live": "polite" });
  const button = h("button", { type: "submit", id: "fit" }, "Fit");
  let pending = new AbortController();
  async function fit(event) {
    event.preventDefault();
    pending.abort();
    pending = new AbortController();
    const { signal } = pending;
    delete result.dataset.ready;
    result.classList.add("busy");
    try {
      const found = await post("/api/fit", { formula: formula.value, learner: learner.value, where, charts: true }, signal);
      const rows = found.coefficients.map((one) => [one.name, one.text, number(one.low), number(one.high)]);
      const about = found.classes.length ? `classes ${found.classes.join(", ")}` : "a number";
      result.replaceChildren(...[
        found.notes.map((note) => h("p", { class: "warn" }, note)),
        h("div", { class: "grid" },
          panel("Coefficients", table(["term", "\testimate", "\t95% from", "\tto"], rows, "Coefficients"),
            h("p", { class: "note" }, `${found.formula}: ${found.learner}, ${about}; about ${Math.round(found.rows).toLocaleString("en")} rows.`)),
          panel("Side by side", chart(found.charts.coefficients, "Numbers by one standard deviation, levels by being in them."))),
        found.charts.effects.length > 0 && panel("Partial effects",
          h("div", { class: "grid" }, found.charts.effects.map((one) => chart(one.svg, `${one.name}: what it adds to the score, with its 95% band.`)))),
      ].flat().filter(Boolean));
    } catch (error) {
      if (signal.aborted) return;
      result.replaceChildren(h("p", { class: "panel bad", role: "alert" }, error.message));
    }
    result.classList.remove("busy");
    result.dataset.ready = "true";
  }
  return [
    h("h1", {}, "Models"),
    h("form", { class: "panel", submit: fit },
      h("div", { class: "controls" }, h("label", {}, "Target", aim), h("label", {}, "Model", learner), boxes),
      h("div", { class: "controls" }, h("label", { class: "grow" }, "Formula", formula), button),
      h("p", { class: "note" }, where ? `Only rows where ${where}. ` : "", "A formula has + between terms; a:b is a product, . every other column, - 1 no intercept. The model is fitted to what the release says about the rows.")),
    result,
  ];
}

const number = (x) => (x === null ? "–" : Number(x.toPrecision(4)).toLocaleString("en"));

export async function synthetic({ release, where, signal }) {
  const rows = h("input", { type: "number", name: "rows", min: 1, max: 1000000, value: 10000, id: "rows" });
  const seed = h("input", { type: "number", name: "seed", min: 0, value: 0, id: "seed" });
  const problem = h("p", { class: "bad", role: "alert" });
  const load = (format) => h("button", { type: "button", id: `load-${format}`, click: async () => {
    problem.textContent = "";
    try {
      await download("/api/synth", { rows: rows.value, seed: seed.value, where, format }, `synthetic.${format}`);
    } catch (error) {
      problem.textContent = error.message;
    }
  } }, format === "csv" ? "Download CSV" : "Download Parquet");
  const shown = await get("/api/synth", { rows: 25, where }, signal);
  const types = Object.fromEntries(release.schema.map((column) => [column.name, column]));
  return [
    h("h1", {}, "Synthetic rows"),
    h("p", { class: "lead" }, "Rows in the image of the table, drawn from what the release says about it. None is anybody's. For numbers, ask the release itself: rows add the error of drawing them, and have no ±."),
    panel(null, h("div", { class: "controls" }, h("label", {}, "Rows", rows), h("label", {}, "Seed", seed), load("csv"), load("parquet")), problem,
      facts([["on the command line", h("code", {}, `m2m synth ${release.name} -n 10000 -o rows.parquet`)]])),
    panel(where ? `Some rows where ${where}` : "Some rows", table(shown.columns.map((name) => (types[name] && "min" in types[name] ? `\t${name}` : name)), shown.rows, "Synthetic rows")),
  ];
}
