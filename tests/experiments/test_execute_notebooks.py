"""A notebook is executed in a kernel of its own, and its file holds nothing of the machine."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook
from PIL import Image

import execute_notebooks
from execute_notebooks import COLOURS, agrees, kernel_environment, main, printed, reduced


def written(path: Path, *sources: str) -> Path:
    cells = [new_code_cell(source, id=f"cell-{i}") for i, source in enumerate(sources)]
    nbformat.write(new_notebook(cells=cells), path)
    return path


def test_a_notebook_is_executed_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "two.ipynb", "import os\nx = 2", "print(x, os.environ['OMP_NUM_THREADS'])")
    main([str(path)])
    found = nbformat.read(path, as_version=4)
    assert printed(found) == ["", "2 1\n"]
    assert [cell.execution_count for cell in found.cells] == [1, 2]
    assert [cell.metadata for cell in found.cells] == [{}, {}]
    assert found.metadata.language_info == {"name": "python"}
    assert "two.ipynb" in capsys.readouterr().out


def test_an_error_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path / "wrong.ipynb", "1 / 0")
    before = path.read_bytes()
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        main([str(path)])
    assert path.read_bytes() == before


def test_data_are_looked_for_beside_the_repository_unless_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute_notebooks, "DATA", tmp_path)
    monkeypatch.setenv("TITANS_TS_DATA", "mine")
    assert kernel_environment("kernel")["TITANS_TS_DATA"] == "mine"
    monkeypatch.delenv("TITANS_TS_DATA")
    assert kernel_environment("kernel")["TITANS_TS_DATA"] == str(tmp_path)
    monkeypatch.setattr(execute_notebooks, "DATA", tmp_path / "none")
    assert "TITANS_TS_DATA" not in kernel_environment("kernel")


def test_a_picture_is_reduced_to_a_palette() -> None:
    drawn = io.BytesIO()
    Image.radial_gradient("L").convert("RGB").save(drawn, "PNG")
    found = Image.open(io.BytesIO(base64.b64decode(reduced(base64.b64encode(drawn.getvalue()).decode()))))
    assert found.mode == "P"
    assert found.size == (256, 256)
    assert len(found.getcolors()) <= COLOURS


@pytest.mark.parametrize(
    ("text", "other", "same"),
    [
        ("error 50.0  of 3", "error 51.0 of 3", True),
        ("error 50.0 of 3", "error 60.0 of 3", False),
        ("error 50.0", "errors 50.0", False),
        ("1 2", "1", False),
        ("NaN 0.0", "NaN 0.01", True),
    ],
)
def test_texts_agree_where_words_are_equal_and_numbers_close(text: str, other: str, same: bool) -> None:
    assert agrees(text, other, 0.05) is same
