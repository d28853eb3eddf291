from pathlib import Path

import pytest
import torch

from src.cli.whole_checkpoints import WholeCheckpoints


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(checkpoint, monkeypatch):
    def broken(value, path):
        Path(path).write_bytes(b"half")
        raise OSError("no space left")

    before = Path(checkpoint).read_bytes()
    monkeypatch.setattr(torch, "save", broken)
    with pytest.raises(OSError, match="no space left"):
        WholeCheckpoints().save_checkpoint({"step": 1}, checkpoint)
    assert Path(checkpoint).read_bytes() == before
    assert not list(Path(checkpoint).parent.glob(".*part"))
