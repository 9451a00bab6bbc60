"""Whatever is wrong with the input, there is one kind of exception, and it holds no value of a cell."""

from __future__ import annotations

import datetime
import gzip
import json
import traceback
from pathlib import Path
from typing import Any

import duckdb
import hypothesis.strategies as st
import numpy
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given, settings

import m2m

SCHEMA = m2m.Schema([m2m.integer("age", 0, 100), m2m.category("sex", ["f", "m"])])
SECRET = "Zaphod"


def sketch(data: Any, schema: Any = SCHEMA, **options: Any) -> m2m.Release:
    return m2m.sketch(data, schema, **{"epsilon": 1, **options})


def good(rows: int = 3) -> polars.DataFrame:
    return polars.DataFrame({"age": [20] * rows, "sex": ["f"] * rows})


def objects(*values: Any) -> pandas.DataFrame:
    return pandas.DataFrame(
        {"age": pandas.Series(list(values), dtype=object), "sex": pandas.Series(["f"] * len(values))}
    )


TABLES: list[tuple[Any, str]] = [
    (good().drop("age"), "there is no column `age`"),
    (good().rename({"age": "AGE"}), "there is no column `age`"),
    (polars.DataFrame(), "there is no column"),
    (polars.DataFrame({"age": ["x"], "sex": ["f"]}), "column `age` has type .*, which cannot be read as integer"),
    (polars.DataFrame({"age": [[1]], "sex": ["f"]}), "column `age` has type LargeList"),
    (polars.DataFrame({"age": [1], "sex": [0.5]}), "column `sex` has type Float64, which cannot be read as category"),
    (polars.DataFrame({"age": [datetime.date(2020, 1, 1)], "sex": ["f"]}), "column `age` has type Date32"),
    (
        polars.DataFrame({"age": [object()], "sex": ["f"]}, schema_overrides={"age": polars.Object}),
        "column `age` has type FixedSizeBinary",
    ),
    (objects(1, SECRET), "cannot be handed over as Arrow"),
    (objects({"a": SECRET}, 1), "cannot be handed over as Arrow"),
    (pyarrow.table([[1], [2], ["f"]], names=["age", "age", "sex"]), "two columns `age`"),
    (numpy.zeros((3, 2)), "an array has no names of columns"),
    ({"age": [1], "sex": ["f"]}, "this is not a table"),
    ([{"age": 1, "sex": "f"}], "this is not a table"),
    ([1, 2], "this is not a table"),
    (iter([1, 2]), "not a batch of rows"),
    (iter([]), "the iterator has no batches"),
    (42, "this is not a table"),
    (None, "this is not a table"),
    (b"age,sex", "this is not a table"),
    ("nowhere.csv", "cannot read nowhere.csv"),
    ("nowhere-*.csv", "no file matches"),
    ("-", "standard input is for the command line"),
    (["a.csv", "a.csv"], "cannot read a.csv|given twice"),
]


@pytest.mark.parametrize("design", ["auto", "hist"])
@pytest.mark.parametrize(("data", "words"), TABLES, ids=[words for _, words in TABLES])
def test_tables(data: Any, words: str, design: str) -> None:
    with pytest.raises(m2m.Error, match=words) as caught:
        sketch(data, design=design)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("design", ["auto", "hist"])
def test_a_closed_iterator_and_one_that_fails(design: str) -> None:
    batches = good().to_arrow().to_batches()
    closed = (batch for batch in batches)
    closed.close()
    with pytest.raises(m2m.Error, match="the iterator has no batches"):
        sketch(closed, design=design)

    def failing() -> Any:
        yield batches[0]
        raise ValueError(SECRET)

    with pytest.raises(m2m.Error, match="what hands over the rows failed") as caught:
        sketch(failing(), design=design)
    assert SECRET not in str(caught.value)

    def failing_at_once() -> Any:
        raise ValueError(SECRET)
        yield batches[0]

    lazy = good().lazy().with_columns(age=polars.lit(SECRET).cast(polars.Int64))
    for rows in (failing_at_once(), lazy):
        with pytest.raises(m2m.Error, match="what hands over the rows failed") as caught:
            sketch(rows, design=design)
        assert SECRET not in "".join(traceback.format_exception(caught.value))

    def changing() -> Any:
        yield batches[0]
        yield batches[0].select(["sex", "age"])

    with pytest.raises(m2m.Error, match="same columns in the same order"):
        sketch(changing(), design=design)
    reader = good().to_arrow().to_reader()
    reader.read_all()
    with pytest.warns(m2m.ReadingWarning, match="no rows were read"):
        sketch(reader, design=design)
    relation = duckdb.sql(
        f"SELECT i AS age, CASE WHEN i > 5000 THEN error('{SECRET}') ELSE 'f' END AS sex FROM range(10000) t(i)"
    )
    with pytest.raises(m2m.Error, match="what hands over the rows failed") as caught:
        sketch(relation, design=design)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("design", ["auto", "hist", "rff:m=20", "race:r=5,w=5"])
def test_nothing_in_a_cell_stops_a_sketch(design: str) -> None:
    schema = m2m.Schema([m2m.number("x", 0, 1), m2m.boolean("y", nullable=True)])
    nan, infinity = float("nan"), float("inf")
    frame = polars.DataFrame({"x": [nan, infinity, -infinity, 1e308, None, -0.0], "y": [None, True, False] * 2})
    with pytest.warns(m2m.ReadingWarning):
        m2m.sketch(frame, schema, epsilon=1, design=design)
    for empty in (frame[:0], frame[:0].to_pandas(), frame[:0].to_arrow(), frame[:0].to_arrow().to_reader()):
        with pytest.warns(m2m.ReadingWarning, match="no rows were read"):
            release = m2m.sketch(empty, schema, epsilon=1, design=design)
        assert release.columns == ["x", "y"]


def test_extra_columns_are_left_behind() -> None:
    frame = good().with_columns(note=polars.Series([SECRET] * 3))
    mixed = frame.to_pandas()
    mixed["odd"] = pandas.Series([1, SECRET, None], dtype=object)
    plain = m2m.sums(good(), SCHEMA, design="hist").to_bytes()
    for data in (frame, mixed, frame.to_arrow(), iter(frame.to_arrow().to_batches())):
        assert m2m.sums(data, SCHEMA, design="hist").to_bytes() == plain


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 0}, "epsilon is 0; give a number above 0"),
    ({"epsilon": -1}, "is not a decimal"),
    ({"epsilon": float("nan")}, "is not a decimal"),
    ({"epsilon": float("inf")}, "is not a decimal"),
    ({"epsilon": "much"}, "is not a decimal"),
    ({"epsilon": None}, "no budget is given"),
    ({"epsilon": True}, "epsilon is not a number"),
    ({"epsilon": [1]}, "epsilon is not a number"),
    ({"delta": 1}, "delta is 1"),
    ({"rho": 1}, "rho is given with epsilon"),
    ({"epsilon": None, "delta": 0.1}, "delta stands alone"),
    ({"neighbours": "sideways"}, "choose add-remove or replace"),
    ({"noise": "pink"}, "choose laplace or knorm"),
    ({"noise": "knorm", "delta": 1e-6}, "--noise chooses"),
    ({"count_share": 2}, "the count's share is 2"),
    ({"design": "magic"}, "there is no map `magic`"),
    ({"design": "rff:m"}, "is not a setting"),
    ({"design": "nowhere.toml"}, "cannot read nowhere.toml"),
    ({"design": {"map": []}}, "design: "),
    ({"design": 3}, "design: this is not one"),
    ({"rows": 0}, "the number of rows"),
    ({"rows": 2.5}, "the number of rows"),
    ({"rows": 5, "design": "hist"}, "--rows is for the design auto"),
    ({"weights": {"agee": 2}}, "there is no column `agee`"),
    ({"weights": {"age": "x"}}, "is not a decimal"),
    ({"weights": {"age": 2}, "design": "hist"}, "--weight is for the design auto"),
    ({"ledger": "nowhere.toml"}, "ledger: nowhere.toml is not there"),
    ({"delimiter": ";"}, "a delimiter is for CSV files"),
    ({"schema": 5}, "schema: this is not one"),
    ({"schema": None}, "schema: this is not one"),
    ({"schema": "nowhere.toml"}, "cannot read nowhere.toml"),
    ({"schema": "[[column]]\nname = 'x'"}, "it has no type"),
    ({"schema": {"column": []}}, "schema: "),
]


@pytest.mark.parametrize(("options", "words"), OPTIONS, ids=[words for _, words in OPTIONS])
def test_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(m2m.Error, match=words):
        sketch(good(), **options)


SCHEMAS: list[tuple[Any, str]] = [
    ([], "column"),
    ([m2m.integer("a", 5, 1)], "min must be below max"),
    ([m2m.number("a", float("nan"), 1)], "schema: "),
    ([m2m.number("a", 0, 1, transform="cube")], "cube"),
    ([m2m.number("a", 0, 1, atoms=[7])], "an atom lies outside"),
    ([m2m.category("a", [])], "levels"),
    ([m2m.category("a", ["x", "x"])], "twice"),
    ([m2m.boolean("a"), m2m.boolean("a")], "twice"),
    ([m2m.date("a", "2020-13-01", "2021-01-01")], "2020-13-01"),
    ([{"name": "a"}], "it has no type"),
    ([{"name": "a", "type": "boolean", "colour": 1}], "colour"),
    ([object()], "columns are made by"),
]


@pytest.mark.parametrize(("columns", "words"), SCHEMAS, ids=[words for _, words in SCHEMAS])
def test_schemas(columns: Any, words: str) -> None:
    with pytest.raises(m2m.Error, match=words):
        m2m.Schema(columns)


def test_units() -> None:
    with pytest.raises(m2m.Error, match="needs max_rows"):
        m2m.Schema([m2m.boolean("a")], unit="person")
    with pytest.raises(m2m.Error, match="leave it out"):
        m2m.Schema([m2m.boolean("a")], max_rows=3)
    schema = m2m.Schema([m2m.boolean("a")], unit="person", max_rows=1)
    with pytest.raises(m2m.Error, match="there is no column `person`"):
        m2m.sketch(polars.DataFrame({"a": [True]}), schema, epsilon=1)
    with pytest.raises(m2m.Error, match="one text"):
        m2m.category("a", "xyz")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return sketch(good(100)).to_dict()


def test_releases(document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "a.m2m"
    release = m2m.Release.from_dict(document)
    release.save(path)
    with pytest.raises(m2m.Error, match="exists already"):
        release.save(path)
    release.save(path, force=True)
    text = path.read_bytes()
    sums = m2m.sums(good(), SCHEMA, design="hist").to_bytes()
    for wrong, words in [
        (b"", "not a release"),
        (b"{}", "not a release"),
        (b"age,sex\n1,f\n", "not a release"),
        (text[: len(text) // 2], "damaged or cut off"),
        (gzip.compress(text)[:50], "gzip data is damaged"),
        (text.replace(b'"version":1', b'"version":99'), "format version 99"),
        (text.replace(b'"epsilon":1', b'"epsilon":2'), "not what its hash says|damaged"),
        (sums, "a file of secret sums"),
        (bytes(range(256)), "not a release"),
    ]:
        path.write_bytes(wrong)
        with pytest.raises(m2m.Error, match=words):
            m2m.open(path)
    with pytest.raises(m2m.Error, match="cannot read"):
        m2m.open(tmp_path / "nowhere.m2m")
    changed = json.loads(json.dumps(document))
    changed["count"]["value"] += 1
    with pytest.raises(m2m.Error, match="not what its hash says"):
        m2m.Release.from_dict(changed)


@settings(max_examples=200, deadline=None)
@given(place=st.integers(0, 10**9), byte=st.integers(0, 255))
def test_no_damage_to_a_release_panics(place: int, byte: int) -> None:
    text = bytearray(_text())
    text[place % len(text)] = byte
    try:
        opened = m2m.Release.from_json(bytes(text))
    except m2m.Error:
        return
    assert opened.to_json().encode() == _text()


_kept: list[bytes] = []


def _text() -> bytes:
    if not _kept:
        _kept.append(sketch(good(50), design="hist:bins=4").to_json().encode())
    return _kept[0]


QUESTIONS: list[tuple[Any, str]] = [
    (lambda r: r.sql("SELECT"), "expected"),
    (lambda r: r.sql("SELECT agee FROM t"), "agee"),
    (lambda r: r.sql("SELECT age FROM t"), "."),
    (lambda r: r.sql("DROP TABLE t"), "."),
    (lambda r: r.mean("agee"), "did you mean `age`"),
    (lambda r: r.mean("sex"), "a number is needed"),
    (lambda r: r.mean("age", where="sex = 'x'"), "no level `x`"),
    (lambda r: r.mean("age", where="age +"), "expected"),
    (lambda r: r.quantile("age", 2), "a quantile of 2"),
    (lambda r: r.hist("age", 0), "0 bins"),
    (lambda r: r.cdf("age", "yesterday"), "not an ISO date"),
    (lambda r: r.corr(["age", "age"]), "named twice"),
    (lambda r: r.density(["age", "sex"], [(1, 1)]), "holds no numbers|a number is needed"),
    (lambda r: r.density("age", [1], bandwidth=-1), "bandwidth"),
    (lambda r: r.reading(prior="mine"), "there is no prior"),
    (lambda r: r.reading(prior="sample"), "give one"),
    (lambda r: r.reading(ridge="mine"), "there is no rule"),
    (lambda r: r.weighted_sample(3), "--samples is 3"),
    (lambda r: r.synthesize(0), "the number of rows"),
    (lambda r: r.synthesize(10**9), "-n is 1000000000"),
    (lambda r: r.sql("SELECT COUNT(*) FROM t")["x"], "there is no column `x`"),
    (lambda r: r.sql("SELECT sex, COUNT(*) FROM t GROUP BY sex").item(), "ask for one number"),
]


@pytest.mark.parametrize(("question", "words"), QUESTIONS, ids=range(len(QUESTIONS)))
def test_questions(question: Any, words: str, document: dict[str, Any]) -> None:
    with pytest.raises(m2m.Error, match=words):
        question(m2m.Release.from_dict(document))


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_no_query_panics(query: str) -> None:
    release = m2m.Release.from_json(_text())
    for text in (query, f"SELECT {query} FROM t", f"SELECT COUNT(*) FROM t WHERE {query}"):
        try:
            said = repr(release.sql(text))
        except m2m.Error as error:
            said = str(error)
        assert "something went wrong within m2m" not in said
