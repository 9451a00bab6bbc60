// Elements, and questions to the API.

/** An element with attributes (functions are listeners) and children. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A chart that the server drew. */
export function chart(svg, caption, wide = false) {
  if (!svg) return null;
  const parsed = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  const figure = h("figure", { class: wide ? "chart wide" : "chart" }, document.importNode(parsed, true));
  if (caption) figure.append(h("figcaption", {}, caption));
  return figure;
}

export const panel = (title, ...children) => h("section", { class: "panel" }, title ? h("h2", {}, title) : null, children);

/** A table; columns whose header starts with a tab are numbers. */
export function table(header, rows, caption) {
  const numeric = header.map((name) => name.startsWith("\t"));
  const cell = (tag, text, at) => h(tag, { class: numeric[at] ? "n" : null, scope: tag === "th" ? "col" : null }, text);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("thead", {}, h("tr", {}, header.map((name, at) => cell("th", name.trim(), at)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((text, at) => cell("td", text, at)))))));
}

/** Numbers under their names. */
export const facts = (pairs) => h("dl", { class: "facts" }, pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

export const warnings = (all) => (all ?? []).map((text) => h("p", { class: "warn" }, text));

export class Refused extends Error {
  constructor(body) {
    super(body.error + (body.hint ? `; ${body.hint}` : ""));
  }
}

async function answer(response) {
  const body = await response.json();
  if (!response.ok) throw new Refused(body);
  return body;
}

function address(path, query) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== "" && value !== null && value !== undefined) search.set(name, value);
  }
  return `${path}?${search}`;
}

export const get = (path, query, signal) => fetch(address(path, query), { signal }).then(answer);
export const post = (path, body, signal) =>
  fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal }).then(answer);

/** Saves what the server sends under a name. */
export async function download(path, query, name) {
  const response = await fetch(address(path, query));
  if (!response.ok) throw new Refused(await response.json());
  const link = h("a", { href: URL.createObjectURL(await response.blob()), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export const select = (name, options, chosen, change) =>
  h("select", { name, change }, options.map((option) => h("option", { value: option, selected: option === chosen }, option)));
