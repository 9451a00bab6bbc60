"""Tables as people hold them: frames, streams, iterators, files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from typing import Any

from ._native import Error, Source

_NOT_A_TABLE = (
    "this is not a table; give a frame of polars or pandas, a table or dataset of pyarrow, a relation of DuckDB, "
    "an iterator of record batches, or the path of a CSV, Parquet or Arrow file"
)


def source(
    data: Any,
    columns: Sequence[str],
    *,
    twice: bool = False,
    strict: bool = False,
    delimiter: str | None = None,
) -> Source:
    """What the native module reads.

    ``columns`` are those that are needed: where it costs nothing, others are left behind, so that they cannot be in the
    way. ``twice`` says that the data will be read twice; what can be read only once is then kept.
    """
    if isinstance(data, str | os.PathLike):
        return Source.files(_expand([data]), delimiter, twice, strict)
    if isinstance(data, list | tuple) and data and all(isinstance(item, str | os.PathLike) for item in data):
        return Source.files(_expand(data), delimiter, twice, strict)
    if delimiter is not None:
        raise Error("a delimiter is for CSV files; leave it out")
    module = type(data).__module__.partition(".")[0]
    name = type(data).__name__
    if module == "polars" and name == "LazyFrame":
        data = _collected(data, columns)
    elif module == "polars" and name == "DataFrame":
        data = data.select(_there(columns, data.columns))
    elif module == "pandas" and name == "DataFrame":
        data = _pandas(data, columns)
    elif module == "pyarrow" and name in ("Table", "RecordBatch"):
        names = _there(columns, data.schema.names)
        # Columns of one name cannot be chosen by it; the native module says so.
        data = data.select(names) if len(set(data.schema.names)) == len(data.schema.names) else data
    elif module == "pyarrow" and hasattr(data, "scanner"):
        names = _there(columns, data.schema.names)
        dataset = data
        return Source.reopened(lambda: dataset.scanner(columns=names).to_reader(), strict)
    elif name == "DuckDBPyRelation":
        relation = data
        return Source.reopened(lambda: relation, strict)
    if hasattr(data, "__arrow_c_stream__"):
        # What has a length is all there, and can be read as often as one likes.
        return Source.frame(data, strict) if hasattr(data, "__len__") else Source.once(data, twice, strict)
    if hasattr(data, "__next__"):
        return Source.once(data, twice, strict)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        items = list(data) if isinstance(data, list | tuple) else data
        if isinstance(items, list) and not all(_is_batch(item) for item in items):
            raise Error(_NOT_A_TABLE)
        if module == "numpy":
            raise Error("an array has no names of columns; wrap it in a frame, as in polars.DataFrame(array, columns)")
        return Source.once(iter(items), twice, strict)
    raise Error(_NOT_A_TABLE)


def _collected(frame: Any, columns: Sequence[str]) -> Any:
    """A lazy frame of polars, made. What it says when it cannot be may hold a value."""
    try:
        return frame.select(_there(columns, frame.collect_schema().names())).collect()
    except Exception as error:
        kind = type(error).__name__
    raise Error(f"memory: what hands over the rows failed ({kind}); read them without m2m to see why")


def _is_batch(item: Any) -> bool:
    return hasattr(item, "__arrow_c_array__") or hasattr(item, "__arrow_c_stream__")


def _there(columns: Sequence[str], have: Sequence[str]) -> list[str]:
    """Those of the needed columns that are there; the native module says what is wrong with the others."""
    known = set(have)
    found = [name for name in columns if name in known]
    # A frame of no columns has lost its rows.
    return found or list(have)


def _pandas(data: Any, columns: Sequence[str]) -> Any:
    if not hasattr(data, "__arrow_c_stream__"):
        raise Error("this pandas is too old to hand over Arrow; install pandas 2.2 or newer")
    names = [name for name in columns if name in set(data.columns)]
    if len(names) < len(data.columns) and names and len(set(data.columns)) == len(data.columns):
        data = data[names]
    return data


def _expand(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Patterns as the files that match them; anything that exists, or is no pattern, stands for itself."""
    files: list[str] = []
    for given in paths:
        path = os.fspath(given)
        if path == "-":
            raise Error("standard input is for the command line; give the path of a file")
        if os.path.exists(path) or not any(c in path for c in "*?["):
            files.append(path)
            continue
        found = sorted(glob.glob(path))
        if not found:
            raise Error(f"no file matches `{path}`; check the pattern")
        files.extend(found)
    return files
