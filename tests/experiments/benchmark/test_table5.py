"""What each part of the network is worth on forecasting, on a small data set."""

from __future__ import annotations

from pathlib import Path

import pytest

import record
from benchmark import table5
from benchmark.table5 import Plan, main, recalled, table
from titans_ts.datasets import Dataset
from titans_ts.model import ModelConfig

PLAN = """
datasets = ["ETTh1"]
lookback = 24
horizon = 6
seeds = [0, 1]
most_test_windows = 50
[networks.alone.model]
linear_path = false
d_model = 8
n_layers = 1
n_heads = 2
[networks.alone.train]
max_epochs = 1
most_windows = 64
[networks.beside.model]
d_model = 8
n_layers = 1
n_heads = 2
[networks.beside.train]
max_epochs = 0
[rows."as it comes"]
[rows."no mixer".model]
mixer = "none"
[rows."not trained".train]
max_epochs = 0
[recall]
pairs = 16
lengths = [64, 2048]
[recall.rows]
"as it comes" = "lmm"
"no mixer" = "none"
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def test_rows_are_measured_once_and_differ_by_what_the_plan_says(
    small: Dataset, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(table5, "load_dataset", lambda name, root: small)
    out = tmp_path / "out.csv"
    given = ["--plan", str(plan), "--out", str(out), "--recall", str(tmp_path / "none.csv")]
    main([*given, "--networks", "alone", "--seeds", "1", "--rows", "no mixer"])
    main(given)
    first = out.read_text()
    main(given)
    assert out.read_text() == first
    rows = record.read(out)
    names = [(row["network"], row["model"], row["seed"]) for row in rows]
    assert len(names) == len(set(names)) == 12
    assert names[0] == ("alone", "no mixer", "1")
    assert len({row["config"] for row in rows}) == 10  # "beside" is not trained anyway
    mse = {name: float(row["mse"]) for name, row in zip(names, rows, strict=True)}
    assert mse["alone", "no mixer", "0"] != mse["alone", "as it comes", "0"]
    assert mse["beside", "not trained", "0"] < 0.5 * mse["alone", "not trained", "0"]
    assert {row["epoch"] for row in rows if row["model"] == "not trained"} == {"0"}
    assert "| not trained | " in capsys.readouterr().out


def test_the_table_has_differences_from_the_first_row_by_seed_and_accuracies(plan: Path, tmp_path: Path) -> None:
    def row(network: str, model: str, seed: int, mse: float) -> dict[str, str]:
        return {"network": network, "dataset": "a", "model": model, "seed": str(seed), "mse": str(mse)}

    found = [row("alone", "no mixer", seed, 0.4 + seed / 10) for seed in (0, 1)]
    found += [row("alone", "as it comes", 1, 0.52), row("beside", "no mixer", 0, 0.3)]
    path, read = tmp_path / "recall.csv", Plan.read(plan)
    pairs = {"lmm,0,16,2048": 0.9, "lmm,1,16,2048": 1, "lmm,1,8,2048": 0, "none,0,16,64": 0.25, "none,0,16,512": 0}
    path.write_text("row,seed,pairs,length,accuracy\n" + "\n".join(f"{row},{a}" for row, a in pairs.items()))
    assert list(table(read, found, recalled(read, path))) == [
        "| | a, alone | a, beside | recall of 16 pairs in 64 tokens | recall of 16 pairs in 2,048 tokens |",
        "|---|---|---|---|---|",
        "| as it comes | .5200 | – | – | .9500 ± .0500 |",
        "| no mixer | .4500 ± .0500 (-.0200) | .3000 | .2500 | – |",
        "| not trained | – | – | – | – |",
    ]
    assert recalled(read, tmp_path / "none.csv") == {}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("d_model = 8", "d_modle = 8", r"\[networks.alone.model\]: unknown key 'd_modle'; did you mean 'd_model'"),
        ("horizon = 6\n", "", "`horizon` is missing"),
        ("seeds", "seed", "unknown key 'seed'; did you mean 'seeds'"),
        ('"no mixer" = ', '"no mixers" = ', r"\[recall.rows\]: unknown key 'no mixers'; did you mean 'no mixer'"),
        ('"no mixer".model', '"no mixer".modle', r"\[rows.no mixer\]: unknown key 'modle'"),
    ],
)
def test_a_mistake_in_the_plan_is_an_error(plan: Path, before: str, after: str, message: str) -> None:
    plan.write_text(PLAN.replace(before, after))
    with pytest.raises(ValueError, match=message):
        Plan.read(plan)


def test_every_row_of_the_committed_plan_changes_what_it_names() -> None:
    plan = Plan.read(table5.HERE / "table5.toml")
    for network in plan.networks.values():
        size = dict(lookback=plan.lookback, horizon=plan.horizon, n_series=7)
        base = ModelConfig(**size, **network["model"])
        assert base.n_tokens + base.n_persistent > 4 * base.chunk_size
        assert base.feature_mixer == "mlp"
        for row in plan.rows.values():
            changed = ModelConfig(**size, **network["model"] | row.get("model", {}))
            assert all(getattr(base, name) != getattr(changed, name) for name in row.get("model", {}))
    assert [name for name, row in plan.rows.items() if not row] == ["lmm, as it comes"]


def test_the_results_show_what_the_committed_csv_holds(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--print"])
    printed = capsys.readouterr().out.strip()
    assert printed
    assert f"\n{printed}\n" in (record.RESULTS.parent / "RESULTS.md").read_text()
