"""Files and windows of NAB, made up and real."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmark.nab_data import load_nab

CSV = "timestamp,value\n2014-04-01 00:00:00,1\n2014-04-01 00:05:00,2.5\n2014-04-01 00:10:00,3\n2014-04-01 00:10:00,4\n"
FIRST = ["2014-04-01 00:00:00.000000", "2014-04-01 00:05:00.000000"]


def folder_of(path: Path, windows: list[list[str]]) -> Path:
    for folder in ("data/real", "labels"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    for name in ("b", "a"):
        (path / f"data/real/{name}.csv").write_text(CSV)
    (path / "labels/combined_windows.json").write_text(json.dumps({"real/b.csv": [], "real/a.csv": windows}))
    return path


def test_files_come_by_name_with_the_rows_of_their_windows(tmp_path: Path) -> None:
    a, b = load_nab(folder_of(tmp_path, [FIRST]))
    assert (a.name, a.windows, b.name, b.windows) == ("real/a.csv", [(0, 1)], "real/b.csv", [])
    assert a.values.tolist() == [1, 2.5, 3, 4]
    assert (np.diff(a.timestamps) / np.timedelta64(1, "m")).tolist() == [5, 5, 0]


@pytest.mark.parametrize("by", ["root", "TITANS_TS_DATA"])
def test_the_folder_may_hold_them_in_a_sub_folder(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TITANS_TS_DATA", raising=False)
    folder_of(tmp_path / "nab", [])
    if by != "root":
        monkeypatch.setenv(by, str(tmp_path))
    assert len(load_nab(tmp_path if by == "root" else None)) == 2


def test_a_folder_without_labels_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TITANS_TS_DATA", raising=False)
    with pytest.raises(
        FileNotFoundError, match=r"combined_windows.json must be in `root` \(given: .*they are not downloaded"
    ):
        load_nab(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"given: None\)"):
        load_nab()


@pytest.mark.parametrize(("time", "count"), [("2014-04-01 00:03:00", 0), ("2014-04-01 00:10:00", 2)])
def test_a_window_ends_at_a_time_that_its_file_has_once(time: str, count: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"`windows` of real/a.csv must .* got {time} {count} times"):
        load_nab(folder_of(tmp_path, [[FIRST[0], time]]))


@pytest.mark.data
def test_there_are_58_files_and_116_windows(data_folder: Path) -> None:
    files = load_nab(data_folder)
    assert (len(files), sum(len(file.windows) for file in files)) == (58, 116)
    assert sum(len(file.values) for file in files) == 365558
    assert np.isfinite(np.concatenate([file.values for file in files])).all()
