"""Reading on in any grouping of series leaves the same state, and the one before as it was."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from titans_ts import TitansForecaster


def frame(rows: int, n_series: int = 4) -> pd.DataFrame:
    hours = np.arange(rows)[:, None]
    values = np.sin(2 * np.pi * (hours + np.arange(n_series)) / 24)
    values += np.random.default_rng(0).normal(0, 0.2, values.shape)
    index = pd.date_range("2024-01-01", periods=rows, freq="h")
    return pd.DataFrame(values, index=index, columns=list("abcd")[:n_series]).rename_axis("ds")


def long(wide: pd.DataFrame) -> pd.DataFrame:
    return wide.reset_index().melt("ds", var_name="unique_id", value_name="y")


def fitted() -> TitansForecaster:
    model = TitansForecaster(
        horizon=6,
        lookback=24,
        context="stream",
        linear_path=True,
        combine=False,
        max_epochs=0,
        random_state=0,
        device="cpu",
        verbose=0,
    )
    return model.fit(long(frame(200)))


def tensors(model: TitansForecaster) -> dict[str, torch.Tensor]:
    return model.fitted_.long_term.state.tensors()


def test_all_series_at_once_and_one_after_the_other_hold_the_same() -> None:
    whole, parts, new = fitted(), fitted(), frame(205)[200:]
    whole.update(long(new))
    for name in "cadb":
        parts.update(long(new[[name]]))
    for name, x in tensors(parts).items():
        torch.testing.assert_close(tensors(whole)[name], x, rtol=1e-5, atol=1e-6, msg=name)


def test_some_series_at_a_time_leave_the_others_to_the_bit() -> None:
    model, new = fitted(), frame(203)[200:]
    before = {name: x.clone() for name, x in tensors(model).items()}
    model.update(long(new[["b", "d"]]))
    for name, x in tensors(model).items():
        assert torch.equal(x[[0, 2]], before[name][[0, 2]]), name
    assert not torch.equal(tensors(model)["ends"], before["ends"])


def test_series_at_different_places_of_a_chunk_are_read_by_groups() -> None:
    apart, together = fitted(), fitted()
    new = frame(208)[200:]
    apart.update(long(new[["a"]][:3])).update(long(new[["c"]][:1]))
    rest = pd.concat([long(new[["a"]][3:]), long(new[["b"]]), long(new[["c"]][1:]), long(new[["d"]])])
    apart.update(rest)
    together.update(long(new))
    for name, x in tensors(apart).items():
        torch.testing.assert_close(tensors(together)[name], x, rtol=1e-5, atol=1e-6, msg=name)


def test_an_update_leaves_the_model_before_it_as_it_was() -> None:
    model = fitted()
    first = model.fitted_
    before = {name: x.clone() for name, x in first.long_term.state.tensors().items()}
    for rows in range(200, 210):
        model.update(long(frame(rows + 1)[rows:]))
    for name, x in first.long_term.state.tensors().items():
        assert torch.equal(x, before[name]), name
