import builtins
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from src.download.origins import located
from tests.file_server import CONTENT, FileServer
from tests.hub_server import HubServer


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    server = HubServer({"timm/swin.in1k": {"main": {"model.safetensors": b"a", "other.pth": b"b"}}})
    server.use(monkeypatch, tmp_path / "cache")
    yield server
    server.stop()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    server = FileServer()
    yield server
    server.stop()


def test_a_path_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b.pth").write_text("")
    for source in ("a b.pth", Path("a b.pth"), str(tmp_path / "a b.pth"), "~/a b.pth", b"a b.pth"):
        assert located(source).samefile(tmp_path / "a b.pth")
    assert located(tmp_path) == tmp_path
    assert located(".").samefile(tmp_path)


@pytest.mark.parametrize("name", ["hf:owner/both", "timm:swin", "owner/both"])
def test_a_path_wins_over_other_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.chdir(tmp_path)
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("")
    assert located(name) == Path(name)


@pytest.mark.parametrize("scheme", ["http", "HTTP"])
def test_an_address_is_fetched(server: FileServer, scheme: str):
    assert located(server.url.replace("http", scheme, 1)).read_bytes() == CONTENT


@pytest.mark.parametrize(
    "source",
    ["none.pth", "~nobody-here/x.pth", "ftp://host/a.pth", "s3://a/b", "file:///etc/passwd", "a" * 300, "hub:a"],
)
def test_anything_else_is_told_with_what_there_is(source: str):
    with pytest.raises(FileNotFoundError) as error:
        located(source)
    assert str(error.value) == (
        "weights must be a path of a file or folder, an address that begins with http:// or https://, hf:owner/name "
        f"with @revision or :file behind it, or timm:name, got {source}, which does not exist."
    )


def test_nothing_is_no_path():
    with pytest.raises(FileNotFoundError, match="got nothing, which does not exist"):
        located("")


def test_a_name_that_may_be_of_the_hub_gets_a_hint():
    with pytest.raises(
        FileNotFoundError, match="which does not exist; a repository of the Hub would be hf:openmmlab/upernet-swin-tiny"
    ):
        located("openmmlab/upernet-swin-tiny")


def test_a_name_no_file_can_have_is_told():
    with pytest.raises(FileNotFoundError, match=r"got a\\x00\\x1b\[2J, which does not exist") as error:
        located("a\0\x1b[2J")
    assert str(error.value).isprintable()


@pytest.mark.parametrize("source", ["hf:a/b\n", "hf:a/b:\0", "timm:\x1b[2J"])
def test_a_name_that_steers_a_terminal_is_told(source: str):
    with pytest.raises(ValueError, match=r"must be a name without characters that cannot be shown; correct") as error:
        located(source)
    assert str(error.value).isprintable()


def published(**cfg):
    return SimpleNamespace(**{"hf_hub_id": None, "hf_hub_filename": None, "url": None} | cfg)


def test_a_name_of_timm_is_looked_up_there(hub: HubServer, server: FileServer, monkeypatch: pytest.MonkeyPatch):
    timm = pytest.importorskip("timm")
    known = {
        "repository": published(hf_hub_id="timm/swin.in1k", url=server.url),
        "file": published(hf_hub_id="timm/swin.in1k", hf_hub_filename="other.pth"),
        "address": published(url=server.url),
        "mirrors": published(url=(server.url, "http://nowhere.invalid/a.pth")),
    }
    monkeypatch.setattr(timm, "get_pretrained_cfg", known.get)
    assert [path.name for path in located("timm:repository").iterdir()] == ["model.safetensors"]
    assert located("timm:file").read_bytes() == b"b"
    assert located("timm:address").read_bytes() == located("timm:mirrors").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("swin_tiny_patch4_window7_22", "swin_tiny_patch4_window7_224"),
        ("swin_tiny_patch4_window7_224.ms_in9k", "swin_tiny_patch4_window7_224.ms_in1k"),
        ("swim_base_patch4_window7_224", "swin_base_patch4_window7_224"),
    ],
)
def test_a_name_that_timm_does_not_have_is_told_with_the_nearest(name: str, near: str):
    pytest.importorskip("timm")
    with pytest.raises(
        ValueError, match=rf"timm:{name} must be a model that timm publishes weights of; the nearest are.*"
    ):
        located(f"timm:{name}")
    with pytest.raises(ValueError, match=re.escape(near)):
        located(f"timm:{name}")


def test_a_name_like_none_of_timms_is_told(monkeypatch: pytest.MonkeyPatch):
    timm = pytest.importorskip("timm")
    monkeypatch.setattr(timm, "get_pretrained_cfg", lambda name: published())
    with pytest.raises(ValueError, match=r"timm:0 must be a model .*timm\.list_pretrained\(\) lists them"):
        located("timm:0")


def test_without_timm_its_names_are_told_another_way(monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def absent(name, *args, **options):
        if name == "timm":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(
        ValueError, match=r"timm:swin needs timm, which is not installed; install it, or give hf:timm/swin"
    ):
        located("timm:swin")
