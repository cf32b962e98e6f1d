"""What a user installs is what the repository holds, under names that no other distribution owns."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import titans_ts

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDERS = {"titans_ts": "titans_ts", "kernels": "titans_ts/kernels", "datasets": "titans_ts/datasets"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive and the wheel built from it."""
    folder = tmp_path_factory.mktemp("packaging")
    # A copy, because building leaves folders behind.
    ignored = shutil.ignore_patterns(".*cache*", ".git", ".venv", ".hypothesis", "__pycache__", "*.egg-info", "build")
    shutil.copytree(REPOSITORY, folder / "copy", symlinks=True, ignore=ignored)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(folder / "copy")]
    # Run elsewhere than in the repository, where the folders at the top would shadow other packages.
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


def python_files_on_disk() -> set[str]:
    """Python files of the repository's packages, by the names they install under."""
    found = set()
    for folder, package in FOLDERS.items():
        # os.walk does not follow the links inside titans_ts.
        for parent, _, names in os.walk(REPOSITORY / folder):
            inside = Path(parent).relative_to(REPOSITORY / folder)
            found |= {(package / inside / name).as_posix() for name in names if name.endswith(".py")}
    return found


def test_the_wheel_holds_every_python_file_the_data_set_and_nothing_else(built: Path) -> None:
    with wheel(built) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == python_files_on_disk() | {"titans_ts/py.typed", "titans_ts/datasets/bike_sharing.csv.gz"}


def test_the_wheel_owns_one_name_at_the_top(built: Path) -> None:
    with wheel(built) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert tops == {"titans_ts", f"titans_ts-{titans_ts.__version__}.dist-info"}


def test_the_wheel_states_name_version_and_licence(built: Path) -> None:
    with wheel(built) as archive:
        info = f"titans_ts-{titans_ts.__version__}.dist-info"
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        licences = {name: archive.read(f"{info}/licenses/{name}") for name in ("LICENSE", "LICENSE-data")}
    assert (metadata["Name"], metadata["Version"]) == ("titans-ts", titans_ts.__version__)
    assert metadata["License-Expression"] == "MIT AND CC-BY-4.0"
    assert licences == {name: (REPOSITORY / name).read_bytes() for name in licences}


def test_the_version_is_that_of_the_citation_and_the_changelog() -> None:
    citation, changelog = ((REPOSITORY / name).read_text() for name in ("CITATION.cff", "CHANGELOG.md"))
    assert f"\nversion: {titans_ts.__version__}\n" in citation
    assert f"\n## [{titans_ts.__version__}] - " in changelog


def test_the_wheel_brings_the_command_line(built: Path) -> None:
    with wheel(built) as archive:
        text = archive.read(f"titans_ts-{titans_ts.__version__}.dist-info/entry_points.txt").decode()
    assert text.split() == ["[console_scripts]", "titans-ts", "=", "titans_ts.command.app:main"]


def test_the_source_archive_holds_the_tests_and_their_set_up(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tests = {path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "tests").rglob("*.py")}
    house = {
        "CITATION.cff",
        "Makefile",
        "constraints.txt",
        "constraints-lowest.txt",
        "pyproject.toml",
        "setup.cfg",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
    }
    house |= {"CHANGELOG.md", "LICENSE"}
    data = {"LICENSE-data", "datasets/bike_sharing.csv.gz"}
    assert house | {".ci/run", ".ci/release"} | data | tests <= names
