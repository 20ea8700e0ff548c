"""What every test shares: the profiles of the property tests.

`ci`, the default, draws the same examples on every run, so that red is never luck; `dev` explores as far in other
directions, and `long` is for an evening: `pytest --hypothesis-profile=long`.
"""

from hypothesis import HealthCheck, settings

# Deadlines time single examples: on a shared machine they fail for reasons that are not ours.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=60,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", deadline=None, max_examples=5_000, suppress_health_check=list(HealthCheck))

settings.load_profile("ci")
