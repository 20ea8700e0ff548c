"""What the server says when it starts: where it listens, and how to point each agent at it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from ..models import UNKNOWN
from .settings import Settings
from .values import Address

_AGENTS: tuple[tuple[str, str], ...] = (
    ("Claude Code", "ANTHROPIC_BASE_URL={base} claude"),
    ("Codex", "codex -c openai_base_url={base}/v1"),
    ("opencode", "opencode.json: provider.anthropic.options.baseURL = {base}/v1"),
    ("Gemini CLI", "GOOGLE_GEMINI_BASE_URL={base} gemini"),
    ("Qwen Code", "OPENAI_BASE_URL={base}/v1 qwen"),
    ("aider", "ANTHROPIC_API_BASE={base} OPENAI_API_BASE={base}/v1 aider"),
    ("SDKs", "ANTHROPIC_BASE_URL={base}  OPENAI_BASE_URL={base}/v1"),
)


def base_url(address: Address) -> str:
    """Return the URL under which an agent on this machine reaches a listener."""
    anywhere = address.host in {"0.0.0.0", "::", ""}  # noqa: S104  compared with, not bound to
    return f"http://{Address('127.0.0.1', address.port) if anywhere else address}"


def banner(
    settings: Settings, listen: Address, admin: Address | None, profiles: Mapping[str, str]
) -> list[str]:
    """Return the lines to print once the server is ready.

    `listen` and `admin` are the addresses really taken; `profiles` name by upstream what is taken to stand there.
    """
    base = base_url(listen)
    lines = [f"stet listens on {base} (policy {settings.policy}, mode {settings.mode})"]
    kept = "in memory only" if settings.state == "memory" else f"in {settings.state}"
    lines.append(f"what was sent is remembered {kept}")
    if settings.record != "off":
        lines.append(f"RECORDING: all that agents send is written to {settings.record}, keys aside")
    if not listen.loopback:
        lines.append("it can be reached from other machines: whoever reaches it can use it")
    if admin is not None:
        lines.append(f"admin on {base_url(admin)}: /healthz /readyz /metrics /turns")
    lines += [f"  {agent:<12} {how.format(base=base)}" for agent, how in _AGENTS]
    lines += [
        f"  {'upstream':<12} /{name}/... -> {upstream.url} ({profiles.get(name, UNKNOWN)})"
        for name, upstream in settings.upstreams.items()
    ]
    return lines


def facts(
    settings: Settings, listen: Address, admin: Address | None, profiles: Mapping[str, str]
) -> dict[str, object]:
    """The same for machines: the fields of one event."""
    return {
        "version": version("stet-proxy"),
        "listen": str(listen),
        "admin": str(admin) if admin is not None else "off",
        "policy": settings.policy,
        "mode": settings.mode,
        "state": settings.state,
        "record": settings.record,
        "default_upstream": settings.default_upstream,
        "upstreams": {
            name: {"url": upstream.url, "profile": profiles.get(name, UNKNOWN)}
            for name, upstream in settings.upstreams.items()
        },
    }
