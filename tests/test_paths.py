"""Files are there whole or as they were before; what is no path is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from titans_ts.paths import check_path, replace_file


def test_a_file_that_fails_half_way_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("before")

    def fill(file: Any) -> None:
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        replace_file(path, fill)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("f.csv", "before")]
    replace_file(path, lambda file: file.write(b"after"))
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("f.csv", "after")]


@pytest.mark.parametrize("path", [5, None, b"f.csv", ["f.csv"]])
def test_what_is_no_path_is_named(path: Any) -> None:
    with pytest.raises(TypeError, match="`path` must be the path of a file, as text or a Path, got "):
        check_path(path, "a file")
    assert check_path("f.csv", "a file") == check_path(Path("f.csv"), "a file") == Path("f.csv")
