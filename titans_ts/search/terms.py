"""What a study was begun with, on which all of its scores depend; it is gone on with under the same terms alone."""

from __future__ import annotations

import hashlib
import inspect
import time
from typing import Any

import numpy as np
from optuna.study import Study, StudyDirection

from titans_ts.defaults import defaults_for, shorten
from titans_ts.forecaster import TitansForecaster
from titans_ts.tables.panel import Panel
from titans_ts.training.losses import AnyLoss, loss_name

from .storage import PAUSES, begun
from .trial import Space, read

TERMS = "terms"  # user attribute of a study
# Parameters without a say in a score, or with one that the data's fingerprint has already.
LEFT_OUT = ("device", "verbose", "freq", "id_col", "time_col", "target_col", "warm_start", "checkpoint_dir")
HASH = 16  # hexadecimal digits


def study_terms(estimator: TitansForecaster, df: Any, space: Space, scoring: AnyLoss, n_windows: int) -> dict[str, str]:
    """The terms of a study, each as text: scoring, windows, data, space, and the parameters that are not searched.

    Parameters at their default are left out, so that a later version may have more of them. Horizon and lookback are
    those that the data give where they are None.
    """
    terms = {
        "scoring": f"relative {scoring if isinstance(scoring, str) else _name(scoring)}",
        "n_windows": repr(int(n_windows)),
        "estimator": type(estimator).__name__,
        "space": _name(space) if callable(space) else "distributions",
    }
    parameters = estimator.get_params(deep=False)
    try:
        panel = read(estimator, df, missing="ffill")  # what is missing is left out below
    except (TypeError, ValueError):
        terms["data"] = f"unreadable {type(df).__name__}"  # each trial will fail with the reason
    else:
        terms["data"] = fingerprint(panel)
        defaults = shorten(defaults_for(panel.calendar), panel.data.lengths)
        for name in ("horizon", "lookback"):
            if parameters[name] is None:
                parameters[name] = getattr(defaults, name)
    first = {name: parameter.default for name, parameter in inspect.signature(type(estimator)).parameters.items()}
    shown = {name: _text(value) for name, value in parameters.items() if name not in LEFT_OUT}
    terms |= {name: text for name, text in shown.items() if text != _text(first.get(name))}
    return terms if callable(space) else terms | {name: repr(where) for name, where in space.items()}


def fingerprint(panel: Panel) -> str:
    """Number, times and values of the series, in words and as a hash.

    The order of rows and of series does not matter, nor the kind of the table; what was filled in does not count.
    """
    data, series = panel.data, list[bytes]()
    observed = data.is_observed
    values = np.where(observed, data.values, 0.0) + 0.0  # -0.0 is 0.0
    for i in range(panel.n_series):
        rows, head = data.rows_of(i), f"{panel.id_of(i)!r} {data.starts[i]}"
        parts = [head.encode(), values[rows].astype("<f8").tobytes(), observed[rows].tobytes()]
        if panel.covariates is not None and data.covariates is not None:
            parts += [repr(panel.covariates.columns).encode(), (data.covariates[rows] + 0.0).astype("<f8").tobytes()]
        series.append(_digest(*parts))
    freq, first, last = panel.calendar.freq, int(data.starts.min()), int(data.ends.max()) - 1
    times = " to ".join(str(panel.calendar.label(time_index)) for time_index in (first, last))
    found = _digest(f"{freq} {times}".encode(), *sorted(series)).hex()[:HASH]
    return f"{panel.n_series} series, {observed.sum()} values, {times} by {freq!r}, hash {found}"


def agree(study: Study, terms: dict[str, str], is_new: bool) -> None:
    """Write the terms on a new study; on one that is there, compare them, and change nothing.

    Of processes that begin a study at once, one makes it and writes the terms. The others wait for these, and where
    they do not come before the first trial, its maker was killed: the study is as good as new.

    Raises
    ------
    ValueError
        If the study has other terms: names all that differ. If it has trials and nobody wrote down its terms.
    """
    remedy = f"give another `study_name` than {study.study_name!r}"
    directions = [direction.name.lower() for direction in study.directions]
    if study.directions != [StudyDirection.MINIMIZE]:
        raise ValueError(f"the study must minimise one value, but was begun to {' and '.join(directions)}; {remedy}.")
    kept = None if is_new else _awaited(study)
    if kept is None:
        if n := begun(study):
            raise ValueError(
                f"the study has {n} trials and no terms: it was begun by an earlier version, or elsewhere, which did "
                f"not keep the space, the data and the parameters that they were scored with; {remedy}."
            )
        study.set_user_attr(TERMS, terms)
        kept = study.user_attrs[TERMS]  # another may have written later
    names = [name for name in {**kept, **terms} if kept.get(name) != terms.get(name)]
    if names:
        default = "its default"
        pairs = (f"{name}={kept.get(name, default)} (now {terms.get(name, default)})" for name in names)
        raise ValueError(
            f"the study was begun with {', '.join(pairs)}, and its scores cannot be compared with those asked for; "
            f"{remedy}, or give what it was begun with."
        )


def _awaited(study: Study) -> dict[str, str] | None:
    """The terms that a study was begun with; None where there are none, or not yet after a while."""
    for pause in PAUSES:
        if TERMS in study.user_attrs or begun(study):
            break
        time.sleep(pause)
    kept: dict[str, str] | None = study.user_attrs.get(TERMS)
    return kept


def _name(function: Any) -> str:
    """A function's module and name, and a hash of its source where it can be had; its closure does not count."""
    named = function if hasattr(function, "__qualname__") else type(function)
    text = loss_name(function)
    try:
        source = inspect.cleandoc(inspect.getsource(named))
    except (OSError, TypeError):
        return text
    return f"{text}, hash {_digest(source.encode()).hex()[:HASH]}"


def _text(value: Any) -> str:
    """A parameter as text that is the same in every process."""
    value = value.item() if isinstance(value, np.generic) else value
    if callable(value):
        return _name(value)
    return type(value).__name__ if isinstance(value, np.random.RandomState) else repr(value)


def _digest(*parts: bytes) -> bytes:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.digest()
