"""The table of what an outlier does."""

from __future__ import annotations

import pytest

from benchmark import outliers


def test_a_line_has_the_errors_with_each_outlier(capsys: pytest.CaptureFixture[str]) -> None:
    outliers.main(["--series", "2"])
    _, _, *lines = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row[:2] for row in cells] == [["2", "0"], ["2", "100"], ["2", "1000"], ["2", "10000"]]
    clean = cells[0]
    for row in cells[1:]:
        assert float(row[2]) < float(clean[2]) + 0.3
        assert float(row[3]) < float(clean[3]) + 0.3
        assert float(row[4]) == pytest.approx(10, rel=0.2)
