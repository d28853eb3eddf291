from itertools import pairwise

import pytest
import torch
from torch import nn

from src.optim import SwinRecipe
from src.optim.schedule import warmup_poly


def rates(steps: int, **settings: float) -> list[float]:
    optimizer, schedule = SwinRecipe(lr=1.0, **settings).build(nn.ModuleDict({"encoder": nn.Linear(1, 1)}), steps)
    seen = []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return seen


def test_rises_in_the_warm_up_then_falls_at_every_step():
    seen = rates(10, warmup=0.2)
    assert seen[0] < seen[1] < seen[2] == 1.0
    assert all(later < earlier for earlier, later in pairwise(seen[2:]))
    assert seen[-1] == pytest.approx(0.125)


def test_equals_linear_warm_up_followed_by_poly():
    total, warmup, ratio = 160, 15, 1e-6
    for step in range(total):
        expected = ratio + (1 - ratio) * step / warmup if step < warmup else 1 - (step - warmup) / (total - warmup)
        assert warmup_poly(step, total, warmup, ratio) == pytest.approx(expected, rel=1e-12)


def test_published_lengths_reach_the_base_rate_at_step_1500():
    factors = [warmup_poly(step, 160_000, round(1500 / 160_000 * 160_000)) for step in (0, 1499, 1500, 80_750, 160_000)]
    assert factors == pytest.approx([1e-6, 1499 / 1500, 1.0, 0.5, 0.0], abs=1e-6)


def test_power_bends_the_decay():
    assert warmup_poly(75, 100, 0, power=2.0) == pytest.approx(0.0625)


def test_ratio_is_where_the_warm_up_begins():
    assert warmup_poly(0, 100, 10, warmup_ratio=0.1) == pytest.approx(0.1)


def test_power_and_ratio_of_the_recipe_reach_the_schedule():
    assert rates(10, warmup=0.0, power=2.0) == pytest.approx([(1 - step / 10) ** 2 for step in range(10)])
    assert rates(10, warmup=0.5, warmup_ratio=0.1)[:6] == pytest.approx([0.1, 0.28, 0.46, 0.64, 0.82, 1.0])


def test_stays_at_zero_beyond_the_run():
    assert warmup_poly(120, 100, 10) == 0.0


def test_a_run_of_one_step_trains():
    weight = nn.Linear(1, 1)
    optimizer, _ = SwinRecipe(lr=0.1).build(nn.ModuleDict({"encoder": weight}), 1)
    before = weight.weight.detach().clone()
    weight(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    assert not torch.equal(before, weight.weight)
