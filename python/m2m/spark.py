"""Releases of Spark's data frames: partial sums on the executors, noise on the driver.

Each partition is added up where it is, by ``mapInArrow``, and gives one exact partial sum. These merge exactly, so
partitioning, order, retries and speculative execution change nothing: the sums are those of one machine, bit for bit.
Noise is drawn and added once, on the driver, after the merge.

The partial sums are secret. They go from executors to the driver through Spark itself: run it where the data may be.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._curator import (
    Ledger,
    Number,
    SchemaLike,
    Sums,
    _account,
    _debited,
    _design,
    _for_auto_alone,
    _privacy,
    _rows,
    _weights,
    merge,
)
from ._curator import sums as _sums
from ._native import Error, FirstRound, OneRound, ledger_check
from ._release import Release
from ._schema import Schema, schema_of

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

#: How many tasks merge partial sums, and so how many the driver is left to merge.
_MERGERS = 8


def sketch(
    frame: DataFrame,
    schema: SchemaLike,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    rows: int | None = None,
    weights: Mapping[str | tuple[str, ...], Number] | None = None,
    design: str | os.PathLike[str] | Mapping[str, Any] = "auto",
    ledger: Ledger | str | os.PathLike[str] | None = None,
    what: str = "m2m.spark.sketch",
    neighbours: str = "add-remove",
    count_share: Number | None = None,
    noise: str | None = None,
) -> Release:
    """Turns a data frame of Spark into one release; see :func:`m2m.sketch` for the options.

    The design ``"auto"`` reads the frame twice. Where it is costly to compute, ``cache()`` it before; where it is not
    the same each time that it is computed, write it down before.

    Where the schema protects the rows of a person together, rows are shuffled by that column first, so that each
    person's are in one partition.
    """
    schema = schema_of(schema)
    privacy = _privacy(epsilon, delta, rho, neighbours, count_share, noise)
    design = _design(design)
    account = _account(ledger, what)
    if account:
        ledger_check(account[0], schema._native, privacy)
    if design != "auto" or len(schema.columns) == 1:
        if rows is not None or weights:
            raise _for_auto_alone(rows)
        one = OneRound(schema._native, "hist" if design == "auto" else design, privacy)
        return Release._of(one.privatise(sums(frame, schema, design=one.design())._native, account))
    first = FirstRound(schema._native, privacy, _rows(rows), _weights(weights))
    second = first.privatise(sums(frame, schema, design=first.design())._native, account)
    with _debited(account):
        tables = sums(frame, schema, design=second.design())
    return Release._of(second.privatise(tables._native, None))


def sums(frame: DataFrame, schema: SchemaLike, *, design: str | os.PathLike[str] | Mapping[str, Any]) -> Sums:
    """The exact sums of a data frame. Secret; see :class:`m2m.Sums`.

    :param design: fixed maps, or the ``design`` of a round
    """
    schema = schema_of(schema)
    text = _design(design)
    if text == "auto":
        raise Error("the design auto works in two rounds; use m2m.spark.sketch, or the design of m2m.FirstRound")
    needed = schema._needed()
    absent = [name for name in needed if name not in frame.columns]
    if absent:
        raise Error(
            f"Spark: there is no column `{absent[0]}`, which the schema has; "
            "check the frame, or remove it from the schema"
        )
    # Backticks, so that a dot in a name is no path.
    frame = frame.select(*("`" + name.replace("`", "``") + "`" for name in needed))
    user = schema._native.user()
    if user is not None:
        frame = frame.repartition("`" + user.replace("`", "``") + "`")
    # Merged in a tree, so that the driver never holds one for each of thousands of partitions.
    partials = frame.mapInArrow(_Adder(schema, text), "sums binary").repartition(_MERGERS)
    found = _collected(partials.mapInArrow(_merged, "sums binary"))
    if not found:
        # A frame of no partitions is a table of no rows.
        import pyarrow

        fields = [(name, pyarrow.null()) for name in needed]
        return _sums(pyarrow.schema(fields).empty_table(), schema, design=text)
    return merge(found)


def _collected(partials: DataFrame) -> list[Sums]:
    from pyspark.errors import PythonException

    try:
        return [Sums.from_bytes(bytes(row.sums)) for row in partials.collect()]
    except PythonException as error:
        # What m2m said on an executor, in the words that it said it with.
        said = [line for line in str(error).splitlines() if "m2m.Error: " in line]
        if not said:
            raise
        raise Error(said[-1].partition("m2m.Error: ")[2]) from None


class _Adder:
    """Adds up the rows of a partition. It goes to the executors, with nothing but what is public."""

    def __init__(self, schema: Schema, design: str) -> None:
        self.schema = schema.to_dict()
        self.design = design

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import warnings

        import pyarrow

        import m2m

        iterator = iter(batches)
        first = next(iterator, None)
        if first is None:
            return

        def all_of_them() -> Iterator[pyarrow.RecordBatch]:
            yield first
            yield from iterator

        with warnings.catch_warnings():
            # Counts of odd rows are for the curator, and not for the logs of executors.
            warnings.simplefilter("ignore", m2m.ReadingWarning)
            # One thread: Spark runs as many tasks as there are cores.
            partial = m2m.sums(all_of_them(), self.schema, design=self.design, threads=1)
        yield pyarrow.record_batch([pyarrow.array([partial.to_bytes()], pyarrow.binary())], names=["sums"])


def _merged(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Merges the partial sums of some partitions."""
    import pyarrow

    import m2m

    whole: m2m.Sums | None = None
    for batch in batches:
        for secret in batch.column(0):
            part = m2m.Sums.from_bytes(secret.as_py())
            whole = part if whole is None else whole.merge(part)
    if whole is not None:
        yield pyarrow.record_batch([pyarrow.array([whole.to_bytes()], pyarrow.binary())], names=["sums"])
