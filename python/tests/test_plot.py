"""Pictures show the numbers of the release."""

from __future__ import annotations

import matplotlib.pyplot
import pytest

import m2m


@pytest.fixture(autouse=True)
def _closed() -> object:
    yield
    matplotlib.pyplot.close("all")


def test_bars_are_counts(release: m2m.Release) -> None:
    for column, bins in (("age", 10), ("income", 8), ("sex", 20)):
        axes = release.plot.hist(column, bins)
        heights = [patch.get_height() for patch in axes.patches]
        assert heights == pytest.approx(release.hist(column, bins).counts)
        assert axes.get_xlabel() == column


def test_curves_and_bands(release: m2m.Release) -> None:
    axes = release.plot.cdf("age", points=20)
    (line,) = axes.lines
    assert line.get_ydata()[-1] == pytest.approx(1, abs=0.01)
    assert len(axes.collections) == 1
    assert len(release.plot.density("age", points=10).lines[0].get_ydata()) == 10
    shades = release.plot.density("age", "income", points=5).collections[0]
    assert shades.get_array().size == 25


def test_matrices(release: m2m.Release) -> None:
    axes = release.plot.corr()
    assert [text.get_text() for text in axes.get_yticklabels()] == ["age", "hours", "income"]
    assert release.plot.corr(ax=axes) is axes


def test_mistakes(release: m2m.Release) -> None:
    with pytest.raises(m2m.Error, match="holds no numbers"):
        release.plot.cdf("sex")
    with pytest.raises(m2m.Error, match="points along an axis"):
        release.plot.density("age", points=1)
