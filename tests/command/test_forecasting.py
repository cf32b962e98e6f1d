"""fit, predict, update and forecast: tables in, tables and pictures out, in the words of the command line."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from titans_ts import TitansForecaster

NAMES = "--id-col shop --time-col day --target-col sold"


def table_of(done: Any, **how: Any) -> pd.DataFrame:
    assert done.exit_code == 0, done.output
    return pd.read_csv(io.StringIO(done.stdout), **how)


def test_a_table_on_standard_input_is_forecast(titans: Any, sales_file: Path) -> None:
    done = titans("forecast --horizon 12 -q", input=sales_file.read_bytes())
    found = table_of(done, parse_dates=["month"])
    assert found["month"].tolist() == list(pd.date_range("2024-05-01", periods=12, freq="MS"))
    np.testing.assert_allclose(found["sales"], np.arange(12) % 4, atol=0.5)
    assert done.stderr == ""


def test_predict_writes_what_the_model_forecasts(titans: Any, model: Path) -> None:
    found = table_of(titans("predict -q --horizon 5 --level 80 --model", model), parse_dates=["day"])
    expected = TitansForecaster.load(model).predict(5, level=80)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    assert list(found.columns) == ["shop", "day", "Titans", "Titans-lo-80", "Titans-hi-80"]


def test_quantiles_are_written_beside_the_point(titans: Any, model: Path) -> None:
    found = table_of(titans("predict -q --quantile 0.1 --quantile 0.9 --model", model))
    assert list(found.columns[2:]) == ["Titans", "Titans-q0.1", "Titans-q0.9"]


def test_forecast_is_fit_and_predict_in_one(titans: Any, model: Path, shops_file: Path, small: str) -> None:
    one = titans("forecast", shops_file, NAMES, small)
    assert one.stdout == titans("predict -q --model", model).stdout
    assert one.exit_code == 0


def test_rows_given_to_predict_are_forecast_from(titans: Any, model: Path, shops: pd.DataFrame, tmp_path: Path) -> None:
    early = shops[shops["day"] < "2024-02-20"]
    early.to_parquet(tmp_path / "early.parquet")
    found = table_of(titans("predict -q", tmp_path / "early.parquet", "--model", model), parse_dates=["day"])
    assert found["day"].min() == pd.Timestamp("2024-02-20")
    pd.testing.assert_frame_equal(found, TitansForecaster.load(model).predict(df=early), check_dtype=False)


def test_update_moves_the_saved_model_on(titans: Any, model: Path, shops: pd.DataFrame, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(model, moved)
    rows = shops[shops["day"] < "2024-01-04"].assign(day=lambda rows: rows["day"] + pd.Timedelta(days=60))
    text = rows.to_csv(index=False).encode()
    done = titans("update --model", moved, input=text)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"read 6 rows; saved to {moved}\n"
    found = table_of(titans("predict -q --model", moved), parse_dates=["day"])
    assert found["day"].min() == pd.Timestamp("2024-03-04")
    pd.testing.assert_frame_equal(found, TitansForecaster.load(model).update(rows).predict(), check_dtype=False)
    again = titans("update --model", moved, input=text)
    assert again.exit_code == 1
    assert again.stderr.startswith("error: `FILE` must go on from the last row of each series, but series 'Bonn'")
    assert titans("predict -q --model", moved).stdout == titans("predict -q --model", moved).stdout


def test_covariates_known_ahead_come_from_a_file(titans: Any, small: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    prices = rng.normal(10, 2, size=83)
    table = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=83), "price": prices, "y": 100 - 3 * prices})
    table[:80].to_csv(tmp_path / "past.csv", index=False)
    table[80:].drop(columns="y").to_csv(tmp_path / "ahead.csv", index=False)
    ahead = tmp_path / "ahead.csv"
    how = f"--future-col price {small}"
    found = table_of(titans("forecast", tmp_path / "past.csv", how, "--future", ahead))
    np.testing.assert_allclose(found["Titans"], table["y"][80:], rtol=0.02)
    assert titans("fit", tmp_path / "past.csv", how, "--model", tmp_path / "m").exit_code == 0
    pd.testing.assert_frame_equal(table_of(titans("predict -q --model", tmp_path / "m", "--future", ahead)), found)
    before = titans("forecast", tmp_path / "past.csv", how)
    assert before.exit_code == 2
    assert "Invalid value for --future: name a file with 'price' of the steps to forecast." in before.stderr
    lacking = titans("predict -q --model", tmp_path / "m")
    assert lacking.exit_code == 1
    assert "`--future`" in lacking.stderr


@pytest.mark.parametrize("name", ["f.csv", "f.parquet", "f.png", "f.svg", "f.pdf"])
def test_a_forecast_goes_to_the_file_that_is_named(titans: Any, model: Path, tmp_path: Path, name: str) -> None:
    done = titans("predict -q --level 80 --model", model, "--series Köln --out", tmp_path / name)
    assert (done.exit_code, done.output) == (0, "")
    data = (tmp_path / name).read_bytes()
    first = {"f.csv": b"shop,day", "f.parquet": b"PAR1", "f.png": b"\x89PNG", "f.svg": b"<?xml", "f.pdf": b"%PDF"}
    assert data.startswith(first[name])
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_picture_of_a_forecast_in_one_go_leaves_covariates_out(titans: Any, sales_file: Path, small: str) -> None:
    table = pd.read_csv(sales_file).assign(price=np.arange(40.0) % 5)
    table.to_csv(sales_file, index=False)
    out = sales_file.with_name("f.png")
    done = titans("forecast --past-col price", sales_file, small, "--out", out)
    assert done.exit_code == 0, done.output
    assert out.read_bytes().startswith(b"\x89PNG")


def test_fit_tells_what_it_fitted(titans: Any, sales_file: Path, small: str, tmp_path: Path) -> None:
    done = titans("fit", sales_file, small.replace("-q ", ""), "--model", tmp_path / "m")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("fitted 1 series, every MS; lookback 16, horizon 3, in ")
    assert done.stderr.endswith(f"saved to {tmp_path / 'm'}\n")


def test_a_folder_that_cannot_take_a_model_is_refused_before_the_fit(titans: Any, sales_file: Path) -> None:
    done = titans("fit", sales_file, "--model", sales_file.parent)
    assert done.exit_code == 1
    assert "`--model` must be a new or empty folder" in done.stderr


@pytest.mark.parametrize("command", ["predict -q --model", "update --model", "anomalies --model"])
def test_a_folder_without_a_model_is_an_error_in_words(titans: Any, command: str, tmp_path: Path) -> None:
    for folder, words in ((tmp_path, "save` never ended"), (tmp_path / "none", "does not exist")):
        done = titans(command, folder)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith("error: ")
        assert words in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--horizon 0", "--horizon"),
        ("--horizon 2.5", "--horizon"),
        ("--level 101", "--level"),
        ("--level 80 --quantile 0.9", "--quantile"),
        ("--missing guess", "--missing"),
        ("--out forecast.doc", ".parquet"),
        ("--set horizo=3", "did you mean 'horizon'"),
        ("--nonsense", "--nonsense"),
    ],
)
def test_wrong_usage_has_the_exit_code_2(titans: Any, sales_file: Path, arguments: str, words: str) -> None:
    done = titans("forecast", sales_file, arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr


def test_an_unknown_column_is_named_with_the_options_that_help(titans: Any, shops_file: Path) -> None:
    done = titans("forecast", shops_file)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "`--id-col shop --time-col day --target-col sold`" in done.stderr
    done = titans("forecast", shops_file, NAMES, "--past-col rain")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "'rain'" in done.stderr


def test_a_table_without_dates_gets_the_numbers_of_its_steps(titans: Any, small: str) -> None:
    text = "a,b\n" + "".join(f"{i % 3}.5,{2 * i}.5\n" for i in range(40))
    found = table_of(titans("forecast", small, input=text.encode()))
    assert list(found.columns) == ["ds", "a", "b"]
    assert found["ds"].tolist() == [40, 41, 42]
