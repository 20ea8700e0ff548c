"""What is shown of a long output, and what is counted of the rest."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.stages.excerpt import Excerpt, excerpt


def numbered(count: int) -> str:
    return "".join(f"line {at}\n" for at in range(1, count + 1))


def test_head_tail_and_what_looks_like_an_error_between() -> None:
    """Whole lines within the sizes; errors with the numbers that a tool counting lines would give them."""
    text = (
        numbered(40) + "E   assert 1 == 2\n" + numbered(3) + "src/x.rs: error: value moved\n" + numbered(40)
    )
    assert excerpt(text, 14, 9, 100) == Excerpt(
        lines=85,
        size=len(text),
        head="line 1\nline 2",
        tail="line 40",
        first=3,
        last=84,
        errors=((41, "E   assert 1 == 2"), (45, "src/x.rs: error: value moved")),
        alike=2,
        cut=False,
    )


def test_too_many_errors_leave_the_first_and_the_last() -> None:
    """The cause stands first, the sum last; equal lines count once; a long one is shown in part."""
    text = (
        "start\n" + "".join(f"error {at}\n" * 3 for at in range(1, 10)) + f"fatal: {'x' * 900}\nmore\nend\n"
    )
    kept = excerpt(text, 6, 4, 52)
    assert kept is not None
    assert kept.errors == ((2, "error 1"), (5, "error 2"))
    assert kept.alike == 10
    kept = excerpt(text.replace("x" * 900, "x"), 6, 4, 52)
    assert kept is not None
    assert kept.errors == ((2, "error 1"), (5, "error 2"), (26, "error 9"), (29, "fatal: x"))
    shown = excerpt(text, 6, 4, 2000)
    assert shown is not None
    assert len(shown.errors[-1][1]) == 300


def test_one_line_is_cut_between_characters() -> None:
    """Where not one line fits, its beginning and its end are shown, and no half character."""
    kept = excerpt("é" * 1000, 5, 5, 0)
    assert kept is not None
    assert (kept.head, kept.tail, kept.first, kept.last, kept.cut) == ("éé", "éé", 1, 1, True)
    kept = excerpt("short\n" + "y" * 100, 6, 3, 0)
    assert kept is not None
    assert (kept.head, kept.tail, kept.first, kept.last, kept.cut) == ("short", "yyy", 2, 2, True)


def test_nothing_is_left_out_of_what_fits() -> None:
    """Then there is no excerpt; nor of an empty text."""
    assert excerpt("one\ntwo\n", 5, 5, 0) is None
    assert excerpt("one\ntwo\n", 9, 0, 0) is None
    assert excerpt("", 0, 0, 0) is None


def test_nothing_need_stay() -> None:
    """Sizes of zero leave the note alone."""
    kept = excerpt("one\ntwo", 0, 0, 0)
    assert kept == Excerpt(lines=2, size=7, head="", tail="", first=1, last=2, errors=(), alike=0, cut=False)


@given(
    st.text(st.sampled_from("ab é🙂\n\r:error ")),
    st.integers(0, 12),
    st.integers(0, 12),
    st.integers(0, 40),
)
def test_it_holds_to_its_sizes_and_says_where_the_rest_is(
    text: str, head: int, tail: int, errors: int
) -> None:
    """Head and tail are what stands there, within their sizes, and the numbers name the lines between."""
    kept = excerpt(text, head, tail, errors)
    if kept is None:
        return
    assert len(kept.head.encode()) <= head
    assert len(kept.tail.encode()) <= tail
    assert text.startswith(kept.head)
    assert text.removesuffix("\n").endswith(kept.tail)
    assert sum(len(f"{at}: {line}\n".encode()) for at, line in kept.errors) <= errors
    lines = text.split("\n")
    assert all(lines[at - 1].rstrip("\r").startswith(line) for at, line in kept.errors)
    if not kept.cut:
        assert "\n".join(lines[: kept.first - 1]) == kept.head
        assert "\n".join(lines[kept.last : kept.lines]) == kept.tail
