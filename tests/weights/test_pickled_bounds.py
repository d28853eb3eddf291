"""A file of any content takes no more memory and time than its size asks for, and no memory but its own."""

import struct

import pytest

from src.weights.pickled import load_pickled
from tests.weights.pickle_files import FORMS, carrier, text, tree_of, write


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.pth"


def tensor(storage_count: int, offset: int, size: tuple[int, ...], stride: tuple[int, ...], form: str, **more) -> bytes:
    """The pickle of one tensor whose memory is under the key 0."""
    numbers = (tree_of(value)[2:-1] for value in (offset, size, stride))
    part = b"N" if form == "stream" else b""
    storage = b"(" + text("storage") + carrier("torch.FloatStorage") + text("0") + text("cpu")
    storage += tree_of(storage_count)[2:-1] + part + b"tQ"
    return b"\x80\x02" + carrier("torch._utils._rebuild_tensor_v2") + b"(" + storage + b"".join(numbers) + b"\x89NtR."


def stored(path, pickled, form, count=4):
    values = struct.pack(f"<{count}f", *range(count))
    return write(path, pickled, form, values if form == "archive" else struct.pack("<q", count) + values, ("0",))


@pytest.mark.parametrize("form", FORMS)
def test_a_tensor_cannot_reach_beyond_its_memory(path, form):
    assert load_pickled(stored(path, tensor(4, 1, (3,), (1,), form), form)).tolist() == [1, 2, 3]
    for offset, size, stride in [
        (2, (3,), (1,)),
        (0, (2, 2), (3, 1)),
        (-1, (1,), (1,)),
        (0, (2,), (-1,)),
        (0, (2**62,), (1,)),
        (0, (2**40,), (0,)),
        (0, (2, 2), (1,)),
    ]:
        with pytest.raises(ValueError, match=r"cannot be read as weights: it is (cut or )?damaged"):
            load_pickled(stored(path, tensor(4, offset, size, stride, form), form))


@pytest.mark.parametrize("form", FORMS)
def test_memory_that_a_file_promises_and_lacks_is_told(path, form):
    for promised in (5, 2**40):
        with pytest.raises(ValueError, match="damaged: the memory of a tensor is not all there"):
            load_pickled(stored(path, tensor(promised, 0, (5,), (1,), form), form))
    if form == "archive":
        with pytest.raises(ValueError, match="it is cut or damaged"):
            load_pickled(write(path, tensor(4, 0, (4,), (1,), form), form))


def test_memory_of_another_length_than_is_named_is_told(path):
    values = struct.pack("<5f", *range(5))
    with pytest.raises(ValueError, match="damaged: the memory of a tensor is not all there"):
        load_pickled(write(path, tensor(4, 0, (4,), (1,), "stream"), "stream", struct.pack("<q", 5) + values, ("0",)))


def of_part(part: tuple[str, int, int], size: int, count: int = 4) -> bytes:
    """A tensor in a part of its memory, as files before torch 0.4 have them."""
    return tensor(count, 0, (size,), (1,), "stream").replace(b"NtQ", tree_of(part)[2:-1] + b"tQ")


@pytest.mark.parametrize(("part", "size"), [((1, 2), 2), ((0, 4), 4), ((4, 0), 0), ((3, 1), 1)])
def test_a_part_of_memory_is_read(path, part, size):
    expected = list(range(part[0], sum(part)))
    assert load_pickled(stored(path, of_part(("v", *part), size), "stream")).tolist() == expected


@pytest.mark.parametrize("part", [("v", 1, 4), ("v", -1, 2), ("v", 5, 0), ("v", 0.0, 2), ("v", 1), ()])
def test_a_part_beyond_its_memory_is_told(path, part):
    with pytest.raises(ValueError, match=r"cannot be read as weights: it is (cut or )?damaged"):
        load_pickled(stored(path, of_part(part, 1), "stream"))
    for reaching, size in ((("v", 1, 2), 3), (("v", 1, 4), 1), (("v", 5, 0), 0)):
        with pytest.raises(ValueError, match="damaged: a tensor reaches beyond its memory"):
            load_pickled(stored(path, of_part(reaching, size), "stream"))


@pytest.mark.parametrize("form", FORMS)
def test_memory_that_is_named_twice_must_be_the_same(path, form):
    first = tensor(4, 0, (4,), (1,), form)[:-1]
    both = lambda other: b"\x80\x02](" + first[2:] + other[2:-1] + b"e."  # noqa: E731
    loaded = load_pickled(stored(path, both(tensor(4, 1, (2,), (1,), form)), form))
    assert [value.tolist() for value in loaded] == [[0, 1, 2, 3], [1, 2]]
    assert loaded[0].untyped_storage().data_ptr() == loaded[1].untyped_storage().data_ptr()
    shorter = tensor(3, 0, (3,), (1,), form)
    whole_numbers = tensor(4, 0, (4,), (1,), form).replace(b"FloatStorage", b"IntStorage")
    for other in (shorter, whole_numbers):
        with pytest.raises(ValueError, match="it is damaged: it names memory in two ways"):
            load_pickled(stored(path, both(other), form))


def nested(levels: int) -> bytes:
    return b"]" * levels + b"a" * (levels - 1) + b"."


def doubled(levels: int) -> bytes:
    """A list that holds one list twice, which holds one list twice, and so on: two to the power of levels."""
    return (
        b"]q\x00"
        + b"".join(b"](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(levels))
        + b"."
    )


@pytest.mark.parametrize(
    ("pickled", "told"),
    [
        (nested(100_000), "it holds more than 100 levels or 50000 values"),
        (doubled(60), "it holds more than 100 levels or 50000 values"),
        (b"]q\x00h\x00a.", "it holds more than 100 levels"),
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**60) + b"abc.", "it is cut or damaged"),
        (carrier("builtins.bytearray") + b"(\x8a\x06" + (2**40).to_bytes(6, "little") + b"tR.", "it is damaged"),
        (b"I" + b"9" * 100_000 + b"\n.", "it is cut or damaged"),
    ],
)
def test_a_small_file_cannot_ask_for_endless_memory_or_time(path, pickled, told, monkeypatch):
    monkeypatch.setattr("src.weights.plain_tree._MOST", 50_000)
    for form in FORMS:
        with pytest.raises(ValueError, match=f"cannot be read as weights: {told}"):
            load_pickled(write(path, pickled, form))


def test_numbers_of_numpy_cannot_be_made_of_anything(path):
    for code, state in (
        (b"VO8\n", b"V<\n"),
        (b"V|f8,O\n", b"V<\n"),
        (b"Vf8\n", b"V!\n"),
        (b"K\x05", b"V<\n"),
        (b"VO\n", b"V|\n"),
    ):
        kind = carrier("numpy.dtype") + b"(" + code + b"I0\nI1\ntR(I3\n" + state + b"NNNI-1\nI-1\nI0\ntb"
        pickled = b"](V1\n" + carrier("numpy.core.multiarray.scalar") + b"(" + kind + b"C\x08\0\0\0\0\0\0\xf0?tRe."
        assert load_pickled(write(path, pickled, "stream")) == ["1"]


def test_a_place_far_away_costs_nothing(path):
    for pickled in (b"Nr" + struct.pack("<I", 2**32 - 1) + b".", b"Np4294967295\n."):
        assert load_pickled(write(path, pickled, "archive")) is None


def again(call: bytes, times: int = 3000) -> bytes:
    """A call with 100,000 bytes or members that is made again and again."""
    long = b"\x80\x05X" + struct.pack("<I", 100_000) + b"a" * 100_000 + b"q\x000"
    long += b"B" + struct.pack("<I", 100_000) + b"a" * 100_000 + b"q\x010"
    long += b"](" + b"N" * 100_000 + b"eq\x020"
    return long + b"](" + call * times + b"e."


KIND = carrier("numpy.dtype") + b"(Vi1\nI0\nI1\ntR(I3\nV<\nNNNI-1\nI-1\nI0\ntb"


@pytest.mark.parametrize(
    "call",
    [
        carrier("_codecs.encode") + b"h\x00\x85R",
        carrier("builtins.list") + b"h\x01\x85R",
        carrier("builtins.list") + b"h\x02\x85\x81",
        carrier("builtins.tuple") + b"h\x02\x85}\x92",
        b"(h\x02ibuiltins\nset\n",
        b"(" + carrier("torch.Size") + b"h\x02o",
        carrier("numpy.ndarray") + b")R(K\x01J\xa0\x86\x01\x00\x85" + KIND + b"\x89h\x00tb",
        carrier("numpy.dtype") + b"(Vi1\ntRh\x02b",
    ],
)
def test_what_is_copied_again_and_again_is_counted(path, call):
    """At 3000 times 100,000 bytes it would be 300 MB; 16 MB are free."""
    with pytest.raises(ValueError, match="cannot be read as weights: it asks for more memory than it fills"):
        load_pickled(write(path, again(call), "archive"))
    loaded = load_pickled(write(path, again(call, 3), "archive"))
    assert len(loaded) == (0 if call.endswith(b"tRh\x02b") else 3)


def test_bytes_that_are_held_many_times_are_there_once(path):
    pickled = b"\x80\x05](\x96" + struct.pack("<Q", 1000) + b"a" * 1000 + b"\x94" + b"h\x00" * 5 + b"e."
    loaded = load_pickled(write(path, pickled, "archive"))
    assert loaded == [b"a" * 1000] * 6
    assert len({id(value) for value in loaded}) == 1


@pytest.mark.parametrize("form", FORMS)
def test_deep_tuples_are_not_hashed(path, form):
    deep = b")" + b"\x85" * 100_000
    for pickled in (
        b"\x80\x02}" + deep + b"Ns.",
        b"\x80\x04\x8f(" + deep + b"\x90.",
        b"\x80\x04(" + deep + b"\x91.",
        b"(" + deep + b"Nd.",
        b"\x80\x02" + carrier("builtins.dict") + b"](" + deep + b"N\x86e\x85R.",
    ):
        assert len(load_pickled(write(path, pickled, form))) == 0


def test_keys_cannot_be_made_to_collide(path):
    keys = b"".join(b"\x8a\x0b" + ((2**61 - 1) * i).to_bytes(11, "little") + b"N" for i in range(100_000))
    assert len(load_pickled(write(path, b"\x80\x02}(" + keys + b"u.", "archive"))) < 10


@pytest.mark.parametrize("key", [doubled(60)[:-1], b"N", b"I01\n", b"\x8b" + struct.pack("<i", 5000) + b"\x7f" * 5000])
def test_memory_is_named_by_short_keys_alone(path, key):
    storage = b"\x80\x02(" + text("storage") + carrier("torch.FloatStorage") + key + text("cpu") + b"K\x01tQ."
    with pytest.raises(ValueError, match="cannot be read as weights: it is damaged"):
        load_pickled(write(path, storage, "archive"))


@pytest.mark.parametrize("size", [(2**63,), (1,) * 17, (2**40, 2**40)])
def test_shapes_have_bounds(path, size):
    with pytest.raises(ValueError, match="cannot be read as weights: it is damaged"):
        load_pickled(stored(path, tensor(4, 0, size, (0,) * len(size), "archive"), "archive"))


@pytest.mark.parametrize("shape", [(10**9, 0), (0, 10**9)])
def test_empty_arrays_of_texts_are_empty_lists(path, shape):
    kind = KIND.replace(b"Vi1", b"VU1")
    array = carrier("numpy.ndarray") + b")R(K\x01" + tree_of(shape)[2:-1] + kind + b"\x89C\x00tb"
    assert load_pickled(write(path, b"\x80\x03](" + array + b"e.", "archive")) == [[]]


def test_a_name_without_end_is_refused(path):
    with pytest.raises(ValueError, match="it holds a name of more than 10000 characters"):
        load_pickled(write(path, tree_of({"a" * 10_001: 1}), "archive"))
    assert load_pickled(write(path, tree_of({"a" * 10_000: 1}), "archive")) == {"a" * 10_000: 1}
