"""Origins and what is forecast from them: spaced as said, as a recursive forecast from there would be."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from titans_ts.intervals.origins import NONE, AddedForecasts, network_forecasts, spaced_origins
from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.model.long_term import LongTermMemory
from titans_ts.model.long_term_config import LongTermConfig
from titans_ts.predict import Seen, recursive_forecast
from titans_ts.stream.reading import Core, OriginReader, advance, read_parts
from titans_ts.tables.panel import Panel
from titans_ts.tables.read import read_table
from titans_ts.windows.scaler import Scaler
from titans_ts.windows.windows import on_device

HORIZON, LOOKBACK = 3, 8


def test_origins_lie_evenly_between_the_first_and_the_last() -> None:
    found = spaced_origins(np.array([10, 10, 10, 20]), np.array([20, 13, 12, 26]), HORIZON, 4)
    assert found.tolist() == [[10, 12, 14, 17], [NONE, NONE, NONE, 10], [NONE] * 4, [20, 21, 22, 23]]


def test_no_room_and_no_rows_give_no_origins() -> None:
    assert spaced_origins(np.array([5]), np.array([6]), HORIZON, 4).shape == (1, 0)


@pytest.fixture(scope="module")
def panel() -> Panel:
    rng = np.random.default_rng(0)
    ids = np.repeat(["a", "b", "c"], [40, 6, 25])
    times = np.concatenate([pd.date_range("2024-01-01", periods=n, freq="h") for n in (40, 6, 25)])
    return read_table(pd.DataFrame({"unique_id": ids, "ds": times, "y": rng.normal(size=len(ids))}))


def network_of(n_series: int, **parameters: object) -> SimbaForecaster:
    torch.manual_seed(0)
    config = ModelConfig(lookback=LOOKBACK, horizon=HORIZON, n_series=n_series, d_model=8, n_layers=1, **parameters)
    network = SimbaForecaster(config).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return network


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_a_forecast_is_that_from_the_end_of_the_rows_it_has_seen(panel: Panel, n_outputs: int) -> None:
    network, scaler = network_of(3, n_outputs=n_outputs), Scaler.fit(panel.data, panel.data.lengths)
    data = on_device(scaler.transform(panel.data), torch.device("cpu"))
    index, rows = np.array([0, 1, 2]), np.array([[5, 20, 40], [NONE, 1, 6], [NONE, 26, 25]])
    found = network_forecasts(Core.of(network, np.arange(3)), data, index, rows)
    assert found.shape == (3, 3, HORIZON, n_outputs)
    for i, j in np.ndindex(rows.shape):
        if not 1 <= rows[i, j] <= panel.data.lengths[i]:
            assert np.isnan(found[i, j]).all()
            continue
        part = panel.take(index[[i]]).head(rows[i, [j]])
        expected = recursive_forecast(Seen.of(network, scaler, part, index[[i]]), part, HORIZON)
        expected = (expected - scaler.mean[i]) / scaler.scale[i]
        np.testing.assert_allclose(found[i, j], expected[0], rtol=0, atol=1e-5)


def test_nothing_is_forecast_after_a_row_that_was_filled_in(panel: Panel) -> None:
    data = on_device(panel.data, torch.device("cpu"))
    observed = np.ones(len(data.values), dtype=bool)
    observed[19] = False
    data = type(data)(data.values, data.lengths, data.starts, observed)
    found = network_forecasts(Core.of(network_of(3), np.arange(3)), data, np.array([0]), np.array([[19, 20, 21]]))
    assert np.isfinite(found[0, :, 0, 0]).tolist() == [True, False, True]


def test_what_the_memory_adds_is_noted_at_the_origins_asked_for(panel: Panel) -> None:
    network = network_of(3)
    memory = LongTermMemory(LongTermConfig(lookback=LOOKBACK, horizon=HORIZON, n_series=3))
    data = on_device(panel.data, torch.device("cpu"))
    first = np.array([4, 3, 4])

    def read(note: object) -> None:
        reader = OriginReader(Core.of(network, np.arange(3)), memory, data)
        begun = memory.begin(3, torch.from_numpy(data.starts + first))
        groups = read_parts(reader, first, data.lengths, fresh=True)
        advance(memory, begun, data, data.lengths, groups, note)  # type: ignore[arg-type]

    reader = OriginReader(Core.of(network, np.arange(3)), memory, data)
    stream = [(index, list(parts)) for index, parts in read_parts(reader, first, data.lengths, fresh=True)]
    parts = [part for _, group in stream for part in group]
    memory.initialise([part.origins for part in parts], [part.residuals for part in parts])
    expected = np.zeros((3, 41, HORIZON))

    def keep(part: object, added: object) -> None:
        whole = memory.expand(added).numpy()  # type: ignore[arg-type]
        for i, series in enumerate(part.index):  # type: ignore[attr-defined]
            for j, row in enumerate(part.rows[i]):  # type: ignore[attr-defined]
                if row > first[series]:
                    expected[series, row] = whole[i, j]

    read(keep)
    rows = np.array([[NONE, 12, 40], [20, 24, 25]])
    noted = AddedForecasts(memory, np.array([0, 2]), rows)
    read(noted.note)
    assert np.abs(expected).max() > 0
    for i, series in enumerate((0, 2)):
        for j, row in enumerate(rows[i]):
            assert noted.values[i, j] == pytest.approx(expected[series, row] if row >= 1 else 0, abs=1e-6)
