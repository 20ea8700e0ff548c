"""Installs one version of an npm package, once, into a cache outside the checkout.

The folder of a version appears by a rename, so it is either complete or absent; a lock file keeps two test
workers from installing the same version twice.
"""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

INSTALL_SECONDS = 600


class Unavailable(Exception):
    """The package cannot be had on this machine: npm is missing, or the registry did not deliver."""


def cache_root() -> Path:
    """Where agents are kept: `STET_AGENTS_CACHE`, else `~/.cache/stet-agents`."""
    return Path(os.environ.get("STET_AGENTS_CACHE") or Path.home() / ".cache" / "stet-agents")


def installed(package: str, version: str, *, cache: Path | None = None) -> Path:
    """The `node_modules/.bin` folder of this package version, installed first where it is not there yet.

    Raises `Unavailable` with a reason a person can act on.
    """
    cache = cache or cache_root()
    cache.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^A-Za-z0-9.-]", "-", package.rpartition("/")[2])
    home = cache / f"{name}@{version}"
    with exclusive(cache / f".{home.name}.lock"):
        if not home.is_dir():
            _install(f"{package}@{version}", home)
    return home / "node_modules" / ".bin"


def _install(spec: str, home: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable(f"{spec}: npm is not on PATH")
    staging = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
    try:
        # A prefix of its own keeps npm from walking up to somebody else's package.json.
        command = [npm, "install", "--prefix", str(staging), "--no-audit", "--no-fund", "--no-save", spec]
        try:
            done = subprocess.run(
                command, cwd=staging, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as late:
            raise Unavailable(f"{spec}: npm install took longer than {INSTALL_SECONDS} s") from late
        if done.returncode != 0:
            last = [line for line in done.stderr.splitlines() if line.strip()][:3]
            raise Unavailable(f"{spec}: npm install failed: {' | '.join(last) or f'exit {done.returncode}'}")
        staging.rename(home)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds an advisory lock; the system lets go of it when the holder dies."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
