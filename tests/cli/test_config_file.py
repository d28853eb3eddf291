import math
import re
from pathlib import Path

import pytest
from jsonargparse import get_loader

from src.cli.config_file import CONFIGS, ConfigFile, find_config, inline, nested_items, read_config


def test_configs_are_found_as_given_first_then_beside_the_package(tmp_path):
    assert find_config("sample.yaml") == CONFIGS / "sample.yaml"
    assert find_config("model/small.yaml") == CONFIGS / "model" / "small.yaml"
    (tmp_path / "sample.yaml").write_text("{}")
    assert find_config("sample.yaml") == Path("sample.yaml")
    with pytest.raises(FileNotFoundError, match=r"got 'no\.yaml'; there are: .*ade20k\.yaml.*model/small\.yaml"):
        find_config("no.yaml")
    with pytest.raises(FileNotFoundError, match=r"got '\.', which is a folder"):
        find_config(".")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"trainer:\n  a: [1\n  b: 3\n", "got x.yaml (line 3, column 4: "),
        (b"a: b: c\n", "got x.yaml (line 1, column "),
        (bytes(range(256)), "got x.yaml (it is not text)"),
        (b"a: \x00\n", "got x.yaml (it is not text)"),
        (b"", "got x.yaml with nothing in it"),
        (b"- 1\n", "got x.yaml with a list in it"),
        (b"sample\n", "got x.yaml with a str in it"),
    ],
)
def test_what_is_no_config_is_refused_with_file_and_line(content, said):
    Path("x.yaml").write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(said)):
        read_config("x.yaml")


def test_a_config_without_permission_is_refused(monkeypatch):
    def refuse(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    Path("x.yaml").touch()
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(ValueError, match="Permission denied"):
        read_config("x.yaml")


def test_numbers_are_read_as_the_parser_reads_them():
    Path("x.yaml").write_text("a: 1e-3\nb: 0x10\nc: yes\nd: 'é'\ne: '1e3'\n")
    values = read_config("x.yaml").values
    assert values == {"a": 0.001, "b": 16, "c": True, "d": "é", "e": "1e3"}
    assert get_loader("yaml")(inline(values).removeprefix("--config=")) == values


def test_what_an_inlined_config_says_is_kept():
    values = {
        "text": "a: 'b' \"c\"\nd # e", "number": "1e3", "yes": "yes", "null": "null", "path": "C:\\x", "sign": "${a.b}",
        "nothing": None, "floats": [1e-05, 2.0, float("inf"), float("-inf")], "long": "x" * 300,
        "é": [{"ü": True}, {}, []],
    }  # fmt: skip
    word = inline(values)
    assert "\n" not in word
    assert get_loader("yaml")(word.removeprefix("--config=")) == values
    assert math.isnan(get_loader("yaml")(inline({"a": float("nan")}).removeprefix("--config="))["a"])


def test_the_release_that_saved_a_config_is_known():
    for text, release in (
        ("a: 1\n", None),
        ("a: 1\nrelease: 0.3.0\n", "0.3.0"),
        ("# lightning.pytorch==2.6.6\na: 1\n", "0.1.0"),
        ("# lightning.pytorch==2.6.6\nrelease: 0.2.0\n", "0.2.0"),
    ):
        Path("x.yaml").write_text(text)
        assert read_config("x.yaml").release == release


def test_what_the_parser_may_not_see_is_taken_out():
    config = ConfigFile(Path("x.yaml"), {"a": {"b": [1, "${c}"]}, "output": "m"})
    assert config.word(frozenset({"other"})) == "--config=x.yaml"
    assert config.word(frozenset({"output"})) == '--config={"a": {"b": [1, "${c}"]}}'


def test_nested_keys_read_like_flags():
    values = {"model": {"class_path": "C", "init_args": {"model": {"init_args": {"x": 1}}}}, "name": None}
    keys = dict(nested_items(values))
    assert list(keys) == ["model", "model.model", "model.model.x", "name"]
    assert keys["model.model.x"] == 1
