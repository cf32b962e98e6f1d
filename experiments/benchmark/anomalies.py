"""How well do scores rank anomalies planted into series? `python experiments/benchmark/anomalies.py`.

A series has 3,000 hours: two harmonics of a day whose amplitude is modulated over weeks, a trend, noise, a unit of its
own. The noise is a tenth, two or three tenths of the season's amplitude, normal, heavy-tailed (Student's t with three
degrees of freedom) or larger at some hours of the day than at others. The first 1,200 rows have no anomaly; a model is
fitted on them. In the 1,800 that follow six anomalies of one kind begin at random, 100 hours or more apart:

    level shift   by one to two amplitudes, lasting
    spike         of one row, by six to ten standard deviations of the noise
    rhythm        the season runs at half or twice its pace for three days, or jumps by a quarter to three quarters

A window of 24 rows that begins with an anomaly is anomalous. Windows of 24 rows that do not touch the 24 before the
beginning of one, or the 120 after it, are normal; others do not count. A window's score is the largest of its rows'.
The AUC is the share of pairs, of an anomalous and a normal window, in which the former scores higher: over all series
at once ("auc"), as one threshold for all needs it, and within each series, averaged ("auc_within").

Scores: "surprise" of a model with a long-term memory, and of one without ("core surprise"); the plain absolute error of
the core's one-step forecast, "core error", in standard deviations of the series' first rows; and of the value a day
before, "seasonal naive error", in the same. None looks at a later row.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from benchmark.estimator import closed_form
from titans_ts import TitansForecaster
from titans_ts.tables.read import read_table

SEASON, ROWS, FITTED, EVENTS = 24, 3000, 1200, 6
KINDS = ("level shift", "spike", "rhythm")
NOISES = ("normal", "heavy-tailed", "by hour")
WIDTH, AFTER = 24, 120  # rows of a window, and rows after the beginning of an anomaly that are not normal
RHYTHM = 72  # rows that another pace lasts
SURPRISE = "surprise"
TARGET = 0.95
COLUMNS = (
    *("kind", "score", "auc", "auc_within", "series", "anomalous", "normal", "target"),
    *("device", "versions", "commit"),
)


class Planted(NamedTuple):
    """A series: values (rows,), and the rows at which its anomalies begin."""

    values: np.ndarray
    begins: np.ndarray


def main(argv: list[str] | None = None) -> None:
    """Measure each kind; print the table and append it to the CSV."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--series", type=int, default=24, help="of each kind (default 24)")
    parser.add_argument("--out", type=Path, default=record.RESULTS, help="folder of the CSV")
    args = parser.parse_args(argv)
    if args.series < 1:
        parser.error("--series must be at least 1")
    torch.set_num_threads(1)  # more are slower on one series
    stamp = record.stamp(["titans-ts", "numpy", "torch", "scikit-learn"])
    print("| kind | score | AUC | within series | target |\n|---|---|---|---|---|")
    for row in measure(args.series):
        record.append(args.out / "anomalies.csv", COLUMNS, row | stamp)
        print("| {kind} | {score} | {auc:.3f} | {auc_within:.3f} | {target} |".format(**row), flush=True)


def measure(n_series: int) -> Iterator[dict[str, Any]]:
    """A row for each kind of anomaly and score."""
    for kind in KINDS:
        series = [planted(kind, seed) for seed in range(n_series)]
        found = [scores(one.values) for one in series]
        for name in found[0]:
            windows = [of_windows(scored[name], one.begins) for scored, one in zip(found, series, strict=True)]
            anomalous, normal = (np.concatenate(part) for part in zip(*windows, strict=True))
            value = auc(anomalous, normal)
            target = f">= {TARGET}: {'met' if value >= TARGET else 'missed'}" if name == SURPRISE else ""
            yield dict(
                kind=kind,
                score=name,
                auc=value,
                auc_within=float(np.mean([auc(*pair) for pair in windows])),
                series=n_series,
                anomalous=len(anomalous),
                normal=len(normal),
                target=target,
            )


def planted(kind: str, seed: int) -> Planted:
    """One series with anomalies of one kind; the noise is that number `seed` of `NOISES`, in turn."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    row = np.arange(ROWS)
    part = (ROWS - FITTED) // EVENTS
    begins = FITTED + part * np.arange(EVENTS) + rng.integers(WIDTH, part - AFTER, EVENTS)
    size = rng.choice([0.1, 0.2, 0.3])
    pace, level = np.ones(ROWS), np.zeros(ROWS)
    for begin in begins:
        sign = rng.choice([-1, 1])
        if kind == "level shift":
            level[begin:] += sign * rng.uniform(1, 2)
        elif kind == "spike":
            level[begin] += sign * rng.uniform(6, 10) * size
        elif rng.random() < 0.5:
            pace[begin : begin + RHYTHM] = rng.choice([0.5, 2])
        else:
            pace[begin] += rng.uniform(0.25, 0.75) * SEASON
    phase = rng.uniform(0, 2 * np.pi, 4)
    angle = 2 * np.pi * np.cumsum(pace) / SEASON
    season = np.sin(angle + phase[0]) + 0.4 * np.sin(2 * angle + phase[1])
    amplitude = 1 + 0.3 * np.sin(2 * np.pi * row / (SEASON * rng.uniform(15, 40)) + phase[2])
    trend = 3 * rng.normal() * row / ROWS
    values = trend + amplitude * season + level + size * noise(NOISES[seed % len(NOISES)], rng, phase[3])
    return Planted(10 ** rng.uniform(-2, 2) * values, begins)


def noise(kind: str, rng: np.random.Generator, phase: float) -> np.ndarray:
    """Noise (ROWS,) of variance about 1."""
    if kind == "heavy-tailed":
        return rng.standard_t(3, ROWS) / 3**0.5
    drawn = rng.normal(size=ROWS)
    if kind == "normal":
        return drawn
    size = np.exp(0.7 * np.sin(2 * np.pi * np.arange(ROWS) / SEASON + phase))
    noise: np.ndarray = drawn * size / np.sqrt(np.mean(size**2))
    return noise


def scores(values: np.ndarray) -> dict[str, np.ndarray]:
    """Scores of each row (rows,) by their name; NaN where there is none."""
    rows = values[:, None]
    stream, window = (fitted(rows[:FITTED], context) for context in ("stream", "window"))
    before = np.concatenate([np.full(SEASON, np.nan), values[:-SEASON]])
    return {
        SURPRISE: stream.surprise(rows)[:, 0],
        "core surprise": window.surprise(rows)[:, 0],
        "core error": core_error(window, rows),
        "seasonal naive error": np.abs(values - before) / values[:FITTED].std(),
    }


def fitted(rows: np.ndarray, context: str) -> TitansForecaster:
    """A closed form that forecasts a season from four."""
    model = closed_form(
        horizon=SEASON,
        lookback=4 * SEASON,
        cycle=SEASON,
        context=context,
        linear_path=True,
        outliers="keep",
    )
    return model.fit(rows)


def core_error(model: TitansForecaster, rows: np.ndarray) -> np.ndarray:
    """Absolute errors of one-step forecasts of the fitted series, (rows,), in the scaler's standard deviations."""
    panel = read_table(rows, calendar=model.fitted_.panel.calendar)
    errors: np.ndarray = np.abs(model.fitted_.first_errors(panel, np.arange(panel.n_series)))
    return errors


def of_windows(score: np.ndarray, begins: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest score in each anomalous window and in each normal one; a row without a score has the least, 0."""
    score = np.nan_to_num(score)
    taken = np.zeros(len(score), dtype=bool)
    for begin in begins:
        taken[begin - WIDTH : begin + AFTER] = True
    first = range(FITTED, len(score) - WIDTH + 1, WIDTH)
    normal = [score[row : row + WIDTH].max() for row in first if not taken[row : row + WIDTH].any()]
    return np.array([score[begin : begin + WIDTH].max() for begin in begins]), np.array(normal)


def auc(anomalous: np.ndarray, normal: np.ndarray) -> float:
    """The share of pairs in which the anomalous one scores higher, ties by half."""
    labels = np.repeat([1, 0], [len(anomalous), len(normal)])
    return float(roc_auc_score(labels, np.concatenate([anomalous, normal])))


if __name__ == "__main__":
    main()
