"""Series of a picture are named as text, whatever their ids are."""

from __future__ import annotations

import pandas as pd
import pytest

from titans_ts.command.pictures import chosen

LONG = pd.DataFrame({"unique_id": [7, 7, 12], "y": [1.0, 2.0, 3.0]})


def test_ids_are_found_by_how_they_are_written() -> None:
    assert chosen(["12", "7"], LONG, "unique_id") == [12, 7]
    assert chosen(["a"], pd.DataFrame({"a": [1.0]}), "unique_id") == ["a"]
    assert chosen(None, LONG, "unique_id") is None
    assert chosen([], LONG, "unique_id") is None


def test_an_unknown_series_is_named() -> None:
    with pytest.raises(ValueError, match=r"`series` must name series of the table, got \['8'\] beside \['7', '12'\]"):
        chosen(["8"], LONG, "unique_id")
