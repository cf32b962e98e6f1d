"""Forecasts of a Dask DataFrame, partition by partition: many series on many machines, one model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from .tables.panel import Panel

if TYPE_CHECKING:
    import dask.dataframe as dd


def predict_partitions(
    model: Any,
    ddf: dd.DataFrame,
    h: int | None = None,
    *,
    level: Any = None,
    quantiles: Any = None,
    future: pd.DataFrame | None = None,
) -> dd.DataFrame:
    """Forecast every series of a Dask DataFrame with one fitted model; nothing is gathered on one machine.

    Parameters
    ----------
    model : fitted TitansForecaster or baseline
        It goes to each worker once: where a client of `distributed` is active, by a broadcast now.
    ddf : dask DataFrame
        A long table with the model's `id_col`, `time_col` and `target_col`. All rows of a series must be in one
        partition, as after ``ddf.shuffle("unique_id")``: rows of a series that is in two are taken for two series of
        that name, each forecast from its own last row. Partitions may be empty.
    h : int, optional
        As `TitansForecaster.predict` takes it.
    level, quantiles : optional
        Handed to `predict`.
    future : DataFrame, optional
        As `predict` takes it, of all series.

    Returns
    -------
    dask DataFrame
        Lazy, with as many partitions: what ``model.predict(h, partition)`` returns for each.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If `ddf` is no Dask DataFrame.
    ValueError
        If it lacks a column.

    Notes
    -----
    A worker that is lost while it works costs its partitions another try on the others, as `distributed` does it.

    Examples
    --------
    >>> import dask.dataframe as dd, numpy as np, pandas as pd
    >>> from titans_ts import SeasonalNaive
    >>> times = pd.date_range("2024-01-01", periods=14)
    >>> df = pd.DataFrame({"unique_id": "a", "ds": times, "y": np.arange(14.0)})
    >>> model = SeasonalNaive().fit(df)
    >>> predict_partitions(model, dd.from_pandas(df, npartitions=1), h=2).compute()
      unique_id         ds  SeasonalNaive
    0         a 2024-01-15            7.0
    1         a 2024-01-16            8.0
    """
    if not hasattr(ddf, "map_partitions"):
        raise TypeError(
            f"`ddf` must be a Dask DataFrame, got {type(ddf).__name__}; `model.predict(df=...)` forecasts a table."
        )
    check_is_fitted(model)
    columns = [model.id_col, model.time_col, model.target_col]
    if (covariates := model._panel.covariates) is not None:
        columns += [column.name for column in covariates.of_table]
    if missing := [name for name in columns if name not in ddf.columns]:
        raise ValueError(f"`ddf` must have the columns {columns}, got none that is {missing[0]!r}.")
    given = {"level": level, "quantiles": quantiles, "future": future}
    options = {name: value for name, value in given.items() if value is not None}
    meta = _meta(model, ddf._meta, options)
    ddf = ddf[columns]
    forecasts: dd.DataFrame = ddf.map_partitions(
        _predict, _broadcast(model), h, options, meta, meta=meta, align_dataframes=False
    )
    return forecasts


def _broadcast(model: Any) -> Any:
    """The model on every worker of the client that is active; itself, for the graph, where there is none."""
    try:
        from distributed import get_client
    except ImportError:  # Dask alone, with its threads or processes
        return model
    try:
        client = get_client()
    except ValueError:  # no client
        return model
    return client.scatter(model, broadcast=True, hash=False)


def _meta(model: Any, table: pd.DataFrame, options: dict[str, Any]) -> pd.DataFrame:
    """A forecast without rows: the columns of the model's own, ids and times of the types that the table has."""
    first = _first_series(model._panel).as_long(model.id_col, model.time_col, model.target_col)
    if "future" in options:  # what is known of the next step does not matter
        next_step = replace(first.data.tail(1), starts=first.data.ends)
        options = options | {"future": replace(first, data=next_step)}
    forecast = model.predict(1, first, **options).iloc[:0]
    time_dtype = table[model.time_col].dtype
    if pd.api.types.is_integer_dtype(time_dtype):  # which a forecast may leave
        time_dtype = np.dtype("int64")
    return forecast.astype({model.id_col: table[model.id_col].dtype, model.time_col: time_dtype})


def _first_series(panel: Panel) -> Panel:
    return panel.take(np.zeros(1, dtype=np.int64))


def _predict(part: pd.DataFrame, model: Any, h: int | None, options: dict[str, Any], meta: pd.DataFrame) -> Any:
    """The forecast of one partition."""
    return model.predict(h, part, **options).astype(meta.dtypes.to_dict()) if len(part) else meta
