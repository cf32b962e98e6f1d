from __future__ import annotations

import gzip
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from titans_ts.datasets import COMPETITIONS, load_competition

from .small_competitions import write_m3, write_m4

PAST = {"Q1": [1.0, 2.0, 3.0], "Q9": [4.0]}
FUTURE = {"Q1": [9.0] * 8, "Q5": [0.0] * 8, "Q9": [7.0, *[8.0] * 7]}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, series in (("M3 yearly", 2), ("M3 other", 2), ("M3 quarterly", 1), ("M4 quarterly", 3), ("M4 yearly", 2)):
        monkeypatch.setitem(COMPETITIONS, name, replace(COMPETITIONS[name], series=series))


def test_the_groups_are_the_published_ones() -> None:
    found = {name: (spec.horizon, spec.season) for name, spec in COMPETITIONS.items()}
    assert found == {
        "M3 yearly": (6, 1),
        "M3 quarterly": (8, 4),
        "M3 monthly": (18, 12),
        "M3 other": (8, 1),
        "M4 hourly": (48, 24),
        "M4 yearly": (6, 1),
        "M4 quarterly": (8, 4),
    }
    assert all(spec.name == name for name, spec in COMPETITIONS.items())


def test_series_of_m3_end_at_one_date_and_the_entries_have_the_rows_of_test(tmp_path: Path) -> None:
    write_m3(tmp_path)
    found = load_competition("m3-yearly", root=tmp_path)
    assert (found.name, found.freq, found.horizon, found.season, found.n_published) == ("M3 yearly", "YS", 6, 1, 2)
    assert found.train["unique_id"].tolist() == ["N0001"] * 3 + ["N0002"] * 5
    assert found.train["ds"].dt.year.tolist() == [1998, 1999, 2000, 1996, 1997, 1998, 1999, 2000]
    assert found.train["y"].tolist() == [1, 2.5, 4, 10, 20, 30, 40, 50]
    assert found.test["unique_id"].tolist() == ["N0001"] * 6 + ["N0002"] * 6
    assert found.test["ds"].dt.strftime("%Y-%m-%d").tolist() == [f"{year}-01-01" for year in range(2001, 2007)] * 2
    assert found.test["y"].tolist() == [5, 6, 7, 8, 9, 10, 60, 70, 80, 90, 100, 110]
    assert found.entries is not None
    pd.testing.assert_frame_equal(found.entries[["unique_id", "ds"]], found.test[["unique_id", "ds"]])
    assert found.entries.columns.tolist() == ["unique_id", "ds", "THETA"], "AAM1 did not forecast yearly series"
    assert (found.entries["THETA"] - found.test["y"]).tolist() == [1] * 12
    assert found.published is None


def test_series_of_no_known_frequency_have_whole_numbers(tmp_path: Path) -> None:
    write_m3(tmp_path)
    found = load_competition("M3 other", root=tmp_path)
    assert found.freq is None
    assert found.train["ds"].tolist() == [0, 1, 1]
    assert found.test["ds"].tolist() == [*range(2, 10)] * 2


@pytest.mark.parametrize("by", ["root", "TITANS_TS_DATA"])
def test_a_partial_file_gives_the_series_it_has(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_m4(tmp_path, "Quarterly", PAST, FUTURE, "-partial.csv.gz")
    monkeypatch.setenv("TITANS_TS_DATA", str(tmp_path))
    found = load_competition("M4 quarterly", root=tmp_path if by == "root" else None)
    assert found.n_published == 3
    assert found.train["unique_id"].tolist() == ["Q1", "Q1", "Q1", "Q9"]
    assert found.train["ds"].astype(str).tolist() == ["1999-07-01", "1999-10-01", "2000-01-01", "2000-01-01"]
    assert found.test["unique_id"].tolist() == ["Q1"] * 8 + ["Q9"] * 8
    assert found.test["ds"].astype(str).tolist()[:2] == ["2000-04-01", "2000-07-01"]
    assert found.test["y"].tolist() == [9.0] * 8 + [7.0] + [8.0] * 7
    assert found.entries is None
    assert found.published is not None
    assert found.published.to_numpy().tolist() == [["Naive2", 11.012, 1.371], ["118", 9.679, 1.118]]


def test_the_whole_file_goes_before_a_part_of_it(tmp_path: Path) -> None:
    write_m4(tmp_path, "Quarterly", PAST, FUTURE, "-partial.csv.gz")
    write_m4(tmp_path, "Quarterly", {**PAST, "Q5": [5.0]}, FUTURE, ".csv")
    assert load_competition("M4 quarterly", root=tmp_path).train["unique_id"].unique().tolist() == ["Q1", "Q9", "Q5"]


def test_times_reach_back_further_than_nanoseconds(tmp_path: Path) -> None:
    write_m4(tmp_path, "Yearly", {"Y1": [1.0] * 835, "Y2": [2.0]}, {"Y1": [1.0] * 6, "Y2": [2.0] * 6}, ".csv")
    found = load_competition("M4 yearly", root=tmp_path)
    assert found.train["ds"].iloc[0].isoformat() == "1166-01-01T00:00:00"
    assert found.train["ds"].iloc[-2:].dt.year.tolist() == [2000, 2000]


def test_too_few_series_are_an_error(tmp_path: Path) -> None:
    write_m4(tmp_path, "Yearly", {"Y1": [1.0, 2.0]}, {"Y1": [1.0] * 6}, ".csv")
    with pytest.raises(
        ValueError, match=r"Yearly-train\.csv must have the 2 series of M4 yearly, got 1; fetch it again"
    ):
        load_competition("M4 yearly", root=tmp_path)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("M3 yearly", "m3/m3_data.json"),
        ("M3 yearly", "m3/m3_forecasts_24methods.csv.gz"),
        ("M4 quarterly", "m4/Quarterly-train-partial.csv.gz"),
        ("M4 quarterly", "m4/Quarterly-test.csv"),
        ("M4 quarterly", "m4/point_forecast_scores_by_frequency.csv"),
    ],
)
def test_a_missing_file_is_named_with_the_folders(name: str, missing: str, tmp_path: Path) -> None:
    write_m3(tmp_path)
    write_m4(tmp_path, "Quarterly", PAST, FUTURE, "-partial.csv.gz")
    (tmp_path / missing).unlink()
    filename = missing.partition("/")[2].removesuffix(".gz").replace("-partial", "")
    with pytest.raises(
        FileNotFoundError, match=rf"^{filename} must be in `root` .* sub-folder {name[:2].lower()}"
    ) as caught:
        load_competition(name, root=tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "Put it in one of them" in str(caught.value)


@pytest.mark.parametrize("name", ["m3/m3_forecasts_24methods.csv.gz", "m4/Quarterly-train-partial.csv.gz"])
def test_a_compressed_file_that_was_cut_is_an_error(name: str, tmp_path: Path) -> None:
    write_m3(tmp_path)
    write_m4(tmp_path, "Quarterly", PAST, FUTURE, "-partial.csv.gz")
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(ValueError, match=rf"{path.name} is damaged: .*fetch it again"):
        load_competition("M3 yearly" if name.startswith("m3") else "M4 quarterly", root=tmp_path)


def test_a_file_compressed_by_another_name_is_found(tmp_path: Path) -> None:
    write_m3(tmp_path)
    path = tmp_path / "m3" / "m3_data.json"
    (tmp_path / "m3_data.json.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert len(load_competition("M3 quarterly", root=tmp_path).train) == 9


def test_an_unknown_name_is_an_error_with_the_closest_one() -> None:
    with pytest.raises(ValueError, match=r"one of M3 yearly, .*, got 'M4 yearlyy'\. Did you mean 'M4 yearly'\?"):
        load_competition("M4 yearlyy")


def test_fields_cannot_be_reassigned(tmp_path: Path) -> None:
    write_m3(tmp_path)
    found = load_competition("M3 yearly", root=tmp_path)
    with pytest.raises(FrozenInstanceError):
        found.name = "other"  # type: ignore[misc]


# Group: series, rows before the forecast, the longest series, methods.
REAL = {
    "M3 yearly": (645, 14_449, 41, 22),
    "M3 quarterly": (756, 30_956, 64, 24),
    "M3 monthly": (1428, 141_858, 126, 24),
    "M3 other": (174, 11_933, 96, 22),
    "M4 hourly": (414, 353_500, 960, 59),
    "M4 yearly": (23_000, 720_458, 835, 59),
    "M4 quarterly": (14_891, 973_368, 100, 59),
}


@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_the_published_files_load(name: str, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = load_competition(name, root=data_folder)
    series, rows, longest, methods = REAL[name]
    lengths = found.train.groupby("unique_id", sort=False).size()
    assert (len(lengths), lengths.sum(), lengths.max()) == (series, rows, longest)
    assert found.train["unique_id"].unique().tolist() == found.test["unique_id"].unique().tolist()
    assert len(found.test) == series * found.horizon
    assert np.isfinite(found.train["y"]).all()
    assert np.isfinite(found.test["y"]).all()
    last = found.train.groupby("unique_id", sort=False)["ds"].max()
    assert last.nunique() == 1
    if found.freq is not None:
        assert (last == pd.Timestamp("2000-01-01")).all()
        times = found.train["ds"].drop_duplicates().sort_values()
        assert len(pd.DatetimeIndex(times.to_numpy(), freq=found.freq)) == longest, "refuses times of another step"
    if found.entries is not None:
        assert len(found.entries.columns) == methods + 2
        assert np.isfinite(found.entries.iloc[:, 2:].to_numpy()).all()
    else:
        assert found.published is not None
        assert len(found.published) == methods
