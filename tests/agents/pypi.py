"""Installs pinned packages from a Python index, once, into a virtual environment in the cache of agents."""

import shutil
import subprocess
import sys
from pathlib import Path

from .npm import INSTALL_SECONDS, Unavailable, cache_root, exclusive


def installed(name: str, requirements: tuple[str, ...], *, cache: Path | None = None) -> Path:
    """The `bin` folder of an environment with these; `name` is its folder's, and says which they are.

    An environment cannot be renamed when it is finished; a file that is written last says that it is.

    Raises `Unavailable` with a reason a person can act on.
    """
    cache = cache or cache_root()
    cache.mkdir(parents=True, exist_ok=True)
    home = cache / name
    finished = home / "finished"
    wanted = "\n".join(requirements)
    with exclusive(cache / f".{name}.lock"):
        if not finished.exists() or finished.read_text() != wanted:
            shutil.rmtree(home, ignore_errors=True)
            _install(home, requirements)
            finished.write_text(wanted)
    return home / "bin"


def _install(home: Path, requirements: tuple[str, ...]) -> None:
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(home)], [*pip, *requirements]):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as late:
            raise Unavailable(f"{home.name}: pip took longer than {INSTALL_SECONDS} s") from late
        if done.returncode != 0:
            last = [line for line in done.stderr.splitlines() if "ERROR" in line][:2]
            raise Unavailable(f"{home.name}: pip failed: {' | '.join(last) or f'exit {done.returncode}'}")
