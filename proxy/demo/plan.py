"""The play: what the person asks, and what the model does about it, in forty answers.

The model's part follows from the request alone: the number of its own answers in it. So the same play runs against
any number of sessions, and a request that was refused may be sent again.
"""

from __future__ import annotations

from msgspec import Struct

from ..simulator import Ask, Call, Reply, Say, Think
from .project import ROOT, prose

Step = tuple[Call, ...]
"""The calls of one answer; several are parallel, none means that the model speaks to the person."""


class Task(Struct, frozen=True):
    """What the person says, after `pause` seconds, and the model's steps until it answers in words."""

    says: str
    steps: tuple[Step, ...]
    pause: float = 40.0
    shows: str = ""
    """Name of a picture the person puts in front."""


def _read(*paths: str) -> Step:
    return tuple(Call("Read", {"file_path": f"{ROOT}/{path}"}) for path in paths)


def _grep(*patterns: str) -> Step:
    return tuple(Call("Grep", {"pattern": pattern, "path": ROOT}) for pattern in patterns)


def _bash(command: str) -> Step:
    return (Call("Bash", {"command": command, "description": "Run a command"}),)


def _glob(pattern: str) -> Step:
    return (Call("Glob", {"pattern": pattern, "path": ROOT}),)


def _edit(path: str, old: str, new: str) -> Step:
    return (Call("Edit", {"file_path": f"{ROOT}/{path}", "old_string": old, "new_string": new}),)


def _todo(todos: str) -> Step:
    return (Call("TodoWrite", {"todos": todos}),)


def _fetch(url: str) -> Step:
    return (Call("WebFetch", {"url": url, "prompt": "What does it say about half cents?"}),)


TASKS = (
    Task(
        "The total on this invoice is a cent too high. Find out why; do not change anything yet.",
        shows="invoice.png",
        steps=(
            (*_bash("git log --oneline -20"), *_glob("**/*.py")),
            _read("billing/invoice.py"),
            _grep("quantize", "ROUND_HALF"),
            _read("billing/money.py", "billing/tax.py", "tests/test_invoice.py"),
            _bash("pytest -x --last-failed"),
            (*_read("billing/rounding.py"), *_grep("places=")),
            _read("docs/rounding.md"),
            _bash("python -m billing.preview --invoice 20417"),
            (),
        ),
    ),
    Task(
        "Good. Fix it, but invoices of before June keep the rounding they were made with.",
        steps=(
            (*_todo("round at the end; keep the old rule; tests"), *_read("billing/period.py")),
            _edit("billing/rounding.py", "ROUND_HALF_UP", "rule_of(period)"),
            _bash("pytest tests"),
            _bash("pytest tests/test_invoice.py"),
            _read("tests/test_rounding.py", "tests/conftest.py"),
            _edit("tests/test_rounding.py", "def test_half_cent", "def test_half_cent_since_june"),
            (*_grep("rule_of", "period_of"), *_read("billing/report.py")),
            _bash("pytest tests/test_rounding.py tests/test_invoice.py"),
            (),
        ),
    ),
    Task(
        "The credit notes need the same, see the chart in docs/credit.png.",
        pause=4 * 60.0,
        steps=(
            _read("docs/credit.png"),
            _read("billing/credit.py", "billing/credit_note.py"),
            _grep("credit_note", "reverse_"),
            _bash("python -m billing.preview --credit 881"),
            _read("billing/rounding.py"),
            _edit("billing/credit.py", "quantize(cents)", "rule_of(period)(cents)"),
            (*_bash("pytest tests/test_credit.py"), *_bash("ruff check billing")),
            _read("tests/test_credit.py"),
            (),
        ),
    ),
    Task(
        "Back again. What do the tax authorities say about half cents? Put the source into the docs.",
        pause=70 * 60.0,
        steps=(
            _fetch("https://tax.example/rounding"),
            _fetch("https://tax.example/rounding/2026-06"),
            _read("docs/rounding.md", "docs/sources.md"),
            _edit("docs/sources.md", "## Rounding", "## Rounding (tax.example, June)"),
            _bash("python -m docs.build"),
            _grep("tax.example"),
            (),
        ),
    ),
    Task(
        "Now run everything once more and write the changelog.",
        steps=(
            _bash("pytest tests/test_invoice.py tests/test_rounding.py tests/test_credit.py"),
            (*_bash("git diff --stat"), *_read("CHANGELOG.md")),
            _edit("CHANGELOG.md", "## Unreleased", "## Unreleased: half cents"),
            _todo("all done"),
            _bash("git status --short"),
            (),
        ),
    ),
)

STEPS: tuple[Step, ...] = tuple(step for task in TASKS for step in task.steps)
TURNS = len(STEPS)

INTERRUPTED = STEPS.index(_bash("pytest tests"))
"""The answer whose calls the person stops."""

INTERRUPTION = "Stop, the whole suite takes an hour. The invoice tests are enough."


def model(ask: Ask) -> Reply:
    """The model's next answer: a thought, a word about what comes, the calls of the step."""
    turn = sum(message["role"] == "assistant" for message in ask.body["messages"])
    step = STEPS[min(turn, TURNS - 1)]
    thought = Think(prose(f"thought {turn}", 500))
    if not step:
        return Reply(blocks=(thought, Say(prose(f"words {turn}", 900))))
    return Reply(blocks=(thought, Say(f"Step {turn + 1} of the work."), *step))
