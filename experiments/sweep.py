"""Reward against epsilon: many samplers, schedules, budgets and runs in one array program."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.interpolate import make_interp_spline

from privrl._checks import check_between, check_count, check_positive
from privrl.accounting import RdpAccountant
from privrl.agents import PSRL, BetaRewards
from privrl.envs import TabularMDP
from privrl.experiments import names
from privrl.experiments.training import Progress, learn_counts
from privrl.relations import Relation
from privrl.samplers import DirichletSampler, NonPrivate, stack
from privrl.special import FloatArray
from privrl.targets import Rdp

_CURVE_POINTS = 60
_LARGEST_TABLE = 1e9  # bytes; a draw holds several tables of that size


@dataclass(frozen=True)
class SweepSpec:
    """Everything that determines a sweep; plain data.

    Parameters
    ----------
    env : str
        Gymnasium id of an environment that carries its tables.
    samplers, schedules : tuple of str
        Names, see `privrl.experiments.names`.
    epsilons : tuple of float
        Budgets of a whole run, in Rényi divergence (nats) of the given order.
    order : float
        Rényi order of the budgets, > 1.
    relation : str
        What one neighbour changes.
    episodes, horizon, runs : int
        Episodes of a run, steps of an episode, independent runs of each cell.
    seed : int
        The root of all randomness. A seed makes runs repeatable, and anyone who knows it can
        undo the noise: sweeps are research on simulated data.
    delta : float
        At which the (epsilon, delta) of each cell is reported.
    alpha, reward_alpha : float
        Prior pseudo-counts of transitions and of reward successes and failures.
    reward_share : float
        Part of each budget that the rewards' table gets; the transitions get the rest.

    Raises
    ------
    ValueError
        If a value is out of range or a name unknown.
    """

    env: str = "privrl/RiverSwim-v0"
    samplers: tuple[str, ...] = ("non-private", "diffuse", "concentrated")
    schedules: tuple[str, ...] = ("every-episode", "geometric")
    epsilons: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0)
    order: float = 2.0
    relation: str = "replace-step"
    episodes: int = 3000
    horizon: int = 30
    runs: int = 20
    seed: int = 0
    delta: float = 1e-5
    alpha: float = 10.0
    reward_alpha: float = 1.0
    reward_share: float = 0.3

    def __post_init__(self) -> None:
        for name in ("samplers", "schedules", "epsilons"):
            values = getattr(self, name)
            if isinstance(values, str):
                raise ValueError(f"{name} must be a list, got the text {values!r}.")
            values = tuple(values)
            object.__setattr__(self, name, values)
            if not values:
                raise ValueError(f"{name} must name at least one, got none.")
            if len(set(values)) < len(values):
                raise ValueError(
                    f"{name} must not repeat itself, got {', '.join(map(str, values))}."
                )
        for sampler in self.samplers:
            names.lookup("samplers", sampler, names.SAMPLERS)
        for schedule in self.schedules:
            names.schedule_named(schedule)
        names.lookup("relation", self.relation, names.RL_RELATIONS)
        epsilons = tuple(check_positive("epsilons", epsilon) for epsilon in self.epsilons)
        object.__setattr__(self, "epsilons", epsilons)
        check_between("order", self.order, 1, np.inf)
        for name in ("episodes", "horizon", "runs"):
            check_count(name, getattr(self, name))
        check_count("seed", self.seed, least=0)
        for name in ("delta", "reward_share"):
            check_between(name, getattr(self, name), 0, 1)
        for name in ("alpha", "reward_alpha"):
            check_positive(name, getattr(self, name))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class SweepResult:
    """What a sweep found.

    Attributes
    ----------
    results : pandas.DataFrame
        One row for each cell and run.
    curves : pandas.DataFrame
        One row for each cell and bin of episodes, ``episode`` its end: mean over runs of the
        reward per episode, and its standard error.
    optimal_value : float
        Expected reward of an episode under the best policy.
    """

    results: pd.DataFrame
    curves: pd.DataFrame
    optimal_value: float


@dataclass(frozen=True)
class _Cell:
    """One setting of the privacy knobs, with its calibrated samplers."""

    sampler: str
    order: float
    epsilon: float  # infinite without privacy
    transitions: DirichletSampler
    rewards: DirichletSampler

    @property
    def budget(self) -> Rdp | None:
        return Rdp(self.order, self.epsilon) if math.isfinite(self.epsilon) else None


def run_sweep(
    spec: SweepSpec, mdp: TabularMDP | None = None, *, on_progress: Progress | None = None
) -> SweepResult:
    """Run every cell of a sweep.

    Parameters
    ----------
    spec : SweepSpec
        What to run.
    mdp : TabularMDP, optional
        Where to run it, of the same horizon; ``spec.env`` is then only what plots call it. By
        default it is read from the environment of that id.
    on_progress : callable, optional
        Is told how many of ``len(spec.schedules) * spec.episodes`` episodes are done.

    Returns
    -------
    SweepResult
        The same for the same spec and library versions.

    Raises
    ------
    ValueError
        If the environment does not exist or carries no tables, or the horizons differ.
    """
    if mdp is None:
        env = names.make_env(spec.env)
        try:
            mdp = TabularMDP.from_gymnasium(env, spec.horizon)
        finally:
            env.close()
    if mdp.horizon != spec.horizon:
        raise ValueError(f"mdp must have the spec's horizon {spec.horizon}, got {mdp.horizon}.")
    relation = names.rl_relation(
        spec.relation, horizon=spec.horizon, arrival_rewards=mdp.reward.ndim == 3
    )
    seeds = np.random.SeedSequence(spec.seed).spawn(len(spec.schedules))
    results, curves = [], []
    for i, (schedule, seed) in enumerate(zip(spec.schedules, seeds, strict=True)):
        done = _progress_after(i * spec.episodes, on_progress)
        result, curve = _run_schedule(spec, mdp, relation, schedule, seed=seed, on_progress=done)
        results.append(result)
        curves.append(curve)
    return SweepResult(
        pd.concat(results, ignore_index=True),
        pd.concat(curves, ignore_index=True),
        mdp.optimal_value(),
    )


def _run_schedule(
    spec: SweepSpec,
    mdp: TabularMDP,
    relation: Relation,
    schedule: str,
    *,
    seed: np.random.SeedSequence,
    on_progress: Progress | None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run all cells that share a schedule as one batched agent of shape (cells, runs)."""
    rng = np.random.default_rng(seed)
    timing = names.schedule_named(schedule)
    draws = len(timing.starts(spec.episodes))
    cells = _cells(spec, relation, draws)
    _check_size(len(cells) * spec.runs, mdp)
    low, high = mdp.reward_range
    agent = PSRL(
        mdp.n_states,
        mdp.n_actions,
        mdp.horizon,
        sampler=stack([cell.transitions for cell in cells]),
        rewards=BetaRewards(stack([cell.rewards for cell in cells]), low=low, high=high),
        rng=rng,
        schedule=timing,
        accountant=RdpAccountant(budget=[cell.budget for cell in cells]),
        batch_shape=(len(cells), spec.runs),
    )
    starts, rewards = learn_counts(agent, mdp, spec.episodes, rng, on_progress=on_progress)
    optimum = mdp.optimal_value()
    totals = rewards.sum(axis=0)
    epsilon_delta = agent.accountant.epsilon(spec.delta)
    rows = [
        {
            "sampler": cell.sampler,
            "schedule": schedule,
            "relation": spec.relation,
            "epsilon": cell.epsilon,
            "order": spec.order,
            "epsilon_delta": epsilon_delta[c],
            "delta": spec.delta,
            "run": run,
            "seed": spec.seed,
            "episodes": spec.episodes,
            "horizon": spec.horizon,
            "draws": draws,
            "scale": float(cell.transitions.scale),
            "alpha": float(cell.transitions.alpha),
            "total_reward": totals[c, run],
            # Where the best is to lose little, a share of it says nothing.
            "optimal_share": totals[c, run] / (optimum * spec.episodes) if optimum > 0 else np.nan,
        }
        for c, cell in enumerate(cells)
        for run in range(spec.runs)
    ]
    curve = _curves(spec, cells, schedule, starts, rewards)
    return pd.DataFrame(rows), curve


def _cells(spec: SweepSpec, relation: Relation, draws: int) -> list[_Cell]:
    """Calibrate every sampler to every budget; without privacy there is a single cell."""

    def calibrated(name: str, epsilon: float, alpha: float, table: str) -> DirichletSampler:
        return names.SAMPLERS[name].calibrated(
            Rdp(spec.order, epsilon), draws=draws, alpha=alpha, relation=relation, table=table
        )

    cells = []
    for name in spec.samplers:
        for epsilon in spec.epsilons if names.SAMPLERS[name] is not NonPrivate else (math.inf,):
            part = 1.0 if math.isinf(epsilon) else epsilon  # without a claim, any will do
            share = spec.reward_share
            transitions = calibrated(name, part * (1 - share), spec.alpha, "transitions")
            rewards = calibrated(name, part * share, spec.reward_alpha, "rewards")
            cells.append(_Cell(name, spec.order, epsilon, transitions, rewards))
    return cells


def _curves(
    spec: SweepSpec,
    cells: Sequence[_Cell],
    schedule: str,
    starts: Sequence[int],
    rewards: FloatArray,
) -> pd.DataFrame:
    """Average the rewards, shape (stretches, cells, runs), per episode over equal bins."""
    done = np.concatenate([np.zeros_like(rewards[:1]), rewards.cumsum(axis=0)])
    edges = np.unique(np.linspace(0, spec.episodes, _CURVE_POINTS + 1).round())
    at = make_interp_spline([*starts, spec.episodes], done, k=1)(edges)
    per_episode = np.diff(at, axis=0) / np.diff(edges)[:, None, None]
    mean = per_episode.mean(axis=-1)
    error = per_episode.std(axis=-1, ddof=1) / math.sqrt(spec.runs) if spec.runs > 1 else 0 * mean
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "sampler": cell.sampler,
                    "schedule": schedule,
                    "epsilon": cell.epsilon,
                    "episode": edges[1:],
                    "reward_per_episode": mean[:, c],
                    "standard_error": error[:, c],
                }
            )
            for c, cell in enumerate(cells)
        ]
    )


def _check_size(runs: int, mdp: TabularMDP) -> None:
    size = 8 * runs * mdp.transition.size
    if size > _LARGEST_TABLE:
        raise ValueError(
            f"the sweep keeps {runs} tables of {mdp.transition.shape} at a time, "
            f"{size / 1e9:.1f} GB each way, more than {_LARGEST_TABLE / 1e9:.0f} GB; ask for fewer "
            "runs, samplers or epsilons."
        )


def _progress_after(before: int, on_progress: Progress | None) -> Progress | None:
    return None if on_progress is None else lambda done: on_progress(before + done)
