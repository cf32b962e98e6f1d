"""What followed a surprising origin is held at once and read where the same rows come again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from titans_ts.model import Batch
from titans_ts.model.recall import Recall, RecallState, recent_rows

SPAN, COLUMNS, DELAY = 8, 4, 5
ROUNDING = dict(rtol=1e-5, atol=1e-5)  # float32


def recall_of(slots: int = 16, n_series: int = 2) -> Recall:
    recall = Recall(slots, SPAN, COLUMNS, DELAY, n_series)
    rows = torch.randn(n_series, 400, SPAN, generator=torch.Generator().manual_seed(0))
    recall.initialise([rows], [torch.ones(rows.shape[:2], dtype=torch.bool)], [torch.arange(n_series)])
    return recall


def stream(n_tokens: int, cues: dict[int, int], seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Small rows of two series, with cues of some kinds at tokens; what each leaves is known a delay later."""
    rng = torch.Generator().manual_seed(seed)
    rows = 0.3 * torch.randn(2, n_tokens, SPAN, generator=rng)
    left = torch.zeros(2, n_tokens, COLUMNS)
    kinds = torch.randn(9, SPAN, generator=torch.Generator().manual_seed(5))
    answers = torch.randn(9, COLUMNS, generator=torch.Generator().manual_seed(6))
    for token, kind in cues.items():
        rows[:, token] = 12 * kinds[kind]
        if token + DELAY < n_tokens:
            left[:, token + DELAY] = answers[kind]
    return rows, left, answers


def read(
    recall: Recall, rows: Tensor, left: Tensor, state: RecallState | None = None, known: Tensor | None = None
) -> tuple[RecallState, Tensor]:
    known = torch.ones(rows.shape[:2], dtype=torch.bool) if known is None else known
    return recall.advance(recall.begin(2) if state is None else state, rows, left, known, torch.arange(2))


def trusted(recall: Recall) -> RecallState:
    """A state whose gate has much evidence for what is read."""
    state = recall.begin(2)
    return state._replace(agreement=state.agreement + 1e6, size=state.size + 1e6)


def test_one_showing_is_read_in_full_however_long_ago() -> None:
    recall = recall_of()
    rows, left, answers = stream(3000, {10: 3, 50: 4, 2999: 3})
    _, added = read(recall, rows, left, trusted(recall))
    torch.testing.assert_close(added[0, -1], answers[3], rtol=0.05, atol=0.05)  # w_0 takes a share of 4 %
    ordinary = [t for t in range(3000) if t not in (10, 50, 2999)]
    assert added[:, ordinary].abs().max() == 0
    assert added[:, [10, 50]].abs().max() < 0.05  # nothing like them was held


def test_the_oldest_is_lost_where_there_are_more_than_slots() -> None:
    recall = recall_of(slots=4)
    several = {10 * i: i for i in range(6)}
    rows, left, answers = stream(200, several | {100 + 10 * i: i for i in range(6)})
    rows, left = rows[:, :151], left[:, :151]
    state, _ = read(recall, rows[:, :90], left[:, :90], trusted(recall))
    assert state.written.tolist() == [6, 6]
    for i, held in ((0, False), (1, False), (2, True), (5, True)):
        found = recall.added(state, rows[:, 100 + 10 * i], torch.arange(2))
        assert torch.allclose(found, answers[i], atol=0.1) == held


def test_the_gate_opens_with_what_readings_were_worth() -> None:
    recall = recall_of()
    rows, left, answers = stream(200, dict.fromkeys(range(20, 200, 20), 1))
    _, added = read(recall, rows, left)
    size = (added[0] @ answers[1])[20::20] / answers[1].square().sum()
    assert size[0] == 0
    assert (size.diff() >= 0).all()
    assert size[-1] > 0.5
    rng = np.random.default_rng(0)
    noise = left * torch.from_numpy(rng.choice([-1.0, 1.0], (1, 200, 1))).float()
    _, added = read(recall, rows, noise)
    assert (added[0] @ answers[1])[100::20].abs().max() < 0.5 * answers[1].square().sum()


@pytest.mark.parametrize("cuts", [[1], [7, 8, 90], [64, 128], list(range(1, 150))])
@pytest.mark.parametrize("slots", [3, 100])
def test_any_cuts_equal_one_pass(cuts: list[int], slots: int) -> None:
    recall = recall_of(slots)
    rows, left, _ = stream(150, {i: i % 3 for i in range(5, 150, 4)})
    known = torch.rand(2, 150, generator=torch.Generator().manual_seed(2)) > 0.2
    whole, expected = read(recall, rows, left, known=known)
    state, found = None, []
    for begin, end in zip([0, *cuts], [*cuts, 150], strict=True):
        part = slice(begin, end)
        state, added = read(recall, rows[:, part], left[:, part], state, known[:, part])
        found.append(added)
    torch.testing.assert_close(torch.cat(found, dim=1), expected, **ROUNDING)
    assert state is not None
    for mine, theirs in zip(state, whole, strict=True):
        torch.testing.assert_close(mine, theirs, **ROUNDING)


def test_no_token_sees_a_later_one_and_unknown_truth_writes_nothing() -> None:
    recall = recall_of()
    rows, left, _ = stream(120, {i: i % 3 for i in range(5, 120, 6)})
    _, expected = read(recall, rows, left, trusted(recall))
    rows[:, 80:], left[:, 80:] = 9.0, -9.0
    _, found = read(recall, rows, left, trusted(recall))
    assert torch.equal(found[:, :80], expected[:, :80])
    state, found = read(recall, rows, left, trusted(recall), known=torch.zeros(2, 120, dtype=torch.bool))
    assert state.written.tolist() == [0, 0]
    assert found.abs().max() == 0


def test_a_forecast_from_the_state_is_that_of_the_last_token() -> None:
    recall = recall_of()
    rows, left, _ = stream(101, dict.fromkeys(range(4, 101, 8), 1))
    state, added = read(recall, rows, left)
    torch.testing.assert_close(recall.added(state, rows[:, -1], torch.arange(2)), added[:, -1], **ROUNDING)
    assert added[:, -1].abs().max() > 0.1


def test_surprising_rows_do_not_make_themselves_usual() -> None:
    """Rows of a season, with a quarter of others: the others stay long, and the season is of usual length."""
    rng = np.random.default_rng(0)
    phase = rng.uniform(0, 2 * np.pi, (1000, 1)) + np.arange(SPAN)
    x = 3 * np.sin(phase) + 0.2 * rng.normal(size=(1000, SPAN))
    x[::4] += 2 * rng.choice([-1, 1], (250, SPAN))
    recall = Recall(8, SPAN, COLUMNS, DELAY, 1)
    rows = torch.from_numpy(x).float().unsqueeze(0)
    recall.initialise([rows], [torch.ones(1, 1000, dtype=torch.bool)], [torch.arange(1)])
    length = (rows[0] @ recall.whitening[0]).square().sum(-1)
    others = torch.arange(1000) % 4 == 0
    assert (length[others] > 6).float().mean() > 0.95
    assert (length[~others] < 3).float().mean() > 0.98


def test_constant_and_wild_rows_leave_it_finite() -> None:
    for value in (0.0, 1.0, 1e18):
        recall = Recall(8, SPAN, COLUMNS, DELAY, 2)
        rows = torch.full((2, 50, SPAN), value)
        recall.initialise([rows], [torch.ones(2, 50, dtype=torch.bool)], [torch.arange(2)])
        _, added = read(recall, rows, torch.zeros(2, 50, COLUMNS))
        assert added.isfinite().all()


def test_recent_rows_are_centred_and_masked_ones_zero() -> None:
    past = torch.arange(12.0).unsqueeze(0)
    nothing = torch.zeros(1, dtype=torch.int64)
    batch = Batch(past=past, future=past[:, :0], time_index=nothing, series=nothing)
    assert recent_rows(batch, 3).tolist() == [[3.5, 4.5, 5.5]]
    mask = torch.arange(12).unsqueeze(0) >= 10
    assert recent_rows(batch._replace(padding_mask=mask), 4).tolist() == [[0, 0, -0.5, 0.5]]
