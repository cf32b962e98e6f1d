"""Tokens a second of training by length, as Titans' figure 9: `python experiments/speed/throughput.py`.

A pass is forward and backward of one block of each kind in `sequences.py` over a batch of random tokens, which has as
many tokens at every length, so that longer sequences are fewer. At each length the kinds take turns. One thread is
timed by its processor time, which other programs hardly change, several by the clock on the wall. A kind that does not
fit into memory leaves its cell empty, and the CSV says why. A row is in the CSV as soon as its length is measured, and
what the CSV holds is not measured again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from measure import is_out_of_memory, medians, memory_limited
from record import RESULTS
from speed.sequences import KINDS, block_of, training_pass

LENGTHS = (2048, 4096, 8192, 16_384, 32_768)
SHAPE: dict[str, int] = dict(d_model=64, n_heads=2, chunk_size=64, attention_window=256)
COLUMNS = (
    *("kind", "steps", "batch", "threads", "tokens_per_second", "milliseconds", "clock", "reason"),
    *("d_model", "n_heads", "chunk_size", "attention_window", "device", "versions", "commit"),
)


def main(argv: list[str] | None = None) -> None:
    """Measure what the CSV does not hold, print it as Markdown and draw it."""
    args = _arguments(argv)
    stamp = record.stamp(["titans-ts", "torch"])
    for threads in () if args.print else args.threads:
        torch.set_num_threads(threads)
        for steps in args.lengths:
            held = {(row["kind"], row["threads"], row["steps"]) for row in record.read(args.out)}
            kinds = [kind for kind in args.kinds if (kind, str(threads), str(steps)) not in held]
            for row in measured(kinds, max(1, args.tokens // steps), steps, args.repeats, args.memory):
                record.append(args.out, COLUMNS, row | {"threads": threads} | SHAPE | stamp)
                rate = row["tokens_per_second"]
                said = row["reason"] or f"{rate:,.0f} tokens a second"
                print(f"{steps} steps on {threads} threads, {row['kind']}: {said}", flush=True)
    found = record.read(args.out)
    for threads in dict.fromkeys(row["threads"] for row in found):
        print("\n".join(table([row for row in found if row["threads"] == threads])), end="\n\n")
    if found and not args.print:
        picture = args.out.with_name("throughput.png")
        draw(found, picture)
        print(f"wrote {picture}")


def measured(kinds: list[str], batch: int, steps: int, repeats: int, gib: float) -> list[dict[str, Any]]:
    """A row for each kind: the median of its passes, or the reason why there is none.

    The first pass of each tells whether it fits, and warms up.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter

    def timer(run: Callable[[], None]) -> Callable[[], float]:
        def milliseconds() -> float:
            begun = clock()
            run()
            return 1e3 * (clock() - begun)

        return milliseconds

    timers: dict[str, Callable[[], float]] = {}
    with memory_limited(gib):
        for kind in kinds:
            torch.manual_seed(0)
            run = training_pass(block_of(kind, **SHAPE), batch, steps)
            try:
                run()
                timers[kind] = timer(run)
            except (MemoryError, RuntimeError) as failure:
                if not is_out_of_memory(failure):
                    raise
        times = dict(zip(timers, medians(timers.values(), repeats, warm_up=0), strict=True))
    return [
        {
            "kind": kind,
            "steps": steps,
            "batch": batch,
            "tokens_per_second": 1e3 * batch * steps / times[kind] if kind in times else None,
            "milliseconds": times.get(kind),
            "clock": "processor" if clock is time.process_time else "wall",
            "reason": "" if kind in times else f"needs more than {gib:g} GiB",
        }
        for kind in kinds
    ]


def table(rows: list[dict[str, str]]) -> Iterator[str]:
    """The lines: thousands of tokens a second of a kind, by length; a dash where there are none."""
    lengths = sorted({int(row["steps"]) for row in rows})
    found = {(row["kind"], int(row["steps"])): row["tokens_per_second"] for row in rows}
    threads = f"{rows[0]['threads']} thread{'s' if rows[0]['threads'] != '1' else ''}"
    yield f"| thousands of tokens a second, {threads} | {' | '.join(f'{n:,}' for n in lengths)} |"
    yield "|---" * (1 + len(lengths)) + "|"
    for kind in _kinds_of(rows):
        rates = [found.get((kind, n)) for n in lengths]
        yield f"| {kind} | {' | '.join(f'{float(rate) / 1e3:.1f}' if rate else '–' for rate in rates)} |"


def draw(rows: list[dict[str, str]], path: Path) -> None:
    """Tokens a second by length, a line for each kind; a panel for each number of threads."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels = list(dict.fromkeys(row["threads"] for row in rows))
    shape: dict[str, Any] = dict(figsize=(4.3 * len(panels), 4.6), sharey=True, squeeze=False, layout="constrained")
    ticks = [k * 10**n for n in range(-3, 6) for k in (1, 2, 5)]
    figure, axes = plt.subplots(1, len(panels), **shape)
    for axis, threads in zip(axes[0], panels, strict=True):
        for kind in _kinds_of(rows):
            line = [
                row for row in rows if (row["kind"], row["threads"]) == (kind, threads) and row["tokens_per_second"]
            ]
            line.sort(key=lambda row: int(row["steps"]))
            rates = [float(row["tokens_per_second"]) / 1e3 for row in line]
            axis.plot([int(row["steps"]) for row in line], rates, marker="o", markersize=4, label=kind)
        lengths = sorted({int(row["steps"]) for row in rows})
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        inside = [tick for tick in ticks if axis.get_ylim()[0] <= tick <= axis.get_ylim()[1]]
        axis.set_yticks(inside, [f"{tick:g}" for tick in inside])
        axis.set_yticks([], minor=True)
        axis.set_xticks(lengths, [f"{n / 1024:g}k" for n in lengths])
        axis.set_title(f"{threads} thread{'s' if threads != '1' else ''}", loc="left", fontsize=11)
        axis.set_xlabel("tokens of a sequence")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("thousands of tokens a second")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2 * len(panels), frameon=False
    )
    figure.savefig(path, dpi=92, pil_kwargs={"optimize": True})
    plt.close(figure)


def _kinds_of(rows: list[dict[str, str]]) -> list[str]:
    return [kind for kind in KINDS if kind in {row["kind"] for row in rows}]


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="KIND")
    parser.add_argument("--lengths", nargs="+", type=int, default=list(LENGTHS))
    parser.add_argument("--tokens", type=int, default=LENGTHS[-1], help="of a batch (default: of the longest length)")
    both = sorted({1, torch.get_num_threads()})
    parser.add_argument("--threads", nargs="+", type=int, default=both, help="of PyTorch (default: one, then its own)")
    parser.add_argument("--repeats", type=int, default=3, help="rounds measured after one of warm-up (default 3)")
    parser.add_argument("--memory", type=float, default=12, help="GiB that a pass may hold (default 12)")
    parser.add_argument("--out", type=Path, default=RESULTS / "throughput_cpu.csv")
    parser.add_argument("--print", action="store_true", help="measure and draw nothing")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
