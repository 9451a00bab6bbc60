"""One differentially private release of a table, published once and questioned forever.

A curator describes what is public about a sensitive table, spends a privacy budget once and publishes one file:

    release = m2m.sketch(frame, schema="people.toml", epsilon=1)
    release.save("people.m2m")

Analysts ask it whatever they like, as often as they like, and never touch the data:

    release = m2m.open("people.m2m")
    release.sql("SELECT sex, AVG(age) FROM people GROUP BY sex")
    release.mean("age")
    m2m.LogisticRegression(target="smoker").fit(release)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._curator import (
    FirstRound,
    Forecast,
    Ledger,
    ReadingWarning,
    SecondRound,
    Sums,
    merge,
    plan,
    sketch,
    sums,
)
from ._estimate import Estimate, Parts
from ._native import Error
from ._native import version as __version__
from ._release import Bar, Description, Histogram, Release, open
from ._schema import Schema, boolean, category, date, integer, moment, number
from ._table import Frame, Matrix, Table

if TYPE_CHECKING:
    from .learn import (
        PCA,
        GaussianMixture,
        KMeans,
        LinearRegression,
        LinearSVC,
        LogisticRegression,
        PoissonRegressor,
        Ridge,
    )

#: What needs numpy and scikit-learn, and is loaded when it is asked for.
_LEARN = (
    "PCA",
    "GaussianMixture",
    "KMeans",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "PoissonRegressor",
    "Ridge",
)

__all__ = [
    "PCA",
    "Bar",
    "Description",
    "Error",
    "Estimate",
    "FirstRound",
    "Forecast",
    "Frame",
    "GaussianMixture",
    "Histogram",
    "KMeans",
    "Ledger",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "Matrix",
    "Parts",
    "PoissonRegressor",
    "ReadingWarning",
    "Release",
    "Ridge",
    "Schema",
    "SecondRound",
    "Sums",
    "Table",
    "__version__",
    "boolean",
    "category",
    "date",
    "integer",
    "merge",
    "moment",
    "number",
    "open",
    "plan",
    "sketch",
    "sums",
]


def __getattr__(name: str) -> Any:
    if name in _LEARN:
        from . import learn

        return getattr(learn, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
