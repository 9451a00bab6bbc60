"""Answers: a value, its error, and where the error comes from."""

from __future__ import annotations

import datetime
import html
import math
from dataclasses import dataclass
from typing import Literal

Kind = Literal["number", "date", "datetime"]

#: Value, standard error, interval, parts of the error, caution: what the native module gives.
Raw = tuple[float, float, float, float, tuple[float, float, float, float], "str | None"]


@dataclass(frozen=True)
class Parts:
    """The standard deviations of the parts of an error. Their squares add up to that of ``std_error``."""

    #: The noise on the released sums.
    privacy: float
    #: The noise on the number of rows.
    count: float
    #: The random points of the prior, where an answer needs them.
    sampling: float
    #: What the released moments do not determine.
    approximation: float


@dataclass(frozen=True)
class Estimate:
    """An answer with its error bar.

    >>> age = Estimate(38.64, 0.21, 38.23, 39.05, Parts(0.2, 0.0, 0.0, 0.06))
    >>> age
    Estimate(38.64 ± 0.21)
    >>> float(age)
    38.64
    >>> age.interval
    (38.23, 39.05)

    Dates are days, and moments seconds, from 1970-01-01; ``when`` has them as Python's own.
    """

    #: The answer.
    value: float
    #: The standard deviation of its error.
    std_error: float
    #: Lower end of the 95% interval.
    low: float
    #: Upper end of the 95% interval.
    high: float
    #: What the error is made of.
    parts: Parts
    #: Why the answer should not be leaned on, if so: ``"swamped"`` by noise, or ``"unsupported"`` by the release.
    caution: str | None = None
    #: How the number is read.
    kind: Kind = "number"

    @classmethod
    def _of(cls, raw: Raw, kind: Kind = "number") -> Estimate:
        value, std_error, low, high, parts, caution = raw
        return cls(value, std_error, low, high, Parts(*parts), caution, kind)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval."""
        return (self.low, self.high)

    @property
    def when(self) -> datetime.date | datetime.datetime:
        """The value as a date, or as a moment in UTC."""
        return _when(self.value, self.kind)

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def __str__(self) -> str:
        value, error = _shown(self)
        return f"{value} ± {error}{'*' if self.caution else ''}"

    def __repr__(self) -> str:
        return f"Estimate({self})"

    def _repr_html_(self) -> str:
        value, error = _shown(self)
        title = f"95% interval {self.low:.6g} to {self.high:.6g}"
        if self.caution:
            title += f"; {self.caution}: do not lean on it"
        return (
            f'<span title="{html.escape(title)}">{value} <small>± {error}{"*" if self.caution else ""}</small></span>'
        )


def _when(value: float, kind: Kind) -> datetime.date | datetime.datetime:
    if kind == "date":
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=round(value))
    if kind == "datetime":
        return datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(seconds=round(value))
    raise TypeError("this is a number, and no date")


def _shown(estimate: Estimate) -> tuple[str, str]:
    """A value and its error, in as many digits as the error leaves."""
    error = estimate.std_error
    if estimate.kind == "date":
        return str(_when(estimate.value, "date")), f"{_rounded(error, error)} days"
    if estimate.kind == "datetime":
        units = ((86400.0, "days"), (3600.0, "h"), (1.0, "s"))
        unit, name = next((unit for unit in units if error >= 2 * unit[0]), (1.0, "s"))
        moment = _when(estimate.value, "datetime").strftime("%Y-%m-%dT%H:%M:%SZ")
        return moment, f"{_rounded(error / unit, error / unit)} {name}"
    return _rounded(estimate.value, error), _rounded(error, error)


def _rounded(x: float, error: float) -> str:
    """A number to the second significant digit of its error."""
    if not (error > 0 and math.isfinite(error)) or not math.isfinite(x):
        return f"{x:.12g}"
    place = int(f"{error:.1e}".split("e")[1]) - 1
    if not -9 <= place <= 15 or abs(x) >= 1e18:
        return f"{x:.3e}"
    if place > 0:
        rounded = round(x, -place)
        if rounded == 0 and abs(x) >= 1:
            rounded = round(x, -math.floor(math.log10(abs(x))))
        return f"{rounded:.0f}"
    text = f"{x:.{-place}f}"
    return text.lstrip("-") if float(text) == 0 else text
