"""What else the start could do, on a small set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ideas
import numpy as np
import pytest
import seasons
import torch
from long_term import Benchmark, Table, Variant
from small_benchmark import NOTHING, ROWS, TOML, data

from titans_ts import start

TEST = slice(ROWS, None)


def lines(
    group: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    table: Path,
    changed: slice = NOTHING,
) -> list[list[str]]:
    """The cells of what is printed."""
    monkeypatch.setattr(ideas, "load_dataset", lambda name, root: data(changed))
    ideas.main([group, str(table), "--horizons", "6"])
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(TOML)
    return path


@pytest.mark.parametrize("group", ideas.GROUPS)
def test_a_line_has_the_error_as_it_is_and_a_ratio_for_each_idea(group: str, table: Path, monkeypatch, capsys) -> None:
    before = dict(vars(start))
    header, rule, line = lines(group, monkeypatch, capsys, table)
    names = [idea.name for idea in ideas.GROUPS[group]]
    assert header == ["", "as it is", *names, "chosen"]
    assert len(rule) == len(line) == len(header)
    assert line[0] == "ETTh1, 96 to 6"
    assert all(0.9 < float(ratio) < 1.2 for ratio in line[2:])
    assert vars(start) == before  # as it was
    assert lines(group, monkeypatch, capsys, table, TEST)[2] == line


def test_as_it_is_is_what_the_seasons_print(table: Path, monkeypatch, capsys) -> None:
    _, _, line = lines("profile", monkeypatch, capsys, table)
    variants = table.with_name("variants.toml")
    variants.write_text("""["own path, level"]\nmodel = { linear_across = false, scale_windows = false }\n""")
    monkeypatch.setattr(seasons, "load_dataset", lambda name, root: data(NOTHING))
    seasons.main([str(table), "--horizons", "6", "--forward", "--variants", str(variants)])
    mean = capsys.readouterr().out.splitlines()[-2]
    assert mean.split("start ")[1].startswith(f"{float(line[1]):.4f} ")


def test_ratios_are_geometric_means_and_the_last_is_of_what_the_rows_that_choose_want() -> None:
    as_it_is = [(3.0, 1.0), (1.0, 1.0)]  # chosen by, judged by, in two folds
    other = [(2.0, 2.0), (2.0, 0.125)]
    assert ideas.ratios(np.stack([as_it_is, other], axis=1)) == pytest.approx([0.5, 2**0.5])


def found(table: Path, changed: dict[str, Any]) -> torch.Tensor:
    """Of one idea, in each fold, the errors of what chooses and what judges."""
    benchmark = Benchmark(data(), torch.device("cpu"))
    model, _ = Table.read(table).configs(6, 96, 2, Variant("", {**ideas.WITHOUT_BRANCH, "linear_across": False}, {}), 0)
    return torch.from_numpy(ideas.judged(benchmark, model, [ideas.Idea("", changed)]))


@pytest.mark.parametrize("exponent", [0.5, 1.0])
def test_a_prior_by_lag_is_what_the_start_does_by_a_factor_on_its_inputs(exponent: float, table: Path) -> None:
    power = ideas.power(exponent)
    expected = found(table, {"LAG_DECAY": exponent, "PARTS": 1})
    torch.testing.assert_close(found(table, ideas.prior(power, power)), expected, rtol=1e-4, atol=0)
    assert not torch.allclose(found(table, ideas.prior(None, power)), expected, rtol=1e-4)


def test_correlations_of_next_to_no_reach_are_none(table: Path) -> None:
    alone, correlated = (ideas.decaying(48, reach) for reach in (0.0, 1e-3))
    torch.testing.assert_close(alone(8), correlated(8))
    assert alone(8)[0, 0] == pytest.approx(torch.e ** (-7 / 48))
    assert ideas.decaying(48, 12)(8)[0, 1] > alone(8)[0, 1] == 0
