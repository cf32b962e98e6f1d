"""The command that searches for a forecaster's parameters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from .bundle import command
from .evaluating import PANEL
from .learning import check_parameter, forecaster, parsed
from .options import Columns, File, Format, Learning, Out, Running
from .reading import STANDARD_INPUT, read_table
from .running import note
from .writing import check_out, write

if TYPE_CHECKING:
    import pandas as pd
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

SEARCH = "Search"


def add_searching(app: typer.Typer) -> None:
    """Add the command `tune`."""
    command(app, PANEL)(tune)


def tune(
    file: File = STANDARD_INPUT,
    space: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=RANGE",
            help="Where a parameter may lie: 16,32,64 or 1:3 or 0.0:0.5 or 1e-4:1e-2:log; may be repeated. A space of "
            "the network's size and training if not given.",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    trials: Annotated[int, Option(metavar="N", min=1, help="Trials of the whole study.", rich_help_panel=SEARCH)] = 20,
    timeout: Annotated[
        float | None, Option(metavar="SECONDS", help="No trial begins after that.", rich_help_panel=SEARCH)
    ] = None,
    windows: Annotated[
        int, Option(metavar="N", min=1, help="Blocks of validation rows that score a trial.", rich_help_panel=SEARCH)
    ] = 1,
    storage: Annotated[
        str | None,
        Option(metavar="FILE", help="Keeps the study, to go on with; also a database's URL.", rich_help_panel=SEARCH),
    ] = None,
    jobs: Annotated[int, Option(metavar="N", help="Processes, -1 for all cores.", rich_help_panel=SEARCH)] = 1,
    model: Annotated[
        Path | None,
        Option(metavar="DIR", help="Fit with the best parameters and save the model.", rich_help_panel=SEARCH),
    ] = None,
    *,
    format: Format,
    columns: Columns,
    learning: Learning,
    output: Out,
    running: Running,
) -> None:
    """Search for the parameters with the least error on validation rows.

    A row for each trial, the best first. On few series give --set max_epochs=10: left open, a trial trains only where
    that pays, and parameters of the network may then not matter. A study in --storage goes on where it ended.

    \b
    $ titans-ts tune sales.csv --trials 30 --set max_epochs=10 --model sales.model
    $ titans-ts tune sales.csv --space d_model=16,32,64 --space dropout=0.0:0.5
    $ titans-ts tune sales.csv --storage study.db --trials 100
    """
    check_out(output.out, pictures=False)
    ranges = dict(distribution(text) for text in space or []) or None
    for name in ranges or {}:
        check_parameter(name, "--space")
    if model is not None:
        from titans_ts.saving import check_folder

        check_folder(model)
    import optuna

    from titans_ts.search.search_cv import TitansSearchCV

    table = read_table(file, format, columns)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    estimator = forecaster(columns, learning, running)
    estimator.verbose = 0
    search = TitansSearchCV(
        estimator,
        ranges,
        n_trials=trials,
        timeout=timeout,
        n_windows=windows,
        storage=storage,
        n_jobs=jobs,
        refit=model is not None,
        random_state=learning.seed,
    )
    search.fit(table, callbacks=() if running.quiet else (report,))
    if model is not None:
        search.best_estimator_.save(model)
        note(running, f"saved to {model}")
    write(trials_table(search.study_), output.out)


def distribution(text: str) -> tuple[str, BaseDistribution]:
    """The distribution of `NAME=RANGE`.

    Raises
    ------
    typer.BadParameter
        If it is no range, or one from high to low.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    name, equals, rule = text.partition("=")
    ends, log = rule.removesuffix(":log").split(":"), rule.endswith(":log")
    low_high = [parsed(end) for end in ends]
    try:
        if not (name and equals and rule):
            raise ValueError("it has no name or no range")
        if len(ends) == 1 and not log:
            return name, CategoricalDistribution([parsed(choice) for choice in rule.split(",")])
        if len(ends) != 2 or any(isinstance(end, bool) or not isinstance(end, (int, float)) for end in low_high):
            raise ValueError("its ends are no two numbers")
        low, high = low_high
        kind = IntDistribution if isinstance(low, int) and isinstance(high, int) else FloatDistribution
        return name, kind(low=low, high=high, log=log)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} must be NAME=16,32,64, NAME=1:3, NAME=0.0:0.5 or NAME=1e-4:1e-2:log ({error}).",
            param_hint="--space",
        ) from None


def report(study: Study, trial: FrozenTrial) -> None:
    """Say how a trial ended."""
    score = f"relative error {trial.value:.4f}" if trial.value is not None else trial.user_attrs.get("reason", "")
    typer.echo(f"trial {trial.number} {trial.state.name.lower()}: {score} {trial.params}", err=True)


def trials_table(study: Study) -> pd.DataFrame:
    """A row for each trial, the best first: number, state, relative error and parameters."""
    import pandas as pd

    rows: list[dict[str, Any]] = [
        {
            "trial": each.number,
            "state": each.state.name.lower(),
            "relative_error": each.value if each.state.name == "COMPLETE" else None,
            **each.params,
        }
        for each in study.get_trials(deepcopy=False)
    ]
    return pd.DataFrame(rows).sort_values("relative_error", kind="stable").reset_index(drop=True)
