"""What holds for every test: one core a process, and no verdict that depends on time or luck."""

import os

from hypothesis import HealthCheck, settings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before NumPy is imported
    os.environ.setdefault(name, "1")  # as many processes run side by side as there are cores

# The suite judges a change, so it tries the same examples wherever and whenever it runs: a
# failure is the change's own, and whoever runs it again sees it too. No example has a time limit:
# that a machine is busy says nothing about the code.
_untimed = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "database": None}
settings.register_profile("suite", derandomize=True, **_untimed)
# New examples: pytest --hypothesis-profile=search, which prints what repeats a failure.
settings.register_profile("search", print_blob=True, **_untimed)
settings.load_profile("suite")
