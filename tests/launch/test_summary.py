"""Lines of the log added up, priced, and put into words."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from proxy.gateway.log import turn_fields
from proxy.launch.cost import Cost, cost
from proxy.launch.summary import Summary, text
from proxy.launch.tally import Line, Tally, known, lines_of
from proxy.models import LongPrompt, ModelFacts, Models, Price
from proxy.turns import Miss, Turn, TurnReport
from proxy.usage import Usage

FACTS = known({"anthropic": "anthropic"}, Models.load().facts)
SONNET = Models.load().facts("anthropic", "claude-sonnet-4-5")


def turn(**members: Any) -> Turn:
    base = {"id": "1", "started_at": 5.0, "method": "POST", "path": "/v1/messages", "upstream": "anthropic"}
    return Turn(**{**base, "dialect": "anthropic", "status": 200, "model": "claude-sonnet-4-5", **members})


def tally(*turns: Turn) -> Tally:
    """As the log has them."""
    made = Tally()
    for one in turns:
        made.read(msgspec.json.encode({"event": "turn", **turn_fields(one)}), FACTS)
    return made


USED = Usage(prompt=10_000, uncached=1_000, cached=8_000, written=1_000, output=500)


def test_a_turn_is_read_from_its_line() -> None:
    """Tokens, edits, misses and faults, as `turn_fields` writes them."""
    report = TurnReport(edits={"balance": 2, "stale": 3, "label": 1}, reclaimed={"stale": 4_000, "label": -3})
    made = tally(
        turn(usage=USED, report=report, miss=Miss("client", "system.0 changed")),
        turn(usage=USED),
        turn(status=429, outcome="refused", failed_open="prepare"),
        turn(dialect=None, outcome="passed"),
    )
    assert made == Tally(
        turns=3,
        answered=2,
        prompt=20_000,
        judged=20_000,
        cached=16_000,
        output=1_000,
        cost=cost(USED, SONNET) + cost(USED, SONNET),
        endings=Counter(ok=2, refused=1),
        misses=Counter(client=1),
        repaired=Counter(balance=1),
        repaired_turns=1,
        reclaimed=3_997,
        reclaimed_turns=1,
        failed_open=1,
        other=1,
        models=Counter({"claude-sonnet-4-5": 3}),
    )


@pytest.mark.parametrize(
    "line", ["", "{}", "no JSON", '{"event": "started", "outcome": "ok"}', '{"event": 3}']
)
def test_other_lines_say_nothing(line: str) -> None:
    """A log has more than turns."""
    made = Tally()
    made.read(line, FACTS)
    assert made == Tally()


def test_the_page_of_turns_is_read_oldest_first() -> None:
    """The admin page has the same lines, the newest first, without an event."""
    page = msgspec.json.encode(
        {"turns": [{"started_at": at, **turn_fields(turn())} for at in (3.0, 2.0, 1.0)]}
    )
    assert [line.started_at for line in lines_of(page)] == [1.0, 2.0, 3.0]
    assert lines_of(b'{"turns": []}') == []
    with pytest.raises(ValueError, match="not a list of turns"):
        lines_of(b'{"error": "no"}')


def test_a_line_of_a_provider_that_counts_no_cache_is_judged_apart() -> None:
    """What is not known of one request does not lower the share of the others."""
    made = tally(turn(usage=USED), turn(usage=Usage(prompt=50_000, output=10)))
    assert (made.prompt, made.judged, made.cached) == (60_000, 10_000, 8_000)


LONG = ModelFacts(price=Price(input=1, output=10, long=LongPrompt(above=5_000, input=2, output=3)))


@pytest.mark.parametrize(
    ("usage", "model", "paid"),
    [
        (USED, SONNET, Cost(3_050.0, 3_050 * 3e-6 + 500 * 15e-6)),
        (
            Usage(prompt=1_000, uncached=0, cached=0, written=1_000, written_1h=400),
            SONNET,
            Cost(1_550.0, 1_550 * 3e-6),
        ),
        (Usage(prompt=100), SONNET, Cost(100.0, 100 * 3e-6)),
        (Usage(prompt=100, cached=60), ModelFacts(), Cost(46.0, None)),
        (Usage(prompt=6_000, output=100), LONG, Cost(6_000.0, 6_000 * 2e-6 + 100 * 30e-6)),
        (Usage(prompt=5_000, output=100), LONG, Cost(5_000.0, 5_000 * 1e-6 + 100 * 10e-6)),
    ],
)
def test_cost(usage: Usage, model: ModelFacts, paid: Cost) -> None:
    """Reads and writes at their own price, both lifetimes, the answer, and the dearer price of long prompts."""
    found = cost(usage, model)
    assert found.units == pytest.approx(paid.units)
    assert found.dollars == (None if paid.dollars is None else pytest.approx(paid.dollars))


def test_costs_without_a_price_are_in_tokens() -> None:
    """A sum of which a part has no price has none."""
    assert Cost(1.0, 2.0) + Cost(3.0, None) == Cost(4.0, None)
    assert Cost(5.0, 2.0) - Cost(3.0, 0.5) == Cost(2.0, 1.5)


def summary(made: Tally, more: Cost | None = None, **members: Any) -> str:
    told = Summary(
        agent="Claude Code", seconds=754, policy="default", tally=made, more=more, log="~/x.log", **members
    )
    return text(told)


def test_a_run_in_words() -> None:
    """All that there is to say of one, in this order."""
    repaired = TurnReport(edits={"balance": 2, "stale": 3}, reclaimed={"stale": 4_000})
    made = tally(
        *[turn(usage=USED, report=repaired, miss=Miss("client"))] * 2,
        turn(usage=USED, model="claude-haiku-4-5", miss=Miss("expired")),
        turn(status=429, outcome="refused", model=None, fallback=True),
    )
    assert summary(made, Cost(30_000.0, 0.1)) == (
        "stet: Claude Code, 12 min 34 s, policy default\n"
        "  requests   4 (claude-sonnet-4-5 2, claude-haiku-4-5 1), 1 refused\n"
        "  tokens     30,000 in, 80% of them from cache; 1,500 out\n"
        "  cost       $0.0389; directly about $0.1389, so 72% less through stet (estimated)\n"
        "  repaired   2 requests (balance)\n"
        "  reclaimed  8,000 tokens left out, over 2 requests\n"
        "  missed     2x the client changed what was sent before; 1x the pause was too long\n"
        "  faults     1 request went out unchanged, see the log\n"
        "  log        ~/x.log"
    )


@pytest.mark.parametrize(
    ("spent", "more", "said"),
    [
        (Cost(100.0, 2.0), Cost(0.0, 0.0), "$2.00, the same directly"),
        (Cost(100.0, 2.0), Cost(-10.0, -0.2), "$2.00; directly about $1.80, so 11% more through stet (estimated)"),
        (Cost(9_000.0, None), Cost(1_000.0, None), "9,000 base input tokens; directly about 10,000 base input tokens, so 10% less through stet (estimated)"),
        (Cost(100.0, 2.0), None, "$2.00 (what it would have been directly is not known here)"),
    ],
)  # fmt: skip
def test_cost_in_words(spent: Cost, more: Cost | None, said: str) -> None:
    """An estimate is called one; dearer is said as plainly as cheaper."""
    made = Tally(turns=1, prompt=100, cost=spent)
    assert f"  cost       {said}" in summary(made, more).splitlines()


def test_a_run_without_a_request_says_so() -> None:
    """And where to look."""
    said = summary(Tally(other=2), cure="`stet doctor claude` may say why")
    assert said.splitlines()[1:] == [
        "             no request came through stet (2 other requests passed); `stet doctor claude` may say why",
        "  log        ~/x.log",
    ]


def test_what_was_only_observed_is_not_said_to_be_done() -> None:
    """In the mode that changes nothing."""
    observed = TurnReport(edits={"balance": 1}, reclaimed={"stale": 9_000}, observed=True, would_read=0.9)
    said = summary(tally(turn(usage=USED, report=observed, would_repair=True)), Cost())
    assert "repaired" not in said
    assert "reclaimed" not in said
    assert "nothing was changed; 1,000 tokens more would have come from cache (estimated)" in said
    assert "1 refusal would not have come" in said


@pytest.mark.parametrize("columns", [60, 80])
def test_lines_fit_the_terminal(columns: int) -> None:
    """Folded behind their labels."""
    made = Tally(turns=1, prompt=100, cost=Cost(100.0, 2.0), misses=Counter(client=1, expired=2, lookback=3))
    told = Summary(agent="x", seconds=1, policy="p", tally=made, more=Cost(10.0, 1.0), log="/x/y.log")
    lines = text(told, columns).splitlines()
    assert max(map(len, lines)) <= columns
    assert " ".join(" ".join(lines).split()) == " ".join(text(told).split())


def test_what_kept_a_cache_warm_is_told_apart() -> None:
    """It is no request of the agent's, but it was paid for, and directly it would not have been."""
    kept = Usage(prompt=100_000, uncached=0, cached=100_000, written=0, output=0)
    made = tally(turn(usage=USED), turn(usage=kept, warm=True), turn(outcome="unreachable", warm=True))
    assert (made.turns, made.warm, made.prompt) == (1, 2, 10_000)
    assert made.warm_cost == cost(kept, SONNET)
    assert made.cost == cost(USED, SONNET) + cost(kept, SONNET)
    told = Summary(agent="A", seconds=1.0, policy="careful", tally=made, more=Cost(0.0, 0.03), log="")
    assert text(told).splitlines()[3:] == [
        f"  cost       ${made.cost.dollars:.4f}, the same directly",
        "  kept warm  2 refreshes while nobody asked, $0.0300 of the cost",
    ]


def test_questions_for_a_summary_are_told_apart() -> None:
    """They are no requests of the agent's either, and what they cost is part of the whole."""
    asked = Usage(prompt=100_000, uncached=1_000, cached=99_000, written=0, output=800)
    made = tally(turn(usage=USED), turn(usage=asked, asked="heard"), turn(asked="no answer in 60 s"))
    assert (made.turns, made.summaries, made.unheard, made.prompt) == (1, 2, 1, 10_000)
    assert made.cost == cost(USED, SONNET) + cost(asked, SONNET)
    told = Summary(agent="A", seconds=1.0, policy="careful", tally=made, more=Cost(0.0, 0.03), log="")
    assert text(told).splitlines()[4:] == [
        f"  summaries  2 questions to the model (1 in vain), ${made.summary_cost.dollars:.4f} of the cost",
    ]


def test_the_line_reads_what_the_log_writes() -> None:
    """Every member of a line is a field of a turn, so that none is looked for in vain."""
    report = TurnReport(edits={"a": 1}, reclaimed={"a": 1}, observed=True, would_read=1.0)
    full = turn(
        usage=Usage(10_000, 1, 2, 3, 4, 5, 6),
        report=report,
        miss=Miss("client"),
        would_repair=True,
        fallback=True,
        failed_open="x",
        warm=True,
        asked="heard",
    )
    assert set(Line.__struct_fields__) - {"event", "started_at"} <= turn_fields(full).keys()
