"""What `checks` remembers, as constants of a function that `torch.compile` traces: found in Python while it traces.

In a module of its own because marking these functions loads the compiler, which takes a second.
"""

from __future__ import annotations

import torch

from . import checks
from .agreement import dtype_name


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # torch leaves it without types
def scan_agreed_before(
    device: torch.device, dtype: torch.dtype, depth: int, head_dim: int, hidden: int, decay_to: str, gradients: bool
) -> bool:
    """Whether kernels of such memories have been checked, in whatever lengths, and all of them agree.

    With `gradients` those checks count that had gradients too.
    """
    fields = {"depth": depth, "head_dim": head_dim, "hidden": hidden} | ({"gradients": True} if gradients else {})
    return checks.all_agree(device, kind="ScanCase", dtype=dtype_name(dtype), decay_to=decay_to, **fields)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # torch leaves it without types
def convolution_agreed_before(device: torch.device, dtype: torch.dtype, head_dim: int) -> bool:
    """Whether the convolution's kernels have been checked, and agree."""
    return checks.all_agree(device, kind="ConvolutionCase", dtype=dtype_name(dtype), head_dim=head_dim)
