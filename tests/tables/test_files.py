"""Tables from files: as they were written, or refused with what to pass."""

import re
import sys

import numpy as np
import pandas as pd
import pytest
from pandas.io.common import get_handle

from titans_ts.tables.files import read_file
from titans_ts.tables.read import read_table

pytestmark = pytest.mark.filterwarnings("error")


def file(folder, text: str, name: str = "table.csv", encoding: str = "utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


ROWS = "unique_id;ds;y\n" + "".join(f"Köln;{day:02}.01.2024;{day},5\n" for day in range(9, 15))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_semicolons_decimal_commas_and_day_first_dates_are_read_as_told(encoding, tmp_path):  # case 36
    table = read_file(file(tmp_path, ROWS, encoding=encoding), sep=";", decimal=",", date_format="%d.%m.%Y")
    expected = {"unique_id": ["Köln"] * 6, "ds": pd.date_range("2024-01-09", periods=6), "y": np.arange(9, 15) + 0.5}
    pd.testing.assert_frame_equal(table, pd.DataFrame(expected), check_dtype=False, check_freq=False)
    assert read_table(table).calendar.freq == "D"


def test_dates_that_could_be_either_are_refused_with_the_remedy(tmp_path):  # case 36
    path = file(tmp_path, "ds,y\n01/02/2024,1\n02/02/2024,2\n03/02/2024,3\n")
    words = r"got '01/02/2024', whose day and month could be either; pass `date_format='%d/%m/%Y'`"
    with pytest.raises(ValueError, match=f"table.csv', column 'ds': .*{words}"):
        read_file(path)
    assert read_file(path, date_format="%d/%m/%Y")["ds"].dt.month.tolist() == [2, 2, 2]
    assert read_file(path, date_format="%m/%d/%Y")["ds"].dt.month.tolist() == [1, 2, 3]
    american = file(tmp_path, "ds,y\n01/02/2024,1\n01/31/2024,2\n")
    with pytest.raises(ValueError, match=r"got '01/02/2024'; pass `date_format='%m/%d/%Y'`"):
        read_file(american)


WRITTEN = [
    ("Jan 2024", "%b %Y", "2024-01-01"),
    ("January 2024", "%B %Y", "2024-01-01"),
    ("Jan-24", "%b-%y", "2024-01-01"),
    ("03/2024", "%m/%Y", "2024-03-01"),
    ("2024Q2", "%YQ%q", "2024-04-01"),
    ("2024-Q2", "%Y-Q%q", "2024-04-01"),
    ("Q4 2024", "Q%q %Y", "2024-10-01"),
    ("2024-W09", "%G-W%V", "2024-02-26"),
    ("5 March 2024", "%d %B %Y", "2024-03-05"),
]


@pytest.mark.parametrize("name", ["when", "ds"])
@pytest.mark.parametrize(("text", "form", "date"), WRITTEN)
def test_dates_of_other_formats_are_named_with_theirs(text, form, date, name, tmp_path):
    path = file(tmp_path, f"{name},y\n{text},1\n{text},2\n")
    with pytest.raises(ValueError, match=f"table.csv', column '{name}' .*'{text}'; pass `date_format='{form}'`"):
        read_file(path)
    assert read_file(path, date_format=form)[name].tolist() == [pd.Timestamp(date)] * 2


def test_a_quarter_or_a_week_of_another_format_is_named(tmp_path):
    for form, right, wrong in (("%YQ%q", "2024Q4", "2024Q5"), ("%G-W%V", "2024-W52", "2024-W54")):
        path = file(tmp_path, f"ds,y\n{right},1\n{wrong},2\n")
        with pytest.raises(ValueError, match=f"must all have the format '{form}', got '{wrong}' in row 1"):
            read_file(path, date_format=form)


def test_text_beside_dates_or_that_is_none_is_left_alone(tmp_path):
    text = "when,note,other,y\n05.03.2024,dry,01.04.2024,1\n06.03.2024,wet,02.04.2024,2\n"
    table = read_file(file(tmp_path, text), date_format="%d.%m.%Y")
    assert [table[name].dtype.kind for name in ("when", "other", "y")] == ["M", "M", "i"]
    assert table["note"].tolist() == ["dry", "wet"]
    table = read_file(file(tmp_path, "ds,term,open,y\n2024-01-01,2023Q4,09:30,1\n2024-01-02,2023Q4,09:30,2\n"))
    assert table["term"].tolist() == ["2023Q4", "2023Q4"]
    assert read_file(file(tmp_path, "open,y\n09:30,1\n10:30,2\n"))["open"].tolist() == ["09:30", "10:30"]


@pytest.mark.parametrize("first", ["2021-01-01,100.13", "2021-01-01,100", "100.13", "100.13,7", "-5.2", "2021-01-01"])
def test_a_file_without_names_of_columns_is_told(first, tmp_path):
    with pytest.raises(ValueError, match=rf"begins with {first.replace(',', ', ')} and so has no names of columns"):
        read_file(file(tmp_path, f"{first}\n{first}\n"))


@pytest.mark.parametrize("sep", [",", ";"])
def test_the_line_that_tells_excel_the_separator_is_no_line_of_names(sep, tmp_path):
    with pytest.raises(ValueError, match=r"begins with a line 'sep=.*', which only Excel reads; remove that line"):
        read_file(file(tmp_path, "sep=;\nds;y\n1;2\n"), sep=sep)


@pytest.mark.parametrize("names", ["0,1", "7", "id,2021-01-01", "2021-01-01,2021-02-01", "x,1.5", ",1"])
def test_numbers_and_dates_may_be_names_of_columns(names, tmp_path):
    path = file(tmp_path, f"{names}\n{','.join('1' for _ in names.split(','))}\n")
    assert [name for name in read_file(path) if not name.startswith("Unnamed")] == [n for n in names.split(",") if n]


def test_a_date_of_another_format_is_named(tmp_path):
    path = file(tmp_path, ROWS.replace("11.01.2024", "2024-01-11"))
    with pytest.raises(ValueError, match=r"must all have the format '%d.%m.%Y', got '2024-01-11' in row 2"):
        read_file(path, sep=";", decimal=",", date_format="%d.%m.%Y")


@pytest.mark.parametrize(
    ("text", "kind", "first"),
    [
        ("2024-01-31T10:00:00Z", "M", pd.Timestamp("2024-01-31 10:00")),
        ("2021-05", "M", pd.Timestamp("2021-05-01")),
        ("17", "i", 17),
    ],
)
def test_dates_with_the_year_first_and_integers_need_no_format(text, kind, first, tmp_path):
    table = read_file(file(tmp_path, f"ds,y\n{text},1\n"))
    assert (table["ds"].dtype.kind, table["ds"].iloc[0]) == (kind, first)


def test_integers_may_be_dates_if_told(tmp_path):
    table = read_file(file(tmp_path, "ds,y\n20240131,1\n"), date_format="%Y%m%d")
    assert table["ds"].tolist() == [pd.Timestamp("2024-01-31")]


def test_ids_stay_the_text_they_are(tmp_path):
    table = read_file(file(tmp_path, "unique_id,ds,y\n007,1,1\nNA,1,2\n1e5,1,\n,1,4\n"))
    assert table["unique_id"].tolist()[:3] == ["007", "NA", "1e5"]
    assert table["unique_id"].isna().tolist() == [False, False, False, True]
    assert table["y"].isna().tolist() == [False, False, True, False]


def test_numbers_come_back_to_the_bit(tmp_path):
    values = np.random.default_rng(0).normal(size=1000) * 10.0 ** np.arange(-150, 150).repeat(4)[:1000]
    pd.DataFrame({"ds": range(1000), "y": values}).to_csv(tmp_path / "table.csv.gz", index=False)
    assert np.array_equal(read_file(tmp_path / "table.csv.gz")["y"], values)


def test_wide_files_find_their_column_of_dates(tmp_path):
    table = read_file(file(tmp_path, "date\tOT\n2016-07-01 00:00:00\t1\n2016-07-01 01:00:00\t2\n", "t.tsv"))
    assert table["date"].tolist() == [pd.Timestamp("2016-07-01"), pd.Timestamp("2016-07-01 01:00")]


@pytest.mark.parametrize(
    ("text", "how", "words"),
    [
        (ROWS, {}, "has one column, 'unique_id;ds;y'; pass `sep=';'`"),
        (ROWS, dict(sep=";", date_format="%d.%m.%Y"), "column 'y' has text such as '9,5'; pass `decimal=','`"),
        ("ds;y\n1;1.5\n", dict(sep=";", decimal=","), "column 'y' has text such as '1.5'; pass `decimal='.'`"),
        ("ds\ty\n1\t1.5\n", {}, r"has one column, 'ds\\ty'; pass `sep='\\t'`"),
        ("ds,y,y\n1,2,3\n", {}, "must name every column once, got 'y' again"),
        ("", {}, "is empty; it must have a row of names"),
    ],
)
def test_what_is_separated_otherwise_is_refused_with_the_remedy(text, how, words, tmp_path):
    with pytest.raises(ValueError, match=f"table.csv'.* {words}"):
        read_file(file(tmp_path, text), **how)


def numbers(folder, *texts: str, **how: object) -> list[float]:
    rows = "".join(f'{i},"{text}"\n' for i, text in enumerate(texts))
    return read_file(file(folder, "ds,y\n" + rows), **how)["y"].tolist()


def passed(error: Exception) -> list[dict]:
    """The arguments that an error names, each reading's apart."""
    found = re.findall(r"((?:`\w+=.*?`(?: and )?)+)(?=[).])", str(error))
    return [eval(f"dict({', '.join(re.findall(r'`(.*?)`', part))})") for part in found]


@pytest.mark.parametrize(
    ("texts", "given", "readings"),
    [
        (["1,150", "2,300"], {}, [[1.15, 2.3], [1150, 2300]]),
        (["1,150", "2,30"], {}, [[1.15, 2.3]]),
        (["1,150", "0,300"], {}, [[1.15, 0.3]]),
        (["1,150", "999", "12"], {}, [[1.15, 999, 12], [1150, 999, 12]]),
        (["-1,150,000", "2,300"], {}, [[-1150000, 2300]]),
        (["1,150.5", "2,300"], {}, [[1150.5, 2300]]),
        (["1.150,5", "2.300"], {}, [[1150.5, 2300]]),
        (["1.150", "2.300"], {"decimal": ","}, [[1.15, 2.3], [1150, 2300]]),
        (["1.5", "2.300"], {"decimal": ","}, [[1.5, 2.3]]),
        (["1,150", "2,5"], {"thousands": ","}, [[1.15, 2.5]]),
        (["1 150", "2 300"], {}, [[1150, 2300]]),
        (["1\u202f150,5", "2\u202f300,25"], {}, [[1150.5, 2300.25]]),
        (["1\u00a0150.5", "7"], {}, [[1150.5, 7]]),
        (["1'150", "2'300.5"], {}, [[1150, 2300.5]]),
        (["1.5e3", "1,150"], {}, [[1500, 1150]]),
    ],
)
def test_numbers_in_other_notations_are_read_as_one_of_the_readings_named(texts, given, readings, tmp_path):  # case 45
    with pytest.raises(ValueError, match=r"table.csv', column 'y' has text such as ") as caught:
        numbers(tmp_path, *texts, **given)
    options = passed(caught.value)
    found = [numbers(tmp_path, *texts, **{**given, **option}) for option in options]
    assert sorted(found) == sorted(readings)


def test_all_columns_of_a_file_have_one_notation(tmp_path):
    path = file(tmp_path, 'ds,a,b\n1,"1,150","2,5"\n2,"1,151","3,5"\n')
    with pytest.raises(ValueError, match=r"column 'b' has text such as '2,5'; pass `decimal=','`\."):
        read_file(path)
    assert read_file(path, decimal=",")[["a", "b"]].values.tolist() == [[1.15, 2.5], [1.151, 3.5]]
    path = file(tmp_path, 'ds,a\n1,"1,5"\n2,"1.234,5"\n3,"1,234.5"\n')
    with pytest.raises(ValueError, match=r"column 'a' .*, and no one notation fits all numbers of the file"):
        read_file(path)


def test_thousands_are_read_where_they_are_grouped_and_nothing_else_changes(tmp_path):
    path = file(tmp_path, 'unique_id,ds,y,note,z\n"1,150",2024-01-01,"1,150","x",5\n"7",2024-01-02,,n/v,6\n')
    table = read_file(path, thousands=",")
    assert table["unique_id"].tolist() == ["1,150", "7"]
    assert table["y"].tolist()[:1] == [1150]
    assert table["y"].isna().tolist() == [False, True]
    assert table["z"].tolist() == [5, 6]
    for mark in ("", ",,", "."):
        with pytest.raises(ValueError, match="`thousands` must be one character other than `decimal`, got"):
            read_file(path, thousands=mark)


@pytest.mark.parametrize("end", ["", ".gz", ".zip"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("date,a,b\n1,2,3,4\n5,6,7,8\n", "line 2 has 4 fields under 3 names .date, a, b.; name every column"),
        ("date,a,b\n0,2,3,4\n1,6,7,8\n", "line 2 has 4 fields under 3 names .date, a, b.; name every column"),
        ("date,a,b\n1,2,3\n5,6,7,8\n", "line 3 has 4 fields under 3 names"),
        ("date,a,b\n1,2,3,4\n5,6,7\n", "line 2 has 4 fields under 3 names"),
        ("date,a,b\n\n1,2,3\n5,6\n", "line 4 has 2 fields under 3 names .date, a, b.; write every field"),
        ("date,a,b\n1,2,3,\n5,6,7,\n", "line 2 has 4 fields under 3 names .*; remove the ',' that ends the line"),
        ('date,a,b\n1,"x\ny",3\n5,6\n', "line 4 has 2 fields under 3 names"),
        ("date,a,b\n1,1,150,3\n5,6,3\n", "line 2 has 4 fields under 3 names .*, or quote fields that hold ','"),
        ("a,b,c,d,e\n1\n", r"line 2 has 1 field under 5 names \(a, b, c, d, \.\.\.\)"),
    ],
)
def test_rows_of_more_or_fewer_fields_than_names_are_refused_by_line(text, words, end, tmp_path):  # case 46
    path = tmp_path / f"table.csv{end}"
    pd.Series([0]).to_csv(path)  # pandas knows how to compress
    with get_handle(path, "w", compression="infer") as handles:
        handles.handle.write(text)
    with pytest.raises(ValueError, match=rf"table.csv.*', {words}"):
        read_file(path)


def test_separators_at_the_end_of_every_line_are_no_column(tmp_path):
    table = read_file(file(tmp_path, "date,a,b,\n2024-01-01,1,2,\n2024-01-02,3,4,\n"))
    assert table.columns.tolist() == ["date", "a", "b"]
    assert read_file(file(tmp_path, "date,a,\n2024-01-01,1,\n2024-01-02,3,4\n")).columns[-1] == "Unnamed: 2"


def test_missing_values_in_the_last_column_are_missing(tmp_path):
    table = read_file(file(tmp_path, "ds,y\n1,1\n2,\n3,NA\n"))
    assert table["y"].isna().tolist() == [False, True, True]


def test_a_column_may_have_the_name_of_a_missing_value_or_none(tmp_path):
    table = read_file(file(tmp_path, ",NA,\n0,1,5\n1,,6\n"))
    assert table.columns.tolist() == ["Unnamed: 0", "NA", "Unnamed: 2"]
    assert table["NA"].isna().tolist() == [False, True]


def test_other_encodings_and_endings_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"table.csv' must be UTF-8 .*; convert it"):
        read_file(file(tmp_path, ROWS, encoding="latin-1"), sep=";")
    with pytest.raises(ValueError, match=r"table.xlsx' must end in one of .csv, .tsv, .txt, .parquet, .pq; rename it"):
        read_file(file(tmp_path, ROWS, "table.xlsx"))
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv"):
        read_file(tmp_path / "nowhere.csv")


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zip"])
def test_what_was_cut_or_compressed_otherwise_is_refused(suffix, tmp_path):
    table, path = pd.DataFrame({"ds": range(2000), "y": 1.0}), tmp_path / f"table.csv.{suffix}"
    table.to_csv(path, index=False)
    pd.testing.assert_frame_equal(read_file(path), table)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"ds,y\n1,2\n"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"table.csv.{suffix}' cannot be decompressed .*; its name must end as"):
            read_file(path)


@pytest.mark.parametrize("sep", [r"\s+", r"\s*;\s*"])
def test_a_separator_may_be_a_pattern(sep, tmp_path):
    mark = " " if sep == r"\s+" else " ; "
    table = read_file(file(tmp_path, f"ds{mark}y\n2024-01-01{mark}1.5\n2024-01-02{mark}2\n"), sep=sep)
    assert table["y"].tolist() == [1.5, 2.0]
    assert table["ds"].dt.day.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ({"sep": ""}, r"`sep` must be what separates the columns, got ''"),
        ({"sep": "(("}, r"`sep` must be a character, or a regular expression, got '\(\('"),
        ({"tz": "Europe/Bonn"}, r"`tz` must be the name of a time zone, such as 'Europe/Berlin', got 'Europe/Bonn'"),
        ({"tz": 5}, "`tz` must be the name of a time zone, such as 'Europe/Berlin', got 5"),
    ],
)
def test_an_argument_that_means_nothing_is_named(argument, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        read_file(file(tmp_path, ROWS), **argument)


def test_parquet_comes_back_as_it_was(tmp_path):
    pytest.importorskip("pyarrow")
    times = pd.date_range("2024-01-01", periods=3, freq="h", tz="Asia/Kolkata")
    table = pd.DataFrame({"unique_id": [7, 7, 7], "ds": times, "y": [1.0, 2.0, 3.0]})
    table.to_parquet(tmp_path / "table.parquet")
    pd.testing.assert_frame_equal(read_file(tmp_path / "table.parquet"), table)
    table.assign(ds=["01/02/2024"] * 3).to_parquet(tmp_path / "text.pq")
    with pytest.raises(ValueError, match=r"column 'ds': .*could be either"):
        read_file(tmp_path / "text.pq")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = file(tmp_path, "", "table.parquet")
    with pytest.raises(ImportError, match=r"table.parquet' is a Parquet file, which needs pyarrow: `pip install"):
        read_file(path)


def test_case_49_offsets_over_a_change_of_clocks_are_read_into_the_zone_that_is_named(tmp_path):
    hours = pd.date_range("2024-03-30 20:00", periods=12, freq="h", tz="Europe/Berlin")
    path = tmp_path / "hours.csv"
    lines = [f"{hour.isoformat()},{i}" for i, hour in enumerate(hours)]
    path.write_text("\n".join(["ds,y", *lines]) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="Europe/Berlin") as refused:
        read_file(path)
    remedy = str(refused.value).partition("pass `tz=")[2].partition("`")[0].strip("'")
    table = read_file(path, tz=remedy)
    assert table["ds"].tolist() == hours.tolist()
    assert str(table["ds"].dt.tz) == "Europe/Berlin"
    assert read_file(path, tz="UTC", date_format="%Y-%m-%dT%H:%M:%S%z")["ds"].tolist() == hours.tolist()


def test_a_quote_that_never_closes_is_told(tmp_path):
    (tmp_path / "table.csv").write_text('ds,y\n2024-01-01,"1\n2024-01-02,2\n')
    with pytest.raises(ValueError, match=r"table.csv' cannot be read as rows of fields .*; check its quotes"):
        read_file(tmp_path / "table.csv")
