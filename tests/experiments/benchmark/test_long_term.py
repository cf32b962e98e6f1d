"""The long-term benchmark, on a small set of the same shape and on the real files."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from benchmark import long_term
from benchmark.data import Benchmark
from titans_ts.datasets import Dataset, load_dataset
from titans_ts.model import ModelConfig
from titans_ts.start import started_network
from titans_ts.training import evaluate


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

    table.write_text(table.read_text().replace("d_model = 8", "d_model = 16"))  # another network is another row
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


def test_the_rows_of_a_subset_are_kept_apart(small_subset: Path, tmp_path: Path) -> None:
    arguments = ["--subset", str(small_subset), "--out", str(tmp_path), "--verbose", "0"]
    table = tmp_path / "tiny.toml"
    table.write_text(
        'dataset = "electricity"\nhorizons = [6]\nseeds = [0]\n[model]\nd_model = 8\n[train]\nmax_epochs = 0\n'
    )
    long_term.main([str(table), *arguments])
    assert not (tmp_path / "tiny.csv").exists()
    with (tmp_path / "tiny_subset.csv").open() as file:
        assert {row["dataset"] for row in csv.DictReader(file)} == {"electricity, 2 of 321 series"}


def test_the_closed_form_alone_is_measured_without_training(
    small: Dataset, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(long_term, "load_dataset", lambda name, root: small)
    call = [str(table), "--out", str(tmp_path), "--device", "cpu", "--horizons", "6", "--seeds", "0"]

    long_term.main([*call, "--closed-form"])
    alone = rows_of(tmp_path / "small.csv")
    assert [row["model"] for row in alone] == ["seasonal-naive", "closed-form"]
    long_term.main([*call, "--closed-form"])
    assert "titans seed 0: in the CSV already" in capsys.readouterr().out
    long_term.main(call)
    rows = rows_of(tmp_path / "small.csv")
    assert [row["model"] for row in rows[2:]] == ["titans"]
    assert rows[1]["config"] == rows[2]["config"]


@pytest.mark.data
@pytest.mark.parametrize(("name", "expected"), [("ETTh1", 0.3709), ("ETTh2", 0.2854)])
def test_the_closed_form_reaches_its_known_error(data_folder: Path, name: str, expected: float) -> None:
    data = load_dataset(name, root=data_folder, download=False)
    benchmark = Benchmark(data, torch.device("cpu"))
    parts = {part: benchmark.windows(getattr(data.split, part), 96, 96) for part in data.split._fields}
    assert [len(windows) // 7 for windows in parts.values()] == [8449, 2785, 2785]
    config = ModelConfig(lookback=96, horizon=96, n_series=7, cycle=24, d_model=8, scale_windows=False)

    network = started_network(config, parts["train"], parts["validation"], benchmark.profile(24), 0)

    assert evaluate(network, parts["test"]) == pytest.approx(expected, abs=5e-5)
