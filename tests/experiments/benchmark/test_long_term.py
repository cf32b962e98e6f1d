"""The long-term benchmark, on a small set of the same shape and on the real files."""

from __future__ import annotations

import csv
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from benchmark import long_term, rows
from benchmark.table import LOOKBACKS, Table, Variant
from record import RESULTS
from titans_ts.datasets import Dataset


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_every_row_asked_for_is_printed_and_in_the_csv(
    small: Dataset, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(long_term, "load_dataset", lambda name, root: small)

    long_term.main([str(table), "--out", str(tmp_path), "--columns", "i", "ii", "--device", "cpu", "--horizons", "6"])

    found = rows_of(tmp_path / "small.csv")
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
    models = [row["model"] for row in rows_of(tmp_path / "small.csv")]
    assert models == ["seasonal-naive", "closed-form", "simba-none", "simba-attention"]

    table.write_text(table.read_text().replace("d_model = 8", "d_model = 16"))  # another network is another row
    long_term.main([*call, "--mixers", "none", "--seeds", "0", "1"])
    found = rows_of(tmp_path / "small.csv")
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

    found = rows_of(tmp_path / "small.csv")
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
    found = rows_of(tmp_path / "small.csv")
    assert [row["model"] for row in found[2:]] == ["titans"]
    assert found[1]["config"] == found[2]["config"]


@pytest.mark.parametrize(("column", "counted"), [("i", 395), ("ii", 384)])
def test_column_ii_drops_the_last_partial_batch_of_windows(
    column: str, counted: int, small: Dataset, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_term, "load_dataset", lambda name, root: small)
    call = [str(table), "--out", str(tmp_path), "--device", "cpu", "--horizons", "6", "--columns", column]
    long_term.main([*call, "--closed-form"])
    naive = float(rows_of(tmp_path / "small.csv")[0]["mse"])
    scaled = small.scaler.transform(small.frame)
    errors = [scaled[t - 24 : t - 18] - scaled[t : t + 6] for t in range(800, 800 + counted)]
    assert naive == pytest.approx(np.mean(np.square(errors)), abs=1e-6)  # the CSV's digits


@pytest.mark.parametrize("name", ["etth1", "etth2", "ettm1", "ettm2", "weather"])
def test_the_rows_of_the_committed_tables_are_held(name: str) -> None:
    """Else `make tables` would measure them again: write the new hashes where the networks are the same."""
    table = Table.read(Path(long_term.__file__).with_name(f"{name}.toml"))
    held = rows.held(RESULTS / f"{name}.csv")
    mixer = Variant.of_mixer("memory")
    n_series = 21 if name == "weather" else 7
    for (column, lookback), horizon, seed in product(LOOKBACKS.items(), table.horizons, table.seeds):
        configs = table.configs(horizon, lookback, n_series, mixer, seed)
        config = long_term.Run(mixer, *configs, [column], False, 0).row(table.dataset)["config"]
        assert rows.Key("titans", column, lookback, horizon, seed, config) in held


@pytest.mark.data
@pytest.mark.parametrize(("name", "mse", "mae"), [("etth1", 0.3624, 0.3858), ("etth2", 0.2856, 0.3401)])
def test_the_closed_form_of_the_committed_tables_has_its_known_error(
    name: str, mse: float, mae: float, data_folder: Path, tmp_path: Path
) -> None:
    table = Path(long_term.__file__).with_name(f"{name}.toml")
    call = ["--horizons", "96", "--seeds", "0", "--device", "cpu", "--root", str(data_folder), "--out", str(tmp_path)]
    long_term.main([str(table), "--closed-form", *call])
    _, row = rows_of(tmp_path / f"{name}.csv")
    assert float(row["mse"]) == pytest.approx(mse, abs=5e-5)
    assert float(row["mae"]) == pytest.approx(mae, abs=5e-5)
