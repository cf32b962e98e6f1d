"""Records of what a fit chose, and the table of them."""

from __future__ import annotations

import pytest

from titans_ts.training.choices import Choice, choices_table


def test_the_table_has_a_row_for_each_candidate() -> None:
    table = choices_table(
        [
            Choice("linear path", "per_series", {"common": 0.5, "per_series": 0.4}),
            Choice("season", "kept", {"kept": 0.4, "left": 0.6}),
        ]
    )
    assert table.values.tolist() == [
        ["linear path", "common", 0.5, False],
        ["linear path", "per_series", 0.4, True],
        ["season", "kept", 0.4, True],
        ["season", "left", 0.6, False],
    ]
    assert table.columns.tolist() == ["choice", "candidate", "relative_error", "chosen"]


def test_without_choices_the_table_is_empty_and_has_its_columns() -> None:
    table = choices_table([])
    assert table.dtypes.astype(str).to_dict()["relative_error"] == "float64"
    assert table["chosen"].dtype == bool
    assert len(table) == 0


def test_what_was_chosen_is_a_candidate() -> None:
    with pytest.raises(ValueError, match=r"`chosen` must be one of \['a'\], got 'b'"):
        Choice("letter", "b", {"a": 0.1})
