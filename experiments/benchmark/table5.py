"""What each part of the network is worth on forecasting, as Titans' Table 5: `python experiments/benchmark/table5.py`.

table5.toml says which data sets, networks and rows. A row is measured on test windows that are spaced evenly, with the
weights that validation chose; it is in the CSV as soon as it is measured, and what the CSV holds is not measured again.
Accuracies of associative recall, which another experiment writes, stand beside the errors where they were measured.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from benchmark import rows
from benchmark.data import Benchmark
from benchmark.long_term import ClosedForms
from benchmark.table import PARTS, Settings, check_keys, check_parts
from benchmark.tables import cell, short
from record import RESULTS
from titans_ts.datasets import load_dataset
from titans_ts.model import ModelConfig
from titans_ts.training.config import TrainConfig
from titans_ts.training.evaluate import evaluate
from titans_ts.training.loop import fit_network

HERE = Path(__file__).parent
COLUMNS = (
    *("network", "dataset", "model", "lookback", "horizon", "seed", "mse", "validation_mse", "epoch", "seconds"),
    *("device", "versions", "commit", "config"),
)


def main(argv: list[str] | None = None) -> None:
    """Measure what the CSV does not hold, and print the table as Markdown."""
    args = _arguments(argv)
    plan, stamp = Plan.read(args.plan), rows.stamp("titans-ts")
    device = torch.device("cpu")
    for dataset in () if args.print else args.sets or plan.datasets:
        benchmark = Benchmark(load_dataset(dataset, root=args.root), device)
        closed_forms = ClosedForms(benchmark)
        names = [args.networks or list(plan.networks), args.rows or list(plan.rows), args.seeds or plan.seeds]
        for network, model, seed in product(*names):
            run = Run(benchmark, plan, network, model, seed)
            held = {(row["network"], row["model"], row["config"]) for row in record.read(args.out)}
            if (network, model, run.config_hash) in held:
                continue
            row = run.measured(closed_forms)
            record.append(args.out, COLUMNS, row | stamp)
            print("{dataset} {network}, {model}, seed {seed}: {mse:.4f} in {seconds:.0f} s".format(**row), flush=True)
    print("\n".join(table(plan, record.read(args.out), recalled(plan, args.recall))))


@dataclass(frozen=True)
class Plan:
    """What table5.toml says.

    `networks` and `rows` have settings by name, and those of a row go over a network's. `recall` says of what lengths
    and number of pairs accuracies are shown, and what a row is called there.
    """

    datasets: tuple[str, ...]
    lookback: int
    horizon: int
    seeds: tuple[int, ...]
    most_test_windows: int
    networks: dict[str, Settings]
    rows: dict[str, Settings]
    recall: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> Plan:
        """The TOML at `path`; unknown and missing keys are errors."""
        raw = tomllib.loads(path.read_text())
        names = {field.name for field in fields(cls)}
        check_keys(path, "", raw, names)
        if missing := sorted(names - raw.keys()):
            raise ValueError(f"{path}: `{missing[0]}` is missing.")
        for kind in ("networks", "rows"):
            for name, parts in raw[kind].items():
                check_parts(path, f"{kind}.{name}", parts)
        check_keys(path, "recall", raw["recall"], {"pairs", "lengths", "rows"})
        check_keys(path, "recall.rows", raw["recall"]["rows"], set(raw["rows"]))
        return cls(**raw | {name: tuple(raw[name]) for name in ("datasets", "seeds")})


class Run:
    """A network with one thing changed, trained from one seed."""

    def __init__(self, benchmark: Benchmark, plan: Plan, network: str, row: str, seed: int) -> None:
        self.benchmark, self.plan, self.network, self.row, self.seed = benchmark, plan, network, row, seed
        settings = {part: plan.networks[network].get(part, {}) | plan.rows[row].get(part, {}) for part in PARTS}
        size: dict[str, Any] = dict(lookback=plan.lookback, horizon=plan.horizon, n_series=benchmark.n_series)
        self.model = ModelConfig(**size, **settings["model"])
        self.train = TrainConfig(**settings["train"], random_state=seed)

    @property
    def config_hash(self) -> str:
        """Of all that its figures come from."""
        whole = [self.benchmark.data.name, asdict(self.model), asdict(self.train), self.plan.most_test_windows]
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:12]

    def measured(self, closed_forms: ClosedForms) -> dict[str, Any]:
        """The row; its seconds are those of solving for the linear path, where there is one, and of training."""
        train, validation, test = self.benchmark.windows(self.model)
        network, seconds = closed_forms.network(self.model, self.seed)
        begun = time.perf_counter() - seconds
        history = fit_network(network, train, validation, self.train)
        seconds = time.perf_counter() - begun
        return {
            "network": self.network,
            "dataset": self.benchmark.data.name,
            "model": self.row,
            "lookback": self.model.lookback,
            "horizon": self.model.horizon,
            "seed": self.seed,
            "mse": evaluate(network, test, "mse", self.plan.most_test_windows),
            "validation_mse": history.best.validation_loss,
            "epoch": history.best.epoch,
            "seconds": seconds,
            "config": self.config_hash,
        }


def recalled(plan: Plan, path: Path) -> dict[int, dict[str, list[float]]]:
    """Accuracies of the plan's rows in recall.csv, by length; none where there is no such file."""
    found: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in record.read(path):
        if int(row["pairs"]) == plan.recall["pairs"] and int(row["length"]) in plan.recall["lengths"]:
            for name, theirs in plan.recall["rows"].items():
                if row["row"] == theirs:
                    found[int(row["length"])][name].append(float(row["accuracy"]))
    return dict(sorted(found.items()))


def table(plan: Plan, found: list[dict[str, str]], recall: dict[int, dict[str, list[float]]]) -> Iterator[str]:
    """The lines: the mean MSE over seeds ± half their range, and in brackets its distance from that of the first row.

    The first row is the plan's. Only seeds that both have count in the distance.
    """
    errors: dict[tuple[str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in found:
        errors[row["network"], row["dataset"]][row["model"]][row["seed"]] = float(row["mse"])
    heads = [f"{dataset}, {network}" for network, dataset in errors]
    heads += [f"recall of {plan.recall['pairs']} pairs in {length:,} tokens" for length in recall]
    yield f"| | {' | '.join(heads)} |"
    yield "|---" * (1 + len(heads)) + "|"
    first = next(iter(plan.rows))
    for name in plan.rows:
        cells = [_against(by_row[name], {} if name == first else by_row[first]) for by_row in errors.values()]
        cells += [cell(by_row.get(name, [])) for by_row in recall.values()]
        yield f"| {name} | {' | '.join(cells)} |"


def _against(of_row: dict[str, float], of_first: dict[str, float]) -> str:
    common = of_row.keys() & of_first.keys()
    if not common:
        return cell([*of_row.values()])
    change = sum(of_row[seed] - of_first[seed] for seed in common) / len(common)
    sign = "-" if round(change, 4) < 0 else "+"
    return f"{cell([*of_row.values()])} ({sign}{short(abs(change))})"


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("sets", nargs="*", help="a part of the TOML's data sets")
    parser.add_argument("--networks", nargs="+", metavar="NETWORK", help="a part of the TOML's")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="a part of the TOML's")
    parser.add_argument("--seeds", type=int, nargs="+", help="a part of the TOML's, or others")
    parser.add_argument("--plan", type=Path, default=HERE / "table5.toml", help="the TOML")
    parser.add_argument("--out", type=Path, default=RESULTS / "table5.csv")
    parser.add_argument("--recall", type=Path, default=RESULTS / "recall.csv", help="of associative recall, if it is")
    parser.add_argument("--root", type=Path, help="a folder that holds the data; else TITANS_TS_DATA or a download")
    parser.add_argument("--print", action="store_true", help="measure nothing")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
