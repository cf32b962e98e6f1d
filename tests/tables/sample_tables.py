"""Tables that the tests of reading and writing share."""

import numpy as np
import pandas as pd


def long_table(lengths: dict, freq: str = "D", start: str = "2024-01-01", **columns: object) -> pd.DataFrame:
    """One series of each length; series k starts k steps after the one before and holds 100 k, 100 k + 1, ..."""
    times = pd.date_range(start, periods=max(lengths.values()) + len(lengths), freq=freq)
    parts = [
        pd.DataFrame({"unique_id": name, "ds": times[k : k + rows], "y": 100.0 * k + np.arange(rows)})
        for k, (name, rows) in enumerate(lengths.items())
    ]
    return pd.concat(parts, ignore_index=True).assign(**columns)


def wide_table(rows: int = 5, freq: str = "h", **columns: object) -> pd.DataFrame:
    values = {"a": np.arange(rows, dtype=float), "b": 10.0 + np.arange(rows)}
    return pd.DataFrame(values, index=pd.date_range("2024-01-01", periods=rows, freq=freq, name="when")).assign(
        **columns
    )


def table(**series: object) -> pd.DataFrame:
    """A long table: series by name, each a list of dates; values count from 0 in each."""
    parts = [
        pd.DataFrame({"unique_id": name, "ds": pd.to_datetime(pd.Index(times)), "y": np.arange(float(len(times)))})
        for name, times in series.items()
    ]
    return pd.concat(parts, ignore_index=True)


def dates(start: str, periods: int, freq: str) -> list[pd.Timestamp]:
    return list(pd.date_range(start, periods=periods, freq=freq))
