"""anomalies: the rows that surprise a model, and the picture of them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pandas as pd

from titans_ts import TitansForecaster

NAMES = "--id-col shop --time-col day --target-col sold"


def table_of(done: Any) -> pd.DataFrame:
    assert done.exit_code == 0, done.output
    return pd.read_csv(io.StringIO(done.stdout), parse_dates=["day"])


def test_rows_that_surprise_are_written(titans: Any, model: Path, shops: pd.DataFrame, tmp_path: Path) -> None:
    odd = shops.copy()
    odd.loc[50, "sold"] += 100
    odd.to_csv(tmp_path / "odd.csv", index=False)
    done = titans("anomalies --alpha 0.05 --model", model, tmp_path / "odd.csv")
    found = table_of(done)
    assert list(found.columns) == ["shop", "day", "surprise", "p_value"]
    assert (odd.loc[50, "shop"], odd.loc[50, "day"]) in set(zip(found["shop"], found["day"], strict=True))
    assert done.stderr == f"{len(found)} of 120 rows are anomalous\n"
    every = table_of(titans("anomalies -q --all --alpha 0.05 --model", model, tmp_path / "odd.csv"))
    expected = TitansForecaster.load(model).anomalies(odd, alpha=0.05)
    pd.testing.assert_frame_equal(every, expected, check_dtype=False)


def test_without_a_model_one_is_fitted_and_that_is_said(titans: Any, shops_file: Path, small: str) -> None:
    done = titans("anomalies", NAMES, small.replace("-q ", ""), shops_file)
    assert done.exit_code == 0, done.output
    assert "fitted to the rows themselves" in done.stderr


def test_one_series_is_drawn(titans: Any, model: Path, shops_file: Path) -> None:
    out = shops_file.with_name("a.png")
    how = ("anomalies -q --model", model, shops_file, "--out", out)
    assert titans(*how, "--series Bonn").output == ""
    assert out.read_bytes().startswith(b"\x89PNG")
    for series, words in (("", "`--series` must be one of"), ("--series Bonn --series Köln", "must name one series")):
        done = titans(*how, series)
        assert done.exit_code == 1
        assert words in done.stderr


def test_a_series_of_a_wide_table_is_drawn(titans: Any, sales_file: Path, small: str) -> None:
    out = sales_file.with_name("a.png")
    pd.read_csv(sales_file).assign(other=2.5).to_csv(sales_file, index=False)
    done = titans("anomalies --series sales", small, sales_file, "--out", out)
    assert (done.exit_code, done.output) == (0, "")
    assert out.read_bytes().startswith(b"\x89PNG")


def test_options_of_a_fit_are_refused_beside_a_model(titans: Any, model: Path, shops_file: Path) -> None:
    for options in ("--id-col shop", "--horizon 3", "--set lower=0"):
        done = titans("anomalies --model", model, shops_file, options)
        assert done.exit_code == 2
        assert options.split()[0] in done.stderr
    assert titans("anomalies --device cpu --model", model, shops_file).exit_code == 0


def test_a_rate_out_of_range_is_wrong_usage(titans: Any, shops_file: Path) -> None:
    for alpha in ("0", "1", "x"):
        assert titans(f"anomalies --alpha {alpha}", shops_file).exit_code == 2
