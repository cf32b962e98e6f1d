"""One frozen spec for each published data set: addresses, hash, step, channels and split.

Sources
-------
ETT : Informer (Zhou et al., 2021); the split is the one its benchmark uses, 12, 4 and 4 months of 30 days.
electricity, traffic, exchange_rate : LSTNet (Lai et al., 2018), in the form Autoformer (Wu et al., 2021) gave them.
weather, national_illness : Autoformer. All but ETT are split 70, 10 and 20 %, as there.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["SPECS", "DatasetSpec", "NamedSpec", "PublishedFile", "find_by_name", "find_spec"]


@dataclass(frozen=True, kw_only=True)
class NamedSpec:
    """What people call a set; case, `-`, `_` and spaces do not count."""

    name: str
    aliases: tuple[str, ...] = ()


Spec = TypeVar("Spec", bound=NamedSpec)


@dataclass(frozen=True, kw_only=True)
class PublishedFile:
    """Where a file lies: under `filename` in a folder of the user's, directly or in its sub-folder `folder`."""

    folder: str
    filename: str


@dataclass(frozen=True, kw_only=True)
class DatasetSpec(NamedSpec, PublishedFile):
    """A published CSV file: a `date` column and one numeric column for each channel.

    Parameters
    ----------
    name : str
        The name of the data set.
    aliases : tuple of str
        Other names people use. Case, `-`, `_` and spaces do not count, neither here nor in `name`.
    folder, filename : str
        Where the file lies: in a folder of the user's, directly or in the sub-folder `folder`.
    addresses : tuple of str
        Where to download it, in the order to try.
    bytes : int
        Size of the published file.
    sha256 : str
        Hash of the published file, in hexadecimal.
    freq : str
        Step between rows, as a pandas alias.
    regular : bool
        Whether every row is one step after the row before. Where not, the published dates repeat or skip steps.
    rows : int
        Number of rows in the file.
    channels : tuple of str
        Names of the numeric columns, in the file's order and spelling.
    split : tuple of int
        The rows at which train, validation and test end; each begins where the one before ends, train at 0.
    horizons : tuple of int
        Steps ahead that published results report.
    """

    addresses: tuple[str, ...]
    bytes: int
    sha256: str
    freq: str
    regular: bool = True
    rows: int
    channels: tuple[str, ...]
    split: tuple[int, int, int]
    horizons: tuple[int, ...] = (96, 192, 336, 720)


# Every address names a commit, so the bytes behind it cannot change.
_LIBRARY = "https://huggingface.co/datasets/thuml/Time-Series-Library/resolve/2b66e59ee19dac8f6f19fb5d4997f289fdfea357/"
_ETT_ADDRESSES = (
    "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/1d16c8f4f943005d613b5bc962e9eeb06058cf07/ETT-small/",
    f"{_LIBRARY}ETT-small/",
)
_ETT_HOURS = 17_420
_ETT_SPLIT_HOURS = (8_640, 11_520, 14_400)


def _ett(name: str, size: int, sha256: str, freq: str, rows_per_hour: int) -> DatasetSpec:
    """Two years of one electricity transformer: six loads and the oil temperature OT."""
    train, validation, test = (hours * rows_per_hour for hours in _ETT_SPLIT_HOURS)
    return DatasetSpec(
        name=name,
        folder="ETT-small",
        filename=f"{name}.csv",
        addresses=tuple(f"{address}{name}.csv" for address in _ETT_ADDRESSES),
        bytes=size,
        sha256=sha256,
        freq=freq,
        rows=_ETT_HOURS * rows_per_hour,
        channels=("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"),
        split=(train, validation, test),
    )


def _numbered(count: int) -> tuple[str, ...]:
    """Channels that the file only numbers; the last one is called OT in every file."""
    return (*map(str, range(count - 1)), "OT")


def _by_shares(rows: int) -> tuple[int, int, int]:
    """The first 70 % of the rows, the last 20 %, both rounded down, and what is left between them."""
    return int(0.7 * rows), rows - int(0.2 * rows), rows


SPECS = {
    spec.name: spec
    for spec in (
        _ett("ETTh1", 2_589_657, "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066", "h", 1),
        _ett("ETTh2", 2_417_960, "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b", "h", 1),
        _ett("ETTm1", 10_360_719, "6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e", "15min", 4),
        _ett("ETTm2", 9_677_236, "db973ca252c6410a30d0469b13d696cf919648d0f3fd588c60f03fdbdbadd1fd", "15min", 4),
        # Consumption of 321 clients, in kWh. The years are the publisher's, not those of the measurements.
        DatasetSpec(
            name="electricity",
            aliases=("ECL", "ELC"),
            folder="electricity",
            filename="electricity.csv",
            addresses=(f"{_LIBRARY}electricity/electricity.csv",),
            bytes=95_581_762,
            sha256="7e45845d54c5219bad0ae6bc1b5316cf8ff9cead5d33fa998a5a51c2e4a497ad",
            freq="h",
            rows=26_304,
            channels=_numbered(321),
            split=_by_shares(26_304),
        ),
        # Occupancy of the road, 0 to 1, at 862 sensors; the years again are the publisher's.
        DatasetSpec(
            name="traffic",
            folder="traffic",
            filename="traffic.csv",
            addresses=(f"{_LIBRARY}traffic/traffic.csv",),
            bytes=136_478_119,
            sha256="cb06463d56fa17d87f47027cd9389ceae82a69eddee51cdb61480e120dab0b16",
            freq="h",
            rows=17_544,
            channels=_numbered(862),
            split=_by_shares(17_544),
        ),
        # One year at one station. 2020-05-12 06:00 comes twice and 2020-05-29 lacks 09:40 to 11:00; 81 cells of the
        # train part are -9999 for a missing value. Published results keep all of that as it is.
        DatasetSpec(
            name="weather",
            folder="weather",
            filename="weather.csv",
            addresses=(f"{_LIBRARY}weather/weather.csv",),
            bytes=7_235_425,
            sha256="34ee981d07313e51da2a50bb600072c8ae4a69cb4b0651f4cb93a069d7a2ba63",
            freq="10min",
            regular=False,
            rows=52_696,
            # The published header has lost its micro signs and superscripts to U+FFFD.
            channels=(
                *("p (mbar)", "T (degC)", "Tpot (K)", "Tdew (degC)", "rh (%)", "VPmax (mbar)", "VPact (mbar)"),
                *("VPdef (mbar)", "sh (g/kg)", "H2OC (mmol/mol)", "rho (g/m**3)", "wv (m/s)", "max. wv (m/s)"),
                *("wd (deg)", "rain (mm)", "raining (s)", "SWDR (W/m\ufffd)", "PAR (\ufffdmol/m\ufffd/s)"),
                *("max. PAR (\ufffdmol/m\ufffd/s)", "Tlog (degC)", "OT"),
            ),
            split=_by_shares(52_696),
        ),
        # Daily rates of eight currencies. The dates count every day from 1990-01-01 on, weekends too.
        DatasetSpec(
            name="exchange_rate",
            aliases=("exchange",),
            folder="exchange_rate",
            filename="exchange_rate.csv",
            addresses=(f"{_LIBRARY}exchange_rate/exchange_rate.csv",),
            bytes=637_800,
            sha256="48b4d9d3d508f5104162e85b9a6042e3557fde11aa9f2944eba8c0d0efc89842",
            freq="D",
            rows=7_588,
            channels=_numbered(8),
            split=_by_shares(7_588),
        ),
        # Patients with an influenza-like illness in the United States, by week.
        DatasetSpec(
            name="national_illness",
            aliases=("illness", "ILI"),
            folder="illness",
            filename="national_illness.csv",
            addresses=(f"{_LIBRARY}illness/national_illness.csv",),
            bytes=67_620,
            sha256="93601f64d2566dc796ca4305adad8b8560c2db1a1ff04543c3bd813a7263570a",
            freq="W-TUE",
            rows=966,
            channels=(
                *("% WEIGHTED ILI", "%UNWEIGHTED ILI", "AGE 0-4", "AGE 5-24", "ILITOTAL"),
                *("NUM. OF PROVIDERS", "OT"),
            ),
            split=_by_shares(966),
            horizons=(24, 36, 48, 60),
        ),
    )
}


def find_spec(name: str) -> DatasetSpec:
    """The spec that `name` means, or a ValueError with the closest name.

    Examples
    --------
    >>> find_spec("ECL").name, find_spec("exchange-rate").name, find_spec("ETT-h1").name
    ('electricity', 'exchange_rate', 'ETTh1')
    """
    return find_by_name(name, SPECS)


def find_by_name(name: str, specs: Mapping[str, Spec]) -> Spec:
    """The one of `specs` that `name` means, or a ValueError that lists them and names the closest."""
    known = {_plain(each): spec for spec in specs.values() for each in (spec.name, *spec.aliases)}
    plain = _plain(name)
    if plain in known:
        return known[plain]
    close = difflib.get_close_matches(plain, known, n=1)
    hint = f" Did you mean '{known[close[0]].name}'?" if close else ""
    raise ValueError(f"`name` must be one of {', '.join(specs)}, got {name!r}.{hint}")


def _plain(name: str) -> str:
    return str(name).lower().translate(str.maketrans("", "", "-_ "))
