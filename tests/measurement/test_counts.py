"""Counts against sums written out by hand and against torch's own counter on the peers."""

import functools

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from src.measurement.counts import counts, head_macs, macs_as_computed, macs_in_plain_form, num_parameters, swin_macs
from src.measurement.options import Options
from src.measurement.ours import build_model
from src.measurement.torchvision_peer import build_peer as torchvision_peer
from src.measurement.transformers_model import transformers_model
from src.models import FCNHead, Segmenter, SwinTransformer, UPerNetDecoder, swin_upernet

NANO = Options(model="nano", num_classes=11)


def counted(model, *arguments, **named):
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(*arguments, **named)
    return counter.get_total_flops() // 2


def one_level(size_of_window=7):
    """One stage of two blocks: 12 channels, a decoder and a head of 8."""
    encoder = SwinTransformer(12, (2,), (2,), window_size=size_of_window)
    decoder = functools.partial(UPerNetDecoder, channels=8, pool_sizes=(1, 2))
    return Segmenter(encoder, decoder, functools.partial(FCNHead, level=0, channels=8), num_classes=5)


def test_a_small_model_has_the_counts_that_its_sums_give():
    model = one_level()
    patches = 8 * 12  # of 32x48 pixels
    padded = 14 * 14  # windows of 7
    embedding = patches * 3 * 4 * 4 * 12
    attention = padded * 12 * 36 + padded * 12 * 12 + 2 * padded * 49 * 12
    mlp = 2 * patches * 12 * 48
    pooling = (1 + 4) * 12 * 8 + patches * 9 * (12 + 2 * 8) * 8
    joining = patches * 9 * 8 * 8
    classes = patches * 8 * 5
    assert swin_macs(model.encoder, (32, 48)) == embedding + 2 * (attention + mlp)
    assert macs_in_plain_form(model, (32, 48)) == embedding + 2 * (attention + mlp) + pooling + joining + classes
    assert head_macs(model.auxiliary, (32, 48)) == patches * 9 * 12 * 8 + patches * 8 * 5


def test_parameters_of_a_small_model():
    model = one_level()
    norm = 2 * 12
    block = 2 * norm + 12 * 36 + 36 + 12 * 12 + 12 + 13 * 13 * 2 + 12 * 48 + 48 + 48 * 12 + 12
    encoder = 3 * 16 * 12 + 12 + norm + 2 * block + norm
    decoder = 2 * (12 * 8 + 16) + 9 * (12 + 16) * 8 + 16 + 9 * 8 * 8 + 16 + 8 * 5 + 5
    head = 9 * 12 * 8 + 16 + 8 * 5 + 5
    assert num_parameters(model) == encoder + decoder + head
    told = counts(model, (32, 48))
    assert told["parameters"] == encoder + decoder + head
    assert told["parameters of the encoder"] == encoder


@pytest.mark.parametrize("size", [(64, 96), (97, 131), (8, 8)])
def test_the_plain_form_is_what_transformers_computes(size):
    pytest.importorskip("transformers")
    model = build_model(NANO)
    peer = transformers_model(model).eval()
    peer.backbone.set_attn_implementation("eager")  # torch's counter does not know the fused one
    theirs = counted(peer, torch.zeros(1, 3, *size))
    assert macs_in_plain_form(model, size) + head_macs(model.auxiliary, size) == theirs


def test_the_plain_form_of_the_encoder_is_what_torchvision_computes():
    model = build_model(NANO)
    assert swin_macs(model.encoder, (224, 224)) == counted(torchvision_peer(model).eval(), torch.zeros(1, 3, 224, 224))


def test_published_models_have_the_published_counts():
    with torch.device("meta"):
        model = swin_upernet("tiny", 150)
    assert macs_in_plain_form(model, (512, 512)) / 1e9 == pytest.approx(236, abs=1)
    assert macs_in_plain_form(model, (512, 2048)) / 1e9 == pytest.approx(945, abs=4)
    assert num_parameters(model) / 1e6 == pytest.approx(60, abs=0.5)


def test_what_is_computed_grows_with_the_images_and_leaves_the_model_as_it_was():
    model = build_model(NANO).train()
    one, two = (macs_as_computed(model, (64, 64), number) for number in (1, 2))
    assert 0 < one < two
    assert model.training


def test_of_another_decoder_the_plain_form_is_not_known():
    pytest.importorskip("segmentation_models_pytorch")
    from src.models import SmpFPN

    model = Segmenter(SwinTransformer(12, (1, 1, 1, 1), (1, 2, 3, 4)), SmpFPN, num_classes=3)
    assert macs_in_plain_form(model, (64, 64)) is None
    assert counts(model, (64, 64))["multiply-adds, as computed"] > 0
