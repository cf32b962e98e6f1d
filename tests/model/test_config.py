"""The network's shape: what is refused, and how patches fit into a lookback."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from titans_ts.model import ModelConfig
from titans_ts.model.layers import PatchEmbedding


def config(**changes: Any) -> ModelConfig:
    return ModelConfig(**{"lookback": 96, "horizon": 24, **changes})


def exactly(message: str) -> str:
    return f"^{re.escape(message)}$"


AT_LEAST_ONE = (
    *("lookback", "horizon", "n_series", "d_model", "n_heads", "n_layers", "patch_len", "stride"),
    *("memory_depth", "memory_expansion", "chunk_size", "einfft_blocks", "attention_window"),
)


@pytest.mark.parametrize("name", AT_LEAST_ONE)
@pytest.mark.parametrize("value", [0, -1, 1.0, True, "8", None])
def test_refuses_what_is_no_positive_integer(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=exactly(f"`{name}` must be an integer >= 1, got {value!r}.")):
        config(**{name: value})


@pytest.mark.parametrize("name", ["cycle", "n_persistent"])
def test_allows_none_of_it_but_not_less(name: str) -> None:
    assert getattr(config(**{name: 0}), name) == 0
    with pytest.raises(ValueError, match=exactly(f"`{name}` must be an integer >= 0, got -1.")):
        config(**{name: -1})


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("mixer", ("memory", "attention", "window_attention", "mamba", "none")),
        ("variant", ("lmm", "mac", "mag", "mal")),
        ("feature_mixer", ("einfft", "mlp", "none")),
        ("memory_gates", ("token", "chunk")),
    ],
)
def test_names_the_choices(name: str, choices: tuple[str, ...]) -> None:
    assert [getattr(config(**{name: choice}), name) for choice in choices] == list(choices)
    with pytest.raises(ValueError, match=exactly(f"`{name}` must be one of {choices}, got 'other'.")):
        config(**{name: "other"})


@pytest.mark.parametrize(
    "name",
    ["linear_path", "scale_windows", "memory_conv", "memory_momentum", "memory_forgetting", "memory_writes"],
)
@pytest.mark.parametrize("value", [1, "yes"])
def test_refuses_what_is_neither_true_nor_false(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=exactly(f"`{name}` must be True or False, got {value!r}.")):
        config(**{name: value})


def test_only_the_scaling_of_windows_may_stay_open() -> None:
    assert config().scale_windows is None
    with pytest.raises(ValueError, match=exactly("`linear_path` must be True or False, got None.")):
        config(linear_path=None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 6}, "`d_model` must be a multiple of `n_heads` = 4, got 6."),
        ({"d_model": 6, "n_heads": 2}, "`d_model` must be a multiple of `einfft_blocks` = 4, got 6."),
        (
            {"mixer": "attention", "d_model": 12, "n_heads": 4},
            "`d_model` / `n_heads` must be even for attention, got 3.",
        ),
        ({"patch_len": 4, "stride": 5}, "`stride` must be at most `patch_len` = 4, got 5."),
        ({"dropout": 1.0}, "`dropout` must be in [0, 1), got 1.0."),
        ({"dropout": -0.1}, "`dropout` must be in [0, 1), got -0.1."),
        ({"dropout": float("nan")}, "`dropout` must be in [0, 1), got nan."),
    ],
)
def test_refuses_what_does_not_fit_together(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=exactly(message)):
        config(**changes)


def test_only_attention_needs_even_heads() -> None:
    assert config(mixer="memory", d_model=12, n_heads=4).d_model == 12


def test_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        config().lookback = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("lookback", "patching", "n_tokens"),
    [
        (1, (1, 1), 2),
        (3, (1, 1), 4),
        (8, (4, 2), 4),
        (10, (4, 2), 5),
        (31, (8, 4), 7),
        (32, (16, 8), 4),
        (96, (16, 8), 12),
        (336, (16, 8), 42),
    ],
)
def test_patches_halve_until_two_fit(lookback: int, patching: tuple[int, int], n_tokens: int) -> None:
    short = config(lookback=lookback, patch_len=16, stride=8)
    assert short.patching == patching
    assert short.n_tokens == n_tokens


@settings(max_examples=200, deadline=None)
@given(lookback=st.integers(1, 200), patch_len=st.integers(1, 40), data=st.data())
def test_counts_the_tokens_there_are(lookback: int, patch_len: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, patch_len), label="stride")
    found = config(lookback=lookback, patch_len=patch_len, stride=stride)
    assert found.patching[0] == 1 or 2 * found.patching[0] <= lookback
    assert 1 <= found.patching[1] <= found.patching[0] <= patch_len
    patches = PatchEmbedding(*found.patching, d_model=1).patches(torch.arange(1.0, lookback + 1).expand(2, -1))
    assert patches.shape == (2, found.n_tokens, found.patching[0])
    assert patches[0].max() == lookback, "the last value is read"
