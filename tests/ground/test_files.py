"""Files are whole or not there; JSON is what every parser reads."""

import json

import numpy as np
import pytest

from attnprune_verify.files import dumps, whole_file, write_whole


def test_the_error_names_the_file_that_cannot_be_written(tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "none" / "table.csv"):
        with pytest.raises(OSError) as caught:
            write_whole(path, b"content")
        assert caught.value.filename == str(path)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("cut_off_by", [KeyboardInterrupt, OSError, ValueError])
def test_what_is_cut_off_leaves_the_old_file_alone(tmp_path, cut_off_by):
    path = tmp_path / "a"
    write_whole(path, b"first")
    with pytest.raises(cut_off_by), whole_file(path) as file:
        file.write(b"sec")
        raise cut_off_by
    assert path.read_bytes() == b"first" and len(list(tmp_path.iterdir())) == 1


def test_json_is_strict_and_numbers_come_back_as_they_were():
    content = {"a": np.float64(0.1), "b": np.arange(2), "c": (float("nan"), -np.inf), 3: None, "d": np.bool_(True)}
    for indent in (None, 2):
        text = dumps(content, indent)
        found = json.loads(text, parse_constant=pytest.fail)
        assert found == {"a": 0.1, "b": [0, 1], "c": ["nan", "-inf"], "3": None, "d": True}
    assert dumps(content, None).count("\n") == 1
