"""Which rows of other packages' networks are held, by the columns of the CSV."""

from __future__ import annotations

from pathlib import Path

from peers import held


def test_a_row_is_held_for_the_most_steps_that_it_was_given_not_for_those_it_took(tmp_path: Path) -> None:
    path = tmp_path / "etth1.csv"
    assert held(path) == set()
    path.write_text(
        "model,column,lookback,horizon,seed,config\n"
        "NHITS,i,96,96,0,1000 steps\n"
        "PatchTST,i,96,192,1,700 of 5000 steps\n"
        "titans,iii,512,96,0,69e76e0c0e1a\n"
    )
    assert held(path) == {("NHITS", 96, 0, "1000 steps"), ("PatchTST", 192, 1, "5000 steps")}
