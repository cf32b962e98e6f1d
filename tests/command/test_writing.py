"""Files are there whole or as they were before; what cannot be written is refused before anything takes time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from titans_ts.command.writing import check_out, write

TABLE = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=2), "y": [1.0, 2.5]})


def test_a_file_that_fails_half_way_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "f.png"
    path.write_text("before")

    class Axes:
        figure: Any

        def __init__(self) -> None:
            self.figure = self

        def savefig(self, file: Any, **_: Any) -> None:
            file.write(b"half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write(TABLE, path, Axes)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("f.png", "before")]
    path = path.rename(tmp_path / "f.csv")
    write(TABLE, path)
    assert path.read_text() == "ds,y\n2024-01-01,1.0\n2024-01-02,2.5\n"


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("before")
    (tmp_path / "link.csv").symlink_to("real.csv")
    write(TABLE, tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("ds,y\n")


def test_times_in_an_index_are_written(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    write(TABLE.set_index("ds"), path)
    assert path.read_text().startswith("ds,y\n2024-01-01,")
    write(TABLE.set_index("ds").rename_axis(None), path, times="hour")
    assert path.read_text().startswith("hour,y\n2024-01-01,")
    write(TABLE.set_index("ds"), tmp_path / "f.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "f.parquet"), TABLE.set_index("ds"), check_freq=False)


def test_what_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name, error, words in (
        ("f.doc", Exception, "must end in one of .csv"),
        ("folder.csv", FileExistsError, "`out` must be a file"),
        ("none/f.csv", FileNotFoundError, "`out` must lie in a folder that is there"),
    ):
        with pytest.raises(error, match=words):
            check_out(tmp_path / name)
    with pytest.raises(Exception, match=r"must end in one of \.csv, \.parquet, \.pq\."):
        check_out(tmp_path / "f.png", pictures=False)
    check_out(None)
    check_out(Path("-"))


def test_a_picture_without_matplotlib_names_the_extra(
    titans: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = titans("predict --model", model, "--out", tmp_path / "f.png")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "needs matplotlib: `pip install titans-ts[plot]`" in done.stderr
