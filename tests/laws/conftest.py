"""What holds for the long bodies of agents is looked for in the short ones of the laws."""

from collections.abc import Iterator

import pytest

from proxy import passage


@pytest.fixture(autouse=True, scope="session")
def no_body_is_short() -> Iterator[None]:
    """Every body is opened along what is known of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passage, "SHORT_BYTES", 0)
        yield
