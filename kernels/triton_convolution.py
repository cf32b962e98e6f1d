"""Triton kernels of a layer's inputs: the causal convolution over 4 tokens, silu, and q and k at unit length.

In plain PyTorch these are a dozen passes over 3 * d_model float32 a token, most of which are stored for the backward.
Here the forward is one kernel and stores only its input; the backward computes what lies between again, then the
convolution's gradients.

A program has ROWS tokens of one head's q, k or v, all of its D channels; tokens count through the batch.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .triton_common import DTYPES, INTERPRETED, VARYING, on, silu_and_slope

WIDEST = 256  # head size
TILE = 2048  # numbers of a program's tile
PROGRAMS = 1024  # of a backward, for each head's q, k and v: each has its own sums of the gradients by the weights


@triton.jit
def convolved(x, weight, bias, b_, t, real, channel, inside, x_b, x_t, channels, WIDTH: tl.constexpr):
    """The convolution's values (ROWS, DP) in float32 at rows t of samples b_, counted from x's first row."""
    out = tl.load(bias + channel, mask=inside, other=0.0).to(tl.float32)[None, :]
    for i in tl.static_range(WIDTH):
        there = real & (t >= i)
        rows = tl.load(
            x + (b_ * x_b + (t - i) * x_t)[:, None] + channel[None, :], mask=there[:, None] & inside[None, :], other=0.0
        )
        scale = tl.load(weight + (WIDTH - 1 - i) * channels + channel, mask=inside, other=0.0).to(tl.float32)
        out += scale[None, :] * rows.to(tl.float32)
    return out


@triton.jit(do_not_specialize=VARYING)
def convolve_forward(
    x, weight, bias, q, k, v, T, H, tokens, before, x_b, x_t, eps,
    D: tl.constexpr, DP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """x (B, before + T, 3 * H * D) -> q, k and v (B, T, H, D); `tokens` is B * T."""
    pid = tl.cast(tl.program_id(0), tl.int64)
    part, row = pid % (3 * H), (pid // (3 * H)) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, DP)
    inside, real = lane < D, row < tokens
    y = convolved(
        x, weight, bias, row // T, row % T + before, real, part * D + lane, inside, x_b, x_t, 3 * H * D, WIDTH
    )
    y = tl.where(inside[None, :], y * tl.sigmoid(y), 0.0)
    y *= tl.where(part < 2 * H, 1 / tl.sqrt(tl.sum(y * y, axis=1) + eps), 1.0)[:, None]
    to = one_of(q, k, v, part, H) + (row * (H * D) + (part % H) * D)[:, None] + lane[None, :]
    tl.store(to, y.to(q.dtype.element_ty), mask=real[:, None] & inside[None, :])


@triton.jit(do_not_specialize=VARYING)
def convolve_backward(
    x, weight, bias, dq, dk, dv, dy, dweight, dbias, T, H, tokens, before, programs, x_b, x_t, eps,
    D: tl.constexpr, DP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Gradients dy (B, T, 3 * H * D) by the convolution's values, and each program's part of dweight and dbias."""
    pid = tl.cast(tl.program_id(0), tl.int64)
    part, first = pid % (3 * H), pid // (3 * H)
    lane = tl.arange(0, DP)
    inside, channel, channels = lane < D, part * D + lane, 3 * H * D
    grad = one_of(dq, dk, dv, part, H) + (part % H) * D
    sums = tl.zeros((DP,), tl.float32)
    sums_0, sums_1, sums_2, sums_3 = sums, sums, sums, sums
    for block in range(first, (tokens + ROWS - 1) // ROWS, programs):
        row = block * ROWS + tl.arange(0, ROWS)
        real = row < tokens
        there = real[:, None] & inside[None, :]
        b_, t = row // T, row % T + before
        y = convolved(x, weight, bias, b_, t, real, channel, inside, x_b, x_t, channels, WIDTH)
        y, slope = silu_and_slope(y)
        y = tl.where(inside[None, :], y, 0.0)
        g = tl.load(grad + (row * (H * D))[:, None] + lane[None, :], mask=there, other=0.0).to(tl.float32)
        norm = 1 / tl.sqrt(tl.sum(y * y, axis=1) + eps)[:, None]
        y *= norm
        g = tl.where(part < 2 * H, norm * (g - y * tl.sum(g * y, axis=1)[:, None]), g) * slope
        g = tl.where(there, g, 0.0)
        tl.store(dy + (row * channels)[:, None] + channel[None, :], g.to(dy.dtype.element_ty), mask=there)
        sums += tl.sum(g, axis=0)
        sums_0 += earlier(x, g, b_, t, 0, real, channel, inside, x_b, x_t)
        sums_1 += earlier(x, g, b_, t, 1, real, channel, inside, x_b, x_t)
        sums_2 += earlier(x, g, b_, t, 2, real, channel, inside, x_b, x_t)
        sums_3 += earlier(x, g, b_, t, 3, real, channel, inside, x_b, x_t)
    dweight += first * WIDTH * channels + channel
    tl.store(dweight + 3 * channels, sums_0, mask=inside)
    tl.store(dweight + 2 * channels, sums_1, mask=inside)
    tl.store(dweight + channels, sums_2, mask=inside)
    tl.store(dweight, sums_3, mask=inside)
    tl.store(dbias + first * channels + channel, sums, mask=inside)


@triton.jit(do_not_specialize=VARYING)
def convolve_back(
    dy, weight, dx, T, H, rows, before, D: tl.constexpr, DP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    """Write dx (B, before + T, 3 * H * D): row t has a gradient from each token t + i, times the weight of lag i."""
    pid = tl.cast(tl.program_id(0), tl.int64)
    part, row = pid % (3 * H), (pid // (3 * H)) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, DP)
    inside, channel, channels = lane < D, part * D + lane, 3 * H * D
    b_, t = row // (before + T), row % (before + T) - before
    total = tl.zeros((ROWS, DP), tl.float32)
    for i in tl.static_range(WIDTH):
        there = ((row < rows) & (t + i >= 0) & (t + i < T))[:, None] & inside[None, :]
        g = tl.load(dy + ((b_ * T + t + i) * channels)[:, None] + channel[None, :], mask=there, other=0.0)
        scale = tl.load(weight + (WIDTH - 1 - i) * channels + channel, mask=inside, other=0.0).to(tl.float32)
        total += scale[None, :] * g.to(tl.float32)
    there = (row < rows)[:, None] & inside[None, :]
    tl.store(dx + (row * channels)[:, None] + channel[None, :], total.to(dx.dtype.element_ty), mask=there)


@triton.jit
def earlier(x, g, b_, t, i: tl.constexpr, real, channel, inside, x_b, x_t):
    """The sum over rows of g times the row of x that is i before, (DP,)."""
    there = (real & (t >= i))[:, None] & inside[None, :]
    rows = tl.load(x + (b_ * x_b + (t - i) * x_t)[:, None] + channel[None, :], mask=there, other=0.0)
    return tl.sum(g * rows.to(tl.float32), axis=0)


@triton.jit
def one_of(q, k, v, part, H):
    """The tensor that part of the channels belongs to: the parts are q's heads, then k's, then v's."""
    at = v
    if part < H:
        at = q
    elif part < 2 * H:
        at = k
    return at


def takes(x: Tensor, heads: int) -> bool:
    """Whether the kernels run for x (batch, tokens, 3 * heads * head_dim)."""
    runs = x.device.type == "cuda" or INTERPRETED
    return runs and x.dtype in DTYPES and x.shape[-1] <= 3 * heads * WIDEST


def convolve(
    x: Tensor, weight: Tensor, bias: Tensor, heads: int, before: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v (batch, tokens, heads, head_dim) in x's dtype; float32 inside.

    Parameters
    ----------
    x : Tensor (batch, before + tokens, 3 * heads * head_dim)
        Its first `before` rows are read, but no result is made for them. Rows before x are zero.
    weight : Tensor (4, channels)
        The last row multiplies the token itself, the first the token 3 before it.
    bias : Tensor (channels,)
    eps : float
        Added to the squared norm of q and k.
    """
    found: tuple[Tensor, Tensor, Tensor] = torch.ops.titans_ts.short_convolution(x, weight, bias, heads, before, eps)
    return found


@torch.library.custom_op("titans_ts::short_convolution", mutates_args=())
def _convolution(
    x: Tensor, weight: Tensor, bias: Tensor, heads: int, before: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    B, T, _, D = shape = _shape(x, heads, before)
    x, weight, bias = _rows_together(x), weight.contiguous(), bias.contiguous()
    q, k, v = (torch.empty(shape, dtype=x.dtype, device=x.device) for _ in range(3))
    sizes = _sizes(weight, D)
    with on(x.device):
        convolve_forward[(3 * heads * -(-B * T // sizes["ROWS"]),)](
            x, weight, bias, q, k, v, T, heads, B * T, before, *x.stride()[:2], eps, **sizes
        )
    return q, k, v


@_convolution.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, heads: int, before: int, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (torch.empty(_shape(x, heads, before), dtype=x.dtype, device=x.device) for _ in range(3))
    return q, k, v


@torch.library.custom_op("titans_ts::short_convolution_backward", mutates_args=())
def _convolution_backward(
    dq: Tensor, dk: Tensor, dv: Tensor, x: Tensor, weight: Tensor, bias: Tensor, heads: int, before: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    B, T, _, D = _shape(x, heads, before)
    x, weight, bias = _rows_together(x), weight.contiguous(), bias.contiguous()
    dq, dk, dv = (g.contiguous() for g in (dq, dk, dv))
    sizes, rows = _sizes(weight, D), B * (before + T)
    blocks = -(-B * T // sizes["ROWS"])
    programs = min(blocks, PROGRAMS)
    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    dy = torch.empty((B, T, x.shape[-1]), dtype=x.dtype, device=x.device)
    dweight = torch.empty((programs, *weight.shape), dtype=torch.float32, device=x.device)
    dbias = torch.empty((programs, *bias.shape), dtype=torch.float32, device=x.device)
    with on(x.device):
        convolve_backward[(3 * heads * programs,)](
            x, weight, bias, dq, dk, dv, dy, dweight, dbias, T, heads, B * T, before, programs,
            *x.stride()[:2], eps, **sizes,
        )  # fmt: skip
        convolve_back[(3 * heads * -(-rows // sizes["ROWS"]),)](dy, weight, dx, T, heads, rows, before, **sizes)
    return dx, dweight.sum(0).to(weight.dtype), dbias.sum(0).to(bias.dtype)


@_convolution_backward.register_fake
def _(
    dq: Tensor, dk: Tensor, dv: Tensor, x: Tensor, weight: Tensor, bias: Tensor, heads: int, before: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    dx, dweight, dbias = (torch.empty(y.shape, dtype=y.dtype, device=y.device) for y in (x, weight, bias))
    return dx, dweight, dbias


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.heads, ctx.before, ctx.eps = inputs
    ctx.save_for_backward(*tensors)


def _gradients(ctx: Any, dq: Tensor, dk: Tensor, dv: Tensor) -> tuple[Tensor | None, ...]:
    found = torch.ops.titans_ts.short_convolution_backward(
        dq, dk, dv, *ctx.saved_tensors, ctx.heads, ctx.before, ctx.eps
    )
    return (*found, None, None, None)


_convolution.register_autograd(_gradients, setup_context=_keep)


def _shape(x: Tensor, heads: int, before: int) -> tuple[int, int, int, int]:
    B, length, channels = x.shape
    return B, length - before, heads, channels // (3 * heads)


def _sizes(weight: Tensor, D: int) -> dict[str, int]:
    lanes = triton.next_power_of_2(D)
    return {"D": D, "DP": lanes, "ROWS": max(16, TILE // lanes), "WIDTH": weight.shape[0]}


def _rows_together(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()
