"""A policy in a screen: what it sets, and what it sets otherwise than what it extends."""

from pathlib import Path

from proxy.outline import outline
from proxy.policy import STAGES, load_policy, parent_of


def shown(source: str | Path, *, every: bool = False) -> dict[str, str]:
    """The outline by stage; `when` entries under that name, one behind the other."""
    parent = parent_of(source)
    found: dict[str, str] = {}
    for line in outline(load_policy(source).file, parent.file if parent else None, every=every):
        stage, _, said = line.strip().partition(" ")
        found[stage] = f"{found[stage]} | {said.strip()}" if stage in found else said.strip()
    return found


def test_what_differs_from_the_parent_is_marked(tmp_path: Path) -> None:
    """Lists replace, and what they replace is there to read; of mappings, which merge, only what is new is shown."""
    file = tmp_path / "mine.yaml"
    file.write_text(
        "extends: default\nsteady: off\nlabel: {untrusted: [WebFetch]}\n"
        "stale: {keep: 6, tools: {Read: 15}, protect: ['db*']}\n"
        "when:\n  - {model: '*haiku*', agent: x, stale: off}\n  - {upstream: local}\n"
    )
    assert shown(file) == {
        **dict.fromkeys(STAGES, "on"),
        **dict.fromkeys(("inject", "externalize", "compact", "budget"), "off"),
        "steady": "off (was on)",
        "label": 'on  untrusted ["WebFetch"] (was [])',
        "stale": 'on  keep 6 (was 8), tools {"Read": 15} (the rest as it was), '
        'protect ["db*"] (was ["Todo*", "todo*", "Task*", "Skill"])',
        "when": "agent x, model *haiku*: stale off | upstream local: nothing",
    }


def test_a_policy_of_its_own_is_held_against_the_stages_defaults(tmp_path: Path) -> None:
    """What it does not name is off, and what is as always is not told."""
    file = tmp_path / "mine.yaml"
    file.write_text("balance: {}\nstale: {keep: 3}\n")
    assert parent_of(file) is None
    assert shown(file) == {**dict.fromkeys(STAGES, "off"), "balance": "on", "stale": "on  keep 3"}


def test_everything_can_be_shown(tmp_path: Path) -> None:
    """Each option of each stage that is on, those that differ marked all the same."""
    file = tmp_path / "mine.yaml"
    file.write_text("extends: careful\nbalance: {missing: false}\n")
    found = shown(file, every=True)
    assert found["balance"] == "on  missing false (was true), orphans true, order true"
    assert found["encoding"] == "on  text true, ids true, arguments true"
    assert found["stale"] == "off"


def test_a_stage_switched_on_shows_what_it_does(tmp_path: Path) -> None:
    """`default` is `careful` with one stage more."""
    assert shown("default")["stale"].startswith("on (was off)  tools {")
    assert parent_of("careful") is None
    base, own = tmp_path / "base.yaml", tmp_path / "own.yaml"
    base.write_text("extends: frugal\n")
    own.write_text("extends: base.yaml\n")
    parent = parent_of(own)
    assert parent is not None
    assert parent.file.name == "base"
