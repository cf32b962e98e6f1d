"""The pictures of recall and of permutations."""

from __future__ import annotations

from pathlib import Path

from benchmark.recall_picture import draw


def test_pictures_are_written_where_rows_are_missing(tmp_path: Path) -> None:
    common = {"row": "lmm", "accuracy": "0.5"}
    recall = [
        common | {"pairs": "16", "length": "512"},
        common | {"pairs": "16", "length": "2048"},
        common | {"pairs": "4", "length": "512", "row": "mamba"},
    ]
    groups = [common | {"group": group, "length": "32"} for group in ("3", "4", "5")]
    for task, rows in (("recall", recall), ("permutations", groups)):
        path = draw(rows, task, tmp_path / "new" / f"{task}.png")
        assert path.stat().st_size > 5_000
