"""The gate of the long-term memory along further rows: what share of the memory a forecast from there would read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch

from .fitted import FittedModel
from .stream.reading import LongTerm
from .tables.panel import Panel

PARTS = ("smooth", "seasonal")  # of a forecast, each with a gate


def gate_shares(fitted: FittedModel, rows: Panel, series: np.ndarray, every: int, missing: str) -> dict[str, Any]:
    """Shares that the gates let through, once every so many rows are read, as columns over the rows.

    Parameters
    ----------
    fitted : FittedModel
        With a long-term memory; it stays as it is.
    rows : Panel
        Rows that follow those of the series, as `FittedModel.update` takes them.
    series : ndarray of int, shape (rows.n_series,)
        The number of each of its series among those fitted.
    every : int
    missing : {"error", "interpolate", "ffill"}

    Returns
    -------
    dict of str to ndarray, shape (rows,)
        A column for each part of a forecast; NaN between readings.
    """
    lengths, offsets = rows.data.lengths, rows.data.offsets
    found: dict[str, np.ndarray] = {}
    for begin in range(0, int(lengths.max()), every):
        index = np.flatnonzero(lengths > begin)
        until = np.minimum(lengths[index], begin + every)
        part = rows.take(index).head(until)
        fitted = fitted.update(part.tail(until - begin), series[index], missing)
        for name, shares in _shares(fitted.long_term, series[index]).items():
            found.setdefault(name, np.full(len(rows.data.values), np.nan))[offsets[index] + until - 1] = shares
    return found


def without_missing(table: Any, columns: list[str]) -> Any:
    """A table of any kind without the rows in which these columns are NaN."""
    if isinstance(table, pd.DataFrame):
        return table.dropna(subset=columns).reset_index(drop=True)
    import narwhals as nw  # which pandas tables do not need

    native = nw.from_native(table, eager_only=True)
    return native.filter(*(~nw.col(name).is_nan() for name in columns)).to_native()


def _shares(long_term: LongTerm | None, series: np.ndarray) -> dict[str, np.ndarray]:
    """For each part of a forecast the share of each of these series; by the steps of blocks where there are several."""
    if long_term is None:
        raise ValueError(
            "gates are those of a long-term memory, which this model does not read; fit it with `context='stream'`."
        )
    memory, numbers = long_term.memory, torch.from_numpy(series).to(long_term.state.ends.device)
    shares = memory.shares(long_term.state.take(numbers), numbers)
    blocks = memory.config.blocks
    return {
        PARTS[i] if len(blocks) == 1 else f"{PARTS[i]}, steps {first + 1} to {last}": of_part.cpu().numpy()
        for (first, last), of_block in zip(blocks, shares, strict=True)
        for i, of_part in enumerate(of_block.T)
    }
