import re

import pytest

from src import __version__
from src.cli import changes
from src.cli.changes import CHANGES, Change, release_notes, successor

PLANTED = (
    Change("0.2.0", "masks are green", ("predict",)),
    Change("0.3.0", "sizes are in metres", ("fit", "predict"), key="data.size"),
    Change("0.3.0", "it was renamed", ("fit",), key="data.colour", successor="data.color"),
)


@pytest.fixture
def planted(monkeypatch):
    monkeypatch.setattr(changes, "CHANGES", PLANTED)
    monkeypatch.setattr(changes, "__version__", "0.10.0")


def test_what_changed_since_is_said_for_the_subcommand_and_the_keys_in_use(planted):
    assert list(release_notes("0.1.0", "predict", {"data.size"})) == [
        "made by release 0.1.0; since 0.2.0 masks are green",
        "made by release 0.1.0; since 0.3.0 sizes are in metres",
    ]
    assert list(release_notes("0.2.0", "predict", {"data.other"})) == []
    assert list(release_notes("0.3.0", "predict", {"data.size"})) == []
    assert list(release_notes("0.1.0", "fit", set())) == []


def test_a_config_of_a_newer_release_is_said_to_be_one(planted):
    assert list(release_notes("0.10.0", "fit", set())) == []
    assert list(release_notes("0.11.0", "fit", set())) == [
        "made by release 0.11.0, and this is 0.10.0: what is newer is not known here"
    ]
    assert len(list(release_notes("1.0.0rc1", "fit", set()))) == 1


def test_an_option_that_was_renamed_is_named_with_its_successor(planted):
    assert successor("data.colour") == "since release 0.3.0 it is --data.color"
    assert successor("data.size") is None
    assert successor("data.never") is None


def test_changes_belong_to_releases_up_to_this_one():
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    for change in CHANGES:
        assert changes._order(change.release) <= changes._order(__version__)
        assert set(change.commands) <= {"fit", "validate", "test", "predict"}
