"""The rows of a competition, every value of which is worked out by hand."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import record
from benchmark import competition_training, competitions
from benchmark.competition_training import Outcome, Weighed
from benchmark.competitions import COLUMNS, TRAINING_COLUMNS, Series, entries, forecast_all
from titans_ts import Drift
from titans_ts.datasets import Competition, load_competition

DEFAULT = {"horizon": 2, "random_state": 0, "verbose": 0}
PAST = {"b": [1.0, 3.0, 2.0], "a": [10.0, 30.0]}  # mean steps 1.5 and 20
FUTURE = {"b": [2.0, 6.0], "a": [30.0, 10.0]}


def frame(series: dict[str, list[float]], first: dict[str, int], **columns: list[float]) -> pd.DataFrame:
    rows = [(name, f"{first[name] + t}-01-01", y) for name, values in series.items() for t, y in enumerate(values)]
    table = pd.DataFrame(rows, columns=["unique_id", "ds", "y"])
    return table.assign(ds=pd.to_datetime(table["ds"]), **columns)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Competition:
    """Two yearly series, which every script of the benchmark then loads as M3's."""
    test = frame(FUTURE, {"b": 2001, "a": 2001})
    made = test[["unique_id", "ds"]].assign(THETA=[2.0, 2.0, 30.0, 30.0], WINTER=[2.0, 6.0, 30.0, 10.0])
    train = frame(PAST, {"b": 1998, "a": 1999})
    competition = Competition("M3 yearly", "YS", 2, 1, 2, train, test, made, None)
    monkeypatch.setattr(competitions, "load_competition", lambda name, root: replace(competition, name=name))
    return competition


class Estimator:
    """A stand-in that forecasts 2 for each step, of the series in another order."""

    settings: dict[str, Any]
    fitted = 0

    def __init__(self, **settings: Any) -> None:
        Estimator.settings = settings

    def fit(self, train: pd.DataFrame) -> Estimator:
        self.ids = sorted(train["unique_id"].unique())
        Estimator.fitted += 1
        return self

    def predict(self) -> pd.DataFrame:
        years = pd.to_datetime(["2001-01-01", "2002-01-01"])
        table = pd.DataFrame([(name, ds) for name in self.ids for ds in years], columns=["unique_id", "ds"])
        return table.assign(Titans=[20.0 if name == "a" else 2.0 for name in table["unique_id"]])


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[Estimator]:
    monkeypatch.setattr(competitions, "TitansForecaster", Estimator)
    Estimator.fitted = 0
    return Estimator


# sMAPE of each step, and MASE of each series:
# last value, 2 2 and 30 30: 0, 200 * 4 / 8, 0, 200 * 20 / 40; 2 / 1.5 and 10 / 20
LAST = ((0 + 100 + 0 + 100) / 4, (2 / 1.5 + 0.5) / 2)
# ours, 2 2 and 20 20: 0, 100, 200 * 10 / 50, 200 * 10 / 30; 2 / 1.5 and 10 / 20
OURS = ((0 + 100 + 40 + 200 / 3) / 4, (2 / 1.5 + 0.5) / 2)
# the line, 2.5 3 and 50 70: 200 * .5 / 4.5, 200 * 3 / 9, 200 * 20 / 80, 200 * 60 / 80; 1.75 / 1.5 and 40 / 20
LINE = ((100 / 4.5 + 600 / 9 + 50 + 150) / 4, (1.75 / 1.5 + 2) / 2)
# the mean of the last value and twice the line, 7/3 8/3 and 130/3 170/3
MEAN = ((200 / 13 + 1000 / 13 + 400 / 11 + 140) / 4, (5.5 / 3 / 1.5 + 30 / 20) / 2)


def rows_of(folder: Path) -> dict[tuple[str, str], dict[str, str]]:
    return {(row["method"], row["source"]): row for row in record.read(folder / "competitions.csv")}


def errors(row: dict[str, str]) -> tuple[float, float]:
    return float(row["smape"]), float(row["mase"])


def test_each_method_is_scored_by_its_forecasts(
    small: Competition, stand_in: type[Estimator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Statistical:
        def __init__(self, season_length: int) -> None:
            self.season = season_length

        def forecast(self, y: np.ndarray, h: int) -> dict[str, np.ndarray]:
            return {"mean": np.repeat(y[-1] * self.season, h)}

    module = SimpleNamespace(DynamicOptimizedTheta=Statistical, AutoETS=Statistical)
    monkeypatch.setitem(sys.modules, "statsforecast", SimpleNamespace(models=module))
    monkeypatch.setitem(sys.modules, "statsforecast.models", module)
    monkeypatch.setattr(competitions, "ClosedForm", Drift)  # of two rows there is none

    competitions.main(["M3 yearly", "--out", str(tmp_path)])

    found = rows_of(tmp_path)
    expected = {
        ("TitansForecaster", "run here"): OURS,
        ("seasonal naive", "run here"): LAST,
        ("Naive2", "run here"): LAST,
        ("drift", "run here"): LINE,
        ("closed form", "run here"): LINE,
        ("mean of seasonal naive, drift and closed form", "run here"): MEAN,
        ("DynamicOptimizedTheta", "run here"): LAST,
        ("AutoETS", "run here"): LAST,
        ("THETA", "its forecasts"): LAST,
        ("WINTER", "its forecasts"): (0, 0),
    }
    assert list(found) == list(expected)
    for key, values in expected.items():
        assert errors(found[key]) == pytest.approx(values, abs=1e-6), key  # digits that are kept
        assert (found[key]["group"], found[key]["series"]) == ("M3 yearly", "2")
    assert stand_in.settings == DEFAULT, "one configuration for all groups"
    assert found["TitansForecaster", "run here"]["seconds"] != ""
    assert "threads" in found["TitansForecaster", "run here"]["device"]
    assert found["TitansForecaster", "run here"]["versions"].startswith("titans-ts ")
    assert found["THETA", "its forecasts"]["seconds"] == ""
    assert found["THETA", "its forecasts"]["commit"] == record.commit()


def test_published_scores_are_taken_as_they_are(small: Competition) -> None:
    scores = pd.DataFrame({"method": ["118", "Naive2"], "smape": [9.328, 18.383], "mase": [0.893, 2.395]})
    published = replace(small, name="M4 quarterly", n_published=24_000, entries=None, published=scores)
    found = list(entries(Series.of(published)))
    assert [(row["method"], row["source"], row["series"], *errors(row)) for row in found] == [
        ("118", "as published", 24_000, 9.328, 0.893),
        ("Naive2", "as published", 24_000, 18.383, 2.395),
    ]
    assert all("device" not in row for row in found), "nothing was measured"


def test_a_row_that_is_held_is_not_measured_again_unless_asked_for(
    small: Competition, stand_in: type[Estimator], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["M3 yearly", "--methods", "TitansForecaster", "entries", "--out", str(tmp_path)]
    competitions.main(call)
    competitions.main(call)
    assert stand_in.fitted == 1
    assert len(record.read(tmp_path / "competitions.csv")) == 3
    competitions.main([*call, "--again"])
    assert stand_in.fitted == 2
    assert len(record.read(tmp_path / "competitions.csv")) == 6
    competitions.main(["M3 other", *call[1:]])
    assert stand_in.fitted == 3, "another group"
    printed = capsys.readouterr()
    assert "| WINTER | its forecasts | 0.00 | 0.000 | – |" in printed.out
    assert "M3 yearly, TitansForecaster: 51.666667 / 0.916667" in printed.err


def test_without_statsforecast_the_rest_is_measured_and_the_reason_is_said(
    small: Competition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "statsforecast", None)
    monkeypatch.setitem(sys.modules, "statsforecast.models", None)
    competitions.main(["M3 yearly", "--methods", "AutoETS", "Naive2", "--out", str(tmp_path)])
    assert list(rows_of(tmp_path)) == [("Naive2", "run here")]
    printed = capsys.readouterr().out
    assert "competitions: nothing to compare with, statsforecast.models cannot be imported" in printed
    assert "pip install -c constraints.txt -e '.[bench]'" in printed


def test_a_row_has_the_columns_of_the_csv(small: Competition, stand_in: type[Estimator], tmp_path: Path) -> None:
    competitions.main(["M3 yearly", "--methods", "TitansForecaster", "--out", str(tmp_path)])
    assert (tmp_path / "competitions.csv").read_text().splitlines()[0] == ",".join(COLUMNS)


def test_an_unknown_group_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        competitions.main(["M3 weekly"])
    assert "`groups` must be some of M3 yearly, " in capsys.readouterr().err


def test_rows_of_training_hold_what_was_found_and_are_measured_once(
    small: Competition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = list[tuple[str, int, int]]()

    def outcomes(train: pd.DataFrame, horizon: int, variants: list[str], *how: Any) -> Any:
        epochs, seeds, wanted = how
        assert (train is small.train, horizon, variants) == (True, 2, ["closed form", "no mixer"])
        for run in [("closed form", 0, 0), *(("no mixer", epochs, seed) for seed in seeds)]:
            if wanted(*run):
                runs.append(run)
                forecast = Estimator().fit(train).predict()
                yield Outcome(*run, forecast, 0.75, 0.5, 1.25, Weighed(0.375, 0.25), 2.0)

    monkeypatch.setattr(competition_training, "outcomes", outcomes)
    call = ["M3 yearly", "--training", "--epochs", "3", "--out", str(tmp_path), "--variants", "closed form", "no mixer"]
    competitions.main(call)
    competitions.main([*call, "--seeds", "0", "4"])
    assert runs == [("closed form", 0, 0), ("no mixer", 3, 0), ("no mixer", 3, 4)]
    *_, row = record.read(tmp_path / "competitions_training.csv")
    assert list(row) == list(TRAINING_COLUMNS)
    assert errors(row) == pytest.approx(OURS, abs=1e-6)
    found = {name: row[name] for name in TRAINING_COLUMNS[:5] + TRAINING_COLUMNS[7:13]}
    assert found == {
        **{"group": "M3 yearly", "variant": "no mixer", "epochs": "3", "seed": "4", "series": "2"},
        **{"error_before": "0.75", "error_after": "0.5", "kept_epoch": "1.25"},
        **{"network_weight": "0.375", "combined_error": "0.25", "seconds": "2.00"},
    }
    assert row["commit"] == record.commit()
    printed = capsys.readouterr()
    assert "M3 yearly, no mixer, seed 4: 51.666667 / 0.916667, 2.00 s" in printed.err
    assert (
        "| M3 yearly | no mixer | 3 | 2 | 51.67 / 0.917 | 0.7500 | 0.5000 | 1.25 | 0.38 | 0.2500 | 2 |" in printed.out
    )
    assert not (tmp_path / "competitions.csv").exists(), "no other rows are measured"
    competitions.main([*call, "--again"])
    assert runs[3:] == [("closed form", 0, 0), ("no mixer", 3, 0)]


def test_no_epochs_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        competitions.main(["--training", "--epochs", "0"])
    assert "`--epochs` must be an integer >= 1, got 0." in capsys.readouterr().err


def test_the_estimator_forecasts_every_row_of_test_in_its_order() -> None:
    """Its own, with its defaults: lines that go on."""
    lines = {f"s{i}": [100.0 + (i + 1) * t for t in range(30)] for i in range(3)}
    order = {name: lines[name] for name in ("s2", "s0", "s1")}
    train = frame({name: values[:28] for name, values in order.items()}, dict.fromkeys(lines, 1973))
    test = frame({name: values[28:] for name, values in order.items()}, dict.fromkeys(lines, 2001))
    forecast = forecast_all(Competition("M3 yearly", "YS", 2, 1, 3, train, test, None, None))
    np.testing.assert_allclose(forecast, test["y"], rtol=0.05)
    assert forecast[0] > forecast[4] > forecast[2], "the series in the order of test"


def test_choices_are_printed_and_nothing_is_measured(
    small: Competition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = pd.DataFrame([("reading", "both", 0.51239, True), ("reading", "values", 0.6, False)])
    summary.columns = ["choice", "candidate", "relative_error", "chosen"]
    monkeypatch.setattr(Estimator, "summary", lambda self: summary, raising=False)
    monkeypatch.setattr(competitions, "TitansForecaster", Estimator)
    competitions.main(["M3 yearly", "--choices", "--out", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "M3 yearly"
    assert [line.split() for line in lines[3:]] == [["reading", "both", "0.5124", "*"], ["reading", "values", "0.6000"]]
    assert not list(tmp_path.iterdir())


@pytest.mark.data
def test_series_in_seconds_of_the_year_1200_can_be_fitted(data_folder: Path) -> None:
    competition = load_competition("M4 yearly", root=data_folder)
    longest = competition.train.groupby("unique_id")["y"].size().nlargest(3).index
    part = replace(
        competition,
        train=competition.train[competition.train["unique_id"].isin(longest)],
        test=competition.test[competition.test["unique_id"].isin(longest)],
    )
    found = Series.of(part).score(forecast_all(part))
    assert 0 < found.smape < 100
