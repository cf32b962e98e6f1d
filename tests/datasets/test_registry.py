from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest

from titans_ts.datasets import SPECS
from titans_ts.datasets.registry import find_spec

ETT = ["ETTh1", "ETTh2", "ETTm1", "ETTm2"]
OTHERS = ["electricity", "traffic", "weather", "exchange_rate", "national_illness"]


def test_every_spec_is_listed_under_its_own_name() -> None:
    assert list(SPECS) == ETT + OTHERS
    assert [spec.name for spec in SPECS.values()] == ETT + OTHERS


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SPECS["ETTh1"].rows = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("ETTh1", ["ETTh1", "etth1", "ETTH1", "ETT-h1", "ett_h1"]),
        ("ETTm2", ["ettm2", "ETT-m2"]),
        ("electricity", ["electricity", "Electricity", "ECL", "ecl", "ELC", "elc"]),
        ("traffic", ["traffic", "Traffic"]),
        ("weather", ["weather", "Weather"]),
        ("exchange_rate", ["exchange_rate", "exchange-rate", "Exchange Rate", "Exchange", "exchangerate"]),
        ("national_illness", ["national_illness", "National-Illness", "illness", "ILI", "ili"]),
    ],
)
def test_names_are_known_in_any_case_and_by_their_aliases(name: str, given: list[str]) -> None:
    assert [find_spec(each).name for each in given] == [name] * len(given)


def test_no_two_specs_share_a_name() -> None:
    names = [name.lower() for spec in SPECS.values() for name in (spec.name, *spec.aliases)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("wether", "weather"), ("elecricity", "electricity"), ("ECLL", "electricity"), ("ETT-h1h", "ETTh1")],
)
def test_an_unknown_name_is_an_error_with_the_closest_one(given: str, meant: str) -> None:
    with pytest.raises(
        ValueError, match=rf"one of ETTh1, ETTh2, .*, national_illness, got '{given}'\. Did you mean '{meant}'\?"
    ):
        find_spec(given)


def test_a_name_like_no_other_is_an_error_without_a_guess() -> None:
    with pytest.raises(ValueError, match=r"got 'sunspots'\.$"):
        find_spec("sunspots")


@pytest.mark.parametrize("name", ETT)
def test_addresses_of_ett_lead_to_the_file_on_two_hosts(name: str) -> None:
    addresses = SPECS[name].addresses
    assert all(address.startswith("https://") and address.endswith(f"/ETT-small/{name}.csv") for address in addresses)
    assert len({address.split("/")[2] for address in addresses}) == 2


@pytest.mark.parametrize("name", OTHERS)
def test_addresses_of_the_others_lead_to_the_file_at_one_commit(name: str) -> None:
    folder = {"national_illness": "illness"}.get(name, name)
    assert SPECS[name].addresses == (
        "https://huggingface.co/datasets/thuml/Time-Series-Library/resolve/"
        f"2b66e59ee19dac8f6f19fb5d4997f289fdfea357/{folder}/{name}.csv",
    )
    assert SPECS[name].folder == folder


@pytest.mark.parametrize(
    ("name", "rows", "channels", "freq", "split"),
    [
        ("ETTh1", 17_420, 7, "h", (8_640, 11_520, 14_400)),
        ("ETTh2", 17_420, 7, "h", (8_640, 11_520, 14_400)),
        ("ETTm1", 69_680, 7, "15min", (34_560, 46_080, 57_600)),
        ("ETTm2", 69_680, 7, "15min", (34_560, 46_080, 57_600)),
        ("electricity", 26_304, 321, "h", (18_412, 21_044, 26_304)),
        ("traffic", 17_544, 862, "h", (12_280, 14_036, 17_544)),
        ("weather", 52_696, 21, "10min", (36_887, 42_157, 52_696)),
        ("exchange_rate", 7_588, 8, "D", (5_311, 6_071, 7_588)),
        ("national_illness", 966, 7, "W-TUE", (676, 773, 966)),
    ],
)
def test_specs_follow_the_published_protocol(
    name: str, rows: int, channels: int, freq: str, split: tuple[int, ...]
) -> None:
    spec = SPECS[name]
    assert (spec.rows, spec.freq, spec.split) == (rows, freq, split)
    assert spec.horizons == ((24, 36, 48, 60) if name == "national_illness" else (96, 192, 336, 720))
    assert len(set(spec.channels)) == len(spec.channels) == channels
    assert spec.channels[-1] == "OT"
    assert spec.regular == (name != "weather")


@pytest.mark.data
@pytest.mark.parametrize("name", [name for name in SPECS if name not in ("electricity", "traffic")])
def test_size_hash_and_header_are_those_of_the_published_file(name: str, data_folder: Path) -> None:
    spec = SPECS[name]
    content = (data_folder / spec.filename).read_bytes()
    assert len(content) == spec.bytes
    assert hashlib.sha256(content).hexdigest() == spec.sha256
    assert tuple(content.decode().splitlines()[0].split(",")) == ("date", *spec.channels)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("electricity", "ecl_321cols_first55h_official_format.csv"),
        ("traffic", "traffic_862cols_first25h_official_format.csv"),
    ],
)
def test_the_header_is_that_of_a_published_sample(name: str, sample: str, data_folder: Path) -> None:
    header = (data_folder / sample).read_text().splitlines()[0]
    assert tuple(header.split(",")) == ("date", *SPECS[name].channels)
