"""What is kept with an object is what was made of that object."""

from proxy.memo import REMEMBERED_BYTES, Memo, remembered


def test_each_object_is_asked_for_once_while_it_is_kept() -> None:
    """Equal objects are others; what is forgotten is made again."""
    made: list[list[int]] = []

    def total(value: list[int]) -> int:
        made.append(value)
        return sum(value)

    memo = Memo(total, limit=2)
    one, same, other = [1], [1], [2, 3]
    assert (memo(one), memo(one), memo(same)) == (1, 1, 1)
    assert [value is one for value in made] == [True, False]
    assert (memo(other), memo(one), memo(other)) == (5, 1, 5)
    assert len(made) == 4


def test_equal_bytes_are_asked_for_once_unless_they_are_long() -> None:
    """What is longer than is worth keeping is made each time."""
    made: list[tuple[bytes, ...]] = []

    def joined(*raws: bytes) -> bytes:
        made.append(raws)
        return b"".join(raws)

    known = remembered(joined)
    half = bytes(REMEMBERED_BYTES // 2)
    for raws in ((b"a", b"b"), (half, half), (half, half, b"x")):
        assert known(*raws) == known(*raws) == b"".join(raws)
    assert [len(raws) for raws in made] == [2, 2, 3, 3]
