"""Search for a data set's parameters, or join the search.

    python experiments/benchmark/sweep.py experiments/benchmark/sweep_etth1.toml

Run it again to go on, and several times at once, on several machines where the storage is a database, to share the
work. Trials are fitted on the train rows and scored on the validation rows; test is never read. It leaves the best
parameters as a TOML that `long_term.py` reads, and pictures of the search's course and of what mattered.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import optuna
import torch
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.trial import FrozenTrial, TrialState

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmark.table import PARTS, check_keys
from record import commit, device_name
from titans_ts import TitansForecaster, TitansSearchCV, load_dataset

BOUNDS = {"low", "high", "log", "step"}


@dataclass(frozen=True)
class Sweep:
    """A search's TOML: `fixed` parameters of TitansForecaster, and the `space` of those to be found."""

    dataset: str
    horizon: int
    lookback: int
    n_trials: int
    storage: str
    study_name: str
    space: dict[str, BaseDistribution]
    fixed: dict[str, Any]
    random_state: int = 0
    scoring: str = "mse"
    n_windows: int = 1

    @classmethod
    def read(cls, path: Path) -> Sweep:
        """The TOML at `path`; unknown keys are errors, and a storage without "://" is a file beside it."""
        raw = tomllib.loads(path.read_text())
        check_keys(path, "", raw, {field.name for field in fields(cls)})
        if missing := sorted(
            {"dataset", "horizon", "lookback", "n_trials", "storage", "study_name", "space"} - raw.keys()
        ):
            raise ValueError(f"{path}: `{missing[0]}` is missing.")
        raw["space"] = {name: _distribution(path, name, given) for name, given in raw["space"].items()}
        if "://" not in raw["storage"]:
            raw["storage"] = str(path.resolve().parent / raw["storage"])
        return cls(**{"fixed": {}, **raw})


def _distribution(path: Path, name: str, given: Any) -> BaseDistribution:
    if isinstance(given, dict) and given.keys() == {"choices"}:
        return CategoricalDistribution(given["choices"])
    if not isinstance(given, dict) or not {"low", "high"} <= given.keys() <= BOUNDS:
        raise ValueError(f"{path} [space]: {name!r} must have `choices`, or `low`, `high` and perhaps `log` or `step`.")
    whole = isinstance(given["low"], int) and isinstance(given["high"], int)
    return IntDistribution(**given) if whole else FloatDistribution(**given)


class Progress:
    """A line after each trial: how many of how many, the best so far, and when it will be over."""

    def __init__(self, n_trials: int) -> None:
        self.n_trials, self.begun, self.mine = n_trials, time.perf_counter(), 0

    def __call__(self, study: optuna.Study, trial: FrozenTrial) -> None:
        self.mine += 1
        ended = [t for t in study.get_trials(deepcopy=False) if t.state.is_finished()]
        each = (time.perf_counter() - self.begun) / self.mine
        left = max(0, self.n_trials - len(ended)) * each
        scored = [t for t in ended if t.state == TrialState.COMPLETE]
        best = min(scored, key=lambda t: float(t.value)) if scored else None  # type: ignore[arg-type]
        so_far = f"best {best.value:.5f} (trial {best.number})" if best is not None else "none completed yet"
        outcome = f"{trial.value:.5f}" if trial.state == TrialState.COMPLETE else trial.state.name.lower()
        print(
            f"trial {trial.number}: {outcome}; {len(ended)} of {self.n_trials}, {so_far}, {left:.0f} s left", flush=True
        )


def main(argv: list[str] | None = None) -> None:
    """Run or join the study, and write what it found beside its TOML."""
    args = _arguments(argv)
    sweep = Sweep.read(args.sweep)
    data = load_dataset(sweep.dataset, root=args.root)
    rows, validation = data.split.validation.stop, len(data.split.validation)
    frame = data.frame.iloc[:rows]
    forecaster = TitansForecaster(
        horizon=sweep.horizon,
        lookback=sweep.lookback,
        val_size=validation,
        random_state=sweep.random_state,
        device=args.device,
        verbose=0,
    ).set_params(**sweep.fixed)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    search = TitansSearchCV(
        forecaster,
        sweep.space,
        n_trials=args.trials or sweep.n_trials,
        timeout=args.timeout,
        n_windows=sweep.n_windows,
        scoring=sweep.scoring,
        storage=args.storage or sweep.storage,
        study_name=sweep.study_name,
        n_jobs=args.jobs,
        refit=False,
        random_state=sweep.random_state,
    )
    begun = time.perf_counter()
    search.fit(frame, callbacks=[Progress(search.n_trials)])
    seconds = time.perf_counter() - begun
    counted = Counter(trial.state.name.lower() for trial in search.study_.trials)
    print(f"{seconds:.0f} s; {', '.join(f'{count} {state}' for state, count in sorted(counted.items()))}")
    print(f"best relative {sweep.scoring} {search.best_score_:.5f}: {search.best_params_}")
    if not args.no_default:
        default = forecaster.fit(frame, val_loss=sweep.scoring).history_
        ended, closed_form = default.best.relative_error, default.evaluations[0].relative_error
        print(f"with nothing searched: {ended:.5f}; the closed form alone {closed_form:.5f}")
    out = args.out or args.sweep.resolve().parent
    out.mkdir(parents=True, exist_ok=True)
    best = out / f"{args.sweep.stem}_best.toml"
    best.write_text(as_table(sweep, search))
    print(f"wrote {best}; `python experiments/benchmark/long_term.py {best}` trains with it")
    for picture in pictures(search.study_, out, args.sweep.stem):
        print(f"wrote {picture}")


def as_table(sweep: Sweep, search: TitansSearchCV) -> str:
    """The best parameters as an experiment's TOML."""
    chosen = {**sweep.fixed, **search.best_params_}
    parts: dict[str, dict[str, Any]] = {"model": {}, "train": {}}
    for name, value in chosen.items():
        for part, names in PARTS.items():
            if name in names:
                parts[part][name] = value
    device = device_name(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    lines = [
        f"# The best of {len(search.study_.trials)} trials of study {sweep.study_name!r}: relative {sweep.scoring}",
        f"# {search.best_score_:.6f} at lookback {sweep.lookback}. {device}, commit {commit()}.",
        f"dataset = {json.dumps(sweep.dataset)}",
        f"horizons = [{sweep.horizon}]",
        "seeds = [0, 1, 2]",
    ]
    for part, values in parts.items():
        lines += ["", f"[{part}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    return "\n".join(lines) + "\n"


def pictures(study: optuna.Study, folder: Path, name: str) -> list[Path]:
    """The search's course and each parameter's importance, as PNG; none where matplotlib is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("no pictures: `pip install titans-ts[plot]` brings matplotlib")
        return []
    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from optuna.visualization import matplotlib as draw

    found = []
    completed = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    varied = len(completed) > 1 and any(not math.isclose(t.value, completed[0].value) for t in completed)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        drawn: dict[str, Callable[[optuna.Study], Any]] = {"history": draw.plot_optimization_history}
        if varied:  # otherwise nothing mattered
            drawn["importance"] = draw.plot_param_importances
        for kind, plot in drawn.items():
            axes = plot(study)
            path = folder / f"{name}_{kind}.png"
            axes.figure.savefig(path, dpi=120, bbox_inches="tight")
            plt.close(axes.figure)
            found.append(path)
    return found


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("sweep", type=Path, help="the search's TOML")
    parser.add_argument("--trials", type=int, help="of the whole study, in place of the TOML's")
    parser.add_argument("--timeout", type=float, help="seconds after which no trial is begun")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1); -1 for one a core or GPU")
    parser.add_argument("--storage", help="a file or a database's URL, in place of the TOML's")
    parser.add_argument("--root", type=Path, help="a folder that holds the data; else TITANS_TS_DATA or a download")
    parser.add_argument("--out", type=Path, help="folder of what is written; beside the TOML if not given")
    parser.add_argument("--device", help="cpu, cuda, ...; a GPU if there is one")
    parser.add_argument("--no-default", action="store_true", help="do not fit the fixed parameters for comparison")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
