"""The scripted coding agent: it keeps a history, runs what the model asks for, and sends all of it again each turn.

A request that is refused changes nothing in the history, so the next turn sends the same one again: a client that
broke its own history is stuck, and each later turn counts as refused. Real clients do the same until their person
gives up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ..simulator import Clock
from . import faults
from .plan import INTERRUPTED, INTERRUPTION, TASKS, Task
from .project import ROOT, Json, image, prose, result, system_prompt, tools
from .sessions import Disposition
from .wire import Answered, Wire

SECONDS_A_TURN = 12.0
"""From one request to the next, while the model and its tools work."""


def headers(session: Disposition, key: str) -> dict[str, str]:
    """The headers of a client; `key` stands for an account, so that no two sessions share a cache."""
    agent = "claude-cli/2.1.332 (external, cli)" if session.reminds else "scripted-agent/1.0"
    named = {"x-claude-code-session-id": f"session-of-{key}"} if session.reminds else {}
    return {"x-api-key": key, "anthropic-version": "2023-06-01", "user-agent": agent, **named}


class CodingAgent:
    """One conversation of one client. `pause`: seconds until it sends its next request."""

    def __init__(
        self,
        session: Disposition,
        wire: Wire,
        clock: Clock,
        results: Callable[[Json], Json] = result,
        tasks: Iterable[Task] = TASKS,
        interrupted: int | None = INTERRUPTED,
    ) -> None:
        """`results`: what a call of a tool gives; `tasks`: what the person asks for; `interrupted`: the answer whose
        calls they stop."""
        self._interrupted = interrupted
        self._session = session
        self._results = results
        self.wire = wire
        self._clock = clock
        self._tools = tools()
        self._system = system_prompt()
        self._messages: list[Json] = []
        self._answers = 0
        self._tasks = iter(tasks)
        self.pause = 0.0
        self._ask(next(self._tasks))

    def turn(self) -> Answered:
        """Send the next request, and take in how it is answered."""
        answered = self.wire.post(self.body())
        self.pause = SECONDS_A_TURN
        if answered.content is not None:
            self._go_on(answered.content)
        return answered

    def body(self) -> Json:
        """The next request, whole."""
        session = self._session
        messages = [*self._opening(), *self._messages]
        system: str | list[Json] = f"{self._system}{self._time()}"
        if session.marks:
            messages[-1] = _marked(messages[-1])
            system = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
        return {
            "model": session.model,
            "messages": messages,
            "system": system,
            "tools": self._tools,
            "max_tokens": 32000,
            "thinking": {"type": "adaptive"},
            "stream": session.marks,
        }

    def _now(self, form: str) -> str:
        return time.strftime(form, time.gmtime(self._clock()))

    def _time(self) -> str:
        if not self._session.clock:
            return ""
        return f"\n\n# Environment\nWorking directory: {ROOT}\n" + self._now(
            "Today's date: %Y-%m-%d\nCurrent time: %H:%M:%S\n"
        )

    def _opening(self) -> list[Json]:
        """Reminders in front of the conversation, as they are true now."""
        if not self._session.reminds:
            return []
        date = self._now("Today's date is %Y-%m-%d.")
        text = (
            "<system-reminder>\nAs you answer the user's questions, you can use the following context:\n"
            f"# claudeMd\nCodebase and user instructions are shown below.\n\n{prose('project file', 1500)}\n"
            f"# currentDate\n{date}\n\n      IMPORTANT: this context may or may not be relevant to your tasks.\n"
            "</system-reminder>\n"
        )
        return [{"role": "user", "content": [{"type": "text", "text": text}]}]

    def _ask(self, task: Task) -> None:
        self.pause += task.pause
        shown = [image(task.shows)] if task.shows else []
        said = [*shown, {"type": "text", "text": task.says}] if shown else task.says
        self._messages.append({"role": "user", "content": said})

    def _go_on(self, content: list[Json]) -> None:
        """Take an answer into the history, and answer it: with results, or with the person's next wish."""
        step, self._answers = self._answers, self._answers + 1
        calls = [block for block in content if block["type"] == "tool_use"]
        answer: Json = {"role": "assistant", "content": content}
        self._messages.append(answer)
        if not calls:
            task = next(self._tasks, None)
            if task is not None:
                self._ask(task)
            return
        results = [self._results(call) for call in calls]
        if step == self._interrupted:
            stopped = {"content": "[Request interrupted by user]", "is_error": True}
            results = [answer | stopped for answer in results]
            results.append({"type": "text", "text": INTERRUPTION})
        if self._session.breaks:
            answer["content"], results = faults.broken(step, content, results)
        self._messages.append({"role": "user", "content": results})


def _marked(message: Json) -> Json:
    """The message with a mark on its last block; a text alone becomes a block for it, as long as it is last."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    blocks[-1] = blocks[-1] | {"cache_control": {"type": "ephemeral"}}
    return message | {"content": blocks}
