"""The tables, the questions to them with their true answers, and the scores of answers."""

import itertools
import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

COUNTS, TRIPLES, POINTS = 200, 30, 10
# Integers with at most so many values have a cell each; a number that at least this share of rows has is an atom.
LATTICE, ATOM = 128, 0.05
EXACT = 1e-12

# Which columns of a file make up a set, and what is predicted on rows held out.
KNOWN = {
    "lifesci": dict(file="lifesci", drop=["reactivity"]),
    "magic": dict(file="magic04", drop=["class"]),
    "occupancy": dict(file="occupancy", drop=["epoch_s"], target="occupancy"),
    "adult": dict(file="adult", only="number"),
    "adult_all": dict(file="adult"),
}


@dataclass
class Column:
    """What is public about a column."""

    name: str
    low: float = 0
    high: float = 0
    whole: bool = False
    atoms: list = field(default_factory=list)
    levels: list = None

    def toml(self):
        text = f"[[column]]\nname = {json.dumps(self.name)}\n"
        if self.levels is not None:
            return text + f'type = "category"\nlevels = {json.dumps(self.levels, ensure_ascii=False)}\n'
        bound = (lambda x: int(x)) if self.whole else (lambda x: repr(float(x)))
        text += f'type = "{"integer" if self.whole else "number"}"\nmin = {bound(self.low)}\nmax = {bound(self.high)}\n'
        return text + (f"atoms = {self.atoms}\n" if self.atoms else "")

    def cells(self, bins):
        """Cells (low, high), both ends included; an atom has both ends equal."""
        if self.whole and self.high - self.low <= LATTICE:
            return [(v, v) for v in np.arange(self.low, self.high + 1)]
        if self.whole:
            width, step = np.ceil((self.high - self.low + 1) / bins), 1
            cells = [(a, min(a + width - 1, self.high)) for a in np.arange(self.low, self.high + 1, width)]
        else:
            edges, step = np.linspace(self.low, self.high, bins + 1), EXACT
            cells = list(zip(edges[:-1], edges[1:]))
        for atom in self.atoms:
            split = lambda a, b: [c for c in ((a, atom - step), (atom, atom), (atom + step, b)) if c[0] <= c[1]]
            cells = [c for a, b in cells for c in (split(a, b) if a <= atom <= b else [(a, b)])]
        return cells


class Coded:
    """A table as numbers of cells, and back."""

    def __init__(self, columns, bins):
        self.columns = columns
        self.cells = [None if c.levels is not None else np.array(c.cells(bins), float) for c in columns]
        self.sizes = [len(c.levels) if g is None else len(g) for c, g in zip(columns, self.cells)]

    def encode(self, table):
        codes = []
        for column, cells in zip(self.columns, self.cells):
            values = table[column.name]
            if cells is None:
                place = {level: at for at, level in enumerate(column.levels)}
                codes.append(values.map(place).to_numpy())
            else:
                codes.append(np.clip(np.searchsorted(cells[:, 1], values.to_numpy(float)), 0, len(cells) - 1))
        return np.array(codes).T

    def decode(self, codes, rng):
        """Rows with every number spread evenly over its cell."""
        table = {}
        for column, cells, code in zip(self.columns, self.cells, codes.T):
            if cells is None:
                table[column.name] = np.array(column.levels, object)[code]
                continue
            low, high = cells[code].T
            spread = rng.random(len(code))
            table[column.name] = np.floor(low + spread * (high - low + 1)) if column.whole else low + spread * (high - low)
        return pd.DataFrame(table)


class Set:
    """A table with its questions and their answers."""

    def __init__(self, name, table, columns, held_out=None, target=None):
        self.name, self.table, self.columns, self.held_out, self.target = name, table, columns, held_out, target
        self.numeric = [c for c in columns if c.levels is None]
        self.levels = [c for c in columns if c.levels is not None]
        x = self.units(table)
        draw, self.counts = np.random.default_rng(7), []
        for _ in range(COUNTS if x.shape[1] >= 3 else 0):
            chosen = draw.choice(x.shape[1], 3, replace=False)
            cuts = [np.quantile(x[:, c], draw.uniform(0.1, 0.9)) for c in chosen]
            self.counts.append([(int(c), t, bool(b)) for c, t, b in zip(chosen, cuts, draw.random(3) < 0.5)])
        count = range(len(self.levels))
        triples = list(itertools.combinations(count, 3))
        pick = draw.permutation(len(triples))[:TRIPLES]
        self.tables = list(itertools.combinations(count, 2)) + [triples[at] for at in sorted(pick)]
        self.truth = self.answers(table)

    def units(self, table):
        """Numeric columns on [0, 1]."""
        if not self.numeric:
            return np.zeros((len(table), 0))
        return np.array([(table[c.name].to_numpy(float) - c.low) / (c.high - c.low) for c in self.numeric]).T

    def answers(self, table):
        """What the rows of a table say to all questions, by kind."""
        x = self.units(table)
        d, n = x.shape[1], len(x)
        meets = lambda c, t, below: x[:, c] <= t + EXACT if below else x[:, c] >= t - EXACT
        second = x.T @ x / n
        codes = [table[c.name].map({v: at for at, v in enumerate(c.levels)}).to_numpy() for c in self.levels]
        cells = []
        for chosen in self.tables:
            sizes = [len(self.levels[c].levels) for c in chosen]
            at = np.ravel_multi_index([codes[c] for c in chosen], sizes)
            cells.append(np.bincount(at, minlength=int(np.prod(sizes))) / n)
        return {
            "mean": x.mean(0),
            "square": np.diag(second).copy(),
            "cdf": np.array([meets(j, p, True).mean() for j in range(d) for p in np.linspace(0.1, 1, POINTS)]),
            "product": np.array([second[i, j] for i, j in itertools.combinations(range(d), 2)]),
            "count": np.array([np.logical_and.reduce([meets(*test) for test in tests]).mean() for tests in self.counts]),
            "cell": np.concatenate(cells) if cells else np.zeros(0),
        }

    def scores(self, answers):
        """The errors of answers, smaller is better."""
        truth, d, out = self.truth, len(self.numeric), {}
        if d:
            relative = lambda kind: float(np.mean(np.abs(answers[kind] - truth[kind]) / truth[kind]))
            out = {"mean": relative("mean"), "m2": relative("square")}
            out["emd"] = float(np.abs(answers["cdf"] - truth["cdf"]).sum() / POINTS / d)
            covariance, true = self.covariance(answers), self.covariance(truth)
            out["cov"] = float(np.linalg.norm(covariance - true) / np.linalg.norm(true))
        if self.counts:
            out["q"] = float(np.abs(answers["count"] - truth["count"]).mean())
        errors, start = {2: [], 3: []}, 0
        for chosen in self.tables:
            end = start + int(np.prod([len(self.levels[c].levels) for c in chosen]))
            errors[len(chosen)].append(0.5 * np.abs(answers["cell"][start:end] - truth["cell"][start:end]).sum())
            start = end
        return out | {f"tv{k}": float(np.mean(e)) for k, e in errors.items() if e}

    def covariance(self, answers):
        second = np.diag(answers["square"])
        for (i, j), value in zip(itertools.combinations(range(len(self.numeric)), 2), answers["product"]):
            second[i, j] = second[j, i] = value
        return second - np.outer(answers["mean"], answers["mean"])

    def questions(self):
        """The same questions for our side, as products of factors."""
        unit = lambda c: {"column": c.name, "low": c.low, "high": c.high}

        def test(at, cut, below):
            c = self.numeric[at]
            value = c.low + cut * (c.high - c.low)
            slack = EXACT * max(c.high - c.low, abs(value))
            return {"column": c.name} | ({"at_most": value + slack} if below else {"at_least": value - slack})

        cells = []
        for chosen in self.tables:
            for levels in itertools.product(*(self.levels[c].levels for c in chosen)):
                cells.append([{"column": self.levels[c].name, "is": v} for c, v in zip(chosen, levels)])
        d = range(len(self.numeric))
        kinds = {
            "mean": [[unit(c)] for c in self.numeric],
            "square": [[unit(c), unit(c)] for c in self.numeric],
            "cdf": [[test(j, p, True)] for j in d for p in np.linspace(0.1, 1, POINTS)],
            "product": [[unit(self.numeric[i]), unit(self.numeric[j])] for i, j in itertools.combinations(d, 2)],
            "count": [[test(*t) for t in tests] for tests in self.counts],
            "cell": cells,
        }
        predictors = " + ".join(c.name for c in self.numeric if c.name != self.target)
        return {"questions": kinds, "formula": f"{self.target} = 1 ~ {predictors}" if self.target else None}

    def auc(self, rows):
        """Of a logistic regression that is trained on rows and tested on those held out."""
        if self.target is None:
            return None
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import roc_auc_score

        at = [c.name for c in self.numeric].index(self.target)
        split = lambda table: (np.delete(self.units(table), at, 1), table[self.target].to_numpy(float) > 0.5)
        (x, y), (test, truth) = split(rows), split(self.held_out)
        if y.all() or not y.any():
            return 0.5
        middle, spread = x.mean(0), x.std(0) + 1e-12
        model = LogisticRegression(C=1e4, max_iter=1000).fit((x - middle) / spread, y)
        return float(roc_auc_score(truth, model.decision_function((test - middle) / spread)))

    def read_rows(self, path):
        """Our synthetic rows, once; rows with a missing cell or an unlisted level, which the table has not, are left out."""
        text = {c.name: str for c in self.levels}
        rows = pd.read_csv(path, dtype=text, keep_default_na=False, na_values={c.name: "" for c in self.numeric})
        path.unlink()
        for c in self.levels:
            rows[c.name] = rows[c.name].where(rows[c.name].isin(c.levels))
        return rows.dropna().reset_index(drop=True)

    def write(self, directory):
        """Puts down what our side reads."""
        directory.mkdir(parents=True, exist_ok=True)
        self.table.to_csv(directory / "table.csv", index=False)
        (directory / "schema.toml").write_text("\n".join(c.toml() for c in self.columns))
        (directory / "questions.json").write_text(json.dumps(self.questions()))
        if self.held_out is not None:
            self.held_out.to_csv(directory / "held_out.csv", index=False)


def describe(table):
    """The public description of a known table; bounds and levels are taken for public."""
    columns = []
    for name, values in table.items():
        if values.dtype == object:
            columns.append(Column(name, levels=sorted(values.unique())))
            continue
        x = values.to_numpy(float)
        low, high, whole = float(x.min()), float(x.max()), bool(np.all(x == np.round(x)))
        lattice = whole and high - low <= LATTICE
        atoms = [0] if not lattice and np.mean(x == 0) > ATOM else []
        columns.append(Column(name, low, high, whole, atoms))
    return columns


def from_schema(path):
    """The columns of a schema.toml."""
    columns = []
    for entry in tomllib.loads(path.read_text())["column"]:
        kind = entry["type"]
        if kind == "category":
            columns.append(Column(entry["name"], levels=[str(v) for v in entry["levels"]]))
        elif kind in ("number", "integer"):
            atoms, whole = entry.get("atoms", []), kind == "integer"
            columns.append(Column(entry["name"], float(entry["min"]), float(entry["max"]), whole, atoms))
        else:
            raise SystemExit(f"{path}: the column {entry['name']} is of type {kind}; leave it out")
    return columns


def load(directory, name):
    """A known set, or `name`.csv with schema.toml beside it."""
    directory = Path(directory)
    if name in KNOWN:
        known = KNOWN[name]
        table = pd.read_csv(directory / f"{known['file']}.csv.gz", keep_default_na=False)
        table = table.drop(columns=known.get("drop", []))
        if known.get("only") == "number":
            table = table.select_dtypes("number")
        columns, target = describe(table), known.get("target")
        if target is None:
            return Set(name, table, columns)
        held = np.zeros(len(table), bool)
        held[np.random.default_rng(1).permutation(len(table))[: len(table) // 10]] = True
        return Set(name, table[~held].reset_index(drop=True), columns, table[held].reset_index(drop=True), target)
    columns = from_schema(directory / "schema.toml")
    path = next(p for p in (directory / f"{name}.csv", directory / f"{name}.csv.gz") if p.exists())
    text = {c.name: str for c in columns if c.levels is not None}
    table = pd.read_csv(path, usecols=[c.name for c in columns], dtype=text, keep_default_na=False)[[c.name for c in columns]]
    for c in columns:
        if c.levels is None:
            table[c.name] = pd.to_numeric(table[c.name], errors="coerce").clip(c.low, c.high)
        else:
            table[c.name] = table[c.name].where(table[c.name].isin(c.levels))
    return Set(name, table.dropna().reset_index(drop=True), columns)


def names(directory):
    """The sets that a directory holds."""
    directory = Path(directory)
    known = [name for name, known in KNOWN.items() if (directory / f"{known['file']}.csv.gz").exists()]
    if known or not (directory / "schema.toml").exists():
        return known
    return sorted({p.name.removesuffix(".gz").removesuffix(".csv") for p in directory.glob("*.csv*")})
