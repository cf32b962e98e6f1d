from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from titans_ts.datasets.competition_files import History, read_m3, read_m3_entries, read_m4, read_m4_scores
from titans_ts.datasets.registry import PublishedFile

from .small_competitions import SCORES, m3_forecasts, m3_series, m4_rows, text, write

ANY = PublishedFile(folder="", filename="any")
PAST = {"H1": [1.0, 2.0, 3.0], "H2": [4.0], "H3": [5.0, 6.0]}
FUTURE = {"H3": [50.0, 60.0], "H1": [10.0, 20.0], "H2": [30.0, 40.0], "H4": [0.0, 0.0]}


def m3(folder: Path, content: bytes, period: str = "YEARLY", horizon: int = 6) -> History:
    return read_m3(ANY, write(folder / "m3.json", content), period, horizon)


def m4(folder: Path, past: bytes, future: bytes) -> History:
    return read_m4(ANY, write(folder / "train.csv", past), ANY, write(folder / "test.csv", future), horizon=2)


def entries(folder: Path, content: bytes, ids: list[str], horizon: int) -> dict[str, np.ndarray]:
    return read_m3_entries(ANY, write(folder / "entries.csv", content), np.array(ids, dtype=object), horizon)


def test_m3_gives_the_series_of_one_period(tmp_path: Path) -> None:
    found = m3(tmp_path, json.dumps(m3_series()).encode())
    assert found.ids.tolist() == ["N0001", "N0002"]
    assert found.lengths.tolist() == [3, 5]
    assert found.values.tolist() == [1, 2.5, 4, 10, 20, 30, 40, 50]
    assert found.future.tolist() == [[5, 6, 7, 8, 9, 10], [60, 70, 80, 90, 100, 110]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"N0002": {"period": ["YEARLY"], "xx": [1.0] * 6}}, r"series 'N0002' must have a `period`.*KeyError\('x'\)"),
        (
            {"N0001": {"period": ["YEARLY"], "x": [1.0, None], "xx": [1.0] * 6}},
            r"series 'N0001' must .* finite numbers",
        ),
        ({"N0001": {"period": ["YEARLY"], "x": [1, "2a"], "xx": [1.0] * 6}}, r"series 'N0001' must .* finite numbers"),
        ({"N0001": {"period": ["YEARLY"], "x": [1.0], "xx": [1.0] * 5}}, r"6 of them `xx`, got 1 and 5\. Fetch"),
        ({"N0001": {"period": ["YEARLY"], "x": [], "xx": [1.0] * 6}}, r"must have values `x`, .* got 0 and 6\. Fetch"),
        ({"N0001": [1.0, 2.0]}, r"series 'N0001' must have a `period`"),
        ({"N0001": {"period": []}}, r"series 'N0001' must have a `period`"),
    ],
)
def test_a_series_of_m3_that_is_not_as_it_should_is_named(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"m3\.json: .*{words}"):
        m3(tmp_path, json.dumps(m3_series(changes)).encode())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (json.dumps(m3_series()).encode()[:-20], r"m3\.json is cut or no JSON.*Fetch it again"),
        (b"", r"m3\.json is cut or no JSON"),
        (b"\xff\xfe\xfa", r"m3\.json is cut or no JSON"),
        (b"[1, 2]", r"must map each series' id to its values, got a list"),
        (b"{}", r"m3\.json has no series of period 'YEARLY'"),
    ],
)
def test_a_file_of_m3_that_is_cut_or_another_is_an_error(content: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        m3(tmp_path, content)


def test_entries_come_in_the_order_asked_for_without_methods_that_have_none(tmp_path: Path) -> None:
    content = text(m3_forecasts())
    found = entries(tmp_path, content, ["N0002", "N0001"], 6)
    assert {name: forecast.tolist() for name, forecast in found.items()} == {
        "THETA": [[61, 71, 81, 91, 101, 111], [6, 7, 8, 9, 10, 11]]
    }
    found = entries(tmp_path, content, ["N2830", "N2831"], 8)
    assert {name: forecast[:, 0].tolist() for name, forecast in found.items()} == {"THETA": [6, 8], "AAM1": [7, 9]}


def changed(rows: list[list[Any]], row: int, column: int, value: Any) -> list[list[Any]]:
    rows[row][column] = value
    return rows


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (text(m3_forecasts()[:2]), r"each of 2 series once for 'THETA', got 1 rows"),
        (text([*m3_forecasts(), ["THETA", "N0001", *[1] * 18]]), r"each of 2 series once for 'THETA', got 3 rows"),
        (text(changed(m3_forecasts(), 1, 3, "")), r"'THETA' has no finite forecast of 'N0001' for all 6 steps"),
        (text(changed(m3_forecasts(), 1, 3, "oops")), r"has a cell that is no number"),
        (text(changed(m3_forecasts(), 0, 0, "who")), r"lacks the columns \['method'\]"),
        (text(m3_forecasts())[:-30], r"is empty or cut"),
        (b"", r"is empty or cut"),
        (text([m3_forecasts()[0]]), r"has no forecast of the 2 series from 'N0001' to 'N0002'"),
    ],
)
def test_entries_that_are_cut_or_garbled_are_an_error(content: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"entries\.csv.*{words}"):
        entries(tmp_path, content, ["N0001", "N0002"], 6)


def test_m4_gives_series_of_different_lengths_with_what_came_in_another_order(tmp_path: Path) -> None:
    found = m4(tmp_path, text(m4_rows(PAST)), text(m4_rows(FUTURE)))
    assert found.ids.tolist() == ["H1", "H2", "H3"]
    assert found.lengths.tolist() == [3, 1, 2]
    assert found.values.tolist() == [1, 2, 3, 4, 5, 6]
    assert found.future.tolist() == [[10, 20], [30, 40], [50, 60]]


@pytest.mark.parametrize(
    ("past", "words"),
    [
        (text(changed(m4_rows(PAST), 1, 2, "")), r"train\.csv: series 'H1' must have values without a gap"),
        (text(changed(m4_rows(PAST), 2, 1, "")), r"train\.csv: series 'H2' must have values without a gap"),
        (text(changed(m4_rows(PAST), 3, 1, "oops")), r"train\.csv has a cell that is no number"),
        (text(changed(m4_rows(PAST), 3, 1, "inf")), r"train\.csv must have finite values, series 'H3' has not"),
        (text(changed(m4_rows(PAST), 3, 0, "H1")), r"train\.csv must begin each row with an id of its own"),
        (text(changed(m4_rows(PAST), 3, 0, "")), r"train\.csv must begin each row with an id of its own"),
        (text(m4_rows(PAST)).replace(b"4.0", b"4.0,1,1,1"), r"train\.csv cannot be read as a CSV file"),
        (text(m4_rows(PAST))[:-6], r"train\.csv is empty or cut"),
        (text(m4_rows(PAST)[:1]), r"train\.csv must begin each row with an id"),
        (text(m4_rows(PAST | {"H9": [1.0]})), r"test\.csv lacks the series \['H9'\] of .*train\.csv"),
    ],
)
def test_histories_of_m4_that_are_cut_or_garbled_are_an_error(past: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        m4(tmp_path, past, text(m4_rows(FUTURE)))


@pytest.mark.parametrize("future", [{"H1": [1.0]}, {"H1": [1.0, 2.0, 3.0]}])
def test_what_came_must_have_a_value_for_each_step(future: dict[str, list[float]], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"test\.csv must have 2 values for each series"):
        m4(tmp_path, text(m4_rows({"H1": [1.0]})), text(m4_rows(future)))


def test_the_scores_of_a_group_are_read_under_both_rows_of_the_header(tmp_path: Path) -> None:
    path = write(tmp_path / "scores.csv", text(SCORES))
    assert read_m4_scores(ANY, path, "Hourly").to_numpy().tolist() == [["Naive2", 18.383, 2.395], ["118", 9.328, 0.893]]
    assert read_m4_scores(ANY, path, "Yearly")["mase"].tolist() == [3.974, 2.98]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (changed([[*row] for row in SCORES], 1, 3, "Daily"), r"one column 'Hourly' under 'sMAPE', got 0"),
        (changed([[*row] for row in SCORES], 3, 6, "oops"), r"has a cell that is no number"),
        (changed([[*row] for row in SCORES], 3, 6, ""), r"must have an sMAPE and a MASE of each method for 'Hourly'"),
        (SCORES[:2], r"must have an sMAPE and a MASE of each method for 'Hourly'"),
        (SCORES[:1], r"scores\.csv must have a header of two rows"),
    ],
)
def test_scores_that_are_garbled_are_an_error(rows: list[list[Any]], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        read_m4_scores(ANY, write(tmp_path / "scores.csv", text(rows)), "Hourly")
