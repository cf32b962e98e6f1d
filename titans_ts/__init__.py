"""titans_ts: time-series forecasting with closed-form linear models and the neural memory of Titans.

>>> from titans_ts import TitansForecaster
>>> forecast = TitansForecaster().fit(df).predict(24)  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backtest import cross_validation
    from .baselines import Drift, MeanForecaster, SeasonalNaive
    from .closed_form import ClosedForm
    from .datasets import load_dataset
    from .forecaster import TitansForecaster
    from .partitions import predict_partitions
    from .search.search_cv import TitansSearchCV
    from .tables.files import read_file

__all__ = [
    "ClosedForm",
    "Drift",
    "MeanForecaster",
    "SeasonalNaive",
    "TitansForecaster",
    "TitansSearchCV",
    "__version__",
    "cross_validation",
    "load_dataset",
    "predict_partitions",
    "read_file",
]

__version__ = "0.1.0"

# Every name is loaded on first use, so that `import titans_ts` stays light.
_HOMES = {
    "ClosedForm": ".closed_form",
    "Drift": ".baselines",
    "MeanForecaster": ".baselines",
    "SeasonalNaive": ".baselines",
    "TitansForecaster": ".forecaster",
    "TitansSearchCV": ".search.search_cv",
    "cross_validation": ".backtest",
    "load_dataset": ".datasets",
    "predict_partitions": ".partitions",
    "read_file": ".tables.files",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
