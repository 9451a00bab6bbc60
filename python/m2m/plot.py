"""Pictures of a release, with error bands, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._estimate import _when
from ._native import Error
from ._table import _needs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._estimate import Estimate
    from ._release import Release


class Plotter:
    """``release.plot``: each method draws on ``ax``, or on new axes, and returns them.

    >>> axes = release.plot.hist("age")
    >>> axes.get_xlabel()
    'age'
    """

    def __init__(self, release: Release) -> None:
        self._release = release

    def hist(self, column: str, bins: int = 20, *, where: str | None = None, ax: Axes | None = None) -> Axes:
        """A histogram; the lines are 95% intervals."""
        bars = self._release.hist(column, bins, where)
        ax = _axes(ax)
        values = [bar.count.value for bar in bars]
        below = [max(bar.count.value - bar.count.low, 0.0) for bar in bars]
        above = [max(bar.count.high - bar.count.value, 0.0) for bar in bars]
        style: dict[str, Any] = {
            "yerr": [below, above],
            "color": "tab:blue",
            "alpha": 0.7,
            "ecolor": "0.3",
            "capsize": 2,
        }
        if any(bar.bounds is None for bar in bars):
            ax.bar([bar.label for bar in bars], values, **style)
            ax.tick_params(axis="x", rotation=45)
        else:
            # Whole numbers include both ends, so that a bar reaches half a unit further.
            bounds = [bar.bounds for bar in bars if bar.bounds is not None]
            half = 0.5 if len(bounds) > 1 and bounds[0][1] < bounds[1][0] else 0.0
            edges = [(low - half, high + half) for low, high in bounds]
            x = [self._place(column, (low + high) / 2) for low, high in edges]
            widths: list[Any] = [high - low for low, high in edges]
            if self._release._kind(column) == "datetime":
                widths = [width / 86400 for width in widths]
            ax.bar(x, values, width=widths, **style)
        ax.set_xlabel(column)
        ax.set_ylabel("rows")
        return ax

    def cdf(self, column: str, points: int = 60, *, where: str | None = None, ax: Axes | None = None) -> Axes:
        """The distribution function with its 95% band."""
        low, high = self._release._bounds(column)
        at = _grid(low, high, points)
        found = self._release.cdf(column, at, where)
        ax = self._band(column, at, found, ax)
        ax.set_ylabel("share of rows at or below")
        ax.set_ylim(0, 1)
        return ax

    def corr(self, columns: Sequence[str] | None = None, *, where: str | None = None, ax: Axes | None = None) -> Axes:
        """The correlation matrix; each cell says its value and standard error."""
        matrix = self._release.corr(columns, where)
        ax = _axes(ax)
        image = ax.imshow(matrix.values, cmap="RdBu_r", vmin=-1, vmax=1)
        for i, row in enumerate(matrix.entries):
            for j, entry in enumerate(row):
                text = "1" if i == j else f"{entry.value:.2f}\n±{entry.std_error:.2f}"
                colour = "white" if abs(entry.value) > 0.6 else "black"
                ax.text(j, i, text, ha="center", va="center", fontsize=8, color=colour)
        ax.set_xticks(range(len(matrix.names)), matrix.names, rotation=45, ha="right")
        ax.set_yticks(range(len(matrix.names)), matrix.names)
        ax.figure.colorbar(image, ax=ax)
        return ax

    def density(
        self,
        column: str,
        other: str | None = None,
        *,
        points: int | None = None,
        where: str | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """The density of one column with its 95% band, or of two as shades."""
        release = self._release
        low, high = release._bounds(column)
        if other is None:
            at = _grid(low, high, points or 60)
            found = release.density(column, at, where=where)
            ax = self._band(column, at, found, ax)
            ax.set_ylabel("density")
            return ax
        steps = points or 24
        xs, ys = _grid(low, high, steps), _grid(*release._bounds(other), steps)
        found = release.density([column, other], [(x, y) for y in ys for x in xs], where=where)
        values = [[estimate.value for estimate in found[row * steps : (row + 1) * steps]] for row in range(steps)]
        ax = _axes(ax)
        x, y = [self._place(column, value) for value in xs], [self._place(other, value) for value in ys]
        mesh = ax.pcolormesh(x, y, values, shading="nearest", cmap="viridis")
        ax.set_xlabel(column)
        ax.set_ylabel(other)
        ax.figure.colorbar(mesh, ax=ax, label="density")
        return ax

    def _band(self, column: str, at: Sequence[float], found: Sequence[Estimate], ax: Axes | None) -> Axes:
        """A line along a column with its 95% band."""
        ax = _axes(ax)
        x = [self._place(column, value) for value in at]
        ax.plot(x, [estimate.value for estimate in found], color="tab:blue")
        bands = ([estimate.low for estimate in found], [estimate.high for estimate in found])
        ax.fill_between(x, *bands, color="tab:blue", alpha=0.25, linewidth=0)
        ax.set_xlabel(column)
        return ax

    def _place(self, column: str, value: float) -> Any:
        kind = self._release._kind(column)
        return value if kind == "number" else _when(value, kind)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    axes: Axes = _needs("matplotlib.pyplot", "plot").subplots(layout="constrained")[1]
    return axes


def _grid(low: float, high: float, points: int) -> list[float]:
    if points < 2:
        raise Error(f"{points} points along an axis; give 2 or more")
    return [low + (high - low) * i / (points - 1) for i in range(points)]
