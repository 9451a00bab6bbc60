"""The package on Spark in figures: two executors beside one machine and beside a plain average.

Run by `cargo xtask bench spark`, which hands over the release build.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import m2m
import m2m.spark

COLUMNS = 10


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--work", type=lambda path: Path(path).resolve(), required=True)
    options.add_argument("--rows", type=int, default=10_000_000)
    given = options.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    os.environ.update(
        SPARK_WORKER_DIR=str(given.work / "workers"), PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1"
    )
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.local.dir", str(given.work / "local"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    table = given.work / "spark.parquet"
    columns = [F.rand(seed).alias(f"c{seed}") for seed in range(COLUMNS)]
    spark.range(given.rows).repartition(16).select(*columns).write.mode("overwrite").parquet(str(table))
    frame = spark.read.parquet(str(table))
    files = sorted(table.glob("*.parquet"))
    schema = m2m.Schema([m2m.number(f"c{i}", 0, 1) for i in range(COLUMNS)])
    marker = given.work / "killed"
    marker.unlink(missing_ok=True)

    def fatal(batches: Iterator[Any]) -> Iterator[Any]:
        """The first task to come here gives some rows and then kills its executor."""
        for batch in batches:
            yield batch
            try:
                marker.touch(exist_ok=False)
            except FileExistsError:
                continue
            daemon = os.getppid()
            os.kill(int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)

    def timed(name: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        found = work()
        print(f"  {name:<44} {time.perf_counter() - start:7.1f} s", flush=True)
        return found

    print(f"{given.rows:.0e} rows x {COLUMNS} in {len(files)} Parquet files, two executors of one core:")
    timed("df.agg(avg(…)), with Spark's warm-up", lambda: frame.agg(*(F.avg(name) for name in frame.columns)).collect())
    timed("df.agg(avg(…))", lambda: frame.agg(*(F.avg(name) for name in frame.columns)).collect())
    for design in ("hist", "rff:m=200,sigma=1"):
        one = timed(
            f"m2m.sums, one machine, {design}", lambda design=design: m2m.sums(files, schema, design=design)
        ).to_bytes()
        many = timed(
            f"m2m.spark.sums, {design}", lambda design=design: m2m.spark.sums(frame, schema, design=design)
        ).to_bytes()
        assert one == many, "sums on Spark differ from those of one machine"
    killed = frame.mapInArrow(fatal, frame.schema)
    again = timed(
        "m2m.spark.sums, an executor killed", lambda: m2m.spark.sums(killed, schema, design=design)
    ).to_bytes()
    assert marker.exists(), "no executor was killed"
    assert again == one, "sums after a killed executor differ"
    timed("m2m.spark.sketch, both rounds of auto", lambda: m2m.spark.sketch(frame, schema, epsilon=1))
    print("  all sums are equal to the last bit")
    spark.stop()


if __name__ == "__main__":
    main()
