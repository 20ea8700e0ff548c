"""The engine and the proxy in front of it, once for all tests here."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from .measuring import Bench
from .model import write_model
from .processes import engine, stet


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """llama.cpp with a model of random weights, and `stet serve --policy local` before it."""
    if find_spec("xllamacpp") is None:
        pytest.skip("no inference engine here: pip install -e '.[engine]' brings llama.cpp, 34 MB")
    folder = tmp_path_factory.mktemp("engine")
    write_model(folder / "model.gguf")
    with engine(folder / "model.gguf", folder / "log") as url, stet(url, folder / "stet") as proxy:
        yield Bench(url, proxy, folder / "stet" / "log")
