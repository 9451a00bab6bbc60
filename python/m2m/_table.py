"""Frames, answers and matrices, which every library of frames can take."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ._estimate import Estimate, Kind, _shown, _when
from ._native import Error
from ._native import Table as _Native

if TYPE_CHECKING:
    import datetime

    import numpy
    import numpy.typing
    import pandas
    import polars
    import pyarrow

    Cell = None | bool | float | str | datetime.date | datetime.datetime | Estimate

#: Rows that are shown.
_SHOWN = 40


def _needs(library: str, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(library)
    except ImportError:
        raise Error(f"{library} is not installed; install it, or m2m[{extra}]") from None


class Frame:
    """Columns of values in Arrow's memory. Anything that knows the Arrow PyCapsule interface takes it as it is."""

    def __init__(self, native: _Native) -> None:
        self._native = native

    def __len__(self) -> int:
        return len(self._native)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._native.names()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pyarrow.Table:
        """As a table of pyarrow."""
        return _needs("pyarrow", "pandas").table(self)

    def to_polars(self) -> polars.DataFrame:
        """As a frame of polars."""
        return _needs("polars", "polars").DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """As a frame of pandas, by way of pyarrow."""
        _needs("pandas", "pandas")
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows: {', '.join(self.columns)})"


class Table(Frame):
    """The answer to a query: rows of cells, where numbers are :class:`Estimate` s.

    As a frame, a column ``x`` of estimates becomes ``x``, ``x_std_error``, ``x_low`` and ``x_high``.
    """

    def __init__(self, native: _Native) -> None:
        super().__init__(native)
        self._kinds: list[Kind] = [kind for _, kind in native.columns()]
        self._rows: list[list[Cell]] | None = None

    @property
    def names(self) -> list[str]:
        """The names of the columns of the answer, errors not counted."""
        return [name for name, _ in self._native.columns()]

    @property
    def warnings(self) -> list[str]:
        """What to know before leaning on the answer."""
        return self._native.warnings()

    @property
    def rows(self) -> list[list[Cell]]:
        """The cells, row by row."""
        if self._rows is None:
            self._rows = [
                [_cell(cell, kind) for cell, kind in zip(row, self._kinds, strict=True)] for row in self._native.rows()
            ]
        return self._rows

    def __iter__(self) -> Iterator[list[Cell]]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> list[Cell]:
        if name not in self.names:
            raise Error(f"there is no column `{name}`; choose one of {', '.join(self.names)}")
        at = self.names.index(name)
        return [row[at] for row in self.rows]

    def item(self) -> Cell:
        """The only cell of an answer that has one."""
        if len(self.rows) != 1 or len(self.names) != 1:
            raise Error(f"the answer has {len(self.rows)} rows and {len(self.names)} columns; ask for one number")
        return self.rows[0][0]

    def to_dict(self) -> dict[str, Any]:
        """As the command line's JSON: ``columns``, ``rows`` and ``warnings``."""
        text = self._native.to_json()
        return {} if text is None else dict(json.loads(text))

    def __repr__(self) -> str:
        cells = [[_text(cell) for cell in row] for row in self.rows[:_SHOWN]]
        columns = [[name, *(row[at] for row in cells)] for at, name in enumerate(self.names)]
        words = [any(isinstance(row[at], str) for row in self.rows) for at in range(len(self.names))]
        widths = [max(map(len, column)) for column in columns]
        lines = [
            "  ".join(
                text.ljust(width) if word else text.rjust(width)
                for text, width, word in zip(line, widths, words, strict=True)
            ).rstrip()
            for line in zip(*columns, strict=True)
        ]
        if len(self.rows) > _SHOWN:
            lines.append(f"… and {len(self.rows) - _SHOWN} more rows")
        return "\n".join(lines + [f"* {warning}" for warning in self.warnings])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.names)
        body = "".join(
            "<tr>" + "".join(f"<td>{_html(cell)}</td>" for cell in row) + "</tr>" for row in self.rows[:_SHOWN]
        )
        more = len(self.rows) - _SHOWN
        notes = [f"… and {more} more rows"] if more > 0 else []
        notes += [f"* {warning}" for warning in self.warnings]
        foot = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in notes)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}"


def _cell(cell: Any, kind: Kind) -> Cell:
    if isinstance(cell, tuple):
        return Estimate._of(cell, kind)
    if kind != "number" and isinstance(cell, float):
        return _when(cell, kind)
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return int(cell)
    return cell  # type: ignore[no-any-return]


def _text(cell: Cell) -> str:
    if cell is None:
        return "NULL"
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return f"{cell:.12g}"
    return "".join(c if c.isprintable() else "\ufffd" for c in str(cell))


def _html(cell: Cell) -> str:
    return cell._repr_html_() if isinstance(cell, Estimate) else html.escape(_text(cell))


class Matrix:
    """A symmetric matrix over columns, each entry with its error."""

    def __init__(self, names: Sequence[str], entries: Sequence[Sequence[Estimate]]) -> None:
        #: The columns.
        self.names = list(names)
        #: The entries, row by row.
        self.entries = [list(row) for row in entries]

    def __getitem__(self, pair: tuple[str, str]) -> Estimate:
        a, b = pair
        for name in (a, b):
            if name not in self.names:
                raise Error(f"there is no column `{name}`; choose one of {', '.join(self.names)}")
        return self.entries[self.names.index(a)][self.names.index(b)]

    @property
    def values(self) -> list[list[float]]:
        """The values, row by row."""
        return [[entry.value for entry in row] for row in self.entries]

    @property
    def std_errors(self) -> list[list[float]]:
        """The standard errors, row by row."""
        return [[entry.std_error for entry in row] for row in self.entries]

    def to_numpy(self) -> numpy.typing.NDArray[numpy.float64]:
        """The values as an array."""
        array: numpy.typing.NDArray[numpy.float64] = _needs("numpy", "sklearn").array(self.values, dtype=float)
        return array

    def to_pandas(self) -> pandas.DataFrame:
        """The values as a frame of pandas with the columns' names."""
        frame: pandas.DataFrame = _needs("pandas", "pandas").DataFrame(
            self.values, index=self.names, columns=self.names
        )
        return frame

    def __repr__(self) -> str:
        shown = [[" ± ".join(_shown(entry)) for entry in row[: i + 1]] for i, row in enumerate(self.entries)]
        cells = [row + [""] * (len(self.names) - len(row)) for row in shown]
        left = max(map(len, self.names))
        widths = [max(len(name), *(len(row[at]) for row in cells)) for at, name in enumerate(self.names)]
        header = " " * left + "".join(f"  {name:>{width}}" for name, width in zip(self.names, widths, strict=True))
        lines = [
            f"{name:<{left}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(row, widths, strict=True))
            for name, row in zip(self.names, cells, strict=True)
        ]
        return "\n".join(line.rstrip() for line in [header, *lines])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.names)
        body = "".join(
            f"<tr><th>{html.escape(name)}</th>" + "".join(f"<td>{entry._repr_html_()}</td>" for entry in row) + "</tr>"
            for name, row in zip(self.names, self.entries, strict=True)
        )
        return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"
