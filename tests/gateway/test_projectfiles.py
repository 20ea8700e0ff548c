"""Files of a project that the model is told: only regular ones below one folder, read again when they changed."""

import os
from pathlib import Path

import pytest

from proxy.gateway.projectfiles import LARGEST, ProjectFiles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project" / "docs").mkdir(parents=True)
    (tmp_path / "secret").write_text("password")
    return tmp_path / "project"


class Reader:
    def __init__(self, root: Path) -> None:
        self.warned: list[str] = []
        self.files = ProjectFiles(root, lambda fault: self.warned.append(str(fault)))

    def texts(self, *names: str) -> dict[str, str]:
        return dict(self.files.texts(names))


def test_a_file_is_read_again_when_it_changed(root: Path) -> None:
    """The time and size of it tell; the same bytes need no reading."""
    reader = Reader(root)
    (root / "docs" / "style.md").write_text("Use tabs.")
    assert reader.texts("docs/style.md") == {"docs/style.md": "Use tabs."}
    (root / "docs" / "style.md").write_text("Use four spaces.")
    assert reader.texts("docs/style.md") == {"docs/style.md": "Use four spaces."}
    (root / "docs" / "style.md").unlink()
    assert reader.texts("docs/style.md") == {}


def test_what_is_not_there_is_warned_of_once(root: Path) -> None:
    """Not in each turn."""
    reader = Reader(root)
    assert [reader.texts("AGENTS.md") for _ in range(3)] == [{}, {}, {}]
    assert reader.warned == [f"project file 'AGENTS.md' in {root}: is not there, so nothing of it is told"]


@pytest.mark.parametrize("kind", ["link to a file", "link on the way", "pipe", "folder", "too large"])
def test_what_is_no_regular_file_below_the_folder_is_not_read(root: Path, kind: str) -> None:
    """A repository cannot make the proxy send away what lies outside it, wait for a pipe, or tell a database."""
    match kind:
        case "link to a file":
            (root / "AGENTS.md").symlink_to(root.parent / "secret")
        case "link on the way":
            (root.parent / "elsewhere").mkdir()
            (root.parent / "elsewhere" / "AGENTS.md").write_text("password")
            (root / "linked").symlink_to(root.parent / "elsewhere")
        case "pipe":
            os.mkfifo(root / "AGENTS.md")
        case "folder":
            (root / "AGENTS.md").mkdir()
        case _:
            (root / "AGENTS.md").write_text("x" * (LARGEST + 1))
    reader = Reader(root)
    assert reader.texts("linked/AGENTS.md" if kind == "link on the way" else "AGENTS.md") == {}
    assert len(reader.warned) == 1
