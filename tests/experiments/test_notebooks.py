"""The notebooks: valid, executed from top to bottom, without traces of a machine, and still printing what they show."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import nbformat
import pytest

from execute_notebooks import FOLDER, agrees, execute, printed

PATHS = sorted(FOLDER.glob("*.ipynb"))
NAMES = [path.stem for path in PATHS]
MACHINE = re.compile(r"/(?:home|root|tmp|work|usr|var|Users)/|[A-Z]:\\|ipykernel_\d|\d\d:\d\d:\d\d\.\d|it/s\]|s/it\]")
TIMES = re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|seconds)\b")
LARGEST = 200 * 1024  # bytes
TOLERANCE = 0.05  # of printed numbers: another processor rounds otherwise
SKIPPED = "skipped: "  # begins what is printed where published data are absent


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def test_there_are_six() -> None:
    assert NAMES == ["intervals", "quickstart", "search", "short_series", "streams", "table"]


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_a_notebook_is_valid_and_small(path: Path) -> None:
    nbformat.validate(read(path))
    assert path.stat().st_size < LARGEST


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_cells_were_executed_in_order(path: Path) -> None:
    code = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_outputs_have_no_errors_warnings_or_traces_of_a_machine(path: Path) -> None:
    notebook = read(path)
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"stream", "execute_result", "display_data"}
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    texts = printed(notebook)
    assert [found[0] for text in texts if (found := MACHINE.search(text) or TIMES.search(text))] == []
    assert notebook.metadata.language_info == {"name": "python"}


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_a_notebook_shows_a_picture_and_the_error_of_a_naive_forecast(path: Path) -> None:
    notebook = read(path)
    pictures = [
        output.data["image/png"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert pictures
    assert all(base64.b64decode(picture).startswith(b"\x89PNG") for picture in pictures)
    assert re.search(r"naive|ago|again|last value|last week", "".join(printed(notebook)))
    assert notebook.cells[0].source.startswith("# ")
    assert notebook.cells[-1].source.startswith("## What to take from it")


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_a_notebook_still_prints_what_it_shows(path: Path) -> None:
    for shown, now in zip(printed(read(path)), printed(execute(path)), strict=True):
        if now.startswith(SKIPPED):
            break  # what follows is of the data
        assert agrees(shown, now, TOLERANCE), (
            f"{path.name} shows {shown!r}, and prints {now!r}: run `make notebooks`, then read what its words conclude."
        )
