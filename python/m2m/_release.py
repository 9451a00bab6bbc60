"""A release and questions to it."""

from __future__ import annotations

import datetime
import html
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

from . import _native as native
from ._data import source
from ._estimate import Estimate, Kind
from ._native import Error
from ._schema import Schema
from ._table import Frame, Matrix, Table, _needs

if TYPE_CHECKING:
    import numpy
    import numpy.typing

    from .plot import Plotter

At = float | str | datetime.date


class Release:
    """One differentially private release. Everything in it is public, and questions cost nothing.

    >>> release
    Release(ε = 2, about ... rows: age, sex, hours, income, smoker)
    >>> release.mean("age")
    Estimate(... ± ...)
    >>> release.sql("SELECT sex, AVG(age) FROM people GROUP BY sex")["sex"][:2]
    ['female', 'male']

    Every ``where`` is a condition as in SQL, such as ``"age >= 40 AND sex = 'female'"``.
    """

    _native: native.Release
    _schema: Schema
    #: The random points that it is read with; none where their seed is not 0.
    _samples: int | None = 100_000

    def __init__(self) -> None:
        raise Error("release: make one with m2m.sketch, or open one with m2m.open")

    @classmethod
    def _of(cls, found: native.Release) -> Release:
        release = cls.__new__(cls)
        release._native = found
        release._schema = Schema._of(found.schema())
        return release

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Release:
        """Opens a release file."""
        return cls._of(native.Release.open(os.fspath(path)))

    @classmethod
    def from_json(cls, text: str | bytes) -> Release:
        """Reads the JSON document."""
        return cls._of(native.Release.from_bytes(text.encode() if isinstance(text, str) else text))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Release:
        """The opposite of :meth:`to_dict`. A document that was changed is refused.

        >>> Release.from_dict(release.to_dict()) == release
        True
        """
        return cls.from_json(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the release; gzipped when the name ends in ``.gz``."""
        self._native.save(os.fspath(path), force)

    def to_json(self) -> str:
        """The JSON document."""
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        """The JSON document as plain objects."""
        return dict(json.loads(self.to_json()))

    @property
    def schema(self) -> Schema:
        """What is public about the table."""
        return self._schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._schema.columns

    @property
    def hash(self) -> str:
        """The SHA-256 of the document, as it states it."""
        return self._native.hash()

    def info(self) -> dict[str, Any]:
        """What the release promises and how it was made: privacy, count, schema, noise."""
        return dict(json.loads(self._native.info()))

    def reading(
        self,
        *,
        prior: str = "learned",
        table: Any = None,
        ridge: str = "evidence",
        factor: float = 1.0,
        centred: bool = True,
        samples: int = 100_000,
        seed: int = 0,
    ) -> Release:
        """The same release, read in another way.

        :param prior: against which distribution: ``"learned"`` from the release itself, ``"uniform"``, or the
            ``"marginals"`` or rows (``"sample"``) of a public ``table``
        :param ridge: the rule for λ: ``"evidence"``, ``"theorem"`` or ``"paper"``, the last two times a ``factor``
        :param centred: whether answers fall back to the prior's, and not to zero, where the noise is large
        :param samples: random points that stand for the prior where there is no closed form

        Pickling keeps the release, and not the way in which it is read.
        """
        public = None if table is None else source(table, self.columns)
        release = Release._of(self._native.read_by(prior, public, ridge, float(factor), centred, samples, seed))
        # Points of a seed are drawn anew where points of seed 0 are asked for.
        release._samples = samples if seed == 0 else None
        return release

    def sql(self, query: str) -> Table:
        """Answers one SELECT, with an error beside every number.

        >>> answer = release.sql("SELECT sex, COUNT(*) AS n FROM people WHERE age >= 40 GROUP BY sex")
        >>> answer.to_polars().columns
        ['sex', 'n', 'n_std_error', 'n_low', 'n_high']
        """
        return Table(self._native.sql(query))

    def count(self, where: str | None = None) -> Estimate:
        """How many rows there are, or how many meet a condition."""
        return Estimate._of(self._native.count(where))

    def mean(self, column: str, where: str | None = None) -> Estimate:
        """The mean over the rows that have a value."""
        return self._moment("mean", column, where, self._kind(column))

    def sum(self, column: str, where: str | None = None) -> Estimate:
        """The sum over the rows that have a value."""
        return self._moment("sum", column, where)

    def var(self, column: str, where: str | None = None) -> Estimate:
        """The variance over the rows, dividing by their number."""
        return self._moment("variance", column, where)

    def std(self, column: str, where: str | None = None) -> Estimate:
        """The standard deviation over the rows."""
        return self._moment("std", column, where)

    def skewness(self, column: str, where: str | None = None) -> Estimate:
        """The skewness over the rows."""
        return self._moment("skewness", column, where)

    def missing(self, column: str, where: str | None = None) -> Estimate:
        """How many rows have no value."""
        return self._moment("missing", column, where)

    def median(self, column: str, where: str | None = None) -> Estimate:
        """The median."""
        return self.quantile(column, 0.5, where)

    @overload
    def quantile(self, column: str, q: float, where: str | None = None) -> Estimate: ...

    @overload
    def quantile(self, column: str, q: Sequence[float], where: str | None = None) -> list[Estimate]: ...

    def quantile(self, column: str, q: float | Sequence[float], where: str | None = None) -> Estimate | list[Estimate]:
        """The value below which a part ``q`` of the rows lie, or a list of them.

        >>> low, high = release.quantile("age", [0.25, 0.75])
        >>> low.value <= high.value
        True
        """
        parts = [float(q)] if isinstance(q, int | float) else [float(part) for part in q]
        kind = self._kind(column)
        found = [Estimate._of(raw, kind) for raw in self._native.quantiles(column, parts, where)]
        return found[0] if isinstance(q, int | float) else found

    @overload
    def cdf(self, column: str, at: At, where: str | None = None) -> Estimate: ...  # type: ignore[overload-overlap]

    @overload
    def cdf(self, column: str, at: Sequence[At], where: str | None = None) -> list[Estimate]: ...

    def cdf(self, column: str, at: At | Sequence[At], where: str | None = None) -> Estimate | list[Estimate]:
        """The part of the rows with a value that are at most ``at``: between 0 and 1, and not decreasing."""
        one = isinstance(at, int | float | str | datetime.date)
        points = [cast("At", at)] if one else list(cast("Sequence[At]", at))
        found = [Estimate._of(raw) for raw in self._native.cdf(column, [_place(x) for x in points], where)]
        return found[0] if one else found

    def hist(self, column: str, bins: int = 20, where: str | None = None) -> Histogram:
        """How many rows fall into each of some equally wide intervals, or have each level.

        >>> [bar.label for bar in release.hist("sex")]
        ['female', 'male']
        """
        bars = self._native.histogram(column, bins, where)
        return Histogram(
            column, self._kind(column), [Bar(label, bounds, Estimate._of(raw)) for label, bounds, raw in bars]
        )

    def cov(self, columns: Sequence[str] | None = None, where: str | None = None) -> Matrix:
        """The covariance matrix of numeric columns, positive semi-definite."""
        return self._matrix(columns, False, where)

    def corr(self, columns: Sequence[str] | None = None, where: str | None = None) -> Matrix:
        """The correlation matrix of numeric columns, positive semi-definite with ones on the diagonal."""
        return self._matrix(columns, True, where)

    def density(
        self,
        columns: str | Sequence[str],
        at: Sequence[float] | Sequence[Sequence[float]],
        *,
        bandwidth: float | Sequence[float] | None = None,
        where: str | None = None,
    ) -> list[Estimate]:
        """The density at points: the mean of a Gaussian kernel, per unit of each column.

        >>> len(release.density("age", [30, 40, 50]))
        3

        :param at: a number for each point, or with several columns a number for each of them
        :param bandwidth: the width of the kernel; from the estimated spread (Scott's rule) unless given
        """
        names = [columns] if isinstance(columns, str) else list(columns)
        points = [[float(x)] if isinstance(x, int | float) else [float(y) for y in x] for x in at]
        widths = self._bandwidth(names, where) if bandwidth is None else _numbers(bandwidth)
        return [Estimate._of(raw) for raw in self._native.density(names, points, widths, where)]

    def describe(self, columns: Sequence[str] | None = None, where: str | None = None) -> Description:
        """Every column at a glance.

        >>> release.describe(["sex"])["sex"]["count"]
        Estimate(... ± ...)
        """
        found: dict[str, dict[str, Estimate]] = {}
        for name in self.columns if columns is None else columns:
            kind = self._schema._kind(name)
            found[name] = {
                "count": self._moment("present", name, where),
                "missing": self._moment("missing", name, where),
            }
            if kind not in ("boolean", "category"):
                found[name]["mean"] = self.mean(name, where)
                found[name]["std"] = self.std(name, where)
                quartiles = self.quantile(name, [0.25, 0.5, 0.75], where)
                found[name].update(zip(("25%", "50%", "75%"), quartiles, strict=True))
        return Description(self.count(where), found)

    def weighted_sample(
        self, n: int = 100_000, *, where: str | None = None, seed: int = 0
    ) -> tuple[Frame, numpy.typing.NDArray[numpy.float64]]:
        """Up to ``n`` random points, and how many rows of the table each stands for: for every estimator that takes
        ``sample_weight``.

        No weight is negative, and points without weight are left out. They say more than as many synthetic rows.

        >>> x, w = release.weighted_sample(1000)
        >>> x.columns == release.columns, len(x) == len(w) <= 1000
        (True, True)
        """
        numpy = _needs("numpy", "sklearn")
        points, weights = self._drawn(n, seed).weighted_sample(where)
        return Frame(points), numpy.frombuffer(weights, dtype=float)

    def synthesize(self, n: int = 10_000, *, where: str | None = None, seed: int = 0) -> Frame:
        """Synthetic rows, all of the same weight. None is anybody's, and drawing them costs no privacy.

        >>> release.synthesize(500, where="age >= 65").to_polars().shape
        (500, 5)
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise Error("the number of rows is not a whole number above 0; give how many there are to be")
        return Frame(self._drawn(None, seed).synthesize(n, where, seed))

    def _drawn(self, samples: int | None, seed: int) -> native.Release:
        """Read in the same way, with so many random points."""
        if seed == 0 and self._samples is not None and samples in (None, self._samples):
            return self._native
        return self._native.drawn(samples or self._samples or 100_000, seed)

    @property
    def plot(self) -> Plotter:
        """Pictures with error bands; see :class:`m2m.plot.Plotter`."""
        from .plot import Plotter

        return Plotter(self)

    def _kind(self, column: str) -> Kind:
        kind = self._schema._kind(column)
        return cast("Kind", kind) if kind in ("date", "datetime") else "number"

    def _moment(self, what: str, column: str, where: str | None, kind: Kind = "number") -> Estimate:
        return Estimate._of(self._native.moment(what, column, where), kind)

    def _numeric(self) -> list[str]:
        return [name for name in self.columns if self._schema._kind(name) not in ("boolean", "category")]

    def _matrix(self, columns: Sequence[str] | None, correlation: bool, where: str | None) -> Matrix:
        names = self._numeric() if columns is None else list(columns)
        found, entries = self._native.matrix(names, correlation, where)
        return Matrix(found, [[Estimate._of(raw) for raw in row] for row in entries])

    def _bandwidth(self, columns: Sequence[str], where: str | None) -> list[float]:
        """Scott's rule: the spread times n to the power of -1/(d + 4)."""
        power = max(self.count(where).value, 2.0) ** (-1.0 / (len(columns) + 4))
        return [power * max(self.std(name, where).value, 1e-3 * self._width(name)) for name in columns]

    def _bounds(self, column: str) -> tuple[float, float]:
        spec = next((c for c in self._schema.to_dict()["column"] if c["name"] == column), None)
        if spec is None or "min" not in spec:
            raise Error(f"`{column}` holds no numbers; name numeric columns")
        return _place(spec["min"]), _place(spec["max"])

    def _width(self, column: str) -> float:
        low, high = self._bounds(column)
        return high - low

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __getstate__(self) -> bytes:
        return self.to_json().encode()

    def __setstate__(self, document: bytes) -> None:
        self._native = native.Release.from_bytes(document)
        self._schema = Schema._of(self._native.schema())

    def __repr__(self) -> str:
        count = self.info()["count"]
        about = "about " if count["noise"] else ""
        return f"Release({self._native.budget()}, {about}{count['value']} rows: {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        info = self.info()
        count = info["count"]
        noisy = f" <small>± {count['noise_std']:.1f}</small>" if count["noise"] else " <small>(public)</small>"
        columns = "".join(
            f"<tr><td>{html.escape(c['name'])}</td><td>{c['type']}</td><td>{html.escape(_domain(c))}</td></tr>"
            for c in info["schema"]["column"]
        )
        blocks = "".join(
            f"<li>{html.escape(block['map']['kind'])}: {block['features']} sums, noise of standard deviation "
            f"{block['noise_std']:.1f} rows</li>"
            for block in info["blocks"]
        )
        return (
            f"<p><b>Release</b>, {html.escape(self._native.budget())}, protecting each "
            f"{html.escape(info['privacy']['unit'])}; {count['value']}{noisy} rows</p>"
            f"<table><thead><tr><th>column</th><th>type</th><th>domain</th></tr></thead><tbody>{columns}</tbody></table>"
            f"<ul>{blocks}</ul>"
        )


def open(path: str | os.PathLike[str]) -> Release:
    """Opens a release file."""
    return Release.open(path)


class Bar:
    """One bar of a histogram."""

    def __init__(self, label: str, bounds: tuple[float, float] | None, count: Estimate) -> None:
        #: What is counted, in words: a level, or an interval.
        self.label = label
        #: For numbers, where it begins and ends.
        self.bounds = bounds
        #: How many rows.
        self.count = count

    def __repr__(self) -> str:
        return f"Bar({self.label}: {self.count})"


class Histogram(list[Bar]):
    """The bars of a histogram. Counts are not negative and add up to the rows that have a value."""

    def __init__(self, column: str, kind: Kind, bars: Sequence[Bar]) -> None:
        super().__init__(bars)
        #: The column.
        self.column = column
        #: How its numbers are read.
        self.kind = kind

    @property
    def counts(self) -> list[float]:
        """The values of the counts."""
        return [bar.count.value for bar in self]

    def __repr__(self) -> str:
        most = max([*self.counts, 1e-300])
        left = max((len(bar.label) for bar in self), default=0)
        right = max((len(str(bar.count)) for bar in self), default=0)
        return "\n".join(
            f"{bar.label:<{left}}  {bar.count!s:>{right}}  {'█' * round(24 * bar.count.value / most)}".rstrip()
            for bar in self
        )

    def _repr_html_(self) -> str:
        most = max([*self.counts, 1e-300])
        rows = "".join(
            f"<tr><td>{html.escape(bar.label)}</td><td>{bar.count._repr_html_()}</td>"
            f'<td><meter value="{bar.count.value / most:.3f}"></meter></td></tr>'
            for bar in self
        )
        head = f"<tr><th>{html.escape(self.column)}</th><th>rows</th><th></th></tr>"
        return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


class Description(Mapping[str, Mapping[str, Estimate]]):
    """Estimates about each column, by name."""

    def __init__(self, rows: Estimate, columns: dict[str, dict[str, Estimate]]) -> None:
        #: How many rows there are.
        self.rows = rows
        self._columns = columns

    def __getitem__(self, name: str) -> Mapping[str, Estimate]:
        return self._columns[name]

    def __iter__(self) -> Any:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        lines = [f"{self.rows} rows"]
        left = max(map(len, self._columns), default=0)
        for name, about in self._columns.items():
            lines.append(f"{name:<{left}}  " + "  ".join(f"{label} {estimate}" for label, estimate in about.items()))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        labels = ["count", "missing", "mean", "std", "25%", "50%", "75%"]
        head = "".join(f"<th>{label}</th>" for label in ["", *labels])
        body = ""
        for name, about in self._columns.items():
            cells = (about[label]._repr_html_() if label in about else "" for label in labels)
            body += f"<tr><th>{html.escape(name)}</th>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _domain(column: Mapping[str, Any]) -> str:
    if "levels" in column:
        shown = ", ".join(column["levels"][:6])
        return shown + (", …" if len(column["levels"]) > 6 else "")
    return f"{column['min']} to {column['max']}" if "min" in column else ""


def _place(x: At) -> float:
    """A value of a numeric column as a number: dates in days and moments in seconds from 1970-01-01."""
    if isinstance(x, str):
        try:
            parsed = datetime.datetime.fromisoformat(x.replace("Z", "+00:00"))
        except ValueError:
            raise Error(f"`{x}` is not an ISO date, such as 2020-01-31 or 2020-01-31T12:00:00Z") from None
        x = parsed if "T" in x or " " in x else parsed.date()
    if isinstance(x, datetime.datetime):
        return (x if x.tzinfo else x.replace(tzinfo=datetime.timezone.utc)).timestamp()
    if isinstance(x, datetime.date):
        return float((x - datetime.date(1970, 1, 1)).days)
    return float(x)


def _numbers(x: float | Sequence[float]) -> list[float]:
    return [float(x)] if isinstance(x, int | float) else [float(y) for y in x]
