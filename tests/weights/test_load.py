"""Loading weights into a model that has, or has not, the sizes and classes that they were trained with."""

import pytest
import torch

from src.classes import ClassList
from src.models import SmpEncoder
from src.models.swin import SwinTransformer
from src.weights import load_weights
from tests.weights.files import SMALL, classifier_state, encoder, saved, segmenter, theirs

TABLE = "relative_position_bias_table"


def same_output(first, second, size=(70, 45), channels=3) -> bool:
    images = torch.randn(1, channels, *size)
    with torch.no_grad():
        outputs = [model.eval()(images) for model in (first, second)]
    if isinstance(outputs[0], list):
        return all(torch.equal(a, b) for a, b in zip(*outputs, strict=True))
    return torch.equal(outputs[0].logits, outputs[1].logits)


def state_of(model) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def unchanged(model, state) -> bool:
    return all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


@pytest.fixture
def classifier(tmp_path):
    """A classifier's file of Microsoft's, and the encoder that is in it."""
    model = encoder(seed=1)
    return saved(tmp_path / "swin.pth", {"model": theirs(classifier_state(model), "microsoft")}), model


@pytest.fixture
def official(tmp_path):
    """A segmentor's file of the official code with five named classes, and the model that is in it."""
    model = segmenter(seed=1)
    names = ["sky", "road", "car", "tree", "sign"]
    content = {"state_dict": theirs(model.state_dict(), "official"), "meta": {"CLASSES": names}}
    return saved(tmp_path / "upernet.pth", content), model


def test_a_classifier_fills_the_encoder(classifier):
    path, source = classifier
    model = segmenter()
    heads = {name: value.clone() for name, value in model.state_dict().items() if not name.startswith("encoder.")}
    report = load_weights(model, path)
    assert report.layout == "microsoft (classifier, Swin V1)"
    assert report.coverage == 1
    expected = {f"encoder.{name}" for name in source.state_dict() if not name.startswith("norm")}
    assert set(report.loaded) == expected
    assert {name for name in report.new if name.startswith("encoder.")} == {
        f"encoder.norm{i}.{end}" for i in range(4) for end in ("weight", "bias")
    }
    assert set(report.left_over) == {
        f"classifier.{part}.{end}" for part in ("norm", "head") for end in ("weight", "bias")
    }
    for name, value in source.state_dict().items():
        if not name.startswith("norm"):
            assert torch.equal(model.encoder.state_dict()[name], value)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in heads.items())


def test_a_classifier_fills_an_encoder_alone(classifier):
    path, source = classifier
    model = encoder()
    assert load_weights(model, path).coverage == 1
    model.load_state_dict({name: v for name, v in source.state_dict().items() if name.startswith("norm")}, strict=False)
    assert same_output(model, source)


def test_a_segmentor_fills_everything(official):
    path, source = official
    model = segmenter()
    report = load_weights(model, str(path))
    assert report.layout == "official (segmentor, Swin V1)"
    assert (report.coverage, report.new, report.left_over, report.adapted) == (1, (), (), ())
    assert unchanged(model, source.state_dict())
    assert same_output(model, source)


def test_a_window_of_another_size_gets_a_smooth_table(tmp_path):
    source = encoder(seed=1)
    with torch.no_grad():
        source.layers[1].blocks[0].attn.position_bias.relative_position_bias_table.fill_(0.5)
    path = saved(tmp_path / "swin.pth", {"model": theirs(classifier_state(source), "microsoft")})
    model = segmenter(window_size=(6, 5))
    report = load_weights(model, path)
    assert {adaptation.name for adaptation in report.adapted} == {
        f"encoder.layers.{i}.blocks.{j}.attn.position_bias.{TABLE}" for i in range(4) for j in range(2)
    }
    assert {adaptation.what for adaptation in report.adapted} == {"window 4x4 -> 6x5 (bicubic)"}
    assert report.coverage == 1
    table = model.encoder.layers[1].blocks[0].attn.position_bias.relative_position_bias_table
    assert torch.allclose(table, torch.tensor(0.5), atol=1e-6)
    resized = source.layers[2].blocks[1].attn.position_bias.resized((6, 5)).relative_position_bias_table
    assert torch.equal(model.encoder.layers[2].blocks[1].attn.position_bias.relative_position_bias_table, resized)
    assert torch.equal(model.encoder.layers[3].blocks[0].mlp.fc1.weight, source.layers[3].blocks[0].mlp.fc1.weight)


def test_how_a_table_is_resized_can_be_chosen(classifier):
    models = [segmenter(window_size=6) for _ in range(2)]
    for model, method in zip(models, ("bicubic", "geometric"), strict=True):
        report = load_weights(model, classifier[0], resize=method)
        assert f"({method})" in report.adapted[0].what
    first, second = (model.encoder.layers[0].blocks[0].attn.position_bias.state_dict()[TABLE] for model in models)
    assert not torch.allclose(first, second)


def test_windows_that_are_not_square_are_known_by_their_index(tmp_path):
    source = encoder(seed=1, window_size=(3, 5))
    state = theirs(classifier_state(source), "microsoft")
    path = saved(tmp_path / "swin.pth", {"model": state})
    with pytest.raises(ValueError, match="of no square window"):
        load_weights(encoder(window_size=(5, 3)), path)
    places = [(row, column) for row in range(3) for column in range(5)]
    index = torch.tensor([[(a - c + 2) * 9 + b - d + 4 for c, d in places] for a, b in places])
    state |= {f"layers.{i}.blocks.0.attn.relative_position_index": index for i in range(4)}
    model = encoder(window_size=(5, 3))
    report = load_weights(model, saved(path, {"model": state}))
    assert {adaptation.what for adaptation in report.adapted} == {"window 3x5 -> 5x3 (bicubic)"}
    model = encoder(window_size=(3, 5))
    assert load_weights(model, path).adapted == ()


def test_an_embedding_goes_to_another_grid(tmp_path):
    source = encoder(seed=1, absolute_pos_embed=(8, 8))
    path = saved(tmp_path / "swin.pth", {"model": theirs(classifier_state(source), "microsoft")})
    model = encoder(absolute_pos_embed=(5, 12))
    report = load_weights(model, path)
    assert [adaptation.what for adaptation in report.adapted] == ["position embedding 8x8 -> 5x12 tokens (bicubic)"]
    assert "encoder.absolute_pos_embed" in load_weights(encoder(), path).left_over


@pytest.mark.parametrize("channels", [1, 4, 6])
def test_other_channels_are_adapted_and_told(classifier, channels):
    path, source = classifier
    model = encoder(in_channels=channels)
    report = load_weights(model, path)
    (adaptation,) = report.adapted
    assert adaptation.what.startswith(f"input channels 3 -> {channels}")
    model.load_state_dict({name: v for name, v in source.state_dict().items() if name.startswith("norm")}, strict=False)
    image = torch.randn(1, 3, 40, 40)
    image = image[:, :1].expand(1, 3, 40, 40) if channels == 1 else image
    given = image[:, torch.arange(channels) % 3]
    with torch.no_grad():
        for ours, theirs_ in zip(model(given), source(image), strict=True):
            assert torch.allclose(ours, theirs_, atol=1e-3)


def test_classes_are_carried_over_by_name(official):
    path, source = official
    ours = ClassList.from_names(["car", "pole", "sky"])
    model = segmenter(3)
    before = state_of(model)
    report = load_weights(model, path, classes=ours)
    assert report.coverage == 1
    assert report.new_classes == ("pole",)
    assert {adaptation.what for adaptation in report.adapted} == {"classes 5 -> 3 (2 by name)"}
    for head in ("decoder", "auxiliary"):
        for end in ("weight", "bias"):
            name = f"{head}.conv_seg.{end}"
            rows, given = model.state_dict()[name], source.state_dict()[name]
            assert torch.equal(rows[0], given[2])
            assert torch.equal(rows[1], before[name][1])
            assert torch.equal(rows[2], given[0])


def test_as_many_classes_of_other_names_do_not_take_one_anothers_rows(official):
    ours = ClassList.from_names(["wall", "door", "lamp", "bed", "sign"])
    model = segmenter(5)
    report = load_weights(model, official[0], classes=ours)
    assert report.new_classes == ("wall", "door", "lamp", "bed")
    assert torch.equal(model.decoder.conv_seg.bias[4], official[1].decoder.conv_seg.bias[4])


def test_no_class_in_common_leaves_the_classifiers_new(official):
    model = segmenter(3)
    before = state_of(model)
    report = load_weights(model, official[0], classes=ClassList.from_names(["a", "b", "c"]))
    assert report.coverage == 1
    assert report.new_classes == ("a", "b", "c")
    skipped = {f"{head}.conv_seg.{end}" for head in ("decoder", "auxiliary") for end in ("weight", "bias")}
    assert set(report.new) == skipped
    assert skipped <= set(report.left_over)
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in skipped)
    assert torch.equal(model.decoder.fpn_bottleneck.conv.weight, official[1].decoder.fpn_bottleneck.conv.weight)


def test_without_names_as_many_classes_go_in_their_order_and_others_are_new(official):
    assert load_weights(segmenter(5), official[0]).notes == ()
    report = load_weights(segmenter(3), official[0])
    assert report.new_classes == ("0", "1", "2")
    assert "the model's classes are not known" in report.notes[0]


def test_what_the_outputs_stand_for_can_be_told(tmp_path):
    source = segmenter(seed=1)
    path = saved(tmp_path / "upernet.pth", theirs(source.state_dict(), "official"))
    ours = ClassList.from_names(["b", "x"])
    report = load_weights(segmenter(2), path, classes=ours)
    assert "the file names no classes, so none of its 5" in report.notes[0]
    assert "in their order" in load_weights(segmenter(5), path, classes=ClassList.from_names(list("abcde"))).notes[0]
    model = segmenter(2)
    load_weights(model, path, classes=ours, source_classes=ClassList.from_names(list("abcde")))
    assert torch.equal(model.decoder.conv_seg.weight[0], source.decoder.conv_seg.weight[1])
    with pytest.raises(ValueError, match=r"source_classes must name the 5 outputs of .*upernet.pth, got 2"):
        load_weights(model, path, classes=ours, source_classes=ours)


def test_classes_that_could_be_several_are_told(tmp_path):
    source = segmenter(2, seed=1)
    theirs_ = ClassList(("door", "blind"), ((1, 2, 3), (4, 5, 6)), synonyms=(("screen",), ("screen",)))
    path = saved(tmp_path / "upernet.pth", theirs(source.state_dict(), "official"))
    report = load_weights(segmenter(1), path, classes=ClassList.from_names(["screen"]), source_classes=theirs_)
    assert "class screen could be door or blind: not guessed, so it is new" in report.notes


@pytest.mark.parametrize("layout", ["microsoft", "timm"])
def test_a_name_that_is_lacking_is_an_error_and_changes_nothing(tmp_path, layout):
    state = theirs(classifier_state(encoder(seed=1)), layout)
    state.pop("layers.2.blocks.1.mlp.fc1.weight")
    path = saved(tmp_path / "swin.pth", {"model": state})
    model = segmenter()
    before = state_of(model)
    with pytest.raises(
        ValueError, match=r"must fill \d+ weights .* missing are encoder.layers.2.blocks.1.mlp.fc1.weight"
    ):
        load_weights(model, path)
    with pytest.raises(ValueError, match="missing are"):
        load_weights(model, path, strict=["encoder.layers.1"])
    assert unchanged(model, before)
    for allowed in (False, ["encoder.layers.2.blocks.1"]):
        assert load_weights(segmenter(), path, strict=allowed).missing == ("encoder.layers.2.blocks.1.mlp.fc1.weight",)


@pytest.mark.parametrize("strict", [True, False, ["encoder"]])
def test_nothing_that_fits_is_an_error_whatever_is_allowed(classifier, strict):
    model = segmenter()
    model.encoder = SmpEncoder("resnet18")
    with pytest.raises(ValueError, match=r"must hold weights of this model, got none that fits.*--model.weights null"):
        load_weights(model, classifier[0], strict=strict)


def test_less_than_half_is_told_even_where_it_is_allowed(classifier):
    model = encoder(embed_dim=16)
    with pytest.warns(UserWarning, match="filled .*% of the weights that its layout promises"):
        report = load_weights(model, classifier[0], strict=False)
    assert report.coverage < 0.5
    assert any("in the file" in note for note in report.notes)


def test_another_size_is_an_error_that_names_shapes(classifier):
    with pytest.raises(
        ValueError, match=r"encoder.patch_embed.proj.weight: 8x3x4x4 in the file, 16x3x4x4 in the model"
    ):
        load_weights(encoder(embed_dim=16), classifier[0])
    with pytest.raises(ValueError, match=r"encoder.layers.2.blocks.2"):
        load_weights(encoder(depths=(2, 2, 4, 2)), classifier[0])


def test_a_prefix_nobody_knows_is_found_and_foreign_names_are_told(tmp_path):
    state = {f"model.encoder.{name}": v for name, v in theirs(classifier_state(encoder(seed=1)), "microsoft").items()}
    model = segmenter()
    assert load_weights(model, saved(tmp_path / "a.pth", state)).coverage == 1
    foreign = {f"trunk.{name}".replace("blocks", "units"): value for name, value in state.items()}
    with pytest.raises(ValueError, match=r"a\.pth must fill .* missing are encoder\..*left over layers\.0\.units"):
        load_weights(model, saved(tmp_path / "a.pth", foreign))


def test_the_other_version_of_swin_is_refused(classifier, tmp_path):
    with pytest.raises(ValueError, match="holds Swin V1, and the model's encoder is SwinTransformerV2"):
        load_weights(segmenter(version=2), classifier[0])
    path = saved(tmp_path / "v2.pth", {"model": theirs(classifier_state(encoder(2, seed=1)), "microsoft")})
    with pytest.raises(ValueError, match=r"holds Swin V2.*set model.model.encoder to src.models.SwinTransformerV2"):
        load_weights(segmenter(), path)


def test_parts_can_be_chosen(official):
    path, source = official
    model = segmenter(2)
    report = load_weights(model, path, parts=["encoder"])
    assert {name.partition(".")[0] for name in report.loaded} == {"encoder"}
    assert report.coverage == 1
    assert torch.equal(model.encoder.norm0.weight, source.encoder.norm0.weight)
    with pytest.raises(ValueError, match="parts must be among encoder, decoder, auxiliary, got 'head'"):
        load_weights(model, path, parts=["head"])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(official, tmp_path, value):
    state = theirs(official[1].state_dict(), "official")
    state["backbone.norm2.weight"][3] = value
    with pytest.raises(ValueError, match=r"must hold weights that are finite, got others in encoder.norm2.weight"):
        load_weights(segmenter(), saved(tmp_path / "nan.pth", state))


def test_half_precision_is_read_into_single(classifier, tmp_path):
    source = classifier[1]
    state = {name: value.half() for name, value in theirs(classifier_state(source), "microsoft").items()}
    model = encoder()
    load_weights(model, saved(tmp_path / "half.pth", state))
    assert model.patch_embed.proj.weight.dtype == torch.float32
    assert torch.equal(model.patch_embed.proj.weight, source.patch_embed.proj.weight.half().float())


def test_a_compiled_model_takes_weights_and_gives_them(official, tmp_path):
    path, source = official
    model = segmenter()
    model.encoder = torch.compile(model.encoder)
    assert load_weights(model, path).coverage == 1
    assert torch.equal(model.encoder.norm0.weight, source.encoder.norm0.weight)
    compiled = saved(tmp_path / "compiled.pth", {"state_dict": torch.compile(model).state_dict()})
    assert any("_orig_mod" in name for name in torch.compile(model).state_dict())
    plain = segmenter()
    assert load_weights(plain, compiled).coverage == 1
    assert same_output(plain, source)


def test_weights_stay_trainable_and_on_their_tensors(classifier):
    model = SwinTransformer(**SMALL, window_size=4)
    weight = model.layers[0].blocks[0].mlp.fc1.weight
    load_weights(model, classifier[0])
    assert model.layers[0].blocks[0].mlp.fc1.weight is weight
    assert weight.requires_grad
    assert weight.grad_fn is None


def test_the_second_version_keeps_the_reach_of_its_coordinates(tmp_path):
    source = encoder(2, seed=1, window_size=(4, 4, 4, 2))
    state = theirs(classifier_state(source), "microsoft")
    path = saved(tmp_path / "swinv2_tiny_patch4_window4_64.pth", {"model": state})
    model = encoder(2, window_size=6)
    report = load_weights(model, path)
    assert [adaptation.what for adaptation in report.adapted] == [
        *["window 4x4 -> 6x6 (through its coordinates)"] * 3, "window 2x2 -> 6x6 (through its coordinates)"
    ]  # fmt: skip
    for stage, reach in enumerate((4, 4, 4, 2)):
        bias = model.layers[stage].blocks[0].attn.position_bias
        before = source.layers[stage].blocks[0].attn.position_bias
        coords = torch.cartesian_prod(torch.arange(reach), torch.arange(reach))
        assert torch.allclose(bias(coords, coords), before(coords, coords), atol=1e-6)
    built = SMALL | {"window_size": 6}
    again = type(model)(**model.settings["init_args"] | built)
    again.load_state_dict(model.state_dict())
    assert same_output(model, again)


def test_the_second_version_says_where_nothing_tells_its_windows(tmp_path):
    state = theirs(classifier_state(encoder(2, seed=1)), "microsoft")
    report = load_weights(encoder(2), saved(tmp_path / "x.pth", {"model": state}))
    assert "the file does not tell its windows" in report.notes[0]
