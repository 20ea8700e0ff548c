"""Alerts and dashboard ask for exactly the metrics that the gateway exports, by the labels that they have."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families

from proxy.gateway.metrics import METRICS, Metrics
from proxy.turns import Miss, MissReason, Turn, TurnReport
from proxy.usage import Usage

OBSERVE = Path(__file__).resolve().parents[1] / "config" / "observe"

SCRAPED = {"instance", "job"}
"""Labels that Prometheus adds to everything it scrapes."""


def series() -> dict[str, set[str]]:
    """The labels of every series that the metrics make, by its name."""
    made: dict[str, set[str]] = {}
    for name, metric in METRICS.items():
        labels = set(metric.labels) | SCRAPED
        if metric.kind == "histogram":
            made[f"{name}_bucket"] = labels | {"le"}
            made[f"{name}_sum"] = made[f"{name}_count"] = labels
        else:
            made[name] = labels
    return made


TURN = Turn(
    id="t1",
    started_at=0.0,
    method="POST",
    path="/v1/messages",
    upstream="anthropic",
    dialect="anthropic",
    status=200,
    ttfb_s=0.5,
    usage=Usage(prompt=10, uncached=1, cached=7, written=2, output=3),
    report=TurnReport(
        edits={"balance": 1},
        reclaimed={"stale": 2},
        held={"stale": 1},
        tool_result_mean_chars=9.0,
        counted=11,
    ),
    miss=Miss("ours"),
)
"""A turn that touches every metric but those of trouble."""


def exported() -> dict[str, list[dict[str, str]]]:
    """The label sets of every series that a gateway exports after TURN, and some trouble, by its name."""
    metrics = Metrics()
    metrics.in_flight(1)
    metrics.failed_open("rewrite")
    metrics.observe(TURN)
    metrics.observe(structs.replace(TURN, warm=True))
    metrics.observe(structs.replace(TURN, asked="heard"))
    metrics.observe(structs.replace(TURN, status=400, outcome="refused", refusal="F1"))
    metrics.observe(structs.replace(TURN, status=502, outcome="unreachable", error_type="connect"))
    found: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(dict(sample.labels))
    return found


def rules() -> list[dict[str, Any]]:
    return [
        rule
        for group in yaml.safe_load((OBSERVE / "alerts.yaml").read_text())["groups"]
        for rule in group["rules"]
    ]


def dashboard() -> dict[str, Any]:
    return json.loads((OBSERVE / "dashboard.json").read_text())


def targets() -> Iterator[tuple[str, str]]:
    """Every query of the dashboard with its legend."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]


def queries() -> list[str]:
    variables = [one["definition"] for one in dashboard()["templating"]["list"] if one["type"] == "query"]
    return [rule["expr"] for rule in rules()] + [expr for expr, _ in targets()] + variables


def used(query: str) -> set[str]:
    """The series of ours that a query names. Recorded ones have a colon and are not ours to export."""
    return set(re.findall(r"(?<![\w:])stet_\w+(?![\w:])", query))


def selected(query: str) -> Iterator[tuple[str, str]]:
    """Every (series, label) in a selector's braces."""
    for name, inside in re.findall(r"(stet_\w+)\{([^}]*)\}", query):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', '""', inside)):
            yield name, label


def grouped(query: str) -> Iterator[tuple[str, set[str]]]:
    """Every (label, series below it) of an aggregation `by (labels) (...)`."""
    for match in re.finditer(r"\bby \(([^)]*)\) ?\(", query):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(query[end], 0)
            end += 1
        for label in re.split(r",\s*", match[1]):
            yield label, used(query[match.end() : end])


def faults(query: str, known: dict[str, set[str]]) -> list[str]:
    """Series that nobody exports, and labels that they do not have."""
    unknown = [f"{name} is not exported" for name in used(query) - known.keys()]
    pairs = [*selected(query), *((name, label) for label, names in grouped(query) for name in names)]
    return unknown + [
        f"{name} has no {label}" for name, label in pairs if label not in known.get(name, {label})
    ]


def test_every_query_asks_for_what_is_exported() -> None:
    """No alert waits for a series that never comes, no panel stays empty for a misspelt label."""
    known = series()
    assert all(used(query) or "stet:" in query for query in queries())
    assert [fault for query in queries() for fault in faults(query, known)] == []


def test_a_gateway_exports_what_the_table_says() -> None:
    """The names and labels that the queries are held against are those on the wire."""
    wire = {name: set(samples[0]) | SCRAPED for name, samples in exported().items()}
    assert wire == series()


def test_queries_select_values_that_occur() -> None:
    """`kind`, `reason` and `mode` are words that the gateway uses."""
    words = {
        "kind": {labels["kind"] for labels in exported()["stet_tokens_total"]},
        "reason": set(get_args(MissReason)),
        "mode": {labels["mode"] for labels in exported()["stet_edits_total"]},
    }
    for query in queries():
        for label, value in re.findall(r'\b(kind|reason|mode)=~?"([^"]*)"', query):
            assert set(value.split("|")) <= words[label], query


def test_every_metric_is_looked_at() -> None:
    """What is exported is in an alert or on the dashboard: nothing is counted for nobody."""
    asked = set().union(*(used(query) for query in queries()))
    assert {name for name in METRICS if not asked & {name, f"{name}_bucket", f"{name}_sum"}} == set()


def test_recorded_series_are_recorded() -> None:
    """An alert on a recorded series has the rule that records it."""
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    asked = set().union(*(re.findall(r"\bstet:[\w:]+", query) for query in queries()))
    assert asked == recorded


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    """Names are unique; the texts only use labels that the alert keeps."""
    alerts = [rule for rule in rules() if "alert" in rule]
    names = [rule["alert"] for rule in alerts]
    assert sorted(set(names)) == sorted(names)
    for rule in alerts:
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        text = rule["annotations"]["summary"] + rule["annotations"]["description"]
        kept = {label for label, _ in grouped(rule["expr"])} | (set() if " by " in rule["expr"] else SCRAPED)
        kept |= {"upstream"} if "stet:" in rule["expr"] else set()
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= kept, rule["alert"]


def test_legends_use_labels_that_the_query_keeps() -> None:
    """A legend never reads `{{status}}`."""
    for expr, legend in targets():
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= {label for label, _ in grouped(expr)}, expr


def test_panels_have_their_own_place_and_description() -> None:
    """Panels do not overlap, fit the grid of 24 columns, have unique ids and say what they show."""
    cells: set[tuple[int, int]] = set()
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & own, panel["title"]
        cells |= own
        assert panel["type"] == "row" or panel["description"]


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("sum(rate(stet_requets_total[5m]))", "stet_requets_total is not exported"),
        ('stet_held_total{upstream="x"}', "stet_held_total has no upstream"),
        ("sum by (class) (rate(stet_held_total[5m]))", "stet_held_total has no class"),
        ("sum by (le) (rate(stet_added_seconds[5m]))", "stet_added_seconds is not exported"),
    ],
)
def test_a_wrong_query_is_noticed(query: str, fault: str) -> None:
    """The checks above can fail."""
    assert fault in faults(query, series())
