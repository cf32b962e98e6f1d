"""Which rows of each series train a network, and which tell how well it learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from .frames import Panel
from .windows import known_windows

VALIDATION_SHARE = 0.1


def split_rows(panel: Panel, horizon: int, val_size: Any) -> tuple[np.ndarray, np.ndarray]:
    """Training rows of each series, and which series have validation rows after them.

    `val_size` as `TitansForecaster` takes it. ValueError if it is none, or no series can be learned from.
    """
    lengths = panel.lengths
    if lengths.max() < horizon + 1:
        i = int(lengths.argmax())
        raise ValueError(
            f"a series needs at least `horizon` + 1 = {horizon + 1} rows to learn from, but the longest, "
            f"{panel.ids[[i]].tolist()[0]!r}, has {lengths[i]}. Lower `horizon` or bring more rows."
        )
    size = VALIDATION_SHARE if val_size is None else val_size
    whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
    if not (whole and size >= 0) and not (isinstance(size, (float, np.floating)) and 0 <= size < 1):
        raise ValueError(f"`val_size` must be a number of rows or a share in [0, 1), got {size!r}.")
    rows = np.full(len(lengths), size) if whole else np.ceil(lengths * size).astype(np.int64)
    if size > 0:
        rows = np.maximum(rows, horizon)
    validated = (rows > 0) & (lengths - rows >= horizon + 1)
    if panel.observed is not None:
        count = np.where(validated, rows - horizon + 1, 0)
        validated = known_windows(panel.observed, lengths, lengths - rows, count, horizon)[2] > 0
    return np.where(validated, lengths - rows, lengths), validated


def first_rows(panel: Panel, train_rows: np.ndarray, lookback: int, horizon: int) -> np.ndarray:
    """The first row that a training window forecasts: after a full lookback or, in a shorter series, halfway.

    A series that has no window with a known row from there on begins with its second row.
    """
    half = np.maximum((train_rows - horizon + 1) // 2, 1)
    first = np.where(train_rows >= lookback + horizon, lookback, half)
    if panel.observed is not None:
        count = np.maximum(train_rows - first - horizon + 1, 0)
        found = known_windows(panel.observed, panel.lengths, first, count, horizon)[2]
        first = np.where(found > 0, first, 1)
    return first
