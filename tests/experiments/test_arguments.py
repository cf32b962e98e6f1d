"""Names that a script does not know."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest

from arguments import check_names


def test_unknown_names_are_told_beside_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        check_names(ArgumentParser(), "--only", ["first", "secnd", "thrd"], ["first", "second", "third"])
    assert ended.value.code == 2
    assert "`--only` must be some of first, second, third, got secnd, thrd." in capsys.readouterr().err


def test_known_names_pass() -> None:
    check_names(ArgumentParser(), "groups", ["second"], {"first": 1, "second": 2})
    check_names(ArgumentParser(), "groups", [], [])
