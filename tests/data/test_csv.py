from pathlib import Path

import pytest

from surefoot.data.csv import csv_rows
from surefoot.types.errors import DataError


def test_every_value_is_text_and_lines_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b'\xef\xbb\xbfprompt,label\r\n"two\nlines",007\r\n\r\nNA,\r\n')
    rows = list(csv_rows(path))
    assert [row.read() for row in rows] == [{"prompt": "two\nlines", "label": "007"}, {"prompt": "NA", "label": ""}]
    assert [row.place for row in rows] == [f"{path}:3", f"{path}:5"]


def test_tabs(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("prompt\tlabel\na,b\t1\n")
    assert [row.read() for row in csv_rows(path)] == [{"prompt": "a,b", "label": "1"}]


def test_what_is_bad(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("prompt,label,label\na,1\nb,1,2\n")
    first, second = csv_rows(path)
    with pytest.raises(DataError, match="2 fields under a header of 3"):
        first.read()
    with pytest.raises(DataError, match="'label' stands twice"):
        second.read()
    for content in (b'prompt\n"open', b"prompt\n\xff"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"^{path}: it cannot be read as CSV"):
            list(csv_rows(path))
    with pytest.raises(DataError, match="No such file"):
        list(csv_rows(tmp_path / "nowhere.csv"))
