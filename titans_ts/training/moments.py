"""Second moments of windows, which is all that least squares asks of them.

Windows that lie one row after the other share nearly all of their products: those of lags i + 1 and j + 1 are those of
i and j, minus the first and plus one more. So the moments of all windows of a series take as many operations as rows
times lags, plus lags squared, and not windows times lags squared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from titans_ts.model import Batch
from titans_ts.windows.windows import Run, Windows

BATCH = 4096  # windows read at a time


class Moments(NamedTuple):
    """Second moments of each series' windows, or of all windows as if they were of one series; in float64."""

    xx: Tensor  # (n_series, inputs, inputs), or (1, ...) where all series read the same
    xy: Tensor  # (n_series, inputs, horizon)
    yy: Tensor  # (n_series,)
    n: Tensor  # (n_series,) entries of y; all of a window count as much as it does

    @classmethod
    def zero(cls, parts: int, inputs: int, horizon: int, device: torch.device, same_inputs: bool = False) -> Moments:
        """The moments of no window."""
        shapes = (1 if same_inputs else parts, inputs, inputs), (parts, inputs, horizon), (parts,), (parts,)
        return cls(*(torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes))

    def first(self, inputs: int) -> Moments:
        """The moments of the first `inputs`."""
        return self._replace(xx=self.xx[:, :inputs, :inputs], xy=self.xy[:, :inputs])

    def since(self, unread: int) -> Moments:
        """The moments of all inputs but the first `unread`."""
        return self._replace(xx=self.xx[:, unread:, unread:], xy=self.xy[:, unread:])

    def scaled(self, by: Tensor) -> Moments:
        """The moments of inputs that are multiplied `by` (inputs, 1)."""
        return self._replace(xx=self.xx * (by * by.mT), xy=self.xy * by)

    def pooled(self, inputs: int) -> Moments:
        """The moments of all series as one, and of the first `inputs`."""
        return Moments(*(moment.sum(0) for moment in self.first(inputs)))

    def errors(self, weight: Tensor) -> Tensor:
        """The mean squared errors of y = x weight in each series, (n_series,), NaN where there is no window.

        `weight` is common, (inputs, horizon), or (n_series, inputs, horizon).
        """
        explained = 2 * (weight * self.xy).sum((-2, -1)) - (weight * (self.xx @ weight)).sum((-2, -1))
        return (self.yy - explained) / self.n


def moments_of_batches(
    windows: Windows,
    most: int | None,
    shape: tuple[int, int, int],
    read: Callable[[Batch], tuple[Tensor, Tensor, Tensor]],
) -> Moments:
    """The moments of what `read` finds in each batch: x (samples, inputs), y (samples, horizon), the part of each.

    `shape` is parts, inputs and horizon; where there are over `most` windows, evenly spaced ones stand for them. What
    is of a part below 0 is left out.
    """
    total = Moments.zero(*shape, windows.device)
    for batch in windows.batches(BATCH, most):
        x, y, part = read(batch)
        x, y = x.double(), y.double()
        weight = None if batch.weight is None else batch.weight.double().unsqueeze(1)
        if weight is not None:
            x, y = x * weight.sqrt(), y * weight.sqrt()
        for i in part.unique().tolist():  # windows come series after series, so a batch has few
            if i < 0:
                continue
            of_part = part == i
            a, b = x[of_part], y[of_part]
            total.xx[i] += a.mT @ a
            total.xy[i] += a.mT @ b
            total.yy[i] += b.square().sum()
            total.n[i] += b.numel() if weight is None else weight[of_part].sum() * b.shape[1]
    return total


def moments_of_origins(
    windows: Windows,
    most: int,
    shape: tuple[int, int, int],
    read_past: Callable[[Batch], Tensor],
    read_future: Callable[[Batch], Tensor],
) -> Moments:
    """The same of aligned windows, all series of which read the same; each counts by its recency alone.

    `read_past` gives x (samples, inputs) of the first series' windows, and `read_future` y (samples, horizon) of those
    of every series, one after the other; there are at most `most` origins, evenly spaced.
    """
    parts, inputs, horizon = shape
    total = Moments.zero(parts, inputs, horizon, windows.device, same_inputs=True)
    for batches in windows.by_origin(max(1, BATCH // windows.n_series), most):
        x = read_past(batches[0]).double()
        y = torch.cat([read_future(batch).double() for batch in batches], dim=1)
        n = torch.tensor(float(len(x)), dtype=torch.float64)
        if windows.half_life is not None and batches[0].weight is not None and windows.series_weight is not None:
            recency = batches[0].weight.double() / windows.series_weight[batches[0].series]
            x, y, n = x * recency.sqrt().unsqueeze(1), y * recency.sqrt().unsqueeze(1), recency.sum()
        total.xx[0] += x.mT @ x
        xy = (x.mT @ y).unflatten(1, (len(batches), horizon)).transpose(0, 1)
        for batch, of_part, squares in zip(batches, xy, y.square().sum(0).view(-1, horizon).sum(1), strict=True):
            part = int(batch.series[0])
            total.xy[part] += of_part
            total.yy[part] += squares
            total.n[part] += n * horizon
    return total


def moments_of_runs(
    runs: list[Run],
    parts: Tensor,
    n_parts: int,
    lookback: int,
    horizon: int,
    window_mean: bool,
    steps: slice = slice(None),
) -> Moments:
    """The moments of centred pasts and of futures minus the window mean, over all windows of `runs`.

    With `window_mean` the mean itself is one more input.

    Parameters
    ----------
    runs : list of Run
        Their values (windows + lookback + horizon - 1,) in float64. Each one's windows count by its weight.
    parts : Tensor of int (runs,)
        The part, in [0, n_parts), that each run's windows belong to; runs of a part below 0 are left out.
    steps : slice
        The steps ahead whose moments are wanted.
    """
    device, size = runs[0].values.device, lookback + horizon
    read = _centring(lookback, horizon, device)
    inputs = lookback + window_mean
    ahead = read[lookback + 1 :][steps]
    total = Moments.zero(n_parts, inputs, len(ahead), device)
    for part in parts[parts >= 0].unique().tolist():
        of_part = [runs[i] for i in (parts == part).nonzero()[:, 0].tolist()]
        shift = torch.cat([run.values for run in of_part]).mean()
        weights = torch.tensor([run.weight for run in of_part], dtype=torch.float64, device=device)
        products, sums, count = _products([run.values - shift for run in of_part], weights, size)
        past, future = read[:inputs] @ products, ahead
        xx, xy = past @ read[:inputs].mT, past @ future.mT
        if window_mean:  # the mean itself, not what it is off the shift
            xx[:, -1] += shift * (read[:inputs] @ sums)
            xx[-1] = xx[:, -1]
            xx[-1, -1] += shift * (read[lookback] @ sums + shift * count)
            xy[-1] += shift * (future @ sums)
        total.xx[part], total.xy[part] = xx, xy
        total.yy[part] = ((future @ products) * future).sum()
        total.n[part] = count * len(ahead)
    return total


def _centring(lookback: int, horizon: int, device: torch.device) -> Tensor:
    """The matrix from a window's rows to its centred past, its mean, its future minus the mean: (size + 1, size)."""
    size = lookback + horizon
    mean = torch.zeros(size, dtype=torch.float64, device=device)
    mean[:lookback] = 1 / lookback
    rows = torch.eye(size, dtype=torch.float64, device=device) - mean
    return torch.cat([rows[:lookback], mean[None], rows[lookback:]])


def _products(series: list[Tensor], weights: Tensor, size: int) -> tuple[Tensor, Tensor, float]:
    """The products (size, size) and sums (size,) over all windows of `size` rows, and the number of windows.

    Those of each series count by its weight, of `weights` (series,).
    """
    counts = [len(values) - size + 1 for values in series]
    begin = torch.stack([values[:size] for values in series])
    # The last of each is not read.
    end = torch.stack([pad(values[n:], (0, 1)) for values, n in zip(series, counts, strict=True)])
    first, total = begin.new_zeros(size), begin.new_zeros(())
    for values, n, weight in zip(series, counts, weights, strict=True):
        first += weight * _correlation(values, n, size)
        total += weight * values[:n].sum()
    column, root = weights.unsqueeze(1), weights.sqrt().unsqueeze(1)
    last, earliest = end * root, begin * root
    moved = last.mT @ last - earliest.mT @ earliest  # what a lag further on both sides adds
    products = torch.empty_like(moved)
    products[0] = first
    for i in range(size - 1):
        products[i + 1, 0] = first[i + 1]
        products[i + 1, 1:] = products[i, :-1] + moved[i, :-1]
    sums = torch.cat([total[None], total + ((end - begin) * column).sum(0).cumsum(0)[:-1]])
    return (products + products.mT) / 2, sums, (weights * weights.new_tensor(counts)).sum().item()


def _correlation(values: Tensor, n: int, size: int) -> Tensor:
    """sum_t values[t] values[t + j] over t < n, for j < size."""
    length = 1 << (len(values) + n).bit_length()
    spectrum = torch.fft.rfft(values, length) * torch.fft.rfft(values[:n], length).conj()
    sums: Tensor = torch.fft.irfft(spectrum, length)[:size]
    return sums
