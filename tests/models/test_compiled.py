import torch
from torch import nn

from src.models.compiled import plain_name


def test_names_are_those_before_compiling():
    model = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.Linear(1, 1)))
    names = [name for name, _ in model.named_parameters()]
    model[1][0] = torch.compile(model[1][0])
    compiled = [name for name, _ in torch.compile(model).named_parameters()]
    assert compiled != names
    assert [plain_name(name) for name in compiled] == names


def test_other_names_stay():
    assert plain_name("encoder.norm0.weight") == "encoder.norm0.weight"
    assert plain_name("encoder.my_orig_mod.weight") == "encoder.my_orig_mod.weight"
