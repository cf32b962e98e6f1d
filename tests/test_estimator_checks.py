"""scikit-learn's own checks of an estimator; each that fails stands beside its reason, and must fail."""

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from titans_ts import TitansForecaster


class WithoutTargets(TitansForecaster):
    """The forecaster, but for leaving out the `y` that most checks pass: so they reach what they check."""

    def fit(self, df, y=None):
        return super().fit(df)

    def score(self, df, y=None):
        return super().score(df)


TINY = dict(horizon=2, lookback=4, d_model=8, n_heads=2, n_layers=1, max_epochs=1, device="cpu", verbose=0)
ESTIMATORS = [TitansForecaster(**TINY), WithoutTargets(**TINY), WithoutTargets(**TINY, missing="ffill")]

AHEAD = "predict(X) forecasts the steps after X: two rows, whatever the number of X's, and none of them a row of X"
TARGETS = "passes a `y`, which is refused: the table given as X holds the targets. WithoutTargets runs it without"
SERIES = "passes a `y`, and a weight for each row; here series are weighted, and rows by recency alone (`half_life`)"

EXPECTED_FAILURES = {
    WithoutTargets: {
        "check_methods_sample_order_invariance": f"{AHEAD}; rows in another order are another past",
        "check_methods_subset_invariance": f"{AHEAD}; each part of X has a future of its own",
    },
    TitansForecaster: {
        "check_array_api_input": TARGETS,
        "check_complex_data": TARGETS,
        "check_dict_unchanged": TARGETS,
        "check_dont_overwrite_parameters": TARGETS,
        "check_dtype_object": TARGETS,
        "check_estimator_sparse_array": TARGETS,
        "check_estimator_sparse_matrix": TARGETS,
        "check_estimator_sparse_tag": TARGETS,
        "check_estimators_dtypes": TARGETS,
        "check_estimators_empty_data_messages": TARGETS,
        "check_estimators_fit_returns_self": TARGETS,
        "check_estimators_nan_inf": TARGETS,
        "check_estimators_overwrite_params": TARGETS,
        "check_estimators_pickle": TARGETS,
        "check_f_contiguous_array_estimator": TARGETS,
        "check_fit2d_1feature": TARGETS,
        "check_fit2d_1sample": TARGETS,
        "check_fit2d_predict1d": TARGETS,
        "check_fit_check_is_fitted": TARGETS,
        "check_fit_idempotent": TARGETS,
        "check_fit_score_takes_y": TARGETS,
        "check_methods_sample_order_invariance": TARGETS,
        "check_methods_subset_invariance": TARGETS,
        "check_n_features_in": TARGETS,
        "check_n_features_in_after_fitting": TARGETS,
        "check_pipeline_consistency": TARGETS,
        "check_positive_only_tag_during_fit": TARGETS,
        "check_readonly_memmap_input": TARGETS,
        "check_all_zero_sample_weights_error": SERIES,
        "check_sample_weight_equivalence_on_dense_data": SERIES,
        "check_sample_weights_list": SERIES,
        "check_sample_weights_not_an_array": SERIES,
        "check_sample_weights_not_overwritten": SERIES,
        "check_sample_weights_pandas_series": SERIES,
        "check_sample_weights_shape": SERIES,
    },
}


def expected_failures(estimator) -> dict[str, str]:
    return EXPECTED_FAILURES[type(estimator)]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures, xfail_strict=True)
def test_scikit_learns_check(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else the check of array libraries would skip itself
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS[:2], ids=["as it is", "without targets"])
def test_every_expected_failure_is_of_a_check_that_runs(estimator):
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9):
        pytest.skip("checks have other names before scikit-learn 1.9")
    ran = {check.func.__name__ for _, check in estimator_checks_generator(estimator)}
    assert set(expected_failures(estimator)) < ran


def test_tags_tell_what_is_taken_and_what_comes_out():
    tags = get_tags(TitansForecaster())
    assert tags.estimator_type is None  # a regressor's forecasts would be of the rows given
    assert tags.requires_fit
    assert not tags.target_tags.required
    assert not tags.input_tags.sparse
    assert not tags.no_validation


@pytest.mark.parametrize(("missing", "allowed"), [("error", False), ("interpolate", True), ("ffill", True)])
def test_missing_values_are_allowed_where_they_are_filled(missing, allowed):
    table = np.sin(np.arange(40.0))[:, None]
    table[[0, 7, 39]] = np.nan
    model = TitansForecaster(**TINY, missing=missing)
    assert get_tags(model).input_tags.allow_nan == allowed
    if allowed:
        assert np.isfinite(model.fit(table).predict()).all()
    else:
        with pytest.raises(ValueError, match="channel 0 has 3 missing values, the first at 0; fill the NaN or pass"):
            model.fit(table)


@pytest.mark.parametrize(("device", "equal"), [("cpu", True), ("cuda", False), (None, not torch.cuda.is_available())])
def test_only_fits_on_a_cpu_are_said_to_be_equal(device, equal):
    assert get_tags(TitansForecaster(device=device)).non_deterministic != equal


def test_an_array_of_another_number_of_series_is_refused_in_scikit_learns_words():
    table = np.random.default_rng(0).normal(size=(20, 3))
    model = TitansForecaster(**TINY).fit(table)
    words = "`df` must have 3 series as the data fitted, got 2: X has 2 features, but TitansForecaster is expecting 3 "
    for call in (model.predict, model.score):
        with pytest.raises(ValueError, match=words):
            call(table[:, :2])
    assert model.n_features_in_ == 3


def test_columns_in_another_order_are_known_by_name():
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["a", "b", "c"])
    model = TitansForecaster(**TINY).fit(table)
    found, expected = model.predict(table[["c", "a", "b"]]), model.predict(table)
    pd.testing.assert_frame_equal(found[["a", "b", "c"]], expected, rtol=1e-5)
