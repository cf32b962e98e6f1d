"""What the toolkit says in Python's words becomes what is typed."""

from __future__ import annotations

import pytest

from titans_ts.command.remedies import in_options

OPTIONS = {"file", "sep", "drop", "set", "id_col", "target_col", "horizon", "windows", "future_col", "seed"}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("`h` must be 1 or more", "`--horizon` must be 1 or more"),
        ("lower `n_windows` or `h`", "lower `--windows` or `--horizon`"),
        ("`df` has no rows", "`FILE` has no rows"),
        ("pass `sep=';'`", "pass `--sep ';'`"),
        (r"pass `sep='\t'`", r"pass `--sep '\t'`"),
        ("pass `id_col='shop', target_col='units sold'`", "pass `--id-col shop --target-col 'units sold'`"),
        ("pass `future_cols=['a', 'b']`", "pass `--future-col a --future-col b`"),
        ("drop it, with `df.drop(columns=['Unnamed: 0'])`", "drop it, with `--drop 'Unnamed: 0'`"),
        ("pass `outliers='keep'`", "pass `--set outliers=keep`"),
        ("`random_state` must be an int", "`--seed` must be an int"),
        # nothing on the command line stands for these
        ("`fit` them, with `df.T`", "`fit` them, with `df.T`"),
        ("pass `tz='UTC', decimal=f(1)`", "pass `tz='UTC', decimal=f(1)`"),
        ("`df.drop(columns=names)`", "`df.drop(columns=names)`"),
        ("`df.drop(columns=[name])`", "`df.drop(columns=[name])`"),
    ],
)
def test_code_becomes_options(message: str, expected: str) -> None:
    assert in_options(message, OPTIONS) == expected


def test_options_that_a_command_lacks_are_not_named() -> None:
    text = "`sep=';'`, `h`, `df.drop(columns=['a'])`, `df`"
    assert in_options(text, {"out"}) == text
