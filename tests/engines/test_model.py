"""The model file: what the engine's tests stand on."""

from pathlib import Path

from .model import MEDIUM, Shape, write_model


def test_the_same_shape_and_seed_give_the_same_file(tmp_path: Path) -> None:
    """Nothing but shape and seed goes into a model, so that counts can be compared between runs."""
    for name, shape, seed in (
        ("a", Shape(1, 64, 192, 1), 1),
        ("b", Shape(1, 64, 192, 1), 1),
        ("c", MEDIUM, 1),
    ):
        write_model(tmp_path / name, shape, seed)
    first, again, larger = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == again
    assert first[:4] == larger[:4] == b"GGUF"
    assert len(first) < 200_000 < len(larger)
