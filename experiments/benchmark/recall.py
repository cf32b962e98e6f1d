"""What a memory remembers of token sequences: `python experiments/benchmark/recall.py recall`, or `permutations`.

`recall`: pairs of a key and a value, once each among fillers, asked for at the end. A model is trained once, on up to
1,024 tokens and 4 to 32 pairs, and asked for 16 pairs of 512 to 16,384 tokens, and for 4 to 64 pairs of 512.

`permutations`: a token is a transposition of neighbours, and the product so far is asked for at every place. A model is
trained on 32 tokens and asked at the last 16 places of 32 to 512. Its memory has chunks of one token, because tokens of
a chunk do not read what others of it have written, which a product needs.

All rows are trained alike, by a number of steps that the task fixes; in recall, those of `LEARN_LATE` by twice as many.
They are appended to recall.csv and permutations.csv as soon as they are measured, and not measured again; `--print`
makes the table, and `--draw` the picture, of what the CSV holds.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from benchmark.recall_model import SequenceModel
from benchmark.recall_rows import LEARN_LATE, ROWS, config
from benchmark.recall_tables import table
from benchmark.recall_tasks import Permutations, Questions, Recall
from benchmark.recall_training import Draw, Training, accuracy, train
from record import RESULTS

COLUMNS = {
    name: (
        *("row", "seed", load, "length", "accuracy", "questions", "steps", "train_seconds"),
        *("device", "versions", "commit"),
    )
    for name, load in (("recall", "pairs"), ("permutations", "group"))
}
LENGTHS = {"recall": (512, 2048, 4096, 8192, 16384), "permutations": (32, 64, 128, 256, 512)}
LOADS = {"recall": (4, 8, 16, 32, 64), "permutations": (3, 4, 5)}
PAIRS = 16  # asked for at all lengths
QUESTIONS = 640  # of a cell, so that its standard error is below .02
RECALL_STEPS, LATE_STEPS = 450, 900  # of training
STEPS = {3: 800, 4: 800, 5: 1000}  # of training, by n of the group S_n
LAST = 16  # places of a product that are asked for
TEST_SEED = 10_000  # of what is asked, the same of all rows


class Cell(NamedTuple):
    """What is asked of a trained model."""

    load: int  # pairs, or n of the group S_n
    length: int
    draw: Draw
    sequences: int


@dataclass(frozen=True)
class Problem:
    """What one model is trained for, and all that it is asked."""

    n_tokens: int
    n_answers: int
    chunk_size: int
    training: Training
    practice: Draw
    cells: tuple[Cell, ...]
    last: int | None = None


def main(argv: list[str] | None = None) -> None:
    """Measure what the CSV does not hold, or print and draw what it does."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("task", choices=list(PROBLEMS))
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="ROW")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--lengths", nargs="+", type=int, help="tokens of a sequence when asked")
    parser.add_argument("--loads", nargs="+", type=int, help="pairs, or n of the groups S_n")
    parser.add_argument("--steps", type=int, help="of training, else as the table has it")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="of a CPU (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the CSV and the picture")
    parser.add_argument("--print", action="store_true", help="measure nothing, print the table")
    parser.add_argument("--draw", action="store_true", help="measure nothing, draw the picture")
    args = parser.parse_args(argv)
    out = args.out / f"{args.task}.csv"
    if not (args.print or args.draw):
        torch.set_num_threads(args.threads)
        problems = PROBLEMS[args.task](args.lengths or LENGTHS[args.task], args.loads or LOADS[args.task])
        for seed, row, problem in product(args.seeds, args.rows, problems):
            late = args.task == "recall" and row in LEARN_LATE
            steps = args.steps or (LATE_STEPS if late else problem.training.steps)
            trained = replace(problem, training=replace(problem.training, steps=steps))
            for found in measure(row, seed, trained, _held(out, args.task, row, seed), args.device):
                load = {COLUMNS[args.task][2]: found.pop("load")}
                stamp = record.stamp(["titans-ts", "torch"], args.device)
                record.append(out, COLUMNS[args.task], found | load | stamp)
    if args.print:
        print("\n".join(table(record.read(out), args.task)))
    if args.draw:
        from benchmark.recall_picture import draw

        print(draw(record.read(out), args.task, args.out / f"{args.task}.png"))


def recall(lengths: Sequence[int], loads: Sequence[int]) -> list[Problem]:
    """Pairs among fillers: one model, asked for 16 pairs of all lengths, and for other numbers of 512 tokens."""
    task = Recall()

    def practice(batch: int, length: int, generator: torch.Generator) -> Questions:
        pairs = int(torch.randint(4, min(32, length // 4) + 1, (), generator=generator))
        return task.draw(batch, length, pairs, generator)

    cells = dict.fromkeys([*((PAIRS, length) for length in lengths), *((load, LENGTHS["recall"][0]) for load in loads)])
    return [
        Problem(
            *(task.n_tokens, task.n_answers),
            chunk_size=16,
            training=Training(steps=RECALL_STEPS, lengths=(64, 128, 256, 512, 1024), tokens=8192),
            practice=practice,
            cells=tuple(
                Cell(load, length, partial(_pairs, task, load), math.ceil(QUESTIONS / load)) for load, length in cells
            ),
        )
    ]


def _pairs(task: Recall, pairs: int, batch: int, length: int, generator: torch.Generator) -> Questions:
    return task.draw(batch, length, pairs, generator)


def permutations(lengths: Sequence[int], loads: Sequence[int]) -> list[Problem]:
    """Products of transpositions: a model for each group."""
    tasks = {n: Permutations(n) for n in loads}
    return [
        Problem(
            *(task.n_tokens, task.n_answers),
            chunk_size=1,
            training=Training(steps=STEPS.get(n, max(STEPS.values())), lengths=(32,), tokens=2048),
            practice=task.draw,
            cells=tuple(Cell(n, length, task.draw, QUESTIONS // LAST) for length in lengths),
            last=LAST,
        )
        for n, task in tasks.items()
    ]


PROBLEMS = {"recall": recall, "permutations": permutations}


def measure(
    row: str, seed: int, problem: Problem, held: set[tuple[int, int]], device: str = "cpu"
) -> Iterator[dict[str, Any]]:
    """Train a row and ask it what is not `held` of (load, length); one dictionary for each."""
    cells = [cell for cell in problem.cells if (cell.load, cell.length) not in held]
    if not cells:
        return
    torch.manual_seed(seed)
    blocks = config(row, chunk_size=problem.chunk_size)
    model = SequenceModel(problem.n_tokens, problem.n_answers, blocks).to(device)
    begun = time.perf_counter()
    for step, right in enumerate(train(model, problem.practice, problem.training, seed), 1):
        if step % 100 == 0:
            print(f"{row}, seed {seed}: step {step}, {right:.3f}, {time.perf_counter() - begun:.0f} s", flush=True)
    seconds = time.perf_counter() - begun
    for cell in cells:
        found = accuracy(model, cell.draw, cell.length, cell.sequences, TEST_SEED + cell.length, problem.last)
        print(f"{row}, seed {seed}: {cell.load} of {cell.length}: {found:.3f}", flush=True)
        yield {
            "row": row,
            "seed": seed,
            "load": cell.load,
            "length": cell.length,
            "accuracy": found,
            "questions": cell.sequences * (problem.last or cell.load),
            "steps": problem.training.steps,
            "train_seconds": seconds,
        }


def _held(path: Path, task: str, row: str, seed: int) -> set[tuple[int, int]]:
    """(load, length) of what the CSV has of a row and seed."""
    rows = (found for found in record.read(path) if found["row"] == row and found["seed"] == str(seed))
    return {(int(found[COLUMNS[task][2]]), int(found["length"])) for found in rows}


if __name__ == "__main__":
    main()
