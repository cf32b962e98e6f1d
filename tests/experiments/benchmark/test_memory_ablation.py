"""What each part of the long-term memory is worth, on a small data set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

import record
from benchmark import memory_ablation
from benchmark.memory_ablation import PARTS, change, main, measure, table
from benchmark.memory_origins import Subject
from titans_ts.datasets import Dataset
from titans_ts.model.long_term import Block, LongTermMemory
from titans_ts.stream.training import MemoryTraining


@pytest.fixture
def subject(small: Dataset) -> Subject:
    """A rhythm changes in the validation rows, and grows, so that there is something to learn."""
    hour = np.arange(len(small.frame))
    new = np.clip((hour - 620) / 200, 0, None) * np.sin(hour * 4 * np.pi / 24)
    return Subject(replace(small, frame=small.frame + new[:, None]), 12)


def test_every_part_changes_the_error_and_nothing_stays_changed(subject: Subject) -> None:
    functions = Block._shares, Block._whitening
    found = {name: measure(subject, part) for name, part in PARTS.items()}
    assert (Block._shares, Block._whitening) == functions
    unlike = {name: row["mse"] for name, row in found.items() if "learned" not in name}
    del unlike["gate of half-life 90 alone"]  # as it comes, where agreement only grows
    assert len({*unlike.values()}) == len(unlike)
    assert found["never writes"]["mse"] == pytest.approx(found["never writes"]["frozen_mse"], rel=1e-6)
    frozen = {row["frozen_mse"] for row in found.values()}
    assert max(frozen) == pytest.approx(min(frozen))  # by blocks the sums are of other parts


def test_what_is_learned_is_what_is_read(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    trainings = []

    def never_writing(self: Subject, memory: LongTermMemory, training: MemoryTraining) -> LongTermMemory:
        trainings.append(training)
        return self.memory(replace(memory.config, rates=(0.0,)))

    monkeypatch.setattr(Subject, "trained", never_writing)
    row = measure(subject, PARTS["learned keys"])
    assert row["mse"] == pytest.approx(row["frozen_mse"], rel=1e-6)
    assert [(t.gates_rate, t.maps_rate > 0, t.weights_rate) for t in trainings] == [(0, True, 0)]


def test_keys_without_the_forecast_do_not_depend_on_it(subject: Subject) -> None:
    with PARTS["keys without the forecast"].changed():
        (block,) = subject.memory(subject.config).parts
    assert (block.whitening[:, -12:] == 0).all()
    assert (block.whitening[:, :-12].abs().sum((1, 2)) > 0).all()


def test_keys_that_are_not_whitened_are_features_of_mean_square_length_one(subject: Subject) -> None:
    with PARTS["keys not whitened"].changed():
        (block,) = subject.memory(subject.config).parts
    n = block.whitening.shape[1]
    diagonal = block.whitening[0].diagonal()
    assert torch.equal(block.whitening[0, :, :n], torch.diag(diagonal))
    assert (diagonal == diagonal[0]).all()
    part = subject.stream(subject.config).groups[0][1][0]
    inside = torch.from_numpy(part.rows[0] + 12 <= subject.split.train.stop)
    keys = part.origins.features[0, inside] @ block.whitening[0]
    assert keys.square().sum(1).mean().item() == pytest.approx(1, rel=1e-4)


def test_rows_are_measured_once_and_the_table_has_means(
    tmp_path: Path, small: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    given = ["etth1", "--horizons", "6", "12", "--parts", "never writes", "no gate", "--out", str(out)]
    with patch.object(memory_ablation, "load_dataset", lambda name, root: small):
        main(given)
        first = out.read_text()
        main(given)
    assert out.read_text() == first
    rows = record.read(out)
    assert [(row["horizon"], row["part"]) for row in rows] == [
        (horizon, part) for horizon in ("6", "12") for part in ("never writes", "no gate")
    ]
    gains = [change(row) for row in rows if row["part"] == "no gate"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "| never writes | +0.0 / +0.0 | +0.0 / +0.0 |"
    assert lines[-1].startswith(f"| no gate | {sum(gains) / 2:+.1f} / ")


def test_the_results_show_what_the_committed_csv_holds() -> None:
    printed = "\n".join(table(record.read(record.RESULTS / "memory_ablation.csv"), "i"))
    assert f"\n{printed}\n" in (record.RESULTS.parent / "RESULTS.md").read_text()


def test_a_dash_stands_where_a_horizon_is_missing() -> None:
    row = {"column": "i", "mse": "0.9", "frozen_mse": "1", "validation_mse": "2", "frozen_validation_mse": "1"}
    rows = [
        row | {"dataset": "a", "horizon": "96", "part": "x"},
        row | {"dataset": "b", "horizon": "96", "part": "x"},
        row | {"dataset": "a", "horizon": "336", "part": "x", "mse": "0.7"},
    ]
    assert [*table(rows, "i")][-1] == "| x | -20.0 / +100.0 | – | – |"
