from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from titans_ts.datasets import SPECS, DatasetSpec, load_dataset


@pytest.mark.parametrize("by", ["root", "TITANS_TS_DATA"])
@pytest.mark.parametrize("name", ["ETTh1.csv", "ETT-small/ETTh1.csv", "ETTh1.csv.gz"])
def test_a_file_at_hand_is_read_without_a_download(
    name: str,
    by: str,
    small: DatasetSpec,
    frame: pd.DataFrame,
    content: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "mine" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    # Neither is needed when the file is at hand.
    monkeypatch.setitem(sys.modules, "pooch", None)
    if by == "root":
        data = load_dataset("ETTh1", root=tmp_path / "mine")
    else:
        monkeypatch.setenv("TITANS_TS_DATA", str(tmp_path / "mine"))
        data = load_dataset("ETTh1")
    pd.testing.assert_frame_equal(data.frame, frame, rtol=1e-15)


def test_a_file_from_the_cache_is_read_offline(
    small: DatasetSpec, frame: pd.DataFrame, content: bytes, tmp_path: Path
) -> None:
    cached = tmp_path / "cache" / "titans_ts" / "ETTh1.csv"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(content)
    for download in (True, False):
        pd.testing.assert_frame_equal(load_dataset("ETTh1", download=download).frame, frame, rtol=1e-15)


def test_a_file_nowhere_is_an_error_that_names_the_folders(small: DatasetSpec, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"ETTh1\.csv must be in `root`"):
        load_dataset("ETTh1", root=tmp_path, download=False)


def test_an_alias_loads_the_data_set_under_its_own_name(small: DatasetSpec, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "ETTh1.csv").write_bytes(content)
    data = load_dataset("ett-h1", root=tmp_path)
    assert (data.name, data.freq) == ("ETTh1", "h")


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"`name` must be one of ETTh1, .*, got 'wether'\. Did you mean 'weather'\?"):
        load_dataset("wether")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_file_of_other_bytes_is_used_with_a_warning(
    suffix: str, small: DatasetSpec, frame: pd.DataFrame, content: bytes, tmp_path: Path
) -> None:
    other = content.replace(b"\n", b"\r\n")
    (tmp_path / f"ETTh1{suffix}").write_bytes(gzip.compress(other) if suffix == ".csv.gz" else other)
    with pytest.warns(UserWarning, match=r"is not the published ETTh1") as caught:
        data = load_dataset("ETTh1", root=tmp_path)
    assert small.sha256 in str(caught[0].message)
    assert hashlib.sha256(other).hexdigest() in str(caught[0].message)
    assert caught[0].filename == __file__
    pd.testing.assert_frame_equal(data.frame, frame, rtol=1e-15)


def test_the_parts_follow_each_other_and_the_rest_is_unused(small: DatasetSpec, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "ETTh1.csv").write_bytes(content)
    split = load_dataset("ETTh1", root=tmp_path).split
    assert (split.train, split.validation, split.test) == (range(10), range(10, 14), range(14, 18))


def test_the_scaler_knows_only_the_train_rows(small: DatasetSpec, frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.iloc[10:] += 1000.0
    (tmp_path / "ETTh1.csv").write_bytes(frame.to_csv().encode())
    with pytest.warns(UserWarning, match="not the published"):
        data = load_dataset("ETTh1", root=tmp_path)
    train = frame.iloc[:10].to_numpy()
    # The file keeps every digit, so only the order of summation differs.
    np.testing.assert_allclose(data.scaler.mean_, train.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(data.scaler.scale_, train.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(data.scaler.transform(data.frame)[:10].std(axis=0), 1.0, rtol=1e-12)


def test_fields_cannot_be_reassigned_and_frames_are_not_shared(
    small: DatasetSpec, content: bytes, tmp_path: Path
) -> None:
    (tmp_path / "ETTh1.csv").write_bytes(content)
    data = load_dataset("ETTh1", root=tmp_path)
    with pytest.raises(FrozenInstanceError):
        data.name = "other"  # type: ignore[misc]
    data.frame.iloc[0, 0] = np.inf
    assert np.isfinite(load_dataset("ETTh1", root=tmp_path).frame.to_numpy()).all()


@pytest.mark.data
@pytest.mark.parametrize("name", [name for name in SPECS if name not in ("electricity", "traffic")])
def test_the_published_file_loads(name: str, data_folder: Path) -> None:
    spec = SPECS[name]
    data = load_dataset(name, root=data_folder, download=False)
    assert data.frame.shape == (spec.rows, len(spec.channels))
    assert tuple(data.frame.columns) == spec.channels
    assert (data.frame.dtypes == np.float64).all()
    assert data.frame.index.name == "date"
    assert data.frame.index.freqstr == (data.freq if name != "weather" else None)
    assert (data.split.train.stop, data.split.validation.stop, data.split.test.stop) == spec.split
    train = data.frame.iloc[data.split.train].to_numpy()
    assert len(train) == spec.split[0]
    np.testing.assert_allclose(data.scaler.mean_, train.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(data.scaler.scale_, train.std(axis=0), rtol=1e-12)


@pytest.mark.data
def test_the_hourly_file_is_every_fourth_row_of_the_other(data_folder: Path) -> None:
    hourly = load_dataset("ETTh1", root=data_folder).frame
    quarters = load_dataset("ETTm1", root=data_folder).frame
    # The two files were printed from sums in different orders.
    np.testing.assert_allclose(hourly, quarters[::4], rtol=0, atol=1e-14)


# A process of its own, because the peak of this one holds what other tests took.
MEASURE = """
import json, sys, time, warnings
import sklearn.preprocessing
from titans_ts.datasets import load_dataset

def mebibytes(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(key))

before, start = mebibytes("VmRSS"), time.perf_counter()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    data = load_dataset(sys.argv[1], root=sys.argv[2])
seconds, peak = time.perf_counter() - start, mebibytes("VmHWM") - before
values = data.frame.to_numpy()
print(json.dumps({
    "shape": values.shape, "ends": [part.stop for part in data.split], "sums": [values[0].sum(), values[-1].sum()],
    "last": str(data.frame.index[-1]), "mean": data.scaler.mean_[0], "frame": values.nbytes / 2**20,
    "warnings": [str(each.message) for each in caught], "peak": peak, "seconds": seconds,
}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
@pytest.mark.parametrize(
    ("alias", "name", "ends", "last", "scale", "decimals"),
    [
        ("ECL", "electricity", [18_412, 21_044, 26_304], "2019-07-02 01:00:00", 5000.0, 0),
        ("Traffic", "traffic", [12_280, 14_036, 17_544], "2018-07-02 01:00:00", 0.7, 4),
    ],
)
def test_a_file_of_the_full_shape_loads_in_seconds_and_little_memory(
    alias: str, name: str, ends: list[int], last: str, scale: float, decimals: int, tmp_path: Path
) -> None:
    spec = SPECS[name]
    # A week of rows, over and over.
    week = (scale * np.random.default_rng(0).random((168, len(spec.channels)))).round(decimals)
    cells = [",".join(f"{value:.6f}" for value in row) for row in week]
    dates = pd.date_range("2016-07-01 02:00", periods=spec.rows, freq="h")
    with (tmp_path / spec.filename).open("w", newline="") as file:
        file.write(f"{','.join(['date', *spec.channels])}\r\n")
        file.writelines(f"{date},{cells[row % 168]}\r\n" for row, date in enumerate(dates))

    command = [sys.executable, "-c", MEASURE, alias, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)

    print(f"{name}: {found['seconds']:.1f} s, peak {found['peak']:.0f} MiB for a frame of {found['frame']:.0f} MiB")
    assert found["shape"] == [spec.rows, len(spec.channels)]
    assert found["ends"] == ends
    assert found["last"] == last
    np.testing.assert_allclose(found["sums"], [week[0].sum(), week[(spec.rows - 1) % 168].sum()], rtol=1e-12)
    np.testing.assert_allclose(found["mean"], week[np.arange(ends[0]) % 168, 0].mean(), rtol=1e-9)
    assert len(found["warnings"]) == 1
    assert f"is not the published {name}: its sha256 is" in found["warnings"][0]
    # The table as read, the frame, and the scaler's copies of the train rows.
    assert found["peak"] < 5 * found["frame"]
    # It takes two or three; a loaded machine may need some more.
    assert found["seconds"] < 30
