"""The inputs of a graph: the end of each series of a table, padded ahead."""

from __future__ import annotations

import numpy as np
import pytest

from titans_ts import TitansForecaster

from .small_models import HOW, SIZE, long, waves


def fitted(df: object, **parameters: object) -> TitansForecaster:
    return TitansForecaster(**{**SIZE, **HOW, **parameters}).fit(df)  # type: ignore[arg-type]


def test_windows_are_the_ends_of_series_in_the_units_of_the_data() -> None:
    df = waves()
    model = fitted(df)
    feeds = model.export_inputs(df[["c", "a"]][:40])
    assert {name: (x.dtype.name, x.shape) for name, x in feeds.items()} == {
        "past": ("float64", (2, 24)),
        "mask": ("bool", (2, 24)),
        "series": ("int64", (2,)),
        "time_index": ("int64", (2,)),
    }
    assert feeds["series"].tolist() == [2, 0]
    assert (feeds["past"] == df[["c", "a"]][16:40].to_numpy().T).all()
    assert feeds["mask"].all()
    assert (feeds["time_index"] == model.fitted_.panel.calendar.time_index(df.index[[16, 16]])).all()
    assert (model.export_inputs()["past"] == df[-24:].to_numpy().T).all()
    assert "time_index" not in fitted(df, cycle=0).export_inputs(df)


def test_short_series_are_padded_ahead() -> None:
    df = long(waves())
    short = df[(df.unique_id != "b") | (df.ds >= df.ds.max() - 9 * (df.ds[1] - df.ds[0]))]
    feeds = fitted(df).export_inputs(short)
    assert feeds["mask"].sum(1).tolist() == [24, 10, 24]
    assert feeds["mask"][1].tolist() == [False] * 14 + [True] * 10
    assert (feeds["past"][1, 14:] == short.y[short.unique_id == "b"]).all()
    assert (feeds["past"][1, :14] == 0).all()
    assert len(set(feeds["time_index"])) == 1


def test_what_a_graph_cannot_forecast_is_refused() -> None:
    df = waves()
    model = fitted(df)
    with pytest.raises(ValueError, match=r"has series \['d'\] that were not in the data fitted"):
        model.export_inputs(df.assign(d=df.a))
    with pytest.raises(ValueError, match="correct the value"):
        model.export_inputs(df.assign(a=np.where(np.arange(120) == 50, 1e30, df.a)))
    flat = fitted(df.assign(b=7.0))
    with pytest.raises(ValueError, match="series 'b' varies here, but did not in the rows it was trained on"):
        flat.export_inputs(df)


def test_series_that_read_one_another_end_together() -> None:
    df = waves()
    model = fitted(df, linear_path="across")
    feeds = model.export_inputs(df[["b"]])
    assert np.isnan(feeds["all_past"]).all(1).tolist() == [True, False, True]
    assert (feeds["all_past"][1] == feeds["past"][0]).all()
    with pytest.raises(ValueError, match="series 'c' ends at another time than 'a'"):
        model.export_inputs(long(df).iloc[:-1])
