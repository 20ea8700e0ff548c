"""Small requests to the embedded provider, and a client that keeps a conversation."""

import base64
import struct
import zlib

import orjson

from proxy.simulator import MESSAGES, Provider

VERSION = ("anthropic-version", "2023-06-01")
READ = {
    "name": "read_file",
    "description": "Read a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
RUN = {
    "name": "run",
    "description": "Run a command.",
    "input_schema": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
}
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def text(words, **members):
    return {"type": "text", "text": words, **members}


def user(*content):
    return {
        "role": "user",
        "content": content[0] if len(content) == 1 and isinstance(content[0], str) else list(content),
    }


def assistant(*content):
    return {"role": "assistant", "content": user(*content)["content"]}


def system(*content, **members):
    return {"role": "system", "content": list(content), **members}


def call(ident, name="read_file", **arguments):
    return {"type": "tool_use", "id": ident, "name": name, "input": arguments or {"path": "pump.py"}}


def result(ident, content="ok", **members):
    return {"type": "tool_result", "tool_use_id": ident, "content": content, **members}


def thought(signature="c2lnbmVk", words="Look at it."):
    return {"type": "thinking", "thinking": words, "signature": signature}


def body(*messages, model="claude-x", **members):
    return {
        "model": model,
        "max_tokens": 1024,
        "tools": [READ, RUN],
        "system": "You look after a small greenhouse.",
        "messages": list(messages) or [user("Check the pump.")],
        **members,
    }


def image(data, media_type="image/png"):
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def png(width, height):
    """A black picture of this size, as base64."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + b"\0" * ((width + 7) // 8)) * height, 9)
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return base64.b64encode(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    ).decode()


def headers(*betas, version="2023-06-01", key="sk-test"):
    pairs = [("anthropic-version", version), ("x-api-key", key), ("content-type", "application/json")]
    return [*pairs, ("anthropic-beta", ",".join(betas))] if betas else pairs


def send(provider, request, *betas, now=0.0, path=MESSAGES, **options):
    raw = request if isinstance(request, bytes) else orjson.dumps(request)
    return provider.answer(headers(*betas, **options), raw, now, path)


def complaint(request, *betas, settings=None, provider=None, **options):
    """What the provider says no with; None if it answers."""
    answer = send(provider or Provider(settings), request, *betas, **options)
    return None if answer.status == 200 else answer.json["error"]["message"]


class Client:
    """A client that appends each answer to its history, as agents do."""

    def __init__(self, provider, *betas, now=0.0, **members):
        self.provider = provider
        self.betas = betas
        self.now = now
        self.members = members
        self.messages = []

    def body(self):
        return body(*self.messages, **self.members)

    def send(self, *content, wait=0.0):
        """Say this; a dictionary is a message of its own."""
        self.now += wait
        for item in content:
            self.messages.append(user(item) if isinstance(item, str) else item)
        answer = send(self.provider, self.body(), *self.betas, now=self.now)
        if answer.status == 200:
            self.messages.append({"role": "assistant", "content": answer.json["content"]})
        return answer
