"""The agents that are driven here, one entry each: packages, configuration, command line.

Every one runs as its users run it, without a terminal, with a home that is empty but for what stands here.
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct, structs

from .claude import DEAD_END

KEY = "sk-test-dummy"

Package = tuple[str, str]


class Seat(Struct, frozen=True):
    """Where an agent sits: the address it speaks to, its home, its project."""

    base: str
    home: Path
    cwd: Path


class Kind(Struct, frozen=True, kw_only=True):
    """An agent and the wire format it speaks.

    `configure` writes its files and returns the variables it needs; `command` is the line for a prompt, in a new
    session or the newest one. `resumes` is False where it has no such thing without a terminal; `together`: it takes
    all prompts at once, a line each, and there is one process. `requirements` are Python packages, pinned.
    """

    name: str
    agent: str
    packages: tuple[Package, ...] = ()
    configure: Callable[[Seat], Mapping[str, str]]
    command: Callable[[Seat, str, bool], list[str]]
    resumes: bool = True
    together: bool = False
    requirements: tuple[str, ...] = ()


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _codex(name: str, *, own: bool, model: str = "gpt-5.5") -> Kind:
    def configure(seat: Seat) -> Mapping[str, str]:
        lines = [
            f'model = "{model}"',
            'approval_policy = "never"',
            'sandbox_mode = "danger-full-access"',
            "check_for_update_on_startup = false",
        ]
        if own:
            lines += ['model_provider = "mine"', "[model_providers.mine]", 'name = "mine"']
            lines += [f'base_url = "{seat.base}/v1"', 'env_key = "MINE"', 'wire_api = "responses"']
        else:
            lines += [f'openai_base_url = "{seat.base}/v1"']
        write(seat.home / ".codex" / "config.toml", "\n".join([*lines, "[analytics]", "enabled = false", ""]))
        return {"MINE" if own else "CODEX_API_KEY": KEY}

    def command(_seat: Seat, prompt: str, resume: bool) -> list[str]:
        again = ["resume", "--last"] if resume else []
        return ["codex", "exec", *again, "--skip-git-repo-check", "--json", prompt]

    return Kind(
        name=name,
        agent="codex",
        packages=(("@openai/codex", "0.171.0"),),
        configure=configure,
        command=command,
    )


def _token() -> str:
    """A login's token in form alone: nobody signed it, and nobody here asks."""
    account = {
        "chatgpt_plan_type": "pro",
        "chatgpt_account_id": "account",
        "chatgpt_user_id": "user",
    }
    claims = {"email": "someone@example.org", "exp": 4102444800, "https://api.openai.com/auth": account}
    pieces = ({"alg": "none", "typ": "JWT"}, claims)
    encoded = [urlsafe_b64encode(json.dumps(piece).encode()).decode().rstrip("=") for piece in pieces]
    return ".".join([*encoded, "c2lnbmVk"])


def _logged_in(kind: Kind) -> Kind:
    """The same with a login instead of a key: its bodies are packed with zstd."""

    def configure(seat: Seat) -> Mapping[str, str]:
        kind.configure(seat)
        config = seat.home / ".codex" / "config.toml"
        config.write_text(f'chatgpt_base_url = "{DEAD_END}/backend-api/"\n{config.read_text()}')
        tokens = {
            "id_token": _token(),
            "access_token": _token(),
            "refresh_token": "none",
            "account_id": "account",
        }
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        auth = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": now}
        write(seat.home / ".codex" / "auth.json", json.dumps(auth))
        return {}

    return structs.replace(kind, name="codex-login", configure=configure)


def _opencode(name: str, provider: str, settings: Callable[[str], object], model: str) -> Kind:
    def configure(seat: Seat) -> Mapping[str, str]:
        config = {
            "provider": {provider: settings(f"{seat.base}/v1")},
            "model": f"{provider}/{model}",
            "small_model": f"{provider}/{model}",
            "autoupdate": False,
            "share": "disabled",
            "permission": {"*": "allow"},
        }
        write(seat.home / ".config" / "opencode" / "opencode.json", json.dumps(config))
        names = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        return {f"OPENCODE_DISABLE_{name}": "1" for name in names}

    return Kind(
        name=name,
        agent="opencode",
        packages=(("opencode-ai", "1.18.33"),),
        configure=configure,
        command=lambda _seat, prompt, resume: [
            "opencode",
            "run",
            *(["--continue"] if resume else []),
            prompt,
        ],
    )


def _options(url: str) -> dict[str, object]:
    return {"options": {"baseURL": url, "apiKey": KEY}}


def _compatible(url: str) -> dict[str, object]:
    limits = {"context": 200_000, "output": 32_000}
    return {
        **_options(url),
        "npm": "@ai-sdk/openai-compatible",
        "name": "mine",
        "models": {"coder": {"name": "coder", "limit": limits}},
    }


def _gemini_home(seat: Seat) -> Mapping[str, str]:
    settings = {
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "telemetry": {"enabled": False},
    }
    write(seat.home / ".gemini" / "settings.json", json.dumps(settings))
    return {"GOOGLE_GEMINI_BASE_URL": seat.base, "GEMINI_API_KEY": KEY}


def _qwen_home(seat: Seat) -> Mapping[str, str]:
    settings = {
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
        "security": {"auth": {"selectedType": "openai"}},
        "telemetry": {"enabled": False},
        "$version": 3,
    }
    write(seat.home / ".qwen" / "settings.json", json.dumps(settings))
    return {"OPENAI_BASE_URL": f"{seat.base}/v1", "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "qwen3-coder-plus"}


def _headless(program: str, resume: list[str]) -> Callable[[Seat, str, bool], list[str]]:
    def command(_seat: Seat, prompt: str, again: bool) -> list[str]:
        options = ["--approval-mode", "yolo", "--output-format", "json"]
        return [program, "-p", prompt, *options, *(resume if again else [])]

    return command


def _pi_home(seat: Seat) -> Mapping[str, str]:
    model = {
        "id": "claude-sonnet-4-5",
        "name": "m",
        "reasoning": True,
        "input": ["text"],
        "contextWindow": 200_000,
        "maxTokens": 32_000,
        "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75},
    }
    mine = {"baseUrl": seat.base, "api": "anthropic-messages", "apiKey": KEY, "models": [model]}
    write(seat.home / ".pi" / "agent" / "models.json", json.dumps({"providers": {"mine": mine}}))
    return {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}


def _cline_home(seat: Seat) -> Mapping[str, str]:
    provider = {
        "provider": "anthropic",
        "apiKey": KEY,
        "model": "claude-sonnet-4-5",
        "baseUrl": f"{seat.base}/v1",
    }
    entry = {"settings": provider, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    settings = {
        "version": 1,
        "lastUsedProvider": "anthropic",
        "modes": {},
        "providers": {"anthropic": entry},
    }
    write(seat.home / ".cline" / "data" / "settings" / "providers.json", json.dumps(settings))
    # Without it a hub process would outlive the run.
    return {"CLINE_TELEMETRY_DISABLED": "1", "CLINE_SESSION_BACKEND_MODE": "local"}


def _continue_home(seat: Seat) -> Mapping[str, str]:
    model = {
        "name": "m",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "apiKey": KEY,
        "apiBase": f"{seat.base}/v1/",
        "roles": ["chat"],
        "capabilities": ["tool_use"],
    }
    config = {"name": "x", "version": "1.0.0", "schema": "v1", "models": [model]}
    write(seat.home / "continue.yaml", json.dumps(config))
    names = ("CONTINUE_TELEMETRY_ENABLED", "CONTINUE_CLI_ENABLE_TELEMETRY", "CONTINUE_METRICS_ENABLED")
    return dict.fromkeys(names, "0")


LOOPS = Path(__file__).with_name("loops")
SDKS = (
    "anthropic==2.14.0",
    "openai==3.57.0",
    "openai-agents==0.24.0",
    "google-genai==3.6.1",
)


def _loop(name: str) -> Kind:
    """A tool loop of a few lines over an SDK."""

    def configure(seat: Seat) -> Mapping[str, str]:
        return {
            "ANTHROPIC_BASE_URL": seat.base,
            "ANTHROPIC_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{seat.base}/v1",
            "OPENAI_API_KEY": KEY,
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "GOOGLE_GEMINI_BASE_URL": seat.base,
            "GEMINI_API_KEY": KEY,
        }

    return Kind(
        name=name,
        agent="",
        requirements=SDKS,
        configure=configure,
        command=lambda _seat, prompts, _resume: [
            "python",
            str(LOOPS / f"{name.replace('-', '_')}_loop.py"),
            prompts,
        ],
        together=True,
    )


def _aider_home(seat: Seat) -> Mapping[str, str]:
    return {
        "AIDER_ANALYTICS": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "ANTHROPIC_API_BASE": seat.base,
        "ANTHROPIC_BASE_URL": seat.base,
        "ANTHROPIC_API_KEY": KEY,
        "OPENAI_API_BASE": f"{seat.base}/v1",
        "OPENAI_API_KEY": KEY,
    }


def _aider(name: str, model: str) -> Kind:
    """Driven as its own documentation scripts it: one coder, one prompt after the other. It offers no tools."""
    return Kind(
        name=name,
        agent="aider",
        requirements=("aider-chat==0.86.2",),
        configure=_aider_home,
        command=lambda seat, prompts, _resume: [
            *("python", str(LOOPS / "aider_loop.py"), prompts, model),
            *sorted(map(str, seat.cwd.glob("*.py"))),
        ],
        together=True,
    )


LINEUP = (
    _codex("codex", own=True),
    _codex("codex-openai", own=False),
    _logged_in(_codex("codex-login", own=False)),
    _codex("codex-6", own=True, model="gpt-6.2-sol"),
    _opencode("opencode", "anthropic", _options, "claude-sonnet-4-5"),
    _opencode("opencode-chat", "mine", _compatible, "coder"),
    _opencode("opencode-responses", "openai", _options, "gpt-5"),
    Kind(
        name="gemini-cli",
        agent="gemini-cli",
        packages=(("@google/gemini-cli", "0.61.0"),),
        configure=_gemini_home,
        command=_headless("gemini", ["--resume", "latest"]),
    ),
    Kind(
        name="qwen-code",
        agent="qwen-code",
        packages=(("@qwen-code/qwen-code", "0.24.4"),),
        configure=_qwen_home,
        command=_headless("qwen", ["--continue"]),
    ),
    Kind(
        name="pi",
        agent="pi",
        packages=(("@earendil-works/pi-coding-agent", "1.6.0"), ("node", "24.21.0")),
        configure=_pi_home,
        command=lambda _seat, prompt, resume: [
            *("pi", "--provider", "mine", "--model", "claude-sonnet-4-5", "-p", prompt),
            *(["--continue"] if resume else []),
        ],
    ),
    Kind(
        name="cline",
        agent="cline",
        packages=(("cline", "3.0.65"),),
        configure=_cline_home,
        command=lambda _seat, prompt, _resume: [
            *("cline", "-P", "anthropic", "-m", "claude-sonnet-4-5", prompt),
        ],
        resumes=False,
    ),
    Kind(
        name="continue",
        agent="continue",
        packages=(("@continuedev/cli", "1.5.47"),),
        configure=_continue_home,
        command=lambda seat, prompt, resume: [
            *("cn", "--config", str(seat.home / "continue.yaml"), "-p", "--auto", "--silent"),
            *(["--resume"] if resume else []),
            prompt,
        ],
    ),
)
LINEUP = (
    *LINEUP,
    *map(
        _loop,
        ("anthropic", "openai-chat", "openai-responses", "openai-stored", "google-genai", "openai-agents"),
    ),
    _aider("aider", "anthropic/claude-sonnet-4-5"),
    _aider("aider-chat", "openai/gpt-4.1"),
)
KINDS = {kind.name: kind for kind in LINEUP}
