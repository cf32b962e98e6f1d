"""What a row says of the code that measured it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import stamp


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one commit: a package, and an experiment with its results."""
    for name in ("package/code.py", "experiments/stamp.py", "experiments/results/table.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false"]
    for call in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *call], cwd=tmp_path, check=True)
    monkeypatch.setattr(stamp, "__file__", str(tmp_path / "experiments" / "stamp.py"))
    return tmp_path


def test_a_commit_is_marked_where_the_code_differs_and_not_for_the_rows_that_were_measured(checkout: Path) -> None:
    clean = stamp.commit()
    assert len(clean) >= 7
    assert set(clean) <= set("0123456789abcdef")
    (checkout / "experiments/results/table.csv").write_text("1\n2\n")
    assert stamp.commit() == clean
    (checkout / "package/code.py").write_text("2\n")
    assert stamp.commit() == f"{clean}-dirty"


def test_outside_a_checkout_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamp, "__file__", str(tmp_path / "stamp.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert stamp.commit() == "unknown"
