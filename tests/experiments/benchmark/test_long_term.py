"""The long-term benchmark, on a small set of the same shape and on the real files."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import record
from benchmark import long_term, rows
from benchmark.estimator import Fit, errors
from benchmark.table import LOOKBACKS, Table, Variant
from titans_ts import TitansForecaster
from titans_ts.datasets import Dataset, load_dataset
from titans_ts.datasets.registry import find_spec
from titans_ts.fitted import FittedModel


def fit_of(horizon: int, lookback: int) -> Fit:
    return Fit(Variant.of_mixer("memory"), horizon, lookback, 0, ["i"], True, "cpu", 0)


def test_every_row_asked_for_is_printed_and_in_the_csv(
    small: Dataset, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(long_term, "load_dataset", lambda name, root: small)

    long_term.main([str(table), "--out", str(tmp_path), "--columns", "i", "ii", "--device", "cpu", "--horizons", "6"])

    found = record.read(tmp_path / "small.csv")
    assert ",".join(found[0]) == (
        "dataset,model,column,lookback,horizon,seed,mse,mae,seconds,device,versions,commit,config"
    )
    models = [(row["model"], row["column"], row["seed"]) for row in found]
    assert models == [
        *[("seasonal-naive", "i", "0"), ("closed-form", "i", "0"), ("seasonal-naive", "ii", "0")],
        *[("closed-form", "ii", "0"), ("titans", "i", "0"), ("titans", "ii", "0"), ("titans", "i", "1")],
        ("titans", "ii", "1"),
    ]
    assert {row["lookback"] for row in found} == {"96"}
    naive = float(found[0]["mse"])
    assert all(0 < float(row["mse"]) < 0.7 * naive for row in found if row["model"] != "seasonal-naive")
    printed = capsys.readouterr().out
    assert f"{float(found[4]['mse']):.4f}" in printed
    assert "Paper (published)" in printed


def test_a_second_run_goes_on(
    small: Dataset, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(long_term, "load_dataset", lambda name, root: small)
    call = [str(table), "--out", str(tmp_path), "--device", "cpu", "--horizons", "6"]

    long_term.main([*call, "--mixers", "none", "--seeds", "0"])
    before = (tmp_path / "small.csv").read_text()
    long_term.main([*call, "--mixers", "none", "attention", "--seeds", "0"])

    assert "simba-none seed 0: in the CSV already" in capsys.readouterr().out
    assert (tmp_path / "small.csv").read_text().startswith(before)
    models = [row["model"] for row in record.read(tmp_path / "small.csv")]
    assert models == ["seasonal-naive", "closed-form", "simba-none", "simba-attention"]

    table.write_text(table.read_text().replace("d_model = 8", "d_model = 16"))  # another network is another row
    long_term.main([*call, "--mixers", "none", "--seeds", "0", "1"])
    found = record.read(tmp_path / "small.csv")
    assert [row["model"] for row in found[4:]] == ["simba-none", "simba-none"]
    assert found[2]["config"] != found[4]["config"]


def test_variants_differ_by_what_their_file_says(
    small: Dataset, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_term, "load_dataset", lambda name, root: small)
    variants = tmp_path / "variants.toml"
    variants.write_text('["no EinFFT".model]\nfeature_mixer = "none"\n[slow.train]\nlearning_rate = 1e-6\n')
    call = [str(table), "--out", str(tmp_path), "--device", "cpu", "--horizons", "6", "--seeds", "0"]

    long_term.main([*call, "--variants", str(variants), "--mixers", "memory"])

    found = record.read(tmp_path / "small.csv")
    assert [row["model"] for row in found] == ["seasonal-naive", "closed-form", "titans", "no EinFFT", "slow"]
    assert len({row["config"] for row in found[2:]}) == 3


def test_the_rows_of_a_subset_are_kept_apart(small_subset: Path, tmp_path: Path) -> None:
    arguments = ["--subset", str(small_subset), "--out", str(tmp_path), "--verbose", "0"]
    table = tmp_path / "tiny.toml"
    table.write_text(
        'dataset = "electricity"\nhorizons = [6]\nseeds = [0]\n[model]\nd_model = 8\n[train]\nmax_epochs = 0\n'
    )
    long_term.main([str(table), *arguments])
    assert not (tmp_path / "tiny.csv").exists()
    found = record.read(tmp_path / "tiny_subset.csv")
    assert {row["dataset"] for row in found} == {"electricity, 2 of 321 series"}


def test_the_closed_form_alone_is_measured_without_training(
    small: Dataset, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(long_term, "load_dataset", lambda name, root: small)
    call = [str(table), "--out", str(tmp_path), "--device", "cpu", "--horizons", "6", "--seeds", "0"]

    long_term.main([*call, "--closed-form"])
    alone = record.read(tmp_path / "small.csv")
    assert [row["model"] for row in alone] == ["seasonal-naive", "closed-form"]
    long_term.main([*call, "--closed-form"])
    assert "titans seed 0: in the CSV already" in capsys.readouterr().out
    long_term.main(call)
    found = record.read(tmp_path / "small.csv")
    assert [row["model"] for row in found[2:]] == ["titans"]
    assert found[1]["config"] == found[2]["config"]


@pytest.mark.parametrize(("column", "counted"), [("i", 395), ("ii", 384)])
def test_column_ii_drops_the_last_partial_batch_of_windows(
    column: str, counted: int, small: Dataset, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_term, "load_dataset", lambda name, root: small)
    call = [str(table), "--out", str(tmp_path), "--device", "cpu", "--horizons", "6", "--columns", column]
    long_term.main([*call, "--closed-form"])
    naive = float(record.read(tmp_path / "small.csv")[0]["mse"])
    scaled = small.scaler.transform(small.frame)
    errors = [scaled[t - 24 : t - 18] - scaled[t : t + 6] for t in range(800, 800 + counted)]
    assert naive == pytest.approx(np.mean(np.square(errors)), abs=1e-6)  # the CSV's digits


@pytest.mark.parametrize("name", ["etth1", "etth2", "ettm1", "ettm2", "weather"])
def test_the_closed_forms_of_the_committed_tables_are_held(name: str) -> None:
    """Else `make tables` would measure them again."""
    table = Table.read(Path(long_term.__file__).with_name(f"{name}.toml"))
    held = {(*key[:4], key.config) for key in rows.held(record.RESULTS / f"{name}.csv")}
    spec = find_spec(table.dataset)
    ends = spec.split
    for (column, lookback), horizon in product(LOOKBACKS.items(), table.horizons):
        config = fit_of(horizon, lookback).row(table.dataset, ends[1] - ends[0])["config"]
        assert ("closed-form", column, lookback, horizon, config) in held


@pytest.mark.data
@pytest.mark.parametrize(("name", "mse", "mae"), [("network_etth1", 0.3624, 0.3858), ("network_etth2", 0.2856, 0.3401)])
def test_the_closed_form_of_the_committed_networks_has_its_known_error(
    name: str, mse: float, mae: float, data_folder: Path, tmp_path: Path
) -> None:
    table = Path(long_term.__file__).with_name(f"{name}.toml")
    call = ["--horizons", "96", "--seeds", "0", "--device", "cpu", "--root", str(data_folder), "--out", str(tmp_path)]
    long_term.main([str(table), "--closed-form", *call])
    _, row = record.read(tmp_path / f"{name}.csv")
    assert float(row["mse"]) == pytest.approx(mse, abs=5e-5)
    assert float(row["mae"]) == pytest.approx(mae, abs=5e-5)


# The estimator as it comes


def by_hand(model: TitansForecaster, data: Dataset, every: int = 1) -> tuple[float, float]:
    """MSE and MAE in the space of the data set's scaler, of forecasts from the rows before each origin of test."""
    horizon, test = model.horizon_, data.split.test
    frame = data.frame.set_axis(pd.date_range(data.frame.index[0], periods=len(data.frame), freq=data.freq))
    errors = []
    for origin in range(test.start, test.stop - horizon + 1, every):
        forecast = model.predict(df=frame.iloc[origin - model.lookback_ : origin])
        truth = frame.iloc[origin : origin + horizon]
        errors.append((forecast.to_numpy() - truth.to_numpy()) / data.scaler.scale_)
    return float(np.square(errors).mean()), float(np.abs(errors).mean())


@pytest.fixture
def default_table(tmp_path: Path) -> Path:
    path = tmp_path / "default.toml"
    path.write_text('dataset = "ETTh1"\nhorizons = [48]\nseeds = [0]\n')
    return path


def test_a_row_of_the_estimator_has_the_errors_of_its_forecasts(
    small: Dataset, default_table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_term, "load_dataset", lambda name, root: small)
    long_term.main([str(default_table), "--out", str(tmp_path), "--device", "cpu", "--closed-form"])
    naive, row = record.read(tmp_path / "default.csv")
    assert [naive["model"], row["model"]] == ["seasonal-naive", "closed-form"]
    given = dict(horizon=48, lookback=96, val_size=200, max_epochs=0, random_state=0, device="cpu", verbose=0)
    model = TitansForecaster(**given).fit(small.frame.iloc[:800])
    assert len(model.summary()) > 0
    mse, mae = by_hand(model, small)
    assert float(row["mse"]) == pytest.approx(mse, rel=1e-5)  # float32, and the CSV's digits
    assert float(row["mae"]) == pytest.approx(mae, rel=1e-5)
    assert float(row["mse"]) < float(naive["mse"])


def test_the_estimator_as_it_comes_is_trained_and_its_mixers_are_measured_beside_it(
    small: Dataset, default_table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_term, "load_dataset", lambda name, root: small)
    trained = []

    def fitted(self: Fit, data: Dataset, **parameters: Any) -> tuple[FittedModel, float]:
        trained.append((self.forecaster(200).mixer, parameters))
        return fit(self, data, max_epochs=0), 1.0

    def fit(self: Fit, data: Dataset, **parameters: Any) -> FittedModel:
        return self.forecaster(200, **parameters).fit(data.frame.iloc[:800]).fitted_

    monkeypatch.setattr(Fit, "fitted", fitted)
    call = [str(default_table), "--out", str(tmp_path), "--device", "cpu", "--columns", "i", "ii", "--verbose", "0"]
    long_term.main([*call, "--mixers", "memory", "none"])
    assert trained == [("memory", {"max_epochs": 0}), ("memory", {}), ("none", {})]
    found = record.read(tmp_path / "default.csv")
    assert [(row["model"], row["column"]) for row in found] == [
        *[("seasonal-naive", "i"), ("closed-form", "i"), ("seasonal-naive", "ii"), ("closed-form", "ii")],
        *[("titans", "i"), ("titans", "ii"), ("simba-none", "i"), ("simba-none", "ii")],
    ]
    assert len({row["config"] for row in found}) == 2
    long_term.main([*call, "--mixers", "memory", "none"])
    assert len(record.read(tmp_path / "default.csv")) == 8


@pytest.mark.data
def test_the_estimator_on_etth1_has_the_errors_of_its_row(data_folder: Path) -> None:
    data = load_dataset("ETTh1", root=data_folder)
    given = dict(horizon=96, lookback=96, val_size=2880, max_epochs=0, random_state=0, device="cpu", verbose=0)
    given["context"] = "window"  # as the row's is
    model = TitansForecaster(**given).fit(data.frame.iloc[:11520])
    every = 24
    mse, mae = by_hand(model, data, every)
    fitted, _ = fit_of(96, 96).fitted(data, max_epochs=0)
    row = next(
        row
        for row in reversed(record.read(record.RESULTS / "etth1.csv"))
        if (row["model"], row["column"], row["horizon"]) == ("closed-form", "i", "96")
    )
    assert (float(row["mse"]), float(row["mae"])) == pytest.approx(errors(fitted, data), rel=1e-4)
    same = TitansForecaster(**given).set_params(outliers="keep").fit(data.frame.iloc[:11520])
    assert by_hand(same, data, every) == pytest.approx((mse, mae), rel=1e-6), "ETTh1 has no outliers"
    assert torch.equal(model.network_.linear.weight, fitted.network.linear.weight)
