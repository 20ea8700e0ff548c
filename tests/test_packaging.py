"""What `pip install` gives people: the wheel, alone in an environment of its own, used from another folder."""

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

MEGABYTE = 1_000_000

UNREACHABLE = (
    "NewConnectionError",
    "NameResolutionError",
    "Failed to resolve",
    "ConnectTimeoutError",
    "ProxyError",
)
"""What pip says when there is no registry: then the wheel cannot be built or installed here at all."""


def run(
    *command: str | Path, cwd: Path, seconds: int = 300, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command in an environment without this checkout's: no PYTHONPATH, no active venv."""
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "COV_", "COVERAGE"))
    }
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=kept | (env or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def pip(*arguments: str | Path, python: Path, cwd: Path) -> None:
    done = run(python, "-m", "pip", "--disable-pip-version-check", *arguments, cwd=cwd, seconds=600)
    if done.returncode and any(sign in done.stdout + done.stderr for sign in UNREACHABLE):
        pytest.skip("no package registry can be reached from here: the wheel is not tested")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout by its own build backend."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, python=Path(sys.executable), cwd=folder)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment that holds the wheel and what it needs, nothing of ours."""
    home = tmp_path_factory.mktemp("installed") / "env"
    venv.create(home, with_pip=True)
    pip("install", "--quiet", wheel, python=home / "bin" / "python", cwd=home)
    return home


def test_the_readme_opens_with_the_two_commands_people_need() -> None:
    """The demo comes first, then the tests; CI runs the marked one word for word."""
    text = (ROOT / "README.md").read_text()
    first, second = re.findall(r"```bash\n(.*?)\n```", text, re.DOTALL)[:2]
    assert first == "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/stet demo"
    assert second == "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest -n auto"
    assert f"<!-- test-command -->\n```bash\n{second}\n```" in text


def test_the_wheel_holds_the_package_and_its_configuration(wheel: Path) -> None:
    """Every file of proxy/ and config/ is in the wheel, and nothing else but the metadata."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = {
        f"{prefix}{path.relative_to(ROOT / folder)}"
        for folder, prefix in (("proxy", "proxy/"), ("config", "proxy/config/"))
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert "proxy/config/models.yaml" in expected
    assert names == expected


def test_the_import_name_belongs_to_this_distribution_alone(environment: Path, tmp_path: Path) -> None:
    """Another project on the registry has the import name `proxy` as well; in a clean environment it is ours."""
    ask = 'import importlib.metadata as m; print(m.packages_distributions()["proxy"])'
    done = run(environment / "bin" / "python", "-c", ask, cwd=tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("['stet-proxy']", "")


def test_shipped_files_are_found_where_they_were_installed(environment: Path, tmp_path: Path) -> None:
    """The installed package reads its own copy of the configuration, not the checkout's."""
    ask = 'from proxy.shipped import config_dir; print(config_dir().joinpath("models.yaml"))'
    done = run(environment / "bin" / "python", "-c", ask, cwd=tmp_path)
    found = Path(done.stdout.strip())
    assert found.is_relative_to(environment), done.stderr
    assert found.read_text() == (ROOT / "config" / "models.yaml").read_text()


def test_the_installation_is_small(environment: Path) -> None:
    """With all it needs, and compiled, an installation stays below 60 MB."""
    [site] = environment.glob("lib/python*/site-packages")
    brought_by_venv = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
    size = sum(
        path.stat().st_size
        for path in site.rglob("*")
        if path.is_file() and not path.relative_to(site).parts[0].startswith(brought_by_venv)
    )
    assert 5 * MEGABYTE < size < 60 * MEGABYTE


def test_the_demo_runs_from_any_folder(environment: Path, tmp_path: Path) -> None:
    """`stet demo --json` needs no key and no network, and prints one JSON document."""
    done = run(environment / "bin" / "stet", "demo", "--json", cwd=tmp_path, env={"HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_a_policy_elsewhere_is_checked(environment: Path, tmp_path: Path) -> None:
    """`stet check` accepts a policy of the user's own that extends a shipped one."""
    (tmp_path / "mine.yaml").write_text("extends: default\n")
    done = run(environment / "bin" / "stet", "check", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_policy_is_refused_with_its_place(environment: Path, tmp_path: Path) -> None:
    """A word the policy does not know is an error at its file, line and column, not a traceback."""
    (tmp_path / "mine.yaml").write_text("extends: default\nno_such_stage: true\n")
    done = run(environment / "bin" / "stet", "check", "mine.yaml", cwd=tmp_path)
    said = done.stdout + done.stderr
    assert done.returncode not in {0, None}
    assert "mine.yaml:2:" in said
    assert "Traceback" not in said
