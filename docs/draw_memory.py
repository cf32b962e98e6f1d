"""The figure of the page on the memory: how a token is written and read, and how long a pair written once lasts.

python docs/draw_memory.py            writes docs/figures/memory.svg
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from titans_ts.kernels import memory_scan

PICTURE = Path(__file__).parent / "figures" / "memory.svg"
ALPHAS = (0.0, 0.001, 0.01, 0.1)
COLOURS = ("#0072B2", "#009E73", "#E69F00", "#D55E00")
LENGTH, BATCH, WIDTH, CHUNK = 1024, 32, 32, 16
WRITE = 0.5  # theta of the pair: in an empty linear memory its error is zero after one such step
OTHERS = 1 / 32  # theta of all later tokens

# Name, formula, left, bottom of each box; all are of one size.
BOXES = {
    "token": ("token $x_t$", "", 0.2, 4.15),
    "keys": ("key, value, query", "$k_t,\\ v_t,\\ q_t$", 0.2, 2.3),
    "surprise": ("surprise", "$u_t = \\nabla |M_{t-1}(k_t) - v_t|^2$", 4.2, 4.15),
    "momentum": ("momentum", "$S_t = \\eta_t S_{t-1} - \\theta_t u_t$", 4.2, 2.3),
    "weights": ("weights of the memory", "$W_t = (1 - \\alpha_t) W_{t-1} + S_t$", 4.2, 0.45),
    "reading": ("reading", "$y_t = M_t(q_t)$", 0.2, 0.45),
}
BOX = 3.2, 1.15
ARROWS = (
    *((("token", "bottom"), ("keys", "top")), (("keys", "right"), ("surprise", "left"))),
    *((("surprise", "bottom"), ("momentum", "top")), (("momentum", "bottom"), ("weights", "top"))),
    *((("weights", "left"), ("reading", "right")), (("keys", "bottom"), ("reading", "top"))),
)


def main(argv: list[str] | None = None) -> None:
    """Draw both halves."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--picture", type=Path, default=PICTURE, help="what is drawn (default docs/figures/memory.svg)")
    args = parser.parse_args(argv)
    mpl.use("Agg")
    # Letters as paths, so that every browser draws the same, and two runs write the same file.
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "memory", "font.size": 9, "mathtext.fontset": "cm"}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.7), width_ratios=(1.15, 1), layout="constrained")
        draw_scheme(left)
        draw_recall(right)
        args.picture.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(args.picture, metadata={"Date": None})
        plt.close(figure)


def draw_scheme(axes: Axes) -> None:
    """One token: what is computed, in which order."""
    axes.set(xlim=(0, 8.1), ylim=(0.2, 5.6))
    axes.axis("off")
    axes.set_title("one token", loc="left", fontsize=10)
    width, height = BOX
    for words, formula, x, y in BOXES.values():
        axes.add_patch(FancyBboxPatch((x, y), width, height, "round,pad=0.05", fc="#EEF3FA", ec="#35507A", lw=1))
        middle = y + height / 2
        axes.text(x + width / 2, middle + 0.24 * bool(formula), words, ha="center", va="center", color="0.15")
        axes.text(x + width / 2, middle - 0.27, formula, ha="center", va="center", fontsize=10.5)
    for (origin, leaves), (target, enters) in ARROWS:
        arrow = dict(arrowstyle="-|>", color="#35507A", lw=1.2, shrinkA=5, shrinkB=5)
        axes.annotate("", _at(target, enters), _at(origin, leaves), arrowprops=arrow)


def draw_recall(axes: Axes) -> None:
    """What is left of a pair, by the number of tokens since and by alpha."""
    for alpha, colour in zip(ALPHAS, COLOURS, strict=True):
        left = recalled(alpha)
        axes.plot(range(len(left)), left, color=colour, lw=1.5, label=f"α = {alpha:g}")
    axes.axhline(0, color="0.6", lw=0.8)
    axes.set_xscale("log")
    axes.set(xlim=(1, LENGTH), ylim=(-0.1, 1.05), xlabel="other tokens since", ylabel="share of the value read")
    axes.set_title(f"a pair written once, heads of {WIDTH}", loc="left", fontsize=10)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def recalled(alpha: float) -> list[float]:
    """The share of the first value that its key reads after 0, 1, ... other tokens, a mean over sequences."""
    generator = torch.Generator().manual_seed(0)
    k, v = torch.randn(2, BATCH, LENGTH + 1, 1, WIDTH, generator=generator)
    k, v = (x / x.norm(dim=-1, keepdim=True) for x in (k, v))
    forget, carry, theta = (torch.full(k.shape[:3], value) for value in (alpha, 0.0, OTHERS))
    forget[:, 0], theta[:, 0] = 0.0, WRITE
    y = memory_scan(
        *(k[:, :1].expand_as(k), k, v, forget, carry, theta, (torch.zeros(1, WIDTH, WIDTH),)),
        chunk_size=CHUNK,
        backend="chunkwise",
    )
    share: list[float] = (y * v[:, :1]).sum(-1).mean((0, 2)).tolist()
    return share


def _at(box: str, side: str) -> tuple[float, float]:
    _, _, x, y = BOXES[box]
    (width, height), gap = BOX, 0.05
    middle = x + width / 2, y + height / 2
    moved = {"left": (x - gap, middle[1]), "right": (x + width + gap, middle[1])}
    return (moved | {"top": (middle[0], y + height + gap), "bottom": (middle[0], y - gap)})[side]


if __name__ == "__main__":
    main()
