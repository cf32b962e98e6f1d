"""NeuralMemory: the Titans memory as a layer.

Projections, a short convolution and gates around `kernels.memory_scan`, in the place where SiMBA has its Mamba.

Source: Titans: Learning to Memorize at Test Time (Behrouz et al., 2024), sections 3 and 4.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv2d, pad, silu

from titans_ts.kernels import ConvolutionKernel, MemoryState, convolution_kernel, memory_scan
from titans_ts.kernels.held import to_tokens

from .config import ModelConfig
from .step_sizes import FULL, shares

INITIAL_ALPHA = 1e-2, 1e-4  # of the first head and the last, whose memories last from a hundred to ten thousand tokens
INITIAL_SHARE = -2.0  # logit of what a token of a deep memory asks for
NORM_EPS = 1e-6  # of a squared norm; keys can be exactly zero, where a smaller one would let gradients explode

IMAGE_DEVICE = "cpu"  # where a convolution over tokens is quick as one over images


@dataclass(frozen=True, kw_only=True)
class LayerState:
    """What a layer carries from one call to the next.

    Parameters
    ----------
    memory : MemoryState
    conv : Tensor (batch, 3, 3 * d_model) or None
        The convolution's last inputs.
    gates : Tensor (batch, 1, 3, heads) or None
        The current chunk's gates, where gates are per chunk.
    keys : Tensor (batch, tokens, heads, head_dim)
        Those of the current chunk, in a deep memory.
    asked : Tensor (batch, tokens, heads)
        What its tokens have asked for there, of the largest step size.
    """

    memory: MemoryState
    conv: Tensor | None
    gates: Tensor | None
    keys: Tensor
    asked: Tensor


class NeuralMemory(nn.Module):
    """A layer whose memory is updated with every token that it reads, in training and in prediction.

    Parameters
    ----------
    config : ModelConfig
    backend : str
        `memory_scan`'s.

    Notes
    -----
    The surprises of a chunk add up, and beyond a bound of their step sizes the weights grow without end. In a linear
    memory theta is at most (1 - eta) / chunk_size: what is read is normalised, so that a write of an eighth is enough,
    and what larger ones have written is lost sooner. In a deep one, whose first layer leaves of a key a fourth of its
    square, that would be next to nothing: there theta is at most (1 - eta) / 2, which tokens of a chunk with similar
    keys have together (`step_sizes`). A memory of L layers that holds values of norm r has weights of about r^(1/L),
    and the curvature of its loss goes with their power 2 (L - 1): where r > 1, theta is divided by r^(2 - 2/L), without
    which a deep memory overflows at r = 6.
    """

    def __init__(self, config: ModelConfig, backend: str = "auto") -> None:
        super().__init__()
        d_model, depth, self.n_heads = config.d_model, config.memory_depth, config.n_heads
        self.chunk_size, self.backend = config.chunk_size, backend
        self.momentum, self.forgetting = config.memory_momentum, config.memory_forgetting
        self.writes = config.memory_writes
        self.gates_per_chunk = config.memory_gates == "chunk"
        self.curvature = 2 - 2 / depth
        # A deep memory that forgets towards zero comes to a saddle with no gradient left to leave it.
        self.decay_to = "zero" if depth == 1 else "init"

        self.project_qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.conv = CausalConv(3 * d_model) if config.memory_conv else None
        self.project_gates = nn.Linear(d_model, 3 * self.n_heads)
        self.project_output_gate = nn.Linear(d_model, d_model, bias=False)
        head_dim = d_model // self.n_heads
        self.norm = nn.RMSNorm(head_dim, eps=1e-5)
        self.project_out = nn.Linear(d_model, d_model, bias=False)

        widths = [head_dim, *[config.memory_expansion * head_dim] * (depth - 1), head_dim]
        self.initial = nn.ParameterList(
            nn.Parameter(torch.randn(self.n_heads, n_in, n_out) / n_in**0.5) for n_in, n_out in pairwise(widths)
        )
        with torch.no_grad():
            alpha, eta, theta = self.project_gates.bias.view(3, self.n_heads)
            first, last = (math.log10(alpha) for alpha in INITIAL_ALPHA)
            alpha.copy_(torch.logspace(first, last, self.n_heads).logit())
            eta.zero_()
            theta.fill_(INITIAL_SHARE if depth > 1 else 0.0)
            self.project_gates.weight.mul_(0.1)  # near their bias at first, so that alpha starts low for every token

    def forward(self, x: Tensor, masked: Tensor | None = None) -> Tensor:
        """Read `x` (batch, tokens, d_model) from a fresh memory; `masked` (batch, tokens) tokens leave it as it is."""
        return self._run(x, None, masked, return_state=False)[0]

    def step(
        self, x: Tensor, state: LayerState | None = None, masked: Tensor | None = None
    ) -> tuple[Tensor, LayerState]:
        """Read on from `state`; any split of a sequence into steps gives what one pass gives.

        Parameters
        ----------
        x : Tensor (batch, tokens, d_model)
        state : LayerState, optional
            A fresh memory if None.
        masked : Tensor of bool (batch, tokens), optional
            Tokens that leave the weights as they are; past surprise ends with them.

        Returns
        -------
        out : Tensor (batch, tokens, d_model)
        state : LayerState
        """
        out, after = self._run(x, state, masked, return_state=True)
        assert after is not None  # asked for
        return out, after

    def _run(
        self, x: Tensor, state: LayerState | None, masked: Tensor | None, return_state: bool
    ) -> tuple[Tensor, LayerState | None]:
        q, k, v, rows = self.project_inputs(self.project_qkv(x), None if state is None else state.conv)
        raw, chunk_gates = self._project_gates(x, state)
        gates, under_way = self._gates(raw, k, v, masked, state)

        # Masked tokens have gates of their own: none.
        of = "chunk" if self.gates_per_chunk and masked is None else "token"
        read = partial(memory_scan, chunk_size=self.chunk_size, decay_to=self.decay_to, gates=of, backend=self.backend)
        weights = tuple(self.initial)
        after = None
        if return_state:
            memory = None if state is None else state.memory
            y, memory = read(q, k, v, *gates, weights, state=memory, return_state=True)
            after = LayerState(memory=memory, conv=rows, gates=chunk_gates, keys=under_way[0], asked=under_way[1])
        else:
            y = read(q, k, v, *gates, weights)
        return self.project_out(
            self.norm(y.to(self.norm.weight.dtype)).flatten(2) * silu(self.project_output_gate(x))
        ), after

    def project_inputs(self, qkv: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """q, k and v (batch, tokens, heads, head_dim) and the convolution's last rows, from those `before`.

        In the dtype of `qkv`: narrow in automatic mixed precision, in which the kernels are quicker.
        """
        rows: Tensor | None
        kernel = None if self.conv is None else convolution_kernel(qkv, self.n_heads, self.backend)
        if self.conv is not None and kernel is not None:
            q, k, v, rows = self.conv.by_kernel(kernel, qkv, before, self.n_heads)
        else:
            out, rows = (qkv, None) if self.conv is None else self.conv(qkv, before)
            q, k, v = silu(out).unflatten(-1, (3, self.n_heads, -1)).unbind(2)
            q, k = unit(q), unit(k)
        return q.to(qkv.dtype), k.to(qkv.dtype), v.to(qkv.dtype), rows

    def _project_gates(self, x: Tensor, state: LayerState | None) -> tuple[Tensor, Tensor | None]:
        """Raw gates (batch, tokens, 3, heads); per chunk, those of each chunk's first token, and the last of them."""
        if not self.gates_per_chunk:
            return self.project_gates(x).unflatten(-1, (3, self.n_heads)), None
        offset = 0 if state is None else state.memory.offset
        first = x[:, -offset % self.chunk_size :: self.chunk_size]
        raw = self.project_gates(first).unflatten(-1, (3, self.n_heads))  # (batch, chunks, 3, heads)
        if state is None or state.gates is None or offset == 0:
            return raw, raw[:, -1:]
        held = torch.cat([state.gates, raw], dim=1)
        return held if x.shape[1] else raw, held[:, -1:]

    def _gates(
        self, raw: Tensor, k: Tensor, v: Tensor, masked: Tensor | None, state: LayerState | None
    ) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]:
        """alpha, eta and theta of each token, and keys and what is asked for of the chunk under way.

        Per chunk, alpha and eta are of each chunk where no token is masked.
        """
        offset = 0 if state is None else state.memory.offset
        raw = raw if raw.dtype == torch.float64 else raw.float()  # 1 - alpha needs more than bfloat16's 8 bits
        alpha, eta, asked = raw.sigmoid().unbind(2)
        if not self.forgetting:
            alpha = torch.zeros_like(alpha)
        if not self.momentum:
            eta = torch.zeros_like(eta)
        eta_of_tokens = eta
        if self.gates_per_chunk:
            spread = partial(to_tokens, steps=v.shape[1], chunk_size=self.chunk_size, offset=offset)
            asked, eta_of_tokens = spread(asked), spread(eta)
            if masked is not None:
                alpha, eta = spread(alpha), eta_of_tokens
        if masked is not None:
            # Not eta = 1: W_t = W_{t-1} + S_t would write the past surprise once more for every such token.
            alpha, eta, asked = (gate.masked_fill(masked.unsqueeze(-1), 0) for gate in (alpha, eta, asked))
        if not self.writes:
            return (alpha, eta, torch.zeros_like(asked)), (k[:, :0], asked[:, :0])
        if self.curvature == 0:
            return (alpha, eta, (1 - eta_of_tokens) / self.chunk_size * asked), (k[:, :0], asked[:, :0])
        if state is not None and offset > 0:
            k, asked = torch.cat([state.keys, k], dim=1), torch.cat([state.asked, asked], dim=1)
        square = v.to(raw.dtype).square().sum(-1).clamp(min=1)
        largest = FULL * (1 - eta_of_tokens) * square ** (-self.curvature / 2)
        ended = k.shape[1] - k.shape[1] % self.chunk_size
        return (alpha, eta, largest * shares(asked, k, self.chunk_size)[:, offset:]), (k[:, ended:], asked[:, ended:])


class CausalConv(nn.Module):
    """Depthwise causal convolution over 4 tokens."""

    WIDTH = 4

    def __init__(self, channels: int) -> None:
        super().__init__()
        bound = self.WIDTH**-0.5
        self.weight = nn.Parameter(torch.empty(self.WIDTH, channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor, before: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(batch, tokens, channels), its 3 rows `before` (zeros if None) -> the result, and its last 3 rows."""
        x, n_before = _after(x, before)
        out: Tensor = _Convolution.apply(x.to(self.weight.dtype), self.weight, self.bias)  # type: ignore[no-untyped-call]
        return out[:, n_before:], self._last(x)

    def by_kernel(
        self, kernel: ConvolutionKernel, x: Tensor, before: Tensor | None, heads: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """q, k and v of the result by a kernel, and x's last 3 rows."""
        x, n_before = _after(x, before)
        return *kernel(x, self.weight, self.bias, heads, n_before, NORM_EPS), self._last(x)

    def _last(self, x: Tensor) -> Tensor:
        rows = x if x.shape[1] >= self.WIDTH - 1 else pad(x, (0, 0, self.WIDTH - 1 - x.shape[1], 0))
        return rows[:, 1 - self.WIDTH :]


def _after(x: Tensor, before: Tensor | None) -> tuple[Tensor, int]:
    """x after the rows `before`, and how many those are."""
    return (x, 0) if before is None else (torch.cat([before, x], dim=1), before.shape[1])


class _Convolution(torch.autograd.Function):
    """out[t] = bias + sum_i weight[-1 - i] x[t - i]: (batch, tokens, channels) -> the same.

    Its backward is written out, because that of PyTorch's depthwise convolutions is slow on a CPU.
    """

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return _shifted_sum(x, weight, bias)[:, : x.shape[1]]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        tokens, width = x.shape[1], len(weight)
        grad_weight = torch.zeros_like(weight)
        for i in range(min(width, tokens)):
            grad_weight[-1 - i] = (x[:, : tokens - i] * grad[:, i:]).sum((0, 1))
        # What a token gave to later ones comes back from them.
        grad_x = _shifted_sum(grad, weight.flip(0), None)[:, width - 1 :]
        return grad_x, grad_weight, grad.sum((0, 1))


def _shifted_sum(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """out[t] = bias + sum_i weight[i] x[t + i - (width - 1)], for every t that sees any of x."""
    width, channels = weight.shape
    if x.device.type == IMAGE_DEVICE and x.numel() > 0:
        # As an image of one row, its channels last: three times as quick as shifted multiply-adds.
        image, kernel = x.unsqueeze(1).permute(0, 3, 1, 2), weight.T[:, None, None, :]
        with torch.autocast("cpu", enabled=False):
            out = conv2d(image, kernel, bias, padding=(0, width - 1), groups=channels)
        return out.squeeze(2).transpose(1, 2)
    x = pad(x, (0, 0, width - 1, width - 1))
    tokens = x.shape[1] - width + 1
    out = x[:, :tokens] * weight[0] + (0 if bias is None else bias)
    for i in range(1, width):
        out.addcmul_(x[:, i : i + tokens], weight[i])
    return out


def unit(x: Tensor) -> Tensor:
    """Of length one along the last dimension, or nearly; zero stays zero."""
    return x * (x.square().sum(-1, keepdim=True) + NORM_EPS).rsqrt()
