"""What a run came to, in a few lines for whoever ran it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from .cost import Cost
from .tally import Tally

_LABEL = 11

_MISSES: Mapping[str, str] = {
    "client": "the client changed what was sent before",
    "ours": "stet's own batches",
    "expired": "the pause was too long",
    "small": "too small to be cached",
    "lookback": "too far behind the last mark",
    "model": "another model",
    "upstream": "another upstream",
    "unknown": "not known why",
}

NOTHING_CAME = "no request came through stet"


class Summary(Struct, frozen=True, kw_only=True):
    """All that is told. `more` is what the requests would have cost more directly; None where nobody knows.

    `shared`: the proxy ran before, and other agents may have used it meanwhile. `cure`: what to do where nothing came.
    """

    agent: str
    seconds: float
    policy: str
    tally: Tally
    more: Cost | None
    log: str
    shared: bool = False
    cure: str = ""


def text(summary: Summary, columns: int | None = None) -> str:
    """The lines, folded to so many columns. No line break at the end."""
    tally = summary.tally
    head = f"stet: {summary.agent}, {_took(summary.seconds)}"
    if not tally.turns:
        why = f" ({_many(tally.other, 'other request')} passed)" if tally.other else ""
        rows = [("", f"{NOTHING_CAME}{why}{f'; {summary.cure}' if summary.cure else ''}")]
    else:
        head += f", policy {summary.policy}"
        rows = list(_rows(summary))
    if summary.log:
        rows.append(("log", summary.log))
    width = None if columns is None else max(40, columns)
    return "\n".join([head, *(_row(label, said, width) for label, said in rows)])


def _rows(summary: Summary) -> Iterable[tuple[str, str]]:
    tally = summary.tally
    yield "requests", _requests(tally)
    if tally.prompt:
        yield "tokens", _tokens(tally)
        yield "cost", _cost(tally, summary)
    if tally.repaired_turns:
        stages = ", ".join(sorted(tally.repaired))
        yield "repaired", f"{_many(tally.repaired_turns, 'request')} ({stages})"
    if tally.reclaimed:
        yield (
            "reclaimed",
            f"{tally.reclaimed:,} tokens left out, over {_many(tally.reclaimed_turns, 'request')}",
        )
    if tally.warm:
        yield (
            "kept warm",
            f"{_many(tally.warm, 'refresh', 'es')} while nobody asked, {_money(tally.warm_cost)} of the cost",
        )
    if tally.summaries:
        failed = f" ({tally.unheard} in vain)" if tally.unheard else ""
        asked = _many(tally.summaries, "question")
        yield "summaries", f"{asked} to the model{failed}, {_money(tally.summary_cost)} of the cost"
    if tally.observed:
        yield "observed", _observed(tally)
    if tally.misses:
        yield (
            "missed",
            "; ".join(f"{count}x {_MISSES.get(why, why)}" for why, count in tally.misses.most_common()),
        )
    if tally.failed_open or tally.fallbacks:
        yield (
            "faults",
            f"{_many(tally.failed_open + tally.fallbacks, 'request')} went out unchanged, see the log",
        )
    if summary.shared:
        yield "note", "the proxy ran before: other agents' requests in this time are counted too"


def _requests(tally: Tally) -> str:
    named = Counter({name: count for name, count in tally.models.items() if name})
    models = _counted(named) if len(named) > 1 else next(iter(named), "")
    others = [f"{count} {name}" for name, count in tally.endings.most_common() if name != "ok"]
    said = f"{tally.turns} ({models})" if models else f"{tally.turns}"
    return ", ".join([said, *others])


def _many(number: int, what: str, ending: str = "s") -> str:
    return f"{number:,} {what}{'' if number == 1 else ending}"


def _counted(models: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in models.most_common(4))


def _tokens(tally: Tally) -> str:
    said = f"{tally.prompt:,} in"
    if tally.judged:
        said += f", {tally.cached / tally.judged:.0%} of them from cache"
    return f"{said}; {tally.output:,} out"


def _cost(tally: Tally, summary: Summary) -> str:
    spent = tally.cost
    said = _money(spent)
    if summary.more is None:
        return f"{said} (what it would have been directly is not known here)"
    more = summary.more - tally.warm_cost  # directly nothing would have been kept warm
    changed = more.units if spent.dollars is None or more.dollars is None else more.dollars
    whole = spent.units if spent.dollars is None or more.dollars is None else spent.dollars
    if abs(changed) < 0.005 * max(whole, 1e-9):
        return f"{said}, the same directly"
    direct = spent + more
    share = changed / (whole + changed) if whole + changed > 0 else 0.0
    word = "less" if changed > 0 else "more"
    return f"{said}; directly about {_money(direct)}, so {abs(share):.0%} {word} through stet (estimated)"


def _money(spent: Cost) -> str:
    if spent.dollars is None:
        return f"{spent.units:,.0f} base input tokens"
    return f"${spent.dollars:,.2f}" if spent.dollars >= 0.995 else f"${spent.dollars:.4f}"


def _observed(tally: Tally) -> str:
    said = f"nothing was changed; {tally.would_save:,} tokens more would have come from cache (estimated)"
    return (
        f"{said}, {_many(tally.would_repair, 'refusal')} would not have come" if tally.would_repair else said
    )


def _took(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def _row(label: str, said: str, width: int | None) -> str:
    first = f"  {label:<{_LABEL}}"
    return _folded(first + said, width, " " * len(first))


def _folded(line: str, width: int | None, indent: str) -> str:
    if width is None or len(line) <= width:
        return line
    lines, rest = [], line
    while len(rest) > width and (at := rest.rfind(" ", len(indent) + 1, width + 1)) > len(indent):
        lines.append(rest[:at].rstrip())
        rest = indent + rest[at + 1 :]
    return "\n".join([*lines, rest])
