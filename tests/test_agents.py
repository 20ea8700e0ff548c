"""Recognisers as data: how they are compiled, chosen and applied. What the shipped ones find is in tests/agents."""

import re

import pytest
from msgspec import Raw, structs

from proxy.agents import Agent, Agents, FileUse, compile_agent, merged, spans, substitute
from proxy.conversation import Mark, Message, Reminder, Role, Source, Text, ToolResult
from proxy.errors import ConfigError
from proxy.yamlfile import parse

PLAIN = """\
agent: gardener
detect:
  headers:
    User-Agent: '^gardener/'
session: [X-Garden]
subagent: [X-Bed]
attribution: '^billing:'
reminders:
  - {name: weather, source: environment, pattern: 'Weather: '}
  - {name: any, source: reminder, pattern: '<note>'}
volatile:
  - {name: date, where: [reminder, system], pattern: 'on (?P<value>\\w+)', kind: date, announce: on_change}
  - {name: id, where: [system], pattern: 'id (?P<value>\\d+)'}
ranges:
  - {tools: [look, 'peek*'], arguments: [from, to]}
  - {tools: [dig], matching: {where: '^"(north|south)'}}
"""


def compiled(text: str = PLAIN) -> Agent:
    return compile_agent(parse(text, "gardener.yaml"))


GARDENER = compiled()


def test_a_file_becomes_an_agent() -> None:
    """Names of headers in lower case, patterns compiled."""
    assert GARDENER == Agent(
        name="gardener",
        detect=(("user-agent", re.compile("^gardener/")),),
        session=("x-garden",),
        subagent=("x-bed",),
        attribution=re.compile("^billing:"),
        reminders=GARDENER.reminders,
        fields=GARDENER.fields,
        ranges=GARDENER.ranges,
    )
    assert [(rule.name, pattern.pattern) for rule, pattern in GARDENER.reminders] == [
        ("weather", "Weather: "),
        ("any", "<note>"),
    ]
    assert compiled("agent: bare\n") == Agent(name="bare")


@pytest.mark.parametrize(
    ("wrong", "place", "says"),
    [
        ("detect: {headers: {a: '('}}", "2:23", "not a regular expression"),
        ("detect: {system: '('}", "2:18", "not a regular expression"),
        ("detect: {head: '('}", "2:10", "head"),
        ("attribution: '['", "2:14", "not a regular expression"),
        ("reminders: [{name: n, source: editor, pattern: '*'}]", "2:48", "not a regular expression"),
        ("volatile: [{name: n, where: [system], pattern: 'x'}]", "2:48", r"needs a group \(\?P<value>"),
        ("volatile: [{name: n, where: [nowhere], pattern: '(?P<value>x)'}]", "2:30", "nowhere"),
        ("reminders: [{name: n, source: nobody, pattern: x}]", "2:31", "nobody"),
        ("ranges: [{tools: [t], matching: {at: '('}}]", "2:38", "not a regular expression"),
        ("volatil: []", "2:1", "volatile"),
    ],
)
def test_a_mistake_is_named_with_its_place(wrong: str, place: str, says: str) -> None:
    """Line and column of what is wrong."""
    with pytest.raises(ConfigError, match=f"gardener.yaml:{place}: .*{says}"):
        compiled(f"agent: gardener\n{wrong}\n")


def test_an_agent_is_known_by_any_of_its_headers() -> None:
    """Else it is nobody, and the generic fields are looked for."""
    nobody = Agent(fields=GARDENER.fields)
    agents = Agents([structs.replace(GARDENER, detect=(*GARDENER.detect, ("x-g", re.compile("."))))], nobody)
    assert agents.of({"user-agent": "gardener/1"}).name == "gardener"
    assert agents.of({"x-g": "1", "user-agent": "curl"}).name == "gardener"
    assert agents.of({"user-agent": "a gardener/1"}) is nobody
    assert agents.of({}) is nobody


def test_where_the_headers_say_nothing_the_system_prompt_tells() -> None:
    """Its beginning, as JSON spells it; a header beats it."""
    digger = compiled("""agent: digger\ndetect: {system: 'You are a "digger"'}\n""")
    agents = Agents([digger, GARDENER], Agent())
    assert agents.of({}, 'You are a "digger"').name == "digger"
    assert agents.of({"user-agent": "gardener/1"}, 'You are a "digger"').name == "gardener"
    assert agents.of({}, "You are a painter").name == ""


def test_of_fields_with_one_name_the_agents_own_wins() -> None:
    """The generic ones serve where it says nothing."""
    own = structs.replace(GARDENER.fields[0], pattern=re.compile("(?P<value>own)"))
    assert merged([own], GARDENER.fields) == (own, GARDENER.fields[1])


def test_the_shipped_generic_file_is_for_agents_nobody_knows() -> None:
    """It has no name, and its fields are every agent's unless it has its own."""
    agents = Agents.load()
    assert agents.generic.name == ""
    names = {field.rule.name for field in agents.generic.fields}
    assert all(names <= {field.rule.name for field in agent.fields} for agent in agents.known)


def test_what_a_harness_put_in_is_told_from_what_a_person_wrote() -> None:
    """By the beginning of the text, the first pattern that fits; everything else about the part stays."""
    text = Text(raw=Raw(b"raw"), key=b"key", nth=1, mark=Mark(), size=3, text="Weather: <note>")
    reminder = Reminder(
        raw=Raw(b"raw"),
        key=b"key",
        nth=1,
        mark=Mark(),
        size=3,
        text="Weather: <note>",
        source=Source.ENVIRONMENT,
        name="weather",
    )
    person, result = Text(text="The Weather: fine"), ToolResult(call_id="t", content=b'"Weather: "')
    message = Message(role=Role.USER, parts=(text, person, result))
    assert GARDENER.recognise(message).parts == (reminder, person, result)


@pytest.mark.parametrize("role", [Role.ASSISTANT, Role.TOOL, Role.META])
def test_only_turns_that_a_harness_writes_are_looked_at(role: Role) -> None:
    """The model may well say the same words."""
    message = Message(role=role, parts=(Text(text="Weather: fine"),))
    assert GARDENER.recognise(message) is message


def test_a_message_without_reminders_stays_the_object_it_is() -> None:
    """So does every message for an agent that has none."""
    message = Message(role=Role.USER, parts=(Text(text="Hello."),))
    assert GARDENER.recognise(message) is message
    weather = Message(role=Role.USER, parts=(Text(text="Weather: fine"),))
    assert Agent().recognise(weather) is weather


def test_a_mask_hides_volatile_values_only() -> None:
    """Of the fields that stand in reminders: what is left is what the reminder says."""

    def masked(text: str) -> str:
        return GARDENER.mask(Reminder(text=text, source=Source.REMINDER, name=""))

    assert masked("sun on Monday, id 5") == masked("sun on Tuesday, id 5")
    assert masked("sun on Monday, id 5") != masked("sun on Monday, id 6")
    assert masked("nothing") == "nothing"


def test_each_occurrence_is_replaced_in_its_turn() -> None:
    """The text around stays; a match without its value is none."""
    counted = iter(range(9))
    pattern = re.compile(r"x(?P<value>\d)?")
    assert substitute(pattern, "x1 x x2.", lambda value: f"<{next(counted)}{value}>") == "x<01> x x<12>."
    assert spans(pattern, "x1 x x2.") == ((1, 2), (6, 7))
    text = "none"
    assert substitute(pattern, text, str.upper) is text


def test_values_that_overlap_are_replaced_once() -> None:
    """A pattern may look ahead: what was replaced is not looked at again."""
    assert substitute(re.compile(r"(?=(?P<value>\d\d))"), "a123", lambda _: "-") == "a-3"


@pytest.mark.parametrize(
    ("tool", "arguments", "asks"),
    [
        ("look", b'{"from": 1}', True),
        ("peek_in", b'{"to":{"row":2}}', True),
        ("look", b'{"from": null, "at": 1}', False),
        ("gaze", b'{"from": 1}', False),
        ("dig", b'{"where":"north of it"}', True),
        ("dig", b'{"where":"it, north"}', False),
        ("dig", b'{"from":1}', False),
        ("look", b"[1]", False),
        ("look", b"", False),
    ],
)
def test_calls_that_ask_for_a_range(tool: str, arguments: bytes, asks: bool) -> None:
    """By name or glob of the tool, and an argument that is there, or is as a pattern wants it; null is not there."""
    assert GARDENER.asks_for_range(tool, arguments) is asks
    assert not Agent().asks_for_range(tool, arguments)


def test_every_agent_has_the_generic_ranges() -> None:
    """An agent's own come first; those all agents use are not repeated."""
    agents = Agents.load()
    assert agents.generic.ranges
    for agent in agents.known:
        assert agent.ranges[-len(agents.generic.ranges) :] == agents.generic.ranges


FILES = """\
agent: gardener
files:
  - {does: write, tools: ['*edit*', save], paths: [path, file]}
  - {does: write, tools: [patch], matching: 'File: (?P<path>[^"\\\\]+)'}
  - {does: read, tools: ['*read*'], paths: [path]}
ranges:
  - {tools: ['*read*'], arguments: [offset]}
"""


@pytest.mark.parametrize(
    ("tool", "arguments", "use"),
    [
        ("read", b'{"path":"a.py"}', FileUse("read", "a.py", whole=True)),
        ("read", b'{"path":"a.py","offset":3}', FileUse("read", "a.py", whole=False)),
        ("edit", b'{"path":7,"file":"a.py"}', FileUse("write", "a.py", whole=True)),
        ("patch", b'{"input":"*** File: a.py\\n+x"}', FileUse("write", "a.py", whole=True)),
        ("patch", b'{"input":"nothing"}', None),
        ("read", b'{"path":""}', None),
        ("read", b'["a.py"]', None),
        ("read", b'{"path":', None),
        ("run", b'{"path":"a.py"}', None),
    ],
)
def test_calls_that_read_or_write_a_file(tool: str, arguments: bytes, use: FileUse | None) -> None:
    """By name of the tool and of the argument, or by what its text says; what names no file is about none."""
    assert compiled(FILES).file_use(tool, arguments) == use


def test_a_rule_for_files_needs_to_say_where_the_path_is() -> None:
    """A pattern without the group would find nothing to name."""
    with pytest.raises(ConfigError, match=r"the pattern needs a group \(\?P<path>"):
        compiled("agent: a\nfiles:\n  - {does: read, tools: [x], matching: 'File: .*'}\n")


def test_every_agent_has_the_generic_files_tasks_and_tools_from_outside() -> None:
    """They are known by what tools are usually called."""
    agents = Agents.load()
    for agent in agents.known:
        assert agent.files[-len(agents.generic.files) :] == agents.generic.files
        assert set(agents.generic.todos) <= set(agent.todos)
        assert set(agents.generic.outside) <= set(agent.outside)


@pytest.mark.parametrize(
    ("failed", "text"),
    [
        (True, "Error: ENOENT: no such file"),
        (True, "<tool_use_error>Error: file has not been read"),
        (True, "[ERROR] it failed"),
        (True, "Traceback (most recent call last):\n  File"),
        (True, "Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 127\nOutput:\n"),
        (True, "Exit code: 1\nWall time: 0 seconds"),
        (True, "Command failed with exit code 2"),
        (True, '{"output":"no","metadata":{"exit_code":1,"duration_seconds":0.1}}'),
        (False, "Exit code: 0\nOutput:\nerror: none"),
        (False, '{"output":"ok","metadata":{"exit_code":0}}'),
        (False, "error.py\nerrors.py"),
        (False, "1\tErrors are values."),
        (False, "x" * 500 + "\nExit code: 1"),
        (False, ""),
    ],
)
def test_a_failed_call_is_known_by_how_its_result_begins(failed: bool, text: str) -> None:
    """An error by that name, or an exit code; what stands further down is output."""
    assert Agents.load().generic.says_failed(text) is failed
