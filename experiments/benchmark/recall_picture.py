"""The picture of recall, or of permutations: the share of right answers by length, a line for each row."""

from __future__ import annotations

from pathlib import Path

import matplotlib

from benchmark.recall_tables import Row, grids, means
from titans_ts.drawing import COLOURS

DASHES = ("-", "--", ":")


def draw(rows: list[Row], task: str, path: Path) -> Path:
    """Write the picture of what a CSV holds; a line is the mean over seeds, its band from the least to the greatest."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    panels = grids(rows, task)
    names = list(dict.fromkeys(row["row"] for row in rows))
    size = 4.2 * len(panels) + 1.6, 3.6
    figure, axes = plt.subplots(1, len(panels), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for ax, panel in zip(axes.flat, panels, strict=True):
        for i, name in enumerate(names):
            found = means(panel.rows, name, panel.across)
            look = {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i // len(COLOURS) % len(DASHES)]}
            ax.plot(list(found), [sum(seeds) / len(seeds) for seeds in found.values()], label=name, marker=".", **look)
            ax.fill_between(
                list(found),
                [min(seeds) for seeds in found.values()],
                [max(seeds) for seeds in found.values()],
                color=look["color"],
                alpha=0.12,
            )
        ax.set_xscale("log", base=2)
        ticks = sorted({int(row[panel.across]) for row in panel.rows})
        ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.minorticks_off()
        ax.set_xlabel(panel.across)
        ax.set_title(panel.title, loc="left", fontsize=10)
        ax.set_ylim(-0.03, 1.03)
        ax.grid(color="0.9")
        ax.spines[["top", "right"]].set_visible(False)
    axes.flat[0].set_ylabel("share of right answers")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=92, pil_kwargs={"optimize": True})
    plt.close(figure)
    return path
