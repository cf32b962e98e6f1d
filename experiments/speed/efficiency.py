"""How fast, and in how much memory? Side by side with other packages: `python experiments/speed/efficiency.py --cpu`.

    layer        forward and backward of one memory layer, beside titans-pytorch's
    step         one training step of the default network, beside neuralforecast's PatchTST
    closed-form  the initialisation of seven series, its windows read as runs of rows and one by one
    quality      a fit on ETTh1, beside neuralforecast's PatchTST and NHITS, each to its own final error
    latency      forecasts of a fitted model, for one series and for 10,000
    many         10,000 short series and 862 long channels, trained for a few steps in bounded memory
    full         files of the shape of electricity and traffic: loaded, every window read once, trained, forecast

The other packages come with the extra `bench`: `pip install -c constraints.txt -e '.[bench]'`. What is compared takes
turns in one process, so that a busy moment spreads over all, and the ratios are of medians. Nothing is compared beside
an absent package, and the script says so.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.nn.functional import mse_loss

sys.path.insert(0, str(Path(__file__).parents[1]))
from arguments import check_names
from benchmark.data import Benchmark
from benchmark.peer_models import peer, peer_fit, peer_model, peer_quality, to_long
from benchmark.table import Table, Variant
from measure import in_a_process, medians, milliseconds, peak_mib
from record import RESULTS
from speed.generated import CYCLE, wide_table, windows_of
from speed.report import Report, Row, with_target
from titans_ts import TitansForecaster
from titans_ts.datasets import SPECS, load_dataset
from titans_ts.model import ModelConfig, NeuralMemory, SimbaForecaster
from titans_ts.training.closed_form import initialise, initialised_network
from titans_ts.training.config import TrainConfig
from titans_ts.training.evaluate import evaluate
from titans_ts.training.loop import fit_network
from titans_ts.windows.windows import Windows

PACKAGES = ("titans-ts", "torch", "titans-pytorch", "neuralforecast")
LOOKBACK, HORIZON, HEADS = 96, 96, 4
LAYER_TARGET, STEP_TARGET, MSE_TARGET = 10.0, 1.0, 0.372
HERE = Path(__file__).resolve()
DATA = HERE.parents[3] / "shared" / "data"
# Beside neuralforecast's own defaults: the shape of our default network.
SHAPE = dict(encoder_layers=2, n_heads=HEADS, linear_hidden_size=256, patch_len=16, stride=8)
UNTRAINED: dict[str, Any] = dict(max_epochs=0, random_state=0, device="cpu", verbose=0)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How often and how large; the targets are about these sizes."""

    repeats: int = 5
    peer_steps: int = 1000  # the most that a peer trains in `quality`
    root: Path | None = None
    d_model: int = 128
    batch: int = 32  # sequences of `layer`; windows of seven channels in `step`
    few: int = 10  # a step's time is the difference of two fits over that of their steps
    more: int = 40
    rows: int = 8640  # of training in `step`
    calls: int = 200
    many: tuple[tuple[int, int], ...] = ((10_000, 200), (862, 17_544))  # series, rows of each
    full: tuple[str, ...] = ("electricity", "traffic")
    closed_forms: tuple[tuple[int, int], ...] = ((96, 96), (512, 720))  # lookback and horizon


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--cpu", action="store_true", required=True, help="the device; there is no other yet")
    parser.add_argument("--only", default=",".join(BENCHMARKS), help="some of %(default)s")
    parser.add_argument("--profile", action="store_true", help="print the operations that layer and step spend most on")
    parser.add_argument("--repeats", type=int, default=5, help="rounds measured after one of warm-up (default 5)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of PyTorch (default: its own)")
    parser.add_argument("--peer-steps", type=int, default=1000, help="most training steps of a peer (default 1000)")
    parser.add_argument("--root", type=Path, help="a folder with ETTh1.csv; else TITANS_TS_DATA or ../shared/data")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the CSV")
    args = parser.parse_args(argv)
    only = args.only.split(",")
    check_names(parser, "--only", only, BENCHMARKS)
    if min(args.repeats, args.threads, args.peer_steps) < 1:
        parser.error("--repeats, --threads and --peer-steps must be at least 1")

    torch.set_num_threads(args.threads)
    setup = Setup(repeats=args.repeats, peer_steps=args.peer_steps, root=args.root)
    report = Report(args.out / "efficiency_cpu.csv", PACKAGES, args.threads)
    for name in only:
        for row in BENCHMARKS[name](setup):
            report.add(name, row)
        if args.profile and name in ("layer", "step"):
            run = layer_pass(setup) if name == "layer" else partial(titans_fit(setup), 5)
            run()
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                run()
            print(profile.key_averages().table("self_cpu_time_total", row_limit=15, max_name_column_width=40))
    print(f"rows appended to {report.path}")


def layer(setup: Setup) -> list[Row]:
    """Forward and backward of one memory layer.

    At the same size theirs does less: its weights change once a chunk, ours after every token. Its own default is a
    memory four times as wide inside, with a norm and a residual.
    """
    passes = {"titans": layer_pass(setup)}
    if package := peer("titans_pytorch", "layer"):
        size = dict(dim=setup.d_model, heads=HEADS, dim_head=setup.d_model // HEADS, chunk_size=16)
        mlp = package.MemoryMLP(setup.d_model // HEADS, depth=2, expansion_factor=1.0)
        same = package.NeuralMemory(**size, model=mlp, mem_model_norm_add_residual=False)
        default = package.NeuralMemory(**size)
        x = torch.randn(setup.batch, LOOKBACK, setup.d_model, requires_grad=True)
        passes["titans-pytorch, same size"] = lambda: same(x)[0].square().mean().backward()
        passes["titans-pytorch, its default memory"] = lambda: default(x)[0].square().mean().backward()
    return compared({name: partial(milliseconds, run) for name, run in passes.items()}, setup, LAYER_TARGET)


def step(setup: Setup) -> list[Row]:
    """One training step: the difference of two fits over that of their steps, without what a fit costs once.

    Theirs is Lightning's, with its windows cut anew. Bare is its network, optimizer and one batch alone.
    """
    timers: dict[str, Callable[[], float]] = {"titans": partial(marginal, titans_fit(setup), setup)}
    if peer("neuralforecast", "step"):
        table = wide_table(7, setup.rows)
        shape = dict(windows_batch_size=7 * setup.batch, hidden_size=setup.d_model, **SHAPE)
        timers["PatchTST"] = partial(
            marginal, lambda n: peer_fit(peer_model("PatchTST", HORIZON, n, **shape), table), setup
        )
        network = peer_model("PatchTST", HORIZON, 1, **shape).model
        optimizer = torch.optim.Adam(network.parameters())
        past, future = torch.randn(2, 7 * setup.batch, 1, LOOKBACK)

        def bare(steps: int) -> None:
            for _ in range(steps):
                optimizer.zero_grad()
                mse_loss(network(past).flatten(), future.flatten()).backward()
                optimizer.step()

        timers["PatchTST, bare"] = partial(marginal, bare, setup)
    return compared(timers, setup, STEP_TARGET)


def quality(setup: Setup) -> Iterator[Row]:
    """Seconds of a fit on ETTh1, and the error it ends with: 96 steps ahead, every test window, scaled space.

    Ours is the network of `network_etth1.toml`. The peers read as much, learn from the same rows with the same loss,
    and stop after three validation checks without a better one.
    """
    table = Table.read(HERE.parents[1] / "benchmark" / "network_etth1.toml")
    root = setup.root or (None if "TITANS_TS_DATA" in os.environ else DATA)
    try:
        benchmark = Benchmark(load_dataset(table.dataset, root=root, download=False), torch.device("cpu"))
    except FileNotFoundError as error:
        print(f"quality: skipped; {error}")
        return
    split = benchmark.data.split
    model_config, train_config = table.configs(
        HORIZON, LOOKBACK, benchmark.n_series, Variant.of_mixer("memory"), seed=0
    )
    train, validation, test = benchmark.windows(model_config)

    begun = time.perf_counter()
    network = initialised_network(model_config, train, validation, benchmark.profile(model_config.cycle), 0)
    solved = time.perf_counter() - begun
    yield Row("titans, closed form alone", solved, "s")
    yield Row("titans, closed form alone", evaluate(network, test), "MSE")
    begun = time.perf_counter()
    fit_network(network, train, validation, train_config)
    seconds = solved + time.perf_counter() - begun
    mse = evaluate(network, test)
    yield Row("titans", seconds, "s", 1.0)
    yield with_target(Row("titans", mse, "MSE"), f"<= {MSE_TARGET:g}", mse <= MSE_TARGET)
    if peer("neuralforecast", "quality"):
        for model in ("PatchTST", "NHITS"):
            theirs = peer_quality(model, benchmark.frame(), split, HORIZON, setup.peer_steps)
            name = f"{model}, at most {setup.peer_steps} steps"
            yield Row(name, theirs.seconds, "s", theirs.seconds / seconds)
            yield Row(name, theirs.mse, "MSE")


def closed_form(setup: Setup) -> list[Row]:
    """The closed-form initialisation with per-series weights; of long windows too, where a window costs most."""
    rows = []
    for lookback, horizon in setup.closed_forms:
        kinds: dict[str, type[Windows]] = {"runs of rows": Windows, "windows one by one": OneByOne}
        shape: dict[str, Any] = dict(n_series=7, cycle=CYCLE, d_model=8, scale_windows=False)
        shape |= dict(linear_per_series=True, linear_window_mean=True)
        network = SimbaForecaster(ModelConfig(lookback=lookback, horizon=horizon, **shape)).eval()
        timers: dict[str, Callable[[], float]] = {}
        for name, kind in kinds.items():
            windows = windows_of(wide_table(7, setup.rows), horizon, lookback, kind)
            run = partial(initialise, network, windows, None, torch.zeros(7, CYCLE))
            timers[f"{lookback} to {horizon}, {name}"] = partial(milliseconds, run)
        rows += compared(timers, setup)
    return rows


class OneByOne(Windows):
    """Windows that do not say that they lie one row after the other."""

    @property
    def runs(self) -> None:
        return None


def latency(setup: Setup) -> list[Row]:
    """Forecasts of a fitted default model, where training found something and where the closed form was kept."""
    table = wide_table(1, 2000)
    rows = []
    for model, where in ((trained, ""), (untrained, ", the closed form kept")):
        fitted = model(setup, table)
        context = table.tail(fitted.lookback_)
        times = [milliseconds(partial(fitted.predict, df=context)) for _ in range(5 + setup.calls)][5:]
        cuts = statistics.quantiles(times, n=100, method="inclusive")
        rows += [Row(f"one series{where}, p{share} of {setup.calls}", cuts[share - 1], "ms") for share in (50, 99)]
    return [*rows, *in_a_process(forecast_many, setup, *setup.many[0])]


def untrained(setup: Setup, table: pd.DataFrame, **size: Any) -> TitansForecaster:
    return TitansForecaster(d_model=setup.d_model, **UNTRAINED, **size).fit(table)


def trained(setup: Setup, table: pd.DataFrame, **size: Any) -> TitansForecaster:
    """As quick as if it were: its deep branch has something to say."""
    model = untrained(setup, table, **size)
    torch.nn.init.normal_(model.network_.head.project.weight, std=1e-3)
    return model


def many(setup: Setup) -> Iterator[Row]:
    """A few training steps over many windows; each size in a process of its own, whose peak so far is printed."""
    for series, rows in setup.many:
        yield from in_a_process(train_many, setup, series, rows)


def full(setup: Setup) -> Iterator[Row]:
    """The two largest data sets end to end, on generated files; each in a process of its own."""
    for name in setup.full:
        yield from in_a_process(full_shape, setup, name)


BENCHMARKS: dict[str, Callable[[Setup], Iterable[Row]]] = {
    "layer": layer,
    "step": step,
    "closed-form": closed_form,
    "quality": quality,
    "latency": latency,
    "many": many,
    "full": full,
}


def layer_pass(setup: Setup) -> Callable[[], None]:
    ours = NeuralMemory(ModelConfig(lookback=LOOKBACK, horizon=HORIZON, d_model=setup.d_model, n_heads=HEADS))
    x = torch.randn(setup.batch, LOOKBACK, setup.d_model, requires_grad=True)
    return lambda: ours(x).square().mean().backward()


def titans_fit(setup: Setup) -> Callable[[int], None]:
    """Training for a number of steps on data of ETTh1's shape."""
    return few_steps(windows_of(wide_table(7, setup.rows), HORIZON), 7, 7 * setup.batch, setup)


def few_steps(windows: Windows, series: int, batch_size: int, setup: Setup) -> Callable[[int], None]:
    """The default network as the closed form initialises it, and its training for a number of steps."""
    size: dict[str, Any] = dict(n_series=series, d_model=setup.d_model, n_heads=HEADS, cycle=CYCLE)
    config = ModelConfig(lookback=windows.lookback, horizon=windows.horizon, **size)
    network = initialised_network(config, windows, None, None, 0)

    def run(steps: int) -> None:
        most = steps * batch_size
        fit_network(network, windows, None, TrainConfig(batch_size=batch_size, max_epochs=1, most_windows=most))

    return run


def forecast_many(setup: Setup, series: int, rows: int) -> list[Row]:
    table = to_long(wide_table(series, rows))
    model = trained(setup, table)
    name = f"{series} x {rows}, one call"
    before = Row(f"{series} x {rows}: peak memory after fit", peak_mib(), "MiB")
    seconds = milliseconds(lambda: model.predict(df=table)) / 1e3
    after = Row(f"{series} x {rows}: peak memory after that call", peak_mib(), "MiB")
    return [Row(name, seconds, "s"), Row(name, series / seconds, "series/s"), before, after]


def train_many(setup: Setup, series: int, rows: int) -> list[Row]:
    size = f"{series} x {rows}"
    peaks = [Row(f"{size}: peak memory at first", peak_mib(), "MiB")]
    table = to_long(wide_table(series, rows)) if rows < 1000 else wide_table(series, rows)
    peaks.append(Row(f"{size}: peak memory with the table", peak_mib(), "MiB"))
    windows = windows_of(table, CYCLE)
    peaks.append(Row(f"{size}: peak memory with {len(windows):,} windows", peak_mib(), "MiB"))
    begun = time.perf_counter()
    run = few_steps(windows, series, 256, setup)
    solved = Row(f"{size}: closed-form initialisation", time.perf_counter() - begun, "s")
    taken = Row(f"{size}: training step of 256 windows", marginal(run, setup), "ms")
    return [*peaks, Row(f"{size}: peak memory after training", peak_mib(), "MiB"), solved, taken]


def full_shape(setup: Setup, name: str) -> list[Row]:
    spec = SPECS[name]
    values = np.random.default_rng(0).gamma(2.0, 50.0, (spec.rows, len(spec.channels))).round(3)
    dates = pd.date_range("2016-07-01 02:00", periods=spec.rows, freq=spec.freq, name="date")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the file is not the published one
        pd.DataFrame(values, dates, list(spec.channels)).to_csv(Path(folder, spec.filename))
        begun = time.perf_counter()
        data = load_dataset(name, root=folder, download=False)
    rows = [Row(f"{name}: load", time.perf_counter() - begun, "s")]
    benchmark = Benchmark(data, torch.device("cpu"))
    train = benchmark.windows(ModelConfig(lookback=LOOKBACK, horizon=HORIZON, n_series=benchmark.n_series)).train
    begun = time.perf_counter()
    for _ in train.shuffled(4096, torch.Generator().manual_seed(0)):
        pass
    rows.append(Row(f"{name}: read each of {len(train):,} windows once", time.perf_counter() - begun, "s"))
    run = few_steps(train, benchmark.n_series, 256, setup)
    rows.append(Row(f"{name}: training step of 256 windows", marginal(run, setup), "ms"))
    model = trained(setup, data.frame, lookback=LOOKBACK, horizon=HORIZON)
    begun = time.perf_counter()
    model.predict()
    rows.append(Row(f"{name}: forecast {HORIZON} steps of all channels", time.perf_counter() - begun, "s"))
    return [*rows, Row(f"{name}: peak memory of it all, the generated table's included", peak_mib(), "MiB")]


def compared(timers: dict[str, Callable[[], float]], setup: Setup, target: float | None = None) -> list[Row]:
    """The median of each timer's milliseconds, taking turns; the first is ours, a target is for the second."""
    times = medians(timers.values(), setup.repeats)
    found = [Row(name, ms, "ms", ms / times[0]) for name, ms in zip(timers, times, strict=True)]
    if target is not None and len(found) > 1:
        found[1] = with_target(found[1], f">= {target:g}", times[1] / times[0] >= target)
    return found


def marginal(run: Callable[[int], Any], setup: Setup) -> float:
    """Milliseconds of one step more."""
    more, few = (milliseconds(partial(run, steps)) for steps in (setup.more, setup.few))
    return (more - few) / (setup.more - setup.few)


if __name__ == "__main__":
    main()
