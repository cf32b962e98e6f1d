"""Scores of intervals, worked out by hand or known for a normal distribution."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm  # type: ignore[import-untyped]

from benchmark.interval_scores import LEVELS, QUANTILES, SCORES, forecast_frame, quantile_column, scores

ONE = pd.Series({"a": 1.0, "b": 1.0})


def frame_of(series: dict[str, list[float]], spread: float = 1.0) -> pd.DataFrame:
    """Values beside normal intervals about 0."""
    rows = [(name, step, y) for name, values in series.items() for step, y in enumerate(values, start=1)]
    frame = pd.DataFrame(rows, columns=["unique_id", "step", "y"])
    ends = {level: spread * norm.ppf(0.5 + level / 200) for level in LEVELS}
    forecast = {"mean": np.zeros(len(frame))}
    forecast |= {f"lo-{level}": np.full(len(frame), -end) for level, end in ends.items()}
    forecast |= {f"hi-{level}": np.full(len(frame), end) for level, end in ends.items()}
    return forecast_frame(frame, "Model", forecast)


def test_coverage_is_the_share_of_values_in_their_interval() -> None:
    # ends of 50, 80 and 95 %: .674, 1.282, 1.960
    found = scores(frame_of({"a": [0.0, 1.0, 1.5], "b": [0.0, 0.0, 3.0]}), "Model", ONE, each=True)
    assert tuple(found) == SCORES
    assert found["coverage_50"] == pytest.approx(100 * (1 / 3 + 2 / 3) / 2)
    assert found["coverage_80"] == pytest.approx(100 * 2 / 3)
    assert found["coverage_95"] == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert [found[f"{third}_80"] for third in ("early", "middle", "late")] == [100, 100, 0]
    assert found["width_80"] == pytest.approx(2 * norm.ppf(0.9))


def test_the_worst_series_is_the_one_farthest_from_nominal_to_either_side() -> None:
    narrow = frame_of({"a": [0.0] * 9 + [3.0], "b": [0.0] * 6 + [3.0] * 4})
    assert scores(narrow, "Model", ONE, each=True)["worst_80"] == pytest.approx(60)
    wide = frame_of({"a": [0.0] * 10, "b": [0.0] * 7 + [3.0] * 3})
    assert scores(wide, "Model", ONE, each=True)["worst_80"] == pytest.approx(100)
    assert np.isnan(scores(wide, "Model", ONE, each=False)["worst_80"])


def test_the_crps_is_that_of_the_distribution_but_for_the_sum() -> None:
    values = np.random.default_rng(0).normal(size=200)
    found = scores(frame_of({"a": list(values)}), "Model", ONE, each=True)["crps"]
    exact = values * (2 * norm.cdf(values) - 1) + 2 * norm.pdf(values) - 1 / np.sqrt(np.pi)
    assert found == pytest.approx(exact.mean(), rel=0.06)  # a sum over 19 quantiles, without the tails
    by_hand = [np.maximum(q * (values - norm.ppf(q)), (q - 1) * (values - norm.ppf(q))).mean() for q in QUANTILES]
    assert found == pytest.approx(2 * np.mean(by_hand))


def test_each_series_is_scored_in_its_own_unit_and_counts_alike() -> None:
    one = scores(frame_of({"a": [0.5, 1.0, 2.0]}), "Model", ONE, each=True)
    ten = frame_of({"a": [0.5, 1.0, 2.0], "b": [0.5, 1.0, 2.0]})
    values = ten.columns.drop(["unique_id", "step"])
    ten.loc[ten["unique_id"] == "b", values] *= 10
    both = scores(ten, "Model", pd.Series({"b": 10.0, "a": 1.0}), each=True)
    assert both == pytest.approx(one)


def test_a_quantile_is_an_end_of_a_level_or_the_point_forecast() -> None:
    assert [quantile_column("M", q) for q in (0.05, 0.1, 0.5, 0.75)] == ["M-lo-90", "M-lo-80", "M", "M-hi-50"]
    assert {quantile_column("Model", q) for q in QUANTILES} <= set(frame_of({"a": [0.0]}).columns)
