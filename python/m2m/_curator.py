"""The curator's side: from a sensitive table to one release."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from . import _native as native
from ._data import source
from ._native import Error
from ._release import Release
from ._schema import Schema, schema_of

Number = int | float | str | Decimal
SchemaLike = Schema | str | os.PathLike[str] | Mapping[str, Any]


class ReadingWarning(UserWarning):
    """What was odd about the rows. The counts in it come from the data itself and are for the curator alone."""


def _amount(value: Number | None, name: str) -> str | None:
    """A number as the exact decimal that a person would write for it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise Error(f"{name} is not a number; give one, such as 1.0")
    return str(value)


def _privacy(
    epsilon: Number | None,
    delta: Number | None,
    rho: Number | None,
    neighbours: str = "add-remove",
    count_share: Number | None = None,
    noise: str | None = None,
) -> native.Privacy:
    amounts = (_amount(epsilon, "epsilon"), _amount(delta, "delta"), _amount(rho, "rho"))
    return native.Privacy(*amounts, neighbours, _amount(count_share, "count_share"), noise)


def _design(design: str | os.PathLike[str] | Mapping[str, Any]) -> str:
    """A design as text: ``auto``, or one that the native module always reads the same."""
    if isinstance(design, Mapping):
        return native.read_design(json.dumps(design))
    if not isinstance(design, str | os.PathLike):
        raise Error("design: this is not one; give auto, hist, rff, race, tables or a .toml file")
    text = os.fspath(design)
    return text if text == "auto" else native.read_design(text)


@contextmanager
def _progress(wanted: bool, total: int | None) -> Iterator[Callable[[int], object] | None]:
    """A bar over the bytes that are read, if it is wanted and tqdm is there."""
    if not wanted:
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise Error("tqdm is not installed, which shows progress; install it, or leave out progress") from None
    with tqdm(total=total, unit="B", unit_scale=True) as bar:
        yield lambda done: bar.update(done - bar.n)


def _add_up(
    table: native.Source, schema: Schema, design: str, threads: int | None, progress: bool, quiet: bool = False
) -> native.Sums:
    with _progress(progress, table.bytes()) as tell:
        sums, notes = native.add_up(table, schema._native, design, threads, tell)
    if notes and not quiet:
        message = "; ".join([*notes, "these counts come from the data itself and are for you alone"])
        warnings.warn(message, ReadingWarning, stacklevel=3)
    return sums


def _account(ledger: Ledger | str | os.PathLike[str] | None, what: str) -> tuple[str, str] | None:
    if ledger is None:
        return None
    return (ledger.path if isinstance(ledger, Ledger) else os.fspath(ledger), what)


def sketch(
    data: Any,
    schema: SchemaLike,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    rows: int | None = None,
    weights: Mapping[str | tuple[str, ...], Number] | None = None,
    design: str | os.PathLike[str] | Mapping[str, Any] = "auto",
    ledger: Ledger | str | os.PathLike[str] | None = None,
    what: str = "m2m.sketch",
    neighbours: str = "add-remove",
    count_share: Number | None = None,
    noise: str | None = None,
    strict: bool = False,
    delimiter: str | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> Release:
    """Turns a sensitive table into one release that can be published.

    >>> import polars
    >>> frame = polars.DataFrame({"age": [31, 45, 62] * 500, "smoker": [True, False, False] * 500})
    >>> schema = Schema([integer("age", 0, 100), boolean("smoker")])
    >>> release = sketch(frame, schema, epsilon=1)
    >>> release
    Release(ε = 1, about ... rows: age, smoker)

    :param data: a frame of polars or pandas, a table or dataset of pyarrow, a relation of DuckDB, an iterator of record
        batches, or paths of CSV, Parquet or Arrow files. Frames are read where they are, without a copy.
    :param schema: what is public about it: a :class:`Schema`, or the path of its TOML file
    :param epsilon: the privacy loss; alone, the release is purely ε-private
    :param delta: with it, the release is (ε, δ)-private: far below one over the number of rows
    :param rho: zero-concentrated privacy loss, in place of epsilon
    :param rows: about how many rows there are, if that is public; for the design ``"auto"``
    :param weights: how much the tables of some columns matter beside 1 for the others, such as ``{("age", "income"): 4,
        "name": 0}``; for the design ``"auto"``
    :param design: ``"auto"``, which reads the data twice; or ``"hist"``, ``"rff:m=200,sigma=0.5"``, ``"race"``,
        ``"tables"``, a ``.toml`` file or a dictionary like it
    :param ledger: is debited before noise is added, and refuses to be overspent
    :param what: what the debit is for, in words that the ledger keeps
    :param neighbours: ``"add-remove"``, or ``"replace"`` where the number of rows is public
    :param count_share: the part of the budget for the number of rows
    :param noise: under pure ε: ``"knorm"``, the usual one where it is smaller, or ``"laplace"``
    :param strict: fail at a cell that cannot be read, and do not take it for missing
    :param delimiter: what stands between the fields of a CSV file
    :param threads: how many threads; as many as there are cores
    :param progress: show a bar, with tqdm

    What was odd about the rows comes as a :class:`ReadingWarning`: counts for the curator, never a value.
    """
    schema = schema_of(schema)
    privacy = _privacy(epsilon, delta, rho, neighbours, count_share, noise)
    design = _design(design)
    if (rows is not None or weights) and design != "auto":
        raise _for_auto_alone(rows)
    two_rounds = design == "auto" and len(schema.columns) > 1
    account = _account(ledger, what)
    if account:
        native.ledger_check(account[0], schema._native, privacy)
    if not two_rounds:
        # A single column has nothing to be tabulated with.
        one = native.OneRound(schema._native, "hist" if design == "auto" else design, privacy)
        table = source(data, schema._needed(), strict=strict, delimiter=delimiter)
        return Release._of(one.privatise(_add_up(table, schema, one.design(), threads, progress), account))
    # The source of each round's noise is keyed before the first row is read for it.
    first = native.FirstRound(schema._native, privacy, _rows(rows), _weights(weights))
    table = source(data, schema._needed(), twice=True, strict=strict, delimiter=delimiter)
    second = first.privatise(_add_up(table, schema, first.design(), threads, progress), account)
    with _debited(account):
        sums = _add_up(table, schema, second.design(), threads, progress, quiet=True)
    return Release._of(second.privatise(sums, None))


def _for_auto_alone(rows: int | None) -> Error:
    return Error(f"--{'weight' if rows is None else 'rows'} is for the design auto; leave it out")


def _rows(rows: int | None) -> int | None:
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise Error("the number of rows is not a whole number above 0; give about how many there are")
    return rows


def _weights(weights: Mapping[str | tuple[str, ...], Number] | None) -> list[tuple[list[str], str]]:
    found = []
    for columns, weight in (weights or {}).items():
        found.append(([columns] if isinstance(columns, str) else list(columns), _amount(weight, "a weight") or ""))
    return found


@contextmanager
def _debited(account: tuple[str, str] | None) -> Iterator[None]:
    """Says that the ledger was debited if something fails from here on."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "stopped; nothing was released" + (", but the ledger was debited" if account else "")
        ) from None
    except Error as error:
        if account is None:
            raise
        raise Error(f"{account[0]} was debited, but nothing was released: {error}") from None


_NOT_SUMS = "sums: only sums can be merged with sums; give those of another part"


class Sums:
    """Exact sums over a part of a table. **Secret**: as sensitive as the rows themselves.

    They cannot be printed or looked into. They merge with those of other parts, exactly and in any order, and a release
    is the only thing to make of them. Merging or releasing uses them up, as they would otherwise count twice.

    >>> import polars
    >>> schema = Schema([integer("age", 0, 100)])
    >>> parts = [sums(polars.DataFrame({"age": ages}), schema, design="hist") for ages in ([31, 45], [62])]
    >>> whole = merge(parts)
    >>> whole
    Sums(secret)
    >>> release = whole.release(epsilon=1)
    """

    __slots__ = ("_files", "_native")

    _native: native.Sums
    #: The files that they were read from.
    _files: frozenset[str]

    def __init__(self) -> None:
        raise Error("sums: they are made of a table; use m2m.sums(data, schema, design=…)")

    @classmethod
    def _of(cls, found: native.Sums, files: frozenset[str] = frozenset()) -> Sums:
        sums = cls.__new__(cls)
        sums._native = found
        sums._files = files
        return sums

    def merge(self, other: Sums) -> Sums:
        """Adds the sums of another part, which is used up. Returns itself."""
        if not isinstance(other, Sums):
            raise Error(_NOT_SUMS)
        if self._files & other._files:
            raise Error("sums: these were read from one file, so its rows would count twice; open each file once")
        self._native.merge(other._native)
        self._files |= other._files
        return self

    @property
    def schema(self) -> Schema:
        """The schema of the table."""
        return Schema._of(self._native.schema())

    def release(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        what: str = "m2m.Sums.release",
        neighbours: str = "add-remove",
        count_share: Number | None = None,
        noise: str | None = None,
    ) -> Release:
        """Debits the ledger, adds noise and has the release. The sums are used up. See :func:`sketch`."""
        privacy = _privacy(epsilon, delta, rho, neighbours, count_share, noise)
        account = _account(ledger, what)
        if account:
            native.ledger_check(account[0], self._native.schema(), privacy)
        one = native.OneRound(self._native.schema(), self._native.design(), privacy)
        return Release._of(one.privatise(self._native, account))

    def to_bytes(self) -> bytes:
        """The secret itself, to be carried to where parts are merged. Guard it like the rows, and merge it once.

        The rows of bytes that are read twice count twice.
        """
        return self._native.to_bytes()

    @classmethod
    def from_bytes(cls, secret: bytes) -> Sums:
        """The opposite of :meth:`to_bytes`."""
        return cls._of(native.Sums.from_bytes(secret))

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the secret to a file that only its owner can read, as ``m2m sketch --sums`` does."""
        self._native.save(os.fspath(path), force)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Sums:
        """Opens such a file."""
        return cls._of(native.Sums.open(os.fspath(path)), frozenset([os.path.realpath(path)]))

    def __reduce_ex__(self, protocol: object) -> str:
        raise Error("sums: they are secret and are not pickled by the way; use to_bytes() where you mean to send them")

    def __repr__(self) -> str:
        return "Sums(secret)"


def sums(
    data: Any,
    schema: SchemaLike,
    *,
    design: str | os.PathLike[str] | Mapping[str, Any],
    strict: bool = False,
    delimiter: str | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> Sums:
    """Adds up the rows of a part of a table. Spends nothing; what it returns is secret.

    :param design: fixed maps as in :func:`sketch`, or the ``design`` of a :class:`FirstRound` or :class:`SecondRound`
    """
    schema = schema_of(schema)
    design = _design(design)
    if design == "auto":
        raise Error(
            "the design auto works in two rounds; add up the rows for the design of m2m.FirstRound, then the second"
        )
    table = source(data, schema._needed(), strict=strict, delimiter=delimiter)
    return Sums._of(_add_up(table, schema, design, threads, progress))


def merge(parts: Sequence[Sums] | Iterator[Sums]) -> Sums:
    """The sums of all parts together, which are used up: also those before one that cannot be merged."""
    whole: Sums | None = None
    for part in parts:
        if whole is not None:
            whole.merge(part)
        elif isinstance(part, Sums):
            whole = Sums._of(part._native.moved(), part._files)
        else:
            raise Error(_NOT_SUMS)
    if whole is None:
        raise Error("sums: there are no parts; give some")
    return whole


class _Round:
    """One of the two rounds of the design ``"auto"``."""

    _native: native.FirstRound | native.SecondRound

    @property
    def design(self) -> str:
        """The features to add up; public."""
        return self._native.design()

    def __reduce_ex__(self, protocol: object) -> str:
        raise Error("a round holds noise that is not drawn twice, so it cannot be sent elsewhere; send its design")


class FirstRound(_Round):
    """The first of the two rounds of the design ``"auto"``, for tables in parts: the count and the marginals.

    The source of its noise is keyed when it is made, before any row is read, so it stays in its process: what goes to
    the parts is ``design``, which is public.

    >>> import polars
    >>> parts = [polars.DataFrame({"a": [1, 2] * 300, "b": [True, False] * 300}) for _ in range(2)]
    >>> schema = Schema([integer("a", 0, 9), boolean("b")])
    >>> first = FirstRound(schema, epsilon=1)
    >>> marginals = first.release(merge(sums(part, schema, design=first.design) for part in parts))
    >>> second = SecondRound.after(marginals)
    >>> release = second.release(merge(sums(part, schema, design=second.design) for part in parts))
    """

    _native: native.FirstRound

    def __init__(
        self,
        schema: SchemaLike,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        rows: int | None = None,
        weights: Mapping[str | tuple[str, ...], Number] | None = None,
        neighbours: str = "add-remove",
        count_share: Number | None = None,
    ) -> None:
        self.schema = schema_of(schema)
        self._privacy = _privacy(epsilon, delta, rho, neighbours, count_share)
        self._native = native.FirstRound(self.schema._native, self._privacy, _rows(rows), _weights(weights))

    def release(
        self,
        sums: Sums,
        *,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        what: str = "m2m.FirstRound.release",
    ) -> Release:
        """Debits the ledger for both rounds, adds the noise of this one, and has what it releases.

        That can be saved, and the second round can follow at any later time: see :meth:`SecondRound.after`.
        """
        return Release._of(self._native.publish(sums._native, _account(ledger, what)))

    def check(self, ledger: Ledger | str | os.PathLike[str]) -> None:
        """Refuses early what the ledger would refuse late."""
        account = _account(ledger, "")
        assert account is not None
        native.ledger_check(account[0], self.schema._native, self._privacy)


class SecondRound(_Round):
    """The second round: tables of columns in groups that are fitted to what the first released."""

    def __init__(self) -> None:
        raise Error("the second round follows from the first; use SecondRound.after")

    @classmethod
    def after(
        cls,
        first: Release | str | os.PathLike[str],
        *,
        rows: int | None = None,
        weights: Mapping[str | tuple[str, ...], Number] | None = None,
    ) -> SecondRound:
        """The round after what :meth:`FirstRound.release` released.

        The budget of the first is for one second round. A ledger sees to it; without one, another second round after
        the same first costs more than the release says.

        :param first: that release, or the path of its file
        :param rows: as in the first round
        :param weights: as in the first round
        """
        if isinstance(first, str | os.PathLike):
            first = Release.open(first)
        if not isinstance(first, Release):
            raise Error("a second round follows what a first one released; give that release, or its file")
        round_ = cls.__new__(cls)
        round_._native = native.SecondRound.after(first._native, _rows(rows), _weights(weights))
        return round_

    _native: native.SecondRound

    @property
    def schema(self) -> Schema:
        """The schema of the table, which is that of the first round."""
        return Schema._of(self._native.schema())

    def release(
        self,
        sums: Sums,
        *,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        what: str = "m2m.SecondRound.release",
    ) -> Release:
        """Adds the noise that was paid for with the first round, and has the release of both.

        :param ledger: that of the first round, if there was one: it lets the second be made once
        """
        return Release._of(self._native.privatise(sums._native, _account(ledger, what)))

    def check(self, ledger: Ledger | str | os.PathLike[str]) -> None:
        """Refuses early a ledger that has not paid for this round, or has been asked for it before."""
        account = _account(ledger, "")
        assert account is not None
        self._native.check(account[0])


class Ledger:
    """The budget of a table: a file that is debited before every release and refuses to be overspent.

    >>> import tempfile, os
    >>> ledger = Ledger.new(os.path.join(tempfile.mkdtemp(), "budget.toml"), epsilon=3)
    >>> ledger
    Ledger(ε = 3 left)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        #: Where it is.
        self.path = os.path.abspath(path)
        self._show()

    @classmethod
    def new(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
    ) -> Ledger:
        """Starts a ledger with a total. One that is there is never replaced."""
        native.ledger_new(os.fspath(path), _privacy(epsilon, delta, rho))
        return cls(path)

    def _show(self) -> dict[str, Any]:
        return dict(json.loads(native.ledger_show(self.path)))

    @property
    def total(self) -> dict[str, float]:
        """All that may be spent."""
        return dict(self._show()["total"])

    @property
    def left(self) -> dict[str, float]:
        """What is left of it."""
        return dict(self._show()["left"])

    @property
    def spent(self) -> list[dict[str, Any]]:
        """The debits so far."""
        return list(self._show()["spent"])

    def __repr__(self) -> str:
        return f"Ledger({self._show()['words']} left)"


class Forecast:
    """Errors that are expected of a release, from the schema alone or by another release."""

    def __init__(
        self, budget: str, rows: int, errors: Sequence[tuple[str, str, float, bool]], invented: bool = True
    ) -> None:
        #: What would be spent, in words.
        self.budget = budget
        #: For how many rows.
        self.rows = rows
        #: The expected standard error of each question: means in the units of their column, shares as parts of 1.
        self.errors = {question: error for question, _, error, _ in errors}
        #: Questions of which such a release would tell next to nothing; their error is that of a guess.
        self.guesses = [question for question, _, _, supported in errors if not supported]
        self._invented = invented

    def __repr__(self) -> str:
        lines = [f"Predicted standard errors for {self.rows} rows with {self.budget}:"]
        width = max(map(len, self.errors), default=0)
        lines += [
            f"  {question:<{width}}  {error:.2g}{'*' if question in self.guesses else ''}"
            for question, error in self.errors.items()
        ]
        where = "invented rows" if self._invented else "rows drawn from the release"
        lines.append(f"predicted on {where}; real errors can be half or twice as large")
        return "\n".join(lines)


def plan(
    schema: SchemaLike | None = None,
    rows: int | None = None,
    *,
    like: Release | str | os.PathLike[str] | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    want: str | Sequence[str] | None = None,
    design: str | os.PathLike[str] | Mapping[str, Any] = "auto",
    neighbours: str = "add-remove",
) -> Forecast:
    """Predicts the errors of a release before anything is read or spent.

    Either with a budget, or with ``want``, for which the smallest ε is found:

    >>> schema = Schema([integer("age", 0, 100), boolean("smoker")])
    >>> plan(schema, 50_000, want="mean(age) ± 1%").budget
    'ε = 0...'

    A release of a table that is much like the one to come, of last year or of a pilot, tells what a schema leaves open,
    so that predictions are nearer:

    >>> import polars
    >>> frame = polars.DataFrame({"age": [31, 45, 62] * 500, "smoker": [True, False, False] * 500})
    >>> plan(like=sketch(frame, schema, epsilon=1), rows=50_000, epsilon=1).errors["mean(age)"] < 1
    True

    :param rows: about how many rows there are; take a public guess; with ``like``, as many as it tells of unless given
    :param like: such a release, or the path of its file, in place of a schema
    :param want: what should be known how well, such as ``"mean(age) ± 1%"`` of its range, ``"cdf(age) ± 0.01"``,
        ``"share(sex) ± 1%"``, ``"corr(age, income) ± 0.05"``, ``"count(age, sex) ± 0.5%"``, ``"rows ± 100"``
    """
    design = _design(design)
    rehearsal = _rehearsal(schema, rows, like)
    if want is None:
        privacy = _privacy(epsilon, delta, rho, neighbours)
        errors = native.plan(rehearsal, privacy, design, None)
        return Forecast(str(privacy), rehearsal.rows, errors, like is None)
    if epsilon is not None or rho is not None:
        raise Error("--want looks for an epsilon, and one is given already; leave out --epsilon or --rho, or --want")
    wants = [want] if isinstance(want, str) else list(want)
    privacy = _privacy("1", delta, None, neighbours)
    needed, _ = native.wanted(rehearsal, privacy, design, wants)
    privacy = privacy.with_epsilon(needed)
    return Forecast(str(privacy), rehearsal.rows, native.plan(rehearsal, privacy, design, wants), like is None)


def _rehearsal(
    schema: SchemaLike | None, rows: int | None, like: Release | str | os.PathLike[str] | None
) -> native.Rehearsal:
    _rows(rows)
    if like is None:
        if schema is None or rows is None:
            raise Error("a plan needs a schema and a number of rows, or a release of a table like this one (like=)")
        return native.Rehearsal.of(schema_of(schema)._native, rows)
    if schema is not None:
        raise Error("a release that the table is like has a schema already; leave out one of them")
    if isinstance(like, str | os.PathLike):
        like = Release.open(like)
    if not isinstance(like, Release):
        raise Error("a table can be like the one behind a release; give that release, or its file")
    return native.Rehearsal.like(like._native, rows)
