"""Where triton cannot be installed, as on a Mac: everything but its kernels works, and these are refused in words."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys

sys.modules["triton"] = None  # an import fails, as where it is not installed

import numpy as np
import pytest
import torch

from titans_ts import TitansForecaster
from titans_ts.kernels import convolution_kernel, memory_scan, verify

q, k, v = torch.randn(3, 1, 8, 2, 4)
gates, weights = torch.rand(3, 1, 8, 2), (torch.randn(2, 4, 4),)
words = r"needs the package triton, which cannot be imported \\(.*\\); use 'chunkwise' or 'auto'"
with pytest.raises(ValueError, match="`backend='triton'` " + words):
    memory_scan(q, k, v, *gates, weights, chunk_size=4, backend="triton")
with pytest.raises(ValueError, match="`device` cpu needs the package triton, which cannot be imported"):
    verify("cpu")
assert convolution_kernel(torch.randn(1, 12, 24), 2, "triton") is None
read = [memory_scan(q, k, v, *gates, weights, chunk_size=4, backend=b) for b in ("auto", "chunkwise", "reference")]
assert torch.equal(read[0], read[1])
assert torch.allclose(read[0], read[2], atol=1e-4)
model = TitansForecaster(horizon=2, lookback=8, d_model=8, n_layers=1, n_heads=2, max_epochs=1, verbose=0)
assert np.isfinite(model.fit(np.random.default_rng(0).normal(size=(60, 2))).predict()).all()
"""


def test_all_but_its_kernels_works_without_triton() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
