"""The estimator as scikit-learn knows it: parameters, copies, seeds, searches, and what is refused."""

import copy
import pickle
import random

import numpy as np
import pandas as pd
import pytest
import torch
from joblib import parallel_config
from pandas.testing import assert_frame_equal
from sklearn import config_context, get_config, set_config
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.validation import has_fit_parameter

from titans_ts import TitansForecaster
from titans_ts.windows.windows import Windows

ROWS = 200


def tiny(**parameters) -> TitansForecaster:
    given = dict(horizon=6, lookback=24, d_model=8, n_heads=2, n_layers=1, max_epochs=1, random_state=0, verbose=0)
    return TitansForecaster(**{**given, **parameters})


def walks(rows: int = ROWS, freq: str = "h") -> pd.DataFrame:
    """Two daily waves on random walks."""
    wave = np.sin(2 * np.pi * np.arange(rows) / 24)
    steps = np.random.default_rng(0).normal(size=(rows, 2)).cumsum(0)
    index = pd.date_range("2024-01-01", periods=rows, freq=freq)
    return pd.DataFrame(wave[:, None] + 0.2 * steps, index=index, columns=["a", "b"])


def melted(wide: pd.DataFrame) -> pd.DataFrame:
    return wide.rename_axis(index="ds", columns="unique_id").T.stack().rename("y").reset_index()


@pytest.fixture(scope="module")
def trained() -> TitansForecaster:
    """Without validation rows the last weights are kept, so that the deep branch has its say."""
    return tiny(val_size=0).fit(walks())


# Parameters

ODD = dict(horizon=np.int64(3), lookback=[8, 16], mixer={"name": "memory"}, learning_rate=1, device=("cpu",), freq=[])


def test_parameters_are_kept_as_given_even_if_wrong():  # case 26
    model = TitansForecaster(**ODD)
    for name, value in ODD.items():
        assert getattr(model, name) is value
        assert model.get_params()[name] is value
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    assert vars(copied).keys() == model.get_params().keys()


def test_parameters_are_set_and_read_back():  # case 26
    model = clone(tiny().set_params(learning_rate=1, horizon=np.int64(3)))
    assert (model.learning_rate, model.horizon) == (1, 3)
    assert clone(model).set_params(**tiny().get_params()).get_params() == tiny().get_params()
    model.set_params(max_epochs=0).fit(walks())
    assert (model.horizon_, type(model.horizon_), type(model.horizon)) == (3, int, np.int64)
    with pytest.raises(ValueError, match="Invalid parameter 'h' for estimator TitansForecaster"):
        model.set_params(h=3)


def test_repr_shows_what_is_not_default():
    assert repr(TitansForecaster(horizon=3, mixer="none")) == "TitansForecaster(horizon=3, mixer='none')"
    assert "TitansForecaster" in tiny()._repr_html_()


@pytest.mark.parametrize(
    ("freq", "rows", "horizon", "lookback"),
    [
        ("h", 1008, 24, 336),
        ("D", 168, 14, 56),
        ("B", 120, 10, 40),
        ("W", 312, 13, 104),
        ("MS", 108, 12, 36),
        ("QE", 48, 4, 16),
        ("YS", 30, 3, 10),
        (None, 288, 24, 96),
        ("h", 60, 20, 20),  # a third of the rows
        ("MS", 24, 8, 8),
        (None, 5, 1, 1),
    ],
)
def test_defaults_come_from_frequency_and_length(freq, rows, horizon, lookback):
    index = pd.RangeIndex(rows) if freq is None else pd.date_range("1970-01-01", periods=rows, freq=freq)
    model = tiny(horizon=None, lookback=None, max_epochs=0).fit(pd.Series(np.arange(float(rows)), index=index))
    assert (model.horizon_, model.lookback_) == (horizon, lookback)
    assert model.freq_ == (1 if freq is None else index.freqstr)
    assert len(model.predict()) == horizon


# What fit leaves


def test_nothing_is_forecast_or_scored_before_fit():
    for call in (tiny().predict, lambda: tiny().predict(3, walks()), lambda: tiny().score(walks())):
        with pytest.raises(NotFittedError, match="This TitansForecaster instance is not fitted yet"):
            call()


def test_fit_returns_itself_and_knows_its_features(trained):
    model = tiny(max_epochs=0)
    assert model.fit(walks()) is model
    assert model.n_features_in_ == 2
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.feature_names_in_.dtype == object
    for table, series in (
        (walks().to_numpy(), 2),
        (walks()["a"], 1),
        (melted(walks()), 2),
        (walks().set_axis([0, 1], axis=1), 2),
    ):
        assert model.fit(table).n_features_in_ == series
        assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize(
    "copy_of", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["deepcopy", "pickle"]
)
def test_copies_forecast_equally(trained, copy_of):
    twin, later = copy_of(trained), walks(ROWS + 50)
    pd.testing.assert_frame_equal(twin.predict(20), trained.predict(20), check_exact=True)
    pd.testing.assert_frame_equal(twin.predict(df=later), trained.predict(df=later), check_exact=True)
    assert twin.score(later[ROWS:]) == trained.score(later[ROWS:])


def test_the_same_seed_forecasts_equally_and_another_does_not(trained):  # case 33
    assert np.array_equal(tiny(val_size=0).fit(walks()).predict(), trained.predict())
    assert np.array_equal(clone(trained).fit(walks()).predict(), trained.predict())
    other = tiny(val_size=0, random_state=1).fit(walks()).predict()
    assert 0 < np.abs(other - trained.predict()).to_numpy().max() < 1


def test_a_second_fit_starts_fresh():  # case 33
    array = walks(150).to_numpy()[:, :1]
    model = tiny(val_size=0).fit(walks()).fit(array)
    fresh = tiny(val_size=0).fit(array)
    assert np.array_equal(model.predict(20), fresh.predict(20))
    assert vars(model).keys() == vars(fresh).keys()


def test_random_numbers_of_the_caller_go_on_as_if_nothing_had_been():
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    tiny().fit(walks()).predict()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]


def test_an_interrupted_fit_keeps_the_best_weights_so_far(monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    initialised = tiny(max_epochs=0).fit(walks()).predict()
    monkeypatch.setattr(Windows, "shuffled", interrupt)
    with pytest.warns(UserWarning, match="Training was interrupted; the best weights so far are kept"):
        model = tiny(max_epochs=5).fit(walks())
    assert model.history_.stopped == "interrupted"
    assert np.array_equal(model.predict(), initialised)


# Validation rows


@pytest.mark.parametrize(
    ("val_size", "kept_out"),
    [(None, 20), (0.25, 50), (0.333, 67), (30, 30), (np.int64(30), 30), (2, 6), (0.01, 6), (0, 0)],
)
def test_validation_rows_are_the_last_and_stay_out_of_training(val_size, kept_out):
    table = walks()
    model = tiny(val_size=val_size, max_epochs=0).fit(table)
    np.testing.assert_allclose(model.scaler_.mean, table[: ROWS - kept_out].mean(), rtol=1e-12)
    np.testing.assert_allclose(model.scaler_.std, table[: ROWS - kept_out].std(ddof=0), rtol=1e-12)
    table.iloc[ROWS - kept_out :] = 100.0
    other = tiny(val_size=val_size, max_epochs=0).fit(table)
    assert np.array_equal(other.scaler_.mean, model.scaler_.mean)
    assert np.array_equal(other.scaler_.std, model.scaler_.std)
    assert np.isnan(model.history_.best.validation_loss) == (kept_out == 0)


def test_without_validation_rows_all_are_trained_on_to_the_end():
    history = tiny(val_size=0, max_epochs=2).fit(walks()).history_
    assert history.stopped == "max_epochs"
    assert np.isnan([evaluation.validation_loss for evaluation in history.evaluations]).all()
    assert [evaluation.epoch for evaluation in history.evaluations] == pytest.approx(
        [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2], abs=0.1
    )


def test_series_too_short_for_validation_are_trained_on_whole():
    alone = tiny(horizon=6).fit(walks(12))
    assert np.isnan(alone.history_.best.validation_loss)
    assert np.isfinite(alone.history_.evaluations[-1].train_loss)
    np.testing.assert_allclose(alone.scaler_.mean, walks(12).mean(), rtol=1e-12)
    beside = tiny(horizon=6).fit(melted(walks())[: ROWS + 12])
    assert np.isfinite(beside.history_.best.validation_loss)
    np.testing.assert_allclose(beside.scaler_.mean, [walks()["a"][:180].mean(), walks()["b"][:12].mean()], rtol=1e-12)


# With scikit-learn's own tools


def sine(start: int, rows: int) -> pd.DataFrame:
    index = pd.date_range("2024-01-01", periods=start + rows, freq="h")[start:]
    return pd.DataFrame({"x": np.sin(0.7 * np.arange(start, start + rows))}, index=index)


def test_a_grid_search_finds_the_better_lookback():
    search = GridSearchCV(tiny(cycle=0, max_epochs=0, combine=False), {"lookback": [1, 24]}, cv=TimeSeriesSplit(2))
    search.fit(sine(0, ROWS))
    assert search.best_params_ == {"lookback": 24}
    assert search.best_score_ > -1e-4
    assert search.cv_results_["mean_test_score"][0] < -0.1
    for forecast in (search.predict(6), search.best_estimator_.predict(6)):  # all rows were fitted again
        assert_frame_equal(forecast, sine(ROWS, 6), rtol=0, atol=0.01, check_freq=False)


def test_a_grid_search_scores_as_fitting_by_hand():
    table, model = walks(80), tiny(val_size=0)
    search = GridSearchCV(model, {"d_model": [8, 16], "learning_rate": [1e-3, 1e-2]}, cv=TimeSeriesSplit(3)).fit(table)
    assert len(set(search.cv_results_["mean_test_score"])) == 4
    for fold, (train, test) in enumerate(TimeSeriesSplit(3).split(table)):
        for parameters, score in zip(
            search.cv_results_["params"], search.cv_results_[f"split{fold}_test_score"], strict=True
        ):
            assert clone(model).set_params(**parameters).fit(table.iloc[train]).score(table.iloc[test]) == score
    best = clone(model).set_params(**search.best_params_).fit(table)
    assert_frame_equal(search.best_estimator_.predict(20), best.predict(20))


def test_a_grid_search_in_two_processes_scores_as_in_one():
    table, folds = walks(80), dict(cv=TimeSeriesSplit(2))
    pipeline, grid = make_pipeline(StandardScaler(), tiny(val_size=0)), {"titansforecaster__d_model": [8, 16]}
    alone = GridSearchCV(pipeline, grid, **folds).fit(table)
    with parallel_config("loky", inner_max_num_threads=1):
        both = GridSearchCV(pipeline, grid, n_jobs=2, **folds).fit(table)
    for fold in range(2):
        assert np.array_equal(both.cv_results_[f"split{fold}_test_score"], alone.cv_results_[f"split{fold}_test_score"])
    assert both.best_params_ == alone.best_params_
    assert np.array_equal(both.predict(table), alone.predict(table))


def test_a_grid_search_reaches_into_a_pipeline():
    table = walks(80)
    pipeline = make_pipeline(StandardScaler(), tiny(val_size=0))
    grid = {"titansforecaster__d_model": [8, 16], "standardscaler": [StandardScaler(), FunctionTransformer(np.arcsinh)]}
    search = GridSearchCV(pipeline, grid, cv=TimeSeriesSplit(2)).fit(table)
    assert len(set(search.cv_results_["mean_test_score"])) == 4
    best = clone(pipeline).set_params(**search.best_params_).fit(table)
    assert np.array_equal(search.best_estimator_.predict(table), best.predict(table))
    assert not hasattr(pipeline[-1], "network_")  # searched with copies


def test_a_candidate_that_cannot_be_fitted_scores_nan_or_ends_the_search():
    search = GridSearchCV(tiny(max_epochs=0), {"d_model": [8, 9]}, cv=TimeSeriesSplit(2), error_score="raise")
    with pytest.raises(ValueError, match="`d_model` must be a multiple of `n_heads` = 2, got 9"):
        search.fit(walks())
    with (
        pytest.warns(FitFailedWarning, match="`d_model` must be a multiple of `n_heads` = 2, got 9"),
        pytest.warns(UserWarning, match="test scores are non-finite"),
    ):
        search.set_params(error_score=np.nan).fit(walks())
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [False, True]
    assert search.best_params_ == {"d_model": 8}


def test_a_function_may_score_in_place_of_the_forecaster():
    def minus_mae(model, table):
        return -(model.predict(len(table)) - table).abs().to_numpy().mean()

    table = walks()
    scores = cross_val_score(tiny(max_epochs=0), table, cv=TimeSeriesSplit(2), scoring=minus_mae)
    for score, (train, test) in zip(scores, TimeSeriesSplit(2).split(table), strict=True):
        forecast = tiny(max_epochs=0).fit(table.iloc[train]).predict(len(test))
        assert score == -np.abs(forecast - table.iloc[test]).to_numpy().mean()


def test_scorers_by_name_do_not_apply():
    # They compare the forecast with a `y`: scikit-learn itself misses it, and the forecaster refuses it.
    how = dict(cv=TimeSeriesSplit(2), scoring="neg_mean_squared_error", error_score="raise")
    with pytest.raises(TypeError, match="y_true"):
        cross_val_score(tiny(max_epochs=0), walks(), **how)
    with pytest.raises(ValueError, match="pass as `scoring` a function of the forecaster and a table"):
        cross_val_score(tiny(max_epochs=0), walks(), walks(), **how)


def test_a_search_hands_on_what_fit_takes():
    seen = []
    search = GridSearchCV(tiny(), {"d_model": [8]}, cv=TimeSeriesSplit(2))
    search.fit(walks(), val_loss="mae", on_evaluation=seen.append)
    alone = tiny().fit(walks(), val_loss="mae").history_
    assert search.best_estimator_.history_.best.validation_loss == alone.best.validation_loss
    assert len(seen) > len(alone.evaluations)  # of the folds and of the fit after them
    weighted = GridSearchCV(tiny(max_epochs=0), {"d_model": [8]}, cv=TimeSeriesSplit(2))
    with pytest.warns(UserWarning, match="sample_weight"):  # `score` takes none
        weighted.fit(walks(), sample_weight={"a": 3, "b": 1})
    expected = tiny(max_epochs=0).fit(walks(), sample_weight=[3, 1]).history_
    assert weighted.best_estimator_.history_.best.relative_error == expected.best.relative_error
    assert has_fit_parameter(tiny(), "sample_weight")


def test_a_pipeline_hands_on_its_scaled_table():
    table = walks(ROWS + 20)
    pipeline = make_pipeline(StandardScaler(), tiny(max_epochs=0)).fit(table[:ROWS])
    scaler = StandardScaler().fit(table[:ROWS])
    model = tiny(max_epochs=0).fit(scaler.transform(table[:ROWS]))
    assert np.array_equal(pipeline.predict(table), model.predict(scaler.transform(table)))
    assert pipeline.score(table[ROWS:]) == model.score(scaler.transform(table[ROWS:]))
    assert np.array_equal(pipeline[-1].predict(20), model.predict(20))


def test_a_copy_of_a_pipeline_is_not_fitted():
    pipeline = make_pipeline(StandardScaler(), tiny(max_epochs=0)).fit(walks())
    copied = clone(pipeline)
    assert copied[-1].get_params() == pipeline[-1].get_params()
    with pytest.raises(NotFittedError):
        copied.score(walks())
    assert np.array_equal(copied.fit(walks()).predict(walks()), pipeline.predict(walks()))


def test_a_pipeline_that_keeps_frames_forecasts_the_next_times():
    table = walks(ROWS + 6)
    pipeline = make_pipeline(StandardScaler(), tiny(max_epochs=0)).set_output(transform="pandas").fit(table[:ROWS])
    with config_context(transform_output="pandas"):
        everywhere = make_pipeline(StandardScaler(), tiny(max_epochs=0)).fit(table[:ROWS])
    forecast = pipeline.predict(table[:ROWS])
    assert forecast.index.equals(table.index[ROWS:])
    assert forecast.columns.tolist() == pipeline[-1].feature_names_in_.tolist() == ["a", "b"]
    assert_frame_equal(everywhere[-1].predict(), pipeline[-1].predict())
    # Scaling before or within is the same, but for float32's rounding.
    alone = tiny(max_epochs=0).fit(table[:ROWS]).predict()
    np.testing.assert_allclose(pipeline[0].inverse_transform(forecast), alone, rtol=0, atol=1e-5)


def test_a_pipeline_that_keeps_frames_scores_as_the_forecaster_alone():
    # Scaling before or within is the same, but for float32's rounding.
    pipeline = make_pipeline(StandardScaler(), tiny(max_epochs=0)).set_output(transform="pandas")
    folds = dict(cv=TimeSeriesSplit(2))
    alone = cross_val_score(tiny(max_epochs=0), walks(), **folds)
    np.testing.assert_allclose(cross_val_score(pipeline, walks(), **folds), alone, rtol=1e-3)


@pytest.mark.parametrize("wrapped", [lambda model: model, lambda model: make_pipeline(StandardScaler(), model)])
def test_a_notebook_draws_a_diagram_or_writes_text(wrapped):
    model = wrapped(tiny(max_epochs=0))
    before = get_config()["display"]
    try:
        set_config(display="diagram")
        drawn = model._repr_mimebundle_()
        fitted = model.fit(walks())._repr_mimebundle_()
        set_config(display="text")
        written = model._repr_mimebundle_()
        with pytest.raises(AttributeError, match="only defined when the 'display' configuration option"):
            _ = model._repr_html_
    finally:
        set_config(display=before)
    assert drawn.keys() == fitted.keys() == {"text/plain", "text/html"}
    for bundle, state in ((drawn, "Not fitted"), (fitted, "Fitted")):
        assert f"<span>{state}</span>" in bundle["text/html"]
        for words in ("TitansForecaster", "max_epochs", "sk-toggleable"):
            assert words in bundle["text/html"]
    assert written == {"text/plain": repr(model)}


# Refusals


@pytest.mark.parametrize("name", ["channel_mixing"])
def test_parameters_that_did_nothing_are_gone(name):
    assert name not in TitansForecaster().get_params()
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        TitansForecaster(**{name: None})


def test_targets_beside_the_table_are_refused():
    with pytest.raises(ValueError, match="`y` must be None: the table given as `df` holds the targets"):
        tiny().fit(walks(), walks()["a"])


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("horizon", "a", "an integer >= 1, got 'a'"),
        ("horizon", 0, "an integer >= 1, got 0"),
        ("horizon", 2.0, "an integer >= 1, got 2.0"),
        ("lookback", 0, "an integer >= 1, got 0"),
        ("lookback", True, "an integer >= 1, got True"),
        ("cycle", -1, "an integer >= 0, got -1"),
        ("n_layers", 0, "an integer >= 1, got 0"),
        ("batch_size", 0, "an integer >= 1, got 0"),
        ("max_epochs", -1, "an integer >= 0, got -1"),
        ("time_limit", 0, "a positive finite number of seconds, or None for no limit, got 0"),
        ("time_limit", "10 s", "a positive finite number of seconds, or None for no limit, got '10 s'"),
        ("patience", 0, "an integer >= 1, got 0"),
        ("d_model", 9, "a multiple of `n_heads` = 2, got 9"),
        ("stride", 17, "at most `patch_len` = 16, got 17"),
        ("dropout", 1, r"in \[0, 1\), got 1"),
        ("dropout", "some", r"in \[0, 1\), got 'some'"),
        ("mixer", "lstm", r"one of \('memory', 'attention', .*\), got 'lstm'"),
        ("linear_path", "yes", r"True, False or one of \('auto', 'per_series', 'across'\), got 'yes'"),
        ("linear_path", 2, "True or False, got 2"),
        ("loss", "x", r"one of \('mse', 'mae', 'huber', 'quantile'\) or a function of forecast and truth, got 'x'"),
        (
            "loss",
            ["mse"],
            r"one of \('mse', 'mae', 'huber', 'quantile'\) or a function of forecast and truth, got \['mse'\]",
        ),
        ("learning_rate", 0, r"a positive number of at most 1e\+06, got 0"),
        ("learning_rate", "fast", r"a positive number of at most 1e\+06, got 'fast'"),
        ("val_size", -1, r"a number of rows or a share in \[0, 1\), got -1"),
        ("val_size", "a", r"a number of rows or a share in \[0, 1\), got 'a'"),
        ("val_size", True, r"a number of rows or a share in \[0, 1\), got True"),
        ("val_size", np.nan, r"a number of rows or a share in \[0, 1\), got nan"),
        ("precision", "x", r"one of \('float32', 'bfloat16'\), got 'x'"),
        ("device", "nonsense", "got 'nonsense'"),
        ("missing", "mean", r"one of \('error', 'interpolate', 'ffill'\), got 'mean'"),
        ("missing", ["ffill"], r"one of \('error', 'interpolate', 'ffill'\), got \['ffill'\]"),
    ],
)
def test_parameters_out_of_range_are_named(name, value, words):
    with pytest.raises(ValueError, match=f"`{name}` must be .*{words}"):
        tiny(**{name: value}).fit(walks())


@pytest.mark.parametrize("freq", [2, "x", "bh"])
def test_a_frequency_that_does_not_go_with_the_times_is_refused(freq):
    with pytest.raises(ValueError, match=f"`freq` .*{freq!r}"):
        tiny(freq=freq).fit(walks())


def test_a_horizon_longer_than_the_data_names_the_longest_series():
    with pytest.raises(ValueError, match=r"`horizon` \+ 1 = 201 rows to learn from, but the longest, 'b', has 200"):
        tiny(horizon=200).fit(melted(walks())[10:])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda a: a.where(a.index != a.index[2], np.nan),
            "column 'a' has 1 missing value, the first at 2024-01-01 02:00:00",
        ),
        (
            lambda a: a.where(a.index < a.index[192], -np.inf),
            "column 'a' has 8 infinite values, the first at 2024-01-09;",
        ),
        (
            lambda a: a.drop(a.index[5:7]),
            "the table has a gap of 2 rows between 2024-01-01 04:00:00 and 2024-01-01 07:00:00",
        ),
        (lambda a: pd.concat([a, a[3:4]]), "the table has more than one row at 2024-01-01 03:00:00"),
        (lambda a: a[:2], "the table has 2 rows; at least 3 are needed"),
        (lambda a: a.set_axis([f"row {i}" for i in range(ROWS)]), "time labels must be dates, periods or integers"),
    ],
    ids=["missing", "infinite", "gap", "duplicate", "short", "text"],
)
def test_tables_that_cannot_be_learnt_from_say_where(change, words):
    with pytest.raises(ValueError, match=words):
        tiny().fit(change(walks()["a"]).to_frame())


def test_other_tables_are_refused_with_their_remedy(trained):
    lazy = type("LazyFrame", (), {"__module__": "polars.lazyframe.frame"})()
    for call in (tiny().fit, trained.predict, trained.score):
        with pytest.raises(TypeError, match=r"got polars.lazyframe.frame.LazyFrame; use `.collect\(\)`"):
            call(lazy)
