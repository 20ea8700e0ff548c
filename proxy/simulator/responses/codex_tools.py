"""The tools and instructions of a client in the shape of Codex, as long as real ones."""

from typing import Any

Json = dict[str, Any]

_LINE = (
    "Work in the repository you are given, keep changes small, and say plainly what was done and what was not. "
    "Prefer reading over guessing; run the checks that the project has before calling anything finished. "
)
PROSE = "You are a coding agent that runs in a terminal on the computer of its user.\n\n" + _LINE * 80
"""Instructions of some 17 kB."""

_GRAMMAR = (
    'start: begin_patch hunk+ end_patch\nbegin_patch: "*** Begin Patch" LF\nend_patch: "*** End Patch" LF?\n'
    "hunk: add_hunk | delete_hunk | update_hunk\n"
)


def _function(name: str, says: str, required: list[str], **properties: str) -> Json:
    return {
        "type": "function",
        "name": name,
        "description": f"{says} {_LINE * 16}",
        "strict": False,
        "parameters": {
            "type": "object",
            "properties": {key: {"type": kind, "description": _LINE} for key, kind in properties.items()},
            "required": required,
            "additionalProperties": False,
        },
    }


def function_tools() -> list[Json]:
    """Function tools and one custom tool, some 18 kB."""
    return [
        _function(
            "exec_command",
            "Runs a command in a PTY, returning output or a session id.",
            ["cmd"],
            cmd="string",
            workdir="string",
            yield_time_ms="number",
            max_output_tokens="number",
        ),
        _function(
            "write_stdin",
            "Writes characters to a running session.",
            ["session_id"],
            session_id="number",
            chars="string",
        ),
        _function("update_plan", "Updates the task plan.", ["plan"], explanation="string", plan="string"),
        _function("view_image", "Attaches an image file.", ["path"], path="string"),
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Edits files. This is a freeform tool, so do not wrap the patch in JSON.",
            "format": {"type": "grammar", "syntax": "lark", "definition": _GRAMMAR},
        },
        {"type": "web_search", "external_web_access": False},
    ]


def namespace() -> Json:
    """The tools of a client whose model writes code, some 26 kB."""
    return {
        "type": "namespace",
        "name": "functions",
        "description": "Tools of the client.",
        "tools": [
            {
                "type": "custom",
                "name": "exec",
                "description": f"Runs JavaScript with all tools in scope. {_LINE * 120}",
                "format": {"type": "text"},
            },
            _function("wait", "Waits for a script that still runs.", ["id"], id="string"),
        ],
    }
