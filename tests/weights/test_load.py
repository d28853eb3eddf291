"""Loading weights into a model that has, or has not, the sizes and classes that they were trained with."""

import functools

import pytest
import torch

from src.classes import ClassList
from src.models import FCNHead, Segmenter, SmpEncoder, UPerNetDecoder
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
    model = encoder(window_size=(3, 5))
    assert load_weights(model, path).adapted == ()  # as many rows: the model's own window
    with pytest.raises(ValueError, match="a table of 45 rows is of no square window, and nothing tells which"):
        load_weights(encoder(window_size=(6, 6)), path)
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
    with pytest.raises(ValueError, match=r"the model has no place for encoder\.absolute_pos_embed"):
        load_weights(encoder(), path)
    report = load_weights(encoder(), path, strict=["encoder.absolute_pos_embed"])
    assert "encoder.absolute_pos_embed" in report.left_over


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
    with pytest.raises(ValueError, match=r"a\.pth must fill .* missing are encoder\..*left over are layers\.0\.units"):
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
    with pytest.raises(ValueError, match="parts must be a list of encoder, decoder, auxiliary, got 'head'"):
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


@pytest.mark.parametrize("window", [(2, 14), (2, 5), (14, 2)])
def test_a_model_of_the_same_odd_window_takes_its_tables_as_they_are(tmp_path, window):
    source = encoder(seed=1, window_size=window)
    path = saved(tmp_path / "a.pth", source.state_dict())
    model = encoder(window_size=window)
    assert load_weights(model, path).adapted == ()
    assert unchanged(model, source.state_dict())


def test_a_flat_embedding_takes_the_grid_of_a_model_with_as_many_tokens(tmp_path):
    source = encoder(seed=1, absolute_pos_embed=(4, 16))
    path = saved(tmp_path / "a.pth", {"model": theirs(classifier_state(source), "microsoft")})
    model = encoder(absolute_pos_embed=(4, 16))
    assert load_weights(model, path).adapted == ()
    assert torch.equal(model.absolute_pos_embed, source.absolute_pos_embed)
    official = saved(tmp_path / "b.pth", theirs(segmenter(absolute_pos_embed=(8, 8)).state_dict(), "official"))
    report = load_weights(model, official)
    assert [one.what for one in report.adapted] == ["position embedding 8x8 -> 4x16 tokens (bicubic)"]


@pytest.mark.parametrize("stage", [0, 2])
def test_a_missing_table_is_as_any_missing_weight(tmp_path, stage):
    name = f"layers.{stage}.blocks.0.attn.relative_position_bias_table"
    state = theirs(classifier_state(encoder(seed=1)), "timm")
    state.pop(name)
    path = saved(tmp_path / "a.pth", state)
    with pytest.raises(ValueError, match=f"missing are encoder.layers.{stage}.blocks.0.attn.position_bias"):
        load_weights(encoder(), path)
    for allowed in (False, [f"encoder.layers.{stage}.blocks.0.attn.position_bias"]):
        assert len(load_weights(encoder(), path, strict=allowed).missing) == 1


def test_strictness_is_no_text_and_names_something(classifier):
    with pytest.raises(
        ValueError, match=r"strict must be true, false or a list of names, got 'encoder'; give \[encoder\]"
    ):
        load_weights(encoder(), classifier[0], strict="encoder")
    with pytest.raises(ValueError, match=r"parts must be a list of .*, got 'encoder'"):
        load_weights(encoder(), classifier[0], parts="encoder")
    with pytest.raises(ValueError, match=r"strict must hold names of weights, or how they begin, got 'encodr\.layers'"):
        load_weights(encoder(), classifier[0], strict=["encodr.layers"])


@pytest.mark.parametrize(
    ("theirs_", "ours", "said"),
    [
        ({"depths": (2, 2, 3, 2)}, {}, r"set model\.model\.encoder\.depths \[2, 2, 3, 2\] \(it is \[2, 2, 2, 2\]\)"),
        ({}, {"qkv_bias": False}, r"no place for encoder\.layers\.0\.blocks\.0\.attn\.qkv\.bias"),
        (
            {"embed_dim": 16, "num_heads": (1, 2, 4, 4)},
            {},
            r"encoder\.embed_dim 16 \(it is 8\), .*num_heads \[1, 2, 4, 4\]",
        ),
        ({"patch_size": 2}, {}, r"encoder\.patch_size 2 \(it is 4\)"),
        ({"mlp_ratio": 2.0}, {}, r"encoder\.mlp_ratio 2\.0 \(it is 4\.0\)"),
    ],
)
def test_the_weights_of_another_swin_are_refused_with_what_to_set(tmp_path, theirs_, ours, said):
    path = saved(tmp_path / "a.pth", theirs(classifier_state(encoder(**theirs_)), "timm"))
    with pytest.raises(ValueError, match=said):
        load_weights(encoder(**ours), path)


def test_heads_of_another_width_or_norm_are_refused(official, tmp_path):
    path = official[0]
    model = Segmenter(encoder(), UPerNetDecoder, FCNHead, num_classes=5)
    with pytest.raises(
        ValueError, match=r"set model\.model\.decoder\.channels 8 \(it is 512\), .*auxiliary\.channels 8"
    ):
        load_weights(model, path)
    heads = {"decoder": UPerNetDecoder, "auxiliary": FCNHead}
    heads = {name: functools.partial(head, channels=8, norm="group") for name, head in heads.items()}
    with pytest.raises(ValueError, match=r"no place for decoder\..*running_mean"):
        load_weights(Segmenter(encoder(), **heads, num_classes=5), path)


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"]])
def test_the_models_classes_are_as_many_as_its_outputs(official, names):
    with pytest.raises(ValueError, match="classes must name the model's 2 outputs, got"):
        load_weights(segmenter(2), official[0], classes=ClassList.from_names(names))


def test_classes_are_not_spoken_of_where_no_classifier_is_filled(official):
    report = load_weights(segmenter(3), official[0], parts=["encoder"], classes=ClassList.from_names(["sky", "x", "y"]))
    assert report.new_classes == ()
    assert {note for note in report.notes if "asked for" in note} == {
        "the decoder was not asked for and stays as it is", "the auxiliary was not asked for and stays as it is"
    }  # fmt: skip


def test_given_source_classes_win_over_the_files(official):
    ours, given = ClassList.from_names(["x"]), ClassList.from_names(["a", "b", "c", "x", "d"])
    model = segmenter(1)
    load_weights(model, official[0], classes=ours, source_classes=given)
    assert torch.equal(model.decoder.conv_seg.weight[0], official[1].decoder.conv_seg.weight[3])


def test_classes_without_a_partner_are_told_on_both_sides(official):
    report = load_weights(segmenter(2), official[0], classes=ClassList.from_names(["sky", "cars"]))
    assert report.new_classes == ("cars",)
    assert "classes of the weights without a partner: road, car, tree, sign" in report.notes


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("wrap", [torch.compile, torch.nn.DataParallel])
def test_wrapped_models_of_both_versions_take_weights(tmp_path, version, wrap):
    source = segmenter(version=version, seed=1)
    path = saved(tmp_path / "a.pth", source.state_dict())
    model = segmenter(version=version)
    assert load_weights(wrap(model), path).coverage == 1
    assert unchanged(model, source.state_dict())
    parted = segmenter(version=version)
    parted.encoder = torch.compile(parted.encoder)
    assert load_weights(parted, path).coverage == 1


def test_a_model_without_values_is_refused(classifier):
    with pytest.raises(ValueError, match="got one on the device meta"):
        load_weights(encoder().to("meta"), classifier[0])


def test_what_becomes_infinite_in_the_models_type_is_refused(classifier, tmp_path):
    state = theirs(classifier_state(classifier[1]), "microsoft")
    state["patch_embed.proj.bias"] = torch.full((8,), 1e300, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"patch_embed.proj.bias: values beyond the range of torch.float32"):
        load_weights(encoder(), saved(tmp_path / "a.pth", state))


def test_whole_numbers_are_no_weights(classifier, tmp_path):
    state = theirs(classifier_state(classifier[1]), "microsoft")
    state["patch_embed.proj.bias"] = torch.ones(8, dtype=torch.int32)
    with pytest.raises(
        ValueError, match=r"patch_embed\.proj\.bias: torch\.int32 in the file, torch\.float32 in the model"
    ):
        load_weights(encoder(), saved(tmp_path / "a.pth", state))


def test_a_state_dict_is_taken_as_it_is(classifier):
    model = encoder()
    report = load_weights(model, {"model": theirs(classifier_state(classifier[1]), "timm")})
    assert (report.source, report.coverage) == ("the state dict", 1)
    with pytest.raises(ValueError, match="the state dict cannot be read as weights: it must hold named tensors"):
        load_weights(model, {"a": 1})


def test_counters_of_batches_may_be_missing(official, tmp_path):
    state = {name: v for name, v in theirs(official[1].state_dict(), "official").items() if "num_batches" not in name}
    report = load_weights(segmenter(), saved(tmp_path / "a.pth", state))
    assert (report.coverage, report.new) == (1, ())


def test_output_norms_are_promised_by_a_segmentor_alone(official, tmp_path):
    state = theirs(official[1].state_dict(), "official")
    state.pop("backbone.norm1.weight")
    with pytest.raises(ValueError, match=r"missing are encoder\.norm1\.weight"):
        load_weights(segmenter(), saved(tmp_path / "a.pth", state))
    last = {f"encoder.norm3.{end}": torch.ones(64) for end in ("weight", "bias")}
    only_last = {n: v for n, v in classifier_state(encoder(seed=1)).items() if n.startswith("encoder.")} | last
    report = load_weights(segmenter(), saved(tmp_path / "b.pth", theirs(only_last, "mmseg")))
    assert report.coverage == 1
    assert "encoder.norm3.bias" in report.loaded


def test_the_average_of_the_weights_is_told(classifier, tmp_path):
    state = theirs(classifier_state(classifier[1]), "timm")
    zeros = {name: torch.zeros_like(value) for name, value in state.items()}
    report = load_weights(encoder(), saved(tmp_path / "a.pth", {"state_dict": zeros, "state_dict_ema": state}))
    assert any("average" in note for note in report.notes)


def test_what_another_library_computes_otherwise_is_told(tmp_path):
    notes = {}
    for layout in ("timm", "torchvision", "microsoft"):
        path = saved(tmp_path / f"{layout}.pth", theirs(classifier_state(encoder(seed=1)), layout))
        notes[layout] = " ".join(load_weights(encoder(), path).notes)
    assert "pads after the shift" in notes["timm"]
    assert "shift_covered false" in notes["torchvision"]
    assert notes["microsoft"] == ""
    assert load_weights(encoder(shift_covered=False), tmp_path / "torchvision.pth").notes == ()


def test_a_model_of_ours_that_was_built_otherwise_is_told(tmp_path):
    source = segmenter(padded_keys="mask")
    source.save_pretrained(tmp_path / "a")
    report = load_weights(segmenter(), tmp_path / "a")
    assert "the weights are of a model with encoder.padded_keys mask, this one has attend" in report.notes


def test_the_windows_of_a_second_version_that_was_trained_on(tmp_path):
    source = encoder(2, seed=1, window_size=4, pretrained_window_size=(3, 3, 3, 2))
    segmenter_ = segmenter(version=2, window_size=4, pretrained_window_size=(3, 3, 3, 2), seed=1)
    segmenter_.save_pretrained(tmp_path / "a")
    model = segmenter(version=2, window_size=4)
    report = load_weights(model, tmp_path / "a")
    assert [one.what for one in report.adapted] == [
        *["pretrained window of the coordinates 4x4 -> 3x3"] * 3, "pretrained window of the coordinates 4x4 -> 2x2"
    ]  # fmt: skip
    assert same_output(model, segmenter_)
    assert source.settings["init_args"]["pretrained_window_size"] == (3, 3, 3, 2)
    untouched = segmenter(version=2, window_size=4, depths=(2, 2, 3, 2))
    with pytest.raises(ValueError, match="missing are"):
        load_weights(untouched, tmp_path / "a")
    assert untouched.encoder.settings["init_args"]["pretrained_window_size"] is None
    assert untouched.encoder.layers[0].blocks[0].attn.position_bias.pretrained_window != (3, 3)
