"""Kernels built for a GPU that is not there: what a call would launch, compiled, and what the machine code is made of.

Triton's own assembler and disassembler do the work.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

POINTERS = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float16: "*fp16"}
PRODUCTS, STACK = ("HMMA", "HGMMA"), ("LDL", "STL")


@dataclass(frozen=True)
class Launched:
    """A kernel as a call would have started it."""

    function: Any
    signature: dict[str, str]
    constants: dict[tuple[int, ...], Any]
    attributes: dict[tuple[int, ...], list[list[Any]]]
    options: dict[str, Any]
    single_warps: bool  # no products of groups of four warps

    @property
    def name(self) -> str:
        """With its phase, where it has several."""
        names = [p.name for p in self.function.params]
        phase = self.constants.get((names.index("PHASE"),)) if "PHASE" in names else None
        return f"{self.function.fn.__name__} {phase}" if phase else str(self.function.fn.__name__)

    @property
    def specialised(self) -> str:
        """What decides on its code."""
        return repr((self.signature, self.constants, self.attributes, self.options, self.single_warps))


class Code(NamedTuple):
    """Of a kernel's machine code; the last three of its loops with products, or of the whole where there is none."""

    registers: int
    stack: int
    shared: int
    instructions: int
    products: int
    spills: int


def recorded(run: Callable[[], Any], generation: int = 9) -> list[Launched]:
    """The kernels that `run` would have started on a GPU of that generation; none is, on any device."""
    from triton.runtime.jit import JITFunction

    from titans_ts.kernels import triton_launch

    found: list[Launched] = []

    def record(self: Any, *args: Any, **named: Any) -> None:
        found.append(_launched(self, *args, **named))

    with patch.object(JITFunction, "run", record), triton_launch.built_for(generation):
        run()
    return found


def _launched(
    function: Any,
    *args: Any,
    grid: Any,
    warmup: bool,
    num_warps: int = 4,
    num_stages: int = 3,
    maxnreg: int | None = None,
    ptx_options: str | None = None,
    **named: Any,
) -> Launched:
    """As triton specialises: None and 1 are constants, and what is divisible by 16 is known to be."""
    values = dict(zip(function.arg_names, args, strict=False)) | named
    signature: dict[str, str] = {}
    constants: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for i, parameter in enumerate(function.params):
        name, x = parameter.name, values[parameter.name]
        free = parameter.do_not_specialize
        if parameter.is_constexpr or x is None or (not free and not isinstance(x, torch.Tensor) and x == 1):
            signature[name], constants[(i,)] = "constexpr", x
            continue
        if isinstance(x, torch.Tensor):
            signature[name], divisible = POINTERS[x.dtype], x.data_ptr() % 16 == 0
        elif isinstance(x, float):
            signature[name], divisible = "fp32", False
        else:
            signature[name], divisible = "i32", not free and x % 16 == 0
        if divisible:
            attributes[(i,)] = [["tt.divisibility", 16]]
    options = dict(num_warps=num_warps, num_stages=num_stages, maxnreg=maxnreg, ptx_options=ptx_options)
    return Launched(function, signature, constants, attributes, options, os.environ.get("DISABLE_MMA_V3") == "1")


def built(kernel: Launched, capability: int) -> Any:
    """The kernel compiled for a GPU of a compute capability such as 90."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(kernel.function, kernel.signature, constexprs=kernel.constants, attrs=kernel.attributes)
    with patch.dict(os.environ, {"DISABLE_MMA_V3": "1" if kernel.single_warps else "0"}):
        return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=kernel.options)


def code(compiled: Any) -> Code:
    """What a compiled kernel is made of."""
    import triton

    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        used = _output(tools / "cuobjdump", "-res-usage", file.name)
        text = _output(tools / "nvdisasm", "-c", file.name)
    registers, stack = (int(re.search(rf"{what}:(\d+)", used)[1]) for what in ("REG", "STACK"))  # type: ignore[index]
    return Code(registers, stack, int(compiled.metadata.shared), *loops(text))


def _output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def loops(disassembly: str) -> tuple[int, int, int]:
    """Instructions, products and moves to and from the stack in the innermost loops that have products, added up.

    A loop is what lies between a label and a branch back to it. Of a kernel without such loops, the whole.
    """
    names: list[str] = []
    labels: dict[str, int] = {}
    spans: list[tuple[int, int]] = []
    for line in disassembly.splitlines():
        if found := re.match(r"\s*(\.L_x_\d+):", line):
            labels[found[1]] = len(names)
        elif found := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)(.*)", line):
            if found[1] == "BRA" and (to := re.search(r"\.L_x_\d+", found[2])) and to[0] in labels:
                spans.append((labels[to[0]], len(names) + 1))
            names.append(found[1])

    def products(span: tuple[int, int]) -> int:
        return sum(name in PRODUCTS for name in names[slice(*span)])

    busy = [span for span in spans if products(span)]
    inner = [
        (first, last)
        for first, last in busy
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in busy)
    ] or [(0, len(names))]
    return (
        sum(last - first for first, last in inner),
        sum(map(products, inner)),
        sum(name in STACK for first, last in inner for name in names[first:last]),
    )
