"""What the kernels are compiled to: the reading of machine code, and of real kernels what must stay as it is."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpu import kernel_code
from gpu.compiled import loops

NESTED = """
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   LDL.64 R4, [R1+0x8] ;
.L_x_1:
        /*0020*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0030*/                   STL [R1], R4 ;
        /*0040*/              @!P0 BRA `(.L_x_1) ;
        /*0050*/                   STL [R1+0x4], R5 ;
        /*0060*/               @P1 BRA `(.L_x_0) ;
.L_x_2:
        /*0070*/                   IADD3 R1, R1, 0x1, RZ ;
        /*0080*/              @!P2 BRA `(.L_x_2) ;
        /*0090*/                   EXIT ;
.L_x_3:
        /*00a0*/                   BRA `(.L_x_3) ;
"""


def test_the_innermost_loop_with_products_is_what_counts() -> None:
    assert loops(NESTED) == (3, 1, 1)


def test_without_a_loop_with_products_the_whole_counts() -> None:
    assert loops(NESTED.replace("BRA `(.L_x_1)", "BRA `(.L_x_9)").replace("HMMA", "FFMA")) == (11, 0, 3)


# Most time of a forecast is spent in few kernels; a value of theirs on the stack would cost as much as a product.
@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
def test_kernels_of_short_sequences_keep_their_values_in_registers(tmp_path: Path) -> None:
    environment = {name: x for name, x in os.environ.items() if name != "TRITON_INTERPRET"}
    out = tmp_path / "code.csv"
    arguments = ["--shapes", "forecast", "--chunks", "16", "--out", str(out)]
    subprocess.run([sys.executable, kernel_code.__file__, *arguments], env=environment, check=True)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    chosen: dict[str, str] = {}
    for row in rows:
        chosen.setdefault(row["shape"], row["launch"])  # the first is the kernels' own choice
    kernels = {(row["shape"], row["kernel"]): row for row in rows if row["launch"] == chosen[row["shape"]]}
    for shape in ("forecast, linear C16", "forecast, deep C16"):
        forward, backward = kernels[shape, "forward"], kernels[shape, "backward all"]
        assert int(forward["products"]) > 0
        assert int(forward["spills"]) == 0, forward
        assert int(backward["spills"]) < int(backward["instructions"]) / 20, backward
        assert int(backward["registers"]) <= 255


def test_the_interpreter_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(SystemExit):
        kernel_code.main([])
    assert "unset it" in capsys.readouterr().err
