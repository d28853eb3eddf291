from jsonargparse import Namespace

from src.cli.left_out import left_out

DATA = Namespace(class_path="p.New", init_args=Namespace(kept=1, nested=Namespace(x=1), plain={"y": 1}, gone=None))


def said(*keys: str, **rooms) -> list[str]:
    return list(left_out(Namespace(data=DATA, trainer=Namespace(max_steps=3), **rooms), keys))


def test_what_a_class_does_not_take_is_named_once_with_the_class():
    assert said("data", "data.kept", "data.nested.x", "data.plain.y", "data.gone.z", "trainer.max_steps") == []
    assert said("data.root") == ["data.root is not an option of p.New and was left out"]
    assert said("data.root", "data.root", "data.size", "data.size.x") == [
        "data.root, data.size are not options of p.New and were left out"
    ]


def test_what_follows_from_the_data_was_not_left_out():
    model = Namespace(
        class_path="p.Task", init_args=Namespace(model=Namespace(class_path="p.M", init_args=Namespace()))
    )
    assert said("model.classes", "model.preprocessing", "model.model.num_classes", model=model) == []


def test_a_class_that_takes_anything_leaves_nothing_out():
    part = Namespace(class_path="p.Any", init_args=Namespace(), dict_kwargs=Namespace(x=1))
    assert said("part.x", part=part) == []
