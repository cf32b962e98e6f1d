"""What the TOMLs of the benchmark say, the committed ones among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmark.table import Table, Variant

FOLDER = Path(__file__).parents[3] / "experiments" / "benchmark"
MEMORY = Variant.of_mixer("memory")


@pytest.mark.parametrize(
    ("table", "variants"),
    [
        ("network_etth1", "ablation"),
        ("network_etth2", "ablation"),
        ("plain_etth1", "ablation_plain"),
        ("plain_etth2", "ablation_plain"),
        ("plain_etth1", "settings_plain"),
    ],
)
def test_the_committed_ablations_change_what_every_variant_names(table: str, variants: str) -> None:
    settings = Table.read(FOLDER / f"{table}.toml")
    base, _ = settings.configs(96, 96, 7, MEMORY, 0)
    for variant in Variant.read(FOLDER / f"{variants}.toml"):
        config, _ = settings.configs(96, 96, 7, variant, 0)
        assert variant.model
        assert not variant.train
        assert all(getattr(base, name) != value == getattr(config, name) for name, value in variant.model.items())


def test_a_horizon_can_refine_the_training(table: Path) -> None:
    read = Table.read(table)

    rates = [read.configs(horizon, 96, 2, MEMORY, 0)[1].learning_rate for horizon in (6, 12)]

    assert rates == [1e-3, 2e-3]


def test_a_lookback_can_refine_the_training_and_a_horizon_refines_that(table: Path) -> None:
    wrong = table.read_text()
    table.write_text(
        wrong + "[lookback.512.train]\nlearning_rate = 5e-3\nloss = 'mae'\n[lookback.512.model]\nd_model = 16\n"
    )
    read = Table.read(table)
    found = {(lookback, h): read.configs(h, lookback, 2, MEMORY, 0) for lookback in (96, 512) for h in (6, 12)}
    assert {key: train.learning_rate for key, (_, train) in found.items()} == {
        (96, 6): 1e-3,
        (96, 12): 2e-3,
        (512, 6): 5e-3,
        (512, 12): 2e-3,
    }
    assert [(train.loss, model.d_model) for model, train in found.values()] == [("mse", 8)] * 2 + [("mae", 16)] * 2
    table.write_text(wrong + "[lookback.512.train]\nlearning_rat = 5e-3\n")
    with pytest.raises(ValueError, match=r"\[lookback.512.train\]: unknown key 'learning_rat'"):
        Table.read(table)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("d_model", "d_modle", r"small.toml \[model\]: unknown key 'd_modle'; did you mean 'd_model'\?"),
        ("max_epochs", "epochs", r"\[train\]: unknown key 'epochs'; did you mean 'max_epochs'\?"),
        ("seeds", "sedes", r"small.toml: unknown key 'sedes'; did you mean 'seeds'\?"),
        ("learning_rate", "lookback", r"\[horizon.12.train\]: unknown key 'lookback'"),
        ('dataset = "ETTh1"', "", r"`dataset` is missing"),
    ],
)
def test_an_unknown_or_missing_key_is_named(table: Path, old: str, new: str, words: str) -> None:
    table.write_text(table.read_text().replace(old, new))
    with pytest.raises(ValueError, match=words):
        Table.read(table)


@pytest.mark.parametrize("name", ["etth1", "etth2", "ettm1", "ettm2", "weather"])
def test_the_committed_tables_are_valid(name: str) -> None:
    read = Table.read(FOLDER / f"{name}.toml")
    assert read.horizons == (96, 192, 336, 720)
    assert read.model == read.train == read.lookback == read.horizon == {}, "the estimator as it comes"


@pytest.mark.parametrize("name", ["electricity", "traffic", "network_etth1", "network_etth2"])
def test_the_committed_networks_are_valid(name: str) -> None:
    read = Table.read(FOLDER / f"{name}.toml")
    for horizon in read.horizons:
        config, _ = read.configs(horizon, 96, 7, MEMORY, 0)
        assert (config.horizon, config.lookback) == (horizon, 96)


def test_variants_are_read_with_what_they_change(table: Path, tmp_path: Path) -> None:
    path = tmp_path / "variants.toml"
    path.write_text('["no EinFFT".model]\nfeature_mixer = "none"\n[slow.train]\nlearning_rate = 1e-6\n')
    first, second = Variant.read(path)
    assert first == Variant("no EinFFT", {"feature_mixer": "none"}, {})
    config, train = Table.read(table).configs(12, 96, 2, second, 3)
    assert (config.feature_mixer, train.learning_rate) == ("einfft", 1e-6), "over what the horizon says"
    assert train.random_state == 3
    path.write_text("[slow.train]\nlearning_rat = 1e-6\n")
    with pytest.raises(ValueError, match=r"\[slow.train\]: unknown key 'learning_rat'"):
        Variant.read(path)
