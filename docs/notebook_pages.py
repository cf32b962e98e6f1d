"""The notebooks of experiments/notebooks/ as pages of the site: their words, code and outputs, as committed."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

NOTEBOOKS = Path(__file__).parents[1] / "experiments" / "notebooks"
FOLDER = "notebooks"  # of the site
MENU = "Notebooks"
ORDER = ("quickstart", "short_series", "intervals", "search", "streams", "table")
INTRODUCTION = (
    "Each tells one story, on data that come with the package but for the last, with an error beside that of a naive "
    "forecast. They lie in `experiments/notebooks/`; `make notebooks` executes them, and what is shown is what they "
    "printed."
)
RESULTS = re.compile(r"\]\(\.\./RESULTS\.md(?:#([\w-]+))?\)")
STYLE = re.compile(r"<style.*?</style>\s*", re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the notebooks to the menu."""
    (menu,) = [entry for entry in config.nav or [] if MENU in entry]
    menu[MENU] += [{title_of(read(name)): f"{FOLDER}/{name}.md"} for name in ORDER]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook, its pictures, and the page that lists them."""
    files.append(File.generated(config, f"{FOLDER}/index.md", content=overview()))
    for name in ORDER:
        page, pictures = rendered(name, read(name))
        files.append(File.generated(config, f"{FOLDER}/{name}.md", content=page))
        for link, picture in pictures.items():
            files.append(File.generated(config, f"{FOLDER}/{link}", content=picture))
    return files


def overview() -> str:
    """Markdown of the page that lists the notebooks, each with its first paragraph."""
    parts = [f"# {MENU}\n\n{INTRODUCTION}"]
    for name in ORDER:
        notebook = read(name)
        first = relinked(words(notebook["cells"][0])).split("\n\n")[1]
        parts.append(f"## [{title_of(notebook)}]({name}.md)\n\n{first}")
    return "\n\n".join(parts) + "\n"


def rendered(name: str, notebook: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
    """Markdown of a notebook, and its pictures by the names that the page links."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(relinked(words(cell)))
            continue
        parts.append(f"```python\n{words(cell)}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                link = f"{name}-{len(pictures) + 1}.png"
                pictures[link] = base64.b64decode(joined(data["image/png"]))
                parts.append(f"![Picture {len(pictures)} of the notebook: {title_of(notebook)}]({link})")
            elif "text/html" in data:
                parts.append(plain_table(joined(data["text/html"])))
            else:
                parts.append(f"```text\n{joined(output.get('text', data.get('text/plain', ''))).rstrip()}\n```")
    return "\n\n".join(parts) + "\n", pictures


def plain_table(html: str) -> str:
    """A table of pandas as one block of HTML that the site's style draws."""
    html = STYLE.sub("", html).replace(' border="1" class="dataframe"', "").replace(' style="text-align: right;"', "")
    return re.sub(r"\n\s*", "\n", html).strip()


def relinked(markdown: str) -> str:
    """Links to sections of RESULTS.md, where the site has them."""
    return RESULTS.sub(lambda found: f"](../benchmarks/{found[1] or 'index'}.md)", markdown)


def title_of(notebook: dict[str, Any]) -> str:
    """The heading of the first cell."""
    return words(notebook["cells"][0]).splitlines()[0].removeprefix("# ")


def words(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return joined(cell["source"])


def joined(text: str | list[str]) -> str:
    """A text that a notebook holds whole or by lines."""
    return text if isinstance(text, str) else "".join(text)


def read(name: str) -> dict[str, Any]:
    """A notebook by its name."""
    found: dict[str, Any] = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return found
