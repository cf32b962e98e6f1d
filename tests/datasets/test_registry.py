from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest

from titans_ts.datasets import SPECS

ETT = ["ETTh1", "ETTh2", "ETTm1", "ETTm2"]


def test_every_spec_is_listed_under_its_own_name() -> None:
    assert list(SPECS) == ETT
    assert [spec.name for spec in SPECS.values()] == ETT


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SPECS["ETTh1"].rows = 1  # type: ignore[misc]


@pytest.mark.parametrize("name", ETT)
def test_addresses_lead_to_the_file_on_two_hosts(name: str) -> None:
    addresses = SPECS[name].addresses
    assert all(address.startswith("https://") and address.endswith(f"/ETT-small/{name}.csv") for address in addresses)
    assert len({address.split("/")[2] for address in addresses}) == 2


@pytest.mark.parametrize(
    ("name", "rows", "freq", "split"),
    [
        ("ETTh1", 17_420, "h", (8_640, 11_520, 14_400)),
        ("ETTh2", 17_420, "h", (8_640, 11_520, 14_400)),
        ("ETTm1", 69_680, "15min", (34_560, 46_080, 57_600)),
        ("ETTm2", 69_680, "15min", (34_560, 46_080, 57_600)),
    ],
)
def test_specs_follow_the_published_protocol(name: str, rows: int, freq: str, split: tuple[int, ...]) -> None:
    spec = SPECS[name]
    assert (spec.rows, spec.freq, spec.split) == (rows, freq, split)
    assert spec.horizons == (96, 192, 336, 720)
    assert len(spec.channels) == 7
    assert spec.channels[-1] == "OT"


@pytest.mark.data
@pytest.mark.parametrize("name", ETT)
def test_size_and_hash_are_those_of_the_published_file(name: str, data_folder: Path) -> None:
    spec = SPECS[name]
    content = (data_folder / spec.filename).read_bytes()
    assert len(content) == spec.bytes
    assert hashlib.sha256(content).hexdigest() == spec.sha256
