"""Searches without a line for each trial."""

import optuna
import pytest


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
