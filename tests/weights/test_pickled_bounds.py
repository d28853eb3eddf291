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
        (b"Nr" + struct.pack("<I", 2**32 - 1) + b".", "it is damaged"),
        (b"Np4294967295\n.", "it is damaged"),
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
        (b"Vf3\n", b"V<\n"),
    ):
        kind = carrier("numpy.dtype") + b"(" + code + b"I0\nI1\ntR(I3\n" + state + b"NNNI-1\nI-1\nI0\ntb"
        pickled = b"](V1\n" + carrier("numpy.core.multiarray.scalar") + b"(" + kind + b"C\x08\0\0\0\0\0\0\xf0?tRe."
        try:
            loaded = load_pickled(write(path, pickled, "stream"))
        except ValueError as error:
            assert "cannot be read as weights" in str(error)
        else:
            assert loaded == ["1"]
