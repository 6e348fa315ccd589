"""How many cases: a few fixed ones by default, many random ones with `--hypothesis-profile=long`."""

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]

settings.register_profile(
    "short", max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=SLOW
)
settings.register_profile("long", max_examples=1000, deadline=None, database=None, suppress_health_check=SLOW)
settings.load_profile("short")
