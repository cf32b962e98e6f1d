"""Every implementation against the exact vectors: outputs, final state and every gradient."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from titans_ts.kernels import MemoryState, memory_scan

# Sums of at most a few hundred terms in another order; the vectors themselves are good to 1e-14.
FLOAT64 = 1e-10

NAMES = [
    *("deep_basic", "deep_chunk1", "deep_d16_c16", "deep_decay_init", "deep_decay_init_state", "deep_extreme_gates"),
    *("deep_extreme_survives", "deep_nodecay", "deep_one_token", "deep_state_offset5", "depth3", "depth4"),
    *("linear_basic", "linear_d16_c16", "linear_decay_init_state", "linear_extreme_gates", "linear_extreme_survives"),
    *("linear_nomomentum", "linear_state"),
]
DEEPER = ("depth3", "depth4")  # than the kernels go


def test_every_vector_is_listed(oracle_folder: Path) -> None:
    assert sorted(path.stem for path in oracle_folder.glob("*.npz")) == sorted(NAMES)


@pytest.mark.parametrize("backend", ["reference", "chunkwise"])
@pytest.mark.parametrize("name", NAMES)
def test_matches_the_exact_vectors(oracle_folder: Path, name: str, backend: str) -> None:
    vector = dict(np.load(oracle_folder / f"{name}.npz"))
    check(vector, read_inputs(vector, torch.float64), backend, FLOAT64, FLOAT64)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in DEEPER])
def test_the_kernels_match_the_exact_vectors(
    oracle_folder: Path, name: str, device: torch.device, tolerances: Any
) -> None:
    vector = dict(np.load(oracle_folder / f"{name}.npz"))
    inputs = read_inputs(vector, torch.float32, device)
    check(vector, inputs, "triton", tolerances.outputs, tolerances.gradients)


def check(
    vector: dict[str, np.ndarray], inputs: dict[str, Tensor], backend: str, of_values: float, of_gradients: float
) -> None:
    """Outputs, final state and gradients are the vector's."""
    y, after = scan(vector, inputs, backend)
    outputs = {"y": y}
    for i in range(vector["depth"].item()):
        outputs |= {f"W{i}_final": after.weights[i], f"S{i}_final": after.momentum[i]}
    assert after.offset == vector["offset_out"].item()
    for key, value in outputs.items():
        assert_close(value, vector[f"out_{key}"], of_values)
    for i in range(vector["depth"].item() if after.offset > 0 else 0):
        assert_close(after.chunk_start[i], vector[f"out_Wstart{i}_final"], of_values)

    scalar = sum((value * torch.from_numpy(vector[f"cot_{key}"]).to(value)).sum() for key, value in outputs.items())
    gradients = torch.autograd.grad(scalar, list(inputs.values()), allow_unused=True, materialize_grads=True)
    for key, gradient in zip(inputs, gradients, strict=True):
        assert_close(gradient, vector[f"grad_{key}"], of_gradients)


@pytest.mark.parametrize("name", DEEPER)
def test_the_kernels_refuse_a_deeper_memory(oracle_folder: Path, name: str, device: torch.device) -> None:
    vector = dict(np.load(oracle_folder / f"{name}.npz"))
    with pytest.raises(ValueError, match=rf"takes 1 or 2 layers of weights, got {vector['depth']}; use 'chunkwise'"):
        scan(vector, read_inputs(vector, torch.float32, device), "triton")


def read_inputs(
    vector: dict[str, np.ndarray], dtype: torch.dtype, device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    tensors = {key: torch.from_numpy(x).to(device, dtype) for key, x in vector.items() if key.startswith("in_")}
    return {key.removeprefix("in_"): x.requires_grad_() for key, x in tensors.items()}


def scan(vector: dict[str, np.ndarray], inputs: dict[str, Tensor], backend: str) -> tuple[Tensor, MemoryState]:
    """What a vector's call gives for `inputs`."""
    depth, offset = vector["depth"].item(), vector["offset_in"].item()

    def group(prefix: str) -> tuple[Tensor, ...]:
        return tuple(inputs[f"{prefix}{i}"] for i in range(depth))

    state = None
    weights = group("W")
    if "S0" in inputs:
        chunk_start = group("Wstart") if offset else group("W")
        state = MemoryState(weights=group("W"), momentum=group("S"), chunk_start=chunk_start, offset=offset)
        weights = group("Winit") if "Winit0" in inputs else tuple(w[0].detach() for w in weights)
    return memory_scan(
        *(inputs[key] for key in ("q", "k", "v", "alpha", "eta", "theta")),
        weights,
        chunk_size=vector["chunk_size"].item(),
        state=state,
        return_state=True,
        decay_to=vector["decay_to"].item(),
        backend=backend,
    )


def assert_close(value: Tensor, expected: np.ndarray, tolerance: float) -> None:
    """The largest absolute difference over the largest absolute reference."""
    assert value.shape == expected.shape
    scale = np.abs(expected).max() or 1.0
    assert np.abs(value.detach().cpu().numpy() - expected).max() <= tolerance * scale
