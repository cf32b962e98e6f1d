"""The documentation: its code runs, its reference is complete, and its pages come of the results as they are."""

from __future__ import annotations

import importlib.util
import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType

import griffe
import matplotlib as mpl
import pytest
from mkdocs.exceptions import PluginError

import titans_ts
from titans_ts import TitansForecaster, datasets, kernels, plots

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [str(path.relative_to(DOCS)) for path in sorted(DOCS.rglob("*.md"))]
# Code that is not marked as in need of something, and what it prints where that is shown right below.
BLOCK = re.compile(r"(<!-- not run: .*? -->\n)?^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.DOTALL | re.M)
WITH_CODE = [page for page in PAGES if "```python" in (DOCS / page).read_text()]


def load(name: str) -> ModuleType:
    """A script of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", WITH_CODE)
def test_code_runs_and_prints_what_is_shown(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    names: dict[str, object] = {"__name__": page}
    found = [block for block in BLOCK.findall((DOCS / page).read_text()) if not block[0]]
    assert found
    for _, code, shown in found:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        if shown:
            assert printed.getvalue() == shown


def test_the_reference_has_every_public_name() -> None:
    pages = [page.read_text() for page in (DOCS / "reference").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"^::: titans_ts\.(?:\w+\.)*(\w+)$", page, re.MULTILINE)}
    assert {name for room in (titans_ts, datasets, kernels, plots) for name in room.__all__} - shown == set()


def test_the_reference_has_every_method_of_the_forecaster() -> None:
    page = (DOCS / "reference" / "forecaster.md").read_text()
    shown = re.findall(r"^        - (\w+)$", page, re.MULTILINE)
    members = {name: getattr(TitansForecaster, name) for name in dir(TitansForecaster) if not name.startswith("_")}
    ours = {name for name, member in members.items() if getattr(member, "__module__", "").startswith("titans_ts")}
    assert ours == set(shown)


def test_the_results_are_shown_whole() -> None:
    pages = load("hooks").benchmark_pages()
    shown = set("\n".join(pages.values()).replace("\n##", "\n###").splitlines())
    results = (DOCS.parent / "experiments" / "RESULTS.md").read_text().splitlines()
    assert [line for line in results if line not in shown and not line.startswith("## ") and "](" not in line] == []


def test_links_of_the_results_lead_to_their_pages() -> None:
    hooks = load("hooks")
    homes = {"NOTES.md": "decisions.md", "RESULTS.md": "index.md", "RESULTS.md#streams": "streams.md"}
    assert hooks.relink("NOTES.md#covariates", homes) == "decisions.md#covariates"
    assert hooks.relink("RESULTS.md#streams", homes) == "streams.md"
    assert hooks.relink("results/recall.png", homes) == "results/recall.png"


def test_a_table_is_that_below_its_heading() -> None:
    hooks = load("hooks")
    assert hooks.first_table("Streams").startswith("| Table S1, column i | ETTh1 ")
    assert hooks.first_table("Throughput by length").startswith("| thousands of tokens a second")
    with pytest.raises(PluginError, match="no heading 'Weather'"):
        hooks.first_table("Weather")


def test_every_notebook_is_a_page() -> None:
    pages = load("notebook_pages")
    assert sorted(pages.ORDER) == sorted(path.stem for path in pages.NOTEBOOKS.glob("*.ipynb"))
    overview = pages.overview()
    for name in pages.ORDER:
        title = pages.title_of(pages.read(name))
        assert f"[{title}]({name}.md)" in overview
        page, pictures = pages.rendered(name, pages.read(name))
        assert page.startswith(f"# {title}\n")
        assert pictures
        assert all(f"]({link})" in page for link in pictures)


def test_a_notebook_is_shown_as_it_is_committed() -> None:
    pages = load("notebook_pages")
    table = '<div>\n<style scoped>\n x\n</style>\n<table border="1" class="dataframe">\n  <tr>\n</table>\n</div>'
    outputs = [
        {"output_type": "stream", "text": ["a\n", "b\n"]},
        {"output_type": "execute_result", "data": {"text/html": table, "text/plain": "x"}},
        {"output_type": "display_data", "data": {"image/png": "AAEC", "text/plain": "<Figure>"}},
    ]
    cells = [
        {"cell_type": "markdown", "source": "# T\n\nof [it](../RESULTS.md#streams), [all](../RESULTS.md)"},
        {"cell_type": "code", "source": ["x = 1\n", "x"], "outputs": outputs},
    ]
    page, pictures = pages.rendered("n", {"cells": cells})
    assert page.split("\n\n") == [
        "# T",
        "of [it](../benchmarks/streams.md), [all](../benchmarks/index.md)",
        "```python\nx = 1\nx\n```",
        "```text\na\nb\n```",
        "<div>\n<table>\n<tr>\n</table>\n</div>",
        "![Picture 1 of the notebook: T](n-1.png)\n",
    ]
    assert pictures == {"n-1.png": b"\x00\x01\x02"}


def test_formulas_become_mathml_outside_of_code() -> None:
    found = load("hooks").with_formulas("of $x$ and `$y$`:\n\n$$z$$\n\n```\n$$w$$\n```\n")
    assert found.count("<math") == 2
    assert "<mi>x</mi>" in found
    assert "<mi>z</mi>" in found
    assert "`$y$`" in found
    assert "\n$$w$$\n" in found


def test_parameters_that_share_an_entry_have_their_own_defaults() -> None:
    code = 'def f(a=1, b=2):\n    """Do.\n\n    Parameters\n    ----------\n    a, b : int\n        Both.\n    """\n'
    extensions = griffe.load_extensions(load("defaults").OwnDefaults)
    with griffe.temporary_visited_package(
        "p", {"__init__.py": code}, extensions=extensions, docstring_parser="numpy"
    ) as package:
        (_, parameters) = package["f"].docstring.parsed
    assert [(parameter.name, parameter.value) for parameter in parameters.value] == [("a", "1"), ("b", "2")]


def test_the_figure_shows_that_forgetting_forgets(tmp_path: Path) -> None:
    drawn = load("draw_memory")
    kept, forgotten = drawn.recalled(0.0), drawn.recalled(0.1)
    assert kept[0] == pytest.approx(1, abs=1e-5)  # one step of 1/2 writes a unit key in full
    assert forgotten[10] == pytest.approx(kept[10] * 0.9**10, abs=0.01)
    drawn.main(["--picture", str(tmp_path / "memory.svg")])
    assert "<svg" in (tmp_path / "memory.svg").read_text()
