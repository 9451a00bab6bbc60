"""The Python package in figures: speed beside numpy and beside the program, import, wheel, and learning from a release.

Run by `cargo xtask bench python`, which hands over the release build.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The clusters of boosting's threads wait for each other; on a machine that others use too, one is faster than two.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy
import polars
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import m2m

COLUMNS = 10
FEATURES = 200


def speed(rows: int, runs: int, program: Path, work: Path) -> None:
    """Random Fourier features of a frame: m2m, numpy in double precision, and the program on the same rows."""
    random = numpy.random.default_rng(0)
    frame = polars.DataFrame({f"c{i}": random.random(rows) for i in range(COLUMNS)})
    schema = m2m.Schema([m2m.number(f"c{i}", 0, 1) for i in range(COLUMNS)])
    design = f"rff:m={FEATURES},sigma=1"
    work.mkdir(parents=True, exist_ok=True)
    table, toml = work / "python.arrow", work / "python.toml"
    frame.write_ipc(table, compression="uncompressed")
    schema.save(toml)
    omega = random.normal(size=(COLUMNS, FEATURES // 2))
    part = frame[: rows // 50].to_numpy()

    def by_numpy() -> float:
        """A part of the rows, in the chunks that suit it best, on all cores: its loops let go of the lock."""

        def features(chunk: numpy.ndarray) -> numpy.ndarray:
            phase = chunk @ omega
            return numpy.concatenate([numpy.cos(phase).sum(axis=0), numpy.sin(phase).sum(axis=0)])

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            sum(pool.map(features, numpy.array_split(part, max(len(part) // 2000, 1))))
        return rows / len(part)

    def by_program() -> float:
        # Secret sums: the same work, and nothing is spent.
        command = [
            program,
            "sketch",
            table,
            "--schema",
            toml,
            "--design",
            design,
            "--sums",
            work / "python.sums",
            "--force",
        ]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return 1.0

    def by_package() -> float:
        m2m.sums(frame, schema, design=design)
        return 1.0

    def from_file() -> float:
        m2m.sums(table, schema, design=design)
        return 1.0

    def timed(way: Callable[[], float]) -> tuple[float, float]:
        """Seconds by the clock and of all cores, for all rows."""
        clock, used = time.perf_counter(), os.times()
        share = way()
        clock, now = time.perf_counter() - clock, os.times()
        return clock * share, (sum(now[:4]) - sum(used[:4])) * share

    ways = {
        "m2m.sums, polars frame": by_package,
        "m2m.sums, Arrow file": from_file,
        "m2m program, Arrow file": by_program,
        "numpy, float64": by_numpy,
    }
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, way in ways.items():
            seconds[name].append(timed(way))
    # Others may use the machine too: the clock's best run is the one that they disturbed least, and the cores' seconds
    # hardly depend on them.
    clock = {name: min(took for took, _ in times) for name, times in seconds.items()}
    cores = {name: statistics.median(used for _, used in times) for name, times in seconds.items()}
    print(f"Fourier features (m = {FEATURES}) of {rows:.0e} rows x {COLUMNS}, {runs} interleaved runs:")
    for name in ways:
        print(
            f"  {name:<26} {rows / clock[name] / 1e6:7.2f} million rows/s (best), "
            f"{rows / cores[name] / 1e6:6.2f} per second of a core (median)"
        )
    for what, took in (("by the clock", clock), ("by seconds of a core", cores)):
        ours = took["m2m.sums, polars frame"]
        print(
            f"  {what}: {took['numpy, float64'] / ours:.1f} x numpy, "
            f"{100 * took['m2m program, Arrow file'] / ours:.0f}% of the program"
        )
    table.unlink()
    (work / "python.sums").unlink()


def footprint(wheel: Path) -> None:
    code = (
        "import time; clock, used = time.perf_counter(), time.process_time(); import m2m; "
        "print(time.perf_counter() - clock, time.process_time() - used)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split() for _ in range(15)
    ]
    clock, used = ([1000 * float(run[at]) for run in runs] for at in (0, 1))
    print(f"import m2m: {min(clock):.0f} ms by the clock (best), {statistics.median(used):.0f} ms of a core (median)")
    print(f"wheel: {wheel.stat().st_size / 1e6:.1f} MB")


#: Adult's columns of numbers with bounds from its codebook.
NUMERIC = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education_num": (1, 16),
    "capital_gain": (0, 100_000),
    "capital_loss": (0, 5000),
    "hours_per_week": (1, 99),
}


#: What the peers' noise, which is Gaussian, cannot do without.
DELTA = 1e-5


def boosting(data: Path, python: Path, work: Path) -> None:
    """A gradient-boosted classifier of Adult's income: on the real rows, on points of a release, and on peers' rows."""
    path = data / "adult.csv.gz"
    if not path.exists():
        print(f"boosting on Adult: left out, as {path} is not there; give its directory with --data")
        return
    with gzip.open(path) as file:
        frame = polars.read_csv(file.read(), infer_schema_length=None)
    target = frame.columns[-1]
    columns = []
    for name in frame.columns:
        if name in NUMERIC:
            atoms = [0] if "capital" in name else []
            columns.append(m2m.integer(name, *NUMERIC[name], transform="log1p" if atoms else None, atoms=atoms))
        else:
            # The codebook lists the levels; the file has all of them.
            levels = sorted(set(frame[name]) - {"?"})
            columns.append(m2m.category(name, levels, nullable=True, missing=["?"]))
    schema = m2m.Schema(columns)
    order = numpy.random.default_rng(0).permutation(len(frame))
    train, test = frame[order[: int(0.8 * len(frame))]], frame[order[int(0.8 * len(frame)) :]]

    def encoded(rows: polars.DataFrame) -> tuple[numpy.ndarray, numpy.ndarray]:
        parts = []
        for column in schema.to_dict()["column"]:
            if column["name"] == target:
                continue
            values = rows[column["name"]]
            if "levels" in column:
                places = {level: place for place, level in enumerate(column["levels"])}
                values = values.replace_strict(places, default=None, return_dtype=polars.Float64)
            parts.append(values.cast(polars.Float64).to_numpy())
        return numpy.column_stack(parts), (rows[target] == ">50K").to_numpy()

    def auc(rows: polars.DataFrame, weights: numpy.ndarray | None = None) -> float:
        known = rows[target].is_not_null().to_numpy()
        x, y = encoded(rows.filter(known))
        weights = None if weights is None else weights[known]
        model = HistGradientBoostingClassifier(random_state=0).fit(x, y, sample_weight=weights)
        x, y = encoded(test)
        return float(roc_auc_score(y, model.predict_proba(x)[:, 1]))

    def show(name: str, budget: str, values: list[float]) -> None:
        each = f" ({', '.join(f'{value:.3f}' for value in values)})" if len(values) > 1 else ""
        print(f"  {name:<16} {budget:<19} {statistics.mean(values):.3f}{each}", flush=True)

    print(f"gradient boosting on Adult ({len(train)} rows, {len(frame.columns)} columns), AUC on {len(test)} others:")
    show("real rows", "", [auc(train)])
    for epsilon, delta in ((1, DELTA), (1, None), (10, DELTA)):
        budget = f"ε = {epsilon}" + (f", δ = {delta}" if delta else "")
        found: dict[str, list[float]] = {"weighted_sample": [], "synthesize": []}
        for seed in range(3):
            release = m2m.sketch(train, schema, epsilon=epsilon, delta=delta)
            sample, weights = release.weighted_sample(100_000, seed=seed)
            found["weighted_sample"].append(auc(sample.to_polars(), weights))
            found["synthesize"].append(auc(release.synthesize(len(train), seed=seed).to_polars()))
        for name, values in found.items():
            show(name, budget, values)
    for system in ("mst", "aim"):
        rows = rows_of_a_peer(python, system, train, schema, work)
        show(system.upper(), f"ε = 1, δ = {DELTA}", [auc(rows)])


def rows_of_a_peer(
    python: Path, system: str, train: polars.DataFrame, schema: m2m.Schema, work: Path
) -> polars.DataFrame:
    """Synthetic rows of MST or AIM at ε = 1, as many as there are, on cells of our columns.

    Numbers are on the scale of their transform, and missing is a level.
    """
    columns = []
    scaled = train
    for column in schema.to_dict()["column"]:
        name = column["name"]
        if "levels" in column:
            columns.append({"name": name, "levels": [*column["levels"], "?"]})
        elif column.get("transform") == "log1p":
            scaled = scaled.with_columns(polars.col(name).log1p())
            bounds = {"low": numpy.log1p(column["min"]), "high": numpy.log1p(column["max"])}
            columns.append({"name": name, **bounds, "atoms": column["atoms"]})
        else:
            columns.append({"name": name, "low": column["min"], "high": column["max"], "whole": True})
    table, description, out = (work / f"{system}.{what}" for what in ("in.csv", "json", "out.csv"))
    scaled.write_csv(table)
    description.write_text(json.dumps(columns))
    script = Path(__file__).parent / "accuracy" / "rows.py"
    subprocess.run([python, script, system, "1", str(DELTA), "0", table, description, out], check=True)
    rows = polars.read_csv(out, infer_schema_length=None)
    for column in columns:
        if column.get("atoms"):
            rows = rows.with_columns(polars.col(column["name"]).exp() - 1)
    for file in (table, description, out):
        file.unlink()
    return rows


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--wheel", type=Path, required=True)
    options.add_argument("--program", type=Path, required=True)
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--peers", type=Path, required=True, help="a Python that has dpmm")
    options.add_argument("--work", type=Path, required=True)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--runs", type=int, default=5)
    given = options.parse_args()
    print(json.dumps({"cores": os.cpu_count(), "python": sys.version.split()[0], "m2m": m2m.__version__}))
    footprint(given.wheel)
    speed(given.rows, given.runs, given.program, given.work)
    boosting(given.data, given.peers, given.work)


if __name__ == "__main__":
    main()
