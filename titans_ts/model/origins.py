"""What the long-term memory knows of an origin: features that make its key, and a basis of what came after it.

An origin is a moment to forecast from. Its features are few and say what a linear memory can learn from: the phase of
the season, recent means, and the forecast that the core makes there.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from .batch import Batch
from .layers import centred

DAY = 24  # steps that stand for a season where a series has none
HARMONICS = 3  # of the season, in the features
SMOOTH, SEASONAL, PLAIN = 16, 4, 24  # cosines and harmonics of a basis, or cosines alone over less than a season
READ_AHEAD = 12  # coefficients of the core's forecast among the features
SHORTEST = 1e-6  # of a column's length, what the columns before it must leave for it to count


def season_of(cycle: int) -> int:
    """Steps that stand for a season: its period, or those of a day of hours where there is none."""
    return cycle if cycle > 1 else DAY


def horizon_basis(steps: int, cycle: int) -> tuple[Tensor, Tensor]:
    """An orthonormal basis of the smooth and the seasonal sequences of so many steps, and which columns are seasonal.

    The columns are the mean, pairs of harmonics of the season where the steps hold one, and cosines of rising
    frequency, each minus what those before it hold.

    Returns
    -------
    basis : Tensor (steps, columns)
    seasonal : Tensor of bool (columns,)
    """
    step = np.arange(steps)
    n_cosines, n_harmonics = min(steps, PLAIN), 0
    if 1 < cycle <= steps:
        n_cosines, n_harmonics = min(steps, SMOOTH), min(SEASONAL, cycle // 2)
    cosines = np.cos(np.pi * (step[:, None] + 0.5) / steps * np.arange(n_cosines))
    angle = 2 * np.pi * step[:, None] / max(cycle, 1) * np.arange(1, n_harmonics + 1)
    waves = np.stack([np.cos(angle), np.sin(angle)], axis=-1).reshape(steps, -1)
    columns = np.concatenate([cosines[:, :1], waves, cosines[:, 1:]], axis=1)
    seasonal = np.zeros(columns.shape[1], dtype=bool)
    seasonal[1 : 1 + waves.shape[1]] = True
    kept: list[np.ndarray] = []
    counted = []
    for i, column in enumerate(columns.T):
        rest = column.copy()
        for _ in range(2):  # once more for what rounding left
            for other in kept:
                rest -= (other @ rest) * other
        if np.linalg.norm(rest) > SHORTEST * np.linalg.norm(column) and len(kept) < steps:
            kept.append(rest / np.linalg.norm(rest))
            counted.append(i)
    return torch.tensor(np.stack(kept, axis=1), dtype=torch.float32), torch.tensor(seasonal[counted])


def recent_spans(lookback: int) -> list[int]:
    """1, 2, 4, ... up to half a window: the last steps whose means are features."""
    return [2**i for i in range((max(lookback // 2, 1)).bit_length())]


def n_features(lookback: int, horizon: int, cycle: int) -> int:
    """How many features an origin has."""
    harmonics = 2 * HARMONICS if cycle > 1 else 0
    return 2 + harmonics + len(recent_spans(lookback)) + min(READ_AHEAD, horizon_basis(horizon, cycle)[0].shape[1])


def origin_features(batch: Batch, forecast: Tensor, basis: Tensor, cycle: int) -> Tensor:
    """Features of the origins at the ends of a batch's windows.

    Parameters
    ----------
    batch : Batch
        Of scaled series.
    forecast : Tensor (samples, horizon)
        The core's, from these windows.
    basis : Tensor (horizon, columns)
        Of the horizon.
    cycle : int

    Returns
    -------
    Tensor (samples, features)
        One; sines and cosines of the season at the first step forecast; the window mean; means over the last 1, 2, 4,
        ... steps minus it; coefficients of the forecast minus it. The groups have like sizes.
    """
    past, mask = batch.past, batch.padding_mask
    lookback, horizon = past.shape[1], forecast.shape[1]
    rows, mean = centred(past, mask)
    count = torch.ones_like(past) if mask is None else mask.to(past.dtype)
    parts = [torch.ones_like(mean)]
    if cycle > 1:
        step = batch.time_index + lookback
        if batch.clock_shift is not None:
            step = step + batch.clock_shift[:, min(lookback, batch.clock_shift.shape[1] - 1)]
        angle = 2 * math.pi * (step % cycle).unsqueeze(1) / cycle * torch.arange(1, HARMONICS + 1, device=past.device)
        parts += [part.to(past.dtype) / HARMONICS**0.5 for part in (angle.sin(), angle.cos())]
    parts.append(mean)
    spans = recent_spans(lookback)
    recent = [rows[:, -n:].sum(1) / count[:, -n:].sum(1).clamp(min=1) for n in spans]
    parts.append(torch.stack(recent, dim=1) / len(spans) ** 0.5)
    ahead = (forecast - mean) @ basis[:, :READ_AHEAD]
    parts.append(ahead / horizon**0.5)
    return torch.cat(parts, dim=1)
