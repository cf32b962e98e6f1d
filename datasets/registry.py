"""One frozen spec for each published data set: addresses, hash, step, channels and split.

Sources
-------
ETT : Informer (Zhou et al., 2021); the split is the one its benchmark uses, 12, 4 and 4 months of 30 days.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SPECS", "DatasetSpec"]


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """A published CSV file: a `date` column and one numeric column for each channel.

    Parameters
    ----------
    name : str
        The name `load_dataset` knows it by.
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
    rows : int
        Number of rows in the file.
    channels : tuple of str
        Names of the numeric columns, in the file's order.
    split : tuple of int
        The rows at which train, validation and test end; each begins where the one before ends, train at 0.
    horizons : tuple of int
        Steps ahead that published results report.
    """

    name: str
    folder: str
    filename: str
    addresses: tuple[str, ...]
    bytes: int
    sha256: str
    freq: str
    rows: int
    channels: tuple[str, ...]
    split: tuple[int, int, int]
    horizons: tuple[int, ...] = (96, 192, 336, 720)


# Both addresses name a commit, so the bytes behind them cannot change.
_ETT_ADDRESSES = (
    "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/1d16c8f4f943005d613b5bc962e9eeb06058cf07/ETT-small/",
    "https://huggingface.co/datasets/thuml/Time-Series-Library/resolve/"
    "2b66e59ee19dac8f6f19fb5d4997f289fdfea357/ETT-small/",
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


SPECS = {
    spec.name: spec
    for spec in (
        _ett("ETTh1", 2_589_657, "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066", "h", 1),
        _ett("ETTh2", 2_417_960, "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b", "h", 1),
        _ett("ETTm1", 10_360_719, "6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e", "15min", 4),
        _ett("ETTm2", 9_677_236, "db973ca252c6410a30d0469b13d696cf919648d0f3fd588c60f03fdbdbadd1fd", "15min", 4),
    )
}
