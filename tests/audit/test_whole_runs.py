"""Whole runs of every agent with every sampler, audited end to end.

Two histories that differ as much as neighbours can, the claim from the target alone, and the best
statistics there are. In full by ``python docs/make/audits.py``. False alarms: 1e-6 for each audit,
at fixed seeds. Each has a negative control that is caught.
"""

from typing import Any

import numpy as np
import pytest
import whole_runs
from whole_runs import (
    EPSILON,
    STREAMS,
    audit_agent,
    audit_dirichlet_agent,
    claimed_separation,
    exact_separation,
)

from privrl.agents.methods import Method

CASES = [
    *(("psrl", sampler, "step", False) for sampler in STREAMS),
    *(("ucbvi", sampler, "step", False) for sampler in ("noisy-counts", "local-counts")),
    ("psrl", "noisy-counts", "episode", False),
    ("ucbvi", "noisy-counts:optimal", "episode", False),
    ("psrl", "noisy-counts", "step", True),
]
RUNS = 1400  # of each history, enough for four in all to each of 680 noises of a run


def method(agent: str, sampler: str, **options: Any) -> Method:
    return Method(agent=agent, sampler=sampler, schedule="every-episode", **options)


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "sampler", "unit", "terminates"), CASES)
def test_an_agent_releases_what_is_claimed(agent, sampler, unit, terminates) -> None:
    """2,800 runs of 34 draws: d′ within 0.042 of 1.414, and the law of a million noises."""
    law, apart = audit_agent(method(agent, sampler), unit, runs=RUNS, terminates=terminates)
    assert not law.violated
    assert not apart.violated
    exact = exact_separation(unit, EPSILON, sampler, whole_runs.DRAWS)
    assert abs(apart.measured - exact) < 5 * apart.deviation
    assert law.draws > 50 * law.needed


@pytest.mark.parametrize("sampler", STREAMS)
@pytest.mark.parametrize("unit", ["step", "episode"])
def test_the_histories_are_as_far_apart_as_the_claim_allows(sampler: str, unit: str) -> None:
    """By linear algebra; the first episode's batch is the second that a stream can have.

    In a tree that is one of the batches that fewer intervals hold.
    """
    apart = exact_separation(unit, EPSILON, sampler, whole_runs.DRAWS)
    claimed = claimed_separation(EPSILON)
    assert (0.9 if "tree" in sampler else 0.99) * claimed < apart <= claimed * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["psrl", "ucbvi"])
def test_half_the_noise_shows_in_both(agent: str) -> None:
    """d′ is twice what it may be."""
    law, apart = audit_agent(
        method(agent, "noisy-counts:independent"),
        "step",
        runs=RUNS,
        epsilon=4 * EPSILON,
    )
    assert "noise" in law.found
    assert apart.violated


@pytest.mark.slow
def test_five_percent_too_little_noise_is_found() -> None:
    law, _ = audit_agent(
        method("psrl", "noisy-counts"), "step", runs=RUNS, epsilon=EPSILON / 0.95**2
    )
    assert "noise" in law.found


def one_noise_for_both(update: Any) -> Any:
    """Transitions and rewards get their noise from generators that were started alike."""
    calls = iter(range(10**6))

    def broken(self, counts, rng):
        return update(self, counts, np.random.default_rng(next(calls) // 2))

    return broken


@pytest.mark.slow
def test_noise_shared_by_transitions_and_rewards_is_found() -> None:
    law, _ = audit_agent(
        method("psrl", "noisy-counts"), "step", runs=RUNS, broken=one_noise_for_both
    )
    assert law.found == ("dependence",)


@pytest.mark.slow
def test_loops_in_the_wrong_cells_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sampler and agent have them from one function, so that neither can tell."""

    def shifted(n_states, n_actions, *, terminates=False, support=None):
        same = np.eye(n_states, n_states + terminates, k=-int(terminates), dtype=bool)
        return np.repeat(same[:, None], n_actions, axis=1)

    for place in ("privrl.agents.setup", "privrl.agents.methods"):
        monkeypatch.setattr(f"{place}.self_loops", shifted)
    sound = method("psrl", "noisy-counts")
    assert audit_agent(sound, "step", runs=RUNS, terminates=True)[0].violated
    assert not audit_agent(sound, "step", runs=RUNS)[0].violated


# --- Dirichlet draws ---------------------------------------------------------------------

DRAWING = [("diffuse", None), ("diffuse", 1), ("concentrated", None), ("concentrated", 1)]


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "window"), DRAWING)
def test_an_agent_draws_from_the_law_that_is_claimed(sampler: str, window: int | None) -> None:
    """8,000 runs, where 1,000 find 5 % too large a weight. The audit sees a third of epsilon."""
    pytest.importorskip("dp_accounting", reason="the extra pld is not installed")
    made = method("psrl", sampler, window=window, alpha=5.0, reward_alpha=5.0)
    laws, audit = audit_dirichlet_agent(made, runs=8000)
    assert not any(law.violated for law in laws)
    assert all(law.draws > 4 * law.needed for law in laws)
    assert not audit.violated
    assert audit.epsilon_lower > audit.claimed / 3
    wrong, _ = audit_dirichlet_agent(made, runs=8000, less=0.08)
    assert all(law.violated for law in wrong)


@pytest.mark.slow
def test_half_the_noise_of_dirichlet_draws_shows_in_an_audit() -> None:
    """A prior of a quarter, which is half the noise."""
    pytest.importorskip("dp_accounting", reason="the extra pld is not installed")
    made = method("psrl", "concentrated", alpha=5.0, reward_alpha=5.0)
    _, audit = audit_dirichlet_agent(made, runs=20_000, less=0.5)
    assert audit.violated
