"""The benchmark of speed and memory: ours at tiny sizes, beside packages that are absent."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from speed import efficiency
from titans_ts.datasets import Dataset, Split

TINY = efficiency.Setup(
    repeats=1, d_model=8, batch=2, few=1, more=3, rows=300, calls=3, many=((30, 150),), closed_forms=((12, 6),)
)


@pytest.fixture(autouse=True)
def _no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("titans_pytorch", "neuralforecast"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(efficiency, "in_a_process", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(efficiency, "Setup", lambda **given: replace(TINY, **given))


def test_every_row_is_printed_and_in_the_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["--cpu", "--threads", str(torch.get_num_threads()), "--repeats", "2", "--out", str(tmp_path)]

    efficiency.main([*call, "--only", "layer,step,closed-form"])
    efficiency.main([*call, "--only", "latency,many", "--root", str(tmp_path)])

    with (tmp_path / "efficiency_cpu.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert ",".join(rows[0]) == "benchmark,name,value,unit,ratio,target,device,threads,versions,commit"
    counts = Counter(row["benchmark"] for row in rows)
    assert counts == {"layer": 1, "step": 1, "closed-form": 2, "latency": 8, "many": 6}
    assert all(float(row["value"]) > 0 for row in rows if row["benchmark"] != "step")  # a difference of two times
    assert {row["threads"] for row in rows} == {str(torch.get_num_threads())}
    assert "torch" in rows[0]["versions"]
    assert any(row["name"] == f"30 x 150: peak memory with {30 * (150 - 96 - 24 + 1)} windows" for row in rows)
    printed = capsys.readouterr().out
    assert all(row["name"] in printed for row in rows)


@pytest.mark.parametrize(("benchmark", "module"), [("layer", "titans_pytorch"), ("step", "neuralforecast")])
def test_an_absent_package_is_named_with_its_remedy(
    benchmark: str, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = efficiency.BENCHMARKS[benchmark](TINY)

    assert [(row.name, row.ratio) for row in rows] == [("titans", 1.0)]
    printed = capsys.readouterr().out
    assert f"{benchmark}: nothing to compare with, {module} cannot be imported" in printed
    assert "pip install -c constraints.txt -e '.[bench]'" in printed


def test_quality_is_that_of_the_tables_network(monkeypatch: pytest.MonkeyPatch) -> None:
    index = pd.date_range("2016-07-01", periods=1100, freq="h", name="date")
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(1100, 2)), index, ["a", "b"])
    split = Split(range(500), range(500, 800), range(800, 1100))
    small = Dataset(frame, "ETTh1", "h", split, StandardScaler().fit(frame.iloc[:500]))
    monkeypatch.setattr(efficiency, "load_dataset", lambda name, **how: small)

    rows = {(row.name, row.unit): row for row in efficiency.quality(TINY)}

    assert set(rows) == {(name, unit) for name in ("titans, closed form alone", "titans") for unit in ("s", "MSE")}
    assert rows["titans", "MSE"].target.endswith("missed")  # noise of variance 1


def test_quality_without_its_data_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(name: str, **how: object) -> None:
        raise FileNotFoundError(f"{name} is nowhere.")

    monkeypatch.setattr(efficiency, "load_dataset", absent)

    assert list(efficiency.quality(TINY)) == []
    assert capsys.readouterr().out == "quality: skipped; ETTh1 is nowhere.\n"


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        efficiency.main(["--cpu", "--only", "layers"])
    words = "`--only` must be some of layer, step, closed-form, quality, latency, many, full, got layers."
    assert words in capsys.readouterr().err
