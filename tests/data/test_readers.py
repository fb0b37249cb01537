from pathlib import Path

import pytest

from acl_bert.data.readers import name_columns, read_tabbed, read_table
from acl_bert.errors import InputError


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_tabbed_ends_lines_at_line_feeds_only(tmp_path: Path) -> None:
    odd = "one\x85two\u2028three\x0bfour\x1cfive"
    path = write(tmp_path / "a.tsv", f'{odd}\t"1\nnot "closed\t2\r\nlast\t"')
    assert list(read_tabbed(path, "none")) == [
        (1, [odd, '"1']),
        (2, ['not "closed', "2"]),
        (3, ["last", '"']),
    ]


def test_tabbed_takes_a_byte_order_mark_off(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b"\xef\xbb\xbfQuality\tText\n")
    assert list(read_tabbed(path, "none")) == [(1, ["Quality", "Text"])]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ('"What does ""x"" mean?"', 'What does "x" mean?'),
        ('"""x"" is it?"', '"x" is it?'),
        ('"Say ""x"""', 'Say "x"'),
        ('A 15"" screen', 'A 15"" screen'),
        ('"x" is not closed at the end', '"x" is not closed at the end'),
        ('"open', '"open'),
        ('"', '"'),
        ('""', ""),
        ("plain", "plain"),
    ],
)
def test_quoted_fields_lose_their_quotes_and_bare_quotes_stay(
    tmp_path: Path, field: str, expected: str
) -> None:
    path = write(tmp_path / "a.tsv", f"1\t{field}\t{field}\n2\tb\t0\n3\t{field}\t{field}")
    assert list(read_tabbed(path, "csv")) == [
        (1, ["1", expected, expected]),
        (2, ["2", "b", "0"]),
        (3, ["3", expected, expected]),
    ]


def test_quoted_field_over_several_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", '1\t"two\r\nlines\n"\tb\r\n2\tc\t"d\x85\n"')
    assert list(read_tabbed(path, "csv")) == [
        (1, ["1", "two\r\nlines\n", "b"]),
        (4, ["2", "c", "d\x85\n"]),
    ]


def test_bare_quote_does_not_swallow_the_rows_up_to_the_next_quote(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", '1\t"open\t0\n2\tb\t1\n3\tclosed"\t0\n')
    assert [fields for _, fields in read_tabbed(path, "csv")] == [
        ["1", '"open', "0"],
        ["2", "b", "1"],
        ["3", 'closed"', "0"],
    ]


def test_csv_with_fields_over_several_lines(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv", b'\xef\xbb\xbftext,label\n"two\nlines, ""q""",yes\n\xc2\x85,no\nx,yes'
    )
    assert list(read_table(path)) == [
        (2, {"text": 'two\nlines, "q"', "label": "yes"}),
        (4, {"text": "\x85", "label": "no"}),
        (5, {"text": "x", "label": "yes"}),
    ]


def test_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "a\u2028b", "label": 1}\n{"text": "c"}')
    assert list(read_table(path)) == [
        (1, {"text": "a\u2028b", "label": 1}),
        (2, {"text": "c"}),
    ]


def test_tsv_of_the_users_is_split_at_tabs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", 'text\tlabel\nsay "x"\t1\n')
    assert list(read_table(path)) == [(2, {"text": 'say "x"', "label": "1"})]


def test_tsv_with_a_field_that_starts_with_a_quote_is_ambiguous(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", 'text\tlabel\na\t0\n"x"\t1\n')
    with pytest.raises(InputError, match=r"a\.tsv: line 3: a field starts with a quote.*quoting"):
        list(read_table(path))
    assert [row["text"] for _, row in read_table(path, "csv")] == ["a", "x"]
    assert [row["text"] for _, row in read_table(path, "none")] == ["a", '"x"']


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "text,label\na,b\nc\n", "line 3: 1 fields instead of 2"),
        ("a.csv", "text,label\na,b,c\n", "line 2: 3 fields instead of 2"),
        ("a.csv", "text,label\na,b\n\nc,d\n", "line 3: 0 fields instead of 2"),
        ("a.csv", 'text,label\na,b\n"c" x,d\n', "line 3: not CSV"),
        ("a.csv", 'text,label\na,b\n"c,d\ne,f\n', "line 3: not CSV"),
        ("a.csv", "text,text\na,b\n", "line 1: column 'text' occurs twice"),
        ("a.tsv", "text\tlabel\na\n", "line 2: 1 fields instead of 2"),
        ("a.jsonl", '{"text": "a"}\n{"text"\n', "line 2: not JSON"),
        ("a.jsonl", '{"text": "a"}\n\n', "line 2: not JSON"),
        ("a.jsonl", '["a"]\n', "line 1: not a JSON object"),
        ("a.csv", "", "line 1: the file is empty"),
        ("a.csv", b"text,label\na,b\nc\xe9,d\n", "line 3: not UTF-8 .*0xe9"),
        ("a.csv", "version https://git-lfs.github.com/spec/v1\n", "line 1: a pointer.*git lfs"),
        ("a.txt", "text,label\n", "unknown suffix '.txt'"),
    ],
)
def test_refuses_naming_file_and_line(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(InputError, match=f"{name}: {message}"):
        list(read_table(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.csv: no such file"):
        list(read_table(tmp_path / "gone.csv"))
    with pytest.raises(InputError, match="cannot be read"):
        list(read_table(tmp_path.rename(tmp_path.with_suffix(".csv"))))


def test_another_header_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "index\tsentence\n0\ta\n")
    with pytest.raises(InputError, match="line 1: the header is index, sentence, not sentence"):
        list(name_columns(path, read_tabbed(path, "none"), ["sentence", "label"]))
