"""The smallest call on which kernels are checked; needs the package triton."""

from titans_ts.kernels import triton_launch
from titans_ts.kernels.agreement import ScanCase

LINEAR = ScanCase(
    depth=1,
    dtype="float32",
    gates=("float32", "float32", "float32"),
    head_dim=5,
    hidden=5,
    lanes=16,
    decay_to="zero",
    start="fresh",
    return_state=False,
    gradients=True,
    launch=triton_launch.Launch(warps=1, backward_warps=1),
)
