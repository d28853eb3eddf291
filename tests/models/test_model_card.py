import yaml

from src.classes import ClassList
from src.models.model_card import model_card
from src.preprocessing import Preprocessing


def front_matter(card: str) -> dict:
    _, head, _ = card.split("---\n", 2)
    return yaml.safe_load(head)


def test_nothing_is_claimed_that_was_not_given(tiny_segmenter):
    card = model_card(tiny_segmenter(num_classes=3), "street")
    assert front_matter(card) == {
        "library_name": "swin-upernet-lightning",
        "pipeline_tag": "image-segmentation",
        "tags": ["semantic-segmentation", "SwinTransformer", "UPerNetDecoder"],
    }
    assert not any(word in card for word in ("license", "IoU", "Scores", "Classes", "mean"))
    assert "# street\n" in card
    assert "3 classes" in card


def test_two_lines_load_the_model(tiny_segmenter):
    code = model_card(tiny_segmenter(), "hf:me/model").split("```")[1].removeprefix("python\n")
    assert code.splitlines() == [
        "from src.models import Segmenter",
        "model = Segmenter.from_pretrained('hf:me/model')",
    ]
    compile(code, "card", "exec")


def test_classes_stand_with_their_scores_and_other_scores_apart(tiny_segmenter):
    classes = ClassList.from_names(["sky", "tree | bush", "<b>road</b>"])
    scores = {"val/miou": 0.51234, "val/iou/tree | bush": 0.25, "val/iou/sky": None, "note": None}
    card = model_card(tiny_segmenter(num_classes=3), "street", classes, scores=scores, licence="cc-by-4.0")
    assert front_matter(card)["license"] == "cc-by-4.0"
    assert "| 0 | sky |  |" in card
    assert "| 1 | tree \\| bush | 0.25 |" in card
    assert "| 2 | \\<b\\>road\\</b\\> |  |" in card
    assert "| val/miou | 0.5123 |" in card
    assert card.count("iou/") == 0


def test_a_licence_cannot_write_other_keys(tiny_segmenter):
    head = front_matter(model_card(tiny_segmenter(), "street", licence="mit\nlibrary_name: other"))
    assert head["library_name"] == "swin-upernet-lightning"
    assert head["license"] == "mit\nlibrary_name: other"


def test_the_inputs_are_told(tiny_segmenter):
    card = model_card(tiny_segmenter(), "street", preprocessing=Preprocessing((2048, 512), (1, 2, 3), (4, 5, 6.5)))
    assert (
        "resized to fit (2048, 512) pixels; their values, 0..255, are less a mean of (1, 2, 3) and divided by" in card
    )
    assert "(4, 5, 6.5)" in card
    assert "keep their size" in model_card(tiny_segmenter(), "street", preprocessing=Preprocessing())
