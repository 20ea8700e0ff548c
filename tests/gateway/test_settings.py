"""Settings come from flag, variable, file and default, in that order, and say where they are wrong."""

from pathlib import Path

import pytest

from proxy.errors import ConfigError, SettingsError
from proxy.gateway.banner import banner
from proxy.gateway.settings import FileSettings, Settings, resolve
from proxy.gateway.values import DEFAULT_UPSTREAMS, Address, Upstream, is_loopback
from proxy.shipped import read_shipped
from proxy.yamlfile import load

HOME = {"HOME": "/home/u"}


def test_defaults():
    """With nothing said it listens on loopback, keeps state in the home, and knows three providers."""
    assert resolve({}, HOME) == Settings(state="/home/u/.local/state/stet")
    assert resolve({}, {"XDG_STATE_HOME": "/x"}).state == "/x/stet"
    assert dict(resolve({}, HOME).upstreams) == dict(DEFAULT_UPSTREAMS)


def test_the_shipped_file_says_the_defaults(tmp_path):
    """The commented example is true: read as it stands it changes nothing."""
    place, text = read_shipped("proxy.yaml")
    file = tmp_path / "proxy.yaml"
    file.write_text(text)
    assert resolve({}, HOME, file) == resolve({}, HOME)
    named = {line.split(":")[0].strip("# ") for line in text.splitlines() if ":" in line}
    assert set(FileSettings.__struct_fields__) <= named, place


def test_flag_beats_variable_beats_file(tmp_path):
    """One setting from each place."""
    file = tmp_path / "s.yaml"
    file.write_text("listen: 127.0.0.1:1\nmode: observe\nlog: json\ndrain: 2m\n")
    env = {**HOME, "STET_LISTEN": "127.0.0.1:2", "STET_MODE": "apply", "STET_PORT": "tcp://10.0.0.1:80"}
    got = resolve({"listen": "127.0.0.1:3", "mode": None}, env, file)
    assert (got.listen, got.mode, got.log, got.drain) == (Address("127.0.0.1", 3), "apply", "json", 120.0)
    assert resolve({}, {**HOME, "STET_CONFIG": str(file)}).mode == "observe"


def test_upstreams_are_laid_over_the_known_ones(tmp_path):
    """By flag, by variable, by file; a fragment or a key names the profile; a trailing slash goes."""
    local = Upstream("local", "http://127.0.0.1:8000/api", "vllm")
    file = tmp_path / "s.yaml"
    file.write_text(
        "upstreams:\n  local: {url: 'http://127.0.0.1:8000/api/', profile: vllm}\n  openai: http://h:1\n"
    )
    assert resolve({}, HOME, file).upstreams == {
        **DEFAULT_UPSTREAMS,
        "local": local,
        "openai": Upstream("openai", "http://h:1"),
    }
    assert resolve({"upstreams": ["local=http://127.0.0.1:8000/api#vllm"]}, HOME).upstreams["local"] == local
    assert (
        resolve({"upstreams": ["local=http://127.0.0.1:8000/api/,profile=vllm"]}, HOME).upstreams["local"]
        == local
    )
    env = {**HOME, "STET_UPSTREAMS": "a=http://a , profile = llama.cpp, b=https://b:1/x,c=http://c#ollama"}
    found = resolve({}, env).upstreams
    assert [found[name] for name in "abc"] == [
        Upstream("a", "http://a", "llama.cpp"),
        Upstream("b", "https://b:1/x"),
        Upstream("c", "http://c", "ollama"),
    ]


PROFILES = ("anthropic", "llama.cpp", "vllm")
KNOWN = "known: anthropic, llama.cpp, vllm"


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ("local=http://h,profile=vlm", "no upstream profile 'vlm', did you mean 'vllm'? "),
        ("local=http://h#9000", "no upstream profile '9000'; "),
        ("local=http://h,profile=", "no upstream profile ''; "),
    ],
)
def test_a_profile_that_no_table_has_is_told_with_all_there_are(written, line):
    """On the command line and in a variable."""
    for flags, env, place in (
        ({"upstreams": [written]}, HOME, "--upstream"),
        ({}, {**HOME, "STET_UPSTREAMS": written}, "STET_UPSTREAMS"),
    ):
        with pytest.raises(SettingsError) as fault:
            resolve(flags, env, profiles=PROFILES)
        assert str(fault.value) == f"{place}: upstream 'local': {line}{KNOWN}"
    assert resolve({"upstreams": ["local=http://h,profile=vllm"]}, HOME, profiles=PROFILES)


@pytest.mark.parametrize(
    ("entry", "start"),
    [
        (
            "{url: 'http://h', profile: vlm}",
            ":2:37: upstream 'local': no upstream profile 'vlm', did you mean 'vllm'? ",
        ),
        ("http://h#nothing", ":2:10: upstream 'local': no upstream profile 'nothing'; "),
    ],
)
def test_a_profile_in_the_file_is_told_where_it_stands(tmp_path, entry, start):
    """Line and column of the profile, or of the URL that names it."""
    file = tmp_path / "s.yaml"
    file.write_text(f"upstreams:\n  local: {entry}\n")
    with pytest.raises(ConfigError) as fault:
        resolve({}, HOME, file, PROFILES)
    assert str(fault.value) == f"{file}{start}{KNOWN}"


def test_paths_in_the_file_are_relative_to_the_file(tmp_path):
    """A name stays a name, a path is found beside the file."""
    file = tmp_path / "s.yaml"
    file.write_text("policy: mine/p.yaml\nstate: memory\n")
    got = resolve({}, HOME, file)
    assert (got.policy, got.state) == (str(tmp_path / "mine/p.yaml"), "memory")


SIZES = {
    "64MiB": 2**26,
    "100MB": 10**8,
    "1GiB": 2**30,
    "2097152": 2**21,
    "1.5 mib": 3 * 2**19,
    5000000: 5000000,
}


@pytest.mark.parametrize("text", SIZES)
def test_sizes(text):
    """Bytes, decimal and binary units."""
    assert resolve({"max_body": text}, HOME).max_body == SIZES[text]


ADDRESSES = {
    "127.0.0.1:8787": Address("127.0.0.1", 8787),
    "[::1]:0": Address("::1", 0),
    ":9000": Address("0.0.0.0", 9000),
    "localhost:1": Address("localhost", 1),
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_addresses(text):
    """Host and port, brackets for the long kind, nothing for everywhere."""
    assert resolve({"listen": text}, HOME).listen == ADDRESSES[text]


def test_admin_beyond_this_machine_needs_a_token():
    """Recent turns are not for everyone on the network; on loopback, or with a token, there is nothing to refuse."""
    for admin in ("0.0.0.0:8788", "10.0.0.7:8788", ":8788"):
        with pytest.raises(SettingsError, match=r"^admin: .* other machines .*; set STET_ADMIN_TOKEN"):
            resolve({"admin": admin}, HOME)
        assert resolve({"admin": admin}, {**HOME, "STET_ADMIN_TOKEN": "t"}).admin.port == 8788
    for admin in ("127.0.0.1:8788", "[::1]:8788", "localhost:8788", "off"):
        resolve({"admin": admin}, HOME)


def test_admin_can_be_off():
    """`off` means none."""
    assert resolve({"admin": "off"}, HOME).admin is None


WRONG = [
    (
        {"listen": "8787"},
        "--listen: '8787' is no address to listen on; write HOST:PORT, as in 127.0.0.1:8787",
    ),
    (
        {"listen": "::1:80"},
        "--listen: '::1:80' is no address to listen on; write HOST:PORT, as in 127.0.0.1:8787",
    ),
    (
        {"listen": "a:99999"},
        "--listen: 'a:99999' is no address to listen on; write HOST:PORT, as in 127.0.0.1:8787",
    ),
    ({"mode": "watch"}, "--mode: 'watch' is not one of them; write apply or observe"),
    ({"max_body": "big"}, "--max-body: 'big' is no size; write bytes or a unit, as in 64MiB"),
    ({"max_body": "9k"}, "--max-body: 9000 bytes is too small for any agent; write at least 1MiB"),
    ({"drain": "-1"}, "--drain: '-1' is no duration; write seconds or a unit, as in 60s"),
    (
        {"websocket": "open"},
        "--websocket: 'open' is not one of them; write refuse or tunnel",
    ),
    (
        {"upstreams": ["local"]},
        "--upstream: 'local' is no upstream; write NAME=URL, as in local=http://127.0.0.1:8000",
    ),
    (
        {"upstreams": ["stet=http://h"]},
        "--upstream: 'stet' cannot name an upstream; use lower-case letters and digits, not 'stet' or 'v1'",
    ),
    (
        {"upstreams": ["v1beta=http://h"]},
        "--upstream: 'v1beta' cannot name an upstream; use lower-case letters and digits, not 'stet' or 'v1'",
    ),
    (
        {"upstreams": ["a=h:8000"]},
        "--upstream: upstream 'a' has no usable URL; write http:// or https://, a host, maybe a path",
    ),
    (
        {"upstreams": ["a=http://[::1"]},
        "--upstream: upstream 'a' has no usable URL; write http:// or https://, a host, maybe a path",
    ),
    (
        {"upstreams": ["a=http://h,profil=vllm"]},
        "--upstream: upstream 'a' has no usable URL; write http:// or https://, a host, maybe a path",
    ),
    (
        {"upstreams": ["a=http://u:sk-SECRET@h"]},
        "--upstream: upstream 'a' has a password in its URL; let the agent send its own key",
    ),
    (
        {"default_upstream": "x"},
        "default_upstream: no upstream is named 'x'; write one of anthropic, openai, gemini",
    ),
    (
        {"upstreams": ["anthropic=http://localhost:8787"]},
        "upstreams: upstream 'anthropic' is this server itself; write the provider's own URL",
    ),
    ({"policy": " "}, "--policy: is empty; leave it out or give it a value"),
]


@pytest.mark.parametrize(("flags", "line"), WRONG)
def test_a_bad_setting_is_one_line_with_place_and_cure(flags, line):
    """Where it came from, what is wrong, what to write."""
    with pytest.raises(SettingsError) as fault:
        resolve(flags, HOME)
    assert str(fault.value) == line


def test_a_bad_variable_is_named():
    """A variable is named by its own name."""
    with pytest.raises(SettingsError) as fault:
        resolve({}, {**HOME, "STET_DRAIN": "soon"})
    assert str(fault.value).startswith("STET_DRAIN: ")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("mode: apply\nlisten: nowhere\n", ":2:9: 'nowhere' is no address"),
        ("lissen: a\n", ":1:1: unknown key 'lissen'"),
        ("upstreams:\n  local: ftp://x\n", ":2:10: upstream 'local' has no usable URL"),
        ("mode: watch\n", ":1:7: "),
    ],
)
def test_a_bad_file_is_named_by_line_and_column(tmp_path, text, start):
    """The place in the file, as an editor finds it."""
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as fault:
        resolve({}, HOME, file)
    assert str(fault.value).startswith(f"{file}{start}")


def test_a_missing_file_is_named():
    """The path that was asked for."""
    with pytest.raises(ConfigError, match=r"/nowhere/s\.yaml"):
        resolve({}, HOME, Path("/nowhere/s.yaml"))


LOOPBACK = {"127.0.0.1": True, "127.9.9.9": True, "[::1]": True, "localhost": True, "a.localhost": True}
BEYOND = {"0.0.0.0": False, "10.0.0.1": False, "localhost.evil.example": False, "127.0.0.1.nip.io": False}


@pytest.mark.parametrize("host", [*LOOPBACK, *BEYOND])
def test_loopback(host):
    """Addresses and names of this machine, and nothing that merely begins like one."""
    assert is_loopback(host) is {**LOOPBACK, **BEYOND}[host]


def test_the_banner_points_each_agent_here():
    """Every line holds the address that was really taken; reachability is said aloud."""
    got = banner(Settings(), Address("0.0.0.0", 9999), Address("127.0.0.1", 9998), {})
    assert got[0] == "stet listens on http://127.0.0.1:9999 (policy default, mode apply)"
    assert got[2].startswith("it can be reached from other machines")
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1:9999 claude" in "\n".join(got)
    assert "http://127.0.0.1:9998: /healthz" in "\n".join(got)
    assert len(banner(Settings(), Address("127.0.0.1", 1), None, {})) == len(got) - 2


def test_the_file_has_a_place_for_every_setting(tmp_path):
    """What a flag can say, the file can say."""
    assert set(FileSettings.__struct_fields__) == set(Settings.__struct_fields__)
    file = tmp_path / "s.yaml"
    file.write_text("{}\n")
    assert load(file, FileSettings) == FileSettings()


@pytest.mark.parametrize(
    ("given", "directory", "shown"),
    [
        ({}, "/x/stet/spool", "/x/stet/spool"),
        ({"listen": "0.0.0.0:1"}, "/x/stet/spool", ""),
        ({"spool_path": "off"}, "/x/stet/spool", ""),
        ({"listen": "0.0.0.0:1", "spool_path": "/mnt/spool"}, "/x/stet/spool", "/mnt/spool"),
        ({"spool": "off"}, None, ""),
        ({"state": "memory"}, None, ""),
        ({"state": "memory", "spool": "/y"}, "/y", "/y"),
        ({"state": "/z", "spool": "/y"}, "/y", "/y"),
    ],
)
def test_where_huge_outputs_are_kept_and_found(given, directory, shown):
    """Beside the ledger, found there by who connects over loopback, unless it is said otherwise."""
    got = resolve(given, {"XDG_STATE_HOME": "/x"})
    assert (str(got.spool_directory) if got.spool_directory else None, got.spool_shown) == (directory, shown)


def test_how_much_is_kept_and_how_long():
    """In units that people write."""
    got = resolve({"spool_size": "1GiB", "spool_age": "2d"}, HOME)
    assert (got.spool_size, got.spool_age) == (1 << 30, 172_800.0)
