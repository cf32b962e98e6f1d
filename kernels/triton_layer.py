"""One layer of a memory over one segment, and its gradients; equations and letters as in `chunkwise`.

Every tile has features for rows and tokens for columns, and a layer's matrix is (out, in): the rows of a tensor core
are then features, of which there are more than tokens, and the state is the first operand, which comes from registers.
So X stands for the X^T of `chunkwise`, W for W^T, and W X for X W. A name with a T is a transposed tile: (tokens,
features).

The gradients compute a (C, C) product in both directions instead of transposing it: Triton miscompiles the transpose of
a product on Hopper.
"""

import triton
import triton.language as tl

from .triton_common import add_dot, dot, loaded_if, tile, turned


@triton.jit
def held_weights(V, init, init_at, chunk_start, start_at, c, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The weights held when segment c's chunk began: V + init, or `chunk_start` where the call begins in mid-chunk."""
    held = V.to(tl.float32)
    if init is not None:
        held += tl.load(tile(init + init_at, ROWS, COLUMNS))
    if chunk_start is not None:
        here = c == 0
        held = loaded_if(here, chunk_start + start_at, held, ROWS, COLUMNS)
    return held


@triton.jit
def update(v, s, xT, e, b_n, a_n, e_n, A_n, D_n, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """Weights and momentum after a segment with keys xT (C, in) and errors e (out, C)."""
    v = add_dot(b_n * v + a_n * s, -A_n[None, :] * e, xT, DOT, PRECISION)
    s = add_dot(e_n * s, -D_n[None, :] * e, xT, DOT, PRECISION)
    return v, s


@triton.jit
def readout(q, xT, e, v, s, b, a, AT, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """Outputs (out, C) for the queries q (in, C) of a segment with keys xT (C, in), without the product of `init`."""
    q = q.to(DOT)
    y = b[None, :] * dot(v, q, DOT, PRECISION) + a[None, :] * dot(s, q, DOT, PRECISION)
    return add_dot(y, -e, AT * dot(xT, q, DOT, PRECISION), DOT, PRECISION)


@triton.jit
def readout_gradients(q, x, e, dy, v, s, init, init_at, b, a, A_at, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """The gradients by q (in, C), x, e, b, a and A^T of `readout`, from dy (out, C); dq has the product of `init` too.

    q, x, e, dy, v and s are in DOT. A is read from `A_at` where it is needed, to save registers.
    """
    C: tl.constexpr = q.shape[1]
    by_v, by_s = dot(tl.trans(v), dy, DOT, PRECISION), dot(tl.trans(s), dy, DOT, PRECISION)
    db, da = tl.sum(q.to(tl.float32) * by_v, axis=0), tl.sum(q.to(tl.float32) * by_s, axis=0)
    dq = b[None, :] * by_v + a[None, :] * by_s
    if init is not None:
        I = tl.load(tile(init + init_at, v.shape[0], v.shape[1])).to(DOT)
        dq = add_dot(dq, tl.trans(I), dy, DOT, PRECISION)
    dRT = -dot(tl.trans(e), dy, DOT, PRECISION)
    dq = add_dot(dq, x, dRT * tl.load(turned(A_at, C, C)), DOT, PRECISION)
    dAT = dRT * dot(tl.trans(x), q, DOT, PRECISION)
    A = tl.load(tile(A_at, C, C))
    de = -dot(dy, A * dot(tl.trans(q), x, DOT, PRECISION), DOT, PRECISION)
    dx = -dot(q, A * dot(tl.trans(dy), e, DOT, PRECISION), DOT, PRECISION)
    return dq, dx, de, db, da, dAT


@triton.jit
def error_gradient(de, x, dv, ds, A_n, D_n, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """de and the gradient by e of `update`, from the gradients dv and ds by its weights and momentum."""
    de -= A_n[None, :] * dot(dv, x, DOT, PRECISION)
    return de - D_n[None, :] * dot(ds, x, DOT, PRECISION)


@triton.jit
def update_gradients(x, e, v, s, dv, ds, A_n, D_n, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """The gradients by x (in, C), b_n, a_n, e_n, A_n and D_n of `update`, from dv and ds after the segment."""
    by_v, by_s = dot(tl.trans(dv), e, DOT, PRECISION), dot(tl.trans(ds), e, DOT, PRECISION)
    dx = -(A_n[None, :] * by_v + D_n[None, :] * by_s)
    dA_n, dD_n = -tl.sum(x.to(tl.float32) * by_v, axis=0), -tl.sum(x.to(tl.float32) * by_s, axis=0)
    v, s, dv, ds = v.to(tl.float32), s.to(tl.float32), dv.to(tl.float32), ds.to(tl.float32)
    return dx, tl.sum(dv * v), tl.sum(dv * s), tl.sum(ds * s), dA_n, dD_n
