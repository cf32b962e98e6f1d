"""What all forecasters share."""

from __future__ import annotations

import pytest

from titans_ts import ClosedForm, Drift, MeanForecaster, SeasonalNaive, TitansForecaster
from titans_ts.base import PanelForecaster


@pytest.mark.parametrize("kind", [SeasonalNaive, Drift, ClosedForm, MeanForecaster, TitansForecaster])
def test_every_forecaster_has_the_names_by_which_tables_are_read(kind) -> None:
    assert issubclass(kind, PanelForecaster)
    assert {"horizon", "freq", "id_col", "time_col", "target_col", "missing"} <= set(kind._get_param_names())


def test_a_forecaster_must_say_where_its_forecasts_begin() -> None:
    with pytest.raises(NotImplementedError, match="PanelForecaster has no `_panel`"):
        PanelForecaster()._panel  # noqa: B018
