"""What else the closed-form start could do: its ratio of errors to the start as it is, over the folds of `seasons.py`.

    python experiments/ideas.py lags experiments/etth1.toml experiments/etth2.toml --columns i iii --horizons 96

Each line is a data set at one lookback and horizon: the mean MSE of the start as it is over the forward folds, then the
geometric mean over folds of each idea's ratio to it, and last that of whichever (the start as it is among them) has the
least error on the rows that choose. Windows are not scaled, and but for `across` no series reads others, so that a line
takes seconds at lookback 96 and minutes at 512. Test rows are never read.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from long_term import LOOKBACKS, Benchmark, Table, Variant
from seasons import forward_folds, profile_of, windows_of
from torch import Tensor

from titans_ts import start
from titans_ts.datasets import load_dataset
from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.model.parts import AcrossPath
from titans_ts.moments import Moments
from titans_ts.training import evaluate
from titans_ts.windows import Windows

WITHOUT_BRANCH = {"mixer": "none", "feature_mixer": "none", "d_model": 4, "n_layers": 1, "scale_windows": False}
Covariance = Callable[[int], Tensor]  # how weights of so many lags, the oldest first, are expected to vary
Shrunk = tuple[float, Tensor]
shrunk, solve_across = start._shrunk, start._solve_across


class Idea(NamedTuple):
    """What it puts in place of attributes of `titans_ts.start`, and how much of the training profile is taken away."""

    name: str
    changed: dict[str, Any]
    profile: float = 1.0


def main(argv: list[str] | None = None) -> None:
    """Print one line of Markdown for each data set, column and horizon."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("group", choices=GROUPS, help="of ideas")
    parser.add_argument("tables", type=Path, nargs="+", help="experiments' TOMLs")
    parser.add_argument("--horizons", type=int, nargs="+", default=[96])
    parser.add_argument("--columns", choices=LOOKBACKS, nargs="+", default=["i"], help="of the benchmark; the lookback")
    parser.add_argument("--root", type=Path, help="a folder that holds the data")
    args = parser.parse_args(argv)

    ideas = [Idea("as it is", {}), *GROUPS[args.group]]
    print("| | " + " | ".join([idea.name for idea in ideas]) + " | chosen |\n" + "|---" * (len(ideas) + 2) + "|")
    for path in args.tables:
        table = Table.read(path)
        benchmark = Benchmark(load_dataset(table.dataset, root=args.root), torch.device("cpu"))
        for column, horizon in product(args.columns, args.horizons):
            lookback = LOOKBACKS[column]
            model, _ = table.configs(horizon, lookback, benchmark.n_series, Variant("", WITHOUT_BRANCH, {}), 0)
            if args.group != "across":
                model = replace(model, linear_across=False, linear_harmonics=0)
            elif not model.linear_across:
                raise SystemExit(f"{path}: `across` needs a network whose series read others, and this one has none.")
            found = judged(benchmark, model, ideas)
            cells = [f"{table.dataset}, {lookback} to {horizon}", f"{found[:, 0, 1].mean():.4f}".removeprefix("0")]
            print("| " + " | ".join([*cells, *(f"{ratio:.3f}" for ratio in ratios(found))]) + " |", flush=True)


def ratios(found: np.ndarray) -> list[float]:
    """Of each idea but the first to the first, and of the one that is chosen in each fold: geometric means.

    `found` is (fold, idea, 2), as `judged` has it.
    """
    by, errors = found[..., 0], found[..., 1]
    chosen = np.take_along_axis(errors, by.argmin(1)[:, None], axis=1)
    means: list[float] = np.exp(np.log(np.hstack([errors[:, 1:], chosen]) / errors[:, :1]).mean(0)).tolist()
    return means


def judged(benchmark: Benchmark, model: ModelConfig, ideas: list[Idea]) -> np.ndarray:
    """The start's errors on the rows that choose and on those that judge: (fold, idea, 2)."""
    found = []
    for fold in forward_folds(benchmark.data.split.validation.stop):
        fitted, chosen, judging = windows_of(benchmark, fold, model)
        profile = profile_of(benchmark, fold.fitted, model.cycle) if model.cycle else None
        for idea in ideas:
            network = SimbaForecaster(model).eval()
            with ExitStack() as stack:
                for name, value in idea.changed.items():
                    stack.enter_context(patch.object(start, name, value))
                begun = None if profile is None else idea.profile * profile
                error = start.closed_form_start(network, fitted, chosen, begun)
            found.append((error, evaluate(network, judging)))
    return np.reshape(found, (-1, len(ideas), 2))


def prior(common: Covariance | None, own: Covariance | None) -> dict[str, Any]:
    """Least squares that expects the lags' weights to vary so; the level's as the last value's. One solution a path."""

    def changed(moments: Moments, judge: Moments, anchor: Tensor, ridges: Sequence[float]) -> Shrunk:
        covariance = own if moments.xx.ndim == 3 else common
        if covariance is None:
            return shrunk(moments, judge, anchor, ridges)
        size = moments.xx.shape[-1]
        level = size % 2  # lookbacks are even
        factor = torch.linalg.cholesky(covariance(size - level) + 1e-10 * torch.eye(size - level, dtype=torch.float64))
        factor = torch.block_diag(factor, *[torch.ones(1, 1, dtype=torch.float64)] * level)
        seen, judging = (
            Moments(
                factor.mT @ of.xx @ factor,
                factor.mT @ (of.xy - of.xx @ anchor),
                torch.tensor(of.error(anchor) * of.n, dtype=torch.float64),
                of.n,
            )
            for of in (moments, judge)
        )
        error, weight = shrunk(seen, judging, torch.zeros_like(seen.xy), ridges)
        return error, factor @ weight

    return {"_shrunk": changed, "LAG_DECAY": 0.0, "PARTS": 1}


def power(exponent: float, unit: float = 1.0) -> Covariance:
    """Standard deviations that fall with a power of the lag, counted in units."""
    return lambda n: (1 + torch.arange(n - 1, -1, -1, dtype=torch.float64) / unit).pow(-2 * exponent).diag()


def decaying(lags: float, correlated: float = 0.0) -> Covariance:
    """Variances that fall by e in so many lags, and correlations that do: TC and DC (Chen, Ohlsson and Ljung, 2012)."""

    def covariance(n: int) -> Tensor:
        lag = torch.arange(n - 1, -1, -1, dtype=torch.float64)
        deviation = (-lag / (2 * lags)).exp()
        if not correlated:
            return deviation.square().diag()
        return deviation.outer(deviation) * (-(lag.unsqueeze(1) - lag).abs() / correlated).exp()

    return covariance


def own_ridges(moments: Moments, judge: Moments, anchor: Tensor, ridges: Sequence[float]) -> Shrunk:
    """A ridge for each series, where all share one."""
    if moments.xx.ndim == 2:
        return shrunk(moments, judge, anchor, ridges)

    def of(series: int, moments: Moments) -> Moments:
        xx, xy, yy, n = moments
        return Moments(xx[series, None], xy[series, None], yy[series, None], n)

    anchors = anchor.expand_as(moments.xy)
    each = [shrunk(of(i, moments), of(i, judge), anchors[i], ridges) for i in range(len(anchors))]
    return sum(error for error, _ in each), torch.cat([weight for _, weight in each])


def across_expected(decay: float, harmonic: float) -> dict[str, Any]:
    """What series say of one another expected to fall with a power of how far back, and by phase to be so much."""

    def changed(
        network: SimbaForecaster, across: AcrossPath, train: Windows, validation: Windows | None
    ) -> tuple[float, Tensor]:
        far = torch.tensor([far for _, far in across.spans[:-1]], dtype=torch.float64).pow(-decay)
        waves = torch.full((across.waves.shape[1], 1), harmonic, dtype=torch.float64)
        waves[0] = 1
        by = (waves * far.repeat(network.config.n_series)).reshape(-1, 1)

        def expected(moments: Moments, judge: Moments, anchor: Tensor, ridges: Sequence[float]) -> Shrunk:
            error, weight = shrunk(moments.scaled(by), judge.scaled(by), anchor, ridges)
            return error, weight * by

        with patch.object(start, "_shrunk", expected):
            return solve_across(network, across, train, validation)

    return {"_solve_across": changed}


def both(covariance: Covariance) -> dict[str, Any]:
    return prior(covariance, covariance)


GROUPS: dict[str, list[Idea]] = {
    "parts": [Idea(f"{n} parts", {"PARTS": n}) for n in (1, 2, 3, 4, 6)],
    "lags": [
        *(Idea(f"whole window, power {p:g}", {"PARTS": 1, "LAG_DECAY": p}) for p in (0, 0.5, 1, 1.5)),
        *(Idea(f"parts, power {p:g}", {"LAG_DECAY": p}) for p in (0, 1)),
    ],
    "level": [
        *(Idea(f"share {share:g}", {"LEVEL_SHARES": (share, share)}) for share in (0, 0.25, 0.5, 0.75, 1)),
        *(Idea(f"share .5 to {far:g}", {"LEVEL_SHARES": (0.5, far)}) for far in (0.65, 1)),
    ],
    "priors": [
        *(Idea(f"lag in 24 steps, power {p:g}", both(power(p, 24))) for p in (0.5, 1, 2)),
        Idea("power 0, own 1", prior(None, power(1))),
        Idea("power .5, own 1", prior(power(0.5), power(1))),
        *(Idea(f"TC {lags}", both(decaying(lags))) for lags in (48, 200)),
        *(Idea(f"DC {lags}, 12", both(decaying(lags, 12))) for lags in (48, 200)),
    ],
    "ridges": [Idea("each series' own", {"_shrunk": own_ridges})],
    "profile": [Idea(f"{share:g} of it", {}, share) for share in (0, 0.5)],
    "across": [
        *(Idea(f"spans, power {p:g}", across_expected(p, 1)) for p in (0.25, 0.5, 1)),
        *(Idea(f"harmonics {share:g}", across_expected(0, share)) for share in (0.25, 0.5)),
    ],
}


if __name__ == "__main__":
    main()
