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

    def texts(self, *names: str, workplace: str = "") -> dict[str, str]:
        return dict(self.files.texts(names, workplace))


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


@pytest.fixture
def shops(root: Path) -> Path:
    """A folder with two projects and a file of its own."""
    for name in ("one", "two"):
        (root / name / "src").mkdir(parents=True)
        (root / name / "AGENTS.md").write_text(f"This is {name}.")
    (root / "AGENTS.md").write_text("This is the house.")
    (root / "style.md").write_text("Use tabs.")
    return root


@pytest.mark.parametrize(
    ("workplace", "told"),
    [
        ("{root}/one", "This is one."),
        ("{root}/two/src", "This is two."),
        ("{root}/two/", "This is two."),
        ("{root}/one/gone/deeper", "This is one."),
        ("{root}/one/AGENTS.md", "This is one."),
        ("{root}", "This is the house."),
        ("", "This is the house."),
        ("one", "This is the house."),
        ("/etc", "This is the house."),
        ("{root}-two", "This is the house."),
        ("{root}/one/../two", "This is the house."),
        ("{root}/one\0", "This is the house."),
        ("{root}" + "/x" * 3000, "This is the house."),
    ],
)
def test_the_file_nearest_to_where_the_agent_works_is_told(shops: Path, workplace: str, told: str) -> None:
    """Upwards from there to the root; of the root alone where that is elsewhere or no proper path."""
    reader = Reader(shops)
    assert reader.texts("AGENTS.md", "style.md", workplace=workplace.format(root=shops)) == {
        "AGENTS.md": told,
        "style.md": "Use tabs.",
    }
    assert reader.warned == []


def test_a_link_below_the_root_leads_nowhere_outside(shops: Path) -> None:
    """One that leads to another project is that project; a root behind a link is known by both names."""
    (shops.parent / "elsewhere").mkdir()
    (shops.parent / "elsewhere" / "AGENTS.md").write_text("password")
    (shops / "out").symlink_to(shops.parent / "elsewhere")
    (shops / "alias").symlink_to(shops / "two")
    reader = Reader(shops)
    assert reader.texts("AGENTS.md", workplace=f"{shops}/out") == {"AGENTS.md": "This is the house."}
    assert reader.texts("AGENTS.md", workplace=f"{shops}/alias/src") == {"AGENTS.md": "This is two."}
    (shops.parent / "linked").symlink_to(shops)
    linked = Reader(shops.parent / "linked")
    for root in (shops, shops.parent / "linked"):
        assert linked.texts("AGENTS.md", workplace=f"{root}/one") == {"AGENTS.md": "This is one."}


def test_agents_cannot_fill_the_memory(shops: Path) -> None:
    """They name the directories that files are looked for in, and missed in."""
    (shops / "AGENTS.md").unlink()
    reader = Reader(shops)
    for at in range(1200):
        assert reader.texts("AGENTS.md", workplace=f"{shops}/{at}") == {}
    assert len(reader.warned) == 1000
    assert reader.texts("AGENTS.md", workplace=f"{shops}/one") == {"AGENTS.md": "This is one."}
