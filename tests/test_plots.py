"""What pictures show: the data of their lines and areas, and the words beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import dates
from matplotlib import pyplot as plt

from titans_ts import TitansForecaster
from titans_ts.plots import (
    plot_backtest,
    plot_coverage,
    plot_forecast,
    plot_gates,
    plot_surprise,
    plot_training,
)
from titans_ts.training.history import Evaluation, History

DAYS = pd.date_range("2024-01-01", periods=40)


@pytest.fixture(autouse=True)
def settings_stay() -> Iterator[None]:
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before


def line(axes: Any, label: str) -> pd.Series:
    (found,) = (each for each in axes.lines if each.get_label() == label)
    return pd.Series(np.asarray(found.get_ydata(), dtype=float), np.asarray(found.get_xdata()))


def area(axes: Any, label: str) -> np.ndarray:
    """The lower and upper ends (2, steps) of an interval that was filled."""
    (found,) = (each for each in axes.collections if each.get_label() == label)
    n = (len(found.get_paths()[0].vertices) - 3) // 2
    y = found.get_paths()[0].vertices[:, 1]
    return np.array([y[1 : n + 1], y[n + 2 : 2 * n + 2][::-1]])


def legend_of(axes: Any) -> list[str]:
    legends = axes.figure.legends or [axes.get_legend()]
    return [text.get_text() for text in legends[0].get_texts()]


def series(name: str = "a", rows: slice = slice(None)) -> pd.DataFrame:
    y = np.arange(40.0) + 100 * (name == "b")
    return pd.DataFrame({"unique_id": name, "ds": DAYS, "y": y})[rows]


def forecast(name: str = "a") -> pd.DataFrame:
    ahead = series(name, slice(30, 35)).rename(columns={"y": "Titans"})
    for level, wide in ((80, 2.0), (95, 5.0)):
        ahead[f"Titans-lo-{level}"], ahead[f"Titans-hi-{level}"] = ahead["Titans"] - wide, ahead["Titans"] + wide
    return ahead


# forecasts


def test_a_forecast_is_drawn_after_the_end_of_its_history() -> None:
    axes = plot_forecast(series(rows=slice(30)), forecast(), actuals=series())
    history = line(axes, "history")
    assert history.tolist() == list(range(15, 30))  # three times as many as are forecast
    assert history.index[-1] == np.datetime64("2024-01-30")
    assert line(axes, "forecast").tolist() == line(axes, "actual").tolist() == [30, 31, 32, 33, 34]
    assert line(axes, "forecast").index[0] == np.datetime64("2024-01-31")
    assert area(axes, "80 % interval").tolist() == [[28, 29, 30, 31, 32], [32, 33, 34, 35, 36]]
    assert area(axes, "95 % interval")[:, 0].tolist() == [25, 35]
    assert legend_of(axes) == ["history", "actual", "95 % interval", "80 % interval", "forecast"]
    assert axes.get_title("left") == "a"
    assert isinstance(axes.xaxis.get_major_formatter(), dates.ConciseDateFormatter)


def test_as_many_rows_of_the_history_are_shown_as_asked() -> None:
    assert line(plot_forecast(series(), forecast(), last=4), "history").tolist() == [36, 37, 38, 39]
    with pytest.raises(ValueError, match=r"`last` must be 1 or more, got 0"):
        plot_forecast(series(), forecast(), last=0)


def test_missing_values_of_a_history_are_left_out_and_of_actuals_break_the_line() -> None:
    table = series()
    table.loc[[29, 32], "y"] = np.nan
    axes = plot_forecast(table[:30], forecast(), actuals=table, last=2)
    assert line(axes, "history").tolist() == [27, 28]
    assert line(axes, "actual").tolist() == pytest.approx([30, 31, np.nan, 33, 34], nan_ok=True)


def test_columns_may_have_other_names_and_models_are_told_apart() -> None:
    history = series().rename(columns={"unique_id": "shop", "ds": "day", "y": "sold"})
    ahead = forecast().rename(columns={"unique_id": "shop", "ds": "day"}).assign(Naive=1.0, **{"Naive-q0.9": 3.0})
    names = dict(id_col="shop", time_col="day", target_col="sold")
    axes = plot_forecast(history, ahead, **names)
    assert line(axes, "Naive").tolist() == [1] * 5
    assert line(axes, "Naive, quantile 0.9").tolist() == [3] * 5
    assert "Titans, 80 % interval" in legend_of(axes)
    colours = {each.get_label(): each.get_color() for each in axes.lines}
    assert colours["Titans"] != colours["Naive"] == colours["Naive, quantile 0.9"]
    assert "Titans" not in legend_of(plot_forecast(history, ahead, **names, models=["Naive"]))
    with pytest.raises(ValueError, match=r"`models` must be among \['Titans', 'Naive'\], got \['naive'\]"):
        plot_forecast(history, ahead, **names, models=["naive"])


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("layout", ["long", "wide"])
def test_each_series_has_axes_of_its_own(kind: str, layout: str) -> None:
    history = pd.concat([series("a"), series("b")])
    ahead = pd.concat([forecast("a"), forecast("b")])
    if layout == "wide":
        history = history.pivot(index="ds", columns="unique_id", values="y")
        ends = {f"{name}{end}": forecast(name)[f"Titans{end}"] for name in "ab" for end in ("", "-lo-80", "-hi-80")}
        ahead = pd.DataFrame(ends).set_axis(DAYS[30:35])
    if kind == "polars":
        reset = [t.reset_index(names="ds") if layout == "wide" else t for t in (history, ahead)]
        history, ahead = map(pl.from_pandas, reset)
    axes = plot_forecast(history, ahead)
    assert [each.get_title("left") for each in axes] == ["a", "b"]
    assert [line(each, "forecast").iloc[0] for each in axes] == [30, 130]
    assert area(axes[1], "80 % interval")[:, 0].tolist() == [128, 132]
    assert axes[0].figure is axes[1].figure
    assert plot_forecast(history, ahead, ids=["b"]).get_title("left") == "b"
    with pytest.raises(ValueError, match="`forecast` has no rows"):
        plot_forecast(history, ahead[:0])
    with pytest.raises(ValueError, match=r"`ids` must name series of `forecast`, got \['c'\]"):
        plot_forecast(history, ahead, ids=["c"])


@pytest.mark.parametrize("given", ["a", 1, []])
@pytest.mark.parametrize("name", ["ids", "models"])
def test_what_is_no_list_of_names_is_refused(name: str, given: Any) -> None:
    with pytest.raises(ValueError, match=rf"`{name}` must be a list of one name or more, got .*; pass a list"):
        plot_forecast(series(), forecast(), **{name: given})


def test_one_step_is_a_point_and_its_interval_a_bar() -> None:
    axes = plot_forecast(series(), forecast()[:1])
    (point,) = (each for each in axes.lines if each.get_label() == "forecast")
    assert (point.get_marker(), point.get_ydata().tolist()) == ("o", [30])
    bars = {each.get_label(): each.get_segments()[0][:, 1].tolist() for each in axes.collections}
    assert bars == {"95 % interval": [25, 35], "80 % interval": [28, 32]}


def test_a_series_and_its_forecast_with_a_level() -> None:
    history = series().set_index("ds")["y"]
    point = forecast().set_index("ds")["Titans"].rename("y")
    assert line(plot_forecast(history, point), "forecast").tolist() == [30, 31, 32, 33, 34]
    axes = plot_forecast(history, forecast().set_index("ds").drop(columns="unique_id"))
    assert area(axes, "95 % interval")[:, 0].tolist() == [25, 35]


def test_rows_without_times_follow_the_history() -> None:
    past, ahead = np.arange(12.0).reshape(6, 2), np.full((2, 2), 7.0)
    axes = plot_forecast(past, ahead, actuals=ahead + 1)
    assert line(axes[1], "history").to_dict() == {0: 1, 1: 3, 2: 5, 3: 7, 4: 9, 5: 11}
    assert line(axes[1], "forecast").to_dict() == {6: 7, 7: 7}
    assert line(axes[1], "actual").to_dict() == {6: 8, 7: 8}
    with_level = {"Titans": ahead, "Titans-lo-80": ahead - 1, "Titans-hi-80": ahead + 2}
    axes = plot_forecast(past, with_level)
    assert line(axes[1], "forecast").to_dict() == {6: 7, 7: 7}
    assert area(axes[1], "80 % interval").tolist() == [[6, 6], [9, 9]]
    column = plot_forecast(pl.Series("y", [1.0, 2.0]), pl.Series("y", [3.0]))
    assert line(column, "forecast").to_dict() == {2: 3}


def test_many_series_are_a_grid_that_says_how_many_there_are() -> None:
    wide = pd.DataFrame({f"s{i}": np.arange(10.0) for i in range(15)}, index=DAYS[:10])
    axes = plot_forecast(wide[:8], wide[8:])
    assert len(axes) == 12
    assert axes[0].figure.get_suptitle() == "12 of 15 series"
    assert len(axes[0].figure.axes) == 12
    assert len(plot_forecast(wide[:8], wide[8:], ids=["s3", "s14", "s1"])[0].figure.axes) == 3


def test_axes_that_are_given_are_drawn_on() -> None:
    figure, axes = plt.subplots(1, 2)
    assert plot_forecast(series(), forecast(), ax=axes[0]) is axes[0]
    assert axes[0].get_legend() is not None
    assert not axes[1].lines
    assert plt.get_fignums() == [figure.number]
    both = pd.concat([forecast("a"), forecast("b")])
    drawn = plot_forecast(series("b"), both, ax=axes)
    assert drawn.tolist() == axes.tolist()
    with pytest.raises(ValueError, match="`ax` must have 2 axes, one for each that is drawn, got 1"):
        plot_forecast(series(), both, ax=axes[0])


# backtests


def backtest() -> pd.DataFrame:
    windows = [
        forecast().assign(cutoff=DAYS[29], y=[30.0, 31, 32, 33, 30]),
        forecast().assign(ds=DAYS[35:40], cutoff=DAYS[34], y=[30.0, 31, 38, 33, 34]),
    ]
    return pd.concat(windows, ignore_index=True)


@pytest.mark.parametrize("with_id", [True, False])
def test_windows_of_a_backtest_are_marked(with_id: bool) -> None:
    frame = backtest() if with_id else backtest().drop(columns="unique_id")
    axes = plot_backtest(frame)
    assert line(axes, "actual").tolist() == backtest()["y"].tolist()
    drawn = [each for each in axes.lines if each.get_color() == "#0072B2"]
    assert [each.get_xdata()[0] for each in drawn] == [np.datetime64(DAYS[30]), np.datetime64(DAYS[35])]
    cutoffs = [each.get_xdata()[0] for each in axes.lines if each.get_linestyle() == ":"]
    assert cutoffs == [np.datetime64(DAYS[29]), np.datetime64(DAYS[34])]
    (shaded,) = axes.patches
    assert shaded.get_x() == dates.date2num(DAYS[34])
    assert shaded.get_x() + shaded.get_width() == dates.date2num(DAYS[39])
    assert legend_of(axes) == ["actual", "cutoff", "95 % interval", "80 % interval", "forecast"]


def test_windows_that_overlap_have_one_line_of_what_came() -> None:
    frame = backtest()
    again = frame[5:].assign(ds=DAYS[32:37], cutoff=DAYS[31])
    axes = plot_backtest(pd.concat([frame[:5], again]))
    assert len(line(axes, "actual")) == 7


def test_a_frame_without_cutoffs_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the table must have the columns \['cutoff'\]"):
        plot_backtest(backtest().drop(columns="cutoff"))


# training


def history(validation: list[float], best: int) -> History:
    found = [Evaluation(i / 2, 10 * i, 2.0 - i if i else np.nan, v, 1e-3) for i, v in enumerate(validation)]
    made = History(found, stopped="patience")
    assert made.best is found[best]
    return made


def test_losses_are_drawn_by_epoch_and_what_was_kept_is_marked() -> None:
    axes = plot_training(history([3.0, 2.0, 2.5], best=1))
    assert line(axes, "validation loss").to_dict() == {0: 3, 0.5: 2, 1: 2.5}
    assert line(axes, "training loss").to_dict() == {0.5: 1, 1: 0}
    assert line(axes, "kept: epoch 0.5").index.tolist() == [0.5, 0.5]
    assert axes.get_title("left") == "ended: patience"


def test_an_initialisation_alone_is_a_picture_too() -> None:
    axes = plot_training(history([3.0], best=0))
    assert legend_of(axes) == ["validation loss", "kept: the initialisation"]
    assert axes.get_xlim()[1] > 1


# coverage


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_coverage_is_the_share_of_values_inside(kind: Any) -> None:
    frame = backtest()
    frame.loc[0, "y"] = np.nan
    axes = plot_coverage(kind(frame.to_dict("list")))
    inside = {
        level: (frame["y"] - frame["Titans"]).abs().dropna().le(wide).mean() for level, wide in ((80, 2), (95, 5))
    }
    assert line(axes, "Titans").to_dict() == pytest.approx({level: 100 * share for level, share in inside.items()})
    assert 0 < inside[80] < inside[95] < 1
    assert line(axes, "as it should be").to_dict() == {0: 0, 100: 100}


def test_coverage_needs_intervals_and_what_came() -> None:
    with pytest.raises(ValueError, match=r"`frame` must have the two ends of an interval.*Ask for them with `level`"):
        plot_coverage(backtest()[["y", "Titans"]])
    with pytest.raises(ValueError, match=r"must have the columns \['y'\]"):
        plot_coverage(forecast())
    with pytest.raises(ValueError, match="no row with 'y' and the 80 % interval of 'Titans'"):
        plot_coverage(backtest().assign(y=np.nan))


# surprise and gates


def test_surprise_is_below_the_series_and_anomalies_are_marked() -> None:
    found = series().drop(columns="y").assign(surprise=1.0, p_value=0.5, anomaly=False)
    found.loc[7, ["surprise", "anomaly"]] = [9.0, True]
    top, below = plot_surprise(series(), found)
    assert line(top, "a").tolist() == list(range(40))
    assert line(below, "surprise").max() == 9
    assert line(top, "anomalous").index.tolist() == [DAYS[7]]
    assert line(top, "anomalous").tolist() == [7]
    assert legend_of(top) == ["a", "anomalous", "surprise", "an error of the usual size"]


def test_one_of_several_series_must_be_named() -> None:
    wide = pd.DataFrame({"a": np.arange(40.0), "b": 1.0}, index=DAYS)
    top, below = plot_surprise(wide, wide + 1, series_id="a")
    assert line(below, "surprise").tolist() == list(range(1, 41))
    assert legend_of(top)[0] == "a"
    with pytest.raises(ValueError, match=r"`series_id` must be one of \['a', 'b'\], as there are several"):
        plot_surprise(wide, wide)
    with pytest.raises(ValueError, match=r"`series_id` must be one of \['a', 'b'\], got 'c'"):
        plot_surprise(wide, wide, series_id="c")


def test_gates_are_drawn_by_part_and_series() -> None:
    parts = {"smooth": np.linspace(0, 1, 40), "seasonal": 0.5}
    gates = pd.concat([series(name).drop(columns="y").assign(**parts) for name in "ab"])
    first, second = plot_gates(gates)
    assert line(second, "smooth").tolist() == parts["smooth"].tolist()
    assert set(line(first, "seasonal")) == {0.5}
    assert first.get_title("left") == "a"


# what a forecaster returns


def test_what_a_forecaster_returns_can_be_drawn() -> None:
    rng, rows = np.random.default_rng(0), np.arange(200)
    index = pd.date_range("2024-01-01", periods=200, freq="h")
    wide = pd.DataFrame({n: np.sin(rows * np.pi / 12) + rng.normal(0, 0.2, 200) for n in "ab"}, index)
    how: dict[str, Any] = dict(horizon=12, lookback=24, d_model=8, n_layers=1, max_epochs=0, verbose=0, random_state=0)
    model = TitansForecaster(**how, context="stream", linear_path=True, combine=False).fit(wide[:150])
    axes = plot_forecast(wide[:150], model.predict(), actuals=wide)
    assert line(axes[0], "forecast").tolist() == model.predict()["a"].tolist()
    later = wide[150:]
    _, below = plot_surprise(later, model.surprise(later), series_id="b")
    np.testing.assert_array_equal(line(below, "surprise"), model.surprise(later)["b"])
    plot_surprise(later, model.anomalies(later), series_id="b")
    assert len(line(plot_gates(model.gates(later))[0], "smooth")) == 3  # 50 hours, a day at a time
    assert legend_of(plot_training(model.history_))[-1] == "kept: the initialisation"
