"""Several processes that train one network: they learn what one would, and the run ends where one is lost.

Run as a program, this file is a process of such a run: `python tests/training/test_distributed.py JOB FOLDER`.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_pre_hook

from titans_ts.model import Batch, ModelConfig, SimbaForecaster
from titans_ts.progress import Progress
from titans_ts.tables.series_data import SeriesData
from titans_ts.training import distributed
from titans_ts.training.config import TrainConfig
from titans_ts.training.distributed import ALONE, Ranks, process_group
from titans_ts.training.history import Evaluation
from titans_ts.training.loop import fit_network
from titans_ts.training.probe import Probe
from titans_ts.windows.windows import Windows

CPU = torch.device("cpu")
ENVIRONMENT = {
    **os.environ,
    "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
    "OMP_NUM_THREADS": "1",
    "PYTHONSAFEPATH": "1",  # the folders beside this file would shadow other packages
}
LOOKBACK, HORIZON, ROWS = 16, 4, 160
EXACT = 1e-12  # relative, in float64: sums of a few hundred terms in another order
GROWN = 1e-9  # the same after some dozen steps, each of which divides by a gradient's size

# How many training windows, of how many a step, and what is unusual.
CASES: dict[str, tuple[int, int, dict[str, Any]]] = {
    "equal shares": (96, 8, {}),
    "unequal shares": (97, 7, {}),
    "one sample in the last batch": (97, 8, {}),
    "parameters without a gradient": (96, 11, {"mixer": "none", "feature_mixer": "mlp"}),
    "rows padded and filled in": (111, 9, {}),
    "out of patience": (96, 8, {"learning_rate": 0.01, "patience": 2, "max_epochs": 2}),
    "no validation": (96, 32, {}),
    "some windows, other errors": (96, 15, {"loss": "mae", "val_loss": "huber", "most_windows": 40}),
    "one validation window": (96, 32, {"most_validation_windows": 1}),
    "probed": (96, 8, {"learning_rate": 1e-6, "probe": Probe(least_series=1, steps=3)}),
}
UNTRUE = {  # what rank 1 is given instead, and what the error then names
    "fewer windows": ({"count": 90}, "the number of windows in `train` is 96 on rank 0 and 90 on rank 1"),
    "other values": ({"shift": 0.01}, "the checksum of the values is "),
    "another network": ({"d_model": 4}, "the checksum of `network.config` is "),
    "another seed": ({"random_state": 1}, "the checksum of `config` is "),
    "another probe": ({"probe": Probe()}, "the checksum of `probe` is "),
    "another time limit": ({"progress": Progress(60)}, "the time limit is 0 on rank 0 and 60 on rank 1"),
}
LOST = (
    "Rank {rank} of 2 has lost rank {other} of the run, which was killed, has failed or has been silent for too long. "
    "See what it printed last, and start the run again."
)


def windows(count: int, case: str = "", shift: float = 0.0) -> tuple[Windows, Windows | None]:
    """So many training windows of a noisy wave in float64, and those after them."""
    rng = np.random.default_rng(0)
    values = np.sin(np.arange(ROWS) / 3) + 0.3 * rng.normal(size=ROWS) + shift
    observed = rng.random(ROWS) < 0.9 if case == "rows padded and filled in" else None
    first = 1 if observed is not None else LOOKBACK
    middle = first + count + HORIZON - 1
    data = SeriesData(torch.from_numpy(values), np.array([ROWS]), np.array([0]), observed)
    train, validation = (
        Windows(data, lookback=LOOKBACK, horizon=HORIZON, first=begin, last=end)
        for begin, end in ((np.array([first]), np.array([middle])), (np.array([middle]), np.array([ROWS])))
    )
    return train, None if case == "no validation" else validation


def fit(case: str, on_evaluation: Callable[[Evaluation], None] | None = None, **changes: Any) -> dict[str, Any]:
    """One run in float64: the gradients of each step, the evaluations, the weights."""
    count, batch_size, unusual = CASES[case]
    how = {"batch_size": batch_size, "max_epochs": 1, "patience": 100, "clip": 1e9, **unusual, **changes}
    data = {"count": how.pop("count", count), "shift": how.pop("shift", 0.0)}
    names = ("mixer", "feature_mixer", "d_model", "dropout")
    probe, progress = how.pop("probe", None), how.pop("progress", None)
    model = {"d_model": 8, "dropout": 0.0, **{name: how.pop(name) for name in names if name in how}}
    shape = {"lookback": LOOKBACK, "horizon": HORIZON, "patch_len": 4, "stride": 4, "cycle": 5}
    size = {"n_layers": 1, "n_heads": 2, "chunk_size": 4, "n_persistent": 1}
    torch.manual_seed(int(os.environ.get("RANK", 0)))  # the weights of rank 0 are those that count
    network = SimbaForecaster(ModelConfig(**shape, **size, **model)).double()
    gradients = []

    def keep(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        gradients.append(torch.cat([p.grad.flatten() for p in parameters if p.grad is not None]))

    hook = register_optimizer_step_pre_hook(keep)
    try:
        history = fit_network(
            network, *windows(**data, case=case), TrainConfig(**how), on_evaluation, probe=probe, progress=progress
        )
    finally:
        hook.remove()
    evaluations = [list(vars(evaluation).values()) for evaluation in history.evaluations]
    return {
        "gradients": torch.stack(gradients),
        "evaluations": torch.tensor(evaluations, dtype=torch.float64),
        "stopped": history.stopped,
        "weights": network.state_dict(),
    }


# The processes


def job_fits(folder: Path) -> None:
    """All that can be seen without ending a process, in one run: starting takes longer than anything done here."""
    rank = int(os.environ["RANK"])
    found: dict[str, Any] = {case: fit(case) for case in CASES}
    seeds: list[int] = []
    found["dropout"] = fit("equal shares", lambda _: seeds.append(torch.initial_seed()), dropout=0.5)
    found["seeds"] = seeds
    times = [0.0]
    progress = Progress(5.0, clock=lambda: times[0])

    def late(evaluation: Evaluation) -> None:
        if rank == 0 and evaluation.step == 6:
            times[0] = 10.0

    found["time limit"] = fit("equal shares", late, progress=progress)
    for name, (changes, _) in UNTRUE.items():
        with caught(ValueError) as message:
            fit("equal shares", **changes if rank == 1 else {})
        found[name] = message
    found["a group was left"] = dist.is_initialized()

    distributed.TIMEOUT = timedelta(seconds=1.5)
    with caught(RuntimeError) as message:
        fit("equal shares", lambda _: time.sleep(2.5 * rank))
    found["silent"] = message
    torch.save(found, folder / f"{rank}.pt")

    # A process group of the caller's outlives a fit; in the next one rank 1 is killed.
    dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), 2), rank=rank, world_size=2)
    fit("equal shares")
    both = torch.ones(1)
    dist.all_reduce(both)
    print(f"together {both.item():g}", flush=True)

    def die(evaluation: Evaluation) -> None:
        if rank == 1 and evaluation.step > 3:
            os.kill(os.getpid(), signal.SIGKILL)

    fit("equal shares", die)


def job_script(folder: Path) -> None:
    """What a user writes, as if at a terminal."""
    from titans_ts import TitansForecaster

    rank, written = int(os.environ["RANK"]), []

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and set(str(arguments[1])) & set("wxa+"):
            written.append(str(arguments[0]))

    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    sys.addaudithook(watch)
    values = (np.sin(np.arange(200) / 3) + 0.1 * np.random.default_rng(0).normal(size=200))[:, None]
    size = {"d_model": 8, "n_heads": 2, "n_layers": 1, "patch_len": 4, "stride": 4, "chunk_size": 4}
    model = TitansForecaster(horizon=HORIZON, lookback=LOOKBACK, max_epochs=1, **size)
    with redirect_stderr(terminal):
        model.fit(values)
    model.save(folder / "model")
    loaded = TitansForecaster.load(folder / "model").predict()
    found = {
        "shown": terminal.getvalue(),
        "written": [path for path in written if str(folder) in path],
        "forecast": model.predict().ravel().tolist(),
        "loaded": loaded.ravel().tolist(),
        "history": repr(model.history_),
        "weights": model.network_.state_dict(),
    }
    try:
        model.save(folder / "taken")
    except (OSError, RuntimeError) as error:
        found["refused"] = f"{type(error).__name__}: {error}"
    torch.save(found, folder / f"{rank}.pt")


def launch(folder: Path) -> None:
    """Fork both ranks of `job_fits`, so that packages are imported once; print how they ended, as JSON."""
    import torch._dynamo  # which each optimizer's first step would import  # noqa: F401

    processes: dict[int, int] = {}
    for rank in range(2):
        process = os.fork()
        if process == 0:
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            for stream in (sys.stdout, sys.stderr):
                file = os.open(folder / f"{rank}.{stream.fileno()}", os.O_WRONLY | os.O_CREAT)
                os.dup2(file, stream.fileno())
            job_fits(folder)
            return
        processes[process] = rank
    codes, times = [0, 0], [0.0, 0.0]
    for _ in range(2):
        process, status = os.wait()
        codes[processes[process]] = os.waitstatus_to_exitcode(status)
        times[processes[process]] = time.monotonic()
    printed, errors = ([(folder / f"{rank}.{stream}").read_text() for rank in range(2)] for stream in (1, 2))
    print(json.dumps([codes, times, printed, errors]))


class Ends(NamedTuple):
    """How the processes of a run ended, by rank."""

    codes: list[int]
    times: list[float]
    printed: list[str]
    errors: list[str]


@contextmanager
def caught(kind: type[Exception]) -> Iterator[list[str]]:
    """The message of an error of this kind, which the block must raise."""
    message: list[str] = []
    try:
        yield message
    except kind as error:
        message.append(str(error))


# Their runs


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Ends]:
    """What each rank of `job_fits` has found, and how they ended.

    They have the variables that torchrun would give them, and meet at a store that this process serves.
    """
    folder = tmp_path_factory.mktemp("fits")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    launcher = subprocess.run(
        [sys.executable, __file__, "fits", str(folder)],
        env={**ENVIRONMENT, **variables, "TORCHELASTIC_USE_AGENT_STORE": "True"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert launcher.returncode == 0, launcher.stderr
    ends = Ends(*json.loads(launcher.stdout))
    assert ends.codes[1] == -signal.SIGKILL, ends.errors[1]
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)], ends


@pytest.fixture(scope="module")
def found(fits: Any) -> list[dict[str, Any]]:
    return fits[0]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """torchrun's own run of `job_script`, and what each rank has found."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "taken").write_text("not a model")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    result = subprocess.run(
        [*torchrun, __file__, "script", str(folder)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result, [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]


alone = cache(fit)  # what one process finds


# The same training


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_the_whole_batch(case: str, found: list[dict[str, Any]]) -> None:
    expected = alone(case)["gradients"]
    for rank in range(2):
        gradients = found[rank][case]["gradients"]
        assert gradients.shape == expected.shape
        assert (gradients[0] - expected[0]).norm() <= EXACT * expected[0].norm()
        assert ((gradients - expected).norm(dim=1) <= GROWN * expected.norm(dim=1)).all()


@pytest.mark.parametrize("case", CASES)
def test_the_history_is_that_of_one_process(case: str, found: list[dict[str, Any]]) -> None:
    expected = alone(case)
    for rank in range(2):
        assert found[rank][case]["stopped"] == expected["stopped"]
        evaluations = found[rank][case]["evaluations"]
        torch.testing.assert_close(evaluations, expected["evaluations"], rtol=GROWN, atol=0, equal_nan=True)
        torch.testing.assert_close(found[rank][case]["weights"], expected["weights"], rtol=GROWN, atol=GROWN)


def test_patience_ends_all_processes_at_one_evaluation(found: list[dict[str, Any]]) -> None:
    for rank in range(2):
        assert found[rank]["out of patience"]["stopped"] == "patience"
        assert 1 + 2 < len(found[rank]["out of patience"]["evaluations"]) < 1 + 2 * 4


def test_a_probe_ends_all_processes_at_one_evaluation(found: list[dict[str, Any]]) -> None:
    for rank in range(2):
        assert found[rank]["probed"]["stopped"] == "probe"
        assert found[rank]["probed"]["evaluations"][:, 1].tolist() == [0, 3, 6, 9]


def test_the_clock_of_rank_0_ends_all_processes(found: list[dict[str, Any]]) -> None:
    for rank in range(2):
        assert found[rank]["time limit"]["stopped"] == "time_limit"
        assert found[rank]["time limit"]["evaluations"][:, 1].tolist() == [0, 3, 6]


@pytest.mark.parametrize("case", [*CASES, "dropout", "time limit"])
def test_all_processes_end_alike_to_the_bit(case: str, found: list[dict[str, Any]]) -> None:
    first, second = (one[case] for one in found)
    assert torch.equal(first["gradients"], second["gradients"])
    torch.testing.assert_close(first["evaluations"], second["evaluations"], rtol=0, atol=0, equal_nan=True)
    assert first["weights"].keys() == second["weights"].keys()
    assert all(torch.equal(value, second["weights"][name]) for name, value in first["weights"].items())


def test_dropout_is_drawn_for_each_process(found: list[dict[str, Any]]) -> None:
    assert set(found[0]["seeds"]) == {0}  # as in one process
    assert len(set(found[1]["seeds"])) == 1
    assert found[0]["seeds"] != found[1]["seeds"]
    assert not torch.equal(found[0]["dropout"]["gradients"], found[0]["equal shares"]["gradients"])
    # A CPU's generator sees the last 32 bits of a seed alone.
    seeds = [Ranks(rank, 4).seed(state) % 2**32 for rank in range(4) for state in (0, 1, 2**31 - 2)]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_shares_make_up_the_batch(size: int, world: int) -> None:
    train, _ = windows(96, "rows padded and filled in")
    others = dict(
        cross_series=torch.randn(size, 2, 5),
        clock_shift=torch.arange(3 * size).view(size, 3),
        covariates=torch.randn(size, 4, 2),
        weight=torch.rand(size),
    )
    whole = train.batch(torch.arange(size))._replace(**others)
    shares = [Ranks(rank, world).shard(whole) for rank in range(world)]
    assert all(batch.n_samples == max(1, round(share * size)) for batch, share in shares)
    for i in range(len(Batch._fields)):
        assert torch.equal(torch.cat([batch[i] for batch, share in shares if share]), whole[i])
    assert sum(share for _, share in shares) == pytest.approx(1)
    assert max(batch.n_samples for batch, _ in shares) == -(-size // world)


# One process


def test_one_process_of_torchruns_trains_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    with process_group(CPU, "fit") as ranks:
        assert ranks is ALONE
        assert not dist.is_initialized()
    run, expected = fit("equal shares"), alone("equal shares")
    assert torch.equal(run["gradients"], expected["gradients"])
    assert all(torch.equal(value, expected["weights"][name]) for name, value in run["weights"].items())


def test_alone_nothing_is_done() -> None:
    train, _ = windows(96)
    batch, loss, layer = train.batch(torch.arange(3)), torch.tensor(2.0), torch.nn.Linear(1, 1)
    assert ALONE.shard(batch) == (batch, 1.0)
    assert ALONE.all_reduce_gradients(loss, layer.parameters(), 0.5) is loss
    assert ALONE.all_reduce(1.0, 2.0) == (1.0, 2.0)
    assert ALONE.broadcast("a") == "a"
    with pytest.raises(ZeroDivisionError):
        ALONE.run_on_rank0(lambda: 1 / 0)
    ALONE.require_same({"a": 1})
    ALONE.broadcast_weights(layer)
    assert not dist.is_initialized()


# A script under torchrun


def test_only_rank_0_shows_a_bar_and_writes(script: Any) -> None:
    result, (first, second) = script
    assert result.stdout == ""
    assert "validation=" in first["shown"]
    assert second["shown"] == ""
    assert len(first["written"]) == 3
    assert second["written"] == []


def test_a_model_saved_is_there_for_all(script: Any) -> None:
    _, (first, second) = script
    assert first["forecast"] == second["forecast"] == first["loaded"] == second["loaded"]
    assert len(set(first["forecast"])) == HORIZON


def test_without_a_random_state_all_draw_that_of_rank_0(script: Any) -> None:
    _, (first, second) = script
    assert first["history"] == second["history"]
    assert first["weights"].keys() == second["weights"].keys()
    assert all(torch.equal(value, second["weights"][name]) for name, value in first["weights"].items())


def test_all_fail_to_save_where_rank_0_does(script: Any) -> None:
    _, (first, second) = script
    assert first["refused"].startswith("FileExistsError: `path` must be a new or empty folder")
    expected = f"RuntimeError: Rank 0, which does this for all 2 processes, has failed with {first['refused']}"
    assert second["refused"] == expected


# Errors


@pytest.mark.parametrize("name", UNTRUE)
def test_different_data_are_refused_in_all_processes(name: str, found: list[dict[str, Any]]) -> None:
    (first,), (second,) = (one[name] for one in found)
    assert first == second
    assert first.startswith(f"every process must be given the same data and settings, but {UNTRUE[name][1]}")
    assert first.endswith("Read all rows on every rank: each takes its own share of every batch by itself.")


def test_a_group_that_a_fit_made_goes_with_it(found: list[dict[str, Any]]) -> None:
    assert [one["a group was left"] for one in found] == [False, False]


def test_a_killed_process_ends_the_other_with_a_message(fits: tuple[list[dict[str, Any]], Ends]) -> None:
    _, ends = fits
    assert ends.times[0] - ends.times[1] < 20  # seconds; the group of this run would wait for half an hour
    assert ends.codes[0] == 1
    assert ends.printed[0] == "together 2\n"  # the caller's group was as it had been after a fit
    assert ends.errors[0].rstrip().endswith(LOST.format(rank=0, other=1))


def test_a_silent_process_is_not_waited_for_without_end(found: list[dict[str, Any]]) -> None:
    assert found[0]["silent"] == [LOST.format(rank=0, other=1)]
    assert found[1]["silent"] == [LOST.format(rank=1, other=0)]  # which had given up when it came back


def test_two_threads_of_one_process_do_not_talk_to_the_others_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    monkeypatch.setattr(dist, "get_backend", lambda: "gloo")

    def world() -> int:
        with process_group(CPU, "fit") as ranks:
            return ranks.world

    with ThreadPoolExecutor(1) as other:
        with process_group(CPU, "fit"):
            assert world() == 2  # a part of the same work
            with pytest.raises(RuntimeError, match="`fit` must be called by one thread at a time where several"):
                other.submit(world).result()
        assert other.submit(world).result() == 2


def test_a_group_for_gpus_alone_is_refused_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_backend", lambda: "nccl")
    message = r"^the process group must carry tensors of the device 'cpu', .* with the backend 'gloo'\.$"
    with pytest.raises(ValueError, match=message), process_group(CPU, "fit"):
        pass


def test_what_not_all_call_names_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "TIMEOUT", timedelta(seconds=0.2))
    monkeypatch.setattr(distributed, "_store", cache(dist.HashStore))
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RuntimeError) as error, process_group(CPU, "save"):
        pass
    assert str(error.value) == (
        "Rank 0 of 2 has waited 0.2 seconds in `save` for rank 1. Every process that torchrun started must call "
        "`save`, and none may have ended before."
    )
    assert not dist.is_initialized()


if __name__ == "__main__":
    {"fits": launch, "script": job_script}[sys.argv[1]](Path(sys.argv[2]))
