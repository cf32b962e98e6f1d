"""The tiles that kernels read and write: which tokens a segment has, and what lies past its end."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="needs the package triton")

import triton
import triton.language as tl

from titans_ts.kernels.triton_common import load_rows, load_tile, segment, store_columns, store_tile, update_gates

C, DP = 16, 16


@triton.jit
def segments(out, T, offset, chunk_size):
    c = tl.program_id(0)
    first, count = segment(c, T, offset, chunk_size)
    tl.store(out + 2 * c, first)
    tl.store(out + 2 * c + 1, count)


@triton.jit
def copy_rows(x, y, first, count, stride, D: tl.constexpr, C: tl.constexpr, DP: tl.constexpr):
    rows = load_rows(x, first, count, stride, D, C, DP)
    store_columns(y, tl.trans(rows), first, count, stride, D, C, DP)


@triton.jit
def sums_of_rows(x, out, first, count, stride, D: tl.constexpr, C: tl.constexpr, DP: tl.constexpr):
    tl.store(out + tl.arange(0, C), tl.sum(load_rows(x, first, count, stride, D, C, DP), axis=1))


@triton.jit
def copy_tile(x, y, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    store_tile(y, load_tile(x, ROWS, COLUMNS), ROWS, COLUMNS)


@triton.jit
def last_gates(table, A, out, number, C: tl.constexpr):
    b_n, a_n, e_n, A_n, D_n = update_gates(table, A, number, C)
    tl.store(out, b_n)
    tl.store(out + 1, a_n)
    tl.store(out + 2, e_n)
    tl.store(out + 3 + tl.arange(0, C), A_n)
    tl.store(out + 3 + C + tl.arange(0, C), D_n)


@pytest.mark.parametrize(
    ("T", "offset", "chunk_size", "expected"),
    [
        (10, 0, 4, [(0, 4), (4, 4), (8, 2)]),
        (10, 3, 4, [(0, 1), (1, 4), (5, 4), (9, 1)]),
        (2, 1, 4, [(0, 2)]),
    ],
)
def test_segments_are_the_parts_of_chunks_that_a_call_reads(
    T: int, offset: int, chunk_size: int, expected: list[tuple[int, int]], device: torch.device
) -> None:
    out = torch.zeros(len(expected), 2, dtype=torch.int32, device=device)
    segments[(len(expected),)](out, T, offset, chunk_size)
    assert out.tolist() == [list(pair) for pair in expected]


def test_rows_past_the_end_are_neither_read_nor_written(device: torch.device) -> None:
    D, first, count, stride = 5, 3, 4, 7
    x = torch.full((30, stride), torch.nan, device=device)
    x[first : first + count, :D] = torch.rand(count, D, device=device)
    y = torch.zeros_like(x)
    copy_rows[(1,)](x, y, first, count, stride, D=D, C=C, DP=DP)
    expected = torch.zeros_like(x)
    expected[first : first + count, :D] = x[first : first + count, :D]
    assert torch.equal(y, expected)
    sums = torch.empty(C, device=device)
    sums_of_rows[(1,)](x, sums, first, count, stride, D=D, C=C, DP=DP)
    assert (sums[:count] > 0).all()
    assert torch.equal(sums[count:], torch.zeros(C - count, device=device))


def test_a_tile_is_stored_in_the_dtype_of_its_place(device: torch.device) -> None:
    x = torch.rand(4, 8, device=device)
    y = torch.zeros(4, 8, dtype=torch.float16, device=device)
    copy_tile[(1,)](x, y, ROWS=4, COLUMNS=8)
    assert torch.equal(y, x.half())


def test_the_gates_of_an_update_are_those_of_the_last_lane(device: torch.device) -> None:
    table, A = torch.rand(3, 4, C, device=device), torch.rand(3, C, C, device=device)
    out = torch.empty(3 + 2 * C, device=device)
    last_gates[(1,)](table, A, out, 2, C=C)
    assert torch.equal(out[:3], table[2, :3, -1])
    assert torch.equal(out[3 : 3 + C], A[2, -1])
    assert torch.equal(out[3 + C :], table[2, 3])
