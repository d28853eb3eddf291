import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest

from src.download.origins import located
from tests.hub_server import HubServer

ROOT = Path(__file__).parents[2]
SAFE = {"config.json": b"{}", "model.safetensors": b"safe", "pytorch_model.bin": b"bin", "README.md": b"text"}
REPOSITORIES = {
    "owner/both": {
        "main": SAFE,
        "v1": SAFE | {"model.safetensors": b"old"},
        "refs/pr/1": {"model.safetensors": b"asked"},
    },
    "owner/bin": {"main": {"config.json": b"{}", "pytorch_model.bin": b"bin", "optimizer.pt": b"x", "a/b.pth": b"b"}},
    "owner/parts": {
        "main": {
            "model.safetensors.index.json": b"{}",
            "model-00001-of-00002.safetensors": b"1",
            "model-00002-of-00002.safetensors": b"2",
            "pytorch_model.bin": b"bin",
            "other.safetensors": b"x",
        }
    },
    "owner/one": {"main": {"best [1].pth": b"best", "deeper/x.pth": b"x", "notes.txt": b""}},
    "owner/many": {"main": {"a.pth": b"a", "b.pth": b"b", "config.json": b"{}"}},
    "owner/none": {"main": {"README.md": b"text"}},
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    server = HubServer({name: dict(revisions) for name, revisions in REPOSITORIES.items()})
    server.use(monkeypatch, tmp_path / "cache")
    yield server
    server.stop()


def content(path: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in path.iterdir()}


def test_of_a_repository_only_config_and_safetensors_are_fetched_and_once(hub: HubServer):
    for _ in range(2):
        assert content(located("hf:owner/both")) == {"config.json": b"{}", "model.safetensors": b"safe"}
        assert hub.fetched() == ["config.json", "model.safetensors"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("hf:owner/bin", {"config.json", "pytorch_model.bin"}),
        (
            "hf:owner/parts",
            {
                "model.safetensors.index.json",
                "model-00001-of-00002.safetensors",
                "model-00002-of-00002.safetensors",
            },
        ),
        ("hf:owner/one", {"best [1].pth"}),
    ],
)
def test_what_is_needed_of_other_repositories_is_fetched(hub: HubServer, source: str, expected: set[str]):
    assert content(located(source)).keys() == expected


@pytest.mark.parametrize(("revision", "expected"), [("v1", b"old"), ("refs/pr/1", b"asked"), ("main", b"safe")])
def test_a_revision_is_taken(hub: HubServer, revision: str, expected: bytes):
    assert content(located(f"hf:owner/both@{revision}"))["model.safetensors"] == expected


@pytest.mark.parametrize("revision", ["", "@main"])
def test_one_file_is_taken_with_the_config_beside_it(hub: HubServer, revision: str):
    path = located(f"hf:owner/many{revision}:b.pth")
    assert path.name == "b.pth"
    assert path.read_bytes() == b"b"
    assert content(path.parent).keys() == {"b.pth", "config.json"}
    assert located("hf:owner/bin:a/b.pth").read_bytes() == b"b"
    assert located("hf:owner/one:best [1].pth").read_bytes() == b"best"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("hf:owner/absent", r"there is none of this name, or it is private; check the name, or log in"),
        ("hf:owner/both@v9", r"it has no revision v9; https://huggingface\.co/owner/both lists them"),
        ("hf:owner/many", r"does not tell which .*give one as hf:owner/many:file; it has a\.pth, b\.pth"),
        ("hf:owner/none", r"does not tell which .*; it has no weights"),
        ("hf:owner/many:c.pth", r"must be a file of the repository; it has a\.pth, b\.pth"),
        ("hf:owner/a--b", r"no repository can have this name"),
    ],
)
def test_what_the_hub_refuses_is_told_plainly(hub: HubServer, source: str, told: str):
    with pytest.raises(ValueError, match=f"{re.escape(source)} .*{told}") as error:
        located(source)
    assert "\n" not in str(error.value)


def test_a_repository_that_asks_for_consent_is_told(hub: HubServer):
    hub.gated.add("owner/both")
    with pytest.raises(
        ValueError, match=r"hf:owner/both cannot be fetched: its owner asks for consent: give it at https"
    ):
        located("hf:owner/both")


@pytest.mark.parametrize(
    "text",
    ["", "name", "a/b/c", "a/b@", "a/b:", "a/b@x:", "a /b", "a/b:../c", "a/b:/etc/passwd", "a/b:x/../../y", "a/b@x@y"],
)
def test_other_names_are_refused_before_anything_is_asked(hub: HubServer, text: str):
    with pytest.raises(ValueError, match=rf"hf:{re.escape(text)} must be hf:owner/name, with @revision and :file"):
        located(f"hf:{text}")
    assert hub.requests == []


@pytest.mark.parametrize("way", ["broken", "gone", "offline"])
def test_what_has_been_fetched_is_taken_where_the_hub_cannot_be_reached(
    hub: HubServer, way: str, monkeypatch: pytest.MonkeyPatch
):
    before, file = located("hf:owner/both"), located("hf:owner/many:b.pth")
    out_of_reach(hub, way, monkeypatch)
    assert located("hf:owner/both") == before
    assert located("hf:owner/many:b.pth") == file
    remedy = "unset HF_HUB_OFFLINE" if way == "offline" else "connect"
    for source in ("hf:owner/bin", "hf:owner/both@v1", "hf:owner/many:a.pth"):
        with pytest.raises(
            FileNotFoundError,
            match=rf"{source} is not on this machine and the Hub cannot be reached \(.+\); {remedy}, or "
            rf"run `hf download {re.split('[@:]', source)[1]} .*give it in place of {source}",
        ) as error:
            located(source)
        assert "\n" not in str(error.value)


def out_of_reach(hub: HubServer, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "broken":
        hub.broken = True
    elif way == "gone":
        hub.stop()
        monkeypatch.setattr(hub, "stop", lambda: None)
    else:
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def test_a_repository_of_which_only_the_config_is_here_does_not_count(hub: HubServer, monkeypatch: pytest.MonkeyPatch):
    huggingface_hub.snapshot_download("owner/both", allow_patterns="config.json")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(FileNotFoundError, match="hf:owner/both is not on this machine"):
        located("hf:owner/both")


def test_a_file_that_cannot_be_written_is_told(hub: HubServer, tmp_path: Path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(
        ValueError, match=r"hf:owner/both cannot be fetched: it cannot be written \(.+\); make room, or set"
    ):
        located("hf:owner/both")


def test_two_processes_fetch_one_repository_at_once(hub: HubServer, tmp_path: Path):
    hub.repositories["owner/both"] = {"main": SAFE | {"model.safetensors": b"x" * 3_000_000}}
    run = "from src.download.hub import from_hub; print(from_hub('owner/both'))"
    environment = os.environ | hub.environment(tmp_path / "shared") | {"PYTHONPATH": str(ROOT)}
    start = lambda: subprocess.Popen([sys.executable, "-c", run], env=environment, stdout=subprocess.PIPE, text=True)  # noqa: E731
    jobs = [start(), start()]
    folders = {job.communicate(timeout=100)[0].strip() for job in jobs}
    assert [job.returncode for job in jobs] == [0, 0]
    (folder,) = folders
    assert Path(folder).is_relative_to(tmp_path / "shared")
    assert (Path(folder) / "model.safetensors").read_bytes() == b"x" * 3_000_000
