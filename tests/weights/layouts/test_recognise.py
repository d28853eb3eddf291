import pytest
import torch

from src.weights.layouts.recognise import kind_of, layout_named, recognise

MICROSOFT = ["patch_embed.proj.weight", "layers.0.blocks.0.attn.qkv.weight", "layers.0.downsample.reduction.weight"]
MMSEG = ["patch_embed.projection.weight", "stages.0.blocks.0.attn.w_msa.qkv.weight"]


def below(prefix, names):
    return [prefix + name for name in names]


def test_two_models_in_one_file_are_not_guessed():
    names = below("student.backbone.", MICROSOFT) + below("teacher.backbone.", MICROSOFT)
    with pytest.raises(ValueError, match=r"`student.backbone.` \(microsoft\), `teacher.backbone.` .* as `prefix`"):
        recognise(names)
    found = recognise(names, "teacher.backbone.")
    assert (found.layout.name, found.place) == ("microsoft", "teacher.backbone.")


@pytest.mark.parametrize("prefix", ["teacher", "teacher.", "teacher.backbone", "teacher.backbone."])
def test_a_prefix_may_be_the_models_or_its_encoders(prefix):
    official = [*MICROSOFT, "norm0.weight"]
    names = below("student.backbone.", official) + below("teacher.backbone.", official)
    found = recognise(names, prefix)
    assert (found.layout.name, found.prefix, found.root) == ("official", "teacher.", "backbone.")


def test_an_average_beside_the_model_is_not_guessed():
    names = MICROSOFT + below("ema.", MICROSOFT)
    with pytest.raises(ValueError, match=r"below `` \(microsoft\), `ema.` \(microsoft\)"):
        recognise(names)
    assert recognise(names, "").prefix == ""
    assert recognise(names, "ema").prefix == "ema."


def test_two_layouts_in_one_file_are_not_guessed():
    names = below("a.", MICROSOFT) + below("b.", MMSEG)
    with pytest.raises(ValueError, match=r"`a.` \(microsoft\), `b.` \(mmseg\)"):
        recognise(names)
    assert recognise(names, "b").layout.name == "mmseg"
    with pytest.raises(ValueError, match=r"`` \(microsoft\), `b.` \(mmseg\)"):
        recognise(MICROSOFT + below("b.", MMSEG))


@pytest.mark.parametrize("prefix", ["student", "teach", "encoder.", ""])
def test_a_prefix_that_is_not_there_is_told(prefix):
    with pytest.raises(ValueError, match=rf"prefix must .*, got `{prefix}`; there are `teacher.` \(microsoft\)"):
        recognise(below("teacher.", MICROSOFT), prefix)


def test_unknown_names_are_told_beside_those_that_are_known():
    with pytest.raises(ValueError) as told:
        recognise(["conv1.weight", "layer1.0.conv1.weight", "fc.bias"])
    assert "got conv1.weight, layer1.0.conv1.weight and 1 more" in str(told.value)
    assert "microsoft: patch_embed.proj.weight, layers.0.downsample.reduction.weight;" in str(told.value)
    for name in ("toolkit", "official", "mmseg", "timm", "torchvision", "transformers", "smp"):
        assert f"{name}: " in str(told.value)


def test_names_in_errors_cannot_steer_a_terminal():
    hostile = below("a\x1b[31m\x0b.", MICROSOFT) + below("b\u202e.", MICROSOFT)
    for names, prefix in ((["conv\x0b1.weight", "\x00\udcff"], None), (hostile, None), (hostile, "\x9b")):
        with pytest.raises(ValueError, match="must") as told:
            recognise(names, prefix)
        assert str(told.value).isprintable()


def test_a_file_without_names_is_told():
    with pytest.raises(ValueError, match="got none"):
        recognise([])


def test_another_prefix_is_found():
    assert recognise(below("model.encoder.", MICROSOFT)).place == "model.encoder."
    assert recognise(below("module.model.encoder.backbone.", MMSEG)).place == "module.model.encoder.backbone."


def test_another_librarys_model_is_not_taken_for_ours():
    smp = pytest.importorskip("segmentation_models_pytorch")
    with pytest.raises(ValueError, match="known layout, got encoder"):
        recognise(list(smp.Unet("resnet18", encoder_weights=None).state_dict()))


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["encoder.a"], "encoder"),
        (["encoder.a", "classifier.norm.weight"], "encoder"),
        (["encoder.a", "classifier.norm.weight", "classifier.head.weight"], "classifier"),
        (["encoder.a", "classifier.norm.weight", "decoder.conv_seg.weight"], "segmentor"),
        ([], "encoder"),
    ],
)
def test_what_weights_are_of(names, kind):
    assert kind_of({name: torch.zeros(1) for name in names}) == kind


@pytest.mark.parametrize("name", ["official", "mmseg", "smp"])
def test_a_classifier_has_no_place_in_a_layout_of_segmentors(name):
    with pytest.raises(ValueError, match=f"layout must hold .*, got '{name}' for a classifier"):
        layout_named(name, "classifier", 1)


@pytest.mark.parametrize("name", ["microsoft", "timm", "torchvision"])
def test_a_segmentor_has_no_place_in_a_layout_of_classifiers(name):
    with pytest.raises(ValueError, match=f"layout must hold .*, got '{name}' for a segmentor"):
        layout_named(name, "segmentor", 1)


def test_a_layout_without_a_name_is_told():
    with pytest.raises(ValueError, match=r"layout must be one of toolkit, smp, .*, got 'keras'"):
        layout_named("keras", "encoder", 1)
