"""Trainings that are cut short and go on: they end as one that was not, and go on with nothing that is another's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.tables.series_data import SeriesData
from titans_ts.training.checkpoint import FILE, Checkpoint, TrainingState
from titans_ts.training.config import TrainConfig
from titans_ts.training.history import Evaluation, History
from titans_ts.training.loop import fit_network
from titans_ts.training.probe import Probe
from titans_ts.windows.windows import Windows

LOOKBACK, HORIZON, SERIES, ROWS, TRAIN_ROWS = 8, 2, 6, 40, 28


class Killed(Exception):
    pass


def windows(last: float = 0.0) -> tuple[Windows, Windows]:
    values = np.sin(np.arange(SERIES * ROWS) / 3) + 0.3 * np.random.default_rng(0).normal(size=SERIES * ROWS)
    values[-1] += last
    lengths, starts = np.full(SERIES, ROWS), np.zeros(SERIES, dtype=np.int64)
    data = SeriesData(torch.from_numpy(values).float(), lengths, starts)
    bounds = (LOOKBACK, TRAIN_ROWS), (TRAIN_ROWS, ROWS)
    train, validation = (
        Windows(data, lookback=LOOKBACK, horizon=HORIZON, first=np.full(SERIES, a), last=np.full(SERIES, b))
        for a, b in bounds
    )
    return train, validation


def train(
    folder: Path | None,
    kill_at: int | None = None,
    parts: tuple[Windows, Windows] | None = None,
    probe: Probe | None = None,
    **changes: Any,
) -> tuple[dict[str, Tensor], History]:
    """Train, and raise at evaluation number `kill_at`; the weights and the history at the end."""
    torch.manual_seed(0)
    size = {"patch_len": 4, "stride": 4, "cycle": 5, "d_model": 8, "n_layers": 1, "n_heads": 2, "chunk_size": 4}
    config = ModelConfig(lookback=LOOKBACK, horizon=HORIZON, n_series=SERIES, mixer="none", dropout=0.2, **size)
    network, seen = SimbaForecaster(config).eval(), list[Evaluation]()

    def watch(evaluation: Evaluation) -> None:
        seen.append(evaluation)
        if len(seen) == kill_at:
            raise Killed

    how = TrainConfig(**{"batch_size": 16, "max_epochs": 3, "random_state": 3, "learning_rate": 0.01, **changes})
    checkpoint = None if folder is None else Checkpoint.at(folder)
    history = fit_network(network, *(parts or windows()), how, watch, probe=probe, checkpoint=checkpoint)
    return {name: x.clone() for name, x in network.state_dict().items()}, history


def is_same(found: tuple[dict[str, Tensor], History], expected: tuple[dict[str, Tensor], History]) -> bool:
    weights = all(torch.equal(x, expected[0][name]) for name, x in found[0].items())
    return weights and repr(found[1]) == repr(expected[1])  # NaN is not equal to itself


WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "patience": {"patience": 3, "learning_rate": 0.5, "max_epochs": 30},
    "probe": {"probe": Probe(least_series=2, steps=3, margin=-1.0)},
    "a probe that finds nothing": {"probe": Probe(least_series=2, steps=3, margin=1.0, hopeless=9.0)},
    "quick evaluations": {"evaluations_per_epoch": 50, "max_epochs": 1},
    "the last weights": {"initialisation_is_candidate": False},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_training_that_was_cut_short_ends_as_if_it_had_not_been(way: str, tmp_path: Path) -> None:
    expected = train(None, **WAYS[way])
    n = len(expected[1].evaluations)
    for kill_at in sorted({1, 2, n // 2, n}):
        folder = tmp_path / str(kill_at)
        with pytest.raises(Killed):
            train(folder, kill_at, **WAYS[way])
        assert (folder / FILE).exists() == (kill_at > 1)  # nothing was trained before
        if 1 < kill_at < n:
            with pytest.raises(Killed):  # and once more
                train(folder, 1, **WAYS[way])
        assert is_same(train(folder, **WAYS[way]), expected), f"killed at evaluation {kill_at} of {n}"


def test_writing_checkpoints_changes_nothing(tmp_path: Path) -> None:
    assert is_same(train(tmp_path), train(None))


def test_one_file_is_kept_and_a_draft_that_was_left_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "fit.new").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(Killed):
        train(tmp_path, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, "notes.txt"]
    Checkpoint.at(tmp_path).remove()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    Checkpoint.at(tmp_path).remove()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (dict(learning_rate=0.02), "learning_rate was 0.01, and is 0.02 now"),
        (dict(random_state=4, max_epochs=5), "max_epochs was 3, and is 5 now, random_state was 3, and is 4 now"),
        (dict(parts=windows(last=1.0)), "data: not the same, validation: not the same"),
        (dict(loss="mae"), "loss was 'mse', and is 'mae' now"),
        (dict(probe=Probe(least_series=2)), "probe: not the same"),
    ],
)
def test_the_checkpoint_of_another_training_is_refused_and_stays(
    changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(Killed):
        train(tmp_path, 3)
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(ValueError, match=r"^`checkpoint_dir` = .* has the checkpoint of another fit: ") as refused:
        train(tmp_path, **changed)
    assert f"another fit: {message}. Give what" in str(refused.value)
    assert (tmp_path / FILE).read_bytes() == before


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Killed):
        train(tmp_path, 3)
    monkeypatch.setattr("titans_ts.training.loop.__version__", "9.9")
    with pytest.raises(ValueError, match=r"another fit: titans_ts was .*, and is 9\.9 now\."):
        train(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"\x80\x04K\x01."])
def test_what_is_no_checkpoint_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(ValueError, match=r"fit\.safetensors' must be a checkpoint of this version, but cannot be read"):
        train(tmp_path)


def test_a_loss_that_is_no_number_leaves_no_checkpoint(tmp_path: Path) -> None:
    parts = windows()
    with pytest.raises(Killed):
        train(tmp_path, 3, parts=parts)
    parts[0]._flat[LOOKBACK + 3] = torch.nan
    with pytest.raises(ValueError, match="data: not the same"):
        train(tmp_path, parts=parts)
    Checkpoint.at(tmp_path).remove()
    with pytest.raises(FloatingPointError, match="The training loss became nan"):
        train(tmp_path, parts=parts, max_epochs=2)
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(("folder", "error"), [(3, TypeError), (True, TypeError)])
def test_what_is_no_path_is_refused(folder: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^`checkpoint_dir` must be the path of a folder or None, got"):
        Checkpoint.at(folder)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"^`checkpoint_dir` must be a folder, but '.*file' is a file"):
        Checkpoint.at(tmp_path / "file")


def test_a_state_comes_back_as_it_was_and_nothing_in_it_is_run(tmp_path: Path) -> None:
    state = TrainingState(
        {"step": 3, "loss": float("nan"), "rate": 0.1}, {"a.x": torch.arange(3), "b": torch.ones(2, 2)}
    )
    checkpoint = Checkpoint(tmp_path / "new" / "folder", {"data": "1"})
    assert checkpoint.read() is None
    checkpoint.write(state)
    found = checkpoint.read()
    assert json.dumps(found.numbers) == json.dumps(state.numbers)
    assert found.part("a.").keys() == {"x"}
    assert all(torch.equal(x, state.tensors[name]) for name, x in found.tensors.items())
