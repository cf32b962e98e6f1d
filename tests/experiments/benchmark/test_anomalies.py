"""Planted anomalies: where they are, how windows are scored, and that surprise finds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import record
from benchmark.anomalies import (
    AFTER,
    COLUMNS,
    EVENTS,
    FITTED,
    KINDS,
    NOISES,
    ROWS,
    auc,
    main,
    noise,
    of_windows,
    planted,
    scores,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_anomalies_begin_after_the_rows_fitted_and_leave_normal_ones_between(kind: str, seed: int) -> None:
    found = planted(kind, seed)
    assert found.values.shape == (ROWS,)
    assert np.isfinite(found.values).all()
    assert len(found.begins) == EVENTS
    assert found.begins.min() >= FITTED + 24
    assert found.begins.max() + AFTER <= ROWS
    assert np.diff(found.begins).min() >= 100
    again = planted(kind, seed)
    assert (again.values == found.values).all()
    assert (again.begins == found.begins).all()
    assert (planted(kind, seed + 1).values != found.values).any()


@pytest.mark.parametrize("kind", NOISES)
def test_noise_has_a_variance_of_one(kind: str) -> None:
    rng = np.random.default_rng(0)
    assert np.mean([noise(kind, rng, 0.0).var() for _ in range(40)]) == pytest.approx(1, abs=0.15)


def test_a_window_has_its_largest_score_and_those_near_an_anomaly_do_not_count() -> None:
    score = np.zeros(ROWS)
    begins = np.array([1500])
    score[1510], score[1530], score[1470] = 5, 7, np.nan  # within, after and before
    score[2000] = 3
    anomalous, normal = of_windows(score, begins)
    assert anomalous.tolist() == [5]
    assert sorted(normal)[-2:] == [0, 3]
    taken = 1500 - 24, 1500 + AFTER
    touched = [row for row in range(FITTED, ROWS - 23, 24) if row < taken[1] and row + 24 > taken[0]]
    assert len(normal) == (ROWS - FITTED) // 24 - len(touched)


def test_the_auc_is_the_share_of_pairs_in_order() -> None:
    assert auc(np.array([3.0, 1.0]), np.array([0.0, 2.0])) == 0.75
    assert auc(np.array([1.0]), np.array([1.0])) == 0.5


def test_scores_ignore_what_comes_later() -> None:
    values = planted("spike", 0).values
    found = scores(values)
    values[2000:] = values[2000:][::-1] * 7
    for name, after in scores(values).items():
        assert np.array_equal(after[:2000], found[name][:2000], equal_nan=True), name


def test_a_row_for_each_kind_and_score_in_the_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--series", "1", "--out", str(tmp_path)])
    rows = record.read(tmp_path / "anomalies.csv")
    names = ["surprise", "core surprise", "core error", "seasonal naive error"]
    assert [(row["kind"], row["score"]) for row in rows] == [(kind, name) for kind in KINDS for name in names]
    assert all(tuple(row) == COLUMNS and int(row["anomalous"]) == EVENTS for row in rows)
    assert all(float(row["auc"]) > 0.9 for row in rows if row["score"] == "surprise")  # normal noise
    assert [bool(row["target"]) for row in rows] == [name == "surprise" for name in names * 3]
    assert "| level shift | surprise | " in capsys.readouterr().out


def test_the_results_show_what_the_committed_csv_holds() -> None:
    page = (record.RESULTS.parent / "RESULTS.md").read_text()
    rows = record.read(record.RESULTS / "anomalies.csv")
    for kind in KINDS:
        cells = [f"{float(row['auc']):.3f} / {float(row['auc_within']):.3f}" for row in rows if row["kind"] == kind]
        assert f"\n| {kind} | {' | '.join(cells)} |\n" in page
