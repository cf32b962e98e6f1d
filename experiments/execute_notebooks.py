"""Execute the notebooks of experiments/notebooks/ in place, each in a kernel of its own, on one thread.

    python experiments/execute_notebooks.py                                           all of them
    python experiments/execute_notebooks.py experiments/notebooks/quickstart.ipynb    one

What differs from one run or machine to the next is left out of the files: versions and times. Pictures are reduced to a
palette. The kernel is spoken to by sockets of a temporary folder where the system has them, not by the network, and
reads no configuration of the user's. Published data are looked for in `TITANS_TS_DATA`, then in `../shared/data`; what
needs them says so where they are absent.
"""

from __future__ import annotations

import argparse
import base64
import io
import math
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

FOLDER = Path(__file__).parent / "notebooks"
DATA = Path(__file__).parents[2] / "shared" / "data"
TIMEOUT = 600  # seconds of a cell
COLOURS = 64  # of a picture: lines and shades, and their blended edges
NO_WIDGETS = "ignore:IProgress not found"  # which tqdm warns of where Optuna is imported; no progress is shown
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def main(argv: list[str] | None = None) -> None:
    """Execute the notebooks named, or all; a file is written once its notebook has run to the end."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("notebooks", type=Path, nargs="*", help="files (default: all of experiments/notebooks/)")
    for path in parser.parse_args(argv).notebooks or sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(execute(path), path)
        print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB", flush=True)


def execute(path: Path) -> NotebookNode:
    """The notebook at `path` with the outputs of a new run; the file stays as it is.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        With the traceback of the first cell that raises.
    """
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=TIMEOUT,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": str(FOLDER)}},
        )
        manager = client.create_kernel_manager()
        if os.name == "posix":
            manager.transport, manager.ip = "ipc", f"{folder}/kernel"
        manager.connection_file = f"{folder}/kernel.json"
        client.execute(env=kernel_environment(folder))
    return tidied(notebook)


def kernel_environment(folder: str) -> dict[str, str]:
    """The variables of a kernel: one thread, nothing of the user's IPython, and where published data are."""
    mine = {"OMP_NUM_THREADS": "1", "IPYTHONDIR": folder, "JUPYTER_RUNTIME_DIR": folder, "PYTHONWARNINGS": NO_WIDGETS}
    if "TITANS_TS_DATA" not in os.environ and DATA.is_dir():
        mine["TITANS_TS_DATA"] = str(DATA.resolve())
    return {**os.environ, **mine}


def tidied(notebook: NotebookNode) -> NotebookNode:
    """The notebook without what differs from one machine to the next, its pictures reduced."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = reduced(output.data["image/png"])
    return notebook


def reduced(picture: str) -> str:
    """A PNG in base64 with a palette of few colours."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    written = io.BytesIO()
    image.save(written, "PNG", optimize=True)
    return base64.b64encode(written.getvalue()).decode()


def printed(notebook: NotebookNode) -> list[str]:
    """What each code cell has shown, as text, without pictures."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            texts = [output.get("text", output.get("data", {}).get("text/plain", "")) for output in cell.outputs]
            found.append("".join(texts))
    return found


def agrees(text: str, other: str, tolerance: float) -> bool:
    """Whether two texts are the same but for spaces and for numbers, which may differ by a share of their size."""
    if NUMBER.sub("#", text).split() != NUMBER.sub("#", other).split():
        return False
    pairs = zip(NUMBER.findall(text), NUMBER.findall(other), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=tolerance, abs_tol=tolerance) for a, b in pairs)


if __name__ == "__main__":
    main()
