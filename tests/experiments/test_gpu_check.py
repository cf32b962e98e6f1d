"""The GPU check without a GPU: its arithmetic, that it finds what is wrong, and that nothing stops it."""

from __future__ import annotations

import csv
import math
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gpu_check
import pytest
import torch
from torch import Tensor

from gpu import common, compilation, exact, peers, speed
from gpu import run as running
from gpu.common import Case, Problem, Row, Setup
from speed.sequences import KINDS
from titans_ts.model import NeuralMemory

CPU = torch.device("cpu")
SMOKE = Setup(device=CPU, backend="chunkwise", smoke=True)
LONG = Problem(depth=2, chunk_size=64, head_dim=64, dtype=torch.bfloat16, steps=4096, batch=8, heads=16)


@pytest.fixture(autouse=True)
def _no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("fla", "titans_pytorch"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def small(**changes: Any) -> Problem:
    size = dict(depth=2, chunk_size=4, head_dim=3, dtype=torch.float32, steps=22)
    return Problem(**{**size, **changes})


def test_the_worst_tensor_is_named_and_held_to_its_limit() -> None:
    expected = {"y": torch.ones(2), "gradient by q": torch.ones(2), "gradient by k": torch.ones(2)}
    found = expected | {"gradient by k": torch.tensor([1.0, 1.25])}
    values, gradients = common.compared("case", found, expected, (0, 0.25), "note")
    assert values == Row("case: values", 0.0, "error", "<= 0", "ok", note="worst: y; note")
    assert gradients == Row("case: gradients", 0.25, "error", "<= 0.25", "ok", note="worst: gradient by k; note")
    assert common.compared("case", found, expected, (0, 0.2))[1].ok == "FAIL"


# Problems


def test_a_problem_has_gates_of_exactly_zero_and_one_in_its_first_head_alone() -> None:
    x = common.make(small(offset=2), CPU)
    for gate in (x["alpha"], x["eta"]):
        assert {0.0, 1.0} <= set(gate[:, :, 0].unique().tolist())
        assert not set(gate[:, :, 1].unique().tolist()) & {0.0, 1.0}
    assert (x["theta"] <= 0.5 * (1 - x["eta"]) / 4).all()
    assert x["k"].norm(dim=-1).sub(1).abs().max() < 1e-6  # float32


def test_the_same_seed_gives_the_same_problem_and_another_one_another() -> None:
    first, again, other = (common.make(small(), CPU, seed)["q"] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_everything_has_a_gradient_by_every_input() -> None:
    problem = small(offset=2, decay_to="init")
    x = common.make(problem, CPU)
    found = common.everything(problem, x, "chunkwise")
    inputs = [n for n in x if not n.startswith("cotangent.")]
    assert [n for n in found if n.startswith("gradient")] == [f"gradient by {n}" for n in inputs]
    finals = [f"{field}.{i}" for field in ("weights", "momentum") for i in (0, 1)]
    assert [n for n in found if not n.startswith("gradient")] == ["y", *finals]  # 22 + 2 tokens end a chunk
    assert all(found[f"gradient by {n}"].abs().max() > 0 for n in inputs)


def test_every_size_dtype_and_start_is_checked() -> None:
    problems = exact.problems(Setup(device=CPU))
    for depth, dims in ((1, {32, 64, 128}), (2, {32, 64})):
        mine = [p for p in problems if p.depth == depth]
        assert {p.head_dim for p in mine} == dims
        for dtype, chunks, starts in ((torch.float32, (16, 64), 4), (torch.bfloat16, (16, 32, 64), 5)):
            assert {(p.chunk_size, p.head_dim) for p in mine if p.dtype == dtype} == {
                (chunk, head_dim) for chunk in chunks for head_dim in dims
            }
            assert len({(p.decay_to, p.offset) for p in mine if p.dtype == dtype}) >= starts
        assert any(p.dtype == torch.float16 for p in mine)


# The floor


def test_the_floor_of_the_deep_forward_is_376_million_tokens_a_second() -> None:
    # 16 heads x (22 x 64^2 + 8 x 64 x 64 + 2 x 64^2) operations a token at 788 TFLOP/s.
    problem = Problem(**{**vars(LONG), "decay_to": "zero"})
    assert speed.operations(problem, backward=False) == 22 * 64**2 + 8 * 64 * 64 + 2 * 64**2
    seconds = speed.floor(problem, False, 788e12, bandwidth=math.inf)
    assert problem.tokens / seconds == pytest.approx(376e6, rel=2e-3)


def test_forgetting_towards_the_start_costs_a_product_a_layer() -> None:
    zero, init = (Problem(**{**vars(LONG), "decay_to": target}) for target in ("zero", "init"))
    difference = speed.operations(init, False) - speed.operations(zero, False)
    assert difference == 2 * 2 * 64**2
    assert speed.operations(zero, True) == 3 * speed.operations(zero, False)


def test_the_floor_is_the_longer_of_arithmetic_and_bytes() -> None:
    count = LONG.tokens * 16
    assert speed.bytes_moved(LONG, backward=False) == 4 * 2 * 64 + 12
    assert speed.bytes_moved(LONG, backward=True) == 4 * 2 * 64 + 12 + 7 * 2 * 64 + 24
    assert speed.floor(LONG, False, 1e30, 1e12) == count * 524 / 1e12
    assert speed.floor(LONG, False, 1e12, 1e30) == count * speed.operations(LONG, False) / 1e12


def test_a_missed_ratio_is_no_failure() -> None:
    assert speed.ratio_row("x", 1.2, 1.2, "").ok == "ok"
    assert speed.ratio_row("x", 1.19, 1.2, "").ok == "missed"
    assert speed.ratio_row("x", 0.1, None, "").ok == ""


# The run


def cases(*given: Case) -> tuple[Any, int]:
    def section(setup: Setup) -> Iterator[Case]:
        yield from given

    return section, 60


def fails(words: str) -> list[Row]:
    raise RuntimeError(words)


def run_main(tmp_path: Path, *more: str) -> tuple[int, list[dict[str, str]]]:
    out = tmp_path / "gpu.csv"
    status = gpu_check.main(["--smoke", "--backend", "chunkwise", "--out", str(out), *more])
    return status, rows_of(out)


def test_what_raises_becomes_a_failed_row_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(setup: Setup) -> Iterator[Case]:
        yield Case("before", lambda: [Row("before", 1.0)])
        raise ValueError("no cases")

    good = Case("good", lambda: [Row("good", 0.5, "s", "< 1", "ok")])
    sections = {
        "a": cases(Case("bad", partial(fails, "first line\nsecond")), good),
        "b": (broken, 60),
        "c": cases(good),
    }
    monkeypatch.setattr(gpu_check, "SECTIONS", sections)

    status, rows = run_main(tmp_path, "--only", "a,b,c")

    assert status == 1
    assert [(row["section"], row["name"], row["ok"]) for row in rows] == [
        *[("a", "bad", "FAIL"), ("a", "good", "ok"), ("b", "before", ""), ("b", "cases", "FAIL"), ("c", "good", "ok")]
    ]
    assert rows[0]["note"] == "RuntimeError: first line"
    assert rows[1]["value"] == "0.5"
    assert "a              2     1     1     0" in capsys.readouterr().out


def test_a_row_is_in_the_file_before_the_next_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def second() -> list[Row]:
        return [Row("rows so far", len(rows_of(tmp_path / "gpu.csv")))]

    monkeypatch.setattr(gpu_check, "SECTIONS", {"a": cases(Case("one", lambda: [Row("one")]), Case("two", second))})
    status, rows = run_main(tmp_path, "--only", "a", "--commit", "abc")
    assert status == 0
    assert rows[1]["value"] == "1"
    assert ",".join(rows[0]) == "section,name,value,unit,target,ok,ratio,note,device,versions,commit"
    assert rows[0]["commit"] == "abc"
    assert "torch" in rows[0]["versions"]


def test_a_missed_target_leaves_the_status_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missed = Case("slow", lambda: [speed.ratio_row("slow", 0.5, 1.0, "")])
    monkeypatch.setattr(gpu_check, "SECTIONS", {"a": cases(missed)})
    status, rows = run_main(tmp_path, "--only", "a")
    assert (status, rows[0]["ok"], rows[0]["ratio"]) == (0, "missed", "0.5")


def test_a_section_out_of_seconds_says_so_and_the_next_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = [Case(str(i), lambda: [Row("slept", ok="ok")] if time.sleep(0.06) is None else []) for i in range(5)]
    section, _ = cases(*slow)
    monkeypatch.setattr(gpu_check, "SECTIONS", {"a": (section, 0.1), "b": cases(slow[0])})
    status, rows = run_main(tmp_path, "--only", "a,b")
    assert status == 0
    assert [(row["section"], row["name"]) for row in rows[-3:]] == [("a", "slept"), ("a", "from 2 on"), ("b", "slept")]
    assert rows[-2]["note"] == "skipped: beyond the section's 0.1 s"


def test_a_gpu_that_answers_no_more_goes_on_in_a_fresh_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Executed(Exception):
        pass

    def execv(program: str, call: list[str]) -> None:
        raise Executed(call)

    monkeypatch.setattr(gpu_check.os, "execv", execv)
    bad, good = Case("bad", partial(fails, "illegal memory access")), Case("good", lambda: [Row("good")])
    monkeypatch.setattr(gpu_check, "SECTIONS", {"a": cases(good, bad, good), "b": cases(good)})
    responses = iter([True, False])
    monkeypatch.setattr(running, "responds", lambda device: next(responses))
    with pytest.raises(Executed) as caught:
        run_main(tmp_path, "--only", "a,b")
    call = caught.value.args[0]
    assert "--after=a:1" in call
    assert "--failed" in call

    monkeypatch.setattr(running, "responds", lambda device: True)
    status = gpu_check.main(call[2:])
    assert status == 1, "the failure before counts"
    assert [(row["section"], row["name"]) for row in rows_of(tmp_path / "gpu.csv")] == [
        *[("a", "good"), ("a", "bad"), ("a", "good"), ("b", "good")]
    ]


def test_an_unknown_section_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        gpu_check.main(["--only", "exactly"])
    assert "`--only` must be some of compile, exact, repeat, speed, memory, scaling" in capsys.readouterr().err


def test_without_a_gpu_it_says_what_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_check.main([]) == 2
    assert "--smoke" in capsys.readouterr().err


# The sections, at tiny sizes


def test_processes_share_what_is_to_be_compiled() -> None:
    setup = Setup(device=torch.device("cuda"), backend="chunkwise", smoke=True)  # theirs is the CPU
    rows = list(compilation.rows(setup))
    total = len(compilation.jobs(setup))
    assert rows[0].name.startswith(f"{total} of {total} configurations, ")
    assert [row.name.split()[0] for row in rows[1:]] == ["slowest:"] * 3
    assert not any(row.ok for row in rows)


def test_the_checks_hold_for_the_plain_memory(tmp_path: Path) -> None:
    status, rows = run_main(tmp_path, "--only", "compile,exact,repeat,grid,use,lengths,far", "--oracle", str(tmp_path))
    assert status == 0
    checked = [row["section"] for row in rows if row["ok"] == "ok"]
    assert {name: checked.count(name) for name in dict.fromkeys(checked)} == dict(
        exact=16, repeat=2, grid=6, use=18, far=6
    )
    assert all(row["note"] for row in rows if not row["ok"]), "what is left out says why"


def test_the_measurements_run_and_say_what_is_absent(tmp_path: Path) -> None:
    status, rows = run_main(tmp_path, "--only", "speed,memory,scaling,origins,epoch", "--data", str(tmp_path))
    assert status == 0
    units = {"M tokens/s", "TFLOP/s", "TB/s", "s"}
    assert all(float(row["value"]) > 0 for row in rows if row["unit"] in units)
    assert sum(row["note"].startswith("absent: ModuleNotFoundError") for row in rows) == 16
    assert [row["name"].split(", ")[2] for row in rows if row["section"] == "origins"] == ["linear", "deep"]
    assert "generated rows of its shape" in rows[-1]["note"]


def test_the_long_term_memory_is_timed_at_the_lengths_of_its_histories() -> None:
    setup = Setup(device=torch.device("cuda"))
    problems = [problem for depth in (1, 2) for problem in speed.origin_problems(setup, depth)]
    assert {(p.batch, p.steps) for p in problems} == {(b, n) for b in (7, 21) for n in (1000, 5000, 20_000, 50_000)}
    assert {(p.heads, p.head_dim, p.chunk_size, p.dtype) for p in problems} == {(6, 32, 24, torch.float32)}
    assert {(p.depth, p.decay_to) for p in problems} == {(1, "zero"), (2, "init")}


def test_the_throughput_of_every_kind_is_measured_at_every_length(tmp_path: Path) -> None:
    status, rows = run_main(tmp_path, "--only", "throughput")
    assert status == 0
    assert [row["name"].rpartition(",")[0] for row in rows] == [
        f"{kind}, {64 // steps} x {steps} tokens" for steps in (32, 64) for kind in KINDS
    ]
    assert all(float(row["value"]) > 0 and row["unit"] == "M tokens/s" for row in rows)


def test_the_exact_vectors_hold_for_the_plain_memory(oracle_folder: Path) -> None:
    setup = Setup(device=CPU, backend="chunkwise", smoke=True, oracle=oracle_folder)
    rows = [row for case in exact.exactness(setup) for row in case.run() if row.name.startswith("vector ")]
    assert len(rows) == 2 * len([path for path in oracle_folder.glob("*.npz") if not path.stem.startswith("depth")])
    assert {row.ok for row in rows} == {"ok"}


@pytest.mark.parametrize("spoiled", ["y", "gradient by theta"])
def test_a_small_mistake_in_one_tensor_is_found(spoiled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = common.everything

    def wrong(problem: Problem, x: dict[str, Tensor], backend: str) -> dict[str, Tensor]:
        found = right(problem, x, backend)
        found[spoiled][0, 3, 0] += 0.01 * found[spoiled].abs().max()
        return found

    monkeypatch.setattr(exact, "everything", wrong)
    case = next(case for case in exact.exactness(SMOKE) if not case.name.startswith("convolution"))
    assert [row.ok for row in case.run()] == (["FAIL", "ok"] if spoiled == "y" else ["ok", "FAIL"])


def test_a_small_mistake_in_a_convolution_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = NeuralMemory.project_inputs

    def wrong(self: NeuralMemory, x: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        q, k, v, rows = right(self, x, before)
        return q, k, v if v.dtype == torch.float64 else 1.01 * v, rows

    monkeypatch.setattr(NeuralMemory, "project_inputs", wrong)
    case = next(exact.exactness(SMOKE))
    values, gradients = case.run()
    assert (values.ok, values.note) == ("FAIL", "worst: v")
    assert gradients.ok == "FAIL"


def test_a_run_that_differs_from_the_first_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right, runs = common.everything, iter(range(100))

    def wavering(problem: Problem, x: dict[str, Tensor], backend: str) -> dict[str, Tensor]:
        found = right(problem, x, backend)
        found["gradient by k"][0, 0, 0] += next(runs)
        return found

    monkeypatch.setattr(exact, "everything", wavering)
    (row,) = next(exact.repeatability(SMOKE)).run()
    assert (row.value, row.ok, row.note) == (1, "FAIL", "gradient by k")


def test_the_samples_of_a_far_problem_differ_and_the_last_is_as_given() -> None:
    sample = torch.arange(6.0).view(1, 3, 2)
    many = exact._rolled(sample, 3)
    assert torch.equal(many[-1:], sample)
    assert torch.equal(many[0], sample[0].roll(2, 0))
    assert len({tuple(x.flatten().tolist()) for x in many}) == 3


def test_peers_compile_a_share_of_their_configurations_each(monkeypatch: pytest.MonkeyPatch) -> None:
    autotuner = pytest.importorskip("triton.runtime.autotuner").Autotuner

    def keep(self: Any, fn: Any, arg_names: Any, configs: Any) -> None:
        self.configs = configs

    for share, expected in (((0, 2), [0, 2, 4]), ((1, 2), [1, 3]), ((7, 9), [0]), (None, [0, 1, 2, 3, 4])):
        monkeypatch.setattr(autotuner, "__init__", keep)
        peers.shorten_autotuning(share)
        assert autotuner(None, [], list(range(5))).configs == expected
