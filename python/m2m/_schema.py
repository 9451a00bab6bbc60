"""What is public about a table."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._data import source
from ._native import Error, draft
from ._native import Schema as _Native


class Schema:
    """The public description of a table: its columns with bounds or levels, and whom the release protects.

    Nothing in it may come from the data itself: bounds are what is publicly known to be possible, levels what the form
    offered. It is published with the release.

    >>> schema = Schema([number("age", 17, 90), category("sex", ["Female", "Male"])])
    >>> schema.columns
    ['age', 'sex']
    >>> Schema.from_toml(schema.to_toml()) == schema
    True

    :param columns: made by :func:`number`, :func:`integer`, :func:`date`, :func:`moment`, :func:`boolean` and
        :func:`category`
    :param unit: ``"row"``, or the column that identifies a person all of whose rows are protected together
    :param max_rows: with such a column, how many rows of one person count
    """

    def __init__(self, columns: Iterable[Mapping[str, Any]], *, unit: str = "row", max_rows: int | None = None) -> None:
        privacy: dict[str, Any] = {"unit": unit}
        if max_rows is not None:
            privacy["max_rows"] = max_rows
        try:
            text = json.dumps({"privacy": privacy, "column": list(columns)})
        except (TypeError, ValueError):
            raise Error(
                "schema: columns are made by m2m.number, integer, date, moment, boolean and category; make them so"
            ) from None
        self._native = _Native.from_json(text)

    @classmethod
    def _of(cls, native: _Native) -> Schema:
        schema = cls.__new__(cls)
        schema._native = native
        return schema

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Reads the TOML form."""
        return cls._of(_Native.from_toml(text))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Schema:
        """Opens a TOML file."""
        return cls._of(_Native.open(os.fspath(path)))

    @classmethod
    def from_dict(cls, schema: Mapping[str, Any]) -> Schema:
        """The opposite of :meth:`to_dict`."""
        return cls._of(_Native.from_json(json.dumps(schema)))

    @staticmethod
    def draft(data: Any) -> str:
        """The text of a schema to complete, from the names and types of a table's columns. No value is looked at.

        >>> import polars
        >>> print(Schema.draft(polars.DataFrame({"smoker": [True]})).splitlines()[-2])
        name = "smoker"
        """
        return draft(source(data, []))

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [column["name"] for column in self.to_dict()["column"]]

    @property
    def unit(self) -> str:
        """``"row"``, or the column that identifies a person."""
        return self._native.user() or "row"

    def to_dict(self) -> dict[str, Any]:
        """As plain objects, of the shape of the TOML form."""
        return dict(json.loads(self._native.to_json()))

    def to_toml(self) -> str:
        """The TOML form."""
        return self._native.to_toml()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the TOML form."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_toml())

    def _needed(self) -> list[str]:
        """The columns that a curator's table has to have."""
        user = self._native.user()
        return self.columns + ([user] if user and user not in self.columns else [])

    def _kind(self, column: str) -> str | None:
        return next((c["type"] for c in self.to_dict()["column"] if c["name"] == column), None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._native.equals(other._native)

    def __hash__(self) -> int:
        return hash(self._native.to_json())

    def __getstate__(self) -> str:
        return self._native.to_json()

    def __setstate__(self, text: str) -> None:
        self._native = _Native.from_json(text)

    def __repr__(self) -> str:
        shown = ", ".join(f"{column['name']}: {column['type']}" for column in self.to_dict()["column"])
        return f"Schema({shown}; unit {self.unit})"


def schema_of(schema: Schema | str | os.PathLike[str] | Mapping[str, Any]) -> Schema:
    """A schema from whatever stands for one: itself, a path, TOML, or a dictionary."""
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, Mapping):
        return Schema.from_dict(schema)
    if isinstance(schema, str) and "\n" in schema:
        return Schema.from_toml(schema)
    if isinstance(schema, str | os.PathLike):
        return Schema.open(schema)
    raise Error("schema: this is not one; give an m2m.Schema, or the path of a .toml file")


def _column(name: str, kind: str, nullable: bool, missing: Sequence[str], **more: Any) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind}
    column.update({key: value for key, value in more.items() if value is not None})
    if nullable:
        column["nullable"] = True
    if missing:
        column["missing"] = list(missing)
    return column


def number(
    name: str,
    min: float,
    max: float,
    *,
    transform: str | None = None,
    atoms: Sequence[float] = (),
    nullable: bool = False,
    missing: Sequence[str] = (),
) -> dict[str, Any]:
    """A column of real numbers between public bounds; what lies outside is clamped.

    :param transform: a public change of scale: ``"log1p"``, ``"sqrt"`` or ``"asinh"``
    :param atoms: values that many rows share, such as 0; each has a cell of its own
    :param nullable: whether missing cells are expected
    :param missing: further spellings of "missing" in text
    """
    atoms_ = [float(atom) for atom in atoms] or None
    return _column(name, "number", nullable, missing, min=min, max=max, transform=transform, atoms=atoms_)


def integer(
    name: str,
    min: int,
    max: int,
    *,
    transform: str | None = None,
    atoms: Sequence[int] = (),
    nullable: bool = False,
    missing: Sequence[str] = (),
) -> dict[str, Any]:
    """A column of whole numbers; see :func:`number`."""
    return _column(name, "integer", nullable, missing, min=min, max=max, transform=transform, atoms=list(atoms) or None)


def date(
    name: str,
    min: str | datetime.date,
    max: str | datetime.date,
    *,
    nullable: bool = False,
    missing: Sequence[str] = (),
) -> dict[str, Any]:
    """A column of days."""
    return _column(name, "date", nullable, missing, min=_iso(min), max=_iso(max))


def moment(
    name: str,
    min: str | datetime.datetime,
    max: str | datetime.datetime,
    *,
    nullable: bool = False,
    missing: Sequence[str] = (),
) -> dict[str, Any]:
    """A column of moments (type ``datetime``); those without a time zone are taken for UTC."""
    return _column(name, "datetime", nullable, missing, min=_iso(min), max=_iso(max))


def boolean(name: str, *, nullable: bool = False, missing: Sequence[str] = ()) -> dict[str, Any]:
    """A column of true and false."""
    return _column(name, "boolean", nullable, missing)


def category(
    name: str, levels: Sequence[str], *, nullable: bool = False, missing: Sequence[str] = ()
) -> dict[str, Any]:
    """A column of levels from a public list; others count as "other"."""
    if isinstance(levels, str):
        raise Error(f"schema: column `{name}`: the levels are one text; give a list of them")
    return _column(name, "category", nullable, missing, levels=[str(level) for level in levels])


def _iso(day: str | datetime.date) -> str:
    if isinstance(day, datetime.datetime):
        zoned = day if day.tzinfo else day.replace(tzinfo=datetime.timezone.utc)
        return zoned.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return day.isoformat() if isinstance(day, datetime.date) else day
