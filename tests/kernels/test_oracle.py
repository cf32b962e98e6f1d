"""Both plain implementations against the exact vectors: outputs, final state and every gradient."""

from pathlib import Path

import numpy as np
import pytest
import torch

from titans_ts.kernels import MemoryState, memory_scan

# float64 sums of at most a few hundred terms in another order; the vectors themselves are good to 1e-14.
TOLERANCE = 1e-10

NAMES = [
    *("deep_basic", "deep_chunk1", "deep_d16_c16", "deep_decay_init", "deep_decay_init_state", "deep_extreme_gates"),
    *("deep_extreme_survives", "deep_nodecay", "deep_one_token", "deep_state_offset5", "depth3", "depth4"),
    *("linear_basic", "linear_d16_c16", "linear_decay_init_state", "linear_extreme_gates", "linear_extreme_survives"),
    *("linear_nomomentum", "linear_state"),
]


def test_every_vector_is_listed(oracle_folder: Path) -> None:
    assert sorted(path.stem for path in oracle_folder.glob("*.npz")) == sorted(NAMES)


@pytest.mark.parametrize("backend", ["reference", "chunkwise"])
@pytest.mark.parametrize("name", NAMES)
def test_matches_the_exact_vectors(oracle_folder: Path, name: str, backend: str) -> None:
    vector = np.load(oracle_folder / f"{name}.npz")
    depth, offset = vector["depth"].item(), vector["offset_in"].item()
    inputs = {
        key.removeprefix("in_"): torch.from_numpy(vector[key]).requires_grad_()
        for key in vector
        if key.startswith("in_")
    }

    def group(prefix: str) -> tuple[torch.Tensor, ...]:
        return tuple(inputs[f"{prefix}{i}"] for i in range(depth))

    state = None
    weights = group("W")
    if "S0" in inputs:
        chunk_start = group("Wstart") if offset else group("W")
        state = MemoryState(weights=group("W"), momentum=group("S"), chunk_start=chunk_start, offset=offset)
        weights = group("Winit") if "Winit0" in inputs else tuple(w[0].detach() for w in weights)

    y, after = memory_scan(
        *(inputs[key] for key in ("q", "k", "v", "alpha", "eta", "theta")),
        weights,
        chunk_size=vector["chunk_size"].item(),
        state=state,
        return_state=True,
        decay_to=vector["decay_to"].item(),
        backend=backend,
    )
    finals = {}
    for i in range(depth):
        finals |= {f"W{i}_final": after.weights[i], f"S{i}_final": after.momentum[i]}

    assert after.offset == vector["offset_out"].item()
    assert_close(y, vector["out_y"])
    for key, value in finals.items():
        assert_close(value, vector[f"out_{key}"])
    if after.offset > 0:
        for i in range(depth):
            assert_close(after.chunk_start[i], vector[f"out_Wstart{i}_final"])

    outputs = {"y": y, **finals}
    scalar = sum((value * torch.from_numpy(vector[f"cot_{key}"])).sum() for key, value in outputs.items())
    gradients = torch.autograd.grad(scalar, list(inputs.values()), allow_unused=True, materialize_grads=True)
    for key, gradient in zip(inputs, gradients, strict=True):
        assert_close(gradient, vector[f"grad_{key}"])


def assert_close(value: torch.Tensor, expected: np.ndarray) -> None:
    """The largest absolute difference over the largest absolute reference."""
    assert value.shape == expected.shape
    scale = np.abs(expected).max() or 1.0
    assert np.abs(value.detach().numpy() - expected).max() <= TOLERANCE * scale
