"""What a row says of the code that measured it, and the CSV it is kept in."""

from __future__ import annotations

import math
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

import record


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one commit: a package, and an experiment with its results."""
    for name in ("package/code.py", "experiments/record.py", "experiments/results/table.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false"]
    for call in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *call], cwd=tmp_path, check=True)
    monkeypatch.setattr(record, "__file__", str(tmp_path / "experiments" / "record.py"))
    return tmp_path


def test_a_commit_is_marked_where_the_code_differs_and_not_for_the_rows_that_were_measured(checkout: Path) -> None:
    clean = record.commit()
    assert len(clean) >= 7
    assert set(clean) <= set("0123456789abcdef")
    (checkout / "experiments/results/table.csv").write_text("1\n2\n")
    assert record.commit() == clean
    (checkout / "package/code.py").write_text("2\n")
    assert record.commit() == f"{clean}-dirty"


def test_outside_a_checkout_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "__file__", str(tmp_path / "record.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert record.commit() == "unknown"


def test_a_stamp_names_the_packages_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "commit", lambda: "abc")
    found = record.stamp(["torch", "a-package-nobody-has"])
    assert found == {
        "device": record.device_name(),
        "versions": f"torch {version('torch')}, python {platform.python_version()}",
        "commit": "abc",
    }


def test_what_is_appended_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "results" / "table.csv"
    assert record.read(path) == []
    record.append(path, ("name", "value", "ratio"), {"name": "a, b", "value": 1 / 3, "ratio": None})
    record.append(path, ("name", "value", "ratio"), {"name": "c", "value": "0.50", "ratio": math.nan})
    assert path.read_bytes() == b'name,value,ratio\n"a, b",0.333333,\nc,0.50,\n'
    assert record.read(path)[1] == {"name": "c", "value": "0.50", "ratio": ""}


def test_a_csv_of_other_columns_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("name,value\n")
    with pytest.raises(ValueError, match=r"`columns` must be those of .*table.csv, name, value; got name, unit"):
        record.append(path, ("name", "unit"), {"name": "a", "unit": "s"})
    assert path.read_text() == "name,value\n"
