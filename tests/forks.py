"""Processes that may be killed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable


def in_a_fork(function: Callable[[], object]) -> int:
    """The exit code of a process that calls `function`, negative for the signal that killed it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where there are threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
