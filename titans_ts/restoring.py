"""Parts of a saved model, checked before anything is made of them.

Whoever can write a folder can give it hashes that fit. So what a folder says is held against what lies there before
memory is taken for it: sizes against the tensors of the file, shapes and types against the network of those sizes.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import torch
from torch import Tensor

from .devices import seeded
from .model import ModelConfig, SimbaForecaster
from .model.long_term import LongTermMemory
from .model.long_term_config import LongTermConfig
from .model.origins import n_features
from .model.stream_state import StreamState
from .statistical.model import METHODS
from .stream.reading import LongTerm
from .tables.calendar import Calendar
from .tables.series_data import SeriesData

MOST_CYCLES = 7  # of a network's in a season of statistical forecasts: a week of days
ROUNDING = 1e-6  # of a sum of weights
LONGEST_SPAN = 10_000 * 366  # days from 1970 within which times of a zone must lie
DTYPES = {  # of arrays, and of how many dimensions
    **dict.fromkeys(("values", "mean", "std"), (np.float64, 1)),
    **dict.fromkeys(("lengths", "starts"), (np.int64, 1)),
    "observed": (np.bool_, 1),
    "covariates": (np.float64, 2),
}


def restore_network(config: ModelConfig, tensors: dict[str, Tensor]) -> SimbaForecaster:
    """The network of this configuration with the weights given, on the CPU.

    Raises
    ------
    ValueError
        If the weights are those of another network, or not finite: names the first.
    """
    for name in ("n_layers", "memory_depth"):  # each has tensors of its own
        if (size := getattr(config, name)) > len(tensors):
            raise ValueError(f"`{name}` must be at most the number of tensors, {len(tensors)}, got {size}.")
    with seeded(0), torch.device("meta"):  # of float32, which has shapes, and no memory
        _check_tensors(SimbaForecaster(config).state_dict(), tensors)
    with seeded(0):  # the weights drawn here are replaced
        network = SimbaForecaster(config)
    network.load_state_dict(tensors)
    return network


def restore_long_term(
    config: LongTermConfig, network: ModelConfig, tensors: dict[str, Tensor], held: dict[str, Tensor]
) -> LongTerm:
    """The long-term memory of this configuration with the weights given, and what it `held` of each series.

    Raises
    ------
    ValueError
        If it is of another network, or the tensors are those of another memory, or not finite: names the first.
    """
    for name in ("lookback", "horizon", "n_series", "cycle"):
        found, expected = getattr(config, name), getattr(network, name)
        if found != expected:
            raise ValueError(f"`long_term` must have the network's {name}, {expected}, got {found}.")
    features = n_features(config.lookback, config.horizon, config.cycle)
    sizes = {
        "log_rate": (len(config.rates) * len(config.forgetting),),
        "whitening": (config.n_series + 1, features),
    }
    for name, size in sizes.items():
        weight = tensors.get(f"blocks.0.{name}")
        if weight is None or tuple(weight.shape[: len(size)]) != size:
            raise ValueError(f"`long_term` must have a tensor 'blocks.0.{name}' of shape {size}, or more.")
    for name, most in {"depth": len(tensors), "recall": sum(tensor.numel() for tensor in held.values())}.items():
        if getattr(config, name) > most:
            raise ValueError(f"`{name}` of the long-term memory must be at most {most}, got {getattr(config, name)}.")
    memory = LongTermMemory(config)
    _check_tensors(memory.state_dict(), tensors)
    memory.load_state_dict(tensors)
    shapes = deepcopy(memory).to("meta").begin(config.n_series, torch.zeros(config.n_series, dtype=torch.int64))
    _check_finite(held)
    return LongTerm(memory, StreamState.of_tensors(held, shapes))


def check_arrays(arrays: dict[str, np.ndarray], n_series: int, n_ids: int) -> None:
    """Hold the rows of a saved model, and their scale, against each other and against the number of its series.

    Raises
    ------
    ValueError
        Naming the array that has another shape or type, or numbers that are not finite.
    """
    for name, (dtype, dimensions) in DTYPES.items():
        array = arrays.get(name)
        if array is None and name in ("observed", "covariates"):
            continue
        if array is None or array.dtype != dtype or array.ndim != dimensions:
            got = "none" if array is None else f"{array.shape} of {array.dtype}"
            raise ValueError(f"`{name}` must be an array of {np.dtype(dtype)} of {dimensions} dimensions, got {got}.")
    lengths = arrays["lengths"]
    if n_ids != n_series or not len(lengths) or lengths.min() < 1:
        raise ValueError(f"`lengths` and the series' names must be of {n_series} series with a row or more each.")
    rows = sum(lengths.tolist())  # which no int64 overflows
    shapes = dict.fromkeys(("lengths", "starts", "mean", "std"), n_series) | dict.fromkeys(
        ("values", "observed", "covariates"), rows
    )
    for name, size in shapes.items():
        if name in arrays and len(arrays[name]) != size:
            raise ValueError(f"`{name}` must have {size} entries as the series say, got {len(arrays[name])}.")
    for name in ("values", "mean", "std"):
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"`{name}` must be finite numbers, but has NaN or infinity.")


def check_combination(
    periods: tuple[int, ...],
    weights: np.ndarray,
    positive: np.ndarray,
    statistical: dict[str, np.ndarray],
    config: ModelConfig,
) -> None:
    """Hold what a saved model is combined with against its network.

    Parameters
    ----------
    periods : tuple of int
        Of the seasons of the statistical forecasts.
    weights : ndarray, shape (1 + methods,)
    positive : ndarray of bool, shape (n_series,)
    statistical : dict of str to ndarray
        As `StatisticalModel.arrays` names them.
    config : ModelConfig

    Raises
    ------
    ValueError
        Naming the part that is of another type or size.
    """
    longest = MOST_CYCLES * config.cycle
    lasting = zip((1, *periods), periods, strict=False)
    if not all(type(n) is int and 1 < n <= longest and n % before == 0 for before, n in lasting):
        raise ValueError(f"`periods` must be multiples of one another from 2 to {longest}, got {periods}.")
    is_share = weights.dtype.kind == "f" and weights.shape == (1 + len(METHODS),) and (weights >= 0).all()
    if not is_share or not abs(float(weights.sum()) - 1) < ROUNDING:
        raise ValueError(f"`weights` must be {1 + len(METHODS)} shares whose sum is 1, got {weights.tolist()}.")
    if positive.dtype != np.bool_ or positive.shape != (config.n_series,):
        raise ValueError(f"`positive` must be {config.n_series} of bool, got {positive.shape} of {positive.dtype}.")
    for name, array in statistical.items():
        if name.endswith("scored") and not (
            array.dtype == np.int64
            and array.ndim == 1
            and len(array)
            and 1 <= array.min() <= array.max() <= config.horizon
        ):
            raise ValueError(f"`{name}` must be steps from 1 to {config.horizon}, got {array.tolist()[:5]}.")


def check_times(calendar: Calendar, data: SeriesData[np.ndarray]) -> None:
    """Refuse times so far off that the clocks of a zone could not be looked up for all days until then.

    Raises
    ------
    ValueError
        If one is over 10,000 years from 1970.
    """
    if calendar.local:
        day = calendar.steps_of_a_day
        farthest = max(abs(int(data.starts.min())), abs(int(data.ends.max())))
        if farthest > LONGEST_SPAN * day:
            raise ValueError(f"`starts` must lie within {LONGEST_SPAN} days of 1970, got {farthest} steps from it.")


def _check_tensors(expected: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    """Whether those found have the names, shapes and types of those expected, and finite numbers."""
    for name in [*expected, *found]:
        if name not in expected or name not in found:
            raise ValueError(f"tensor {name!r} must be one of the network's, and there.")
        a, b = expected[name], found[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError(
                f"tensor {name!r} must have shape {tuple(a.shape)} of {a.dtype}, got {tuple(b.shape)} of {b.dtype}."
            )
    _check_finite(found)


def _check_finite(tensors: dict[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ValueError(f"tensor {name!r} must have finite numbers, but has NaN or infinity.")
