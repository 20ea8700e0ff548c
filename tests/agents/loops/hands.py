"""What the tools of the loops do, for all of them alike. Each loop is a program: its argument has one prompt a line."""

import subprocess
import sys
from pathlib import Path

READ = {
    "name": "read_file",
    "description": "Read a text file whole. "
    + "Prefer it over a shell command, and give an absolute path. " * 20,
    "schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
RUN = {
    "name": "run_commands",
    "description": "Run shell commands. "
    + "Keep them short, and look at what they print before going on. " * 20,
    "schema": {
        "type": "object",
        "properties": {"commands": {"type": "array", "items": {"type": "string"}}},
        "required": ["commands"],
    },
}
TOOLS = (READ, RUN)
SYSTEM = (
    "You are a careful programmer. "
    + "Look at the code before you say what it does, and say it briefly. " * 60
)


def prompts() -> list[str]:
    return sys.argv[1].splitlines()


def do(name: str, given: dict) -> str:
    if name == "read_file":
        return Path(given["path"]).read_text()
    done = [
        subprocess.run(one, shell=True, capture_output=True, text=True).stdout for one in given["commands"]
    ]
    return "".join(done)
