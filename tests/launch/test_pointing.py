"""What each agent gets so that its requests come to the proxy, and where they go on to."""

import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import Struct

from proxy.errors import SettingsError
from proxy.gateway.settings import resolve
from proxy.launch.places import Places
from proxy.launch.pointing import pointed
from proxy.launch.recipe import OTHER, recipe_for, recipes
from proxy.launch.survey import Survey, Surveyor

BASE = "http://127.0.0.1:4711"
GATEWAY = "https://gw.example/api/v1"


class Outcome(Struct, frozen=True):
    """`files`: temporary ones by name, parsed. `upstreams`: those of this run alone, by name, their URLs."""

    command: tuple[str, ...]
    variables: dict[str, str]
    files: dict[str, Any]
    upstreams: dict[str, str]
    survey: Survey


class Machine:
    """A home, a project and an environment; `TMP` stands for the directory of temporary files."""

    def __init__(self, root: Path) -> None:
        self.home, self.project, self.temporary = root / "home", root / "project", root / "tmp"
        for folder in (self.home, self.project, self.temporary):
            folder.mkdir()
        self.said = ""

    def write(self, name: str, text: str) -> None:
        path = self.home / name[2:] if name.startswith("~/") else self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, *command: str, given: Sequence[str] = (), **env: str) -> Outcome:
        places = Places({"HOME": str(self.home), **env}, self.project, [])
        settings = resolve({"upstreams": list(given)}, {"HOME": str(self.home)})
        known = recipes()
        recipe = recipe_for(command[0], known) or next(one for one in known if one.agent == OTHER)
        names = frozenset(pair.partition("=")[0] for pair in given)
        survey = Surveyor(settings, places, names, lambda _: self.said).survey(recipe, command)
        upstreams = {**settings.upstreams, **survey.upstreams}
        made = pointed(survey, command, BASE, upstreams, places, self.temporary)
        return Outcome(
            command=tuple(self._plain(word) for word in made.command),
            variables={name: self._plain(value) for name, value in made.variables.items()},
            files={file.name: _parsed(file) for file in self.temporary.iterdir()},
            upstreams={name: upstream.url for name, upstream in survey.upstreams.items()},
            survey=survey,
        )

    def _plain(self, text: str) -> str:
        return text.replace(str(self.temporary), "TMP")


def _parsed(file: Path) -> Any:
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    match file.suffix:
        case ".json":
            return json.loads(file.read_text())
        case ".yaml":
            return yaml.safe_load(file.read_text())
        case _:
            return file.read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# -- nothing set: the vendor's own endpoints --------------------------------------------------------------

ANTHROPIC, OPENAI, GEMINI = BASE, f"{BASE}/v1", BASE

PI = f"""const pointed = {{"anthropic": "{BASE}", "openai": "{BASE}/v1", "google": "{BASE}/v1beta"}};
export default function (pi) {{
  for (const [name, baseUrl] of Object.entries(pointed)) pi.registerProvider(name, {{ baseUrl }});
}}
"""

PLAIN: list[tuple[str, tuple[str, ...], dict[str, str], dict[str, Any], dict[str, str]]] = [
    ("claude", (), {"ANTHROPIC_BASE_URL": BASE, "ENABLE_TOOL_SEARCH": "true"}, {}, {}),
    ("codex", ("-c", f'openai_base_url="{BASE}/v1"'), {}, {}, {}),
    (
        "gemini",
        (),
        {"GOOGLE_GEMINI_BASE_URL": BASE, "CODE_ASSIST_ENDPOINT": f"{BASE}/codeassist"},
        {},
        {"codeassist": "https://cloudcode-pa.googleapis.com"},
    ),
    ("qwen", (), {"OPENAI_BASE_URL": f"{BASE}/v1", "ANTHROPIC_BASE_URL": BASE}, {}, {}),
    ("pi", ("-e", "TMP/stet.js"), {}, {"stet.js": PI}, {}),
    (
        "aider",
        (
            *("--openai-api-base", f"{BASE}/v1", "--set-env", f"OPENAI_BASE_URL={BASE}/v1"),
            *("--set-env", f"ANTHROPIC_API_BASE={BASE}", "--set-env", f"ANTHROPIC_BASE_URL={BASE}"),
        ),
        {},
        {},
        {},
    ),
    (
        "an-agent",
        (),
        {
            "ANTHROPIC_BASE_URL": BASE,
            "OPENAI_BASE_URL": f"{BASE}/v1",
            "OPENAI_API_BASE": f"{BASE}/v1",
            "GOOGLE_GEMINI_BASE_URL": BASE,
        },
        {},
        {},
    ),
]


@pytest.mark.parametrize(
    ("program", "arguments", "variables", "files", "upstreams"), PLAIN, ids=[row[0] for row in PLAIN]
)
def test_an_agent_gets_what_it_needs_and_no_more(
    machine: Machine,
    program: str,
    arguments: tuple[str, ...],
    variables: dict[str, str],
    files: dict[str, Any],
    upstreams: dict[str, str],
) -> None:
    """Arguments in front of the user's own, variables, temporary files; keys are nowhere among them."""
    made = machine.run(program, "-p", "hello")
    assert (made.command, made.variables, made.files, made.upstreams) == (
        (program, *arguments, "-p", "hello"),
        variables,
        files,
        upstreams,
    )
    assert (made.survey.lines, made.survey.unpointed) == ((), "")


def test_opencode_gets_a_configuration_in_a_variable(machine: Machine) -> None:
    """The three providers it knows by itself; nothing is written."""
    made = machine.run("opencode", "run", "hello")
    assert (made.command, made.files, list(made.variables)) == (
        ("opencode", "run", "hello"),
        {},
        ["OPENCODE_CONFIG_CONTENT"],
    )
    assert json.loads(made.variables["OPENCODE_CONFIG_CONTENT"]) == {
        "provider": {
            "anthropic": {"options": {"baseURL": f"{BASE}/v1"}},
            "openai": {"options": {"baseURL": f"{BASE}/v1"}},
            "google": {"options": {"baseURL": f"{BASE}/v1beta"}},
        }
    }


@pytest.mark.parametrize("program", ["cline", "cn"])
def test_where_there_is_no_configuration_nothing_is_handed_over(machine: Machine, program: str) -> None:
    """Cline and Continue cannot be pointed without one, and the user is told."""
    made = machine.run(program, "hello there")
    assert (made.command, made.files) == ((program, "hello there"), {})
    assert made.variables.keys() <= {"CLINE_SESSION_BACKEND_MODE"}
    assert "no configuration file to point" in made.survey.unpointed


# -- what the user had set becomes the upstream -------------------------------------------------------------

Arrange = Callable[[Machine], Mapping[str, str]]


def variable(name: str, value: str = GATEWAY) -> Arrange:
    return lambda _: {name: value}


def file(name: str, text: str) -> Arrange:
    def arrange(machine: Machine) -> Mapping[str, str]:
        machine.write(name, text)
        return {}

    return arrange


CODEX = f'model_provider = "my.gw"\n[model_providers."my.gw"]\nbase_url = "{GATEWAY}"\n'
OWN: list[tuple[str, str, Arrange, str, str]] = [
    ("claude by variable", "claude", variable("ANTHROPIC_BASE_URL"), "anthropic", f"ANTHROPIC_BASE_URL={BASE}/anthropic/v1"),
    ("codex provider", "codex", file("~/.codex/config.toml", CODEX), "openai", f'model_providers."my.gw".base_url="{BASE}/openai/v1"'),
    ("codex base url", "codex", file("~/.codex/config.toml", f'openai_base_url = "{GATEWAY}"\n'), "openai", f'openai_base_url="{BASE}/openai/v1"'),
    ("gemini by variable", "gemini", variable("GOOGLE_GEMINI_BASE_URL"), "gemini", f"GOOGLE_GEMINI_BASE_URL={BASE}/gemini/v1"),
    ("gemini by .env", "gemini", file("~/.gemini/.env", f"GOOGLE_GEMINI_BASE_URL={GATEWAY}"), "gemini", f"GOOGLE_GEMINI_BASE_URL={BASE}/gemini/v1"),
    ("qwen by variable", "qwen", variable("OPENAI_BASE_URL"), "openai", f"OPENAI_BASE_URL={BASE}/openai/v1"),
    ("qwen by .env", "qwen", file(".qwen/.env", f"OPENAI_BASE_URL={GATEWAY}"), "openai", f"OPENAI_BASE_URL={BASE}/openai/v1"),
    ("aider by .env", "aider", file(".env", f"OPENAI_API_BASE={GATEWAY}"), "openai", f"OPENAI_BASE_URL={BASE}/openai/v1"),
    ("aider by its file", "aider", file("~/.aider.conf.yml", f"openai-api-base: {GATEWAY}"), "openai", f"OPENAI_BASE_URL={BASE}/openai/v1"),
    ("any by variable", "x", variable("OPENAI_API_BASE"), "openai", f"OPENAI_BASE_URL={BASE}/openai/v1"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "arrange", "upstream", "gets"), [row[1:] for row in OWN], ids=[row[0] for row in OWN]
)
def test_a_base_url_of_the_users_becomes_the_upstream(
    machine: Machine, program: str, arrange: Arrange, upstream: str, gets: str
) -> None:
    """It is named to the user, and the agent's URL names the upstream, so that every path goes there."""
    made = machine.run(program, **arrange(machine))
    assert made.upstreams[upstream] == GATEWAY
    assert gets in [*made.command, *(f"{name}={value}" for name, value in made.variables.items())]
    [line] = made.survey.lines
    assert line.endswith(f" is the upstream '{upstream}' of this run: {GATEWAY}")
    assert made.survey.needs_own


@pytest.mark.parametrize(
    ("url", "through"),
    [
        ("https://gw.example", "/anthropic"),
        ("https://gw.example/anthropic", "/anthropic"),
        ("https://gw.example/v1", "/anthropic/v1"),
        ("https://gw.example/v1/", "/anthropic/v1/"),
        ("https://gw.example/x/v1beta", "/anthropic/v1beta"),
    ],
)
def test_the_end_of_a_url_stays_with_the_agent(machine: Machine, url: str, through: str) -> None:
    """Agents append paths to it, and know a version by its place."""
    made = machine.run("claude", ANTHROPIC_BASE_URL=url)
    assert made.variables["ANTHROPIC_BASE_URL"] == f"{BASE}{through}"


def test_a_settings_file_of_claude_code_is_overruled_by_an_argument(machine: Machine) -> None:
    """Its `env` would beat the environment. The most particular file counts."""
    machine.write("~/.claude/settings.json", '{"env": {"ANTHROPIC_BASE_URL": "https://far.example"}}')
    machine.write(".claude/settings.json", json.dumps({"env": {"ANTHROPIC_BASE_URL": GATEWAY}}))
    made = machine.run("claude", "-p", "x", ANTHROPIC_BASE_URL="https://env.example")
    said = json.dumps({"env": {"ANTHROPIC_BASE_URL": f"{BASE}/anthropic/v1"}}, separators=(",", ":"))
    assert made.command == ("claude", "--settings", said, "-p", "x")
    assert made.upstreams == {"anthropic": GATEWAY}
    assert made.variables == {"ANTHROPIC_BASE_URL": f"{BASE}/anthropic/v1"}


def test_what_opencode_has_stays_in_its_files(machine: Machine) -> None:
    """Each provider with a base URL is an upstream of its own name; what stood in the variable stays in it."""
    machine.write(
        "~/.config/opencode/opencode.jsonc",
        '{"provider": {"My Local": {"options": {"baseURL": "http://10.0.0.1:8000/v1", "apiKey": "sk-secret"}},}} // x',
    )
    machine.write("opencode.json", json.dumps({"provider": {"anthropic": {"options": {"baseURL": GATEWAY}}}}))
    inline = {"model": "x/y", "provider": {"openai": {"options": {"baseURL": "https://other.example/v1"}}}}
    made = machine.run("opencode", OPENCODE_CONFIG_CONTENT=json.dumps(inline))
    assert json.loads(made.variables["OPENCODE_CONFIG_CONTENT"]) == {
        "model": "x/y",
        "provider": {
            "My Local": {"options": {"baseURL": f"{BASE}/my-local/v1"}},
            "anthropic": {"options": {"baseURL": f"{BASE}/anthropic/v1"}},
            "openai": {"options": {"baseURL": f"{BASE}/openai/v1"}},
            "google": {"options": {"baseURL": f"{BASE}/v1beta"}},
        },
    }
    assert made.upstreams == {
        "my-local": "http://10.0.0.1:8000/v1",
        "anthropic": GATEWAY,
        "openai": "https://other.example/v1",
    }


def test_pi_gets_the_providers_of_its_models_file(machine: Machine) -> None:
    """Beside the three that go without saying."""
    machine.write(
        "~/.pi/agent/models.json",
        json.dumps({"providers": {"mine": {"baseUrl": GATEWAY, "apiKey": "sk-secret"}}}),
    )
    made = machine.run("pi")
    first = made.files["stet.js"].splitlines()[0]
    assert json.loads(first.removeprefix("const pointed = ").removesuffix(";")) == {
        "mine": f"{BASE}/mine/v1",
        "anthropic": BASE,
        "openai": f"{BASE}/v1",
        "google": f"{BASE}/v1beta",
    }
    assert "sk-secret" not in made.files["stet.js"]


def test_cline_gets_a_copy_of_its_providers(machine: Machine) -> None:
    """With the base URLs alone changed, and that of anthropic put in where it goes without saying."""
    providers = {
        "anthropic": {"settings": {"provider": "anthropic", "apiKey": "sk-1"}},
        "openai-compatible": {"settings": {"provider": "openai-compatible", "baseUrl": GATEWAY}},
        "cline": {"settings": {"provider": "cline"}},
    }
    machine.write("~/.cline/data/settings/providers.json", json.dumps({"version": 1, "providers": providers}))
    made = machine.run("cline", "two words")
    assert made.variables == {
        "CLINE_PROVIDER_SETTINGS_PATH": "TMP/providers.json",
        "CLINE_SESSION_BACKEND_MODE": "local",
    }
    assert made.files["providers.json"] == {
        "version": 1,
        "providers": {
            "anthropic": {"settings": {"provider": "anthropic", "apiKey": "sk-1", "baseUrl": f"{BASE}/v1"}},
            "openai-compatible": {
                "settings": {"provider": "openai-compatible", "baseUrl": f"{BASE}/openai-compatible/v1"}
            },
            "cline": {"settings": {"provider": "cline"}},
        },
    }
    assert made.upstreams == {"openai-compatible": GATEWAY}


MODELS = [
    {"name": "a", "provider": "anthropic", "apiKey": "sk-secret"},
    {"name": "b", "provider": "openai", "apiBase": GATEWAY, "apiKey": "${{ secrets.B }}"},
    {"name": "c", "provider": "openai", "apiBase": "https://second.example/v1"},
    {"name": "d", "provider": "mistral"},
]


@pytest.mark.parametrize("given", [False, True])
def test_continue_gets_a_copy_without_its_keys(machine: Machine, given: bool) -> None:
    """Keys go by the environment and are referred to; a file of the user's own choice is the one that is copied."""
    machine.write(
        "mine.yaml" if given else "~/.continue/config.yaml", yaml.safe_dump({"name": "x", "models": MODELS})
    )
    made = machine.run("cn", *(["--config", "mine.yaml"] if given else []), "-p", "x")
    assert made.command == ("cn", "--config", "TMP/config.yaml", "-p", "x")
    assert made.variables == {"CONTINUE_KEY_1": "sk-secret"}
    assert made.files["config.yaml"] == {
        "name": "x",
        "models": [
            {
                "name": "a",
                "provider": "anthropic",
                "apiKey": "${{ secrets.CONTINUE_KEY_1 }}",
                "apiBase": f"{BASE}/v1/",
            },
            {"name": "b", "provider": "openai", "apiBase": f"{BASE}/openai/v1", "apiKey": "${{ secrets.B }}"},
            {"name": "c", "provider": "openai", "apiBase": f"{BASE}/openai-2/v1"},
            {"name": "d", "provider": "mistral"},
        ],
    }
    assert made.upstreams == {"openai": GATEWAY, "openai-2": "https://second.example/v1"}


def test_qwens_list_of_providers_goes_into_system_settings(machine: Machine) -> None:
    """And nothing else of its settings."""
    models = {"openai": [{"id": "q", "baseUrl": GATEWAY, "envKey": "K"}, {"id": "r", "envKey": "K"}]}
    machine.write("~/.qwen/settings.json", json.dumps({"env": {"K": "sk-secret"}, "modelProviders": models}))
    made = machine.run("qwen")
    assert made.variables["QWEN_CODE_SYSTEM_SETTINGS_PATH"] == "TMP/settings.json"
    assert made.files["settings.json"] == {
        "modelProviders": {
            "openai": [{"id": "q", "baseUrl": f"{BASE}/openai/v1", "envKey": "K"}, {"id": "r", "envKey": "K"}]
        }
    }


# -- special cases --------------------------------------------------------------------------------------------


def test_codex_with_a_chatgpt_login_goes_on_to_chatgpt(machine: Machine) -> None:
    """Codex is asked; a key in the environment beats the login."""
    machine.said = "Logged in using ChatGPT\n"
    made = machine.run("codex", "exec", "x")
    assert made.command == ("codex", "-c", f'openai_base_url="{BASE}/chatgpt"', "exec", "x")
    assert made.upstreams == {"chatgpt": "https://chatgpt.com/backend-api/codex"}
    assert machine.run("codex", CODEX_API_KEY="k").upstreams == {}
    machine.said = "Logged in using an API key - sk-...\n"
    assert machine.run("codex").upstreams == {}


def test_gemini_with_a_key_alone_is_told_how_to_log_in(machine: Machine) -> None:
    """It refuses a base URL without a chosen login. A choice of the user's, or a default of theirs, stays."""
    made = machine.run("gemini", GEMINI_API_KEY="k")
    name = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
    assert made.variables[name] == f"TMP/{name}.json"
    assert made.files[f"{name}.json"] == {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    for env in ({"GOOGLE_GENAI_USE_GCA": "true"}, {name: "/mine.json"}):
        assert name not in machine.run("gemini", GEMINI_API_KEY="k", **env).variables


@pytest.mark.parametrize(
    ("env", "given"),
    [({"ENABLE_TOOL_SEARCH": "auto"}, False), ({"ANTHROPIC_BASE_URL": GATEWAY}, False), ({}, True)],
)
def test_tool_search_is_left_to_the_user_and_to_anthropic(
    machine: Machine, env: dict[str, str], given: bool
) -> None:
    """It is asked for where nobody has decided and the upstream is Anthropic itself."""
    made = machine.run("claude", given=["anthropic=http://127.0.0.1:1"] if given else (), **env)
    assert "ENABLE_TOOL_SEARCH" not in made.variables


def test_the_command_line_beats_what_is_set(machine: Machine) -> None:
    """And the user is told that it does."""
    made = machine.run("claude", given=["anthropic=http://10.0.0.1"], ANTHROPIC_BASE_URL=GATEWAY)
    assert made.upstreams == {}
    assert made.variables == {"ANTHROPIC_BASE_URL": BASE}
    assert made.survey.lines == ("ANTHROPIC_BASE_URL is left aside: --upstream names 'anthropic'",)


@pytest.mark.parametrize(
    "url", ["https://api.anthropic.com", "https://api.anthropic.com/", "http://localhost:8787"]
)
def test_the_vendors_own_address_and_ours_are_no_upstreams(machine: Machine, url: str) -> None:
    """Who exported what the README says is not sent round in a circle."""
    made = machine.run("claude", ANTHROPIC_BASE_URL=url)
    assert made.upstreams == {}
    assert made.survey.lines == ()
    assert made.variables["ANTHROPIC_BASE_URL"].rstrip("/") == BASE


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("gw.example/v1", "ANTHROPIC_BASE_URL: upstream 'anthropic' has no usable URL"),
        (
            "https://me:sk-secret@gw.example",
            "ANTHROPIC_BASE_URL: upstream 'anthropic' has a password in its URL",
        ),
    ],
)
def test_a_url_that_cannot_be_used_is_named_with_its_place(machine: Machine, url: str, said: str) -> None:
    """And a password in it is not repeated."""
    with pytest.raises(SettingsError) as caught:
        machine.run("claude", ANTHROPIC_BASE_URL=url)
    assert str(caught.value).startswith(said)
    assert "sk-secret" not in str(caught.value)


def test_a_variable_that_leads_elsewhere_is_told(machine: Machine) -> None:
    """With Bedrock no base URL of ours is asked."""
    assert "Amazon Bedrock" in machine.run("claude", CLAUDE_CODE_USE_BEDROCK="1").survey.unpointed
    assert machine.run("claude", CLAUDE_CODE_USE_BEDROCK="0").survey.unpointed == ""


@pytest.mark.parametrize(
    ("env", "added"),
    [
        ({}, {}),
        (
            {"HTTP_PROXY": "http://p:1"},
            {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"},
        ),
        (
            {"https_proxy": "http://p:1", "no_proxy": "a.example"},
            {"no_proxy": "a.example,127.0.0.1,localhost"},
        ),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "127.0.0.1"}, {}),
    ],
)
def test_behind_a_forward_proxy_this_machine_is_asked_directly(
    machine: Machine, env: dict[str, str], added: dict[str, str]
) -> None:
    """What the user excepted stays excepted."""
    made = machine.run("claude", **env)
    assert {name: value for name, value in made.variables.items() if name.lower() == "no_proxy"} == added


def test_no_file_of_the_users_is_written(machine: Machine) -> None:
    """Of all agents, with all their files there, none changes a byte or adds a file."""
    machine.write("~/.claude/settings.json", json.dumps({"env": {"ANTHROPIC_BASE_URL": GATEWAY}}))
    machine.write("~/.codex/config.toml", CODEX)
    machine.write(
        "~/.config/opencode/opencode.json", json.dumps({"provider": {"x": {"options": {"baseURL": GATEWAY}}}})
    )
    machine.write("~/.qwen/settings.json", json.dumps({"modelProviders": {"openai": [{"baseUrl": GATEWAY}]}}))
    machine.write("~/.pi/agent/models.json", json.dumps({"providers": {"mine": {"baseUrl": GATEWAY}}}))
    machine.write(
        "~/.cline/data/settings/providers.json",
        json.dumps({"providers": {"a": {"settings": {"baseUrl": GATEWAY}}}}),
    )
    machine.write("~/.continue/config.yaml", yaml.safe_dump({"models": MODELS}))
    machine.write(".env", f"OPENAI_API_BASE={GATEWAY}\n")
    before = _contents(machine)
    for recipe in recipes():
        for program in recipe.programs:
            machine.run(program, "x y", GEMINI_API_KEY="k")
    assert _contents(machine) == before


def _contents(machine: Machine) -> dict[str, tuple[bytes, int]]:
    return {
        os.path.relpath(path, machine.home): (path.read_bytes(), path.stat().st_mtime_ns)
        for folder in (machine.home, machine.project)
        for path in folder.rglob("*")
        if path.is_file()
    }
