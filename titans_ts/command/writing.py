"""Tables to standard output, and tables and pictures to files, which are there whole or not at all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from titans_ts.paths import replace_file

if TYPE_CHECKING:
    import pandas as pd

TABLES, PICTURES = (".csv", ".parquet", ".pq"), (".png", ".svg", ".pdf")
STANDARD_OUTPUT = Path("-")
DPI = 144  # of a .png


def check_out(path: Path | None, pictures: bool = True) -> None:
    """Refuse, before anything takes time, a file that could not be written.

    Raises
    ------
    typer.BadParameter
        If the name ends in nothing known, or in that of a picture where there is none.
    OSError
        If its folder is not there, or it is no file.
    ModuleNotFoundError
        If it is a picture and matplotlib is not installed, or Parquet and pyarrow is not.
    """
    if path is None or path == STANDARD_OUTPUT:
        return
    known, suffix = TABLES + PICTURES * pictures, path.suffix.lower()
    if suffix not in known:
        raise typer.BadParameter(f"'{path}' must end in one of {', '.join(known)}.", param_hint="--out")
    if path.exists() and not path.is_file():
        raise FileExistsError(f"`out` must be a file, but '{path}' is none.")
    if not path.resolve().parent.is_dir():
        raise FileNotFoundError(f"`out` must lie in a folder that is there, got '{path}'. Make it first.")
    if suffix in PICTURES:
        try:
            import matplotlib
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"the picture '{path}' needs matplotlib: `pip install titans-ts[plot]`."
            ) from error
        matplotlib.use("Agg")
    elif suffix != ".csv":
        try:
            import pyarrow  # noqa: F401
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"'{path}' is Parquet, which needs pyarrow: `pip install pyarrow`.") from error


def write(table: pd.DataFrame, path: Path | None, draw: Callable[[], Any] | None = None, times: str = "ds") -> None:
    """Write a table as CSV to standard output, or into the file `path` as its name ends.

    Parameters
    ----------
    table : DataFrame
    path : Path, optional
        As `check_out` accepts it. A file that is there is replaced in one step.
    draw : callable, optional
        Draws the table and returns its axes, one or an array.
    times : str
        The column of times where they are in an index without a name.
    """
    if path is None or path == STANDARD_OUTPUT:
        return _write_csv(table, sys.stdout.buffer, times)
    suffix, target = path.suffix.lower(), path.resolve()  # a link stays one
    if suffix in PICTURES:
        if draw is None:
            raise ValueError(f"`out` must be a table, for there is no picture of this one, got '{path}'.")
        axes = draw()
        figure = axes.figure if hasattr(axes, "figure") else axes.flat[0].figure
        return replace_file(target, lambda file: figure.savefig(file, format=suffix[1:], dpi=DPI))
    if suffix == ".csv":
        return replace_file(target, lambda file: _write_csv(table, file, times))
    return replace_file(target, lambda file: table.to_parquet(file, engine="pyarrow"))


def _write_csv(table: pd.DataFrame, file: Any, times: str) -> None:
    """The table, with its index where that holds times or counts on from earlier rows."""
    import pandas as pd

    index = table.index
    counts = isinstance(index, pd.RangeIndex) and index.start == 0 and index.name is None
    label = times if index.name is None else index.name
    table.to_csv(file, index=not counts, index_label=None if counts else label, mode="wb", lineterminator="\n")
