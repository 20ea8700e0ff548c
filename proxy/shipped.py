"""Where the files that come with the product lie: inside the package once installed, beside it in a checkout."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


def config_dir() -> Traversable:
    """The folder of shipped configuration (`models.yaml`, `policies/`, `agents/`, ...)."""
    inside = files(__package__) / "config"
    if inside.is_dir():
        return inside
    return Path(__file__).resolve().parent.parent / "config"


def read_shipped(name: str) -> tuple[str, str]:
    """A shipped file by its relative name (`policies/default.yaml`), as (place for messages, text).

    Raises FileNotFoundError where there is none of that name.
    """
    file = config_dir().joinpath(*name.split("/"))
    return str(file), file.read_text(encoding="utf-8")
