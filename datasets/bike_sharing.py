"""Bike Sharing, the hours: the one data set that comes with the package, from UCI under CC BY 4.0.

Credit: Hadi Fanaee-T, "Bike Sharing" (2013), UCI Machine Learning Repository, doi.org/10.24432/C5W894, licensed under
Creative Commons Attribution 4.0 (creativecommons.org/licenses/by/4.0). It was collected for Fanaee-T and Gama, "Event
labeling combining ensemble detectors and background knowledge" (2014). experiments/pack_bike_sharing.py made the file
of UCI's hour.csv; LICENSE-data says what it changed.
"""

from __future__ import annotations

import gzip
import io
from importlib.resources import files

import pandas as pd

from .registry import NamedSpec

__all__ = ["BIKE_SHARING", "COLUMNS", "FILE", "FREQ", "MEASURES", "SEASONS", "SPLIT", "WEATHER", "read_bike_sharing"]

BIKE_SHARING = NamedSpec(name="bike_sharing", aliases=("bikes",))
FILE = "bike_sharing.csv.gz"
FREQ = "h"
SPLIT = (12_165, 13_904, 17_379)  # ends of the first 70 %, of what is left between, and of the last 20 % of the rows
MEASURES = ("temp", "atemp", "hum", "windspeed", "casual", "registered", "cnt")
COLUMNS = ("season", "holiday", "workingday", "weathersit", *MEASURES)
SEASONS = ("winter", "spring", "summer", "fall")  # 1 to 4 of the file
WEATHER = ("clear", "mist", "light rain or snow", "heavy rain or snow")  # 1 to 4 of the file


def read_bike_sharing() -> pd.DataFrame:
    """The hours that come with the package, a row for each that was published; see `load_dataset`."""
    packed = files(__package__).joinpath(FILE).read_bytes()
    table = pd.read_csv(io.BytesIO(gzip.decompress(packed)), parse_dates=["ds"])
    for name, words in (("season", SEASONS), ("weathersit", WEATHER)):
        table[name] = pd.Categorical.from_codes(table[name] - 1, categories=list(words), ordered=words is WEATHER)
    return table.astype({"holiday": bool, "workingday": bool})
