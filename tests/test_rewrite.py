"""The pipeline's own business: what it refuses to send, what it leaves alone, what it remembers."""

from typing import Any

import orjson
import pytest
from msgspec import structs

from proxy.dialects.anthropic import Anthropic
from proxy.edits import Mend, PlaceMark, Remove, Replace, Target, target_of
from proxy.errors import BodyError, LawError
from proxy.ledger import Ledger
from proxy.models import Models
from proxy.policy import Policy, Stages
from proxy.rewrite import Rewrite, rewrite
from proxy.stages import Facts, View, balance, encoding, label, normalize
from proxy.stages.view import Proposal, causal

MODELS = Models.load()
CHECKED, PLAIN = "claude-opus-5-5", "claude-sonnet-4-5"


def body(*messages: Any, model: str = PLAIN, **members: Any) -> bytes:
    return orjson.dumps({"model": model, "max_tokens": 1, **members, "messages": list(messages)})


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def answer(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def run(
    raw: bytes,
    ledger: Ledger | None = None,
    stages: Stages | None = None,
    *,
    strict: bool = True,
    model: str = PLAIN,
    now: float = 0.0,
) -> Rewrite:
    facts = Facts(
        now=now,
        tenant=b"t",
        model=MODELS.facts("anthropic", model),
        upstream="anthropic",
        strict=strict,
    )
    policy = Policy(
        name="test", stages=stages or Stages(balance=balance.Config(), normalize=normalize.Config())
    )
    return rewrite(raw, Anthropic(), policy, ledger or Ledger(), facts)


def sent(made: Rewrite, ledger: Ledger, *, now: float = 0.0) -> Rewrite:
    """The request left and was answered."""
    assert made.commit is not None
    ledger.keep_policy(made.policy.digest, made.policy.encoded)
    ledger.settle(ledger.commit(made.commit), None, (), success=True)
    return made


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
CALLED = (
    user("a"),
    answer([THOUGHT, {"type": "tool_use", "id": "t", "name": "run", "input": {}}]),
    user([{"type": "tool_result", "tool_use_id": "t", "content": "fine"}]),
)


def losing(view: View, config: label.Config) -> Proposal:
    """A stage gone wrong: it removes every result."""
    gone = [part for _, part, _ in view.fresh() if type(part).__name__ == "ToolResult"]
    return causal("label", [Remove(stage="label", reason="bug", target=target_of(part)) for part in gone])


BROKEN = Stages(label=label.Config())


def test_a_law_that_would_break_is_raised_where_tests_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what would have been wrong."""
    monkeypatch.setattr(label, "propose", losing)
    with pytest.raises(LawError, match="the rewrite would send: call without a result"):
        run(body(*CALLED), stages=BROKEN)


def test_live_the_client_s_body_goes_out_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation that was never sent otherwise is the client's own object; nothing is remembered."""
    monkeypatch.setattr(label, "propose", losing)
    raw = body(*CALLED, model=CHECKED)
    made = run(raw, stages=BROKEN, strict=False, model=CHECKED)
    assert made.body is raw
    assert made.broken == "call without a result, ends with the assistant"
    assert (made.edits, made.commit) == ((), None)


def test_thinking_bound_to_what_was_sent_before_does_not_go_out_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the conversation was sent rewritten, the client's body is another history [A45 A47]."""
    ledger, stages = Ledger(), Stages(label=label.Config(), normalize=normalize.Config())
    first = (user([{"type": "text", "text": ""}, {"type": "text", "text": "a"}]), *CALLED[1:])
    sent(run(body(*first, model=CHECKED), ledger, stages, model=CHECKED), ledger)
    monkeypatch.setattr(label, "propose", losing)
    more = (
        answer([{"type": "tool_use", "id": "u", "name": "run", "input": {}}]),
        user([{"type": "tool_result", "tool_use_id": "u", "content": "fine"}]),
    )
    raw = body(*first, *more, model=CHECKED)
    made = run(raw, ledger, stages, strict=False, model=CHECKED)
    assert made.broken == "call without a result, ends with the assistant"
    assert made.body == made.fallback == Anthropic().without_reasoning(raw) != raw


def test_the_fallback_is_made_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: it takes reading the whole history, and hardly any request is refused."""
    made_of: list[bytes] = []
    plain = Anthropic.without_reasoning

    def without(self: Anthropic, raw: bytes) -> bytes:
        made_of.append(raw)
        return plain(self, raw)

    monkeypatch.setattr(Anthropic, "without_reasoning", without)
    raw = body(*CALLED, model=CHECKED)
    made = run(raw, model=CHECKED)
    assert made_of == []
    assert made.fallback is made.fallback
    assert made_of == [raw]
    assert b"thinking" not in made.fallback


def test_a_fault_of_the_client_s_own_is_no_reason_to_hold_back() -> None:
    """What comes out is no worse than what came in."""
    raw = body(user("a"), answer([{"type": "tool_use", "id": "t", "name": "run", "input": {}}]), user("b"))
    made = run(raw, stages=Stages(normalize=normalize.Config()))
    assert (made.body is raw, made.broken) == (True, "")


@pytest.mark.parametrize("messages", [(), (user(""),), (user([THOUGHT]),)])
def test_a_request_that_says_nothing_is_not_remembered(messages: tuple[Any, ...]) -> None:
    """There is no place to remember it at."""
    assert run(body(*messages), stages=Stages()).commit is None


def test_a_delta_of_a_history_elsewhere_passes() -> None:
    """What we cannot see is not judged [A65]."""
    raw = body(CALLED[2], thread={"id": "t"})
    made = run(raw)
    assert made.body is raw
    assert (made.edits, made.commit) == ((), None)


def test_a_refused_chain_gets_nothing_new() -> None:
    """It goes on as the client writes it."""
    ledger = Ledger()
    blank = user([{"type": "text", "text": ""}, {"type": "text", "text": "a"}])
    made = run(body(blank), ledger)
    assert made.commit is not None
    ledger.abandon(ledger.commit(made.commit))
    raw = body(blank, answer("b"), user([{"type": "text", "text": " "}, {"type": "text", "text": "c"}]))
    later = run(raw, ledger)
    assert later.body is raw


def test_what_no_parser_reads_is_mended_first() -> None:
    """Where the policy says so; else it is unreadable, and so is what mending does not help."""
    raw = body(user("NULL")).replace(b"NULL", rb"\u0000")
    made = run(raw, stages=Stages(encoding=encoding.Config()))
    assert made.body == raw.replace(rb"\u0000", rb"\ufffd")
    assert made.edits == (
        Mend(
            stage="encoding",
            reason="lone surrogate or NUL [A4]",
            target=Target(b""),
            required=True,
            count=1,
        ),
    )
    for stages, bad in (
        (Stages(), raw),
        (Stages(encoding=encoding.Config(text=False)), raw),
        (Stages(encoding=encoding.Config()), b'{"messages":5}'),
    ):
        with pytest.raises(BodyError):
            run(bad, stages=stages)


def test_a_new_policy_waits_until_the_cache_is_cold() -> None:
    """And no signed thinking stands: a reload rewrites no living prefix."""
    blank = user([{"type": "text", "text": ""}, {"type": "text", "text": "a"}])
    hour = {"type": "ephemeral", "ttl": "1h"}
    for thought, mark, wait, changed in (
        ([], None, 10.0, False),
        ([], None, 301.0, True),
        ([], hour, 301.0, False),
        ([], hour, 3601.0, True),
        ([THOUGHT], None, 301.0, False),
    ):
        ledger = Ledger()
        sent(run(body(blank, cache_control=mark), ledger, Stages()), ledger)
        later = body(blank, answer([*thought, {"type": "text", "text": "b"}]), user("c"))
        made = run(later, ledger, Stages(normalize=normalize.Config()), now=wait)
        assert (made.body is not later) == changed


def test_a_policy_that_is_no_longer_known_is_replaced() -> None:
    """What it said is lost; the new one holds from here on."""
    ledger = Ledger()
    first = run(body(user("a")), ledger, Stages())
    assert first.commit is not None
    ledger.settle(ledger.commit(first.commit), None, (), success=True)
    later = body(user("a"), answer("b"), user([{"type": "text", "text": ""}, {"type": "text", "text": "c"}]))
    made = run(later, ledger, Stages(normalize=normalize.Config()))
    assert made.body is not later


def test_promises_hold_none_of_the_clients_bytes() -> None:
    """A slice would keep its whole body in memory."""
    made = run(
        body(user("a"), answer([{"type": "tool_use", "id": "a.b", "name": "run", "input": {}}])),
        stages=Stages(encoding=encoding.Config()),
    )
    assert made.commit is not None
    edits = [edit for promise in made.commit.promises for edit in promise.edits]
    assert [type(edit) for edit in edits] == [Replace]
    assert all((edit.part.raw, edit.part.base) == (None, None) for edit in edits if isinstance(edit, Replace))


def test_marks_are_no_content() -> None:
    """The model reads the same."""
    remove, mark = (
        Remove(stage="s", reason="", target=Target(b"")),
        PlaceMark(stage="s", reason="", target=Target(b""), mark=None),
    )
    made = Rewrite(body=b"", spare=b"", policy=Policy(name="", stages=Stages()))
    assert [
        structs.replace(made, edits=edits).content_changed for edits in ((), (mark,), (mark, remove))
    ] == [False, False, True]
