from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from titans_ts.datasets import SPECS, DatasetSpec
from titans_ts.datasets.fetch import fetch_file, find_file, require_file
from titans_ts.datasets.registry import PublishedFile


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
            # The socket closes after the answer, so half a body is a connection cut halfway.
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


@pytest.fixture
def served(small: DatasetSpec, server: Server) -> DatasetSpec:
    """The small ETTh1 at two addresses of the server, which does not hold it yet."""
    return replace(small, addresses=(f"{server.address}/first.csv", f"{server.address}/second.csv"))


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["{}.csv", "{}.csv.gz", "{}.gz", "{}.csv.zip", "{}.zip"])
@pytest.mark.parametrize("dataset", ["ETTh1", "weather", "national_illness"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_file_is_found_by_its_name_plain_or_compressed(
    inside: bool, dataset: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = SPECS[dataset]
    path = tmp_path / (spec.folder if inside else "") / name.format(dataset)
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert find_file(spec, tmp_path) == path
    assert find_file(spec, str(tmp_path)) == path
    assert find_file(spec, None) is None
    monkeypatch.setenv("TITANS_TS_DATA", str(tmp_path))
    assert find_file(spec, None) == path


def test_the_plain_file_goes_before_the_compressed_one(tmp_path: Path) -> None:
    for name in ("traffic.zip", "traffic.csv.gz", "traffic.csv"):
        (tmp_path / name).touch()
        assert find_file(SPECS["traffic"], tmp_path) == tmp_path / name


def test_root_goes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, name in (("mine", "ETTh1.zip"), ("other", "ETTh1.csv")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch()
    monkeypatch.setenv("TITANS_TS_DATA", str(tmp_path / "other"))
    assert find_file(SPECS["ETTh1"], tmp_path / "mine") == tmp_path / "mine" / "ETTh1.zip"


def test_a_folder_of_that_name_is_not_the_file(tmp_path: Path) -> None:
    (tmp_path / "weather.csv").mkdir()
    assert find_file(SPECS["weather"], tmp_path) is None


def test_a_file_that_is_not_downloaded_must_be_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = PublishedFile(folder="m3", filename="m3_data.json")
    monkeypatch.setenv("TITANS_TS_DATA", str(tmp_path / "named"))
    with pytest.raises(
        FileNotFoundError, match=r"m3_data\.json must be in `root` .* sub-folder m3.*Put it in one"
    ) as caught:
        require_file(published, tmp_path / "mine")
    assert str(tmp_path / "named") in str(caught.value)
    assert str(tmp_path / "mine") in str(caught.value)
    (tmp_path / "mine" / "m3").mkdir(parents=True)
    (tmp_path / "mine" / "m3" / "m3_data.json.gz").touch()
    assert require_file(published, tmp_path / "mine") == tmp_path / "mine" / "m3" / "m3_data.json.gz"


def test_a_download_without_pooch_is_an_error_with_the_remedy(
    small: DatasetSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ModuleNotFoundError, match=r"Install pooch, or name a folder that holds the file by `root`"):
        fetch_file(small, None, download=True)


def test_a_file_nowhere_is_an_error_that_says_where_it_was_looked_for(small: DatasetSpec, tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"TITANS_TS_DATA.*Pass `download=True` to fetch it \(0\.0 MB\)"
    ) as caught:
        fetch_file(small, tmp_path / "mine", download=False)
    assert str(tmp_path / "mine") in str(caught.value)
    assert small.addresses[0] in str(caught.value)
    assert not (tmp_path / "mine").exists()


def test_a_download_is_kept_in_the_cache_and_done_once(
    served: DatasetSpec, server: Server, content: bytes, tmp_path: Path
) -> None:
    server.files["/first.csv"] = content
    for download in (True, True, False):
        path = fetch_file(served, None, download)
        assert path == tmp_path / "cache" / "titans_ts" / "ETTh1.csv"
        assert path.read_bytes() == content
    assert server.asked == ["/first.csv"]


def test_a_download_goes_into_root_if_given(
    served: DatasetSpec, server: Server, content: bytes, tmp_path: Path
) -> None:
    server.files["/first.csv"] = content
    fetch_file(served, tmp_path / "new" / "folder", download=True)
    assert files_in(tmp_path) == ["ETTh1.csv"]
    assert (tmp_path / "new" / "folder" / "ETTh1.csv").read_bytes() == content


def test_a_damaged_file_in_the_cache_is_downloaded_again(
    served: DatasetSpec, server: Server, content: bytes, tmp_path: Path
) -> None:
    server.files["/first.csv"] = content
    cached = tmp_path / "cache" / "titans_ts" / "ETTh1.csv"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(content[:100])
    fetch_file(served, None, download=True)
    assert cached.read_bytes() == content


@pytest.mark.parametrize("fault", ["absent", "wrong hash", "cut"])
def test_the_second_address_serves_where_the_first_does_not(
    fault: str, served: DatasetSpec, server: Server, content: bytes, tmp_path: Path
) -> None:
    if fault != "absent":
        server.files["/first.csv"] = content if fault == "cut" else content.replace(b"0", b"1")
    if fault == "cut":
        server.cut.add("/first.csv")
    server.files["/second.csv"] = content
    assert fetch_file(served, tmp_path, download=True).read_bytes() == content
    assert server.asked == ["/first.csv", "/second.csv"]
    assert files_in(tmp_path) == ["ETTh1.csv"]


def test_a_download_of_the_wrong_hash_is_refused(
    served: DatasetSpec, server: Server, content: bytes, tmp_path: Path
) -> None:
    server.files["/first.csv"] = server.files["/second.csv"] = content.replace(b"0", b"1")
    with pytest.raises(OSError, match="hash") as caught:
        fetch_file(served, tmp_path, download=True)
    assert served.sha256 in str(caught.value)
    assert files_in(tmp_path) == []


def test_a_connection_cut_halfway_leaves_no_file_and_the_next_call_succeeds(
    served: DatasetSpec, server: Server, content: bytes, tmp_path: Path
) -> None:
    single = replace(served, addresses=served.addresses[:1])
    server.files["/first.csv"] = content
    server.cut.add("/first.csv")
    with pytest.raises(OSError, match=r"(?s)could not be downloaded.*Call again to start anew"):
        fetch_file(single, tmp_path, download=True)
    assert files_in(tmp_path) == []
    server.cut.clear()
    assert fetch_file(single, tmp_path, download=True).read_bytes() == content
    assert server.asked == ["/first.csv", "/first.csv"]


def test_the_error_names_every_address_and_the_remedy(served: DatasetSpec, server: Server, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"pass its folder as `root`") as caught:
        fetch_file(served, tmp_path, download=True)
    for address in served.addresses:
        assert f"{address}: 404" in str(caught.value)
    assert files_in(tmp_path) == []


def test_nobody_at_the_address_is_the_same_error(small: DatasetSpec, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"could not be downloaded"):
        fetch_file(small, tmp_path, download=True)
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("terminal", [True, False])
def test_a_progress_bar_is_drawn_on_a_terminal_only(
    terminal: bool,
    served: DatasetSpec,
    server: Server,
    content: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.files["/first.csv"] = content
    stderr = io.StringIO()
    monkeypatch.setattr(stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    fetch_file(served, tmp_path, download=True)
    assert ("100%|" in stderr.getvalue()) == terminal
    assert terminal or stderr.getvalue() == ""


def test_a_program_without_stderr_can_download(
    served: DatasetSpec, server: Server, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/first.csv"] = content
    monkeypatch.setattr(sys, "stderr", None)
    assert fetch_file(served, tmp_path, download=True).read_bytes() == content
