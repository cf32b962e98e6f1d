"""A saved forecaster comes back as it was, from every kind of table; what is saved survives what goes wrong."""

import datetime
import errno
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from titans_ts import TitansForecaster, saving

from .forks import in_a_fork

ROWS, LATER = 60, 6
START = pd.Timestamp("2024-01-01")

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a process that it forks")


def tiny(**parameters) -> TitansForecaster:
    given = dict(horizon=3, lookback=12, d_model=8, n_heads=2, n_layers=1, max_epochs=0, random_state=0, verbose=0)
    return TitansForecaster(**{**given, **parameters})


def noise(first: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Rows [first, first + rows) of two hourly series."""
    values = np.random.default_rng(0).normal([1e3, 0], [1, 5], size=(ROWS + LATER, 2))
    hours = pd.date_range(START, periods=ROWS + LATER, freq="h", name="when")
    return pd.DataFrame(values, index=hours, columns=["a", "b"])[first : first + rows]


def over(index: pd.Index):
    """The layout of a wide table over `index`, which has ROWS + LATER labels."""

    def layout(wide: pd.DataFrame) -> pd.DataFrame:
        first = (wide.index[0] - START) // pd.Timedelta("1h")
        return wide.set_axis(index[first : first + len(wide)], axis=0)

    return layout


def named(*columns, **how):
    return lambda wide: wide.set_axis(pd.Index(columns, **how), axis=1)


def long(*ids, dtype=None):
    """The layout of a long table with these ids."""

    def layout(wide: pd.DataFrame) -> pd.DataFrame:
        names = pd.Series(ids, dtype=dtype).repeat(len(wide)).reset_index(drop=True)
        return pd.DataFrame({"unique_id": names, "ds": np.tile(wide.index, 2), "y": wide.to_numpy().T.ravel()})

    return layout


def dates(freq: str, **how) -> pd.DatetimeIndex:
    return pd.date_range(START, periods=ROWS + LATER, freq=freq, **how)


def without_freq(wide: pd.DataFrame) -> pd.DataFrame:
    return wide.set_axis(wide.index._with_freq(None), axis=0)


INTERVALS = pd.interval_range(0, 2)

KINDS = {
    "long, text ids": long("a", "b"),
    "long, object ids": long("a", "b", dtype=object),
    "long, nullable text ids": long("a", "b", dtype="string"),
    "long, integer ids": long(100100038, 100100037),
    "long, nullable integer ids": long(7, 2, dtype="Int64"),
    "long, float ids": long(0.1, 2.5),
    "long, boolean ids": long(True, False),
    "long, categories": long("q", "p", dtype=pd.CategoricalDtype(["p", "q", "r"])),
    "long, ordered categories": long(3, 1, dtype=pd.CategoricalDtype([1, 3], ordered=True)),
    "long, dates as ids": long(*pd.date_range("2020-02-29", periods=2, tz="Asia/Kolkata")),
    "long, periods as ids": long(*pd.period_range("2020-02", periods=2, freq="M")),
    "long, tuples as ids": long(("a", 1), ("a", 2)),
    "one series": lambda wide: pd.DataFrame({"ds": wide.index, "y": wide["b"].to_numpy()}),
    "wide": lambda wide: wide,
    "wide, no freq": without_freq,
    "wide, zoned": over(dates("h", tz="Asia/Kolkata", unit="ns")),
    "wide, fixed offset": over(dates("D", tz=datetime.timezone(datetime.timedelta(hours=5, minutes=45)))),
    "wide, months": over(dates("MS")),
    "wide, seconds": over(dates("W-TUE", unit="s")),
    "wide, periods": over(dates("QS").to_period("Q-DEC")),
    "wide, range": over(pd.RangeIndex(4, 4 + 5 * (ROWS + LATER), 5, name="n")),
    "wide, integers": over(pd.Index(np.arange(ROWS + LATER) * 2 + 1)),
    "wide, nullable integers": over(pd.Index(np.arange(ROWS + LATER), dtype="Int64")),
    "wide, date column": lambda wide: wide.reset_index(),
    "wide, text as dates": lambda wide: wide.set_axis(wide.index.strftime("%Y-%m-%d %H:%M")),
    "wide, date objects": lambda wide: over(pd.Index(dates("D").date))(wide),
    "wide, numbered columns": named(7, 2, name="site"),
    "wide, tuples as columns": named(("a", 1), ("a", None), dtype=object, tupleize_cols=False),
    "wide, dates as columns": named(*pd.date_range("2020-02-29", periods=2), name=("when", 1), tupleize_cols=False),
    "wide, categories as columns": named("x", "y", dtype="category"),
    "wide, odd columns": named(None, START, dtype=object),
    "wide, NaN as a column": named(0.5, np.nan),
    "Series": lambda wide: wide["a"],
    "Series, no name": lambda wide: wide["a"].rename(None),
    "Series, a tuple as name": lambda wide: wide["a"].rename(("a", 1.5)),
    "Series, a date as name": lambda wide: wide["a"].rename(pd.Timestamp("2024-01-01", tz="UTC")),
    "array": lambda wide: wide.to_numpy(),
}


def assert_equal(found, expected):
    """The same to the bit, with the same labels."""
    assert type(found) is type(expected)
    if isinstance(found, np.ndarray):
        assert np.array_equal(found, expected)
    elif isinstance(found, pd.Series):
        pd.testing.assert_series_equal(found, expected, check_exact=True, check_index_type="exact")
    else:
        how = dict(check_index_type="exact", check_column_type="exact")
        pd.testing.assert_frame_equal(found, expected, check_exact=True, **how)


def assert_restored(loaded: TitansForecaster, saved: TitansForecaster):
    assert vars(loaded).keys() == vars(saved).keys()
    assert loaded.get_params() == saved.get_params()
    assert repr(loaded.history_) == repr(saved.history_)  # whose NaN are not equal to themselves
    assert_equal(loaded.predict(), saved.predict())
    assert_equal(loaded.predict(8), saved.predict(8))


def saved_files(folder: Path) -> list[str]:
    return sorted(re.sub("[0-9a-f]{16}", "*", path.name) for path in folder.iterdir())


WHOLE = ["forecaster-*.json", "manifest.json", "weights-*.safetensors"]


@pytest.fixture(scope="module")
def older() -> TitansForecaster:
    return tiny(max_epochs=1, val_size=0).fit(noise())


@pytest.fixture(scope="module")
def newer() -> TitansForecaster:
    return tiny(random_state=1).fit(noise(20))


@pytest.fixture
def folder(tmp_path, older) -> Path:
    """Where `older` is saved."""
    older.save(tmp_path / "model")
    return tmp_path / "model"


def which(folder: Path, **models: TitansForecaster) -> str:
    """Which of the models is saved in `folder`, whole."""
    loaded = TitansForecaster.load(folder)
    names = [name for name, model in models.items() if model.predict().equals(loaded.predict())]
    assert len(names) == 1
    assert_restored(loaded, models[names[0]])
    return names[0]


@pytest.mark.parametrize("kind", KINDS)
def test_forecasts_come_back_as_they_were(kind, tmp_path):
    layout = KINDS[kind]
    saved = tiny().fit(layout(noise()))
    saved.save(tmp_path / "model")
    loaded = TitansForecaster.load(tmp_path / "model")
    assert_restored(loaded, saved)
    recent, later = layout(noise(10, ROWS - 5)), layout(noise(ROWS, LATER))
    assert_equal(loaded.predict(df=recent), saved.predict(df=recent))
    assert loaded.score(later) == saved.score(later)
    assert loaded.n_features_in_ == saved.n_features_in_
    assert list(getattr(loaded, "feature_names_in_", [])) == list(getattr(saved, "feature_names_in_", []))


@pytest.mark.parametrize(
    "parameters",
    [
        dict(max_epochs=1, val_size=0),
        dict(cycle=24, patch_len=4, stride=2, chunk_size=2, memory_depth=1),
        dict(mixer="attention", linear_path=False),
        dict(mixer="mamba", dropout=np.float32(0.25)),
        dict(linear_path="per_series"),
        dict(linear_path="across"),
        dict(linear_path=True),
        dict(mixer="none", learning_rate=np.float64(0.01), n_layers=np.int64(2), linear_path=np.True_),
    ],
)
def test_every_network_forecasts_the_same_to_the_bit(parameters, tmp_path):
    saved = tiny(**{"max_epochs": 1, **parameters}).fit(noise())
    for tensor in saved.network_.state_dict().values():  # the deep branch has its say
        if tensor.is_floating_point():
            tensor += 0.01 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(0))
    saved.save(tmp_path / "model")
    assert_restored(TitansForecaster.load(tmp_path / "model"), saved)


def test_series_of_unequal_lengths_come_back(tmp_path):
    table = long("a", "b")(noise())[: ROWS + 5]
    saved = tiny().fit(table)
    saved.save(tmp_path / "model")
    assert_restored(TitansForecaster.load(tmp_path / "model"), saved)


def test_an_index_with_a_freq_that_has_no_alias_comes_back(tmp_path):
    months = dates("MS")
    months.freq = pd.DateOffset(months=1)
    saved = tiny(freq="MS").fit(over(months)(noise()))
    saved.save(tmp_path / "model")
    assert TitansForecaster.load(tmp_path / "model").predict().index.freq == pd.offsets.MonthBegin()
    assert_restored(TitansForecaster.load(tmp_path / "model"), saved)


def test_columns_of_a_long_table_may_be_no_text(tmp_path):
    saved = tiny(id_col=0, time_col=("t", 1), target_col=2).fit(
        long("a", "b")(noise()).set_axis([0, ("t", 1), 2], axis=1)
    )
    saved.save(tmp_path / "model")
    assert_restored(TitansForecaster.load(tmp_path / "model"), saved)


def test_parameters_become_what_json_can_hold(tmp_path):
    given = dict(freq=pd.offsets.Hour(1), random_state=np.random.RandomState(0), device=torch.device("cpu"))
    saved = tiny(patience=np.int32(3), val_size=np.float64(0.1), **given).fit(noise())
    saved.save(tmp_path / "model")
    loaded = TitansForecaster.load(tmp_path / "model").get_params()
    assert {name: loaded[name] for name in given} == dict(freq="h", random_state=None, device="cpu")
    assert (type(loaded["patience"]), loaded["patience"]) == (int, 3)
    assert (type(loaded["val_size"]), loaded["val_size"]) == (float, 0.1)


def test_a_loaded_forecaster_can_be_cloned_and_fitted_again(folder, older):
    loaded = TitansForecaster.load(folder)
    assert clone(loaded).get_params() == older.get_params()
    assert_equal(loaded.fit(noise()).predict(), older.predict())


def test_a_loaded_forecaster_can_be_saved_again(folder, older):
    TitansForecaster.load(folder).save(folder)
    assert which(folder, older=older) == "older"


def test_a_subclass_loads_itself(folder):
    class Mine(TitansForecaster):
        pass

    assert type(Mine.load(folder)) is Mine


def test_joblib_keeps_a_forecaster_too(older, tmp_path):
    joblib.dump(older, tmp_path / "model.joblib")
    assert_restored(joblib.load(tmp_path / "model.joblib"), older)
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    mapped.save(tmp_path / "model")  # its arrays cannot be written to
    assert which(tmp_path / "model", older=older) == "older"


def test_loading_leaves_the_random_numbers_alone(folder):
    before = torch.get_rng_state()
    TitansForecaster.load(folder)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_device_given_replaces_the_one_saved(folder):
    loaded = TitansForecaster.load(folder, device="cpu")
    assert loaded.device == "cpu"
    with pytest.raises(ValueError, match=r"`device` must be a device of this machine .* got 'abacus'"):
        TitansForecaster.load(folder, device="abacus")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_model_moves_between_cpu_and_gpu(folder, older, tmp_path):
    loaded = TitansForecaster.load(folder, device="cuda")
    assert loaded.network_.device.type == "cuda"
    pd.testing.assert_frame_equal(loaded.predict(), older.predict(), rtol=1e-4)  # TF32 may serve products
    loaded.save(tmp_path / "moved")
    assert_equal(TitansForecaster.load(tmp_path / "moved", device="cpu").predict(), older.predict())


def test_the_newer_of_two_models_is_kept(folder, older, newer):
    newer.save(folder)
    assert which(folder, older=older, newer=newer) == "newer"
    assert saved_files(folder) == WHOLE


def test_files_of_others_in_the_folder_stay(folder, newer):
    (folder / "README.txt").write_text("Notes.")
    newer.save(folder)
    assert (folder / "README.txt").read_text() == "Notes."
    assert saved_files(folder) == sorted([*WHOLE, "README.txt"])


def test_a_link_to_a_folder_stays_a_link(folder, older, newer, tmp_path):
    (tmp_path / "current").symlink_to(folder)
    newer.save(tmp_path / "current")
    assert (tmp_path / "current").is_symlink()
    assert which(folder, older=older, newer=newer) == "newer"


def test_folders_above_are_made(older, tmp_path):
    older.save(str(tmp_path / "models" / "hourly"))
    assert which(tmp_path / "models" / "hourly", older=older) == "older"


def test_an_unfitted_forecaster_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        tiny().save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


KEPT = "must be text, numbers, datetimes, periods or categories of these, got"


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (long(*INTERVALS), rf"{KEPT} Interval\(0, 1, closed='right'\) of type Interval"),
        (long(*INTERVALS, dtype="category"), rf"{KEPT} Interval\(0, 1, closed='right'\) of type Interval"),
        (named(datetime.date(2024, 1, 1), "b"), rf"{KEPT} datetime\.date\(2024, 1, 1\) of type date"),
        (lambda wide: wide["a"].rename(b"a"), rf"{KEPT} b'a' of type bytes"),
    ],
)
def test_names_that_cannot_be_kept_are_refused_before_anything_is_fitted(layout, message):
    model = tiny()
    with pytest.raises(TypeError, match=message):
        model.fit(layout(noise()))
    assert not hasattr(model, "fitted_")


# What is no model of ours is neither read nor overwritten.


def make_file(path: Path):
    path.write_text("precious")


def make_folder(path: Path):
    path.mkdir()
    (path / "precious.txt").write_text("precious")


def make_foreign_manifest(path: Path):
    path.mkdir()
    (path / saving.MANIFEST).write_text('{"name": "an app", "version": 1}')


def make_list(path: Path):
    path.mkdir()
    (path / saving.MANIFEST).write_text("[1]")


def make_no_json(path: Path):
    path.mkdir()
    (path / saving.MANIFEST).write_bytes(b"\xff\x00")


def make_folder_as_manifest(path: Path):
    (path / saving.MANIFEST).mkdir(parents=True)


FOREIGN = {
    make_file: "must be a folder, but is a file",
    make_folder: "is missing: `save` never ended in this folder",
    make_foreign_manifest: "must have the format 'titans_ts forecaster'",
    make_list: "must have the format 'titans_ts forecaster'",
    make_no_json: "must be JSON, but was truncated or edited",
    make_folder_as_manifest: "is missing: `save` never ended in this folder",
}


def contents(path: Path) -> dict[str, bytes | None]:
    return {str(p): p.read_bytes() if p.is_file() else None for p in [path, *path.rglob("*")]}


@pytest.mark.parametrize("make", FOREIGN)
def test_what_is_not_ours_is_left_alone(make, older, tmp_path):
    path = tmp_path / "model"
    make(path)
    before = contents(path)
    with pytest.raises(FileExistsError, match=r"`path` must be a new or empty folder .* Nothing was written"):
        older.save(path)
    assert contents(path) == before
    with pytest.raises(ValueError, match=FOREIGN[make]) as caught:
        TitansForecaster.load(path)
    assert str(path) in str(caught.value)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`path` must be a folder that `save` wrote, but '.*nowhere' does not"):
        TitansForecaster.load(tmp_path / "nowhere")


def edit_manifest(folder: Path, **changes):
    path = folder / saving.MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_newer_model_is_neither_read_nor_overwritten(folder, newer):
    edit_manifest(folder, version=saving.VERSION + 1, titans_ts="9.9")
    before = contents(folder)
    with pytest.raises(
        ValueError, match=r"manifest.json' must have version 7 or older, got 8, written by titans_ts 9.9"
    ):
        TitansForecaster.load(folder)
    with pytest.raises(FileExistsError, match="Upgrade titans_ts"):
        newer.save(folder)
    assert contents(folder) == before


# What earlier versions called otherwise, by today's name.
OLD_CONFIG = {"linear_window_mean": "linear_level", "linear_cross_series": "linear_across"}
OLD_HISTORY = {"evaluations": "checks", "initialisation_is_candidate": "start_is_candidate"}
OLD_TENSORS = {
    "network.linear.per_series": "network.linear.own",
    "network.cross_series.weight": "network.across.weight",
}
OLD_PARAMETERS = {
    **dict.fromkeys(("static_cols", "past_cols", "future_cols", "checkpoint_dir")),
    **{"variant": "lmm", "context": "window", "channel_mixing": False, "warm_start": False},
}


def renamed(named: dict, old: dict[str, str]) -> dict:
    return {old.get(name, name): value for name, value in named.items()}


def make_older(folder: Path, version: int, seasonal: bool | None = None):
    """Rewrite what was saved as version 1 or 2 wrote it; `seasonal` is what that wrote, the network's own if None."""

    def change(description: dict, tensors: dict):
        assert {"evaluations", "initialisation_is_candidate"} < description["history"].keys()
        description["parameters"].update(OLD_PARAMETERS)
        del description["config"]["n_outputs"]
        description["config"] = renamed(description["config"], OLD_CONFIG)
        description["history"] = renamed(description["history"], OLD_HISTORY)
        found = bool(tensors.pop("network.cycle.seasonal", False))
        description["seasonal"] = found if seasonal is None else seasonal
        if version == 1:
            del description["seasonal"], description["layout"]["written"], description["layout"]["backend"]
        before = dict(tensors)
        tensors.clear()
        tensors.update(renamed(before, OLD_TENSORS))

    forge(folder, change)
    edit_manifest(folder, version=version)


def test_what_was_chosen_comes_back(tmp_path):
    saved = tiny().fit(noise())
    assert len(saved.summary()) > 2
    saved.save(tmp_path / "model")
    loaded = TitansForecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.summary(), saved.summary())
    assert loaded.fitted_.choices == saved.fitted_.choices


def test_a_model_from_before_choices_were_recorded_has_none(tmp_path):
    saved = tiny(cycle=24).fit(noise())
    saved.save(tmp_path / "model")

    def change(description: dict, tensors: dict):
        del description["choices"]
        tensors["network.cycle.seasonal"] = tensors["network.cycle.seasonal"] > 0

    forge(tmp_path / "model", change)
    loaded = TitansForecaster.load(tmp_path / "model")
    assert len(loaded.summary()) == 0
    assert_equal(loaded.predict(), saved.predict())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "parameters",
    [dict(max_epochs=1, val_size=0), *(dict(linear_path=path, cycle=24) for path in (True, "per_series", "across"))],
    ids=lambda parameters: str(parameters.get("linear_path", "trained")),
)
def test_a_model_of_an_earlier_version_forecasts_as_it_did(parameters, version, tmp_path):
    saved = tiny(**parameters).fit(noise())
    path = tmp_path / "model"
    saved.save(path)
    make_older(path, version)
    loaded = TitansForecaster.load(path)
    assert_restored(loaded, saved)
    recent = noise(10, ROWS - 5)
    for table in (recent, recent.set_axis(["x", "y"], axis=1)):  # the series fitted, and others
        assert_equal(loaded.predict(df=table), saved.predict(df=table))
    assert loaded.score(noise(ROWS, LATER)) == saved.score(noise(ROWS, LATER))
    loaded.save(path)
    assert json.loads((path / saving.MANIFEST).read_text())["version"] == saving.VERSION
    assert_restored(TitansForecaster.load(path), saved)


def test_a_model_of_version_4_had_no_long_term_memory(tmp_path):
    saved = tiny(context="window").fit(noise())
    saved.save(tmp_path / "model")

    def change(description: dict, tensors: dict):
        del description["parameters"]["context"]
        assert "long_term" not in description
        assert not [name for name in tensors if name.startswith(("long_term", "held"))]

    forge(tmp_path / "model", change)
    edit_manifest(tmp_path / "model", version=4)
    loaded = TitansForecaster.load(tmp_path / "model")
    assert loaded.fitted_.long_term is None
    assert loaded.context == "auto"
    assert_equal(loaded.predict(8), saved.predict(8))
    assert_equal(loaded.update(noise(ROWS, LATER)).predict(8), saved.update(noise(ROWS, LATER)).predict(8))


def test_a_model_of_version_5_had_no_intervals(tmp_path):
    saved = tiny().fit(noise())
    saved.save(tmp_path / "model")

    def change(description: dict, tensors: dict):
        del description["calibration"]
        for name in [name for name in tensors if name.startswith("calibration.")]:
            del tensors[name]

    forge(tmp_path / "model", change)
    edit_manifest(tmp_path / "model", version=5)
    loaded = TitansForecaster.load(tmp_path / "model")
    assert_restored(loaded, saved)
    with pytest.raises(ValueError, match=r"kept none\. Fit it again"):
        loaded.predict(level=80)
    assert_equal(loaded.update(noise(ROWS, LATER)).predict(8), saved.update(noise(ROWS, LATER)).predict(8))


@pytest.mark.parametrize(
    "wrong", [{"spacing": "2"}, {"calibration.issued": None}, {"calibration.errors": None}], ids=str
)
def test_a_model_whose_errors_are_not_whole_is_no_model(wrong, tmp_path):
    tiny().fit(noise()).save(tmp_path / "model")

    def change(description: dict, tensors: dict):
        for name, value in wrong.items():
            if value is None:
                tensors[name] = tensors[name][:, :, :1].contiguous() if name.endswith("errors") else tensors[name][:1]
            else:
                description["calibration"][name] = value

    forge(tmp_path / "model", change)
    with pytest.raises(ValueError, match="must describe a forecaster, but cannot be read as one"):
        TitansForecaster.load(tmp_path / "model")


@pytest.mark.parametrize("layout", ["long, integer ids", "wide, zoned", "Series", "array"])
def test_what_a_long_term_memory_holds_comes_back_and_goes_on(layout, tmp_path):
    layout = KINDS[layout]
    saved = tiny(context="stream").fit(layout(noise()[:-4])).update(layout(noise()[-4:]))
    held = saved.fitted_.long_term
    saved.save(tmp_path / "model")
    loaded = TitansForecaster.load(tmp_path / "model")
    assert_restored(loaded, saved)
    again = loaded.fitted_.long_term
    assert again.memory.config == held.memory.config
    for found, expected in (
        (again.memory.state_dict(), held.memory.state_dict()),
        (again.state.tensors(), held.state.tensors()),
    ):
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            assert found[name].dtype == tensor.dtype
            assert torch.equal(found[name], tensor)
    later = layout(noise(ROWS, LATER))
    assert_equal(loaded.update(later).predict(8), saved.update(later).predict(8))
    loaded.save(tmp_path / "model")
    assert_restored(TitansForecaster.load(tmp_path / "model"), loaded)


@pytest.mark.parametrize("name", ["held.ends", "held.0.weights.0", "long_term.blocks.0.scale"])
def test_a_memory_of_which_a_part_is_missing_is_no_model(name, tmp_path):
    tiny(context="stream").fit(noise()).save(tmp_path / "model")
    forge(tmp_path / "model", lambda description, tensors: tensors.pop(name))
    with pytest.raises(ValueError, match="must describe a forecaster, but cannot be read as one"):
        TitansForecaster.load(tmp_path / "model")


@pytest.mark.parametrize(("version", "expected"), [(1, True), (2, False)])
def test_whether_profiles_are_seasonal_was_written_since_version_2(version, expected, tmp_path):
    saved = tiny(cycle=24).fit(noise())
    saved.network_.cycle.profile.data[0, 0] = 1.0
    saved.save(tmp_path / "model")
    make_older(tmp_path / "model", version, seasonal=False)
    assert bool(TitansForecaster.load(tmp_path / "model").network_.cycle.seasonal) == expected


def test_filled_values_stay_marked(tmp_path):
    table = noise()
    table.iloc[[50, 59], [0, 1]] = np.nan
    saved = tiny(missing="interpolate").fit(table)
    assert saved.fitted_.panel.data.observed.sum() == 20  # of 24, two rows missing in both columns
    saved.save(tmp_path / "model")
    loaded = TitansForecaster.load(tmp_path / "model")
    assert_restored(loaded, saved)
    assert np.array_equal(loaded.fitted_.panel.data.observed, saved.fitted_.panel.data.observed)


def halve(path: Path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path):
    path.write_bytes(b"")


def flip(path: Path):
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [halve, empty, flip, Path.unlink, lambda path: (path.unlink(), path.mkdir())])
@pytest.mark.parametrize("name", ["manifest", "forecaster", "weights"])
def test_a_damaged_file_is_named(damage, name, folder):
    path = next(folder.glob(f"{name}*"))
    damage(path)
    with pytest.raises(ValueError, match=r"'.*' must .* (truncated or edited|missing|was edited)") as caught:
        TitansForecaster.load(folder)
    assert path.name in str(caught.value)
    assert "ave the model again" in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"files": {}},
        {"files": None},
        {"files": {"../../forecaster-0123456789abcdef.json": "", "weights-0123456789abcdef.safetensors": ""}},
        {"files": {"manifest.json": "", "weights-0123456789abcdef.safetensors": ""}},
        {"version": 0},
        {"version": "1"},
    ],
)
def test_an_edited_manifest_is_refused(changes, folder):
    edit_manifest(folder, **changes)
    with pytest.raises(ValueError, match=r"manifest\.json' must name its version and a model's two files, but was ed"):
        TitansForecaster.load(folder)


def forge(folder: Path, change):
    """Edit the description, and the tensors, and give the manifest their new hashes."""
    description, weights = (next(folder.glob(f"{name}*")) for name in ("forecaster", "weights"))
    content, tensors = json.loads(description.read_text()), safetensors.torch.load_file(weights)
    change(content, tensors)
    description.write_text(json.dumps(content))
    safetensors.torch.save_file(tensors, weights)
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (description, weights)}
    edit_manifest(folder, files=files)


@pytest.mark.parametrize(
    "change",
    [
        lambda description, _: description.pop("ids"),
        lambda description, _: description["config"].update(d_model=16),
        lambda description, _: description["config"].update(d_model="8"),
        lambda description, _: description["parameters"].update(power=9),
        lambda description, _: description["calendar"].update(dtype={"dtype": "__import__('os')"}),
        lambda description, _: description["layout"].update(kind={"eval": "1"}),
        lambda description, _: description["history"].update(evaluations=1),
        lambda _, tensors: tensors.pop("mean"),
        lambda _, tensors: tensors.pop("network.linear.weight"),
    ],
)
def test_a_forged_description_is_refused(change, folder):
    forge(folder, change)
    with pytest.raises(ValueError, match=f"'{folder}' must describe a forecaster, but cannot be read as one"):
        TitansForecaster.load(folder)


@needs_fork
def test_loading_runs_no_code(folder):
    TitansForecaster.load(folder)  # whatever is imported on first use

    def load():
        def refuse(event, arguments):
            if event in {"exec", "compile", "import", "pickle.find_class", "os.system", "subprocess.Popen"}:
                os.write(2, f"{event} {arguments}\n".encode())
                os._exit(1)

        sys.addaudithook(refuse)
        TitansForecaster.load(folder)

    assert in_a_fork(load) == 0


# A save that fails, or is killed, leaves a whole model: the one before it, or itself.


def fails_at(call: int, function):
    """`function`, whose call number `call` finds the disk full."""
    calls = iter(range(1_000))

    def failing(*args, **kwargs):
        if next(calls) == call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return function(*args, **kwargs)

    return failing


STEPS = [
    *((saving.os, "fsync", call) for call in range(5)),  # three files, and the folder before and after the swap
    *((saving.os, "open", call) for call in range(2)),
    *((saving, "_write", call) for call in range(3)),
    (saving.os, "replace", 0),
    (saving.safetensors.torch, "save", 0),
]
AFTER_THE_SWAP = [("fsync", 4), ("open", 1)]


@pytest.mark.parametrize(("module", "function", "call"), STEPS)
def test_a_failed_save_leaves_the_model_before_it(module, function, call, folder, older, newer, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(module, function, fails_at(call, getattr(module, function)))
        with pytest.raises(OSError, match="No space left"):
            newer.save(folder)
    if (function, call) in AFTER_THE_SWAP:  # whether it outlives a power cut is not known, so both models are kept
        assert which(folder, older=older, newer=newer) == "newer"
        assert len(saved_files(folder)) == 5
    else:
        assert which(folder, older=older, newer=newer) == "older"
        assert saved_files(folder) == WHOLE
    newer.save(folder)
    assert which(folder, older=older, newer=newer) == "newer"


@pytest.mark.parametrize(("module", "function", "call"), STEPS)
def test_a_first_save_that_fails_leaves_nothing(module, function, call, newer, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(module, function, fails_at(call, getattr(module, function)))
        with pytest.raises(OSError, match="No space left"):
            newer.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())
    newer.save(tmp_path / "model")
    assert which(tmp_path / "model", newer=newer) == "newer"


@pytest.mark.parametrize("most", [0, 100, 2_000, 5_000])
def test_a_file_cut_short_leaves_the_model_before_it(most, folder, older, newer):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            newer.save(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert which(folder, older=older, newer=newer) == "older"
    assert saved_files(folder) == WHOLE


def test_an_interrupt_right_after_the_swap_keeps_the_new_model(folder, older, newer, monkeypatch):
    def interrupted(*paths, replace=os.replace):
        replace(*paths)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(saving.os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            newer.save(folder)
    assert which(folder, older=older, newer=newer) == "newer"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_leaves_the_model_before_it(folder, older, newer):
    folder.chmod(0o555)
    with pytest.raises(PermissionError):
        newer.save(folder)
    assert which(folder, older=older, newer=newer) == "older"
    folder.parent.chmod(0o555)
    with pytest.raises(PermissionError):
        newer.save(folder.parent / "other")
    folder.parent.chmod(0o755)
    folder.chmod(0o755)


def test_a_file_system_that_cannot_sync_folders_will_do(folder, older, newer, monkeypatch):
    def fsync(descriptor, real=os.fsync):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(descriptor)

    monkeypatch.setattr(saving.os, "fsync", fsync)
    newer.save(folder)
    assert which(folder, older=older, newer=newer) == "newer"


def watched(save, on_line):
    """`save`, calling `on_line` with the number of each line that it is about to run since it looked at the folder."""

    def run():
        lines = itertools.count(1)

        def trace(frame, event, _):
            if frame.f_code.co_filename != saving.__file__:
                return None
            if event == "line":
                on_line(next(lines))
            return trace

        def claim(*args, real=saving.check_folder):
            replaced = real(*args)
            sys.settrace(trace)
            sys._getframe(1).f_trace = trace
            return replaced

        before = sys.gettrace()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(saving, "check_folder", claim)
            try:
                save()
            finally:
                sys.settrace(before)

    return run


def killed_at(line: int, save):
    """`save`, killed before it runs that line."""
    return watched(save, lambda at: os.kill(os.getpid(), signal.SIGKILL) if at == line else None)


def hash_of_weights(folder: Path) -> str:
    """By the manifest; the same weights have the same."""
    files = json.loads((folder / saving.MANIFEST).read_text())["files"]
    return next(value for name, value in files.items() if name.startswith("weights"))


@pytest.mark.parametrize("first", [False, True])
def test_a_save_killed_at_any_line_leaves_a_whole_model(first, folder, older, newer, tmp_path, monkeypatch):
    """What a kill would leave is what lies there before each line: a copy of it."""
    monkeypatch.setattr(saving.os, "fsync", lambda descriptor: None)  # slow, and only for what kills the machine
    hashes = {}
    for name, model in {"older": older, "newer": newer}.items():
        model.save(tmp_path / name)
        hashes[hash_of_weights(tmp_path / name)] = name
    path, copies = tmp_path / "first" if first else folder, tmp_path / "copies"
    copies.mkdir()

    def copy(line: int):
        if path.exists():
            shutil.copytree(path, copies / f"{line:03}")

    watched(lambda: newer.save(path), copy)()
    found = []
    for left in sorted(copies.iterdir()):
        if first and not (left / saving.MANIFEST).exists():
            found.append("none")
        else:
            TitansForecaster.load(left)  # which finds both files whole
            found.append(hashes[hash_of_weights(left)])
        newer.save(left)
        assert hashes[hash_of_weights(left)] == "newer"
    swap = found.index("newer")
    assert set(found[:swap]) == {"none" if first else "older"}
    assert set(found[swap:]) == {"newer"}
    assert swap > 20
    assert which(path, older=older, newer=newer) == "newer"


@needs_fork
def test_a_save_that_was_killed_left_what_lay_there(folder, older, newer):
    before = hash_of_weights(folder)
    assert in_a_fork(killed_at(20, lambda: newer.save(folder))) == -signal.SIGKILL
    assert which(folder, older=older, newer=newer) == "older"

    def kill(line: int):
        if hash_of_weights(folder) != before:  # right after the swap
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_fork(watched(lambda: newer.save(folder), kill)) == -signal.SIGKILL
    assert which(folder, older=older, newer=newer) == "newer"
    assert len(saved_files(folder)) > 3


@needs_fork
def test_a_first_save_that_was_killed_is_told_from_a_model(newer, tmp_path):
    assert in_a_fork(killed_at(20, lambda: newer.save(tmp_path / "model"))) == -signal.SIGKILL
    with pytest.raises(ValueError, match=r"manifest\.json' must name .* but is missing: `save` never ended"):
        TitansForecaster.load(tmp_path / "model")


@needs_fork
def test_what_killed_saves_have_left_goes_after_a_while(folder, newer):
    for line in range(5, 30, 5):
        assert in_a_fork(killed_at(line, lambda: newer.save(folder))) == -signal.SIGKILL
    newer.save(folder)
    assert len(saved_files(folder)) > 3
    long_ago = time.time() - saving.STALE - 1
    for path in folder.iterdir():
        os.utime(path, (long_ago, long_ago))
    newer.save(folder)
    assert saved_files(folder) == WHOLE


def test_the_last_of_two_saves_at_once_is_kept_whole(folder, older, newer, monkeypatch):
    def replace(*paths, real=os.replace):
        monkeypatch.setattr(saving.os, "replace", real)
        older.save(folder)
        real(*paths)

    monkeypatch.setattr(saving.os, "replace", replace)
    newer.save(folder)
    assert which(folder, older=older, newer=newer) == "newer"


def test_a_model_replaced_while_it_is_read_is_read_anew(folder, older, newer, monkeypatch):
    def read_bytes(path, real=Path.read_bytes):
        if path.name.startswith("weights"):
            monkeypatch.setattr(Path, "read_bytes", real)
            newer.save(folder)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert which(folder, older=older, newer=newer) == "newer"
