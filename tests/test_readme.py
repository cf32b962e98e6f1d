"""What the README says must be so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_examples_run_and_forecast_the_season() -> None:
    first, second = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, Any] = {}
    exec(first, names)

    forecast = names["forecast"]
    assert isinstance(forecast, pd.DataFrame)
    assert forecast.columns.tolist() == ["unique_id", "ds", "Titans"]
    assert forecast["ds"].tolist() == pd.date_range("2024-02-11 16:00", periods=24, freq="h").tolist()
    season = 50 + 10 * np.sin(np.arange(1000, 1024) * 2 * np.pi / 24)
    assert np.abs(forecast["Titans"] - season).mean() < 1.0  # the noise's own deviation

    exec(second, names)
    assert names["search"].best_params_["d_model"] in (16, 32)
    assert names["search"].predict(24).columns.tolist() == ["unique_id", "ds", "Titans"]


def test_every_make_target_it_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"^    make ([a-z]+)", README, re.MULTILINE))
    assert named
    assert named <= targets


def test_every_folder_of_its_map_exists() -> None:
    folders = re.findall(r"^\| `([a-z_/]+/)` \|", README, re.MULTILINE)
    assert len(folders) == 6
    assert all((ROOT / folder).is_dir() for folder in folders)


def test_every_command_of_its_results_names_a_file_that_exists() -> None:
    files = re.findall(r"experiments/[a-z0-9_]+\.(?:py|toml)", README)
    assert files
    assert all((ROOT / file).is_file() for file in files)
