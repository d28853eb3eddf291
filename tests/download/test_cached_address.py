import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from src.download.cached_address import cached, is_kept, place_of, sum_in
from tests.file_server import CONTENT, OTHER, FileServer, names

ROOT = Path(__file__).parents[2]
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
        assert cached(url) == folder / f"swin-{SUM[:8]}.pth"
    assert cached(url).read_bytes() == CONTENT
    assert len(server.requests) == 1
    assert names(folder) == [f"swin-{SUM[:8]}.pth"]


def test_a_file_that_torch_hub_fetched_is_taken(server: FileServer, folder: Path):
    url = address(server, f"swin-{SUM[:10]}.pth")
    folder.mkdir(parents=True)
    torch.hub.download_url_to_file(url, str(folder / f"swin-{SUM[:10]}.pth"), SUM[:10], progress=False)
    asked = len(server.requests)
    assert cached(url).read_bytes() == CONTENT
    assert len(server.requests) == asked


def test_files_of_one_name_from_two_addresses_do_not_meet(server: FileServer, folder: Path):
    first = cached(address(server, "one/swin.pth"))
    server.content = OTHER
    second = cached(address(server, "two/swin.pth"))
    assert (first.name, second.name) == ("swin.pth", "swin.pth")
    assert (first.read_bytes(), second.read_bytes()) == (CONTENT, OTHER)
    assert first.parent.parent == second.parent.parent == folder
    assert cached(address(server, "one/swin.pth")) == first
    assert len(server.requests) == 2


def test_a_file_that_does_not_fit_the_sum_in_its_name_is_told(server: FileServer, folder: Path):
    url = address(server, "swin-00000000.pth")
    with pytest.raises(ValueError, match=rf"{url} gives another file.*SHA-256 must begin with 00000000, got {SUM}"):
        cached(url)
    assert names(folder) == []
    (folder / "swin-00000000.pth").write_bytes(b"mine")
    with pytest.raises(
        ValueError, match=rf"{folder}/swin-00000000\.pth is not the file that is meant; remove it; SHA-256"
    ):
        cached(url)
    assert len(server.requests) == 1


def test_without_a_connection_the_place_for_the_file_is_told(server: FileServer, folder: Path):
    server.behave = lambda handler, number: handler.send_error(404) or True
    for name in (f"swin-{SUM[:8]}.pth", "swin.pth"):
        path = place_of(address(server, name))[0]
        assert path.is_relative_to(folder)
        with pytest.raises(ValueError, match=rf"or fetch it by hand and save it as {re.escape(str(path))}\."):
            cached(address(server, name))
        path.write_bytes(CONTENT)
        assert cached(address(server, name)) == path


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


def test_a_long_name_in_any_script_fits_into_a_file_system(server: FileServer):
    path = cached(address(server, f"{'重' * 150}-{SUM[:8]}.pth"))
    assert path.name.endswith(f"重-{SUM[:8]}.pth")
    assert len(path.name.encode()) <= 150
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("url", ["http://[::1", "http://", "http://h/a\0.pth", "http://h/\ud800.pth", "http://h\n/"])
def test_what_is_no_address_is_told_with_it(folder: Path, url: str):
    with pytest.raises(ValueError, match=r"http://.* cannot be fetched: .+; check the address\.") as told:
        cached(url)
    assert str(told.value).isprintable()
    assert ascii(url)[1:-1].split("\\")[0] in str(told.value)


def test_a_kept_file_is_known_as_one(server: FileServer, tmp_path: Path):
    assert is_kept(cached(address(server, f"swin-{SUM[:8]}.pth")))
    assert is_kept(cached(address(server, "swin.pth")))
    assert not is_kept(tmp_path / "swin.pth")


def test_two_processes_fetch_one_file_at_once(server: FileServer):
    path = place_of(address(server, "swin.pth"))[0]
    run = f"from pathlib import Path; from src.download import download; download({server.url!r}, Path({str(path)!r}))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    jobs = [subprocess.Popen([sys.executable, "-c", run], env=environment) for _ in range(2)]
    assert [job.wait(timeout=100) for job in jobs] == [0, 0]
    assert cached(address(server, "swin.pth")).read_bytes() == CONTENT
    assert server.requests == [None]
