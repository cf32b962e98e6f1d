"""The benchmark script, on a small set of the same shape and on the real files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import long_term
import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from titans_ts.datasets import Dataset, Split

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
MEMORY = long_term.Variant.of_mixer("memory")
TOML = """
dataset = "ETTh1"
horizons = [6, 12]
seeds = [0, 1]

[model]
cycle = 24
d_model = 8
n_layers = 1

[train]
max_epochs = 1

[horizon.12.train]
learning_rate = 2e-3

[published]
Paper = [0.5, 0.6]
"""


@pytest.fixture
def small() -> Dataset:
    """Two channels of 1200 hours: 600 train, 200 validation, 400 test."""
    hour = np.arange(1200)
    noise = np.random.default_rng(0).normal(0, 0.3, (2, 1200))
    frame = pd.DataFrame(
        {"a": 5 + np.sin(hour * 2 * np.pi / 24) + noise[0], "b": 3 * np.cos(hour * 2 * np.pi / 24) + noise[1]},
        index=pd.date_range("2016-07-01", periods=1200, freq="h", name="date"),
    )
    split = Split(range(600), range(600, 800), range(800, 1200))
    return Dataset(frame, "ETTh1", "h", split, StandardScaler().fit(frame.iloc[:600]))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(TOML)
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_every_row_asked_for_is_printed_and_in_the_csv(
    small: Dataset, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(long_term, "load_dataset", lambda name, root: small)

    long_term.main([str(table), "--out", str(tmp_path), "--columns", "i", "ii", "--device", "cpu", "--horizons", "6"])

    rows = rows_of(tmp_path / "small.csv")
    assert ",".join(rows[0]) == (
        "dataset,model,column,lookback,horizon,seed,mse,mae,seconds,device,versions,commit,config"
    )
    models = [(row["model"], row["column"], row["seed"]) for row in rows]
    assert models == [
        *[("seasonal-naive", "i", "0"), ("closed-form", "i", "0"), ("seasonal-naive", "ii", "0")],
        *[("closed-form", "ii", "0"), ("titans", "i", "0"), ("titans", "ii", "0"), ("titans", "i", "1")],
        ("titans", "ii", "1"),
    ]
    assert {row["lookback"] for row in rows} == {"96"}
    naive = float(rows[0]["mse"])
    assert all(0 < float(row["mse"]) < 0.7 * naive for row in rows if row["model"] != "seasonal-naive")
    printed = capsys.readouterr().out
    assert f"{float(rows[4]['mse']):.4f}" in printed
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
    models = [row["model"] for row in rows_of(tmp_path / "small.csv")]
    assert models == ["seasonal-naive", "closed-form", "simba-none", "simba-attention"]

    table.write_text(TOML.replace("d_model = 8", "d_model = 16"))  # another network is another row
    long_term.main([*call, "--mixers", "none", "--seeds", "0", "1"])
    rows = rows_of(tmp_path / "small.csv")
    assert [row["model"] for row in rows[4:]] == ["simba-none", "simba-none"]
    assert rows[2]["config"] != rows[4]["config"]


def test_variants_differ_by_what_their_file_says(
    small: Dataset, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_term, "load_dataset", lambda name, root: small)
    variants = tmp_path / "variants.toml"
    variants.write_text('["no EinFFT".model]\nfeature_mixer = "none"\n[slow.train]\nlearning_rate = 1e-6\n')
    call = [str(table), "--out", str(tmp_path), "--device", "cpu", "--horizons", "6", "--seeds", "0"]

    long_term.main([*call, "--variants", str(variants), "--mixers", "memory"])

    rows = rows_of(tmp_path / "small.csv")
    assert [row["model"] for row in rows] == ["seasonal-naive", "closed-form", "titans", "no EinFFT", "slow"]
    assert len({row["config"] for row in rows[2:]}) == 3
    read = long_term.Variant.read(variants)
    config, train = long_term.Table.read(table).configs(12, 96, 2, read[1], 0)
    assert (config.feature_mixer, train.learning_rate) == ("einfft", 1e-6), "over what the horizon says"
    variants.write_text("[slow.train]\nlearning_rat = 1e-6\n")
    with pytest.raises(ValueError, match=r"\[slow.train\]: unknown key 'learning_rat'"):
        long_term.Variant.read(variants)


@pytest.mark.parametrize(
    ("table", "variants"),
    [
        ("etth1", "ablation"),
        ("plain_etth1", "ablation_plain"),
        ("plain_etth2", "ablation_plain"),
        ("plain_etth1", "settings_plain"),
    ],
)
def test_the_committed_ablations_change_what_every_variant_names(table: str, variants: str) -> None:
    settings = long_term.Table.read(EXPERIMENTS / f"{table}.toml")
    base, _ = settings.configs(96, 96, 7, MEMORY, 0)
    for variant in long_term.Variant.read(EXPERIMENTS / f"{variants}.toml"):
        config, _ = settings.configs(96, 96, 7, variant, 0)
        assert variant.model
        assert not variant.train
        assert all(getattr(base, name) != value == getattr(config, name) for name, value in variant.model.items())


def test_a_subset_is_named_as_one_and_kept_apart(small_subset: Path, tmp_path: Path) -> None:
    data = long_term.subset("electricity", small_subset)
    assert data.name == "electricity, 2 of 321 series"
    assert data.frame.shape == (26304, 2)
    assert (len(data.split.train), len(data.split.test)) == (int(0.7 * 26304), int(0.2 * 26304))
    np.testing.assert_allclose(data.scaler.mean_, data.frame.to_numpy()[data.split.train].mean(0))
    arguments = ["--subset", str(small_subset), "--out", str(tmp_path), "--verbose", "0"]
    table = tmp_path / "tiny.toml"
    table.write_text(
        'dataset = "electricity"\nhorizons = [6]\nseeds = [0]\n[model]\nd_model = 8\n[train]\nmax_epochs = 0\n'
    )
    long_term.main([str(table), *arguments])
    assert not (tmp_path / "tiny.csv").exists()
    with (tmp_path / "tiny_subset.csv").open() as file:
        assert {row["dataset"] for row in csv.DictReader(file)} == {"electricity, 2 of 321 series"}


@pytest.fixture
def small_subset(tmp_path: Path) -> Path:
    """Two clients of electricity, made up."""
    index = pd.date_range("2016-07-01 02:00", periods=26304, freq="h", name="date")
    values = np.random.default_rng(0).normal(size=(26304, 2))
    path = tmp_path / "two.csv"
    pd.DataFrame(values, index, ["0", "OT"]).to_csv(path)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.rename(columns={"0": "999"}), r"columns \['999'\], which are not in electricity"),
        (lambda frame: frame[:-1], "must have the 26304 rows of electricity, got 26303"),
    ],
)
def test_what_is_no_subset_is_refused(small_subset: Path, change: Any, message: str) -> None:
    change(pd.read_csv(small_subset, index_col=0)).to_csv(small_subset)
    with pytest.raises(ValueError, match=message):
        long_term.subset("electricity", small_subset)


def test_a_horizon_can_refine_the_training(table: Path) -> None:
    read = long_term.Table.read(table)

    rates = [read.configs(horizon, 96, 2, MEMORY, 0)[1].learning_rate for horizon in (6, 12)]

    assert rates == [1e-3, 2e-3]


def test_a_lookback_can_refine_the_training_and_a_horizon_refines_that(table: Path) -> None:
    table.write_text(
        TOML + "[lookback.512.train]\nlearning_rate = 5e-3\nloss = 'mae'\n[lookback.512.model]\nd_model = 16\n"
    )
    read = long_term.Table.read(table)
    found = {(lookback, h): read.configs(h, lookback, 2, MEMORY, 0) for lookback in (96, 512) for h in (6, 12)}
    assert {key: train.learning_rate for key, (_, train) in found.items()} == {
        (96, 6): 1e-3,
        (96, 12): 2e-3,
        (512, 6): 5e-3,
        (512, 12): 2e-3,
    }
    assert [(train.loss, model.d_model) for model, train in found.values()] == [("mse", 8)] * 2 + [("mae", 16)] * 2
    table.write_text(TOML + "[lookback.512.train]\nlearning_rat = 5e-3\n")
    with pytest.raises(ValueError, match=r"\[lookback.512.train\]: unknown key 'learning_rat'"):
        long_term.Table.read(table)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("d_model", "d_modle", r"small.toml \[model\]: unknown key 'd_modle'; did you mean 'd_model'\?"),
        ("max_epochs", "epochs", r"\[train\]: unknown key 'epochs'; did you mean 'max_epochs'\?"),
        ("seeds", "sedes", r"small.toml: unknown key 'sedes'; did you mean 'seeds'\?"),
        ("learning_rate", "lookback", r"\[horizon.12.train\]: unknown key 'lookback'"),
        ('dataset = "ETTh1"', "", r"`dataset` is missing"),
    ],
)
def test_an_unknown_or_missing_key_is_named(table: Path, old: str, new: str, words: str) -> None:
    table.write_text(TOML.replace(old, new))
    with pytest.raises(ValueError, match=words):
        long_term.Table.read(table)


@pytest.mark.parametrize("name", ["etth1", "etth2", "ettm1", "ettm2", "weather"])
def test_the_committed_tables_are_valid(name: str) -> None:
    read = long_term.Table.read(EXPERIMENTS / f"{name}.toml")
    for horizon in read.horizons:
        config, _ = read.configs(horizon, 96, 7, MEMORY, 0)
        assert (config.horizon, config.lookback) == (horizon, 96)


def test_column_ii_drops_the_last_partial_batch_of_windows(small: Dataset) -> None:
    benchmark = long_term.Benchmark(small, long_term.torch.device("cpu"))
    size = 400 - 6 + 1

    whole = benchmark.windows(small.split.test, 96, 6)
    dropped = benchmark.windows(small.split.test, 96, 6, dropped=size % 128)

    assert (len(whole), len(dropped)) == (2 * size, 2 * 384)


def test_seasonal_naive_repeats_the_last_season(small: Dataset) -> None:
    benchmark = long_term.Benchmark(small, long_term.torch.device("cpu"))

    mse, mae = long_term.seasonal_naive(benchmark.windows(small.split.test, 96, 30), 24)

    scaled = small.scaler.transform(small.frame)
    errors = [
        np.concatenate([scaled[t - 24 : t], scaled[t - 24 : t - 18]]) - scaled[t : t + 30] for t in range(800, 1171)
    ]
    # float32 values, summed in float64
    assert mse == pytest.approx(np.mean(np.square(errors)), rel=1e-6)
    assert mae == pytest.approx(np.mean(np.abs(errors)), rel=1e-6)


@pytest.mark.data
@pytest.mark.parametrize(("name", "expected"), [("ETTh1", 0.3709), ("ETTh2", 0.2854)])
def test_the_closed_form_start_reaches_its_known_error(data_folder: Path, name: str, expected: float) -> None:
    data = long_term.load_dataset(name, root=data_folder, download=False)
    benchmark = long_term.Benchmark(data, long_term.torch.device("cpu"))
    parts = {part: benchmark.windows(getattr(data.split, part), 96, 96) for part in data.split._fields}
    assert [len(windows) // 7 for windows in parts.values()] == [8449, 2785, 2785]
    config = long_term.ModelConfig(lookback=96, horizon=96, n_series=7, cycle=24, d_model=8, scale_windows=False)

    network = long_term.started_network(config, parts["train"], parts["validation"], benchmark.profile(24), 0)

    assert long_term.evaluate(network, parts["test"]) == pytest.approx(expected, abs=5e-5)


def test_where_a_season_is_longer_than_the_lookback_naive_repeats_the_last_step(small: Dataset) -> None:
    benchmark = long_term.Benchmark(small, long_term.torch.device("cpu"))
    windows = benchmark.windows(small.split.test, 12, 30)
    assert long_term.seasonal_naive(windows, 24) == long_term.seasonal_naive(windows, 1)
