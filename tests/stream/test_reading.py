"""Origins are read with what is known there and no more, each once, whatever the parts they are read in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from titans_ts.fitted import FittedModel
from titans_ts.model.long_term import LongTermMemory
from titans_ts.model.stream_state import StreamState
from titans_ts.stream import reading
from titans_ts.stream.fit import config_of
from titans_ts.stream.reading import Core, OriginReader, Reading, advance, first_rows, read_parts
from titans_ts.tables.panel import Panel

from .small_core import HORIZON, LOOKBACK, core_of, hourly, ragged, read, scaled

ROUNDING = dict(rtol=0, atol=1e-5)  # float32


@pytest.fixture(scope="module")
def core() -> FittedModel:
    return core_of(ragged())


def reader_of(core: FittedModel, panel: Panel, blocks: tuple[int, ...] = ()) -> OriginReader:
    return reader_for(core, panel, memory_of(core, blocks))


def memory_of(core: FittedModel, blocks: tuple[int, ...] = ()) -> LongTermMemory:
    config = config_of(core.network)
    given = {name: getattr(config, name) for name in ("lookback", "horizon", "n_series", "cycle")}
    memory = LongTermMemory(type(config)(**given, block_ends=blocks, rates=(3.0, 10.0)))
    generator = torch.Generator().manual_seed(0)
    for block in memory.parts:
        block.whitening.copy_(torch.randn(block.whitening.shape, generator=generator) / 5)
    return memory


def reader_for(core: FittedModel, panel: Panel, memory: LongTermMemory) -> OriginReader:
    return OriginReader(Core.of(core.network, np.arange(panel.n_series)), memory, scaled(core, panel))


@pytest.mark.parametrize("blocks", [(), (1, 4)])
def test_an_origin_has_the_forecast_of_its_window_and_what_came_before_and_after(
    core: FittedModel, blocks: tuple[int, ...]
) -> None:
    panel = read(ragged())
    reader, memory = reader_of(core, panel, blocks), memory_of(core, blocks)
    found = reader.read(np.array([0, 1, 2]), panel.data.lengths, 60)
    data = core.scaler.transform_panel(panel)
    assert found.rows[:, -1].tolist() == panel.data.lengths.tolist()
    for s in range(3):
        own = data.values[data.rows_of(s)]
        for at in (1, 20, 59):
            row = int(found.rows[s, at])
            window = panel.take(np.array([s])).head(np.array([row]))
            forecast = core.forecast(HORIZON, window, np.array([s]))[0, :, 0]
            ahead = (forecast - core.scaler.mean[s]) / core.scaler.scale[s]
            assert found.first[s, at].item() == pytest.approx(ahead[0], abs=1e-5)
            whole = sum(float(found.errors[s, at, i]) for i in range(len(memory.parts)))
            there = row + HORIZON <= len(own)
            if there:
                assert whole == pytest.approx(((own[row : row + HORIZON] - ahead) ** 2).sum(), abs=1e-4)
            for i, (block, (begin, end)) in enumerate(zip(memory.parts, memory.config.blocks, strict=True)):
                basis = block.basis.numpy()
                np.testing.assert_allclose(found.origins.forecasts[i][s, at], ahead[begin:end] @ basis, **ROUNDING)
                if row >= end - begin:
                    came = own[row - (end - begin) : row] @ basis
                    np.testing.assert_allclose(found.origins.came[i][s, at], came, **ROUNDING)
                assert bool(found.origins.known[i][s, at]) == (row >= end + 1)
                rest = found.residuals[i][s, at].numpy()
                if row + end <= len(own):
                    np.testing.assert_allclose(
                        rest, (own[row + begin : row + end] - ahead[begin:end]) @ basis, **ROUNDING
                    )
                else:
                    assert np.isnan(rest).all()


def test_there_are_no_origins_before_the_first_row(core: FittedModel) -> None:
    panel = read(ragged())
    found = reader_of(core, panel).read(np.array([2]), np.array([5]), 9)
    assert found.rows.tolist() == [[-3, -2, -1, 0, 1, 2, 3, 4, 5]]
    assert found.origins.live.tolist() == [[False] * 4 + [True] * 5]
    assert found.origins.known[0].tolist() == [[False] * 8 + [True]]
    assert torch.isnan(found.residuals[0][0, :4]).all()


def test_what_was_filled_in_is_no_origin_and_no_truth(core: FittedModel) -> None:
    table = ragged()
    table.loc[20:22, "y"] = np.nan  # of the first series
    panel = read(table, missing="ffill")
    found = reader_of(core, panel).read(np.array([0]), np.array([40]), 40)
    rows = found.rows[0]
    assert rows[~found.origins.live[0].numpy()].tolist() == [21, 22, 23]
    unknown = rows[~found.origins.known[0][0].numpy()]
    assert unknown.tolist() == [*range(1, HORIZON + 1), 21, 22, 23, 24, 25]  # at 25, half of the rows were observed
    nothing = rows[torch.isnan(found.errors[0, :, 0]).numpy()]
    assert nothing.tolist() == [17, 18, 19, 20, 21, 22, 23]


@pytest.mark.parametrize("path", [True, "across"])
def test_no_origin_sees_a_later_row(path: object) -> None:
    """Of any series."""
    table = hourly(150, "abc")
    core = core_of(table, linear_path=path)
    other = table.copy()
    other.iloc[100:] = -50.0
    readers = [reader_of(core, read(t), (1, 4)) for t in (table, other)]
    everyone = np.arange(3)
    found = [reader.read(everyone, np.full(3, 150), 149) for reader in readers]
    seen = found[0].rows[0] <= 100
    for a, b in zip(_known(found[0]), _known(found[1]), strict=True):
        assert torch.equal(a[:, seen], b[:, seen])
        assert not torch.equal(a, b) or a.dtype == torch.bool
    memory = memory_of(core, (1, 4))
    states = []
    for reader in readers:
        groups = read_parts(reader, np.full(3, LOOKBACK), np.full(3, 100), fresh=True)
        begun = memory.begin(3, torch.from_numpy(reader.data.starts))
        states.append(advance(memory, begun, reader.data, np.full(3, 100), groups))
    for name, tensor in states[0].tensors().items():
        assert torch.equal(states[1].tensors()[name], tensor), name
    assert states[0].blocks[0].weights[0].any()


def _known(found: Reading) -> list[torch.Tensor]:
    origins = found.origins
    return [origins.features, *origins.forecasts, *origins.came, *origins.known, origins.live, found.first]


# Parts


def through(
    core: FittedModel, panel: Panel, memory: LongTermMemory
) -> tuple[StreamState, dict[tuple[int, int], float]]:
    """What is held after all rows, and what was added to the first step from each origin."""
    reader, added = reader_for(core, panel, memory), dict[tuple[int, int], float]()

    def keep(part: Reading, parts: tuple[torch.Tensor, ...]) -> None:
        steps = memory.expand(parts)[..., 0]
        for i, s in enumerate(part.index):
            for at, row in enumerate(part.rows[i]):
                if part.origins.live[i, at]:
                    assert (int(s), int(row)) not in added
                    added[int(s), int(row)] = float(steps[i, at])

    first, last = first_rows(panel.data, LOOKBACK), panel.data.lengths
    begun = memory.begin(panel.n_series, torch.from_numpy(panel.data.starts))
    return advance(memory, begun, reader.data, last, read_parts(reader, first, last, fresh=True), keep), added


def test_every_origin_is_read_once_whatever_the_parts(core: FittedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    panel, memory = read(ragged()), memory_of(core)
    whole, expected = through(core, panel, memory)
    first = first_rows(panel.data, LOOKBACK)
    rows = [(s, row) for s in range(3) for row in range(int(first[s]) + 1, int(panel.data.lengths[s]) + 1)]
    assert sorted(expected) == rows
    assert whole.ends.tolist() == panel.data.ends.tolist()
    assert max(map(abs, expected.values())) > 0.01
    for most in (1, 7, 50, 200):
        monkeypatch.setattr(reading, "MOST_TOKENS", most)
        state, found = through(core, panel, memory)
        assert found.keys() == expected.keys()
        np.testing.assert_allclose(list(map(found.get, rows)), list(map(expected.get, rows)), **ROUNDING)
        for name, tensor in whole.tensors().items():
            np.testing.assert_allclose(state.tensors()[name], tensor, **ROUNDING, err_msg=name)


def test_a_series_is_read_the_same_alone(core: FittedModel) -> None:
    panel, memory = read(ragged()), memory_of(core)
    whole, _ = through(core, panel, memory)
    for s in range(3):
        index = np.array([s])
        alone = panel.take(index)
        reader = OriginReader(Core.of(core.network, index), memory, scaled(core, alone, index))
        first, last = first_rows(alone.data, LOOKBACK), alone.data.lengths
        begun = memory.begin(1, torch.from_numpy(alone.data.starts))
        state = advance(memory, begun, reader.data, last, read_parts(reader, first, last, fresh=True))
        for name, tensor in whole.take(torch.tensor([s])).tensors().items():
            np.testing.assert_allclose(state.tensors()[name], tensor, **ROUNDING, err_msg=name)


def test_a_group_has_series_at_the_same_place_of_a_chunk(core: FittedModel) -> None:
    panel = read(ragged())
    reader = reader_of(core, panel)
    size = reader.memory.config.chunk_size
    first, last = np.array([100, 90, 80]), np.array([108, 98, 80])
    groups = [index.tolist() for index, _ in read_parts(reader, first, last, fresh=False)]
    places = [(int(s + e) % size, s) for s, e in zip(panel.data.starts, last, strict=True)]
    assert size == 6
    assert len({place for place, _ in places[:2]}) == len(groups)
    assert sorted(s for group in groups for s in group) == [0, 1]  # of the third, there is nothing to read
    uneven = [index.tolist() for index, _ in read_parts(reader, first, first + np.array([6, 12, 0]), fresh=False)]
    assert sorted(uneven) == [[0], [1]]


def test_a_stream_begins_after_a_lookback_or_half_a_short_series(monkeypatch: pytest.MonkeyPatch) -> None:
    data = read(ragged()).data
    assert data.lengths.tolist() == [150, 113, 94]
    assert first_rows(data, 12).tolist() == [12, 12, 12]
    assert first_rows(data, 100).tolist() == [75, 56, 47]
    monkeypatch.setattr(reading, "MOST_ORIGINS", 300)
    assert first_rows(data, 12).tolist() == [50, 13, 12]


def test_series_of_a_core_may_come_in_any_order(core: FittedModel) -> None:
    panel = read(ragged())
    index = np.array([2, 0])
    some, all_ = Core.of(core.network, np.arange(3)).take(index), reader_of(core, panel)
    reader = OriginReader(some, memory_of(core), scaled(core, panel.take(index), index))
    found = reader.read(np.array([0, 1]), panel.data.lengths[index], 20)
    expected = all_.read(index, panel.data.lengths[index], 20)
    for a, b in zip(_known(found), _known(expected), strict=True):
        np.testing.assert_allclose(a, b, **ROUNDING)
    assert found.origins.series.tolist() == [2, 0]


def test_seasons_follow_the_clocks_of_a_zone() -> None:
    """Features have the phase of the local clock, before and after its change."""
    table = hourly(24 * 20)
    zoned = table.set_axis(pd.date_range("2024-03-20", periods=len(table), freq="h", tz="Europe/Berlin"))
    core = core_of(zoned)
    assert core.network.config.cycle == 24
    panel = read(zoned)
    found = reader_of(core, panel).read(np.array([0]), panel.data.lengths[:1], 400)
    sine, cosine = found.origins.features[0][:, [1, 4]].T.numpy()
    angle = np.arctan2(sine, cosine)
    hours = np.array([(panel.calendar.label(int(row))).hour for row in found.rows[0] + panel.data.starts[0]])
    turns: np.ndarray = (angle / (2 * np.pi) * 24 - hours) % 24
    turns = (turns - turns[0] + 12) % 24 - 12
    np.testing.assert_allclose(turns, 0, atol=1e-3)
    assert len({(row.utcoffset()) for row in zoned.index}) == 2
