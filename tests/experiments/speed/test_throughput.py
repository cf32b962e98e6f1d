"""Tokens a second by length, on short sequences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import record
from speed import throughput
from speed.sequences import KINDS
from speed.throughput import main, table

SMALL = dict(d_model=8, n_heads=2, chunk_size=4, attention_window=4)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "SHAPE", SMALL)


def test_a_batch_has_as_many_tokens_at_every_length_and_rows_are_measured_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, threads = tmp_path / "out.csv", str(torch.get_num_threads())
    given = ["--lengths", "8", "16", "--tokens", "32", "--repeats", "1", "--threads", threads, "--out", str(out)]
    main([*given, "--kinds", "mac"])
    main(given)
    first = out.read_text()
    main(given)
    assert out.read_text() == first
    rows = record.read(out)
    assert {(row["steps"], row["batch"]) for row in rows} == {("8", "4"), ("16", "2")}
    assert [row["kind"] for row in rows if row["steps"] == "8"] == ["mac", *(kind for kind in KINDS if kind != "mac")]
    rates = [32e3 / float(row["milliseconds"]) for row in rows]
    assert [float(row["tokens_per_second"]) for row in rows] == pytest.approx(rates, rel=1e-4)
    assert {(row["d_model"], row["threads"], row["reason"]) for row in rows} == {("8", threads, "")}
    assert (tmp_path / "throughput.png").stat().st_size > 5000
    capsys.readouterr()
    main([*given, "--print"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[2:-1]] == [f"| {kind}" for kind in KINDS]
    assert lines[4].startswith(f"| mac | {float(rows[0]['tokens_per_second']) / 1e3:.1f} | ")


def test_what_does_not_fit_is_an_empty_cell_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    right = throughput.training_pass

    def wrong(block: torch.nn.Module, batch: int, steps: int) -> Callable[[], None]:
        if type(block.mixer).__name__ != "CausalAttention":
            return right(block, batch, steps)

        def run() -> None:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.")

        return run

    monkeypatch.setattr(throughput, "training_pass", wrong)
    attention, window = throughput.measured(["attention", "window attention"], 1, 8, 1, 64)
    assert (attention["tokens_per_second"], attention["reason"]) == (None, "needs more than 64 GiB")
    assert window["tokens_per_second"] > 0

    def broken(block: torch.nn.Module, batch: int, steps: int) -> Callable[[], None]:
        return lambda: torch.ones(2) @ torch.ones(3)  # type: ignore[return-value]

    monkeypatch.setattr(throughput, "training_pass", broken)
    with pytest.raises(RuntimeError, match="size"):
        throughput.measured(["attention"], 1, 8, 1, 64)


def test_the_table_has_a_dash_where_nothing_was_measured() -> None:
    row = {"kind": "mac", "threads": "2", "steps": "2048", "tokens_per_second": "12345"}
    empty = {"kind": "attention", "threads": "2", "steps": "32768", "tokens_per_second": ""}
    assert list(table([row, empty])) == [
        "| thousands of tokens a second, 2 threads | 2,048 | 32,768 |",
        "|---|---|---|",
        "| mac | 12.3 | – |",
        "| attention | – | – |",
    ]


def test_the_results_show_what_the_committed_csv_holds(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--print"])
    printed = capsys.readouterr().out.strip()
    assert printed
    assert f"\n{printed}\n" in (record.RESULTS.parent / "RESULTS.md").read_text()
