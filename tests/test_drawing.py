"""How curves look on their axes."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import matplotlib as mpl

mpl.use("Agg")
import numpy as np
import pandas as pd
import pytest
from matplotlib import dates
from matplotlib import pyplot as plt

from titans_ts.drawing import WIDTH, add_legend, colours, draw_line, draw_models, finish, grid, one_or_all, positions
from titans_ts.tables.curves import forecasts_of

HOURS = pd.date_range("2024-01-01", periods=6, freq="h")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize(
    ("n", "shape"), [(1, (1, 1)), (2, (1, 2)), (3, (1, 3)), (4, (2, 2)), (5, (2, 3)), (12, (4, 3))]
)
def test_a_grid_has_axes_for_each_and_no_empty_ones(n: int, shape: tuple[int, int]) -> None:
    axes, figure = grid(n, None)
    assert figure is not None
    assert len(axes) == len(figure.axes) == n
    assert axes[0].get_gridspec().get_geometry() == shape


def test_axes_that_are_given_come_back_without_a_figure() -> None:
    _, given = plt.subplots(2, 2)
    axes, own = grid(4, given)
    assert own is None
    assert axes == list(given.flat)


def test_a_zones_times_are_labelled_in_it() -> None:
    (axes,), own = grid(1, None)
    times = HOURS.tz_localize("UTC").tz_convert("Asia/Tokyo")
    assert positions(times).tolist() == positions(HOURS).tolist()
    draw_line(axes, pd.Series(np.arange(6.0), times), "k", "load", width=1)
    finish(axes, times, None)
    assert own is not None
    own.canvas.draw()
    assert "09:00" in [label.get_text() for label in axes.get_xticklabels()]  # midnight in UTC
    assert isinstance(axes.xaxis.get_major_formatter(), dates.ConciseDateFormatter)


def test_wider_intervals_are_lighter_and_first() -> None:
    (axes,), _ = grid(1, None)
    rows = pd.DataFrame({f"m-{end}-{level}": 1.0 for level in (50, 80, 95) for end in ("lo", "hi")}, index=HOURS)
    draw_models(axes, rows, forecasts_of(rows.columns))
    drawn = {each.get_label(): each.get_alpha() for each in axes.collections}
    assert list(drawn) == ["95 % interval", "80 % interval", "50 % interval"]
    assert sorted(drawn.values()) == list(drawn.values())


def test_colours_come_again_after_the_last() -> None:
    assert colours(8)[6:] == colours(2)
    assert len(set(colours(6))) == 6


def test_a_legend_stays_within_its_figure() -> None:
    axes, own = grid(1, None)
    for i in range(9):
        draw_line(axes[0], pd.Series([1.0, 2.0]), "k", f"a model with a long name, number {i}", width=1)
    add_legend(axes, own)
    assert own is not None
    own.canvas.draw()
    box = own.legends[0].get_window_extent()
    assert 0 <= box.x0 < box.x1 <= WIDTH * own.dpi
    assert len(own.legends[0].get_texts()) == 9


def test_one_axes_is_no_array() -> None:
    axes, _ = grid(2, None)
    assert one_or_all(axes[:1]) is axes[0]
    assert one_or_all(axes).tolist() == axes


def test_without_matplotlib_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install titans-ts\[plot\]"):
        grid(1, None)
