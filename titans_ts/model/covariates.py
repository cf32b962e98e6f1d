"""Covariates in the network: a linear path from past ones to the horizon, and what a token says of all of them.

Future and static covariates act before the network, by `titans_ts.regression`; what they and past ones were in the
window is read here. Sources: the autoregressive distributed lags of Almon (1965), smoothed by means over doubling
spans, as HAR (Corsi, 2009) does; PatchTST (Nie et al., 2023) for the patches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from .layers import PatchEmbedding, patches_of
from .linear import spans

LAGS = 24  # last steps that are read one by one
PAST = "past"


class Column(NamedTuple):
    """A column of covariates as a network reads it."""

    role: str  # "static", "past" or "future"
    categories: int  # 0 for numbers
    mean: float  # of numbers, which are read as distances from it
    std: float


def standardised(covariates: np.ndarray, columns: tuple[Column, ...]) -> np.ndarray:
    """Numbers as distances from their mean over their deviation, in float32: (..., columns) -> the same.

    In float64 until then: of large numbers that vary little float32 would leave nothing.
    """
    mean, std = (np.array([getattr(column, name) for column in columns]) for name in ("mean", "std"))
    found: np.ndarray = ((covariates - mean) / std).astype(np.float32)
    return found


class CovariateInputs(nn.Module):
    """Standardised columns as numbers of like size, with dummies of categories."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        super().__init__()
        self.columns = columns
        self.size = sum(max(column.categories, 1) for column in columns)
        self.past = [i for i, column in enumerate(columns) if column.role == PAST]
        self.past_size = sum(max(columns[i].categories, 1) for i in self.past)

    def forward(self, covariates: Tensor, which: Iterable[int] | None = None) -> Tensor:
        """(samples, lookback, columns) -> (samples, lookback, size), of all columns or of those of `which` alone."""
        parts = []
        for i in range(len(self.columns)) if which is None else which:
            values, categories = covariates[..., i], self.columns[i].categories
            parts.append(one_hot(values.long(), categories).to(values.dtype) if categories else values.unsqueeze(-1))
        return torch.cat(parts, dim=-1)


class PastPath(nn.Module):
    """A linear map from past covariates to the horizon, zero at first, solved for in closed form and not trained.

    Of each it reads the last steps one by one, and before them means over spans that double.
    """

    weight: Tensor

    def __init__(self, size: int, lookback: int, horizon: int) -> None:
        super().__init__()
        self.lags = min(LAGS, lookback)
        self.spans = [(near, far) for near, far in spans(lookback)[:-1] if far > self.lags]
        self.n_inputs = size * (self.lags + len(self.spans))
        self.register_buffer("weight", torch.zeros(self.n_inputs, horizon))

    def inputs(self, past: Tensor) -> Tensor:
        """What the weights are multiplied with: (samples, lookback, size) -> (samples, n_inputs)."""
        lookback = past.shape[1]
        means = [past[:, lookback - far : lookback - near].mean(1, keepdim=True) for near, far in self.spans]
        return torch.cat([*means, past[:, lookback - self.lags :]], dim=1).flatten(1)

    def forward(self, inputs: Tensor) -> Tensor:
        """(samples, n_inputs) -> (samples, horizon)"""
        return inputs @ self.weight


class CovariateEmbedding(nn.Module):
    """What the tokens of a window say of its covariates, nothing at first."""

    def __init__(self, size: int, patches: PatchEmbedding, d_model: int) -> None:
        super().__init__()
        self.patch_len, self.stride = patches.patch_len, patches.stride
        self.project = nn.Linear(size * self.patch_len, d_model, bias=False)
        nn.init.zeros_(self.project.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        """(samples, lookback, size) -> (samples, tokens, d_model)"""
        patches = patches_of(inputs.mT, self.patch_len, self.stride).transpose(1, 2)  # (samples, tokens, size, .)
        out: Tensor = self.project(patches.flatten(2))
        return out
