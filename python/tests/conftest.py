"""Invented people, and a release of them."""

from __future__ import annotations

import os

import matplotlib
import numpy
import polars
import pytest

import m2m

matplotlib.use("agg")
# Threads of boosting that wait for each other are slow where others use the machine too.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SCHEMA = m2m.Schema(
    [
        m2m.integer("age", 18, 90),
        m2m.category("sex", ["female", "male"]),
        m2m.integer("hours", 0, 80, atoms=[0]),
        m2m.number("income", 0, 200_000),
        m2m.boolean("smoker", nullable=True),
    ]
)


def people(rows: int = 20_000, seed: int = 0) -> polars.DataFrame:
    """Rows in which columns depend on each other."""
    random = numpy.random.default_rng(seed)
    age = random.integers(18, 91, rows)
    male = random.random(rows) < 0.5
    hours = numpy.where(random.random(rows) < 0.2, 0, numpy.clip(random.normal(38, 8, rows), 1, 80)).astype(int)
    income = numpy.clip(8000 + 500 * age + 600 * hours + random.normal(0, 9000, rows), 0, 200_000)
    smoker = random.random(rows) < 1 / (1 + numpy.exp(-(1.5 - 0.05 * age + 0.8 * male)))
    return polars.DataFrame(
        {
            "age": age,
            "sex": numpy.where(male, "male", "female"),
            "hours": hours,
            "income": income,
            "smoker": polars.Series(smoker).set(polars.Series(random.random(rows) < 0.05), None),
        }
    )


@pytest.fixture(scope="session")
def frame() -> polars.DataFrame:
    return people()


@pytest.fixture(scope="session")
def schema() -> m2m.Schema:
    return SCHEMA


@pytest.fixture(scope="session")
def release(frame: polars.DataFrame) -> m2m.Release:
    return m2m.sketch(frame, SCHEMA, epsilon=2)
