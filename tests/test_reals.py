"""What counts as a real number."""

import decimal
import fractions

import numpy as np
import pandas as pd
import pytest

from titans_ts.reals import is_real


@pytest.mark.parametrize("value", [0, 1.5, float("nan"), np.int8(3), np.float32(0.5), fractions.Fraction(1, 2)])
def test_numbers_are_real(value):
    assert is_real(value)


@pytest.mark.parametrize(
    "value",
    [None, True, np.True_, "1", 1j, np.complex64(1), np.timedelta64(3, "h"), pd.Timedelta("1h"), decimal.Decimal(1)],
)
def test_what_only_looks_like_a_number_is_not(value):
    assert not is_real(value)
