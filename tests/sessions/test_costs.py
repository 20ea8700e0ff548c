"""What sessions cost under `default` and `frugal`, wherever they end, against the same sessions without us."""

from pathlib import Path

import pytest

from tests.sessions.spending import ANTHROPIC, TABLES, Prices, played, shares, work


@pytest.mark.parametrize("prices", TABLES, ids=[prices.name for prices in TABLES])
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("pauses", [False, True], ids=["no pauses", "pauses"])
def test_a_session_is_never_much_dearer_wherever_it_ends(
    seed: int, pauses: bool, prices: Prices, tmp_path: Path
) -> None:
    """At most a tenth in any turn, and two hundredths at the end: by the provider's own count."""
    session = work(seed, 60, pauses=pauses)
    direct = played(session, None, tmp_path).spent(prices)
    found = [*shares(played(session, "default", tmp_path, prices).spent(prices), direct)]
    assert max(found) <= 1.10
    assert found[-1] <= 1.02


@pytest.mark.parametrize("policy", ["default", "frugal"])
def test_a_long_session_costs_far_less(policy: str, tmp_path: Path) -> None:
    """A hundred and fifty turns with pauses, at the prices of Anthropic."""
    session = work(1, 150, pauses=True)
    direct = played(session, None, tmp_path).spent(ANTHROPIC)
    ruled = played(session, policy, tmp_path / policy, ANTHROPIC)
    found = [*shares(ruled.spent(ANTHROPIC), direct)]
    assert found[-1] <= {"default": 0.70, "frugal": 0.57}[policy]
    assert max(found) <= 1.10
    assert ruled.refused == 0


def test_outputs_of_25_kb_never_fill_the_window(tmp_path: Path) -> None:
    """Three hundred turns of what would be seven windows' worth: each request fits, and begins with the goal."""
    session = work(1, 300, pauses=False)
    ruled = played(session, "frugal", tmp_path, ANTHROPIC, least=25_000, window=200_000)
    assert ruled.refused == 0
    assert ruled.goal_stood
    assert max(exchange.total for exchange in ruled.exchanges) < 200_000
