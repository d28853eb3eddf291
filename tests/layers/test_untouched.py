import pytest
from torch import nn
from torch.nn.utils import parametrizations, prune, weight_norm

from src.layers.untouched import hooked, untouched


def test_a_module_of_torchs_is_untouched():
    assert untouched(nn.Conv2d(3, 4, 1), nn.Linear, nn.Conv2d)
    assert not hooked(nn.Conv2d(3, 4, 1))
    assert not untouched(nn.Conv2d(3, 4, 1), nn.Linear)


@pytest.mark.parametrize(
    "touch",
    [
        lambda conv: conv.register_forward_hook(lambda *_: None),
        lambda conv: conv.register_forward_pre_hook(lambda *_: None),
        lambda conv: conv.register_full_backward_hook(lambda *_: None),
        lambda conv: conv.register_full_backward_pre_hook(lambda *_: None),
        lambda conv: prune.l1_unstructured(conv, "weight", 0.5),
        lambda conv: parametrizations.spectral_norm(conv),
        lambda conv: weight_norm(conv),
    ],
)
@pytest.mark.filterwarnings("ignore:.*weight_norm")
def test_hooks_pruning_and_parametrisations_touch_it(touch):
    conv = nn.Conv2d(3, 4, 1)
    touch(conv)
    assert not untouched(conv, nn.Conv2d)


def test_an_adapter_touches_it():
    class Adapter(nn.Linear):
        pass

    assert not untouched(Adapter(3, 4), nn.Linear)
