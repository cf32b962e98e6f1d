from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pooch
import pytest

from titans_ts import TitansForecaster
from titans_ts.datasets import load_dataset
from titans_ts.datasets.bike_sharing import COLUMNS, MEASURES, SEASONS, WEATHER, read_bike_sharing

SHA256 = "462d1c779b4d3825c35555e6dffa3063cc0d66b89feeffcaa5093cd475e4a1c3"


@pytest.mark.data
def test_every_value_is_that_of_the_published_file(data_folder: Path) -> None:
    path = data_folder / "bike_sharing" / "hour.csv"
    if not path.exists():
        pytest.skip("needs bike_sharing/hour.csv beside the published data files")
    content = path.read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256
    rows = list(csv.DictReader(content.decode().splitlines()))
    frame = load_dataset("bike_sharing").frame
    assert len(frame) == len(rows)
    for name in (*MEASURES, "holiday", "workingday"):
        assert frame[name].tolist() == [float(row[name]) for row in rows], name
    for name, words in (("season", SEASONS), ("weathersit", WEATHER)):
        assert frame[name].tolist() == [words[int(row[name]) - 1] for row in rows], name
    ds = frame["ds"].dt
    parts = zip(ds.month, ds.day, ds.year, ds.hour, (ds.day_of_week + 1) % 7, strict=True)
    assert [(f"{m}/{d}/{y}", str(h), str(w)) for m, d, y, h, w in parts] == [
        (row["dteday"], row["hr"], row["weekday"]) for row in rows
    ]


def test_it_needs_no_folder_and_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("asked for a file")

    monkeypatch.setattr(pooch, "retrieve", refuse)
    data = load_dataset("Bike-Sharing", download=False)
    assert (data.name, data.freq) == ("bike_sharing", "h")
    assert data.frame.columns.tolist() == ["ds", *COLUMNS]
    assert data.split == (range(12165), range(12165, 13904), range(13904, 17379))


def test_hours_without_a_row_stay_missing() -> None:
    times = read_bike_sharing()["ds"]
    assert times.is_monotonic_increasing
    every = pd.date_range("2011-01-01", "2012-12-31 23:00", freq="h")
    assert len(every.difference(times)) == len(every) - len(times) == 165


def test_rentals_add_up_and_columns_have_the_kinds_that_covariates_take() -> None:
    frame = read_bike_sharing()
    assert (frame["casual"] + frame["registered"]).equals(frame["cnt"])
    assert frame.isna().sum().sum() == 0
    kinds = {name: dtype.kind if hasattr(dtype, "kind") else str(dtype) for name, dtype in frame.dtypes.items()}
    assert kinds == {
        **dict.fromkeys(("season", "weathersit"), "O"),
        **dict.fromkeys(("holiday", "workingday"), "b"),
        **dict.fromkeys(("temp", "atemp", "hum", "windspeed"), "f"),
        **dict.fromkeys(("casual", "registered", "cnt"), "i"),
        "ds": "M",
    }
    assert frame["weathersit"].cat.ordered


def test_the_scaler_knows_the_numbers_of_the_train_rows() -> None:
    data = load_dataset("bike_sharing")
    assert data.scaler.feature_names_in_.tolist() == list(MEASURES)
    np.testing.assert_allclose(data.scaler.mean_[-1], data.frame["cnt"][:12165].mean(), rtol=1e-12)


def test_frames_are_not_shared() -> None:
    frame = load_dataset("bike_sharing").frame
    frame["cnt"] = 0
    assert load_dataset("bike_sharing").frame["cnt"].max() == 977


def test_a_forecaster_takes_its_frame() -> None:
    frame = load_dataset("bike_sharing").frame[["ds", "cnt"]][-500:]
    model = TitansForecaster(
        time_col="ds", target_col="cnt", missing="interpolate", lookback=48, max_epochs=0, context="window", verbose=0
    )
    forecast = model.fit(frame).predict(24)
    assert forecast.columns.tolist() == ["ds", "Titans"]
    assert forecast["ds"].iloc[0] == pd.Timestamp("2013-01-01")


def test_a_name_close_to_it_is_told() -> None:
    with pytest.raises(ValueError, match=r"national_illness, bike_sharing, got 'bikesharin'\. Did you mean 'bike_sh"):
        load_dataset("bikesharin")
