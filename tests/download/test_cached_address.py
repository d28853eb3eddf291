import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from file_server import CONTENT, OTHER, FileServer, names

from src.download.cached_address import fetched, place_of, sum_in

SUM = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[FileServer]:
    server = FileServer()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    return tmp_path / "hub" / "checkpoints"


def address(server: FileServer, name: str) -> str:
    return server.url.replace("set.zip", name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("swin_t-704ceda3.pth", "704ceda3"),
        ("swin_ade20k_pretrain_224x224_1K_20210531_112542-e380ad3e.pth", "e380ad3e"),
        ("swin_t-20210531.pth", None),
        ("swin_t-19991231.pth", None),
        ("swin_t-20219931.pth", "20219931"),
        ("swin_t-12345678.pth", "12345678"),
        (f"swin_t-{SUM}.pth", SUM),
        (f"swin_t-{SUM}0.pth", None),
        ("swin_t-704ceda.pth", None),
        ("swin_t-704ceda3-final.pth", None),
        ("swin_t-704CEDA3.pth", None),
        ("swin_t-704ceda3", "704ceda3"),
        ("swin_t-704ceda3.pth.tar", "704ceda3"),
        ("swin_t704ceda3.pth", None),
        ("a-deadbeef.b-704ceda3.pth", "704ceda3"),
        ("swin_tiny_patch4_window7_224.pth", None),
        ("", None),
    ],
)
def test_the_sum_at_the_end_of_a_name_is_seen_and_a_date_is_none(name: str, expected: str | None):
    assert sum_in(name) == expected


def test_a_file_with_a_sum_lies_where_torch_hub_keeps_it(server: FileServer, folder: Path):
    url = address(server, f"swin-{SUM[:8]}.pth?download=1")
    for _ in range(2):
        assert fetched(url) == folder / f"swin-{SUM[:8]}.pth"
    assert fetched(url).read_bytes() == CONTENT
    assert len(server.requests) == 1
    assert names(folder) == [f"swin-{SUM[:8]}.pth"]


def test_a_file_that_torch_hub_fetched_is_taken(server: FileServer, folder: Path):
    url = address(server, f"swin-{SUM[:10]}.pth")
    folder.mkdir(parents=True)
    torch.hub.download_url_to_file(url, str(folder / f"swin-{SUM[:10]}.pth"), SUM[:10], progress=False)
    asked = len(server.requests)
    assert fetched(url).read_bytes() == CONTENT
    assert len(server.requests) == asked


def test_files_of_one_name_from_two_addresses_do_not_meet(server: FileServer, folder: Path):
    first = fetched(address(server, "one/swin.pth"))
    server.content = OTHER
    second = fetched(address(server, "two/swin.pth"))
    assert (first.name, second.name) == ("swin.pth", "swin.pth")
    assert (first.read_bytes(), second.read_bytes()) == (CONTENT, OTHER)
    assert first.parent.parent == second.parent.parent == folder
    assert fetched(address(server, "one/swin.pth")) == first
    assert len(server.requests) == 2


def test_a_file_that_does_not_fit_the_sum_in_its_name_is_told(server: FileServer, folder: Path):
    url = address(server, "swin-00000000.pth")
    with pytest.raises(ValueError, match=rf"{url} gives another file.*SHA-256 must begin with 00000000, got {SUM}"):
        fetched(url)
    assert names(folder) == []
    (folder / "swin-00000000.pth").write_bytes(b"mine")
    with pytest.raises(
        ValueError, match=rf"{folder}/swin-00000000\.pth is not the file that is meant; remove it; SHA-256"
    ):
        fetched(url)
    assert len(server.requests) == 1


def test_without_a_connection_the_place_for_the_file_is_told(server: FileServer, folder: Path):
    server.behave = lambda handler, number: handler.send_error(404) or True
    for name in (f"swin-{SUM[:8]}.pth", "swin.pth"):
        path = place_of(address(server, name))[0]
        assert path.is_relative_to(folder)
        with pytest.raises(ValueError, match=rf"or fetch it by hand and save it as {re.escape(str(path))}\."):
            fetched(address(server, name))
        path.write_bytes(CONTENT)
        assert fetched(address(server, name)) == path


@pytest.mark.parametrize(
    ("tail", "name"), [("", "weights"), ("a/..", "weights"), ("a/.", "weights"), ("%2e%2e%2fx.pth", "%2e%2e%2fx.pth")]
)
def test_no_address_leads_out_of_the_folder(server: FileServer, folder: Path, tail: str, name: str):
    path, sha256 = place_of(address(server, tail))
    assert (path.name, path.parent.parent, sha256) == (name, folder, None)


def test_a_long_name_is_cut_and_keeps_its_sum(folder: Path):
    path, sha256 = place_of(f"https://host/{'a' * 300}-704ceda3.pth")
    assert len(path.name) == 150
    assert path.name.endswith("a-704ceda3.pth")
    assert sha256 == "704ceda3"


def test_two_processes_fetch_one_file_at_once(server: FileServer, folder: Path, tmp_path: Path):
    run = f"from src.download.origins import located; print(located({address(server, 'swin.pth')!r}))"
    start = lambda: subprocess.Popen([sys.executable, "-c", run], stdout=subprocess.PIPE, text=True)  # noqa: E731
    jobs = [start(), start()]
    (path,) = {job.communicate(timeout=100)[0].strip() for job in jobs}
    assert [job.returncode for job in jobs] == [0, 0]
    assert Path(path).is_relative_to(folder)
    assert Path(path).read_bytes() == CONTENT
    assert server.requests == [None]
