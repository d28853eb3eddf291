"""Code that stands in a file never runs, whichever way the file asks for it."""

import copyreg
import os
import pickle
import struct
import subprocess
import sys

import pytest
import torch

from src.weights.pickled import load_pickled
from src.weights.stored import Inert
from tests.weights.pickle_files import FORMS, carrier, text, tree_of, write


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.pth"


def short(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


def calls(mark: str) -> dict[str, bytes]:
    """Ways to call ``os.system`` in a pickle, by the code that they go through."""
    command, real = f"touch {mark}", f"c{os.system.__module__}\nsystem\n".encode()
    return {
        "REDUCE": real + b"(" + text(command) + b"tR.",
        "INST": b"(" + text(command) + f"i{os.system.__module__}\nsystem\n.".encode(),
        "OBJ": b"(" + real + text(command) + b"o.",
        "NEWOBJ": b"\x80\x02csubprocess\nPopen\n(" + text(command) + b"t\x81.",
        "NEWOBJ_EX": b"\x80\x04" + short("subprocess") + short("Popen") + b"\x93(" + text(command) + b"t}\x92.",
        "STACK_GLOBAL": b"\x80\x04" + short("os") + short("system") + b"\x93" + text(command) + b"\x85R.",
        "dotted name": b"\x80\x04" + short("torch") + short("os.system") + b"\x93" + text(command) + b"\x85R.",
        "BUILD": b"\x80\x02cbuiltins\nexec\n" + text(f"open({mark!r}, 'w')") + b"b.",
        "eval": b"cbuiltins\neval\n(" + text(f"open({mark!r}, 'w')") + b"tR.",
        "eval of Python 2": b"c__builtin__\neval\n(" + text(f"open({mark!r}, 'w')") + b"tR.",
        "import": b"cbuiltins\n__import__\n(" + text("this") + b"tR.",
        "partial": b"cfunctools\npartial\n(" + real + text(command) + b"tR(tR.",
        "operator": b"coperator\nattrgetter\n(" + text("system") + b"tR(cbuiltins\n__import__\n(Vos\ntRtR.",
        "getattr of a module": b"cbuiltins\ngetattr\n(cbuiltins\n__import__\n(Vos\ntRVsystem\ntR("
        + text(command) + b"tR.",
        "foreign function for a tensor": b"ctorch._tensor\n_rebuild_from_type_v2\n(" + real + b"ctorch\nTensor\n("
        + text(command) + b"tNtR.",
        "memory": b"ctorch.storage\n_load_from_bytes\n(" + b"B" + struct.pack("<I", 4) + b"abcdtR.",
        "load": b"ctorch.serialization\nload\n(" + text(mark) + b"tR.",
        "a pickle in a pickle": b"cpickle\nloads\n(" + b"B" + struct.pack("<I", 2) + b"N.tR.",
        "reconstructor": b"ccopyreg\n_reconstructor\n(csubprocess\nPopen\ncbuiltins\nobject\nNtR.",
        "array of objects": b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tVb\ntR(K\x01(K\x01t"
        b"cnumpy\ndtype\n(VO8\nI0\nI1\ntRI0\n](" + real + b"(" + text(command) + b"tRetb.",
        "a module of the project": b"csrc.files\nwritten_beside\n(" + text(mark) + b"tR.",
    }  # fmt: skip


WAYS = sorted(calls(""))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", WAYS)
def test_no_way_to_call_something_leads_anywhere(path, tmp_path, way, form):
    mark = tmp_path / "mark"
    pickled = calls(str(mark))[way]
    with pytest.raises(ValueError, match=r"it holds an object of .+, and nothing that could run code is loaded"):
        load_pickled(write(path, pickled, form))
    assert not mark.exists()


@pytest.mark.parametrize("way", ["REDUCE", "INST", "OBJ", "STACK_GLOBAL", "eval", "array of objects"])
def test_the_ways_are_real(tmp_path, way):
    """A reader without bounds runs them."""
    mark = tmp_path / "mark"
    run = f"import pickle; pickle.loads({calls(str(mark))[way]!r})"
    subprocess.run([sys.executable, "-c", run], cwd=tmp_path, check=False, capture_output=True, timeout=60)
    assert mark.exists()


@pytest.mark.parametrize("form", FORMS)
def test_the_first_pickles_of_a_file_are_read_no_other_way(path, tmp_path, form):
    mark = tmp_path / "mark"
    pickled = calls(str(mark))["REDUCE"]
    path.write_bytes(pickled + write(path, tree_of({}), form).read_bytes())
    with pytest.raises(ValueError, match="cannot be read as weights"):
        load_pickled(path)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("os.system", "os.system"),
        ("__main__.Trainer", "__main__.Trainer"),
        ("not_installed.thing.Config", "not_installed.thing.Config"),
        ("mmengine_evil.Config", "mmengine_evil.Config"),
        ("torch.load", "torch.load"),
        ("torch.hub.load", "torch.hub.load"),
        ("numpy.load", "numpy.load"),
        ("builtins.open", "builtins.open"),
        ("detectron2.modeling.Model", "detectron2.modeling.Model"),
        ("torch.storage._load_from_bytes", "torch.storage._load_from_bytes"),
        ("\x1b[2J.Käfer", r"\\x1b\[2J.K.*fer"),
    ],
)
def test_an_object_that_is_not_known_is_refused_by_name(path, name, told):
    module, _, member = name.rpartition(".")
    before = set(sys.modules)
    pickled = b"\x80\x04" + text(module) + text(member) + b"\x93)R."
    for form in FORMS:
        with pytest.raises(ValueError, match=f"it holds an object of {told}, and nothing") as error:
            load_pickled(write(path, pickled, form))
        assert str(error.value).isprintable()
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    "pickled",
    [
        b"cbuiltins\ngetattr\n(" + carrier("mmengine.os") + b"Vsystem\ntR(Vtouch MARK\ntR.",
        b"\x80\x04" + short("mmcv") + short("os.system") + b"\x93" + short("touch MARK") + b"\x85R.",
        carrier("pathlib.os") + b"(Vtouch MARK\ntR.",
        carrier("argparse.Namespace") + b")\x81}(Vx\nVtouch MARK\nub.",
        carrier("mmengine.Config") + b"}(V__class__\nV__reduce__\nub.",
        carrier("mmengine.Config") + b"(NVattribute\nV1\ndtb.",
        carrier("mmengine.Config") + b")\x81(N}(V__class__\n" + carrier("builtins.object") + b"utb.",
        carrier("mmengine.Config") + b")\x81(Va\nV1\nu.",
        carrier("mmengine.Config") + b")\x81(Va\ne.",
        carrier("yacs.config.CfgNode", "mmengine.Config") + b"(tRb.",
    ],
)
def test_what_is_done_with_a_harmless_object_does_nothing(path, tmp_path, pickled):
    mark = tmp_path / "mark"
    before = dict(vars(Inert))
    content = b"(V1\n" + pickled.replace(b"MARK", str(mark).encode())[:-1] + b"VThe end\nV2\nd."
    for form in FORMS:
        try:
            loaded = load_pickled(write(path, content, form))
        except ValueError as error:
            assert "it is cut or damaged" in str(error)
        else:
            assert loaded == {"The end": "2"}
    assert not mark.exists()
    assert dict(vars(Inert)) == before


@pytest.mark.parametrize(
    "known",
    [
        "torch._utils._rebuild_tensor_v2",
        "collections.OrderedDict",
        "torch.float32",
        "torch.FloatStorage",
        "numpy.dtype",
        "torch.nn.parameter.Parameter",
        "torch.Tensor",
    ],
)
def test_nothing_that_is_known_can_be_changed_from_a_file(path, known):
    """Attributes set by BUILD on a function or class would outlive the reading."""
    module, _, name = known.rpartition(".")
    real = getattr(sys.modules[module], name)
    before = torch._utils._rebuild_tensor_v2.__defaults__, sorted(dir(real))
    for form in FORMS:
        for state in (b"}(V__defaults__\n(K\x01tVmine\nV1\nu", b"(N}(V__defaults__\n(K\x01tVmine\nV1\nut"):
            with pytest.raises(ValueError, match="cannot be read as weights"):
                load_pickled(write(path, carrier(known) + state + b"b.", form))
    assert (torch._utils._rebuild_tensor_v2.__defaults__, sorted(dir(real))) == before


def test_extensions_are_refused_even_where_the_process_knows_them(path, tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    monkeypatch.setitem(copyreg._inverted_registry, 5, ("os", "system"))
    monkeypatch.setitem(copyreg._extension_cache, 5, os.system)
    command = text(f"touch {mark}") + b"\x85R."
    assert pickle.loads(b"\x80\x02\x82\x05" + text("true") + b"\x85R.") == 0
    for code in (b"\x82\x05", b"\x83\x05\x00", b"\x84\x05\x00\x00\x00"):
        for form in FORMS:
            with pytest.raises(ValueError, match="it holds an object of extension 5, and nothing that could run code"):
                load_pickled(write(path, b"\x80\x02" + code + command, form))
    assert not mark.exists()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "identity",
    [
        b"Pmemory\n.",
        b"\x80\x02" + text("storage") + b"Q.",
        b"\x80\x02(" + text("module") + carrier("mmengine.Config") + text("/etc/hosts") + text("source") + b"tQ.",
        b"\x80\x02(" + text("storage") + carrier("mmengine.Config") + text("0") + text("cpu") + b"K\x01NtQ.",
        b"\x80\x02("
        + text("storage")
        + carrier("torch.FloatStorage")
        + text("0")
        + text("cpu")
        + b"J"
        + b"\xff" * 4
        + b"NtQ.",
    ],
)
def test_only_memory_is_taken_from_outside_a_pickle(path, identity, form):
    with pytest.raises(ValueError, match="cannot be read as weights: it is damaged"):
        load_pickled(write(path, identity, form))
