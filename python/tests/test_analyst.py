"""Answers are near the truth, and are what the command line's JSON says."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy
import polars
import pytest

import m2m

#: Errors beyond this many standard errors: a chance below 1e-9 for a normal law. The model's own error is not quite
#: normal, so that there is room beyond.
FAR = 8


def near(estimate: m2m.Estimate, truth: float) -> bool:
    return abs(estimate.value - truth) <= FAR * estimate.std_error + 1e-9 * abs(truth) + 1e-9


def test_answers_are_near_the_truth(release: m2m.Release, frame: polars.DataFrame) -> None:
    women = frame.filter(polars.col("sex") == "female")
    assert near(release.count(), len(frame))
    assert near(release.count("sex = 'female'"), len(women))
    for name in ("age", "hours", "income"):
        assert near(release.mean(name), frame[name].mean())
        assert near(release.mean(name, "sex = 'female'"), women[name].mean())
        assert near(release.sum(name), frame[name].sum())
        assert near(release.std(name), frame[name].std(ddof=0))
        assert near(release.var(name), frame[name].var(ddof=0))
        low, middle, high = release.quantile(name, [0.25, 0.5, 0.75])
        assert low.value <= middle.value <= high.value
        assert abs(middle.value - frame[name].median()) <= FAR * middle.std_error + 0.02 * frame[name].max()
        at = [frame[name].quantile(q) for q in (0.1, 0.5, 0.9)]
        curve = release.cdf(name, at)
        assert all(0 <= point.value <= 1 for point in curve)
        assert [point.value for point in curve] == sorted(point.value for point in curve)
        assert near(curve[1], (frame[name] <= at[1]).mean())
    assert near(release.missing("smoker"), frame["smoker"].null_count())
    assert near(release.corr()["age", "income"], frame.select(polars.corr("age", "income")).item())
    assert near(
        release.cov(["age", "income"])["age", "income"], frame.select(polars.cov("age", "income", ddof=0)).item()
    )
    assert release.median("age") == release.quantile("age", 0.5)


def test_histograms_add_up(release: m2m.Release) -> None:
    for column, bins in (("age", 10), ("income", 7), ("sex", 20)):
        bars = release.hist(column, bins)
        assert sum(bars.counts) == pytest.approx(release._moment("present", column, None).value, rel=1e-6)
        assert min(bars.counts) >= 0
        assert column in bars._repr_html_()
        assert bars[0].label in repr(bars)


def test_estimates_are_numbers_with_errors(release: m2m.Release) -> None:
    age = release.mean("age")
    assert float(age) == age.value
    assert age.interval == (age.low, age.high)
    parts = age.parts
    squares = parts.privacy**2 + parts.count**2 + parts.sampling**2 + parts.approximation**2
    assert squares == pytest.approx(age.std_error**2)
    assert f"{age:.3f}" == f"{age.value:.3f}"
    assert "95% interval" in age._repr_html_()
    assert pickle.loads(pickle.dumps(age)) == age


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (48842.3, 12.34, "48842 ± 12"),
        (48842.3, 1234.0, "48800 ± 1200"),
        (38.6421, 0.0996, "38.64 ± 0.10"),
        (38.6421, 9.96, "39 ± 10"),
        (-0.001, 0.5, "0.00 ± 0.50"),
        (38.5, 1709.0, "40 ± 1700"),
        (0.25, 0.0, "0.25 ± 0"),
    ],
)
def test_values_have_the_digits_of_their_errors(value: float, error: float, expected: str) -> None:
    """The same numbers as the command line's own test."""
    assert str(m2m.Estimate(value, error, 0, 0, m2m.Parts(error, 0, 0, 0))) == expected


def test_answers_go_to_every_frame(release: m2m.Release) -> None:
    answer = release.sql(
        "SELECT sex, smoker, age, AVG(income) AS income FROM t WHERE age < 21 GROUP BY sex, smoker, age"
    )
    frame = answer.to_polars()
    names = ["sex", "smoker", "age", "income", "income_std_error", "income_low", "income_high"]
    assert frame.columns == answer.to_arrow().column_names == list(answer.to_pandas().columns) == names
    assert frame.schema["smoker"] == polars.Boolean
    assert frame.schema["age"] == polars.Int64
    assert len(frame) == len(answer) == len(answer.rows)
    estimates = [cell.value if isinstance(cell, m2m.Estimate) else None for cell in answer["income"]]
    assert frame["income"].to_list() == estimates
    assert "<table>" in answer._repr_html_()
    assert repr(answer).splitlines()[0].split() == ["sex", "smoker", "age", "income"]


def test_answers_are_those_of_the_command_line(release: m2m.Release) -> None:
    answer = release.sql("SELECT sex, AVG(age) FROM t GROUP BY sex").to_dict()
    assert answer["columns"] == ["sex", "AVG(age)"]
    assert set(answer["rows"][0][1]) == {"value", "std_error", "low", "high"}
    assert answer["rows"][0][1]["value"] == pytest.approx(release.mean("age", "sex = 'female'").value)


def test_dates_are_dates() -> None:
    import datetime

    schema = m2m.Schema(
        [m2m.date("day", "2020-01-01", "2020-12-31"), m2m.moment("at", "2020-01-01", "2021-01-01"), m2m.boolean("b")]
    )
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i % 366) for i in range(4000)]
    times = [datetime.datetime(2020, 3, 1) + datetime.timedelta(hours=i % 100) for i in range(4000)]
    frame = polars.DataFrame({"day": days, "at": times, "b": [True, False] * 2000})
    release = m2m.sketch(frame, schema, epsilon=10)
    middle = release.median("day")
    assert isinstance(middle.when, datetime.date)
    assert abs((middle.when - datetime.date(2020, 7, 1)).days) < 10
    assert "days" in repr(middle)
    moment = release.mean("at").when
    assert isinstance(moment, datetime.datetime)
    assert abs(moment - datetime.datetime(2020, 3, 3, 2, tzinfo=datetime.timezone.utc)) < datetime.timedelta(days=2)
    answer = release.sql("SELECT b, AVG(day) AS day, AVG(at) AS at FROM t GROUP BY b").to_polars()
    assert answer.schema["day"] == polars.Date
    assert answer.schema["day_std_error"] == polars.Float64
    assert answer.schema["at"] == polars.Datetime("ms", "UTC")
    assert release.cdf("day", "2020-07-01").value == pytest.approx(0.5, abs=0.05)
    assert release.cdf("day", datetime.date(2020, 7, 1)) == release.cdf("day", "2020-07-01")
    sample, _ = release.weighted_sample(500)
    assert sample.to_polars().schema["day"] == polars.Date


def test_releases_come_back(release: m2m.Release, tmp_path: Path) -> None:
    for name in ("a.m2m", "a.m2m.gz"):
        release.save(tmp_path / name)
        assert m2m.open(tmp_path / name) == release
    assert m2m.Release.from_dict(release.to_dict()) == release
    assert m2m.Release.from_json(release.to_json()) == release
    again = pickle.loads(pickle.dumps(release))
    assert again == release
    assert again.mean("age") == release.mean("age")
    info = release.info()
    assert info["privacy"]["budget"] == {"epsilon": 2}
    assert info["hash"] == release.hash
    assert all("sums" not in block for block in info["blocks"])


def test_old_releases_open() -> None:
    golden = Path(__file__).parents[2] / "crates/m2m/tests/golden"
    files = [path for path in golden.glob("*.json") if "custom" not in path.name]
    assert files
    for path in files:
        release = m2m.open(path)
        assert release.to_json() == path.read_text()
        assert release.count().std_error >= 0


def test_readings_differ_and_agree_where_they_should(release: m2m.Release) -> None:
    assert release.reading().mean("age") == release.mean("age")
    uniform = release.reading(prior="uniform", ridge="theorem", samples=5000)
    assert uniform == release
    assert uniform.mean("income").value != release.mean("income").value
    # Points are those of the reading, not of the usual one.
    points, _ = uniform.weighted_sample(20_000)
    assert points.to_arrow() != release.weighted_sample(20_000)[0].to_arrow()
    again, _ = release.reading(seed=5, samples=1000).weighted_sample(1000)
    assert again.to_arrow() == release.weighted_sample(1000)[0].to_arrow()


def test_weighted_samples_stand_for_the_rows(release: m2m.Release, frame: polars.DataFrame) -> None:
    sample, weights = release.weighted_sample(20_000, seed=1)
    points = sample.to_polars()
    assert points.columns == frame.columns
    assert points.schema["age"] == polars.Int64
    assert weights.min() >= 0
    assert len(points) == len(weights) <= 20_000
    assert weights.sum() == pytest.approx(release.count().value)
    # The noise may tell of a few rows without an income, although the table has none.
    known = points["income"].is_not_null().to_numpy()
    assert weights[known].sum() > 0.98 * weights.sum()
    mean = numpy.average(points["income"].to_numpy()[known], weights=weights[known])
    assert mean == pytest.approx(frame["income"].mean(), rel=0.02)
    male = (points["sex"] == "male").fill_null(False).to_numpy()
    assert weights[male].sum() / weights.sum() == pytest.approx((frame["sex"] == "male").mean(), abs=0.03)
    assert points["smoker"].null_count() > 0


@pytest.mark.filterwarnings("ignore::m2m.ReadingWarning")
def test_synthetic_rows_are_in_the_image_of_the_rows(release: m2m.Release, frame: polars.DataFrame) -> None:
    rows = release.synthesize(30_000).to_polars()
    assert rows.schema == frame.schema
    assert rows["income"].mean() == pytest.approx(frame["income"].mean(), rel=0.02)
    correlation = rows.select(polars.corr("age", "income")).item()
    assert correlation == pytest.approx(frame.select(polars.corr("age", "income")).item(), abs=0.06)
    assert release.synthesize(300, seed=4).to_arrow() == release.synthesize(300, seed=4).to_arrow()
    assert release.synthesize(200, where="sex = 'male'").to_polars()["sex"].unique().to_list() == ["male"]
    # The rows are a table like any other.
    assert m2m.sketch(rows, release.schema, epsilon=1).columns == release.columns


def test_descriptions(release: m2m.Release) -> None:
    about = release.describe()
    assert list(about) == release.columns
    assert about["age"]["mean"] == release.mean("age")
    assert set(about["sex"]) == {"count", "missing"}
    assert "age" in repr(about)
    assert "<table>" in about._repr_html_()
    assert "protecting each row" in release._repr_html_()
    assert "<td>sex</td>" in release._repr_html_()


def test_html_is_escaped() -> None:
    schema = m2m.Schema([m2m.category("<b>", ["<script>", "y"]), m2m.boolean("z")])
    frame = polars.DataFrame({"<b>": ["<script>"] * 50, "z": [True] * 50})
    release = m2m.sketch(frame, schema, epsilon=10)
    shown = release._repr_html_() + release.hist("<b>")._repr_html_() + release.describe()._repr_html_()
    shown += release.sql('SELECT "<b>", COUNT(*) FROM t GROUP BY 1')._repr_html_()
    assert "<script>" not in shown
    assert "<b>" not in shown.replace("<b>Release</b>", "")


def test_importing_is_cheap() -> None:
    """No library of frames is loaded before it is needed."""
    code = "import sys, json, m2m; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    assert not {"numpy", "pandas", "polars", "pyarrow", "sklearn", "matplotlib"} & set(loaded)


def test_threads_can_ask_at_once(release: m2m.Release) -> None:
    from concurrent.futures import ThreadPoolExecutor

    fresh = m2m.Release.from_json(release.to_json())
    with ThreadPoolExecutor(4) as pool:
        means = list(pool.map(lambda _: fresh.mean("age"), range(16)))
    assert set(means) == {release.mean("age")}
