from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pooch
import pytest

from titans_ts.datasets import SPECS, DatasetSpec, load_dataset

CHANNELS = SPECS["ETTh1"].channels


def table(rows: int = 20) -> pd.DataFrame:
    values = np.random.default_rng(0).normal(size=(rows, len(CHANNELS)))
    dates = pd.date_range("2016-07-01", periods=rows, freq="h", name="date")
    return pd.DataFrame(values, index=dates, columns=list(CHANNELS))


CONTENT = table().to_csv().encode()


@dataclass
class Server:
    """What an HTTP server on this machine answers, path by path, and what it was asked."""

    address: str
    files: dict[str, bytes] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            if self.path not in state.files:
                self.send_error(404)
                return
            content = state.files[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if self.path in state.cut else content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state = Server(f"http://127.0.0.1:{http.server_port}")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        http.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the user's cache nor the user's data folder takes part."""
    monkeypatch.delenv("TITANS_TS_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, server: Server) -> DatasetSpec:
    """ETTh1 as if it had 20 rows and lay on the local server, which does not hold it yet."""
    spec = replace(
        SPECS["ETTh1"],
        rows=20,
        split=(10, 14, 18),
        bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        addresses=(f"{server.address}/first.csv", f"{server.address}/second.csv"),
    )
    monkeypatch.setitem(SPECS, "ETTh1", spec)
    return spec


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("subfolder", ["", "ETT-small"])
@pytest.mark.parametrize("by", ["root", "TITANS_TS_DATA"])
def test_a_file_at_hand_is_read_without_a_download(
    by: str, subfolder: str, small: DatasetSpec, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine" / subfolder
    folder.mkdir(parents=True)
    (folder / "ETTh1.csv").write_bytes(CONTENT)
    if by == "root":
        data = load_dataset("ETTh1", root=tmp_path / "mine")
    else:
        monkeypatch.setenv("TITANS_TS_DATA", str(tmp_path / "mine"))
        data = load_dataset("ETTh1")
    pd.testing.assert_frame_equal(data.frame, table(), rtol=1e-15)
    assert server.asked == []


def test_root_goes_before_the_environment(small: DatasetSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "ETTh1.csv").write_bytes(CONTENT)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "ETTh1.csv").write_text("not a table")
    monkeypatch.setenv("TITANS_TS_DATA", str(tmp_path / "other"))
    assert len(load_dataset("ETTh1", root=tmp_path / "mine").frame) == 20


def test_a_file_at_hand_needs_no_pooch(small: DatasetSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    (tmp_path / "ETTh1.csv").write_bytes(CONTENT)
    assert len(load_dataset("ETTh1", root=tmp_path).frame) == 20
    with pytest.raises(ModuleNotFoundError, match=r"Install pooch, or name a folder that holds the file by `root`"):
        load_dataset("ETTh1")


def test_a_file_of_other_bytes_is_used_with_a_warning(small: DatasetSpec, tmp_path: Path) -> None:
    content = CONTENT.replace(b"\n", b"\r\n")
    (tmp_path / "ETTh1.csv").write_bytes(content)
    with pytest.warns(UserWarning, match=r"is not the published ETTh1") as caught:
        data = load_dataset("ETTh1", root=tmp_path)
    assert small.sha256 in str(caught[0].message)
    assert hashlib.sha256(content).hexdigest() in str(caught[0].message)
    assert caught[0].filename == __file__
    pd.testing.assert_frame_equal(data.frame, table(), rtol=1e-15)


def test_a_file_nowhere_is_an_error_that_says_where_it_was_looked_for(small: DatasetSpec, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"TITANS_TS_DATA.*Pass `download=True`") as caught:
        load_dataset("ETTh1", root=tmp_path / "mine", download=False)
    assert str(tmp_path / "mine") in str(caught.value)
    assert not (tmp_path / "mine").exists()


def test_a_download_is_kept_in_the_cache_and_done_once(small: DatasetSpec, server: Server, tmp_path: Path) -> None:
    server.files["/first.csv"] = CONTENT
    first = load_dataset("ETTh1")
    again = load_dataset("ETTh1")
    offline = load_dataset("ETTh1", download=False)
    assert server.asked == ["/first.csv"]
    assert (tmp_path / "cache" / "titans_ts" / "ETTh1.csv").read_bytes() == CONTENT
    for data in (first, again, offline):
        pd.testing.assert_frame_equal(data.frame, table(), rtol=1e-15)


def test_a_damaged_file_in_the_cache_is_downloaded_again(small: DatasetSpec, server: Server, tmp_path: Path) -> None:
    server.files["/first.csv"] = CONTENT
    cached = tmp_path / "cache" / "titans_ts" / "ETTh1.csv"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(CONTENT[:100])
    load_dataset("ETTh1")
    assert cached.read_bytes() == CONTENT


def test_a_download_goes_into_root_if_given(small: DatasetSpec, server: Server, tmp_path: Path) -> None:
    server.files["/first.csv"] = CONTENT
    load_dataset("ETTh1", root=tmp_path / "new" / "folder")
    assert files_in(tmp_path) == ["ETTh1.csv"]
    assert (tmp_path / "new" / "folder" / "ETTh1.csv").read_bytes() == CONTENT


def test_the_second_address_serves_where_the_first_does_not(small: DatasetSpec, server: Server, tmp_path: Path) -> None:
    server.files["/second.csv"] = CONTENT
    assert len(load_dataset("ETTh1", root=tmp_path).frame) == 20
    assert server.asked == ["/first.csv", "/second.csv"]


def test_a_download_of_the_wrong_hash_is_refused(small: DatasetSpec, server: Server, tmp_path: Path) -> None:
    server.files["/first.csv"] = server.files["/second.csv"] = CONTENT.replace(b"0", b"1")
    with pytest.raises(OSError, match="hash"):
        load_dataset("ETTh1", root=tmp_path)
    assert files_in(tmp_path) == []


def test_a_connection_cut_halfway_leaves_no_file(small: DatasetSpec, server: Server, tmp_path: Path) -> None:
    server.files["/first.csv"] = CONTENT
    server.cut.add("/first.csv")
    with pytest.raises(OSError, match="could not be downloaded"):
        load_dataset("ETTh1", root=tmp_path)
    assert files_in(tmp_path) == []


def test_the_error_names_every_address_and_the_remedy(small: DatasetSpec, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"pass its folder as `root`") as caught:
        load_dataset("ETTh1", root=tmp_path)
    for address in small.addresses:
        assert f"{address}: 404" in str(caught.value)
    assert files_in(tmp_path) == []


def test_an_unknown_name_is_an_error_with_the_closest_one() -> None:
    with pytest.raises(ValueError, match=r"ETTh1, ETTh2, ETTm1, ETTm2, got 'etth1'\. Did you mean 'ETTh1'\?"):
        load_dataset("etth1")
    with pytest.raises(ValueError, match=r"got 'sunspots'\.$"):
        load_dataset("sunspots")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read as a CSV file"),
        (table().drop(columns="OT").to_csv().encode(), r"lacks the columns \['OT'\]"),
        (table().assign(wind=1.0).to_csv().encode(), r"has the columns \['wind'\]"),
        (table(19).to_csv().encode(), "must have 20 rows to be ETTh1, got 19"),
        (CONTENT[:-40], "has no finite value in column"),
        (CONTENT.replace(b"2016-07-01 05", b"2016-07-01 04"), "cannot be in ETTh1"),
        (CONTENT.replace(b"2016-07-01 05", b"yesterday at 5"), "cannot be in ETTh1"),
        (table().assign(OT="warm").to_csv().encode(), "cannot be in ETTh1.*warm"),
    ],
)
def test_a_malformed_file_is_an_error_that_names_it(
    content: bytes, message: str, small: DatasetSpec, tmp_path: Path
) -> None:
    (tmp_path / "ETTh1.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        load_dataset("ETTh1", root=tmp_path)
    assert str(tmp_path / "ETTh1.csv") in str(caught.value)


def test_the_parts_follow_each_other_and_the_rest_is_unused(small: DatasetSpec, tmp_path: Path) -> None:
    (tmp_path / "ETTh1.csv").write_bytes(CONTENT)
    split = load_dataset("ETTh1", root=tmp_path).split
    assert (split.train, split.validation, split.test) == (range(10), range(10, 14), range(14, 18))


def test_the_scaler_knows_only_the_train_rows(small: DatasetSpec, tmp_path: Path) -> None:
    frame = table()
    frame.iloc[10:] += 1000.0
    (tmp_path / "ETTh1.csv").write_bytes(frame.to_csv().encode())
    with pytest.warns(UserWarning, match="not the published"):
        data = load_dataset("ETTh1", root=tmp_path)
    train = frame.iloc[:10].to_numpy()
    # The file keeps every digit, so only the order of summation differs.
    np.testing.assert_allclose(data.scaler.mean_, train.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(data.scaler.scale_, train.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(data.scaler.transform(data.frame)[:10].std(axis=0), 1.0, rtol=1e-12)


def test_fields_cannot_be_reassigned_and_frames_are_not_shared(small: DatasetSpec, tmp_path: Path) -> None:
    (tmp_path / "ETTh1.csv").write_bytes(CONTENT)
    data = load_dataset("ETTh1", root=tmp_path)
    with pytest.raises(FrozenInstanceError):
        data.name = "other"  # type: ignore[misc]
    data.frame.iloc[0, 0] = np.inf
    assert np.isfinite(load_dataset("ETTh1", root=tmp_path).frame.to_numpy()).all()


@pytest.mark.data
@pytest.mark.parametrize(("name", "rows"), [("ETTh1", 17_420), ("ETTh2", 17_420), ("ETTm1", 69_680), ("ETTm2", 69_680)])
def test_the_published_file_loads(name: str, rows: int, data_folder: Path) -> None:
    data = load_dataset(name, root=data_folder, download=False)
    assert data.frame.shape == (rows, 7)
    assert tuple(data.frame.columns) == CHANNELS
    assert (data.frame.dtypes == np.float64).all()
    assert data.frame.index.name == "date"
    assert data.frame.index.freqstr == data.freq
    assert data.frame.index[0] == pd.Timestamp("2016-07-01")
    train = data.frame.iloc[data.split.train].to_numpy()
    assert len(train) == {"h": 8_640, "15min": 34_560}[data.freq]
    np.testing.assert_allclose(data.scaler.mean_, train.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(data.scaler.scale_, train.std(axis=0), rtol=1e-12)


@pytest.mark.data
def test_the_hourly_file_is_every_fourth_row_of_the_other(data_folder: Path) -> None:
    hourly = load_dataset("ETTh1", root=data_folder).frame
    quarters = load_dataset("ETTm1", root=data_folder).frame
    # The two files were printed from sums in different orders.
    np.testing.assert_allclose(hourly, quarters[::4], rtol=0, atol=1e-14)
