"""The closed form behind the baselines' interface is that of the forecaster."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.base import clone

from titans_ts import ClosedForm, TitansForecaster

HOURS = pd.date_range("2024-01-01", periods=220, freq="h")
WIDE = pd.DataFrame(
    np.sin(np.arange(220) * 2 * np.pi / 24)[:, None] + np.random.default_rng(0).normal(size=(220, 2)),
    index=HOURS,
    columns=["a", "b"],
)


def reference(**parameters) -> TitansForecaster:
    alone = dict(max_epochs=0, combine=False, context="window", random_state=0, verbose=0, device="cpu")
    return TitansForecaster(horizon=6, lookback=24, **alone, **parameters)


def test_it_forecasts_what_the_forecaster_does_untrained_and_uncombined() -> None:
    model = ClosedForm(horizon=6, lookback=24).fit(WIDE[:200])
    expected = reference().fit(WIDE[:200])
    pd.testing.assert_frame_equal(model.predict(8), expected.predict(8), check_exact=True)
    other = WIDE[:150].rename(columns={"a": "c"})
    pd.testing.assert_frame_equal(model.predict(df=other), expected.predict(df=other), check_exact=True)
    model.update(WIDE[200:])
    expected.update(WIDE[200:])
    pd.testing.assert_frame_equal(model.predict(), expected.predict(), check_exact=True)


def test_a_long_table_has_a_column_of_its_name_and_parameters_are_handed_on() -> None:
    table = pd.DataFrame({"unique_id": "a", "ds": HOURS, "y": WIDE["a"].to_numpy()})
    model = clone(ClosedForm(horizon=6, lookback=24, season=12, lower=0.5, linear_path="per_series")).fit(table)
    forecast = model.predict()
    assert list(forecast.columns) == ["unique_id", "ds", "ClosedForm"]
    assert forecast["ClosedForm"].min() == 0.5
    config = model.forecaster_.network_.config
    assert (config.cycle, config.linear_per_series, config.lookback) == (12, True, 24)
