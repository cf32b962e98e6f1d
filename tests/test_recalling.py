"""A forecaster whose long-term memory recalls single origins goes on row by row, is saved and loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from titans_ts import TitansForecaster

CUE = 3 * np.array([1, -1, -1, 1, -1, 1, 1, -1, 1, 1, -1, -1])
ANSWER = np.array([2.0, 3.0, -3.0, -2.0])


def table(rows: int = 700) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    values = 0.2 * rng.normal(size=rows)
    for at in [*range(24, 500, 44), rows - 12]:
        part = np.concatenate([CUE, ANSWER])[: rows - at]
        values[at : at + len(part)] += part
    return pd.DataFrame({"y": values}, index=pd.date_range("2024-01-01", periods=rows, freq="h"))


@pytest.fixture(scope="module")
def model() -> TitansForecaster:
    tiny = dict(horizon=4, lookback=16, d_model=8, n_heads=2, n_layers=1, max_epochs=0, linear_path=True)
    model = TitansForecaster(**tiny, context="stream", combine=False, outliers="keep", val_size=150, random_state=0)
    return model.fit(table()[:500])


def test_the_answer_is_recalled_however_rows_come(model: TitansForecaster, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    later = table()[500:]
    expected = model.update(later).predict()["y"].to_numpy()
    assert np.abs(expected - ANSWER).max() < 1.2
    by_row = TitansForecaster.load(tmp_path / "model")
    for i in range(0, 60):
        by_row.update(later[i : i + 1])
    by_row.update(later[60:])
    np.testing.assert_allclose(by_row.predict()["y"], expected, rtol=0, atol=1e-4)
    by_row.save(tmp_path / "later")
    again = TitansForecaster.load(tmp_path / "later")
    np.testing.assert_array_equal(again.predict()["y"], by_row.predict()["y"])
