"""From tables to releases: every way in gives the same sums, and budgets are kept."""

from __future__ import annotations

import copy
import datetime
import itertools
import json
import multiprocessing
import os
import pickle
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import hypothesis.strategies as st
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from hypothesis import given, settings

import m2m

DESIGN = "tables:ways=2"

WAYS: dict[str, Callable[[polars.DataFrame, Path], Any]] = {
    "polars": lambda frame, _: frame,
    "polars in chunks": lambda frame, _: polars.concat([frame[:7], frame[7:19_000], frame[19_000:]], rechunk=False),
    "polars categorical": lambda frame, _: frame.with_columns(polars.col("sex").cast(polars.Categorical)),
    "pandas categorical": lambda frame, _: frame.to_pandas().astype({"sex": "category"}),
    "polars small types": lambda frame, _: frame.with_columns(polars.col("age").cast(polars.UInt8)),
    "polars lazy": lambda frame, _: frame.lazy(),
    "pandas": lambda frame, _: frame.to_pandas(),
    "pandas with arrow": lambda frame, _: frame.to_pandas(use_pyarrow_extension_array=True),
    "pyarrow table": lambda frame, _: frame.to_arrow(),
    "pyarrow reader": lambda frame, _: frame.to_arrow().to_reader(max_chunksize=999),
    "pyarrow batch": lambda frame, _: frame.to_arrow().combine_chunks().to_batches()[0],
    "pyarrow dataset": lambda frame, path: _dataset(frame, path),
    "duckdb": lambda frame, _: duckdb.from_arrow(frame.to_arrow()),
    "iterator": lambda frame, _: iter(frame.to_arrow().to_batches(max_chunksize=1234)),
    "iterator of frames": lambda frame, _: (frame[i : i + 5000] for i in range(0, len(frame), 5000)),
    "list": lambda frame, _: frame.to_arrow().to_batches(max_chunksize=3000),
    "csv": lambda frame, path: _csv(frame, path),
    "parquet": lambda frame, path: _parquet(frame, path),
    "pattern": lambda frame, path: _pattern(frame, path),
    "pipe": lambda frame, path: _pipe(frame, path),
    "list of paths": lambda frame, path: sorted(Path(_pattern(frame, path)).parent.glob("part-*.csv")),
}


def _dataset(frame: polars.DataFrame, path: Path) -> Any:
    pyarrow.dataset.write_dataset(
        frame.to_arrow(),
        path / "set",
        format="parquet",
        max_rows_per_group=7000,
        existing_data_behavior="overwrite_or_ignore",
    )
    return pyarrow.dataset.dataset(path / "set")


def _csv(frame: polars.DataFrame, path: Path) -> Path:
    frame.write_csv(path / "people.csv")
    return path / "people.csv"


def _parquet(frame: polars.DataFrame, path: Path) -> str:
    frame.write_parquet(path / "people.parquet")
    return str(path / "people.parquet")


def _pipe(frame: polars.DataFrame, path: Path) -> Path:
    """A file that can be read only once."""
    pipe = path / f"pipe-{len(list(path.iterdir()))}"
    os.mkfifo(pipe)
    # polars may open a path more than once, and a reader would take the first time for the whole.
    threading.Thread(target=pipe.write_text, args=(frame.write_csv(),), daemon=True).start()
    return pipe


def _pattern(frame: polars.DataFrame, path: Path) -> str:
    frame[:9000].write_csv(path / "part-1.csv")
    frame[9000:].write_csv(path / "part-2.csv")
    return str(path / "part-*.csv")


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_gives_the_same_sums(
    way: str, frame: polars.DataFrame, schema: m2m.Schema, tmp_path: Path
) -> None:
    expected = m2m.sums(frame, schema, design=DESIGN).to_bytes()
    assert m2m.sums(WAYS[way](frame, tmp_path), schema, design=DESIGN).to_bytes() == expected
    # Two rounds read it twice.
    release = m2m.sketch(WAYS[way](frame, tmp_path), schema, epsilon=100)
    count = release.count()
    # Noise beyond 40 standard deviations does not happen.
    assert abs(count.value - len(frame)) < 40 * count.std_error + 1e-9


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 2000), max_size=5), order=st.randoms(use_true_random=False), threads=st.integers(1, 3)
)
def test_sharding_changes_nothing(cuts: list[int], order: Any, threads: int) -> None:
    from conftest import SCHEMA, people

    frame = people(2000)
    ends = sorted({0, *cuts, 2000})
    parts = [frame[a:b] for a, b in itertools.pairwise(ends)]
    order.shuffle(parts)
    whole = m2m.merge([m2m.sums(part, SCHEMA, design="hist", threads=threads) for part in parts])
    assert whole.to_bytes() == m2m.sums(frame, SCHEMA, design="hist").to_bytes()


def test_frames_are_read_where_they_are(schema: m2m.Schema) -> None:
    """A frame of a gigabyte is read without growing by one."""
    code = """
import resource, numpy, polars, m2m
rows = 25_000_000
frame = polars.DataFrame({f"c{i}": numpy.zeros(rows) for i in range(5)})
schema = m2m.Schema([m2m.number(f"c{i}", 0, 1) for i in range(5)])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
m2m.sums(frame, schema, design="hist")
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert grown < 100_000, grown
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_two_rounds_in_parts_are_a_release(frame: polars.DataFrame, schema: m2m.Schema) -> None:
    parts = [frame[:5000], frame[5000:]]
    first = m2m.FirstRound(schema, epsilon=1, rows=20_000)
    marginals = first.release(m2m.merge(m2m.sums(part, schema, design=first.design) for part in parts))
    assert {block["map"]["kind"] for block in marginals.info()["blocks"]} == {"hist"}
    second = m2m.SecondRound.after(marginals, rows=20_000)
    assert second.schema == schema
    release = second.release(m2m.merge(m2m.sums(part, schema, design=second.design) for part in parts))
    assert {block["map"]["kind"] for block in release.info()["blocks"]} - {"values"} == {"hist", "merged", "signs"}
    with pytest.raises(m2m.Error, match="used already"):
        first.release(m2m.sums(frame, schema, design=first.design))
    with pytest.raises(m2m.Error, match="used already"):
        second.release(m2m.sums(frame, schema, design=second.design))
    other = m2m.FirstRound(schema, epsilon=1)
    with pytest.raises(m2m.Error, match="another schema or design"):
        other.release(m2m.sums(frame, schema, design="hist"))
    with pytest.raises(m2m.Error, match="another schema or design"):
        m2m.SecondRound.after(marginals).release(m2m.sums(frame, schema, design=first.design))
    for wrong in (release, m2m.sketch(frame[:20], schema, epsilon=1, design="hist")):
        with pytest.raises(m2m.Error, match="a second round follows a first one"):
            m2m.SecondRound.after(wrong)
    with pytest.raises(m2m.Error, match="give that release"):
        m2m.SecondRound.after(frame)  # type: ignore[arg-type]
    with pytest.raises(m2m.Error, match=r"SecondRound\.after"):
        m2m.SecondRound()


def test_a_ledger_lets_a_second_round_be_made_once(frame: polars.DataFrame, schema: m2m.Schema, tmp_path: Path) -> None:
    """Two rounds with nothing between them but files, as by `m2m release` and `m2m release --after`."""
    ledger = m2m.Ledger.new(tmp_path / "budget.toml", epsilon=2)
    first = m2m.FirstRound(schema, epsilon=1)
    sums = m2m.sums(frame, schema, design=first.design)
    first.release(sums, ledger=ledger, what="people").save(tmp_path / "first.m2m")
    # Both rounds are paid for.
    assert ledger.left == {"epsilon": 1.0}

    def second() -> m2m.SecondRound:
        return m2m.SecondRound.after(tmp_path / "first.m2m")

    def tables() -> m2m.Sums:
        return m2m.sums(frame, schema, design=second().design)

    with pytest.raises(m2m.Error, match="a ledger has paid for this release; give it"):
        second().release(tables())
    other = m2m.Ledger.new(tmp_path / "other.toml", epsilon=2)
    for refused in (lambda: second().check(other), lambda: second().release(tables(), ledger=other)):
        with pytest.raises(m2m.Error, match="was not debited for this first round"):
            refused()
    second().check(ledger)
    release = second().release(tables(), ledger=ledger)
    assert release.info()["privacy"]["budget"] == {"epsilon": 1}
    # It costs nothing more, and there is no third round.
    assert ledger.left == {"epsilon": 1.0}
    for refused in (lambda: second().check(ledger), lambda: second().release(tables(), ledger=ledger)):
        with pytest.raises(m2m.Error, match="was made"):
            refused()


def test_rounds_go_over_processes(frame: polars.DataFrame, schema: m2m.Schema, tmp_path: Path) -> None:
    """Both rounds of the default design in a pool of new processes, bit for bit those of one."""
    paths = []
    for part in range(3):
        paths.append(tmp_path / f"{part}.parquet")
        frame[part::3].write_parquet(paths[-1])
    with multiprocessing.get_context("spawn").Pool(2) as pool:

        def everywhere(design: str) -> m2m.Sums:
            jobs = [(path, schema, design) for path in paths]
            return m2m.merge(m2m.Sums.from_bytes(secret) for secret in pool.imap_unordered(in_a_process, jobs))

        first = m2m.FirstRound(schema, epsilon=1)
        sums = everywhere(first.design)
        assert sums.to_bytes() == m2m.sums(frame, schema, design=first.design).to_bytes()
        second = m2m.SecondRound.after(first.release(sums))
        tables = everywhere(second.design)
    assert tables.to_bytes() == m2m.sums(frame, schema, design=second.design).to_bytes()
    release = second.release(tables)
    count = release.count()
    # Noise beyond 40 standard deviations does not happen.
    assert abs(count.value - len(frame)) < 40 * count.std_error


def in_a_process(job: tuple[Path, m2m.Schema, str]) -> bytes:
    path, schema, design = job
    return m2m.sums(path, schema, design=design, threads=1).to_bytes()


def test_sums_are_unreadable(frame: polars.DataFrame, schema: m2m.Schema, tmp_path: Path) -> None:
    sums = m2m.sums(frame, schema, design="hist")
    assert repr(sums) == str(sums) == f"{sums}" == "Sums(secret)"
    for copied in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises((m2m.Error, TypeError)):
            copied(sums)
    assert not hasattr(sums, "__dict__")
    public = {name for name in dir(sums) if not name.startswith("_")}
    assert public == {"merge", "schema", "release", "to_bytes", "from_bytes", "save", "open"}
    native = {name for name in dir(sums._native) if not name.startswith("_")}
    assert native == {"merge", "moved", "schema", "design", "to_bytes", "from_bytes", "save", "open"}
    with pytest.raises(m2m.Error, match=r"m2m\.sums"):
        m2m.Sums()
    sums.save(tmp_path / "a.sums")
    assert stat.S_IMODE(os.stat(tmp_path / "a.sums").st_mode) == 0o600
    assert m2m.Sums.open(tmp_path / "a.sums").to_bytes() == sums.to_bytes()
    assert m2m.Sums.from_bytes(sums.to_bytes()).to_bytes() == sums.to_bytes()
    for wrong in (b"", b"x" * 100, sums.to_bytes()[:-1], sums.to_bytes() + b"x"):
        with pytest.raises(m2m.Error, match="sums"):
            m2m.Sums.from_bytes(wrong)


def test_sums_count_once(frame: polars.DataFrame, schema: m2m.Schema) -> None:
    a, b = (m2m.sums(part, schema, design="hist") for part in (frame[:10], frame[10:20]))
    with pytest.raises(m2m.Error, match="count twice"):
        a.merge(a)
    a.merge(b)
    for again in (lambda: a.merge(b), lambda: b.to_bytes(), lambda: b.release(epsilon=1)):
        with pytest.raises(m2m.Error, match="count twice"):
            again()
    a.release(epsilon=1)
    with pytest.raises(m2m.Error, match="count twice"):
        a.release(epsilon=1)
    with pytest.raises(m2m.Error, match="another schema or design"):
        m2m.sums(frame, schema, design="hist").merge(m2m.sums(frame, schema, design="hist:bins=8"))


def test_what_cannot_be_merged_uses_up_what_came_before(frame: polars.DataFrame, schema: m2m.Schema) -> None:
    """Else rows that were merged before the failure would be added up anew, as the message says, and count twice."""
    parts = [m2m.sums(part, schema, design="hist") for part in (frame[:10], frame[10:20])]
    other = m2m.sums(frame[20:30], schema, design="hist:bins=8")
    with pytest.raises(m2m.Error, match="another schema or design"):
        m2m.merge([*parts, other])
    for part in parts:
        with pytest.raises(m2m.Error, match="count twice"):
            part.release(epsilon=1)
    with pytest.raises(m2m.Error, match="only sums"):
        m2m.merge([42])  # type: ignore[list-item]


def test_a_file_is_merged_once(
    frame: polars.DataFrame, schema: m2m.Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in range(3):
        m2m.sums(frame[part : part + 1], schema, design="hist").save(tmp_path / f"{part}.sums")
    monkeypatch.chdir(tmp_path)
    opened = [m2m.Sums.open(path) for path in ("0.sums", tmp_path / "1.sums", tmp_path / "." / "0.sums")]
    whole = m2m.merge(opened[:2])
    with pytest.raises(m2m.Error, match="one file"):
        whole.merge(opened[2])
    whole.merge(m2m.Sums.open("2.sums"))


def in_a_fork(work: Callable[[], Any]) -> str:
    """What an exception says that is raised in a process that is forked from this one."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as said:
        return said.read()


def test_a_fork_has_no_use_of_noise_and_spends_nothing(
    frame: polars.DataFrame, schema: m2m.Schema, tmp_path: Path
) -> None:
    ledger = m2m.Ledger.new(tmp_path / "budget.toml", epsilon=1)
    first = m2m.FirstRound(schema, epsilon="0.5")
    sums = m2m.sums(frame[:50], schema, design=first.design)
    assert "another process" in in_a_fork(lambda: first.release(sums, ledger=ledger))
    assert ledger.spent == []
    second = m2m.SecondRound.after(first.release(sums, ledger=ledger))
    sums = m2m.sums(frame[:50], schema, design=second.design)
    assert "another process" in in_a_fork(lambda: second.release(sums, ledger=ledger))
    second.release(sums, ledger=ledger)
    one = m2m._curator.native.OneRound(schema._native, "hist", m2m._curator._privacy("0.5", None, None))
    sums = m2m.sums(frame[:50], schema, design=one.design())
    account = (str(ledger.path), "a fork")
    assert "another process" in in_a_fork(lambda: one.privatise(sums._native, account))
    assert ledger.left == {"epsilon": 0.5}
    one.privatise(sums._native, account)


def test_a_ledger_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = m2m.Ledger.new("budget.toml", epsilon=1)
    monkeypatch.chdir("/")
    assert ledger.left == {"epsilon": 1.0}


def test_rounds_stay_where_their_noise_is(schema: m2m.Schema) -> None:
    with pytest.raises(m2m.Error, match="send its design"):
        pickle.dumps(m2m.FirstRound(schema, epsilon=1))


def test_the_ledger_is_debited_before_noise(frame: polars.DataFrame, schema: m2m.Schema, tmp_path: Path) -> None:
    ledger = m2m.Ledger.new(tmp_path / "budget.toml", epsilon="0.3")
    for _ in range(3):
        m2m.sketch(frame[:50], schema, epsilon=0.1, ledger=ledger, what="a test")
    assert ledger.left == {"epsilon": 0.0}
    assert [entry["what"] for entry in ledger.spent] == ["a test"] * 3
    with pytest.raises(m2m.Error, match="too little"):
        m2m.sketch(frame[:50], schema, epsilon=0.1, ledger=ledger)
    with pytest.raises(m2m.Error, match="too little"):
        m2m.sums(frame[:50], schema, design="hist").release(epsilon=0.1, ledger=ledger)
    first = m2m.FirstRound(schema, epsilon=0.1)
    sums = m2m.sums(frame[:50], schema, design=first.design)
    with pytest.raises(m2m.Error, match="too little"):
        first.release(sums, ledger=ledger)
    assert len(ledger.spent) == 3
    # What the ledger refuses uses nothing up.
    first.release(sums)
    with pytest.raises(m2m.Error, match="never replaced"):
        m2m.Ledger.new(tmp_path / "budget.toml", epsilon=1)
    with pytest.raises(m2m.Error, match="not there"):
        m2m.Ledger(tmp_path / "nothing.toml")


def test_a_failure_after_the_debit_says_so(schema: m2m.Schema, frame: polars.DataFrame, tmp_path: Path) -> None:
    """Files that go away between the two readings."""
    ledger = m2m.Ledger.new(tmp_path / "budget.toml", epsilon=1)
    table = tmp_path / "people.csv"
    frame[:100].write_csv(table)
    original = m2m._curator.native.FirstRound

    class Vanishing:
        def __init__(self, *arguments: Any) -> None:
            self.round = original(*arguments)

        def design(self) -> str:
            return self.round.design()

        def privatise(self, *arguments: Any) -> Any:
            second = self.round.privatise(*arguments)
            table.unlink()
            return second

    m2m._curator.native.FirstRound = Vanishing  # type: ignore[misc,assignment]
    try:
        with pytest.raises(m2m.Error, match="was debited, but nothing was released: cannot read"):
            m2m.sketch(table, schema, epsilon=1, ledger=ledger)
    finally:
        m2m._curator.native.FirstRound = original  # type: ignore[misc]
    assert ledger.left == {"epsilon": 0.0}


def test_budgets_are_exact_decimals(frame: polars.DataFrame, schema: m2m.Schema) -> None:
    from decimal import Decimal

    for epsilon in (0.1, "0.1", Decimal("0.1")):
        release = m2m.sketch(frame[:20], schema, epsilon=epsilon, design="hist")
        assert release.info()["privacy"]["budget"] == {"epsilon": 0.1}
    release = m2m.sketch(frame[:20], schema, epsilon=1, delta=1e-6)
    assert release.info()["privacy"]["budget"] == {"epsilon": 1, "delta": 1e-6}
    assert m2m.sketch(frame[:20], schema, rho=0.5).info()["privacy"]["budget"] == {"rho": 0.5}


def test_odd_rows_are_counted_for_the_curator_without_a_value() -> None:
    schema = m2m.Schema([m2m.integer("age", 0, 100), m2m.category("sex", ["f", "m"])])
    frame = polars.DataFrame({"age": [1, 2, 3000, None], "sex": ["f", "secret-level", "m", "m"]})
    with pytest.warns(m2m.ReadingWarning) as caught:
        m2m.sketch(frame, schema, epsilon=1)
    (warning,) = caught
    message = str(warning.message)
    assert "age 1" in message
    assert "sex 1" in message
    assert "clamped: 1" in message
    assert "for you alone" in message
    assert "secret-level" not in message
    assert "3000" not in message
    with pytest.raises(m2m.Error, match="row 4, column `age`"):
        m2m.sketch(frame, schema, epsilon=1, strict=True)


def test_users_are_bounded() -> None:
    schema = m2m.Schema([m2m.integer("visits", 0, 10)], unit="patient", max_rows=2)
    frame = polars.DataFrame({"patient": [1] * 100 + [2], "visits": [3] * 101})
    release = m2m.sketch(frame, schema, epsilon=1000)
    # Noise of standard deviation below 0.2 is nearly always 0; 0.5 is beyond 10 of them.
    assert release.count().value == pytest.approx(3, abs=0.5)
    with pytest.raises(m2m.Error, match="a user has rows in two parts"):
        m2m.merge([m2m.sums(frame[:50], schema, design="hist"), m2m.sums(frame[50:], schema, design="hist")])


def test_schemas_in_code_are_those_of_toml() -> None:
    built = m2m.Schema(
        [
            m2m.number("gain", 0, 1e5, transform="log1p", atoms=[0]),
            m2m.integer("age", 17, 90, nullable=True),
            m2m.date("born", datetime.date(1900, 1, 1), "2020-12-31"),
            m2m.moment("seen", datetime.datetime(2020, 1, 1), "2021-01-01T00:00:00Z"),
            m2m.boolean("smoker"),
            m2m.category("education", ["a", "b"], missing=["?"]),
        ],
        unit="person",
        max_rows=4,
    )
    written = m2m.Schema.from_toml(
        """
[privacy]
unit = "person"
max_rows = 4
[[column]]
name = "gain"
type = "number"
min = 0
max = 100000
transform = "log1p"
atoms = [0]
[[column]]
name = "age"
type = "integer"
min = 17
max = 90
nullable = true
[[column]]
name = "born"
type = "date"
min = "1900-01-01"
max = "2020-12-31"
[[column]]
name = "seen"
type = "datetime"
min = "2020-01-01T00:00:00Z"
max = "2021-01-01T00:00:00Z"
[[column]]
name = "smoker"
type = "boolean"
[[column]]
name = "education"
type = "category"
levels = ["a", "b"]
missing = ["?"]
"""
    )
    assert built == written
    assert pickle.loads(pickle.dumps(built)) == built
    assert m2m.Schema.from_dict(built.to_dict()) == built
    assert len({built, written}) == 1


def test_dates_and_time_zones_are_the_same_moment() -> None:
    schema = m2m.Schema([m2m.date("day", "2020-01-01", "2029-12-31"), m2m.moment("at", "2020-01-01", "2030-01-01")])
    times = [datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.timezone.utc)] * 3
    frame = polars.DataFrame({"day": [datetime.date(2024, 5, 1)] * 3, "at": times})
    expected = m2m.sums(frame, schema, design="hist").to_bytes()
    zoned = frame.with_columns(polars.col("at").dt.convert_time_zone("America/New_York"))
    naive = frame.with_columns(polars.col("at").dt.replace_time_zone(None))
    seconds = frame.with_columns(polars.col("at").dt.cast_time_unit("ms"))
    for other in (zoned, naive, seconds, zoned.to_pandas()):
        assert m2m.sums(other, schema, design="hist").to_bytes() == expected


def test_plans_foretell_without_data(schema: m2m.Schema) -> None:
    forecast = m2m.plan(schema, 20_000, epsilon=1)
    assert 0 < forecast.errors["mean(age)"] < 5
    assert "mean(age)" in repr(forecast)
    wanted = m2m.plan(schema, 20_000, want=["mean(age) ± 1%", "rows ± 1000"])
    assert wanted.budget.startswith("ε = ")
    assert list(wanted.errors) == ["mean(age)", "rows"]
    with pytest.raises(m2m.Error, match="no question `mode`"):
        m2m.plan(schema, 20_000, want="mode(age) ± 1%")
    with pytest.raises(m2m.Error, match="leave out --epsilon"):
        m2m.plan(schema, 20_000, want="mean(age) ± 1%", epsilon=1)


def test_plans_go_by_another_release(schema: m2m.Schema, release: m2m.Release, tmp_path: Path) -> None:
    forecast = m2m.plan(like=release, epsilon=1)
    assert abs(forecast.rows - release.count().value) < 1
    assert 0 < forecast.errors["mean(age)"] < 5
    assert "drawn from the release" in repr(forecast)
    release.save(tmp_path / "last.m2m")
    assert m2m.plan(like=tmp_path / "last.m2m", epsilon=1).errors == forecast.errors
    assert m2m.plan(like=release, rows=10 * forecast.rows, epsilon=1).errors["rows"] > 0
    assert m2m.plan(like=release, want="mean(age) ± 1%").budget.startswith("ε = ")
    with pytest.raises(m2m.Error, match="leave out one"):
        m2m.plan(schema, like=release, epsilon=1)
    with pytest.raises(m2m.Error, match="a schema and a number of rows"):
        m2m.plan(schema, epsilon=1)
    with pytest.raises(m2m.Error, match="give that release"):
        m2m.plan(like=3, epsilon=1)


def test_ctrl_c_stops() -> None:
    """A signal during a sketch of many rows ends it long before its end."""
    code = """
import os, signal, threading, time, pyarrow, m2m
batch = pyarrow.record_batch({"x": pyarrow.array([0.5] * 1_000_000)})
def batches():
    while True:
        yield batch
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    m2m.sums(batches(), m2m.Schema([m2m.number("x", 0, 1)]), design="rff")
except KeyboardInterrupt:
    print("stopped", flush=True)
    os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "stopped\n", done.stderr
