"""What mkdocs does for this site beside its plugins: pages of the measured results, tables of them, and formulas.

- Each section of experiments/RESULTS.md, which a test holds to the CSVs, becomes a page, and experiments/NOTES.md one.
- `<!-- table of RESULTS.md: Streams -->` in a page is replaced by the first table below that heading.
- `$x$` and `$$x$$`, in pages whose front matter says `math: true`, become MathML, which browsers draw by themselves.
"""

from __future__ import annotations

import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
FOLDER = "benchmarks"  # of the site
DECISIONS = "Decisions"  # the title of NOTES.md

SUMMARY = "Mean squared error of the long-term benchmark in its scaled space, over four horizons, by lookback:"
WIDE = "---\nhide:\n  - toc\n---\n\n"  # front matter of pages with wide tables
LINK = re.compile(r"\]\(([^)\s]+)\)")
TABLE = re.compile(r"<!-- table of RESULTS\.md: (.+?) -->")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+?)\$", re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the generated pages to the menu."""
    titles = {slug(title): title for title, _ in sections(read("RESULTS.md"))}
    pages = [{title: f"{FOLDER}/{name}.md"} for name, title in titles.items()]
    (menu,) = [entry for entry in config.nav or [] if FOLDER.title() in entry]
    menu[FOLDER.title()] += [*pages, {DECISIONS: f"{FOLDER}/{slug(DECISIONS)}.md"}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the pictures that they show."""
    made = benchmark_pages()
    pictures = {link for page in made.values() for link in LINK.findall(page) if link.startswith("results/")}
    for name, page in made.items():
        files.append(File.generated(config, f"{FOLDER}/{name}", content=page))
    for link in sorted(pictures | {"results/forecast.png"}):
        files.append(File.generated(config, f"{FOLDER}/{link}", abs_src_path=str(EXPERIMENTS / link)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put in tables and formulas."""
    markdown = TABLE.sub(lambda found: first_table(found[1]), markdown)
    return with_formulas(markdown) if page.meta.get("math") else markdown


def benchmark_pages() -> dict[str, str]:
    """Markdown by file name: the overview, a page for each section of the results, and the decisions."""
    results, notes = read("RESULTS.md"), read("NOTES.md")
    found = sections(results)
    contents = "\n".join(f"- [{title}]({slug(title)}.md)" for title, _ in found)
    introduction, _, _ = results.partition("\n## ")
    contents += f"\n- [{DECISIONS}]({slug(DECISIONS)}.md)"
    pages = {"index.md": f"{WIDE}{introduction}\n\n{contents}\n\n{SUMMARY}\n\n{first_table(found[0][0])}"}
    for title, body in found:
        pages[f"{slug(title)}.md"] = f"{WIDE}# {title}\n" + body.replace("\n###", "\n##")
    pages[f"{slug(DECISIONS)}.md"] = notes
    homes = {"RESULTS.md": "index.md", "NOTES.md": f"{slug(DECISIONS)}.md"}
    for title, body in found:
        homes[f"RESULTS.md#{slug(title)}"] = f"{slug(title)}.md"
        for inner in re.findall(r"^### (.+)$", body, re.MULTILINE):
            homes[f"RESULTS.md#{slug(inner)}"] = f"{slug(title)}.md#{slug(inner)}"
    return {name: LINK.sub(lambda link: f"]({relink(link[1], homes)})", page) for name, page in pages.items()}


def relink(link: str, homes: dict[str, str]) -> str:
    """A link of a page of the experiments, where that page lies now."""
    path, _, anchor = link.partition("#")
    if link in homes or path not in homes:
        return homes.get(link, link)
    return f"{homes[path]}#{anchor}"


def sections(text: str) -> list[tuple[str, str]]:
    """Title and body of each second-level heading."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def slug(title: str) -> str:
    """A heading as links name it; as the extension toc makes it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip())


def first_table(title: str) -> str:
    """The first table below a heading of RESULTS.md."""
    pattern = rf"^##+ {re.escape(title)}$(.*?)(?=^##|\Z)"
    body = re.search(pattern, read("RESULTS.md"), re.DOTALL | re.MULTILINE)
    table = body and re.search(r"(?:^\|.*\n)+", body[1], re.MULTILINE)
    if not table:
        raise PluginError(f"experiments/RESULTS.md has no heading {title!r} with a table below it.")
    return table[0]


def with_formulas(markdown: str) -> str:
    """`markdown` with formulas outside of code as MathML."""
    parts = CODE.split(markdown)
    parts[::2] = [FORMULA.sub(_mathml, part) for part in parts[::2]]
    return "".join(parts)


def _mathml(found: re.Match[str]) -> str:
    block, inline = found.groups()
    if block:
        return f'<div class="formula">{convert(" ".join(block.split()), display="block")}</div>'
    return f"<span>{convert(inline)}</span>"


def read(name: str) -> str:
    """A page of the experiments."""
    return (EXPERIMENTS / name).read_text(encoding="utf-8")
