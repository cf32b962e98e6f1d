"""FittedModel: what a fit made, in one frozen object that forecasts, moves on and is saved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from .bounds import Bounds
from .combination import Combination
from .devices import isolated
from .intervals.calibration import Calibration, typical_sizes
from .intervals.fit import issued_forecasts
from .intervals.origins import AddedForecasts
from .intervals.predict import forecast_quantiles
from .model import Batch, SimbaForecaster, point_of
from .model.long_term import LongTermMemory
from .model.origins import season_of
from .model.stream_state import StreamState
from .predict import Correction, Seen, recent_rows, recursive_forecast
from .regression.dynamic import DynamicRegression
from .statistical.adjusted import Earlier
from .statistical.model import MOST_ROWS
from .stream.fit import config_of
from .stream.reading import Core, LongTerm, OriginReader, Reading, advance, first_rows, read_parts
from .stream.surprise import surprises
from .tables.covariates import covariates_ahead
from .tables.future import future_of_rows
from .tables.panel import MOST_SKIPPED, Panel
from .tables.series_data import SeriesData
from .training.choices import Choice
from .training.history import History
from .windows.scaler import Scaler
from .windows.windows import on_device

NO_BOUNDS = Bounds()
SURPRISE_SEASONS = 7.0  # after which an error counts half in the usual size of errors
MOST_AT_ONCE = 4096  # series
LEAST_ROWS = 3  # of a series that was not fitted, for an interval


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A trained network and what its forecasts begin from.

    Parameters
    ----------
    network : SimbaForecaster
    scaler : Scaler
        Mean and standard deviation of each series' train rows, of what covariates leave of them.
    panel : Panel
        The last rows of each series, as many as a forecast reads, minus what covariates explain.
    history : History
        The evaluations of the training.
    bounds : Bounds
        What forecasts keep to.
    choices : tuple of Choice
        What was chosen from the data, and by how much.
    combination : Combination, optional
        What the network's forecasts are averaged with.
    long_term : LongTerm, optional
        The memory that corrects the network's forecasts, and what it holds at the end of the panel.
    regression : DynamicRegression, optional
        What future and static covariates explain of the series; all else is of the rest.
    calibration : Calibration, optional
        What forecasts have erred by; None of a model that was saved by a version that had no intervals.
    """

    network: SimbaForecaster
    scaler: Scaler
    panel: Panel
    history: History
    bounds: Bounds = NO_BOUNDS
    choices: tuple[Choice, ...] = ()
    combination: Combination | None = None
    long_term: LongTerm | None = None
    regression: DynamicRegression | None = None
    calibration: Calibration | None = None

    @isolated()
    def forecast(
        self,
        steps: int,
        panel: Panel | None = None,
        series: np.ndarray | None = None,
        future: np.ndarray | None = None,
        correct: Correction | None = None,
    ) -> np.ndarray:
        """Forecast the steps after the last rows of the series fitted, or of others.

        Parameters
        ----------
        steps : int
        panel : Panel, optional
            Rows to forecast from instead.
        series : ndarray of int, shape (panel.n_series,), optional
            The number of each of its series among those fitted, -1 for one that was not; as in the panel fitted if
            None.
        future : ndarray, shape (n_series, steps, future columns), optional
            The future covariates of these steps, as `read_future` returns them.
        correct : callable, optional
            Given by who knows what the long-term memory adds from there; found from the rows if None.

        Returns
        -------
        ndarray, shape (n_series, steps, outputs), float64
            In the units of the data, within the bounds. Quantiles of the `levels` of the network's configuration where
            it has some, moved with the point where forecasts are combined or a long-term memory corrects them; past the
            horizon they are those of a forecast whose past were the point forecasts. `point_of` takes the point.
        """
        series = np.arange(self.panel.n_series) if series is None else series
        rest, scale = self._rest(panel, series)
        return self.bounds.clip(self._unbounded(rest, steps, series, future, correct, scale), rest)

    @isolated()
    def forecast_quantiles(
        self,
        steps: int,
        quantiles: tuple[float, ...],
        panel: Panel | None = None,
        series: np.ndarray | None = None,
        future: np.ndarray | None = None,
    ) -> np.ndarray:
        """Forecast the steps after the last rows, with quantiles by what earlier forecasts have erred by.

        Parameters
        ----------
        steps : int
        quantiles : tuple of float
            Rising.
        panel, series, future : optional
            As `forecast` takes them.

        Returns
        -------
        ndarray, shape (n_series, steps, 1 + quantiles), float64
            The point forecast first; in the units of the data, within the bounds.

        Raises
        ------
        ValueError
            If the model was saved by a version that had no intervals, or no error of a forecast is known.
        """
        if self.calibration is None:
            raise ValueError(
                "`level` and `quantiles` need the errors of earlier forecasts, but the model was saved by a version "
                "that kept none. Fit it again."
            )
        series = np.arange(self.panel.n_series) if series is None else series
        rest, effect_scale = self._rest(panel, series)
        calibration, everyone = self.calibration, self.panel.take(self.calibration.series)
        errors = calibration.errors_until(self.scaler.take(calibration.series).transform(everyone.data))
        place = np.full(len(self.scaler.mean) + 1, -1)
        place[calibration.series] = np.arange(len(calibration.series))
        scale = self.scaler.scale[series]
        own = (series >= 0) & (self.scaler.std[series] > 0)
        short = ~own & (rest.data.lengths < LEAST_ROWS)
        if short.any():
            raise ValueError(
                f"`level` and `quantiles` need {LEAST_ROWS} rows or more of a series that was not fitted, by which the "
                f"errors of others are scaled, but {rest.id_of(int(short.argmax()))!r} has "
                f"{rest.data.lengths[short.argmax()]}. Bring more of its rows, or fit it."
            )
        sizes = np.where(own, calibration.sizes[series] * scale, typical_sizes(rest.data))
        forecast = self._unbounded(rest, steps, series, future, None, effect_scale)
        found = forecast_quantiles(calibration, errors, forecast, quantiles, place[series], scale, sizes)
        return self.bounds.clip(found, rest)

    def _rest(self, panel: Panel | None, series: np.ndarray) -> tuple[Panel, np.ndarray]:
        """Rows minus what covariates explain, those fitted if `panel` is None, and the scale of their effects."""
        if self.regression is None:
            return self.panel if panel is None else panel, self.scaler.scale[series]
        if panel is None:
            return self.panel, self.regression.scaler.scale[series]
        return self.regression.without(panel, series), self.regression.scale(panel.data, series)

    def _unbounded(
        self,
        panel: Panel,
        steps: int,
        series: np.ndarray,
        future: np.ndarray | None,
        correct: Correction | None,
        scale: np.ndarray,
    ) -> np.ndarray:
        """As `forecast`, whatever the bounds, from rows minus what covariates explain, at the `scale` of effects."""
        seen = Seen.of(self.network, self.scaler, panel, series)
        ahead = None if panel.covariates is None else covariates_ahead(panel, steps, future)
        known = None if ahead is None or ahead.covariates is None else ahead.covariates.reshape(len(series), steps, -1)
        correct = self._correction(seen, panel) if correct is None else correct
        forecast = recursive_forecast(seen, panel, steps, correct, known)
        if self.combination is not None:
            if panel is self.panel and steps <= self.network.config.horizon:
                statistical = self._statistical[:, :steps]
            else:
                statistical = self.combination.statistical(panel.data, steps, Earlier(self.panel.data, series))
            point = point_of(forecast)[..., None].copy()
            # in this order the quantiles stay in theirs, and the point is the combination's to the bit
            forecast = self.combination.forecast(point[..., 0], statistical)[..., None] + (forecast - point)
        if self.regression is not None and ahead is not None:
            forecast = forecast + self.regression.ahead(panel.data, ahead, series, scale)[..., None]
        return forecast

    def _correction(self, seen: Seen, panel: Panel) -> Correction | None:
        """What the long-term memory adds to forecasts from the end of a panel's rows."""
        if self.long_term is None:
            return None
        memory, numbers = self.long_term.memory, seen.core.remembered
        # series without a scale of their own are seen at that of the rows here, at which nothing was written yet
        held = panel is self.panel and (numbers < len(self.scaler.mean)).all()
        state = self.long_term.state if held else self._state_after(seen, panel)
        remembered = torch.from_numpy(numbers).to(self.network.device)

        def correct(batch: Batch, forecast: Tensor) -> Tensor:
            features = memory.features(batch, forecast)
            return memory.added(state.take(batch.series), features, remembered[batch.series])

        return correct

    def _continues(self, seen: Seen, panel: Panel) -> np.ndarray:
        """Which of a panel's series reach on from the end of those fitted, without a gap: (n_series,) bool."""
        series, data = seen.core.remembered, panel.data
        fitted = series < len(self.scaler.mean)
        ends = self.panel.data.ends[np.where(fitted, series, 0)]
        return fitted & (data.starts <= ends) & (data.ends >= ends)

    def _state_after(self, seen: Seen, panel: Panel) -> StreamState:
        """What the memory holds after a panel's rows.

        Series that go on from the rows fitted are read from there; others from their first row on, with nothing held.
        """
        if self.long_term is None:
            raise AttributeError("there is no long-term memory in a model that knows its window alone.")
        memory, device = self.long_term.memory, self.network.device
        on = self._continues(seen, panel)
        state = memory.begin(panel.n_series, torch.from_numpy(panel.data.starts).to(device))
        for fresh, index in ((True, np.flatnonzero(~on)), (False, np.flatnonzero(on))):
            if not len(index):
                continue
            part, core, scaler = panel.take(index), seen.core.take(index), seen.scaler.take(index)
            where = torch.from_numpy(index).to(device)
            if fresh:
                first, begun = first_rows(part.data, self.network.config.lookback), state.take(where)
            else:
                mine = self.panel.take(core.remembered)
                new = part.data.ends - mine.data.ends
                part = replace(part, data=mine.data.then(part.data.tail(new)))
                first = mine.data.lengths
                begun = self.long_term.state.take(torch.from_numpy(core.remembered).to(device))
            reader = OriginReader(core, memory, self._data(scaler, part))
            groups = read_parts(reader, first, part.data.lengths, fresh)
            state = state.put(where, advance(memory, begun, reader.data, part.data.lengths, groups))
        return state

    def _data(self, scaler: Scaler, panel: Panel) -> SeriesData[Tensor]:
        """A panel's rows as the network reads them."""
        return on_device(scaler.transform_panel(panel), self.network.device, self.network.config.covariates)

    def kept_rows(self, panel: Panel) -> np.ndarray:
        """Rows of each series that forecasts and updates read, (n_series,)."""
        rows = recent_rows(panel, self.network)
        if self.regression is not None:
            rows = np.maximum(rows, self.regression.basis.reach)
        if self.long_term is not None or self.calibration is not None:
            # what came in the horizon before an origin is written then, or the truth of a forecast in flight
            rows = np.maximum(rows, self.network.config.horizon)
        return rows if self.combination is None else np.maximum(rows, MOST_ROWS)

    @isolated()
    def update(self, rows: Panel, series: np.ndarray, missing: str = "error") -> FittedModel:
        """The model at the end of further rows, which the long-term memory has read; nothing else is learned.

        Parameters
        ----------
        rows : Panel
        series : ndarray of int, shape (rows.n_series,)
            The number of each of its series among those fitted.
        missing : {"error", "interpolate", "ffill"}
            As `Panel.then` takes it, whose errors it raises, and those of `Scaler.transform_panel`.

        Returns
        -------
        FittedModel
            Another one; this stays as it is.
        """
        if self.regression is not None:
            rows = self.regression.following(self.panel, rows, series, missing)
        panel = self.panel.then(rows, series, missing)
        self.scaler.take(series).transform_panel(rows)  # which refuses what no forecast could begin from
        long_term, calibration, due = self.long_term, self.calibration, None
        if calibration is not None and self.combination is None:
            due = calibration.due(*(x.data.ends[calibration.series] for x in (self.panel, panel)))
        if long_term is None and due is None:
            return replace(self, panel=panel.tail(self.kept_rows(panel)))
        new = panel.data.lengths - self.panel.data.lengths
        read = panel.tail(self.kept_rows(panel) + new)
        core = Core.of(self.network, np.arange(panel.n_series))
        data = self._data(self.scaler, read)
        added = None
        if long_term is not None:
            if calibration is not None and due is not None:
                added = AddedForecasts(long_term.memory, calibration.series, due.rows(data))
            reader = OriginReader(core, long_term.memory, data)
            groups = read_parts(reader, data.lengths - new, data.lengths, fresh=False)
            note = None if added is None else added.note
            state = advance(long_term.memory, long_term.state, data, data.lengths, groups, note)
            long_term = replace(long_term, state=state)
        if calibration is not None and due is not None:
            ahead = None if added is None else added.values
            issued = issued_forecasts(due, core, data, ahead)
            known = self.scaler.take(due.series).transform(read.data.take(due.series))
            calibration = calibration.then(known, issued, due.time_index)
        kept = panel.tail(self.kept_rows(panel))
        return replace(self, panel=kept, long_term=long_term, calibration=calibration)

    @isolated()
    @torch.no_grad()
    def surprise(self, panel: Panel, series: np.ndarray) -> np.ndarray:
        """Errors of one-step forecasts of a panel's rows over their usual size until then, (rows,); NaN where unknown.

        Series that begin where those fitted end are forecast from there, others from their own first rows on, with
        nothing held in memory at first.

        Parameters
        ----------
        panel : Panel
        series : ndarray of int, shape (panel.n_series,)
            The number of each of its series among those fitted.
        """
        if self.regression is not None:
            panel = self.regression.without(panel, series, self.panel)
        found = np.full(len(panel.data.values), np.nan)
        follows = panel.data.starts == self.panel.data.ends[series]
        if panel.layout.kind == "array":  # which has no times
            follows[:] = False
        season = season_of(self.network.config.cycle)
        for fresh, index in ((True, np.flatnonzero(~follows)), (False, np.flatnonzero(follows))):
            if not len(index):
                continue
            part, numbers = panel.take(index), series[index]
            before = np.zeros(len(index), dtype=np.int64)
            if not fresh:
                mine = self.panel.take(numbers)
                before, part = mine.data.lengths, replace(part, data=mine.data.then(part.data))
            errors = self.first_errors(part, numbers, before)
            seen = surprises(errors, part.data, SURPRISE_SEASONS * season)
            new = part.data.row_in_series >= np.repeat(before, part.data.lengths)
            mine_of = np.isin(panel.data.series_of_row, index)
            found[mine_of] = seen[new]
        return found

    @torch.no_grad()
    def first_errors(self, panel: Panel, series: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
        """Errors of the forecasts of each row from the row before it, (rows,), scaled; NaN where there is none.

        Parameters
        ----------
        panel : Panel
        series : ndarray of int, shape (panel.n_series,)
            The number of each of its series among those fitted.
        before : ndarray of int, shape (panel.n_series,), optional
            How many of the first rows of each series are those fitted: the memory, if there is one, holds after them
            what it does at the end of the rows fitted, and their own forecasts are the network's alone. None of any if
            None; the memory then holds nothing at first.
        """
        before = np.zeros(panel.n_series, dtype=np.int64) if before is None else before
        data = self._data(self.scaler.take(series), panel)
        own = self.long_term
        memory = LongTermMemory(config_of(self.network)).to(self.network.device) if own is None else own.memory
        reader = OriginReader(Core.of(self.network, series), memory, data)
        forecast = torch.full_like(data.values, torch.nan)

        def note(part: Reading, added: Tensor | float) -> None:
            rows = torch.from_numpy(part.rows).to(forecast.device)
            lengths = torch.from_numpy(data.lengths[part.index]).to(forecast.device).unsqueeze(1)
            begin = torch.from_numpy(data.offsets[part.index]).to(forecast.device).unsqueeze(1)
            there = (rows >= 1) & (rows < lengths) & part.origins.live
            forecast[(begin + rows)[there]] = (part.first + added)[there]

        fresh = not before.any()
        # as many rows whatever follows, so that nothing later has a say in what is known
        first = np.minimum(self.network.config.lookback // 2, data.lengths) if fresh else before
        if own is None or not fresh:
            begun = np.zeros_like(before) if not fresh else first
            for _, parts in read_parts(reader, begun, data.lengths if own is None else before, fresh=True):
                for part in parts:
                    note(part, 0.0)
        if own is not None:
            numbers = torch.from_numpy(series).to(self.network.device)
            ends = torch.from_numpy(data.starts).to(self.network.device)
            state = memory.begin(panel.n_series, ends) if fresh else own.state.take(numbers)
            if not fresh:  # the first row is forecast from the end of those fitted
                for i in np.split(np.arange(panel.n_series), range(MOST_AT_ONCE, panel.n_series, MOST_AT_ONCE)):
                    part = reader.read(i, before[i], 1)
                    index = torch.from_numpy(i).to(self.network.device)
                    ahead = memory.added(state.take(index), part.origins.features[:, 0], part.origins.series)
                    note(part, ahead[:, :1])
            advance(
                memory,
                state,
                data,
                data.lengths,
                read_parts(reader, first, data.lengths, fresh),
                lambda part, added: note(part, memory.expand(added)[..., 0]),
            )
        errors = (data.values - forecast).double().cpu().numpy()
        return np.where(panel.data.is_observed, errors, np.nan)

    @cached_property
    def _statistical(self) -> np.ndarray:
        """What statistical forecasts add to those after the last rows fitted: (n_series, horizon)."""
        if self.combination is None:
            raise AttributeError("there are no statistical forecasts without a combination.")
        series = np.arange(self.panel.n_series)
        return self.combination.statistical(
            self.panel.data, self.network.config.horizon, Earlier(self.panel.data, series)
        )

    def squared_errors(self, panel: Panel, series: np.ndarray) -> np.ndarray:
        """Squared errors of forecasting a panel's rows from the end of the rows fitted, over the training variance.

        Parameters
        ----------
        panel : Panel
            Rows after those fitted; those of an array are taken to follow at once.
        series : ndarray of int, shape (panel.n_series,)
            The number of each of its series among those fitted.

        Returns
        -------
        ndarray, shape (observed rows,)

        Raises
        ------
        ValueError
            If rows of a series overlap those fitted, or lie more than 100,000 steps after them: names it.
        """
        data, begin = panel.data, self.panel.data.ends[series]
        ahead = np.zeros(panel.n_series, dtype=np.int64) if panel.layout.kind == "array" else data.starts - begin
        if (ahead < 0).any():
            which = panel.id_of(int(ahead.argmin()))
            raise ValueError(
                f"`df` must come after the rows fitted, but series {which!r} overlaps them by {-ahead.min()}."
            )
        if (ahead > MOST_SKIPPED).any():
            i = int(ahead.argmax())
            raise ValueError(
                f"`df` must begin at most {MOST_SKIPPED} steps after the rows fitted, but series {panel.id_of(i)!r} "
                f"begins {ahead[i]} after them; bring `update` the rows between, or correct its times."
            )
        steps = int((ahead + data.lengths).max())
        fitted = self.panel.take(series)
        future, (_, scale) = future_of_rows(panel, fitted, steps), self._rest(None, series)
        forecast = point_of(self.bounds.clip(self._unbounded(fitted, steps, series, future, None, scale), fitted))
        step = data.row_in_series + np.repeat(ahead, data.lengths)
        scaler = self.scaler if self.regression is None else self.regression.scaler
        errors = (data.values - forecast[data.series_of_row, step]) / np.repeat(scaler.scale[series], data.lengths)
        squared: np.ndarray = errors**2
        return squared if data.observed is None else squared[data.observed]

    @isolated()
    def to(self, device: torch.device) -> None:
        """Move the network and the long-term memory, in place."""
        self.network.to(device)
        if self.long_term is not None:
            self.long_term.memory.to(device)
            object.__setattr__(self, "long_term", replace(self.long_term, state=self.long_term.state.to(device)))
