"""Make the tables of docs/results/synthetic.md.

Run with ``python docs/make/synthetic.py``; it takes about ten minutes. Synthetic histories are
compared with a held-out log of the same world and behaviour policy.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pages
from log_studies.report import budget_text
from log_studies.simulate import simulate_log
from log_studies.worlds import World, clinics, sepsis_simulator
from scipy.stats import wasserstein_distance

from privrl.data.logs import Log
from privrl.data.logs.log import CUT
from privrl.envs import Released, TabularMDP, riverswim
from privrl.offline import fit_model
from privrl.offline.synthetic import synthetic_log

_PERSONS = 20_000
_BUDGETS = (10.0, 1.0, 0.1)
_HEADER = "world | data | visits | transitions | mean return | returns | steps | lengths"


class Case(NamedTuple):
    """A world, how persons of its log were treated, and what of that is public."""

    name: str
    world: World | TabularMDP
    chances: np.ndarray
    public: dict[str, Any]


def main() -> None:
    """Write the tables between the markers of the page."""
    pages.main("results/synthetic.md", {"closeness": _closeness})


def _cases() -> Iterator[Case]:
    sepsis = sepsis_simulator()
    treated = [(world, world.behaviour("half-expert")) for world in clinics("judged")]
    treated.append((sepsis, 0.15 * sepsis.behaviour("uniform") + 0.85 * sepsis.expert))
    for world, chances in treated:
        actions = {"admissible": world.admissible}
        yield Case(f"{world.name}, propensities known", world, chances, {"behaviour": chances})
        yield Case(f"{world.name}, actions known", world, chances, actions)
    swim = riverswim(6, horizon=20)
    yield Case("RiverSwim 6, nothing known", swim, np.tile([0.3, 0.7], (6, 1)), {})


def _closeness() -> str:
    rows = []
    for case in _cases():
        rng = np.random.default_rng(41)
        log, held, other = (simulate_log(case.world, case.chances, _PERSONS, rng) for _ in range(3))
        seen = {"another log": other}
        seen["model, no privacy"] = synthetic_log(_plain_model(log), log, _PERSONS, rng)
        for epsilon in _BUDGETS:
            model = fit_model(log, epsilon=epsilon, rng=rng, **case.public)
            name = f"synthetic, {budget_text(epsilon)}"
            seen[name] = synthetic_log(model, log, _PERSONS, rng)
        for name, made in seen.items():
            rows.append([case.name, name, *_compared(made, held)])
            print(" ", *rows[-1], flush=True)
    return pages.table(_HEADER, rows) + (
        "\n\nLogs of 20,000 persons, and as many synthetic ones; one log and one release each, "
        "seed 41. *Visits* and *transitions*: total variation distances of the frequencies of "
        "state and action, and of state, action and next state or outcome. *Returns* and "
        "*lengths*: Wasserstein-1 distances. *Mean return* and *steps*: of the data; the held-out "
        "log's are in brackets. Half-expert logs of clinics, 15 % random actions in the sepsis "
        "simulator. Privacy unit: a person, added or removed; pure epsilon."
    )


def _plain_model(log: Log) -> Released:
    """Return the model of plain frequencies, without privacy; unseen actions are never taken."""
    n_states, n_actions, n_ends = log.n_states, log.n_actions, len(log.outcomes)
    size = n_states + n_ends + 1
    moved = np.where(log.next_state == CUT, size - 1, log.next_state)
    pair = log.state * n_actions + log.action
    shape = n_states, n_actions
    taken = np.bincount(pair, minlength=n_states * n_actions).reshape(shape)
    transition = np.zeros((size, n_actions, size))
    np.add.at(transition, (log.state, log.action, moved), 1.0)
    transition[:n_states, :, -1] += taken == 0
    for state in range(n_states, size):
        transition[state, :, state] = 1.0
    transition /= transition.sum(axis=-1, keepdims=True)
    paid = np.bincount(pair, log.reward, minlength=n_states * n_actions).reshape(shape)
    reward = np.zeros((size, n_actions))
    reward[:n_states] = paid / np.maximum(taken, 1)
    chances = np.full((size, n_actions), 1 / n_actions)
    visited = taken.sum(axis=1) > 0
    chances[:n_states][visited] = taken[visited] / taken[visited].sum(axis=1, keepdims=True)
    first = np.bincount(log.state[log.episode_starts[:-1]], minlength=size)
    statement = {
        "unit": "none", "relation": "none", "epsilon": 1e9, "delta": 0.0,
        "released": "exact frequencies", "caveats": ["no privacy"], "version": "none",
    }  # fmt: skip
    mdp = TabularMDP(transition, reward, first / first.sum(), log.most_steps)
    names = (*log.outcomes, "unknown")
    return Released(mdp=mdp, statement=statement, outcomes=names, behaviour=chances)


def _compared(made: Log, held: Log) -> list[str]:
    returns = [np.add.reduceat(log.reward, log.episode_starts[:-1]) for log in (made, held)]
    lengths = [np.diff(log.episode_starts) for log in (made, held)]
    means = [each.mean() for each in (*returns, *lengths)]
    return [
        f"{_apart(*(_pairs(log) for log in (made, held))):.3f}",
        f"{_apart(*(_triples(log) for log in (made, held))):.3f}",
        f"{means[0]:.3f} ({means[1]:.3f})",
        f"{wasserstein_distance(*returns):.3f}",
        f"{means[2]:.2f} ({means[3]:.2f})",
        f"{wasserstein_distance(*lengths):.2f}",
    ]


def _pairs(log: Log) -> np.ndarray:
    return log.state * log.n_actions + log.action


def _triples(log: Log) -> np.ndarray:
    width = log.n_states + len(log.outcomes) + 1
    return _pairs(log) * width + np.where(log.next_state == CUT, width - 1, log.next_state)


def _apart(cells: np.ndarray, others: np.ndarray) -> float:
    """Return the total variation distance of two sets of draws."""
    size = int(max(cells.max(), others.max())) + 1
    found = [np.bincount(each, minlength=size) / len(each) for each in (cells, others)]
    return float(np.abs(found[0] - found[1]).sum() / 2)


if __name__ == "__main__":
    main()
