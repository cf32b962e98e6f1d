"""The scripts import each other by their bare names, as they do where they are run; the tests what they share."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / "experiments"), str(Path(__file__).parent)]
