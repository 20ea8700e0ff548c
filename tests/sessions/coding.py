"""Coding sessions with everything that has tokens of its own in them: prose, code, records, logs, digests, Chinese,
images, thinking, tools. Drawn from a seed; each is played through the rewriter as the gateway calls it."""

import base64
import json
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

import orjson
from msgspec import Struct, structs

from proxy.answer import READERS
from proxy.gateway.conversations import Conversations
from proxy.gateway.exchange import Incoming, Outcome, Prepared
from proxy.policy import load_policy
from proxy.simulator import Call, Reply, Say, Think
from proxy.simulator.exchange import Answer
from proxy.simulator.reply import Block
from proxy.usage import Usage
from tests.laws.spelling import Style
from tests.laws.wires import WIRES, Asked, Json, text

_WORDS = (
    "pump fan lamp sensor valve greenhouse water level warm cold night the a of and to in is was not when before "
    "reads writes checks fails returns because however configuration temperature humidity schedule every second"
).split()
_NAMES = (
    "read_level setPoint pumpRate MAX_FLOW lampState _retry on_error fanSpeed logger HumidityProbe".split()
)
_CHINESE = "请先阅读这个文件然后修改水泵的配置并运行所有测试如果失败就回滚更改服务器日志显示连接超时"

Count = Callable[[Json, Usage], int]
"""What a provider counts of a body; the usage it reported itself stands beside it."""


class Shown(Struct, frozen=True):
    """One request: what we counted, what the provider did, and how many bytes went."""

    counted: int
    billed: int
    bytes: int

    @property
    def error(self) -> float:
        return abs(self.counted / self.billed - 1)


def prose(rng: random.Random, words: int) -> str:
    said = [rng.choice(_WORDS) for _ in range(words)]
    return " ".join(word.title() + "." if rng.random() < 0.08 else word for word in said)


def code(rng: random.Random, lines: int) -> str:
    made = []
    for number in range(lines):
        name, other = rng.choice(_NAMES), rng.choice(_NAMES)
        made.append(
            rng.choice(
                (
                    f"    {name} = self.{other}({number}, key='{rng.choice(_WORDS)}')",
                    f"    if {name} is not None and {other} > {rng.random():.3f}:",
                    f"def {name}(self, {other}: int) -> None:",
                    f"        # {prose(rng, 7)}",
                )
            )
        )
    return "\n".join(made)


def records(rng: random.Random, number: int) -> str:
    return json.dumps(
        [
            {
                "id": rng.randrange(10**6),
                "name": rng.choice(_NAMES),
                "on": rng.random() < 0.5,
                "at": rng.random(),
            }
            for _ in range(number)
        ]
    )


def log(rng: random.Random, lines: int) -> str:
    return "\n".join(
        f"2026-11-{rng.randint(1, 30):02d} 12:{rng.randint(0, 59):02d} INFO {rng.choice(_NAMES)} took {rng.randint(1, 900)} ms"
        for _ in range(lines)
    )


def output(rng: random.Random, *, strange: bool) -> str:
    """What a tool printed; `strange`: digests and Chinese too."""
    size = rng.choice((1, 1, 2, 3, 6) if strange else (1, 1, 2, 3))
    match rng.randrange(7 if strange else 5):
        case 0:
            return prose(rng, 120 * size)
        case 1 | 2:
            return code(rng, 16 * size)
        case 3:
            return records(rng, 6 * size)
        case 4:
            return log(rng, 14 * size)
        case 5:
            return "".join(rng.choice(_CHINESE) for _ in range(130 * size))
        case _:
            return base64.b64encode(rng.randbytes(300 * size)).decode()


def picture(rng: random.Random) -> Json:
    """A grey PNG of some size, as a screenshot is."""
    width, height = rng.choice(((640, 480), (1280, 800), (1024, 1024), (300, 200)))
    rows = zlib.compress(b"".join(b"\0" + bytes(width) for _ in range(height)))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in (
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
            (b"IDAT", rows),
            (b"IEND", b""),
        )
    )
    data = base64.b64encode(png).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def tool(rng: random.Random, name: str) -> Json:
    properties = {
        one: {"type": "string", "description": prose(rng, 12)}
        for one in ("path", "command", "pattern", "limit")
    }
    return {
        "name": name,
        "description": prose(rng, 80),
        "input_schema": {"type": "object", "properties": properties, "required": ["path"]},
    }


class Coding:
    """One session of a client that thinks and looks at pictures now and then."""

    def __init__(
        self,
        wire: str,
        upstream: str,
        model: str,
        seed: int,
        *,
        policy: str = "default",
        strange: bool = False,
    ) -> None:
        self.wire, self.upstream, self.model, self.strange = WIRES[wire], upstream, model, strange
        self.rng = random.Random(f"{wire} {model} {seed}")
        self.rewriter = Conversations(load_policy(policy), strict=True)
        self.provider = self.wire.provider(upstream)
        self.system = prose(self.rng, 4000) + "\n" + code(self.rng, 200)
        self.tools = [tool(self.rng, f"tool_{number}") for number in range(24)]
        self.messages: list[Json] = []
        self.now = 1_764_547_200.0

    def play(self, turns: int, count: Count | None = None) -> list[Shown]:
        """So many requests; `count` in the place of the provider's own."""
        self._person()
        shown = []
        for _ in range(turns):
            self.now += self.rng.choice((5.0, 20.0, 20.0, 900.0))
            shown.append(self._turn(count))
            calls = [block for block in self.messages[-1]["content"] if block["type"] == "tool_use"]
            if calls:
                self.messages.append({"role": "user", "content": [self._result(call) for call in calls]})
            else:
                self._person()
        return shown

    def _person(self) -> None:
        said: list[Json] = [text(prose(self.rng, self.rng.choice((8, 40, 150))))]
        if not self.messages or self.rng.random() < 0.3:
            said.insert(0, picture(self.rng))
        self.messages.append({"role": "user", "content": said})

    def _result(self, call: Json) -> Json:
        content: Any = output(self.rng, strange=self.strange)
        if len(self.messages) < 4:  # a first look at everything
            content = "\n".join(
                (code(self.rng, 12), records(self.rng, 8), log(self.rng, 12), prose(self.rng, 60))
            )
        if self.wire.name == "anthropic" and self.rng.random() < 0.1:
            content = [text(content), picture(self.rng)]
        return {"type": "tool_result", "tool_use_id": call["id"], "content": content}

    def _answer(self) -> tuple[Block, ...]:
        rng, made = self.rng, list[Block]()
        if len(self.messages) < 3:
            made.append(Think(prose(rng, 60)))
            return (*made, Call(self.tools[0]["name"], {"path": "src/pump.py", "limit": code(rng, 3)}))
        if rng.random() < 0.5:
            made.append(Think(prose(rng, rng.choice((30, 100, 300)))))
        if rng.random() < 0.6:
            made.append(Say(prose(rng, rng.choice((6, 50, 150)))))
        if rng.random() < 0.8:
            made += [
                Call(
                    rng.choice(self.tools)["name"],
                    {"path": f"src/{rng.choice(_NAMES)}.py", "limit": code(rng, 3)},
                )
                for _ in range(rng.choice((1, 1, 2)))
            ]
        return tuple(made) or (Say("Done."),)

    def _turn(self, count: Count | None) -> Shown:
        asked = Asked(
            model=self.model,
            thinks=True,
            unknown=False,
            system=[text(self.system)],
            tools=orjson.loads(orjson.dumps(self.tools)),
            messages=orjson.loads(orjson.dumps(self.messages)),
        )
        body = self.wire.body(asked, Style(marks=7))
        path = self.wire.path(self.model)
        headers = tuple((name.encode(), value.encode()) for name, value in self.wire.headers)
        prepared = self.rewriter.prepare(
            Incoming("POST", path, "", headers, body, self.upstream, self.wire.name, self.now, self.upstream)
        )
        assert prepared.fault is None
        self.provider.script = (lambda answer: lambda _: Reply(blocks=answer))(self._answer())
        told = self.provider.answer(self.wire.headers, prepared.body, self.now, path)
        assert told.status == 200, told.exchange.error
        heard = self.wire.heard(told)
        self.messages.append({"role": "assistant", "content": heard.content})
        return self._settled(prepared, told, heard.usage, count)

    def _settled(self, prepared: Prepared, told: Answer, usage: Usage, count: Count | None) -> Shown:
        reader = READERS[self.wire.name]()
        reader.document(told.body)
        answer = reader.answer()
        if count is not None:
            billed = count(orjson.loads(prepared.body), usage)
            answer = structs.replace(answer, usage=structs.replace(usage, prompt=billed))
        self.rewriter.settle(prepared, Outcome("ok", 200, None, answer))
        assert prepared.report is not None
        assert prepared.report.counted is not None
        assert answer.usage is not None
        assert answer.usage.prompt is not None
        return Shown(prepared.report.counted, answer.usage.prompt, len(prepared.body))
