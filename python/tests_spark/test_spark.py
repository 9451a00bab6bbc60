"""Spark on a cluster of processes: the sums are those of one machine, whatever happens on the way.

Run by ``cargo xtask test-spark``: it needs Java 17 and downloads Spark.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import m2m
import m2m.spark

SCHEMA = m2m.Schema([m2m.integer("age", 18, 90), m2m.category("sex", ["f", "m"]), m2m.number("income", 0, 2e5)])
DESIGN = "rff:m=40"


def people(rows: int = 20_000) -> pandas.DataFrame:
    random = numpy.random.default_rng(0)
    age = random.integers(18, 91, rows)
    return pandas.DataFrame(
        {
            "person": random.integers(0, rows // 5, rows),
            "age": age,
            "sex": random.choice(["f", "m"], rows),
            "income": 1000.0 * age + random.normal(0, 5000, rows),
        }
    )


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ.update(
        SPARK_WORKER_DIR=str(tmp_path_factory.mktemp("workers")),
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
    )
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.speculation", "true")
        .config("spark.sql.shuffle.partitions", "6")
        .config("spark.local.dir", str(tmp_path_factory.mktemp("local")))
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def table() -> pandas.DataFrame:
    return people()


@pytest.fixture(scope="session")
def expected(table: pandas.DataFrame) -> bytes:
    return m2m.sums(table, SCHEMA, design=DESIGN).to_bytes()


@pytest.mark.parametrize("partitions", [1, 7, 40])
def test_partitions_change_nothing(
    partitions: int, spark: SparkSession, table: pandas.DataFrame, expected: bytes
) -> None:
    frame = spark.createDataFrame(table).repartition(partitions)
    assert m2m.spark.sums(frame, SCHEMA, design=DESIGN).to_bytes() == expected


def test_a_killed_executor_changes_nothing(
    spark: SparkSession, table: pandas.DataFrame, expected: bytes, tmp_path: Path
) -> None:
    marker = tmp_path / "killed"

    def fatal(batches: Iterator[Any]) -> Iterator[Any]:
        """The first task to come here gives some rows and then kills its executor."""
        for batch in batches:
            yield batch
            try:
                marker.touch(exist_ok=False)
            except FileExistsError:
                continue
            # This worker was forked by Spark's daemon, which the executor's virtual machine started.
            daemon = os.getppid()
            machine = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
            marker.write_text(str(machine))
            os.kill(machine, signal.SIGKILL)

    frame = spark.createDataFrame(table).repartition(12)
    frame = frame.mapInArrow(fatal, frame.schema)
    assert m2m.spark.sums(frame, SCHEMA, design=DESIGN).to_bytes() == expected
    machine = int(marker.read_text())
    assert not Path(f"/proc/{machine}").exists() or "Z" in Path(f"/proc/{machine}/stat").read_text()


def test_users_are_bounded_over_all_partitions(spark: SparkSession, table: pandas.DataFrame) -> None:
    schema = m2m.Schema([m2m.integer("age", 18, 90), m2m.number("income", 0, 2e5)], unit="person", max_rows=2)
    frame = spark.createDataFrame(table).repartition(9)
    expected = m2m.sums(table, schema, design="hist").to_bytes()
    assert m2m.spark.sums(frame, schema, design="hist").to_bytes() == expected


def test_both_rounds_make_a_release(spark: SparkSession, table: pandas.DataFrame, tmp_path: Path) -> None:
    ledger = m2m.Ledger.new(tmp_path / "budget.toml", epsilon=3)
    release = m2m.spark.sketch(spark.createDataFrame(table), SCHEMA, epsilon=2, ledger=ledger)
    assert {block["map"]["kind"] for block in release.info()["blocks"]} - {"values"} == {"hist", "merged", "signs"}
    assert [entry["what"] for entry in ledger.spent] == ["m2m.spark.sketch"]
    mean = release.mean("income")
    # Beyond 8 standard errors with a chance below 1e-9.
    assert abs(mean.value - table["income"].mean()) < 8 * mean.std_error
    with pytest.raises(m2m.Error, match="too little"):
        m2m.spark.sketch(spark.createDataFrame(table), SCHEMA, epsilon=2, ledger=ledger)
    one = m2m.spark.sketch(spark.createDataFrame(table), SCHEMA, epsilon=1, design="hist", ledger=ledger)
    assert one.columns == SCHEMA.columns


def test_mistakes(spark: SparkSession, table: pandas.DataFrame) -> None:
    frame = spark.createDataFrame(table)
    with pytest.raises(m2m.Error, match="there is no column `income`"):
        m2m.spark.sums(frame.drop("income"), SCHEMA, design="hist")
    with pytest.raises(m2m.Error, match=r"column `age` has type .*, which cannot be read as integer"):
        m2m.spark.sums(frame.withColumn("age", F.lit("old")), SCHEMA, design="hist")
    with pytest.raises(m2m.Error, match="two rounds"):
        m2m.spark.sums(frame, SCHEMA, design="auto")
    with pytest.raises(m2m.Error, match="no budget is given"):
        m2m.spark.sketch(frame, SCHEMA)
    empty = m2m.spark.sums(frame.limit(0), SCHEMA, design=DESIGN).to_bytes()
    with pytest.warns(m2m.ReadingWarning):
        assert empty == m2m.sums(table[:0], SCHEMA, design=DESIGN).to_bytes()
