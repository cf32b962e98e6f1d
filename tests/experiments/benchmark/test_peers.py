"""Other packages' networks: which rows are held, what is measured, and what is said where the package is absent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmark import peers
from benchmark.peer_models import Quality
from benchmark.peers import held
from record import read
from titans_ts.datasets import Dataset, Split


def test_a_row_is_held_for_the_most_steps_that_it_was_given_not_for_those_it_took(tmp_path: Path) -> None:
    path = tmp_path / "etth1.csv"
    assert held(path) == set()
    path.write_text(
        "model,column,lookback,horizon,seed,config\n"
        "NHITS,i,96,96,0,1000 steps\n"
        "PatchTST,i,96,192,1,700 of 5000 steps\n"
        "titans,iii,512,96,0,69e76e0c0e1a\n"
    )
    assert held(path) == {("NHITS", 96, 0, "1000 steps"), ("PatchTST", 192, 1, "5000 steps")}


def test_an_absent_package_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "neuralforecast", None)
    with pytest.raises(SystemExit):
        peers.main(["etth1.toml"])
    printed = capsys.readouterr().out
    assert "peers: nothing to compare with, neuralforecast cannot be imported" in printed
    assert "pip install -c constraints.txt -e '.[bench]'" in printed


def test_each_model_is_measured_once(
    small: Dataset, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int, int]] = []

    def quality(name: str, scaled: Any, split: Split, horizon: int, steps: int, seed: int) -> Quality:
        asked.append((name, horizon, steps))
        return Quality(1.234, 0.5, 0.25, steps - 1)

    monkeypatch.setattr(peers, "load_dataset", lambda name, root: small)
    monkeypatch.setattr(peers, "peer", lambda module, benchmark: True)
    monkeypatch.setattr(peers, "peer_quality", quality)
    call = [str(table), "--out", str(tmp_path), "--steps", "10", "--models"]

    peers.main([*call, "NHITS", "--horizons", "6"])
    peers.main([*call, "NHITS", "DLinear", "--horizons", "6"])

    assert asked == [("NHITS", 6, 10), ("DLinear", 6, 10)]
    first, _ = read(tmp_path / "small.csv")
    assert [first[name] for name in ("mse", "mae", "seconds", "config")] == [
        "0.500000",
        "0.250000",
        "1.23",
        "9 of 10 steps",
    ]
