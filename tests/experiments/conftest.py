"""The modules that the experiments share are imported as the scripts import them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
