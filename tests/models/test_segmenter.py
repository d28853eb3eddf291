import functools

import pytest
import torch
from torch import nn

from src.models.fcn_head import FCNHead
from src.models.segmenter import Segmenter
from src.models.settings import build_recorded, plain
from src.models.swin import SwinTransformer
from src.models.upernet import UPerNetDecoder
from tests.models.toys import PlainDecoder, ToyEncoder

SIZES = [(33, 47), (64, 20), (33, 47), (1, 1)]


def small_decoder(features, num_classes):
    return UPerNetDecoder(features, num_classes, channels=8)


def small_head(features, num_classes):
    return FCNHead(features, num_classes, channels=8)


def small_swin():
    return SwinTransformer(8, (1, 1, 2, 1), (1, 1, 2, 2), window_size=4, drop_path_rate=0.0)


def build(encoder=ToyEncoder, decoder=small_decoder, auxiliary=small_head, num_classes=5):
    torch.manual_seed(0)
    return Segmenter(encoder(), decoder, auxiliary, num_classes=num_classes)


def padded_batch(sizes, filling=0.0):
    generator = torch.Generator().manual_seed(1)
    images = [torch.randn(3, *size, generator=generator) for size in sizes]
    batch = torch.full((len(sizes), 3, max(h for h, _ in sizes), max(w for _, w in sizes)), filling)
    for member, image in zip(batch, images, strict=True):
        member[:, : image.shape[1], : image.shape[2]] = image
    return images, batch


@pytest.mark.parametrize("size", [(1, 1), (36, 60), (97, 131)])
def test_logits_have_the_decoders_stride(size):
    model = build().eval()
    output = model(torch.randn(2, 3, *size))
    assert output.logits.shape == (2, 5, -(-size[0] // 4), -(-size[1] // 4))
    assert model.stride == 4


def test_auxiliary_logits_are_for_training_alone():
    model, images = build(), torch.randn(2, 3, 40, 40)
    assert model.train()(images).auxiliary_logits.shape == (2, 5, 3, 3)
    assert model.eval()(images).auxiliary_logits is None
    assert build(auxiliary=None).train()(images).auxiliary_logits is None


def test_auxiliary_head_is_not_run_outside_training():
    model = build().eval()
    model.auxiliary.register_forward_hook(lambda *_: pytest.fail("ran"))
    model(torch.randn(1, 3, 40, 40))


@pytest.mark.parametrize("encoder", [ToyEncoder, small_swin])
@pytest.mark.parametrize("decoder", [small_decoder, PlainDecoder])
@pytest.mark.parametrize("filling", [0.0, 7.0, float("nan")])
def test_a_batch_of_several_sizes_equals_its_members_alone(encoder, decoder, filling):
    model = build(encoder, decoder).eval()
    images, batch = padded_batch(SIZES, filling)
    logits = model(batch, SIZES).logits
    assert logits.shape[-2:] == (-(-64 // model.stride), -(-47 // model.stride))
    for index, image in enumerate(images):
        alone = model(image[None]).logits[0]
        inside = logits[index, :, : alone.shape[1], : alone.shape[2]]
        assert (inside - alone).abs().max() <= 1e-5 * alone.abs().max()
        assert logits[index].count_nonzero() == inside.count_nonzero()


def test_several_sizes_train_with_the_gradients_of_the_members():
    model = build(decoder=PlainDecoder, auxiliary=PlainDecoder).train()
    images, batch = padded_batch(SIZES)
    outputs = model(batch, SIZES)
    (outputs.logits.sum() + outputs.auxiliary_logits.square().sum()).backward()
    used = [parameter for parameter in model.parameters() if parameter.grad is not None]
    together = [parameter.grad for parameter in used]
    model.zero_grad()
    for image in images:
        output = model(image[None])
        (output.logits.sum() + output.auxiliary_logits.square().sum()).backward()
    for parameter, gradient in zip(used, together, strict=True):
        assert parameter.grad.allclose(gradient, rtol=1e-4, atol=1e-5)


def test_equal_sizes_below_the_padded_one_are_cropped_first():
    model = build().eval()
    images, _ = padded_batch([(33, 47)] * 2)
    batch = torch.full((2, 3, 64, 64), 9.0)
    batch[:, :, :33, :47] = torch.stack(images)
    logits = model(batch, [(33, 47)] * 2).logits
    assert torch.allclose(logits[:, :, :9, :12], model(torch.stack(images)).logits, atol=1e-6)
    assert logits.shape[-2:] == (16, 16)


@pytest.mark.parametrize(("joins", "times"), [(True, 1), (False, 3)])
def test_an_encoder_that_takes_sizes_is_asked_once_or_for_each(joins, times):
    model, calls = build(small_swin).eval(), []
    expected = model(padded_batch(SIZES)[1], SIZES).logits
    model.encoder.register_forward_hook(lambda *_: calls.append(1))
    model.joins_sizes = joins
    logits = model(padded_batch(SIZES)[1], SIZES).logits
    assert len(calls) == times
    assert (logits - expected).abs().max() <= 1e-5 * expected.abs().max()


@pytest.mark.parametrize("auxiliary", [small_head, None])
def test_settings_build_the_same_model_again(auxiliary):
    model = build(small_swin, auxiliary=auxiliary).eval()
    settings = model.settings
    assert settings == plain(settings)
    again = Segmenter.from_settings(settings)
    again.load_state_dict(model.state_dict())
    images = torch.randn(1, 3, 33, 47)
    assert torch.equal(again.eval()(images).logits, model(images).logits)
    assert again.settings == settings


def test_settings_build_for_another_number_of_classes():
    assert Segmenter.from_settings(build().settings, num_classes=9)(torch.randn(2, 3, 32, 32)).logits.shape[1] == 9


@pytest.mark.parametrize(
    ("decoder", "kernel_size"), [(PlainDecoder, 1), (functools.partial(PlainDecoder, kernel_size=3), 3)]
)
def test_a_decoder_that_records_nothing_is_recorded_by_its_factory(decoder, kernel_size):
    again = Segmenter.from_settings(build(decoder=decoder).settings)
    assert isinstance(again.decoder, PlainDecoder)
    assert again.decoder.conv.kernel_size == (kernel_size, kernel_size)
    assert again.settings == build(decoder=decoder).settings


def test_a_part_that_hides_how_it_was_built_is_named():
    model = build(decoder=lambda features, num_classes: PlainDecoder(features, num_classes, kernel_size=3))
    with pytest.raises(ValueError, match=r"model\.model\.decoder does not tell how it was built; derive PlainDecoder"):
        _ = model.settings


def test_an_encoder_that_records_nothing_is_named_with_the_remedy():
    class Bare(nn.Module):
        feature_specs = ToyEncoder().feature_specs

    with pytest.raises(
        ValueError, match=r"model\.model\.encoder does not tell .*src\.models\.settings\.build_recorded"
    ):
        _ = build(Bare).settings
    assert build(lambda: build_recorded(Bare)).settings["init_args"]["encoder"]["init_args"] == {}


def test_a_compiled_part_is_recorded_as_what_it_was():
    model = build()
    expected = model.settings
    model.encoder = torch.compile(model.encoder)
    assert model.settings == expected


def test_true_region_leaves_the_padding_out():
    model = build().eval()
    images, batch = padded_batch(SIZES)
    for logits, image, size in zip(model(batch, SIZES).logits, images, SIZES, strict=True):
        assert model.true_region(logits, size).shape == model(image[None]).logits.shape[1:]
        assert torch.equal(model.true_region(logits, size), logits[:, : -(-size[0] // 4), : -(-size[1] // 4)])


class Wrong(ToyEncoder):
    def __init__(self, change):
        super().__init__()
        self.change = change

    def forward(self, images):
        return self.change(super().forward(images))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda maps: maps[:3], "Wrong must have 4 feature levels, got 3"),
        (lambda maps: [maps[0][:, :3], *maps[1:]], r"Wrong: level 0 must be \(B, 4, h, w\), got \(1, 3, 8, 8\)"),
        (lambda maps: [maps[0][..., :7], *maps[1:]], r"level 0 of stride 4 must have \(8, 8\) cells"),
    ],
)
def test_maps_that_break_the_encoders_promise_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        build(lambda: Wrong(change)).eval()(torch.randn(1, 3, 32, 32))


def test_a_decoder_with_too_few_cells_is_refused():
    model = build(decoder=PlainDecoder, auxiliary=None)
    model.decoder.stride = 4
    with pytest.raises(ValueError, match=r"PlainDecoder must give at least \(8, 8\) cells of stride 4"):
        model(torch.randn(1, 3, 32, 32))


def test_parts_without_their_attributes_are_refused():
    with pytest.raises(ValueError, match=r"model\.model\.encoder must have an attribute feature_specs, got a Conv2d"):
        build(lambda: nn.Conv2d(3, 3, 1))
    with pytest.raises(ValueError, match=r"model\.model\.decoder must have an attribute stride, got a Identity"):
        build(decoder=lambda features, num_classes: nn.Identity())


def test_state_dict_of_a_copied_model_loads():
    model = build()
    assert build().load_state_dict(model.state_dict()).missing_keys == []
