"""The order of the work in the backward: every segment of every sequence once, each into a slot of its own."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="needs the package triton")

import triton
import triton.language as tl

from titans_ts.kernels import triton_backward

H, SLOT = 2, 1


@triton.jit
def visit(taken, when, scratch, BH, H, begin, end, part, slots, programs, N, SLOT: tl.constexpr, PHASE: tl.constexpr):
    """Write down which program takes each segment, its turn among the program's, and where its slot is."""
    pid = tl.cast(tl.program_id(0), tl.int64)
    parts, items, each = triton_backward.items_of(BH, begin, end, part, PHASE)
    turn = tl.cast(0, tl.int64)
    for item in range(pid, items, programs):
        bh, _, _, last_part, own = triton_backward.sequence_of(item, parts, pid, H, PHASE)
        for i in range(0, each):
            first, last, slot_0 = triton_backward.part_of(
                last_part - i, begin, end, part, scratch, own, slots, SLOT, PHASE
            )
            turn += 1
            for c in range(first, last):
                tl.store(taken + bh * N + c, tl.load(taken + bh * N + c) + 1)
                tl.store(when + bh * N + c, turn)
                tl.store(slot_0 + c * SLOT, bh * N + c)


def visited(
    phase: str, *, BH: int, N: int, part: int, slots: int, rows: int, begin: int, end: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    taken, when = (torch.zeros(BH, N, dtype=torch.int64, device=device) for _ in range(2))
    scratch = torch.full((rows, slots), -1, dtype=torch.int64, device=device)
    programs = rows if phase == "all" else BH * -(-(end - begin) // part)
    visit[(programs,)](taken, when, scratch, BH, H, begin, end, part, slots, programs, N, SLOT=SLOT, PHASE=phase)
    return taken, when, scratch


def test_all_phases_together_take_a_sequence_part_by_part_from_the_last(device: torch.device) -> None:
    taken, when, scratch = visited("all", BH=6, N=7, part=3, slots=3, rows=4, begin=0, end=7, device=device)
    assert torch.equal(taken, torch.ones_like(taken))
    # Four programs take six sequences, parts of three segments each; the last part has one.
    assert when[0].tolist() == [3, 3, 3, 2, 2, 2, 1]
    assert when[5].tolist() == [6, 6, 6, 5, 5, 5, 4]
    assert (scratch >= 0).all()  # of the last part that was taken


@pytest.mark.parametrize(("phase", "part"), [("states", 2), ("before", 1), ("reverse_scan", 4), ("after", 1)])
def test_a_phase_apart_takes_the_segments_asked_for_each_into_a_slot_of_its_own(
    phase: str, part: int, device: torch.device
) -> None:
    begin, end = 2, 6
    taken, _, scratch = visited(phase, BH=4, N=7, part=part, slots=4, rows=4, begin=begin, end=end, device=device)
    expected = torch.zeros_like(taken)
    expected[:, begin:end] = 1
    assert torch.equal(taken, expected)
    numbers = torch.arange(4, device=device)[:, None] * 7 + torch.arange(begin, end, device=device)
    assert torch.equal(scratch, numbers)


def test_the_phases_are_in_their_order() -> None:
    assert triton_backward.PHASES == ("states", "before", "reverse_scan", "after")
