"""The command line called within the process, and the tables it is called with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from titans_ts.command.app import make_app

SMALL = "-q --lookback 16 --horizon 3 --set max_epochs=0 --set d_model=8 --set combine=false --set linear_path=true"
SMALL += " --set context=window"


@pytest.fixture(scope="session")
def titans() -> Callable[..., Any]:
    """`titans("forecast", path, "--level 80")`: text is split at spaces, paths stay whole."""
    app = make_app()

    def call(*arguments: str | Path, input: bytes | None = None) -> Any:
        words = [word for each in arguments for word in ([str(each)] if isinstance(each, Path) else each.split())]
        return CliRunner(env={"TERMINAL_WIDTH": "200"}).invoke(app, words, input=input)

    return call


@pytest.fixture(scope="session")
def small() -> str:
    """Options of a fit that takes no time."""
    return SMALL


@pytest.fixture(scope="session")
def shops() -> pd.DataFrame:
    """Two series of 60 days under names of their own."""
    days = pd.date_range("2024-01-01", periods=60)
    noise = np.random.default_rng(0).normal(size=(2, 60))
    return pd.concat(
        [
            pd.DataFrame({"shop": name, "day": days, "sold": 20.0 + 10 * i + np.arange(60) % 7 + noise[i]})
            for i, name in enumerate(["Köln", "Bonn"])
        ],
        ignore_index=True,
    )


@pytest.fixture
def shops_file(shops: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "shops.csv"
    shops.to_csv(path, index=False)
    return path


@pytest.fixture
def sales_file(tmp_path: Path) -> Path:
    """One series of 40 months, wide: a season that repeats."""
    path = tmp_path / "sales.csv"
    months = pd.date_range("2021-01-01", periods=40, freq="MS")
    pd.DataFrame({"month": months, "sales": np.arange(40) % 4.0}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def model(titans: Any, shops: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model of the shops; not to be changed."""
    folder = tmp_path_factory.mktemp("saved")
    shops.to_csv(folder / "shops.csv", index=False)
    done = titans("fit", folder / "shops.csv", "--model", folder / "model", NAMES, SMALL)
    assert (done.exit_code, done.output) == (0, "")
    return folder / "model"


NAMES = "--id-col shop --time-col day --target-col sold"
