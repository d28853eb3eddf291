from pathlib import Path

import pytest
import torch

from src.cli.whole_checkpoints import WholeCheckpoints


@pytest.mark.parametrize("kind", [OSError, RuntimeError])
def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(checkpoint, monkeypatch, kind):
    def broken(value, path):
        Path(path).write_bytes(b"half")
        raise kind("no space left")

    before = Path(checkpoint).read_bytes()
    monkeypatch.setattr(torch, "save", broken)
    with pytest.raises(ValueError, match=r"cannot be written \(no space left; .* GiB are free\); make room"):
        WholeCheckpoints().save_checkpoint({"step": 1}, checkpoint)
    assert Path(checkpoint).read_bytes() == before
    assert not list(Path(checkpoint).parent.glob(".*part"))
