"""Scores of prediction intervals: coverage, CRPS and width, by utilsforecast."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from utilsforecast.losses import coverage, mqloss

SCORED = (50, 80, 95)  # levels whose coverage is told
LEVELS = (10, 20, 30, 40, 50, 60, 70, 80, 90, 95)  # levels that are asked for
QUANTILES = np.arange(1, 20) / 20  # of the CRPS: the point forecast, and the ends of all levels but the last
THIRDS = ("early", "middle", "late")
SCORES = (
    *(f"coverage_{level}" for level in SCORED),
    *("worst_80", "early_80", "middle_80", "late_80", "crps", "width_80"),
)


def scores(frame: pd.DataFrame, model: str, scales: pd.Series, each: bool) -> dict[str, float]:
    """Scores over all series, origins and steps.

    Parameters
    ----------
    frame : DataFrame
        A row for each series, origin and step: `unique_id`, `step` (from 1), `y`, the model's point forecast and the
        ends of its intervals of `LEVELS`, "<model>-lo-80" and so on.
    model : str
    scales : Series
        The unit that each series is scored in, by its `unique_id`.
    each : bool
        Whether a series has origins enough for a coverage of its own.

    Returns
    -------
    dict
        "coverage_50", "coverage_80" and "coverage_95", in per cent: how many of the values lie between the two ends.
        "worst_80", the coverage of the 80 % interval of the series where it is farthest from 80; NaN unless `each`.
        "early_80", "middle_80", "late_80", the same over thirds of the horizon. "crps", twice the mean quantile loss
        over the quantiles .05, .10, ..., .95 in the series' units, which is the integral of the CRPS as a sum;
        "width_80", the mean width of the 80 % interval in these units. Means over series, each of which counts alike.
    """
    columns = ["y", *_columns(model)]
    units = scales.loc[frame["unique_id"]].to_numpy()[:, None]
    scaled = frame[["unique_id", "step"]].join(frame[columns] / units)
    found = {f"coverage_{level}": 100 * _coverage(scaled, model, level).mean() for level in SCORED}
    by_series = 100 * _coverage(scaled, model, 80)
    found["worst_80"] = by_series[(by_series - 80).abs().idxmax()] if each else np.nan
    steps = np.array_split(np.arange(1, scaled["step"].max() + 1), len(THIRDS))
    for name, part in zip(THIRDS, steps, strict=True):
        found[f"{name}_80"] = 100 * _coverage(scaled[scaled["step"].isin(part)], model, 80).mean()
    quantiles = {model: [quantile_column(model, q) for q in QUANTILES]}
    found["crps"] = 2 * mqloss(scaled, quantiles, QUANTILES)[model].mean()
    found["width_80"] = (scaled[f"{model}-hi-80"] - scaled[f"{model}-lo-80"]).mean()
    return {name: float(found[name]) for name in SCORES}


def quantile_column(model: str, quantile: float) -> str:
    """The column of a quantile: the end of an interval, or the point forecast, which stands for the median."""
    level = round(abs(2 * quantile - 1) * 100)
    return model if not level else f"{model}-{'lo' if quantile < 0.5 else 'hi'}-{level}"


def forecast_frame(known: pd.DataFrame, model: str, forecast: dict[str, Any]) -> pd.DataFrame:
    """Rows to forecast beside a forecast of statsforecast's: "mean", "lo-80", "hi-80" and so on, an array each."""
    named = {model: forecast["mean"]}
    named |= {f"{model}-{end}-{level}": forecast[f"{end}-{level}"] for level in LEVELS for end in ("lo", "hi")}
    return known.assign(**named)


def _columns(model: str) -> list[str]:
    return [model, *(f"{model}-{end}-{level}" for level in LEVELS for end in ("lo", "hi"))]


def _coverage(frame: pd.DataFrame, model: str, level: int) -> pd.Series:
    return coverage(frame, [model], level).set_index("unique_id")[model]
