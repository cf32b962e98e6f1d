"""The settings of training: what is out of range is refused by name."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from titans_ts.training.config import TrainConfig


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("loss", "rmse", "must be one of ('mse', 'mae', 'huber', 'quantile') or a function of forecast and truth"),
        ("val_loss", ["mse"], "must be one of ('mse', 'mae', 'huber', 'quantile') or a function of forecast and truth"),
        ("precision", "float16", "must be one of ('float32', 'bfloat16')"),
        *(
            ("learning_rate", value, "must be a positive number of at most 1e+06")
            for value in (0, -1.0, 1e39, math.nan)
        ),
        *(("clip", value, "must be a positive number") for value in (0, -1.0, math.inf, math.nan)),
        *(
            (name, value, "must be a number from 0 to 1e+06")
            for name in ("initialised_rate", "weight_decay")
            for value in (-0.1, 1e39, math.inf)
        ),
        *((name, value, "must be an integer >= 1") for name in ("batch_size", "patience") for value in (0, 2.0, True)),
        *(
            (name, 0, "must be an integer >= 1")
            for name in ("evaluations_per_epoch", "most_windows", "most_validation_windows")
        ),
        *((name, value, "must be an integer >= 0") for name in ("max_epochs", "random_state") for value in (-1, None)),
        *(("warmup", value, "must be in [0, 1)") for value in (-0.1, 1.0, math.nan)),
        *((name, 1, "must be True or False") for name in ("initialisation_is_candidate", "cuda_graph")),
    ],
)
def test_refuses_what_is_out_of_range(name: str, value: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(f'`{name}` {rule}, got {value!r}.')}$"):
        TrainConfig(**{name: value})
