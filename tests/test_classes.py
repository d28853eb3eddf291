from pathlib import Path

import pytest

from src.classes import ClassList, distinct_colours


def test_ade20k_has_150_classes_with_ids_from_one():
    classes = ClassList.ade20k()
    assert len(classes) == 150
    assert classes.ids == tuple(range(1, 151))
    assert classes.names[:3] == ("wall", "building", "sky")
    assert classes.palette[0] == (120, 120, 120)
    assert classes.names[-1] == "flag"


def test_ade20k_keeps_synonyms_of_several_words():
    classes = ClassList.ade20k()
    assert classes.synonyms[classes.names.index("pool table")] == ("billiard table", "snooker table")
    assert classes.synonyms[0] == ()


@pytest.mark.parametrize(
    ("text", "names", "ids"),
    [
        ("sky\ntraffic light\n", ("sky", "traffic light"), (0, 1)),
        ("0 sky\n11 void\n", ("sky", "void"), (0, 11)),
        ("0 background\n255 membrane", ("background", "membrane"), (0, 255)),
        ("\ufeff# classes\n\n3 sky # above\n1 C# code 1,2,3\n", ("sky", "C# code"), (3, 1)),
        ("7\n8\n", ("7", "8"), (0, 1)),
        ("1 tree; palm 4,200,3\n", ("tree",), (1,)),
    ],
)
def test_file_lines_may_have_ids_colours_and_comments(tmp_path: Path, text: str, names: tuple, ids: tuple):
    path = tmp_path / "classes.txt"
    path.write_text(text, "utf-8")
    classes = ClassList.from_file(path)
    assert classes.names == names
    assert classes.ids == ids


def test_file_colours_are_kept_and_missing_ones_are_distinct(tmp_path: Path):
    path = tmp_path / "classes.txt"
    first = distinct_colours(1)[0]
    path.write_text(f"sky\nroad {','.join(map(str, first))}\nfence 10, 20, 30\ncar\n")
    palette = ClassList.from_file(path).palette
    assert palette[1:3] == (first, (10, 20, 30))
    assert len(set(palette)) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# nothing\n", "at least one class"),
        ("0 sky\nroad\n", "id in every line or in none.*'0 sky' and 'road'"),
        ("0 sky\n0 road\n", r"classes.ids must be unique, got \[0\]"),
        ("sky\nsky\n", r"classes.names must be unique, got \['sky'\]"),
        ("sky 1,2,300\n", "0..255"),
    ],
)
def test_unclear_files_are_refused_with_their_path(tmp_path: Path, text: str, message: str):
    path = tmp_path / "classes.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"(?s)(classes\.txt.*{message}|{message}.*classes\.txt)"):
        ClassList.from_file(path)


def test_missing_file_is_named(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"data.classes must be a text file.*absent\.txt, which does not exist"):
        ClassList.from_file(tmp_path / "absent.txt")
    with pytest.raises(FileNotFoundError, match=rf"data.classes must be a text file.*{tmp_path}, which is a folder"):
        ClassList.from_file(tmp_path)
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    for name in ("loop.txt", "a" * 300, "a\0b"):
        with pytest.raises(ValueError, match=r"data\.classes must be a text file .*(loop|aaa|a\0b)"):
            ClassList.from_file(tmp_path / name)


def test_default_colours_are_distinct():
    assert len(set(distinct_colours(300))) == 300
    assert len(set(ClassList.from_names([f"class {index}" for index in range(150)]).palette)) == 150


def test_dict_has_plain_types_and_comes_back():
    classes = ClassList.ade20k().without([1])
    values = classes.to_dict()
    assert {type(value) for value in values.values()} == {list}
    assert values["palette"][0] == [180, 120, 120]
    assert ClassList.from_dict(values) == classes


def test_without_leaves_out_by_id():
    classes = ClassList(("sky", "void", "road"), ((1, 1, 1), (2, 2, 2), (3, 3, 3)), (4, 11, 7))
    assert classes.without([11, 99]) == ClassList(("sky", "road"), ((1, 1, 1), (3, 3, 3)), (4, 7))


def test_lengths_must_agree():
    with pytest.raises(ValueError, match=r"classes.palette must have one entry for each of the 2 names, got 1"):
        ClassList(("sky", "road"), ((0, 0, 0),))


@pytest.mark.parametrize("name", ["", "two\nlines", "a\0b", "${x}"])
def test_names_that_cannot_be_shown_or_mean_something_to_configs_are_refused(name: str):
    with pytest.raises(ValueError, match="must be printable and not empty"):
        ClassList.from_names(["ground", name])


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path):
    path = tmp_path / "classes.txt"
    path.write_bytes("0 Straße\n1 Weg\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"must be a text file in UTF-8, got .*classes\.txt"):
        ClassList.from_file(path)


@pytest.mark.parametrize("text", ["0: sky\n2: road", "0,sky\n2, road", "0 sky\n2\troad"])
def test_ids_may_be_followed_by_a_colon_or_a_comma(tmp_path: Path, text: str):
    (tmp_path / "classes.txt").write_text(text)
    classes = ClassList.from_file(tmp_path / "classes.txt")
    assert (classes.names, classes.ids) == (("sky", "road"), (0, 2))


@pytest.mark.parametrize(
    ("line", "name", "colour"),
    [
        ("0,a,255,0,1", "a", (255, 0, 1)),
        ("0, a, 255, 0, 1", "a", (255, 0, 1)),
        ("0 a 255 0 1", "a", (255, 0, 1)),
        ("0\ta b\t255\t0\t1", "a b", (255, 0, 1)),
        ("a,255,0,1", "a", (255, 0, 1)),
        ("a 255 0 1", "a", (255, 0, 1)),
        ("0 a; b 255 0 1", "a", (255, 0, 1)),
        ("0 route 66 10", "route 66 10", None),
        ("0 1 2 3", "1 2 3", None),
    ],
)
def test_colours_may_be_parted_like_the_rest_of_the_line(tmp_path: Path, line: str, name: str, colour: tuple | None):
    (tmp_path / "classes.txt").write_text(line)
    classes = ClassList.from_file(tmp_path / "classes.txt")
    assert classes.names == (name,)
    assert classes.palette == ((colour,) if colour else tuple(distinct_colours(1)))


def test_names_are_kept_in_one_normal_form(tmp_path: Path):
    composed, parted = "Stra\u00dfe \u00e9", "Stra\u00dfe e\u0301"
    assert ClassList((parted,), ((0, 0, 0),), synonyms=((parted,),)).to_dict()["names"] == [composed]
    assert ClassList((parted,), ((0, 0, 0),), synonyms=((parted,),)).synonyms == ((composed,),)
    for name, text in (
        ("classes.txt", f"{composed}\n{parted}\n"),
        ("id2label.json", f'{{"0":"{composed}","1":"{parted}"}}'),
    ):
        (tmp_path / name).write_text(text, "utf-8")
        with pytest.raises(ValueError, match=r"classes\.names must be unique"):
            ClassList.from_file(tmp_path / name)


@pytest.mark.parametrize(
    "content",
    [
        "\ufeff0 sky\n1 traffic light\n".encode(),
        b"0 sky\r\n1 traffic light\r\n",
        b"0\tsky\n1\ttraffic light",
        b"  0 sky  \t\n\n\n1 traffic  \t light   \n   \n",
        b"0: sky\r1: traffic light\r",
    ],
)
def test_files_of_every_editor_read_alike(tmp_path: Path, content: bytes):
    (tmp_path / "classes.txt").write_bytes(content)
    classes = ClassList.from_file(tmp_path / "classes.txt")
    assert (classes.names, classes.ids) == (("sky", "traffic light"), (0, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Sky\nsky\n", "differ in case alone, got `Sky` and `sky`"),
        ("traffic light\ntraffic  light\n", r"classes.names must be unique, got \['traffic light'\]"),
    ],
)
def test_names_that_look_alike_are_refused(tmp_path: Path, text: str, message: str):
    (tmp_path / "classes.txt").write_text(text)
    with pytest.raises(ValueError, match=rf"classes\.txt: .*{message}"):
        ClassList.from_file(tmp_path / "classes.txt")


@pytest.mark.parametrize(
    "text",
    [
        '{"0": "sky", "11": "traffic light"}',
        '\ufeff{"11": " traffic  light", "0": "sky"}',
        '{"architectures": ["x"], "id2label": {"0": "sky", "11": "traffic light"}, "label2id": {"sky": 0}}',
    ],
)
def test_a_json_of_ids_and_names_is_read(tmp_path: Path, text: str):
    (tmp_path / "id2label.json").write_text(text, "utf-8")
    classes = ClassList.from_file(tmp_path / "id2label.json")
    assert (classes.names, classes.ids) == (("sky", "traffic light"), (0, 11))
    assert len(set(classes.palette)) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"0": "sky",', "must hold .* in JSON"),
        ('["sky", "road"]', "it holds something else"),
        ("7", "it holds something else"),
        ('{"sky": 0}', "it holds something else"),
        ('{"id2label": ["sky"]}', "it holds something else"),
        ('{"sky": "0"}', "invalid literal"),
        ("{}", "at least one class, got none"),
        ('{"id2label": {}}', "at least one class, got none"),
        ('{"0": "sky", "0": "road"}', r"classes.ids must be unique, got \[0\]"),
        ('{"-1": "sky"}', "got -1"),
    ],
)
def test_other_json_is_refused_with_its_path(tmp_path: Path, text: str, message: str):
    (tmp_path / "id2label.json").write_text(text)
    with pytest.raises(ValueError, match=rf"(?s)id2label\.json: .*{message}"):
        ClassList.from_file(tmp_path / "id2label.json")
