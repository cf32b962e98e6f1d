"""Who may import whom: one way, from the tables and the network up to the estimator and the search."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "titans_ts"
# Each room may import itself and the rooms named; kernels and datasets nothing of the toolkit, and not each other.
ROOMS = {
    "kernels": set(),
    "datasets": set(),
    "devices": set(),
    "tables": {"paths"},
    "reals": set(),
    "paths": set(),
    "model": {"kernels"},
    "windows": {"reals", "tables", "model"},
    "progress": set(),
    "statistical": {"tables"},
    "training": {"windows", "tables", "model", "devices", "progress", "reals"},
    "stream": {"training", "windows", "tables", "model"},
    "regression": {"training", "windows", "tables", "model", "devices"},
    "arguments": {"reals", "tables"},
    "defaults": {"tables"},
    "packing": {"tables"},
    "bounds": {"reals", "tables"},
    "weights": {"tables"},
    "warm_start": {"tables", "model"},
    "predict": {"stream", "training", "windows", "tables", "model", "devices"},
    "combination": {"statistical", "training", "windows", "tables"},
    "intervals": {"combination", "stream", "training", "windows", "tables", "model", "reals"},
    "fitted": {
        *("bounds", "combination", "intervals", "statistical", "stream", "regression"),
        *("predict", "training", "windows", "tables", "model", "devices"),
    },
    "fitting": {
        *("fitted", "bounds", "combination", "intervals", "stream", "regression"),
        *("predict", "progress", "training", "windows", "tables", "model", "devices"),
    },
    "restoring": {"statistical", "stream", "tables", "model", "devices"},
    "saving": {
        *("bounds", "combination", "intervals", "statistical", "regression", "restoring"),
        *("fitted", "packing", "paths", "training", "windows", "tables", "model", "devices"),
    },
    "gates": {"fitted", "stream", "tables"},
    "drawing": {"tables"},
    "plots": {"drawing", "tables", "training"},
    "base": {"arguments", "tables"},
    "baselines": {"base", "arguments", "defaults", "tables"},
    "cutoffs": {"tables"},
    "backtest": {"cutoffs", "arguments", "defaults", "tables"},
    "comparison": {"backtest", "cutoffs", "defaults"},
    "insample": {"fitted", "predict", "stream", "windows", "tables", "model", "devices"},
    "attributes": {"base", "fitted", "training", "windows", "tables", "model"},
    "export": {"fitted", "paths", "tables", "model", "devices"},
    "exporting": {"export", "arguments", "attributes"},
    "settings": {"arguments", "defaults", "stream", "training", "model"},
    "streaming": {"attributes", "arguments", "gates", "stream", "model"},
    "evaluation": {
        *("attributes", "arguments", "backtest", "baselines", "comparison", "cutoffs", "defaults", "insample"),
        *("settings", "tables", "model"),
    },
    "forecaster": {
        *("evaluation", "streaming", "exporting", "settings", "fitting", "saving", "intervals", "warm_start"),
        *("weights", "arguments", "bounds", "defaults", "progress", "stream", "training", "windows", "tables"),
        *("model", "devices"),
    },
    "closed_form": {"forecaster", "settings", "baselines", "arguments", "defaults", "tables"},
    "partitions": {"tables"},
    "search": {"forecaster", "stream", "training", "windows", "tables", "arguments", "defaults", "devices"},
    "command": {
        "forecaster",
        "saving",
        "search",
        "backtest",
        "baselines",
        "comparison",
        "plots",
        "paths",
        "tables",
        "datasets",
    },
    "__main__": {"command"},
}
# The folders of kernels and datasets are links, which are not followed unless named.
FOLDERS = [folder for folder in PACKAGE.iterdir() if folder.is_dir() and folder.name != "__pycache__"]
FILES = [path for folder in (PACKAGE, *FOLDERS) for path in folder.glob("*.py") if path != PACKAGE / "__init__.py"]


def module_of(path: Path) -> str:
    """'titans_ts.tables.panel' of its file; a package's face has the package's name."""
    return ".".join(("titans_ts", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {module_of(path): path for path in FILES}


def imports_of(module: str) -> set[str]:
    """Modules of the toolkit that one imports anywhere: at the top, in a function or for its types."""
    path, found = MODULES[module], set()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            found |= {f"{base}.{a.name}" if f"{base}.{a.name}" in MODULES else base for a in node.names}
    return {name for name in found if name in MODULES}


def room_of(module: str) -> str:
    return module.split(".")[1]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_no_later_stage(module: str) -> None:
    allowed = ROOMS[room_of(module)] | {room_of(module)}
    assert {name for name in imports_of(module) if room_of(name) not in allowed} == set()


def test_the_initialisation_does_not_import_the_training_loop() -> None:
    later = {f"titans_ts.training.{name}" for name in ("loop", "probe", "history", "cuda_graph")}
    for module in ("closed_form", "path_choice", "choices", "moments", "evaluate", "validation"):
        assert imports_of(f"titans_ts.training.{module}") & later == set()


def test_every_room_is_used_as_it_is_drawn() -> None:
    used = {room: set() for room in ROOMS}
    for module in MODULES:
        used[room_of(module)] |= {room_of(name) for name in imports_of(module)} - {room_of(module)}
    assert used == ROOMS


def test_no_modules_import_each_other_in_a_circle() -> None:
    left = {module: imports_of(module) - {module} for module in MODULES}
    # The faces of packages hand names on, and are imported wherever one of their modules is.
    left = {module: {n for n in names if MODULES[n].name != "__init__.py"} for module, names in left.items()}
    while leaves := [module for module, names in left.items() if not names & left.keys()]:
        for module in leaves:
            del left[module]
    assert left == {}
