"""What is read out of files of ``torch.save``."""

import collections
import struct
import sys
import zipfile
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from src.weights.pickled import load_pickled
from tests.weights.pickle_files import FORMS, carrier, module_with, save, text, tree_of, write

PLAIN = {
    "text": "Käfer",
    "numbers": [1, -(2**70), 0.5, True, None],
    "pair": ("a", ("b", b"\x00\xff")),
    "set": {1, 2},
    3: {None: {b"x": {}}, 1.5: {True: 1}},
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.pth"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_arrive_as_they_were(path, form, protocol):
    loaded = load_pickled(save(PLAIN, path, form, protocol))
    assert loaded == PLAIN
    assert [type(value) for value in loaded["numbers"]] == [int, int, float, bool, type(None)]


def test_plain_values_of_the_oldest_protocol_arrive(path):
    for form in FORMS:
        assert load_pickled(write(path, tree_of(PLAIN, 0), form)) == PLAIN


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_tensors_arrive_as_they_were(path, form, protocol):
    torch.manual_seed(0)
    kinds = (
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
    base = torch.randn(6, 5)
    tree = {str(kind): (100 * torch.randn(3, 4)).to(kind) for kind in kinds}
    tree |= {"view": base[1:5:2, ::3], "turned": base.t(), "number": torch.tensor(3.5), "none": torch.zeros(0, 3)}
    tree |= {"parameter": nn.Parameter(torch.randn(2)), "spread": torch.randn(1, 2).expand(3, 2)}
    loaded = load_pickled(save(tree, path, form, protocol))
    assert list(loaded) == list(tree)
    for name, value in tree.items():
        assert type(loaded[name]) is torch.Tensor
        assert loaded[name].dtype == value.dtype
        assert not loaded[name].requires_grad
        assert torch.equal(loaded[name], value), name


def test_tensors_of_rare_kinds_arrive(path):
    tree = {
        "float8": torch.randn(5).to(torch.float8_e4m3fn),
        "uint16": torch.arange(65530, 65536, dtype=torch.int32).to(torch.uint16),
    }
    loaded = load_pickled(save(tree, path, "archive"))
    assert loaded["float8"].dtype == torch.float8_e4m3fn
    assert torch.equal(loaded["float8"].float(), tree["float8"].float())
    assert loaded["uint16"].tolist() == list(range(65530, 65536))


@pytest.mark.parametrize("form", FORMS)
def test_shared_memory_is_shared_and_the_file_stays_as_it_was(path, form):
    base = torch.arange(6.0)
    before = save({"a": base, "b": base[2:], "again": base}, path, form).read_bytes()
    loaded = load_pickled(path)
    loaded["a"].mul_(2)
    assert loaded["b"].tolist() == [4, 6, 8, 10]
    assert loaded["again"] is loaded["a"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("form", FORMS)
def test_tensors_of_a_gpu_arrive_on_the_cpu(path, form):
    part = b"N" if form == "stream" else b""
    storage = b"(Vstorage\nctorch.cuda\nFloatStorage\nV0\nVcuda:3\nK\x02" + part + b"tQ"
    pickled = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00K\x02\x85K\x01\x85\x89NtR."
    memory = struct.pack("<2f", 1, 2) if form == "archive" else struct.pack("<q2f", 2, 1, 2)
    loaded = load_pickled(write(path, pickled, form, memory, ("0",)))
    assert loaded.device.type == "cpu"
    assert loaded.tolist() == [1, 2]


@pytest.mark.parametrize("form", FORMS)
def test_a_state_dict_with_its_versions_arrives(path, form):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    loaded = load_pickled(save(model.state_dict(), path, form))
    assert loaded.keys() == model.state_dict().keys()
    assert type(loaded) is dict
    for name, value in model.state_dict().items():
        assert torch.equal(loaded[name], value)


def test_a_tensor_with_attributes_arrives_without_them(path):
    tensor = torch.arange(3.0)
    tensor.note = "mine"
    parameter = nn.Parameter(torch.arange(2.0))
    parameter.note = "mine"
    loaded = load_pickled(save({"a": tensor, "b": parameter}, path, "archive"))
    assert loaded["a"].tolist() == [0, 1, 2]
    assert not hasattr(loaded["a"], "note")
    assert loaded["b"].tolist() == [0, 1]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_values_of_numpy_become_plain(path, form, protocol):
    tree = {
        "scalars": [np.float64(0.1), np.float32(0.5), np.int64(-3), np.uint8(200), np.bool_(True), np.str_("hey")],
        "array": np.arange(6, dtype=">i4").reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "texts": np.array(["a", "bcd"]),
        "objects": np.array([{}, None], dtype=object),
        "records": np.zeros(2, dtype=[("a", "f4")]),
        "dates": np.array(["2020-01-01"], dtype="M8[D]"),
        "dtype": np.dtype("f4"),
        "complex": np.complex64(1j),
    }
    loaded = load_pickled(save(tree, path, form, protocol))
    assert loaded["scalars"] == [0.1, 0.5, -3, 200, True, "hey"]
    assert [type(value) for value in loaded["scalars"]] == [float, float, int, int, bool, str]
    assert loaded["array"].dtype == torch.int32
    assert loaded["array"].tolist() == loaded["columns"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert loaded["texts"] == ["a", "bcd"]
    assert loaded.keys() == {"scalars", "array", "columns", "texts"}


def test_values_of_older_and_newer_numpy_become_plain(path):
    pickled = tree_of({"loss": np.float64(0.25)})
    assert b"numpy._core.multiarray" in pickled
    for form in FORMS:
        assert load_pickled(write(path, pickled, form)) == {"loss": 0.25}
        old = pickled.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
        assert load_pickled(write(path, old, form)) == {"loss": 0.25}


def test_values_of_python_2_become_plain(path):
    """As cPickle wrote them: byte strings for names and for the bytes of numbers."""
    kind = b"cnumpy\ndtype\n(U\x02f8K\x00K\x01tR(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    number = b"cnumpy.core.multiarray\nscalar\n(" + kind + b"U\x08" + struct.pack("<d", -0.1) + b"tR"
    pickled = b"\x80\x02}U\x04loss" + number + b"s."
    for form in FORMS:
        assert load_pickled(write(path, pickled, form)) == {"loss": -0.1}


def test_tensors_of_a_machine_with_another_order_of_bytes_arrive(path):
    values = {"a": torch.arange(5.0), "b": torch.arange(4, dtype=torch.int16)}
    with zipfile.ZipFile(save(values, path, "archive")) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            kind = {"0": ">f4", "1": ">i2"}.get(name.rpartition("/data/")[2])
            turned = np.frombuffer(content, kind.replace(">", "<")).astype(kind).tobytes() if kind else content
            archive.writestr(name, b"big" if name.endswith("byteorder") else turned)
    loaded = load_pickled(path)
    assert loaded["a"].tolist() == [0, 1, 2, 3, 4]
    assert loaded["b"].tolist() == [0, 1, 2, 3]


def foreign_classes():
    class Bag:
        def __init__(self, **values):
            self.__dict__.update(values)

        def mean(self):
            raise AssertionError

    class Config(dict):
        pass

    return Bag, Config


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_file_of_mmengine_is_read_without_mmengine(path, form, protocol):
    weights = torch.arange(4.0)
    Bag, Config = foreign_classes()
    with module_with("mmengine.logging.history_buffer", HistoryBuffer=Bag), module_with("mmcv.utils", Config=Config):
        history = Bag(history=np.arange(3.0), methods={"mean": Bag.mean})
        meta = {"CLASSES": ("a", "b"), "config": Config(lr=1), "seed": np.int64(3), "hooks": [history, "kept"]}
        save({"state_dict": {"w": weights}, "meta": meta, "message_hub": {"loss": history}}, path, form, protocol)
    loaded = load_pickled(path)
    assert not {"mmengine", "mmcv"} & set(sys.modules)
    assert torch.equal(loaded["state_dict"]["w"], weights)
    assert loaded["meta"] == {"CLASSES": ("a", "b"), "seed": 3, "hooks": ["kept"]}
    assert loaded["message_hub"] == {}


@pytest.mark.parametrize("form", FORMS)
def test_other_harmless_objects_vanish(path, form):
    omegaconf = pytest.importorskip("omegaconf")
    tree = {
        "args": Namespace(lr=1),
        "folder": Path("a/b"),
        "cfg": omegaconf.OmegaConf.create({"a": [1, {"b": "${a}"}]}),
        "device": torch.device("cpu"),
        "kind": torch.float32,
        "class": float,
        "deque": collections.deque([1, 2]),
        "counts": collections.Counter("aab"),
        "groups": collections.defaultdict(list, {"a": [1]}),
        "pairs": collections.OrderedDict(b=1, a=2),
        "size": torch.Size([2, 3]),
        "fixed": frozenset([1]),
        "bytes": bytearray(b"ab"),
    }
    loaded = load_pickled(save(tree, path, form))
    assert loaded == {
        "counts": {"a": 2, "b": 1},
        "groups": {"a": [1]},
        "pairs": {"b": 1, "a": 2},
        "size": (2, 3),
        "fixed": {1},
        "bytes": b"ab",
    }
    assert list(loaded["pairs"]) == ["b", "a"]


def test_memory_is_mapped_and_not_copied(path, monkeypatch):
    """A file of the new form takes no memory until its values are looked at."""
    save({"a": torch.arange(5.0), "b": torch.arange(7)}, path, "archive")
    mapped = []
    from_file = torch.UntypedStorage.from_file
    monkeypatch.setattr(
        torch.UntypedStorage, "from_file", lambda *arguments: mapped.append(from_file(*arguments)) or mapped[-1]
    )
    loaded = load_pickled(path)
    (whole,) = mapped
    for name in ("a", "b"):
        assert 0 < loaded[name].data_ptr() - whole.data_ptr() < whole.nbytes()


@pytest.mark.parametrize("before", range(8))
def test_memory_that_begins_anywhere_is_brought_into_line(path, before):
    storage = b"(" + text("storage") + carrier("torch.DoubleStorage") + text("0") + text("cpu") + b"K\x02tQ"
    tensor = carrier("torch._utils._rebuild_tensor_v2") + b"(" + storage + b"K\x00K\x02\x85K\x01\x85\x89NtR"
    pickled = b"\x80\x02" + text("x" * before) + b"0" + tensor + b"."
    loaded = load_pickled(write(path, pickled, "archive", struct.pack("<2d", 0.5, 3), ("0",)))
    assert loaded.tolist() == [0.5, 3]
    assert loaded.data_ptr() % 8 == 0


def test_a_layout_vanishes(path):
    for form in FORMS:
        assert load_pickled(write(path, b"](V1\n" + carrier("torch.strided") + b"e.", form)) == ["1"]


def test_keys_and_members_that_are_no_texts_or_numbers_vanish(path):
    tree = {(1, 2): 1, "a": {(1,), 3}, 2**70: 1, -(2**63): 2, frozenset((1,)): 3}
    for form in FORMS:
        assert load_pickled(save(tree, path, form)) == {"a": {3}, -(2**63): 2}
