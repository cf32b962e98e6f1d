"""What a fit knows of its stages, its time and its best error, and what its bar shows."""

from __future__ import annotations

import math
import sys

import pytest

from titans_ts.progress import Progress


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_is_that_of_the_limit() -> None:
    clock = Clock()
    progress = Progress(5.0, clock=clock)
    clock.now += 3
    assert (progress.elapsed, progress.left) == (3, 2)
    clock.now += 3
    assert progress.left == -1
    assert Progress(clock=clock).left == math.inf


@pytest.mark.parametrize(("seconds", "lacks"), [(0.0, False), (1.6, False), (1.7, True), (3.0, True)])
def test_what_took_so_long_before_may_take_a_fifth_longer(seconds: float, lacks: bool) -> None:
    clock = Clock()
    progress = Progress(5.0, clock=clock)
    clock.now += 3
    assert progress.lacks(seconds) is lacks


def test_without_a_limit_nothing_lacks_time_and_nobody_is_asked() -> None:
    def refuse(value: bool) -> bool:
        raise AssertionError("no other process is to be asked")

    progress = Progress()
    with progress.among(refuse):
        assert progress.lacks(1e9) is False


def test_among_several_processes_the_first_decides() -> None:
    asked: list[bool] = []

    def broadcast(value: bool) -> bool:
        asked.append(value)
        return True  # what the first has found

    progress = Progress(5.0)
    with progress.among(broadcast):
        assert progress.lacks(0.0) is True
        with progress.among(bool):
            assert progress.lacks(0.0) is False
        assert progress.lacks(0.0) is True
    assert asked == [False, False]
    assert progress.lacks(0.0) is False


def test_the_stage_and_the_best_error_are_known_without_a_bar() -> None:
    progress = Progress()
    assert (progress.stage, math.isnan(progress.best_error)) == ("", True)
    progress.begin("training", 3)
    progress.step()
    progress.found(0.5)
    progress.close()
    assert (progress.stage, progress.best_error) == ("training", 0.5)


@pytest.mark.parametrize(
    ("verbose", "terminal", "shown"), [(0, False, False), (0, True, False), (1, False, False), (1, True, True)]
)
def test_a_bar_is_shown_on_a_terminal_alone(
    verbose: int, terminal: bool, shown: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with Progress(60.0, verbose) as progress:
        progress.begin("closed form")
        progress.begin("training", 4)
        progress.found(0.25)
        progress.step()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert (printed.err != "") == shown
    for words in ("closed form: ", "training: ", "/4 ", "best validation=0.2500", "limit in 60 s"):
        assert (words in printed.err) == shown


def test_without_a_limit_the_bar_names_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress(verbose=1) as progress:
        progress.begin("training", 2)
        progress.found(0.25)
    shown = capsys.readouterr().err
    assert "best validation=0.2500" in shown
    assert "limit" not in shown
