"""What each part of the statistical forecasts is worth: `python experiments/benchmark/short_series.py`.

The last horizon of each series' rows before the competitions' test is forecast from the rows before it; the test values
are not read. A line for each part that is left out or changed, sMAPE / MASE for each group; "–" where a group has no
season to change. Of M4, whose groups are large, 3,000 evenly spaced series and the last 150 rows of each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmark.scores import naive_scales, score
from titans_ts.datasets import Competition, load_competition
from titans_ts.statistical import methods, mixture, season, smoothing
from titans_ts.statistical.model import StatisticalModel
from titans_ts.tables.series_data import SeriesData, evenly_spaced

GROUPS = ("M3 yearly", "M3 quarterly", "M3 monthly", "M3 other", "M4 yearly", "M4 quarterly")
MOST_SERIES, MOST_ROWS, LEAST_ROWS = 3000, 150, 6
FORECASTS = {"autoregression": (0.0, 1.0), "the mean of both": (0.5, 0.5)}  # weights of the methods; else smoothing
OF_SEASONS = ("no seasons", "seasons not shrunk", "old seasons count as much as new ones")
Changed = Callable[[], AbstractContextManager[object]]

PARTS: dict[str, Changed] = {
    "smoothing, of values and logarithms": nullcontext,
    "no seasons": lambda: patch.object(season, "LEAST", np.inf),
    "seasons not shrunk": lambda: patch.object(season, "shrinkage", lambda spread, variance: np.ones_like(variance)),
    "old seasons count as much as new ones": lambda: patch.object(season, "DECAY", 1.0),
    "no prior from the other series": lambda: patch.object(mixture, "ROUNDS", 0),
    "methods weighed alike": lambda: patch.object(mixture, "EVIDENCE", 1e-9),
    "an origin counts whole": lambda: patch.object(mixture, "EVIDENCE", 1.0),
    "lines alone": lambda: patch.object(smoothing, "damped_trends", methods.lines),
    "damped trends alone": lambda: patch.object(smoothing, "lines", methods.damped_trends),
    "autoregression": nullcontext,
    "the mean of both": nullcontext,
}


def main(argv: list[str] | None = None) -> None:
    """Print the table as Markdown, a line as soon as it is measured."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("groups", nargs="*", default=list(GROUPS), help=f"some of {', '.join(GROUPS)} (default: all)")
    parser.add_argument("--root", type=Path, help="a folder that holds the data; else TITANS_TS_DATA")
    args = parser.parse_args(argv)
    groups = [load_competition(name, root=args.root) for name in args.groups]
    for line in lines(groups):
        print(line, flush=True)


def lines(groups: list[Competition]) -> Iterator[str]:
    """The lines of the table."""
    yield f"| | {' | '.join(group.name for group in groups)} |"
    yield "|---" * (1 + len(groups)) + "|"
    for part in PARTS:
        yield f"| {part} | {' | '.join(errors(group, part) for group in groups)} |"


def errors(group: Competition, part: str) -> str:
    """sMAPE / MASE of one group, with one part left out or changed."""
    if part in OF_SEASONS and group.season == 1:
        return "–"
    past, future = held_back(group)
    data = SeriesData(
        np.concatenate(past), np.array([len(values) for values in past]), np.zeros(len(past), dtype=np.int64)
    )
    with PARTS[part]():
        periods = (group.season,) if group.season > 1 else ()
        model = StatisticalModel.fit(data, data.lengths, group.horizon, periods)
        found = model.forecast(data, group.horizon)[:, :, :, 0].mean(0)  # of values and logarithms
    forecast = np.tensordot(FORECASTS.get(part, (1.0, 0.0)), found, 1)
    smape, mase = score(future, forecast, naive_scales(past, group.season))
    return f"{smape:.2f} / {mase:.3f}"


def held_back(group: Competition) -> tuple[list[np.ndarray], np.ndarray]:
    """The rows before the last horizon of each series, and that horizon (series, horizon).

    Without series that would be left with under six rows, or with none that differ a season apart.
    """
    rows = [values.to_numpy() for _, values in group.train.groupby("unique_id", sort=False)["y"]]
    if group.name.startswith("M4"):
        rows = [values[-MOST_ROWS:] for values in rows[evenly_spaced(len(rows), MOST_SERIES)]]
    cut = [(values[: -group.horizon], values[-group.horizon :]) for values in rows]
    season = group.season
    kept = [pair for pair in cut if len(pair[0]) >= max(LEAST_ROWS, season + 1) and np.ptp(pair[0]) > 0]
    kept = [pair for pair in kept if np.abs(pair[0][season:] - pair[0][:-season]).max() > 0]
    return [past for past, _ in kept], np.array([future for _, future in kept])


if __name__ == "__main__":
    main()
