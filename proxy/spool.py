"""Where outputs that are too long for a prompt are kept, as far as the rewrite knows: a key, and two ways to read them.

An output is kept under a handle made of what it says and a secret of the installation. The same output always has
the same handle, so that a prompt says the same for ever, and who does not have the secret cannot guess which handle
goes with which content. Keeping and reading is the gateway's business (`gateway/spool.py`).
"""

from __future__ import annotations

import re
from hashlib import blake2b

from msgspec import Struct

HANDLE = re.compile(r"spool-[0-9a-f]{32}")
SUFFIX = ".txt"
"""What the name of a kept file ends with, behind its handle."""


class Spool(Struct, frozen=True, kw_only=True):
    """A spool that outputs can be put into.

    `key`: the secret that handles are made with. `directory`: where an agent finds the files, "" where it does not
    share the disk; `url`: the base URL under which it reaches us, "" where that is not known.
    """

    key: bytes
    directory: str = ""
    url: str = ""

    def __repr__(self) -> str:
        """Everything but the key."""
        return f"Spool(directory={self.directory!r}, url={self.url!r})"

    def handle(self, data: bytes) -> str:
        """The name under which `data` is kept."""
        return f"spool-{blake2b(data, key=self.key, digest_size=16, person=b'stet spool').hexdigest()}"

    def file(self, handle: str) -> str:
        """The path at which an agent finds what a handle names, "" where it cannot."""
        separator = "" if self.directory.endswith("/") else "/"
        return f"{self.directory}{separator}{handle}{SUFFIX}" if self.directory else ""

    def address(self, handle: str) -> str:
        """The URL at which an agent finds it, "" where that is not known."""
        return f"{self.url}/stet/spool/{handle}" if self.url else ""


class Spooled(Struct, frozen=True, kw_only=True):
    """An output that is to be kept before the prompt that names it is sent."""

    handle: str
    data: bytes

    def __repr__(self) -> str:
        """The length instead of the content."""
        return f"Spooled({self.handle!r}, {len(self.data)} bytes)"
