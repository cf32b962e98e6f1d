"""Published data sets for forecasting: what they are, where they lie, and how their rows are split.

`load_dataset` reads one by name; `SPECS` lists those that are downloaded, and "bike_sharing" comes with the package. A
further data set is one more spec in `registry`.
`load_competition` reads the many short series of a competition, `COMPETITIONS` lists them.
"""

from .competitions import COMPETITIONS, Competition, CompetitionSpec, load_competition
from .load import Dataset, Split, load_dataset
from .registry import SPECS, DatasetSpec

__all__ = [
    "COMPETITIONS",
    "SPECS",
    "Competition",
    "CompetitionSpec",
    "Dataset",
    "DatasetSpec",
    "Split",
    "load_competition",
    "load_dataset",
]
