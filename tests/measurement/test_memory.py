import sys

import pytest
import torch

from src.measurement import memory
from src.measurement.memory import LiveBytes, memory_of

MIB = 2**20
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from Linux's /proc")


@linux
@pytest.mark.parametrize("megabytes", [64, 200])
def test_a_tensor_of_known_size_is_measured(megabytes):
    use = memory_of(lambda: torch.ones(megabytes, 2**18).sum())
    assert use.live == pytest.approx(megabytes * MIB, abs=2**16)
    assert use.peak / MIB == pytest.approx(megabytes, abs=4)


@linux
def test_the_peak_is_measured_though_its_memory_is_free_at_the_end():
    def work():
        torch.ones(120, 2**18)
        return torch.ones(40, 2**18).sum()

    use = memory_of(work)
    assert use.peak / MIB == pytest.approx(120, abs=4)
    assert use.live == pytest.approx(120 * MIB, abs=2**16)


@linux
def test_what_was_there_before_does_not_count():
    kept = torch.ones(100, 2**18)
    use = memory_of(lambda: kept.add_(1).view(-1)[::2])
    assert use.live == 0
    assert use.peak < 4 * MIB


@linux
def test_where_the_kernel_forgets_no_peak_a_thread_looks(monkeypatch):
    monkeypatch.setattr(memory, "_begin_peak", lambda: False)

    def work():
        kept = torch.ones(100, 2**18)
        for _ in range(20):
            kept.add_(1)

    use = memory_of(work)
    assert use.source == "sampled"
    assert use.peak / MIB == pytest.approx(100, abs=6)


def test_a_system_without_figures_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "absent")
    with pytest.raises(ValueError, match="which this system does not have; leave out these rows"):
        memory_of(lambda: None)


def test_live_bytes_follow_a_tensor_and_its_views():
    with LiveBytes() as live:
        first = torch.zeros(1000)
        view = first[10:].view(-1)
        del first
        second = torch.zeros(500)
        del view
        third = torch.zeros(100)
    assert live.peak == 1500 * 4
    del second, third


def test_live_bytes_count_what_backward_keeps():
    weight = torch.ones(100, 100, requires_grad=True)
    with LiveBytes() as live:
        out = (weight @ torch.ones(100, 50)).relu()
        out.sum().backward()
    assert live.peak >= weight.grad.numel() * 4 + out.numel() * 4
    assert live.peak <= 3 * weight.numel() * 4 + 4 * out.numel() * 4
