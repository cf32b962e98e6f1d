"""Published data sets for forecasting: what they are, where they lie, and how their rows are split.

`load_dataset` reads one by name; `SPECS` lists them. A further data set is one more spec in `registry`.
"""

from .load import Dataset, Split, load_dataset
from .registry import SPECS, DatasetSpec

__all__ = ["SPECS", "Dataset", "DatasetSpec", "Split", "load_dataset"]
