"""The stream tables by their command, on a small data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import record
from benchmark import stream, stream_data
from benchmark.estimator import Fit, errors
from benchmark.stream_rows import FROZEN, ROWS, Errors
from benchmark.table import Variant
from titans_ts.datasets import Dataset
from titans_ts.datasets.registry import find_spec


@pytest.fixture
def call(small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(stream, "load_dataset", lambda name, root: small)
    monkeypatch.setattr(stream, "LOOKBACKS", {"i": 24, "iii": 48})
    arguments = ["--datasets", "ETTh1", "--columns", "i", "--horizons", "6", "--out", str(tmp_path)]
    return ["S1", *arguments, "--errors", str(tmp_path / "errors")]


def test_every_row_is_in_the_csv_with_its_difference_from_the_frozen_core(
    call: list[str], small: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream.main(call)
    found = record.read(tmp_path / "stream.csv")
    assert [row["row"] for row in found] == list(ROWS)
    fit = Fit(Variant.of_mixer("memory"), 6, 24, 0, ["i"], True, "cpu", 0)
    mse, mae = errors(fit.fitted(small, max_epochs=0)[0], small)
    assert float(found[0]["mse"]) == pytest.approx(mse, rel=1e-5)
    assert float(found[0]["mae"]) == pytest.approx(mae, rel=1e-5)
    assert float(found[0]["difference"]) == float(found[0]["high"]) == 0.0
    for row in found:
        assert float(row["difference"]) == pytest.approx(float(row["mse"]) - mse, abs=2e-6)
        assert float(row["low"]) <= float(row["difference"]) <= float(row["high"])
        channels = [float(x) for x in row["channel_mse"].split()]
        assert np.mean(channels) == pytest.approx(float(row["mse"]), rel=1e-4)
        kept = Errors.load(tmp_path / "errors" / "S1_ETTh1_i_24_6" / f"{row['row'].replace(' ', '_')}.npz")
        assert kept.squared[-395:].mean() == pytest.approx(float(row["mse"]), rel=1e-5)
    by_name = {row["row"]: row for row in found}
    assert by_name["frozen on train and validation"]["validation_mse"] == ""
    assert by_name["refitted every day"]["updates"] == "25", "595 origins"
    assert float(by_name["refitted every day"]["seconds_per_update"]) > 0
    printed = capsys.readouterr().out
    assert "Table S1, ETTh1, column i, lookback 24, horizon 6" in printed


def test_a_second_run_goes_on(call: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream.main([*call, "--rows", "last value"])
    stream.main([*call, "--rows", "last value", FROZEN])
    stream.main([*call, "--rows", "last value", FROZEN])
    assert [row["row"] for row in record.read(tmp_path / "stream.csv")] == ["last value", FROZEN]
    assert "S1_ETTh1_i_24_6: in the CSV already" in capsys.readouterr().out


def test_table_s2_has_its_own_split_and_one_lookback(
    call: list[str], small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_data, "ETT_HOURS", (300, 500, 1200))
    stream.main(["S2", *call[1:], "--rows", "last value", "--lookback", "12"])
    (row,) = record.read(tmp_path / "stream.csv")
    assert (row["table"], row["column"], row["lookback"]) == ("S2", "S2", "12")
    scaled = (small.frame - small.frame.iloc[:300].mean()) / small.frame.iloc[:300].std(ddof=0)
    values = scaled.to_numpy()
    wanted = [np.square(values[at : at + 6] - values[at - 1]).mean() for at in range(500, 1195)]
    assert float(row["mse"]) == pytest.approx(np.mean(wanted), rel=1e-5)


def test_printing_measures_nothing(call: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream.main([*call, "--rows", FROZEN])
    before = (tmp_path / "stream.csv").read_text()
    capsys.readouterr()
    stream.main([*call, "--print"])
    assert (tmp_path / "stream.csv").read_text() == before
    assert "frozen on train" in capsys.readouterr().out


def test_rows_are_compared_by_the_errors_that_were_kept(tmp_path: Path) -> None:
    spec = find_spec("ETTh1")
    first, last = spec.split[1], spec.split[2] - 96 + 1
    rng = np.random.default_rng(0)
    base = rng.uniform(1, 2, (last - first + 100, 2)).astype(np.float32)  # 100 origins of validation among them
    noise = rng.normal(0, 0.01, base.shape).astype(np.float32)
    for name, errors_ in (("refitted_every_day", base), ("long-term_memory", base - 0.15 + noise)):
        Errors(first - 100, errors_, errors_).save(tmp_path / "S1_ETTh1_i_96_96" / f"{name}.npz")
    cell = dict(table="S1", dataset="ETTh1", column="i", lookback="96", horizon="96")
    names = "refitted every day", "long-term memory", "last value"  # of which the last has no errors there
    found = [{**cell, "row": name} for name in names]
    (line,) = stream.differences(found, tmp_path, "refitted every day")
    words = line.split()
    assert words[:3] == ["S1_ETTh1_i_96_96:", "long-term", "memory"]
    assert float(words[3]) == pytest.approx(-0.15, abs=0.001)
    assert float(words[4].strip("[,")) < -0.15 < float(words[5].strip("]"))
    assert words[6:] == ["(-10.0", "%)"]


def test_a_comparison_asks_for_the_errors(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="name their folder by `--errors`"):
        stream.main(["S1", "--against", "refitted every day", "--out", str(tmp_path)])
