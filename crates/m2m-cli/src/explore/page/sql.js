// A query, its answer as a table and a chart, and the queries before it.

import { chart, h, panel, post, table, warnings } from "./dom.js";

const KEYWORDS = ["SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "AND", "OR", "NOT", "BETWEEN", "IN", "LIKE",
  "IS NULL", "CASE WHEN", "THEN", "ELSE", "END", "AS", "DESC", "FILTER (WHERE", "TRUE", "FALSE"];
const quoted = (name) => (/^[a-z_][a-z0-9_]*$/i.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

function first(release) {
  const level = release.schema.find((column) => "levels" in column);
  const number = release.schema.find((column) => "min" in column);
  const parts = [level && quoted(level.name), "COUNT(*)", number && `AVG(${quoted(number.name)})`].filter(Boolean);
  return `SELECT ${parts.join(", ")}\nFROM t${level ? `\nGROUP BY ${quoted(level.name)}` : ""}`;
}

/** Offers what the word before the cursor may become. */
function completing(editor, list, words) {
  let offered = [];
  let chosen = 0;
  const word = () => editor.value.slice(0, editor.selectionStart).match(/[\p{L}_][\p{L}\p{N}_]*$/u)?.[0] ?? "";
  const close = () => {
    offered = [];
    list.hidden = true;
    editor.setAttribute("aria-expanded", "false");
    editor.removeAttribute("aria-activedescendant");
  };
  const take = (text) => {
    const end = editor.selectionStart;
    editor.setRangeText(text, end - word().length, end, "end");
    close();
    editor.focus();
  };
  const draw = () => {
    list.replaceChildren(...offered.map(([text, kind], at) => h("li", { id: `option-${at}`, role: "option", "aria-selected": String(at === chosen),
      mousedown: (event) => { event.preventDefault(); take(text); } }, text, h("span", { class: "kind" }, kind))));
    list.hidden = offered.length === 0;
    editor.setAttribute("aria-expanded", String(offered.length > 0));
    if (offered.length) editor.setAttribute("aria-activedescendant", `option-${chosen}`);
  };
  editor.addEventListener("input", () => {
    const start = word().toLowerCase();
    chosen = 0;
    offered = start ? words.filter(([text]) => text.toLowerCase().replace(/^"/, "").startsWith(start) && text.toLowerCase() !== start).slice(0, 8) : [];
    draw();
  });
  editor.addEventListener("blur", close);
  editor.addEventListener("keydown", (event) => {
    if (!offered.length || event.ctrlKey || event.metaKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) chosen = (chosen + step + offered.length) % offered.length;
    else if (event.key === "Tab" || event.key === "Enter") take(offered[chosen][0]);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
    draw();
  });
}

export async function sql({ release, where }) {
  const key = `m2m-history-${release.hash}`;
  const past = () => JSON.parse(localStorage.getItem(key) ?? "[]");
  const editor = h("textarea", { id: "query", spellcheck: "false", role: "combobox", "aria-expanded": "false", "aria-controls": "options",
    "aria-autocomplete": "list", "aria-label": "Query in SQL" });
  editor.value = past()[0] ?? first(release);
  const list = h("ul", { id: "options", class: "options", role: "listbox", hidden: true, "aria-label": "Completions" });
  const { aggregates, functions } = release.words;
  completing(editor, list, [
    ...release.schema.map((column) => [quoted(column.name), column.type]),
    ...aggregates.map((name) => [`${name.toUpperCase()}(`, "aggregate"]),
    ...functions.map((name) => [`${name.toUpperCase()}(`, "function"]),
    ...KEYWORDS.map((word) => [word, ""]),
  ]);
  const result = h("div", { id: "result", "aria-live": "polite" });
  const history = h("ul", { class: "history" });
  const list_history = () => history.replaceChildren(...past().map((query) => h("li", {}, h("button", { type: "button", class: "mono", title: query,
    click: () => { editor.value = query; run(); } }, query.replaceAll(/\s+/g, " ")))));
  let pending = new AbortController();
  async function run() {
    pending.abort();
    pending = new AbortController();
    const { signal } = pending;
    delete result.dataset.ready;
    try {
      const query = editor.value;
      const answer = await post("/api/sql", { query, where, charts: true }, signal);
      localStorage.setItem(key, JSON.stringify([query, ...past().filter((other) => other !== query)].slice(0, 30)));
      list_history();
      const numeric = answer.columns.map((_, at) => answer.rows.some((row) => typeof row[at] === "number" || row[at]?.value !== undefined));
      const csv = URL.createObjectURL(new Blob([answer.csv], { type: "text/csv" }));
      result.replaceChildren(...[warnings(answer.warnings),
        panel("Answer", table(answer.columns.map((name, at) => (numeric[at] ? `\t${name}` : name)), answer.text, "Answer to the query"),
          h("p", { class: "note" }, `${answer.rows.length} ${answer.rows.length === 1 ? "line" : "lines"}. `, h("a", { href: csv, download: "answer.csv" }, "Save as CSV"))),
        answer.charts && panel("Chart", chart(answer.charts.answer, "With 95% intervals."))].flat().filter(Boolean));
    } catch (error) {
      if (signal.aborted) return;
      result.replaceChildren(h("p", { class: "panel bad", role: "alert" }, error.message));
    }
    result.dataset.ready = "true";
  }
  editor.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  });
  list_history();
  run();
  return [
    h("h1", {}, "SQL"),
    panel(null, h("div", { class: "editor" }, editor, list),
      h("p", {}, h("button", { type: "button", id: "run", click: run }, "Run"), " ",
        h("span", { class: "note" }, where ? `Only rows where ${where}. ` : "", "One SELECT over the table, whatever it is called; every number with its ±."))),
    result,
    h("details", { class: "panel" }, h("summary", {}, "Queries before"), history),
  ];
}
