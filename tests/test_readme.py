"""What the README says must be so."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import matplotlib as mpl
import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "experiments/RESULTS.md", "experiments/NOTES.md")
README = (ROOT / "README.md").read_text()


def test_the_example_prints_what_is_shown_below_it() -> None:
    ((code, shown),) = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == shown


def test_the_example_of_a_picture_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    (imported,) = re.findall(r"^from titans_ts import TitansForecaster$", first, re.MULTILINE)
    exec(f"{imported}\n{second}", {})
    assert (tmp_path / "rentals.png").read_bytes().startswith(b"\x89PNG")


def test_every_make_target_it_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"^    make ([a-z]+)", README, re.MULTILINE))
    assert {"demo", "test"} <= named
    assert named <= targets


def test_every_folder_of_its_map_exists() -> None:
    rows = re.findall(r"^\| `([a-z_]+/)` \| (.*) \|$", README, re.MULTILINE)
    assert [folder for folder, _ in rows] == ["titans_ts/", "kernels/", "datasets/", "experiments/", "tests/", "docs/"]
    for folder, words in rows:
        for inside in ("", *re.findall(r"`([a-z_]+/)`", words)):
            assert (ROOT / folder / inside).is_dir(), folder + inside


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    links = [link.partition("#") for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert links
    for path, _, heading in links:
        target = (ROOT / page).parent / path
        assert target.exists(), path
        if heading:
            headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert heading in [line.lower().replace(" ", "-") for line in headings], path


@pytest.mark.parametrize("page", PAGES)
def test_every_file_of_the_experiments_that_is_named_exists(page: str) -> None:
    """But for those of an earlier commit, whose commands say so."""
    text = re.sub(r"`at [0-9a-f]{7}: [^`]*`", "", (ROOT / page).read_text())
    files = re.findall(r"experiments/[a-z0-9_/]+\.(?:py|toml|csv|md|png)", text)
    assert files
    assert [file for file in files if not (ROOT / file).is_file()] == []
