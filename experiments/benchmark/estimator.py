"""The estimator on a data set of the benchmark: fitted on its train and validation rows, scored on its test rows."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from torch import Tensor

from benchmark.table import Variant
from titans_ts import TitansForecaster
from titans_ts.datasets import Dataset
from titans_ts.fitted import FittedModel
from titans_ts.tables.read import read_table
from titans_ts.tables.series_data import SeriesData
from titans_ts.training.evaluate import loss_by_series
from titans_ts.windows.splits import Fold, network_windows
from titans_ts.windows.windows import on_device

# Parameters that do not tell one row from another.
UNHASHED = ("random_state", "device", "verbose", "combine", "context")


class Fit(NamedTuple):
    """A fit of the estimator that a row is of; the columns are those of its lookback that want its errors."""

    variant: Variant
    horizon: int
    lookback: int
    seed: int
    columns: list[str]
    closed_form_alone: bool
    device: str | None
    verbose: int

    @property
    def is_plain(self) -> bool:
        """Whether it is the estimator as it comes, of whose closed form there is one row for all mixers."""
        plain: bool = (self.variant.model | self.variant.train).items() <= TitansForecaster().get_params().items()
        return plain

    def forecaster(self, n_validation: int, **parameters: Any) -> TitansForecaster:
        """The estimator with nothing set but horizon, lookback and what the benchmark's protocol asks for."""
        return TitansForecaster(
            horizon=self.horizon,
            lookback=self.lookback,
            val_size=n_validation,
            outliers="keep",  # published errors count the sentinels of weather as values
            combine=False,  # series are long, and errors are of windows
            context="window",  # what streams gain has tables of its own
            random_state=self.seed,
            device=self.device,
            verbose=self.verbose,
            **self.variant.model,
            **self.variant.train,
            **parameters,
        )

    def row(self, dataset: str, n_validation: int) -> dict[str, Any]:
        """What all its rows say; the hash is of the parameters that are not the estimator's defaults."""
        default = TitansForecaster().get_params()
        given = {
            name: value
            for name, value in self.forecaster(n_validation).get_params().items()
            if value != default[name] and name not in UNHASHED
        }
        return {
            "dataset": dataset,
            "lookback": self.lookback,
            "horizon": self.horizon,
            "seed": self.seed,
            "config": hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:12],
        }

    def fitted(self, data: Dataset, **parameters: Any) -> tuple[FittedModel, float]:
        """The fitted model, and the seconds that it took."""
        begun = time.perf_counter()
        rows = regular_frame(data).iloc[: data.split.validation.stop]
        return self.forecaster(len(data.split.validation), **parameters).fit(rows).fitted_, time.perf_counter() - begun


def closed_form(**parameters: Any) -> TitansForecaster:
    """An estimator that trains and combines nothing, on the CPU."""
    alone: dict[str, Any] = {"combine": False, "max_epochs": 0, "random_state": 0, "device": "cpu", "verbose": 0}
    return TitansForecaster(**(alone | parameters))


def regular_frame(data: Dataset) -> pd.DataFrame:
    """The rows up to the end of test in their own units, at even steps, as published results count them."""
    frame = data.frame.iloc[: data.split.test.stop]
    return frame.set_axis(pd.date_range(frame.index[0], periods=len(frame), freq=data.freq, name=frame.index.name))


def scaled_rows(fitted: FittedModel, data: Dataset) -> SeriesData[Tensor]:
    """The rows up to the end of test as the fitted network sees them, on its device."""
    panel = read_table(regular_frame(data), calendar=fitted.panel.calendar)
    return on_device(fitted.scaler.transform_panel(panel), fitted.network.device)


def errors(fitted: FittedModel, data: Dataset, dropped: int = 0) -> tuple[float, float]:
    """MSE and MAE over the test windows, in the space of the data set's scaler; the last `dropped` are left out."""
    config, split = fitted.network.config, data.split
    series = scaled_rows(fitted, data)
    ends = [np.full(series.n_series, rows.stop) for rows in split]
    windows = network_windows(series, Fold(ends[0], ends[1], ends[2] - dropped), config).test
    if windows is None:
        raise ValueError(f"`horizon` must be at most the {len(split.test)} test rows of {data.name}.")
    ratio = fitted.scaler.scale / data.scaler.scale_
    found = []
    for loss, power in (("mse", 2), ("mae", 1)):
        totals, counts = (x.cpu().numpy() for x in loss_by_series(fitted.network, windows, loss))
        found.append(float((totals * ratio**power).sum() / counts.sum()))
    return found[0], found[1]
