"""The file that comes with the package is what its script makes of the published one."""

from __future__ import annotations

import gzip
from pathlib import Path

import pack_bike_sharing
import pytest

HOURS = (
    "instant,dteday,season,yr,mnth,hr,holiday,weekday,workingday,weathersit,temp,atemp,hum,windspeed,casual,registered,"
    "cnt\n1,1/2/2011,1,0,1,3,0,0,0,2,0.24,0.2879,0.81,0,3,13,16\n"
)


def test_dates_come_year_first_and_values_as_they_are() -> None:
    header, row, rest = pack_bike_sharing.table(HOURS).split("\n")
    assert header == "ds,season,holiday,workingday,weathersit,temp,atemp,hum,windspeed,casual,registered,cnt"
    assert row == "2011-01-02 03:00,1,0,0,2,0.24,0.2879,0.81,0,3,13,16"
    assert rest == ""


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hour.csv").write_text(HOURS)
    with pytest.raises(SystemExit, match=r"is not the hour\.csv that was packed"):
        pack_bike_sharing.main([str(tmp_path / "hour.csv"), "--out", str(tmp_path / "packed")])
    assert not (tmp_path / "packed").exists()


@pytest.mark.data
def test_the_committed_file_is_what_the_script_makes(data_folder: Path, tmp_path: Path) -> None:
    path = data_folder / "bike_sharing" / "hour.csv"
    if not path.exists():
        pytest.skip("needs bike_sharing/hour.csv beside the published data files")
    pack_bike_sharing.main([str(path), "--out", str(tmp_path / "packed")])
    # Compressors differ, what they compress must not.
    made, kept = (gzip.decompress(file.read_bytes()) for file in (tmp_path / "packed", pack_bike_sharing.TARGET))
    assert made == kept
