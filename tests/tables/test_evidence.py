"""Tables that seem to be something else than they would be read as: refused by name, with calls that read them."""

import re

import numpy as np
import pandas as pd
import pytest

from titans_ts.tables.covariate_columns import CovariateNames
from titans_ts.tables.evidence import named_by_dates
from titans_ts.tables.panel import Panel
from titans_ts.tables.read import read_table

pytestmark = pytest.mark.filterwarnings("error")

ROWS = 12
DAYS = pd.date_range("2024-01-01", periods=ROWS)
NOISE = np.random.default_rng(0).normal(size=(4, ROWS))


def remedies(error: Exception) -> list[str]:
    """What stands in backticks: arguments of a forecaster and expressions of a table `df`."""
    return re.findall(r"`((?:df|\w+_col=).*?)`(?=[,.;:) ]|$)", str(error))


def refused(df: object, words: str, **arguments: str) -> list[str]:
    with pytest.raises((TypeError, ValueError), match=words) as caught:
        read_table(df, **arguments)
    found = remedies(caught.value)
    assert found, f"no remedy in: {caught.value}"
    return found


def mended(df: object, *calls: str, **arguments: str) -> Panel:
    """The table as it is read once the calls have been made; arguments are passed."""
    for call in calls:
        if call.startswith("df"):
            df = eval(call, {"df": df, "pd": pd, "int": int, "float": float, "str": str})
        else:
            arguments |= eval(f"dict({call})")
    return read_table(df, **arguments)


def wide(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({**columns, "a": NOISE[0], "b": NOISE[1]})


# Counters


@pytest.mark.parametrize("name", ["Unnamed: 0", "index", "level_0", "row", "id", "", "x"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("dtype", ["int64", "Int64", "uint8"])
def test_a_counter_is_no_series(name, first, dtype):
    counter = pd.Series(np.arange(first, first + ROWS), dtype=dtype)
    df = wide(**{name: counter})
    drop, use, keep = refused(df, rf"column '{name}' counts the rows \({first}, ")
    assert mended(df, drop).ids.tolist() == ["a", "b"]
    assert mended(df, use).ids.tolist() == ["a", "b"]
    assert mended(df, use).data.starts.tolist() == [first, first]
    if name != "Unnamed: 0":
        assert mended(df, keep).ids.tolist() == [name, "a", "b"]
    for dated in (df.set_axis(DAYS), df.assign(date=DAYS)):
        drop, *_ = refused(dated, rf"column '{name}' counts the rows")
        assert mended(dated, drop).ids.tolist() == ["a", "b"]
        assert mended(dated, drop).calendar.freq == "D"


def test_a_counter_of_shuffled_rows_is_one_too():
    df = wide(index=range(ROWS)).assign(date=DAYS).sample(frac=1, random_state=0)
    assert mended(df, refused(df, "column 'index' counts the rows")[0]).ids.tolist() == ["a", "b"]


def test_columns_that_no_index_wrote_are_series():
    for df in (
        wide(c=np.arange(ROWS) * 1.0),  # floats
        wide(c=np.arange(ROWS) % 5),
        wide(c=7).set_axis(DAYS),
        wide(index=NOISE[2]),
        wide(c=np.arange(ROWS) * 10).set_axis(DAYS),
        pd.DataFrame({"a": range(ROWS), "b": range(5, 5 + ROWS)}),
        pd.DataFrame({"only": range(ROWS)}),
        pd.DataFrame({"only": range(ROWS)}, index=DAYS),
    ):
        assert read_table(df).ids.tolist() == df.columns.tolist()


# Times


@pytest.mark.parametrize("name", ["year", "Year", "jahr", "x"])
def test_years_are_times(name):
    df = wide(**{name: range(1990, 1990 + ROWS)})
    use, index, keep = refused(df, rf"column '{name}' looks like times \(1990, 1991, 1992, \.\.\.\)")
    for panel in (mended(df, use), mended(df, index)):
        assert panel.ids.tolist() == ["a", "b"]
        assert panel.calendar.label(panel.data.ends[0]) == 1990 + ROWS
    assert mended(df, keep).ids.tolist() == [name, "a", "b"] if name == "x" else True


def test_years_with_a_gap_or_as_floats_or_shuffled_are_times_by_their_name():
    years = np.array([*range(1990, 1995), *range(1996, 1996 + ROWS - 5)])
    for column in (years, years[::-1], np.random.default_rng(0).permutation(years), years.astype(float)):
        df = wide(year=column)
        calls = refused(df, "column 'year' looks like times")
        calls = calls[:2] if calls[0].startswith("df.astype") else calls[:1]
        assert mended(df, *calls, missing="ffill").calendar.freq == 1


@pytest.mark.parametrize(("unit", "step"), [("s", 3600), ("ms", 60_000), ("us", 10**6), ("ns", 10**9)])
@pytest.mark.parametrize("name", ["t", "a column"])
@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_times_since_1970_are_dates(unit, step, name, dtype):
    first = int(pd.Timestamp("2024-05-01").as_unit(unit).value // {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[unit])
    df = wide(**{name: (first + step * np.arange(ROWS)).astype(dtype)})
    (call,) = refused(df, rf"column '{name}' looks like times in {unit} since 1970 \({first} is 2024-05-01 00:00:00\)")
    panel = mended(df, call)
    assert panel.ids.tolist() == ["a", "b"]
    assert panel.calendar.label(panel.data.starts[0]) == pd.Timestamp("2024-05-01")
    dated = df.set_axis(DAYS)
    assert mended(dated, *refused(dated, f"column '{name}' looks like times in {unit}")).calendar.freq == "D"


@pytest.mark.parametrize(("form", "freq"), [("%Y%m%d", "D"), ("%Y%m", "MS")])
def test_dates_in_digits_are_dates(form, freq):
    times = pd.date_range("2024-01-01", periods=ROWS, freq=freq)
    df = wide(when=times.strftime(form).astype(int))
    panel = mended(df, *refused(df, rf"column 'when' looks like dates written '{form}'"))
    assert (panel.calendar.freq, panel.ids.tolist()) == (freq, ["a", "b"])


@pytest.mark.parametrize("parts", [["year", "month"], ["Year", "Month", "Day"]])
def test_parts_of_dates_are_joined(parts):
    times = pd.date_range("2024-01-01", periods=ROWS, freq="MS" if len(parts) == 2 else "D")
    df = wide(**{part: getattr(times, part.lower()) for part in parts})
    panel = mended(df, *refused(df, "look like the parts of dates")[:1])
    assert (panel.calendar.freq, panel.ids.tolist()) == ("MS" if len(parts) == 2 else "D", ["a", "b"])


@pytest.mark.parametrize("form", ["%d %B %Y", "%b %d, %Y", "%Y/%m/%d %H:%M:%S.%f", "quarter", "week"])
def test_text_in_another_format_of_dates_is_named_with_the_format(form):
    times = pd.date_range("2024-02-26", periods=ROWS, freq="7D")
    text = times.strftime("%G-W%V" if form == "week" else form)
    if form == "quarter":
        text = pd.period_range("2024Q1", periods=ROWS, freq="Q").astype(str)
    df = wide(when=text)
    panel = mended(df, *refused(df, r"column 'when' must hold real numbers, .*text such as '.*look like times"))
    assert panel.ids.tolist() == ["a", "b"]
    assert panel.calendar.freq in ("W-MON", "Q-DEC", "7D")
    indexed = df.set_index("when").rename_axis(None)
    assert mended(indexed, *refused(indexed, "but the index holds text such as")).ids.tolist() == ["a", "b"]


def test_text_in_the_column_of_times_is_named_with_the_format():
    text = pd.period_range("2024Q1", periods=ROWS, freq="Q").astype(str)
    df = pd.DataFrame({"ds": text, "y": NOISE[0]})
    calls = refused(df, "time labels 'ds' must be dates, periods or integers, got text such as '2024Q1'")
    assert mended(df, *calls).calendar.freq == "Q-DEC"


@pytest.mark.parametrize("part", ["year", "month", "hour", "weekday", "dayofyear"])
def test_a_part_of_the_times_is_no_series(part):
    times = pd.date_range("2024-01-31", periods=ROWS, freq="7h")
    df = wide(**{part: getattr(times, {"weekday": "day_of_week", "dayofyear": "day_of_year"}.get(part, part))})
    for dated in (df.set_axis(times), df.assign(date=times)):
        drop, keep = refused(dated, f"column '{part}' repeats the {part} of the table's times")
        assert mended(dated, drop).ids.tolist() == ["a", "b"]
        assert mended(dated, keep).ids.tolist() == [part, "a", "b"]
    if part not in ("year", "dayofyear"):
        drop, keep = refused(df, f"column '{part}' has the name of a part of dates, and the table has no times")
        assert mended(df, drop).ids.tolist() == ["a", "b"]
        assert mended(df, keep).ids.tolist() == [part, "a", "b"]
    assert read_table(wide(**{part: [5, 3] * (ROWS // 2)}).set_axis(times)).n_series == 3


def test_irregular_times_since_1970_are_dates():
    steps = np.random.default_rng(0).integers(1, 9, ROWS).cumsum()
    df = wide(x=1_700_000_000 + steps)
    (call,) = refused(df, "column 'x' looks like times in s since 1970")
    assert mended(df, call, freq="s", missing="ffill").layout.time_col == "x"
    assert read_table(wide(x=1_700_000_000 + steps % 7)).n_series == 3


def test_text_that_is_no_time_at_all_is_named():
    df = wide(note=[f"note {i}" for i in range(ROWS)])
    assert mended(df, refused(df, "column 'note' must hold real numbers, .*such as 'note 0'")[0]).ids.tolist() == [
        "a",
        "b",
    ]


# Ids


def sales(**names: str) -> pd.DataFrame:
    stores = ["n", "s"]
    table = pd.DataFrame({"store": np.repeat(stores, ROWS), "date": [*DAYS, *DAYS], "sales": NOISE[:2].ravel()})
    return table.rename(columns=names)


@pytest.mark.parametrize("dtype", ["str", "object", "category", "int64", "Int64"])
def test_a_long_table_of_other_names_is_read_with_the_arguments_named(dtype):
    df = sales()
    df["store"] = df["store"].map({"n": 1, "s": 2}).astype(dtype) if "nt" in dtype else df["store"].astype(dtype)
    for table in (df, df.assign(price=1.5)):
        panel = mended(table, *refused(table, "column 'store'|times repeat"))
        assert (panel.layout.kind, panel.n_series) == ("long", 2)
        assert panel.data.values.tolist() == NOISE[:2].ravel().tolist()


@pytest.mark.parametrize(
    "names",
    [
        {"store": "unique_id"},
        {"date": "ds"},
        {"sales": "y"},
        {"store": "unique_id", "date": "ds"},
        {"date": "ds", "sales": "y"},
        {"store": "unique_id", "sales": "y"},
    ],
    ids=str,
)
def test_the_arguments_that_are_right_by_default_are_left_out(names):
    df = sales(**names)
    calls = refused(df, "store|unique_id")
    panel = mended(df, calls[-1])
    assert (panel.layout.kind, panel.ids.tolist()) == ("long", ["n", "s"])
    assert not any(f"={name!r}" in calls[-1] for name in ("unique_id", "ds", "y"))


def test_ids_are_no_series_where_their_times_are_apart():
    df = sales().assign(date=pd.date_range("2024", periods=2 * ROWS), store=np.repeat([1, 2], ROWS))
    call, keep = refused(df, "column 'store' has the name of an id and few values")
    assert mended(df, call).ids.tolist() == [1, 2]
    assert mended(df, keep).ids.tolist() == ["store", "sales"]


def test_a_constant_id_is_no_series():
    df = wide(store_id=7).assign(date=DAYS)
    drop, keep = refused(df, "column 'store_id' holds 7 in every row and has the name of an id")
    assert mended(df, drop).ids.tolist() == ["a", "b"]
    assert mended(df, keep).ids.tolist() == ["store_id", "a", "b"]
    assert read_table(wide(store_id=0.0).assign(date=DAYS)).n_series == 3


# Tables turned round


@pytest.mark.parametrize(
    "columns",
    [DAYS, DAYS.strftime("%Y-%m-%d"), range(1990, 1990 + ROWS), pd.period_range("2024", periods=ROWS, freq="M")],
)
@pytest.mark.parametrize("ids", [None, "index", "country", "unique_id", "unique_id in the index", "two"])
def test_dates_as_columns_are_turned_round(columns, ids):
    df = pd.DataFrame(NOISE, columns=pd.Index(columns))
    if ids == "index":
        df.index = list("abcd")
    elif ids in ("country", "unique_id"):
        df.insert(0, ids, list("abcd"))
    elif ids == "two":
        df = pd.concat([pd.DataFrame({"country": list("abcd"), "code": list("ABCD")}), df], axis=1)
    elif ids:
        df.index = pd.Index(list("abcd"), name="unique_id")
    panel = mended(df, *refused(df, "the columns are named by dates"))
    assert panel.n_series == 4
    assert panel.data.values.tolist() == NOISE.ravel().tolist()
    assert panel.data.lengths.tolist() == [ROWS] * 4


def test_columns_are_named_by_dates_only_where_most_are():
    assert not named_by_dates(pd.Index(["2024-01-01", "a", "b"]))
    assert not named_by_dates(pd.Index(["a"]))
    assert not named_by_dates(pd.RangeIndex(3))
    assert named_by_dates(pd.Index(["a", "2024-01-01", "2024-01-02"]))
    assert read_table(pd.DataFrame(NOISE.T, index=DAYS, columns=pd.date_range("2023", periods=4))).n_series == 4


def test_rows_that_go_on_from_a_table_read_before_may_look_like_anything():
    df = wide(c=[3, 1, 4, 1, 5, 9, 2, 6, 5, 0, 1, 2]).set_axis(DAYS)
    history = read_table(df)
    later = read_table(df[-3:], calendar=history.calendar)
    assert later.ids.tolist() == ["c", "a", "b"]
    with pytest.raises(ValueError, match="column 'c' counts the rows"):
        read_table(df[-3:])


def test_dates_in_digits_under_the_name_of_times_are_dates():
    times = [*pd.date_range("2024-01-27", periods=ROWS // 2), *pd.date_range("2024-02-03", periods=ROWS // 2)]
    df = wide(date=pd.DatetimeIndex(times).strftime("%Y%m%d").astype(int))
    panel = mended(df, *refused(df, r"column 'date' looks like dates written '%Y%m%d'"), missing="ffill")
    assert (panel.calendar.freq, panel.ids.tolist()) == ("D", ["a", "b"])


# Columns that hold no numbers


def test_dates_beside_others_are_dropped_or_made_plain():
    df = wide(due=DAYS + pd.Timedelta(days=3), ds=DAYS)
    (call,) = refused(df, "column 'due' must hold real numbers.*it holds dates beside other times")
    assert mended(df, call).ids.tolist() == ["a", "b"]
    df = wide(date=pd.Categorical(DAYS))
    assert mended(df, *refused(df, "column 'date' must .* it holds dates: make them plain")).calendar.freq == "D"


def test_spans_of_time_are_seconds():
    df = wide(took=pd.to_timedelta(np.arange(ROWS) % 5, unit="min")).set_index(DAYS)
    with pytest.raises(TypeError, match=r"column 'took' must hold real numbers.*use `\.dt\.total_seconds\(\)`"):
        read_table(df)
    assert read_table(df.assign(took=df["took"].dt.total_seconds())).data.values[:3].tolist() == [0, 60, 120]


@pytest.mark.parametrize("nothing", [pd.Series([None] * ROWS, dtype=object), pd.Series(pd.NA, range(ROWS), "string")])
def test_a_column_of_nothing_is_dropped(nothing):
    df = wide(more=nothing).set_index(DAYS)
    assert mended(df, *refused(df, "column 'more' must hold real numbers.*it holds nothing")).ids.tolist() == ["a", "b"]


@pytest.mark.parametrize("value", [[1, 2], {"x": 1}, (1, 2), pd.Interval(0, 1)])
def test_values_of_another_type_are_no_ids(value):
    df = wide(more=pd.Series([value] * ROWS, dtype=object)).set_index(DAYS)
    (drop,) = refused(df, f"column 'more' must hold real numbers.*it holds values of type {type(value).__name__}")
    assert mended(df, drop).ids.tolist() == ["a", "b"]


def test_names_may_be_numbers_or_tuples():
    df = wide().set_axis([3, ("a", 1)], axis=1).set_index(DAYS)
    assert read_table(df).ids.tolist() == [3, ("a", 1)]


@pytest.mark.parametrize("times", ["ds", "index"])
def test_text_of_one_series_is_a_covariate_and_no_id(times):
    df = wide(sky=["clear", "rain", "rain"] * (ROWS // 3), ds=DAYS)
    df = df.set_index("ds") if times == "index" else df
    drop, *_ = refused(df, "it holds text such as 'clear': name the column to forecast, with `target_col`, and name")
    assert mended(df, drop).ids.tolist() == ["a", "b"]
    found = read_table(
        df.reset_index(names="ds")[["ds", "a", "sky"]] if times == "index" else df[["ds", "a", "sky"]],
        target_col="a",
        covariates=CovariateNames.of(None, ["sky"], None, None, ("unique_id", "ds", "a")),
    )
    assert found.covariates.columns[0].categories == ("clear", "rain")


def test_a_table_without_a_number_is_told_as_one():
    df = pd.DataFrame({"ds": DAYS, "sales": [f"${i}" for i in range(ROWS)]})
    with pytest.raises(TypeError, match=r"text such as '\$0', and no column of the table holds numbers"):
        read_table(df)
