from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from titans_ts.datasets import SPECS, DatasetSpec
from titans_ts.datasets.read import read_frame, read_sha256


def zipped(**files: bytes) -> bytes:
    """An archive of `files`; a `/` in a name stands as `__` and the suffix is `.csv`."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(f"{name.replace('__', '/')}.csv", content)
    return buffer.getvalue()


def text(dates: list[str], values: np.ndarray, channels: tuple[str, ...], line_end: str = "\n") -> bytes:
    lines = [",".join(["date", *channels])]
    lines += [",".join([date, *map(repr, row)]) for date, row in zip(dates, values.tolist(), strict=True)]
    return "".join(f"{line}{line_end}" for line in lines).encode()


def few(name: str, rows: int) -> DatasetSpec:
    return replace(SPECS[name], rows=rows)


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("last_line_ends", [True, False])
@pytest.mark.parametrize("unpadded", [False, True])
def test_rows_come_back_as_they_were_written(
    name: str, line_end: str, last_line_ends: bool, unpadded: bool, tmp_path: Path
) -> None:
    spec = few(name, 30)
    start = "2002-01-01" if name == "national_illness" else "1990-01-01"
    dates = pd.date_range(start, periods=30, freq=spec.freq, name="date")
    # `1990/1/1 0:00`, as the exchange rates have it.
    written = [f"{d.year}/{d.month}/{d.day} {d.hour}:{d.minute:02}" if unpadded else str(d) for d in dates]
    values = np.random.default_rng(0).normal(size=(30, len(spec.channels))).round(6)
    content = text(written, values, spec.channels, line_end)
    path = tmp_path / spec.filename
    path.write_bytes(content if last_line_ends else content.removesuffix(line_end.encode()))

    frame = read_frame(spec, path)

    assert frame.index.equals(dates)
    assert frame.index.name == "date"
    assert frame.index.freq == (dates.freq if spec.regular else None)
    assert tuple(frame.columns) == spec.channels
    assert (frame.dtypes == np.float64).all()
    # pandas may round the last digit the other way.
    np.testing.assert_allclose(frame.to_numpy(), values, rtol=1e-15)


def test_whole_numbers_become_floats(tmp_path: Path) -> None:
    spec = few("exchange_rate", 3)
    values = np.arange(24).reshape(3, 8)
    (tmp_path / "a.csv").write_bytes(text(["1990/1/1 0:00", "1990/1/2 0:00", "1990/1/3 0:00"], values, spec.channels))
    frame = read_frame(spec, tmp_path / "a.csv")
    assert (frame.dtypes == np.float64).all()
    assert (frame.to_numpy() == values).all()


def test_the_columns_come_in_the_order_of_the_spec(small: DatasetSpec, frame: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "ETTh1.csv").write_text(frame[list(reversed(frame.columns))].to_csv())
    pd.testing.assert_frame_equal(read_frame(small, tmp_path / "ETTh1.csv"), frame, rtol=1e-15)


def test_a_byte_order_mark_is_no_part_of_the_header(small: DatasetSpec, frame: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "ETTh1.csv").write_text(frame.to_csv(), encoding="utf-8-sig")
    pd.testing.assert_frame_equal(read_frame(small, tmp_path / "ETTh1.csv"), frame, rtol=1e-15)


def test_a_clock_that_is_not_regular_is_kept_in_the_order_of_the_file(tmp_path: Path) -> None:
    spec = few("weather", 5)
    dates = ["2020-05-12 05:50", "2020-05-12 06:00", "2020-05-12 06:00", "2020-05-29 09:30", "2020-05-29 11:10"]
    values = np.arange(105.0).reshape(5, 21)
    values[3, 4] = -9999.0
    (tmp_path / "weather.csv").write_bytes(text(dates, values, spec.channels))
    frame = read_frame(spec, tmp_path / "weather.csv")
    assert frame.index.equals(pd.DatetimeIndex(dates))
    assert frame.index.freq is None
    assert (frame.to_numpy() == values).all()


def test_even_then_no_row_may_come_before_an_earlier_one(tmp_path: Path) -> None:
    spec = few("weather", 2)
    (tmp_path / "weather.csv").write_bytes(
        text(["2020-05-12 06:00", "2020-05-12 05:50"], np.ones((2, 21)), spec.channels)
    )
    with pytest.raises(ValueError, match=r"weather\.csv must have its rows in the order of their dates"):
        read_frame(spec, tmp_path / "weather.csv")


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        (".csv", lambda content: content),
        (".gz", gzip.compress),
        (".csv.gz", gzip.compress),
        (".zip", lambda content: zipped(ETTh1=content)),
        (".csv.zip", lambda content: zipped(ETTh1=content)),
        (".zip", lambda content: zipped(readme=b"", ETT__ETTh2=b"", ETT__ETTh1=content, __MACOSX__ETT__ETTh1_=b"")),
    ],
)
def test_compressed_files_read_and_hash_as_the_plain_one(
    suffix: str, pack: Callable[[bytes], bytes], small: DatasetSpec, frame: pd.DataFrame, content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / f"ETTh1{suffix}"
    path.write_bytes(pack(content))
    pd.testing.assert_frame_equal(read_frame(small, path), frame, rtol=1e-15)
    assert read_sha256(small, path) == hashlib.sha256(content).hexdigest() == small.sha256


@pytest.mark.parametrize(
    ("files", "got"),
    [
        ({"readme": b"", "ETTh2": b""}, r"\['readme\.csv', 'ETTh2\.csv'\]"),
        ({"old__ETTh1": b"", "new__ETTh1": b"", "readme": b""}, r"\['old/ETTh1\.csv', 'new/ETTh1\.csv'\]"),
        ({}, r"\[\]"),
    ],
)
def test_an_archive_must_hold_the_file_exactly_once(
    files: dict[str, bytes], got: str, small: DatasetSpec, tmp_path: Path
) -> None:
    path = tmp_path / "ETTh1.zip"
    path.write_bytes(zipped(**files))
    message = rf"ETTh1\.zip must hold exactly one file named ETTh1\.csv, got {got}\. Unpack it"
    with pytest.raises(ValueError, match=message):
        read_frame(small, path)


@pytest.mark.parametrize("suffix", [".gz", ".zip"])
@pytest.mark.parametrize("fault", ["cut", "flipped", "plain", "empty"])
def test_a_damaged_file_is_an_error_that_names_it(
    suffix: str, fault: str, small: DatasetSpec, content: bytes, tmp_path: Path
) -> None:
    packed = bytearray(gzip.compress(content) if suffix == ".gz" else zipped(ETTh1=content))
    # In the middle of the compressed rows.
    packed[len(packed) // 2] ^= 0xFF
    faulty = {"cut": bytes(packed[:-100]), "flipped": bytes(packed), "plain": content, "empty": b""}[fault]
    path = tmp_path / f"ETTh1{suffix}"
    path.write_bytes(faulty)
    with pytest.raises(ValueError, match=r"is damaged|cannot be read as a CSV file") as caught:
        read_frame(small, path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda frame: b"", "cannot be read as a CSV file"),
        (lambda frame: frame.to_csv().encode("utf-16"), "cannot be read as a CSV file"),
        (lambda frame: frame.to_csv(sep=";").encode(), r"lacks the columns \['date', 'HUFL'"),
        (lambda frame: frame.to_csv(index_label="Date").encode(), r"lacks the columns \['date'\]"),
        (lambda frame: frame.drop(columns="OT").to_csv().encode(), r"lacks the columns \['OT'\]"),
        (lambda frame: frame.assign(wind=1.0).to_csv().encode(), r"has the columns \['wind'\]"),
        (lambda frame: frame[:19].to_csv().encode(), "must have 20 rows to be ETTh1, got 19"),
        (lambda frame: frame.to_csv().encode()[:-40], "has no finite value in column"),
        (lambda frame: frame.assign(HULL=np.inf).to_csv().encode(), "no finite value in column HULL at 2016-07-01 00"),
        (lambda frame: frame.to_csv().encode().replace(b"07-01 05", b"07-01 04"), "cannot be in ETTh1"),
        (lambda frame: frame.to_csv().encode().replace(b"2016-07-01 05", b"yesterday at 5"), "cannot be in ETTh1"),
        (lambda frame: frame.iloc[::-1].to_csv().encode(), "cannot be in ETTh1"),
        (lambda frame: frame.assign(OT="warm").to_csv().encode(), "cannot be in ETTh1.*warm"),
    ],
)
def test_a_malformed_file_is_an_error_that_names_it(
    write: Callable[[pd.DataFrame], bytes], message: str, small: DatasetSpec, frame: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "ETTh1.csv"
    path.write_bytes(write(frame))
    with pytest.raises(ValueError, match=message) as caught:
        read_frame(small, path)
    assert str(path) in str(caught.value)


def test_an_error_about_hundreds_of_columns_stays_readable(tmp_path: Path) -> None:
    (tmp_path / "traffic.csv").write_text("Date,0\n2015-01-01 00:00:00,0.0048\n")
    with pytest.raises(
        ValueError, match=r"lacks the columns \['date', '1', .*\.\.\.\] of traffic\. Fetch the published"
    ) as caught:
        read_frame(SPECS["traffic"], tmp_path / "traffic.csv")
    assert len(str(caught.value)) < 300


@pytest.mark.data
def test_weather_keeps_its_clock_and_its_sentinels(data_folder: Path) -> None:
    frame = read_frame(SPECS["weather"], data_folder / "weather.csv")
    steps = pd.Series(frame.index[1:] - frame.index[:-1], index=frame.index[1:])
    odd = steps[steps != pd.Timedelta("10min")]
    assert odd.to_dict() == {
        pd.Timestamp("2020-05-12 06:00"): pd.Timedelta(0),
        pd.Timestamp("2020-05-29 11:10"): pd.Timedelta("100min"),
    }
    assert (frame.index[0], frame.index[-1]) == (pd.Timestamp("2020-01-01 00:10"), pd.Timestamp("2021-01-01 00:00"))
    row, column = np.nonzero(frame.to_numpy() == -9999)
    assert len(row) == 81
    assert row.max() < SPECS["weather"].split[0]
    assert set(frame.columns[column]) == {"wv (m/s)", "max. PAR (\ufffdmol/m\ufffd/s)", "OT"}


@pytest.mark.data
def test_the_remedy_for_the_clock_of_weather_gives_a_regular_one(data_folder: Path) -> None:
    frame = read_frame(SPECS["weather"], data_folder / "weather.csv")
    regular = frame[~frame.index.duplicated()].asfreq(SPECS["weather"].freq)
    assert len(regular) == 52_696 - 1 + 9
    empty = regular.index[regular.isna().all(axis=1)]
    assert (empty[0], empty[-1], len(empty)) == (pd.Timestamp("2020-05-29 09:40"), pd.Timestamp("2020-05-29 11:00"), 9)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("ETTh1", "2016-07-01 00:00", "2018-06-26 19:00"),
        ("ETTm2", "2016-07-01 00:00", "2018-06-26 19:45"),
        ("exchange_rate", "1990-01-01", "2010-10-10"),
        ("national_illness", "2002-01-01", "2020-06-30"),
    ],
)
def test_regular_dates_run_from_the_first_to_the_last(name: str, first: str, last: str, data_folder: Path) -> None:
    frame = read_frame(SPECS[name], data_folder / SPECS[name].filename)
    assert (frame.index[0], frame.index[-1]) == (pd.Timestamp(first), pd.Timestamp(last))
    assert frame.index.freqstr == SPECS[name].freq


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "sample", "rows", "first", "last"),
    [
        ("electricity", "ecl_321cols_first55h_official_format.csv", 55, [14.0, 69.0, 234.0], 2162.0),
        ("traffic", "traffic_862cols_first25h_official_format.csv", 25, [0.0048, 0.0146, 0.0289], 0.0121),
    ],
)
def test_a_published_sample_of_every_channel_reads(
    name: str, sample: str, rows: int, first: list[float], last: float, data_folder: Path
) -> None:
    frame = read_frame(few(name, rows), data_folder / sample)
    assert frame.shape == (rows, len(SPECS[name].channels))
    assert frame.iloc[0, :3].tolist() == first
    assert frame.iloc[0, -1] == last
    assert frame.index[0] == pd.Timestamp("2016-07-01 02:00")
    assert frame.index.freqstr == "h"


@pytest.mark.data
def test_two_published_clients_of_electricity_span_all_of_its_hours(data_folder: Path) -> None:
    spec = replace(SPECS["electricity"], channels=("0", "OT"))
    frame = read_frame(spec, data_folder / "ecl_2cols_full_26304.csv")
    assert frame.shape == (26_304, 2)
    assert (frame.index[0], frame.index[-1]) == (pd.Timestamp("2016-07-01 02:00"), pd.Timestamp("2019-07-02 01:00"))
    last = np.load(data_folder / "ecl_321cols_last840h.npy")
    assert (frame.to_numpy()[-840:] == last[[0, -1]].T).all()
