"""Blocks that two texts have in common, by whole lines."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.stages.blocks import Block, blocks

OLD = [f"line {at:03d}" for at in range(100)]
LINES = st.lists(st.sampled_from(["a", "b", "", *OLD[:6]]), max_size=30)


def test_what_was_edited_in_the_middle_has_two_blocks() -> None:
    """One before the edit and one behind it, each as long as it goes."""
    new = [*OLD[:40], "other", "lines", *OLD[41:]]
    assert [*blocks(new, OLD, 300)] == [Block(0, 40, 0, 360), Block(42, 101, 41, 531)]


def test_a_block_begins_before_the_first_line_that_stands_once() -> None:
    """Blank lines and the like belong to it."""
    old = ["", "", *OLD, ""]
    assert [*blocks(["x", "", *OLD[:50]], old, 300)] == [Block(1, 52, 1, 451)]


def test_a_short_block_is_none() -> None:
    """The bound is in bytes, line ends included."""
    assert [*blocks(["x", *OLD[:10]], OLD, 91)] == []
    assert [*blocks(["x", *OLD[:10]], OLD, 90)] == [Block(1, 11, 0, 90)]


@given(LINES, LINES, st.integers(1, 40))
def test_a_block_is_what_it_says(new: list[str], old: list[str], least: int) -> None:
    """Equal lines in both, as many bytes as it names, in order and not overlapping."""
    at = 0
    for block in blocks(new, old, least):
        assert at <= block.start < block.stop
        piece = new[block.start : block.stop]
        assert piece == old[block.there : block.there + len(piece)]
        assert block.size == len("".join(f"{line}\n" for line in piece).encode()) >= least
        at = block.stop


def test_lines_that_repeat_without_end_cost_no_more_than_others() -> None:
    """No line is looked at again behind a block that came to nothing: half a million lines are done at once."""
    new = ["same", "other"] * 250_000
    assert [*blocks(new, ["same", "other"], 20)] == []
