"""A coding agent, as far as its requests go: a history that grows, and everything real ones do to it.

What a client does to its *spelling* differs from request to request (`Style`) and means nothing. What it does to its
*history* stays: results lost or late, calls twice, texts behind calls, thinking stripped, turns taken back.
"""

from __future__ import annotations

import copy

from msgspec import Struct

from .spelling import Num, Style
from .wires import Asked, text

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
WORDS = (
    "Check the pump.",
    'naïve café 🙂 — "quoted" \\ back\\u0041slash',
    "line\nbreak\ttab \u2028 end ",
    "cut in half \ud83d",
    "nul \x00 inside",
    "lorem ipsum dolor sit amet " * 40,
    "   ",
    "",
    "Check the pump.",
    "Go on.",
)
INPUTS: tuple[dict[str, object], ...] = (
    {"path": "pump.py"},
    {"path": "a.py", "limit": Num("1.0"), "offset": Num("1e2")},
    {"b": {"z": 1, "a": [1, {"y": None, "x": "é"}]}, "a": Num("123456789012345678901234567890")},
    {},
    {"command": "ls -la \ud83d", "timeout": Num("-0.0")},
)
RULES = "Rules. " * 60
TOOLS = ("read_file", "run", "edit", "late_tool")


class Shown(Struct, frozen=True, kw_only=True):
    """What the surroundings are when a request is made: they stand in the system prompt and in reminders."""

    date: int = 1
    clock: int = 0
    nonce: int = 0
    left: int = 100_000
    more_tools: bool = False


def tool(name: str) -> dict[str, object]:
    """A tool definition with a schema whose keys a client may reorder."""
    return {
        "name": name,
        "description": f"The {name} tool: é, ümlaut.",
        "input_schema": {
            "type": "object",
            "properties": {"path": {"type": "string", "maxLength": Num("1e3")}, "limit": {"type": "number"}},
            "required": ["path"],
        },
    }


class Client:
    """One conversation as its client holds it."""

    def __init__(self, model: str, opening: str, *, thinks: bool, session: str, agent: str) -> None:
        self.model = model
        self.thinks = thinks
        self.session = session
        self.agent = agent
        self.opening = opening
        self.messages: list[dict[str, object]] = []
        self.unknown = False
        self.late: list[dict[str, object]] = []
        self.spoiled = False
        """Whether this client ever sent what changes its own prompt, or what the provider would refuse."""

    # -- what it sends --------------------------------------------------------------------------------

    def asked(self, style: Style, shown: Shown) -> Asked:
        """What the request says; the list of tools is turned as the style has it."""
        names = list(TOOLS if shown.more_tools else TOOLS[:3])
        turn = style.tools % len(names)
        return Asked(
            model=self.model,
            thinks=self.thinks,
            unknown=self.unknown,
            system=self._system(shown),
            tools=[tool(name) for name in names[turn:] + names[:turn]],
            messages=copy.deepcopy(self.messages),
        )

    def _system(self, shown: Shown) -> list[dict[str, object]]:
        if self.agent == "claude-code":
            line = f"x-anthropic-billing-header: cc_version=2.1.114.abc; cc_entrypoint=cli; cch={shown.nonce:05x};"
            told = f"<env>\nOS Version: Linux 6\nToday's date: 2026-11-{shown.date:02d}\n</env>\n" + RULES
            return [{"type": "text", "text": line}, {"type": "text", "text": told}]
        told = (
            f"You look after a greenhouse.\nToday's date: 2026-11-{shown.date:02d}\n"
            f"Current time: 12:30:{shown.clock % 60:02d}\nWorking directory: /home/x\n" + RULES
        )
        return [{"type": "text", "text": told}]

    # -- its history ----------------------------------------------------------------------------------

    @property
    def open_calls(self) -> list[dict[str, object]]:
        """Client calls of the newest answer that no result followed."""
        calls: list[dict[str, object]] = []
        for message in reversed(self.messages):
            if message["role"] == "system":
                continue
            if message["role"] != "assistant":
                break
            calls = [block for block in blocks(message) if block["type"] == "tool_use"] + calls
        return calls

    def say(self, *content: dict[str, object], role: str = "user") -> None:
        """Append a message of blocks."""
        self.messages.append({"role": role, "content": list(content)})

    def answered(self, content: list[dict[str, object]]) -> None:
        """Append the model's answer."""
        self.messages.append({"role": "assistant", "content": content})


def blocks(message: dict[str, object]) -> list[dict[str, object]]:
    """The content of a message as blocks."""
    content = message["content"]
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    assert isinstance(content, list)
    return content


def result(call_id: object, content: object, **members: object) -> dict[str, object]:
    """A tool result block."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **members}


def image() -> dict[str, object]:
    """A small picture."""
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
