"""What can go wrong, as one tree.

    StetError                 everything we raise on purpose: message, place, cure
    |-- ConfigError           a file the user wrote: path:line:column
    |   `-- PolicyError       the policy file
    |-- SettingsError         a flag, an environment variable, a server setting
    |-- BodyError             a request body we cannot read                        400
    |   |-- BodyTooLarge      above the limit                                      413
    |   `-- BodyEncodingError a content-encoding that does not open                400
    |-- UpstreamError         no answer from the provider                          502
    |   `-- UpstreamTimeout   no connection in time                                504
    |-- StoreError            a ledger store that cannot be read or written
    `-- LawError              an invariant of the rewrite does not hold

An error that may end as an HTTP answer carries its status. Messages never hold keys or bodies.
"""

from __future__ import annotations

from typing import ClassVar


class StetError(Exception):
    """A fault we can name.

    `message` says what is wrong, `place` where (a file position, a variable, an upstream), `cure` what to do
    about it. `str()` is one line: `place: message; cure`, or `place: message? cure`.
    """

    status: ClassVar[int] = 500

    def __init__(self, message: str, place: str = "", cure: str = "") -> None:
        self.message = message
        self.place = place
        self.cure = cure
        line = f"{place}: {message}" if place else message
        glue = " " if line.endswith("?") else "; "
        super().__init__(f"{line}{glue}{cure}" if cure else line)


class ConfigError(StetError):
    """A configuration file is wrong at `line` and `column` (both from 1)."""

    def __init__(self, path: str, line: int, column: int, message: str, cure: str = "") -> None:
        self.path = path
        self.line = line
        self.column = column
        super().__init__(message, f"{path}:{line}:{column}", cure)


class PolicyError(ConfigError):
    """A policy file is wrong."""


class SettingsError(StetError):
    """A flag, an environment variable or a server setting is wrong."""


class BodyError(StetError):
    """A request body we cannot read."""

    status: ClassVar[int] = 400


class BodyTooLarge(BodyError):  # noqa: N818  the name of the HTTP status
    """A request body above the limit."""

    status: ClassVar[int] = 413


class BodyEncodingError(BodyError):
    """A body whose content-encoding is unknown or does not open."""


class UpstreamError(StetError):
    """The provider gave no answer. `reason` is a short word for metrics: `dns`, `tls`, `refused`, `reset`..."""

    status: ClassVar[int] = 502

    def __init__(self, message: str, place: str = "", cure: str = "", *, reason: str = "unreachable") -> None:
        self.reason = reason
        super().__init__(message, place, cure)


class UpstreamTimeout(UpstreamError):  # noqa: N818  says what happened better than a suffix
    """No connection to the provider in time."""

    status: ClassVar[int] = 504

    def __init__(self, message: str, place: str = "", cure: str = "") -> None:
        super().__init__(message, place, cure, reason="connect_timeout")


class StoreError(StetError):
    """A ledger store cannot be read or written."""


class LawError(StetError):
    """An invariant of the rewrite does not hold; live, the request goes out as the fallback."""
