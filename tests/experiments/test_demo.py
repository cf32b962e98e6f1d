"""The demonstration: what it reads, what it prints, what it draws."""

from __future__ import annotations

from pathlib import Path

import demo
import numpy as np
import pandas as pd
import pytest

from titans_ts import TitansForecaster


@pytest.fixture
def example() -> demo.Example:
    """Five weeks of a daily season, the last two of which are held out."""
    hour = np.arange(5 * demo.WEEK)
    series = pd.Series(np.sin(hour * 2 * np.pi / 24), pd.date_range("2024-01-01", periods=len(hour), freq="h"))
    return demo.Example("Made up", "load", series, horizon=48, season=24)


def test_it_says_how_good_it_is_and_draws(
    example: demo.Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    noisy = example.series + np.random.default_rng(0).normal(0, 0.3, len(example.series))
    monkeypatch.setattr(demo, "find_series", lambda root: example._replace(series=noisy))
    demo.main(["--picture", str(tmp_path / "demo.png")])
    printed = capsys.readouterr().out
    assert f"Made up: {3 * demo.WEEK} hours to learn from, {2 * demo.WEEK} held out" in printed
    line = next(line for line in printed.splitlines() if line.startswith("titans_ts "))
    ours, theirs = (float(part.split()[-1]) for part in line.split(":")[0].split(","))
    assert line.endswith("better")
    assert 0.2 < ours < theirs  # the noise's mean absolute value is .24
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_errors_are_those_of_every_midnight_held_out(example: demo.Example) -> None:
    class Zero:
        origins: list[pd.Timestamp]

        def predict(self, df: pd.Series) -> pd.Series:
            index = pd.date_range(df.index[-1], periods=49, freq="h")[1:]
            self.origins.append(index[0])
            return pd.Series(0.0, index)

    model = Zero()
    model.origins = []
    ours, theirs = demo.held_out_errors(model, example)  # type: ignore[arg-type]
    assert model.origins == pd.date_range("2024-01-22", periods=13, freq="D").tolist()
    assert ours == pytest.approx(example.series.abs().mean(), rel=0.02)
    assert theirs == pytest.approx(0, abs=1e-9)


def test_rentals_are_hourly_and_hours_without_any_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "hour.csv"
    path.write_text("dteday,hr,cnt\n1/1/2011,0,16\n1/1/2011,1,40\n1/1/2011,3,13\n10/1/2012,0,5\n")
    read = demo.read_rentals(path).series
    assert read[:4].tolist() == pytest.approx([16, 40, np.nan, 13], nan_ok=True)
    assert read.index[-1] == pd.Timestamp("2012-09-30 23:00")
    path.write_text("dteday,hr,cnt\n2011-01-01,5,16\n2011-01-01,6,40\n")  # as another mirror has it
    assert demo.read_rentals(path).series.index[0] == pd.Timestamp("2011-01-01 05:00")


@pytest.mark.data
def test_the_pictures_data_are_read(data_folder: Path) -> None:
    path = data_folder / "bike_sharing" / "hour.csv"
    if not path.exists():
        pytest.skip("needs bike_sharing/hour.csv beside the published data files")
    series = demo.read_rentals(path).series
    assert (len(series), int(series.isna().sum())) == (15336, 125)


def test_without_files_a_series_is_made_up_and_a_folder_without_one_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TITANS_TS_DATA", raising=False)
    monkeypatch.setattr(demo, "load_dataset", _absent)
    example = demo.find_series(None)
    assert example.title == "Made-up load"
    assert len(example.series) == demo.ROWS
    with pytest.raises(FileNotFoundError, match="ETTh1"):
        demo.find_series(tmp_path)


def _absent(name: str, **how: object) -> None:
    raise FileNotFoundError(f"{name} is nowhere.")


def test_the_forecast_is_of_what_was_held_out(example: demo.Example, tmp_path: Path) -> None:
    fitted = example.series.iloc[: -demo.HELD_OUT]
    model = TitansForecaster(horizon=48, lookback=48, max_epochs=0, verbose=0).fit(fitted)
    forecast = model.predict()
    truth = example.series.iloc[len(fitted) : len(fitted) + 48]
    assert forecast.index.equals(truth.index)
    np.testing.assert_allclose(forecast, truth, atol=0.02)  # a clean season is forecast
