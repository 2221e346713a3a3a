"""Methods: configurations of agents as plain data, and the agents built from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from privrl.accounting.calibration import calibrate
from privrl.accounting.journal import KeepsJournal
from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import (
    DEFAULT_DELTA,
    PureDP,
    RenyiDP,
    Target,
    check_target,
    target_of,
)
from privrl.agents.baselines import Oracle, RandomPolicy
from privrl.agents.dp_ucbvi import DPUCBVI
from privrl.agents.explore_then_plan import ExploreThenPlan
from privrl.agents.psrl import PSRL
from privrl.agents.q_learning import QLearning
from privrl.agents.released import learns_in
from privrl.agents.rewards import (
    BetaRewards,
    HatRewards,
    KnownRewards,
    NoisyRewards,
    RewardModel,
    reward_loops,
)
from privrl.agents.rlsvi import RLSVI
from privrl.agents.schedules import Schedule, schedule_named
from privrl.agents.setup import TabularSetup, self_loops
from privrl.agents.sparse_psrl import SparsePSRL
from privrl.agents.tabular import TabularAgent
from privrl.agents.ucbvi import UCBVI
from privrl.costs.base import Cost, pure_ratio, together
from privrl.costs.relations import DAMPED, Relation, ReplaceStep
from privrl.envs.facts import PublicFacts, public_facts
from privrl.envs.ranges import has_numbers
from privrl.envs.support import Support
from privrl.envs.tabular import TabularMDP
from privrl.files.plain import lookup
from privrl.files.shown import shown
from privrl.numerics.checks import (
    check_between,
    check_count,
    check_finite,
    check_is,
    check_positive,
    check_truth,
)
from privrl.numerics.randomness import Rng, as_rng
from privrl.numerics.typing import BoolArray, FloatArray
from privrl.samplers.base import Sampler, stack
from privrl.samplers.buffered import BufferedFactorisation
from privrl.samplers.dirichlet import Concentrated, Diffuse, DirichletSampler
from privrl.samplers.factorisations import FactorisationName, LocalNoise
from privrl.samplers.noisy_counts import DEFAULT_THRESHOLD, NoisyCounts, NonPrivate
from privrl.samplers.sparse_counts import SparseCounts

if TYPE_CHECKING:
    from privrl.agents.continuous import ContinuousAgent

NO_PRIVACY = "non-private"
"""The name of the sampler that releases exact counts."""

_LONGEST_LABEL = 200  # characters
_MOST = 1e6  # nats; no Dirichlet draw is calibrated to a larger budget
_LARGEST_TABLE = 2**25  # cells of transitions up to which noise on each of them fits in memory
_SPLIT_ORDER = 2.0  # Renyi order at which other targets are divided between two tables
RewardName = Literal["auto", "beta", "noisy", "hat", "known"]

AGENTS: dict[str, type[TabularAgent]] = {
    "sparse-psrl": SparsePSRL,
    "psrl": PSRL,
    "ucbvi": UCBVI,
    "dp-ucbvi": DPUCBVI,
    "rlsvi": RLSVI,
    "explore-then-plan": ExploreThenPlan,
    "q-learning": QLearning,
    "random": RandomPolicy,
    "oracle": Oracle,
}
"""The agents by their names on the command line. Their classes declare all further facts."""


class SamplerPlan:
    """Settings of samplers other than their budgets."""

    def __init__(self, method: "Method", task: "Task", schedule: Schedule, *, single: bool) -> None:
        self.method, self.relation, self.single = method, task.relation, single
        starts = list(schedule.starts(task.episodes))
        self.draws = max(1, len(starts))
        self.users = tuple(np.diff([0, *starts]).tolist())  # episodes in the batch of each draw
        self._task = task

    def loops(self, table: str) -> BoolArray | None:
        """Return the cells of damped self-loops in a table."""
        task, method = self._task, self.method
        if table == "rewards":
            return reward_loops(task.relation) if method.has_hats else None
        if DAMPED not in dict(task.relation.tables):
            return None
        return self_loops(
            task.n_states,
            task.n_actions,
            terminates=task.terminates,
            support=task.support if method.support else None,
        )

    def prior(self, table: str) -> float:
        """Return the prior pseudo-count of a table's cells."""
        return self.method.alpha if table == "transitions" else self.method.reward_alpha


Build = Callable[[Sequence[RenyiDP | None], SamplerPlan, str], Sampler]
"""Makes a sampler of the named table from budgets, one for each row or a single one."""


@dataclass(frozen=True, kw_only=True)
class SamplerEntry:
    """A registered sampler and its properties.

    Parameters
    ----------
    build : callable
        Makes the sampler; see `calibrated` for classes with a classmethod ``calibrated``.
    look : str or (str, str, str)
        Style in figures: a name in `privrl.experiments.palette.LOOKS`, or colour, marker and line.
    is_private : bool
        Whether its releases are private.
    releases_counts : bool
        Whether it releases counts and the scale of their noise, as most agents require.
    pays_once : bool
        Whether the first draw is charged for the whole stream; otherwise each draw is charged.
    stacks : bool
        Whether samplers of several budgets can be stacked (`privrl.samplers.base.stack`). If not,
        ``build`` always gets one budget.
    has_window : bool
        Whether a draw can be limited to the most recent batches.
    tables_kept : callable
        Returns the number of tables that a run keeps between draws, given the number of draws and
        the window.
    is_sparse : bool
        Whether only some cells of the transitions appear.
    lighter : str
        Name of a sampler that keeps fewer tables, for a message.
    """

    build: Build
    look: str | tuple[str, str, str] = "other"
    is_private: bool = True
    releases_counts: bool = True
    pays_once: bool = False
    stacks: bool = True
    has_window: bool = False
    tables_kept: Callable[[int, int | None], int] = lambda draws, window: min(window or 1, draws)
    is_sparse: bool = False
    lighter: str = ""


def calibrated(
    kind: Any, settings: Callable[[SamplerPlan, str], dict[str, Any]] = lambda plan, table: {}
) -> Build:
    """Return a function that makes samplers with the classmethod ``calibrated`` of a class.

    Parameters
    ----------
    kind : type
        The class.
    settings : callable, optional
        Returns further arguments, given the plan and the name of the table.
    """

    def build(budgets: Sequence[RenyiDP | None], plan: SamplerPlan, table: str) -> Sampler:
        rows = [
            kind.calibrated(
                _known("budget", budget),
                draws=plan.draws,
                alpha=plan.prior(table),
                relation=plan.relation,
                table=table,
                **settings(plan, table),
            )
            for budget in budgets
        ]
        return rows[0] if plan.single else stack(rows)

    return build


def _dirichlet(kind: type[DirichletSampler], look: str) -> SamplerEntry:
    build = calibrated(kind, lambda plan, table: {"window": plan.method.window})
    return SamplerEntry(build=build, look=look, releases_counts=False, has_window=True)


def _noisy(
    factorisation: FactorisationName | None,
    look: str,
    tables_kept: Callable[[int, int | None], int] = lambda draws, window: draws,  # all noise
    lighter: str = "noisy-counts:buffered",
) -> SamplerEntry:
    def settings(plan: SamplerPlan, table: str) -> dict[str, Any]:
        return {
            "factorisation": factorisation or LocalNoise(plan.users),
            "loops": plan.loops(table),
            "threshold": plan.method.threshold,
        }

    build = calibrated(NoisyCounts, settings)
    return SamplerEntry(
        build=build, look=look, pays_once=True, tables_kept=tables_kept, lighter=lighter
    )


def _sparse(budgets: Sequence[RenyiDP | None], plan: SamplerPlan, table: str) -> Sampler:
    if table != "transitions":  # a row of few cells
        return SAMPLERS["noisy-counts:buffered"].build(budgets, plan, table)
    tables = dict(plan.relation.tables)
    (budget,) = budgets
    return SparseCounts.calibrated(
        _known("budget", budget),
        draws=plan.draws,
        alpha=plan.prior(table),
        relation=plan.relation,
        table=DAMPED if DAMPED in tables else table,
        users=plan.users,
    )


def _exact(budgets: Sequence[RenyiDP | None], plan: SamplerPlan, table: str) -> Sampler:
    del budgets
    return NonPrivate(alpha=plan.prior(table), relation=plan.relation)


SAMPLERS: dict[str, SamplerEntry] = {
    NO_PRIVACY: SamplerEntry(build=_exact, look="no privacy", is_private=False),
    "diffuse": _dirichlet(Diffuse, "diffuse"),
    "concentrated": _dirichlet(Concentrated, "concentrated"),
    "noisy-counts": _noisy("auto", "gaussian"),
    "noisy-counts:optimal": _noisy("optimal", "noisy-counts:optimal"),
    "noisy-counts:tree": _noisy("tree", "noisy-counts:tree"),
    "noisy-counts:independent": _noisy("independent", "noisy-counts:independent"),
    "noisy-counts:buffered": _noisy(
        "buffered",
        "noisy-counts:buffered",
        lambda draws, window: 2 + len(BufferedFactorisation(draws).rates),
        lighter="",
    ),
    "local-counts": _noisy(None, "local-counts", lighter=""),
    "sparse-counts": SamplerEntry(
        build=_sparse,
        look="sparse-counts",
        pays_once=True,
        stacks=False,
        is_sparse=True,
        tables_kept=lambda draws, window: 1 + len(BufferedFactorisation(draws).rates),
    ),
}
"""The samplers by their names on the command line."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """The public configuration of an agent, without its budget.

    Parameters
    ----------
    agent : str
        A key of `AGENTS`.
    sampler : str
        A key of `SAMPLERS`; by default the agent's ``usual_sampler``.
    schedule : str
        Schedule of the draws, see `privrl.agents.schedules.schedule_named`; by default the agent's
        ``usual_schedule``. Agents with ``has_own_schedule`` ignore it.
    resamples : str, optional
        Schedule of fresh samples of a released posterior, for agents with ``can_resample``.
    window : int, optional
        Number of batches that a Dirichlet draw covers.
    alpha, reward_alpha : float
        Prior pseudo-counts of transitions and of reward successes and failures.
    rewards : {"auto", "beta", "noisy", "hat", "known"}
        The reward model. By default the one required by the agent, else ``"noisy"`` if the sampler
        releases counts, else ``"beta"``.
    reward_share : float
        Fraction of each budget for the rewards; the transitions get the rest.
    reward_epsilon : float, optional
        An additional budget for the rewards, in place of a share, as in Ponnoprat's experiment. It
        is included in the reported total.
    threshold : float
        Number of standard deviations to subtract from noisy counts, see
        `privrl.samplers.NoisyCounts`.
    support : bool
        Whether the possible next states are public.
    label : str, optional
        Name in figures and tables, of at most 200 characters.

    Raises
    ------
    ValueError
        If a name is unknown, a number is out of range, or two settings are incompatible.
    """

    agent: Annotated[str, f"{', '.join(AGENTS)}."] = "psrl"
    sampler: Annotated[str, f"auto, {', '.join(SAMPLERS)}."] = "auto"
    schedule: Annotated[str, "auto, every-episode, geometric or geometric:RATIO."] = "auto"
    resamples: Annotated[str | None, "Schedule of fresh samples between draws; free."] = None
    window: Annotated[int | None, "Batches that a Dirichlet draw looks back on."] = None
    alpha: Annotated[float, "Prior pseudo-count of a transition."] = 1.0
    reward_alpha: Annotated[float, "Prior pseudo-count of a reward."] = 1.0
    rewards: Annotated[RewardName, "auto, beta, noisy, hat, or known (public)."] = "auto"
    reward_share: Annotated[float, "Part of the budget for rewards."] = 1 / 3
    reward_epsilon: Annotated[float | None, "Rewards' budget beside the other, in nats."] = None
    threshold: Annotated[float, "Deviations taken off noisy counts."] = DEFAULT_THRESHOLD
    support: Annotated[bool, "Possible next states are public."] = False
    label: str = field(default="")

    def __post_init__(self) -> None:
        kind = lookup("agent", self.agent, AGENTS)
        check_truth("support", self.support)
        if not kind.releases:
            self._put("sampler", NO_PRIVACY)
        self._put("sampler", kind.usual_sampler if self.sampler == "auto" else self.sampler)
        self._put("schedule", kind.usual_schedule if self.schedule == "auto" else self.schedule)
        lookup("sampler", self.sampler, SAMPLERS)
        lookup("rewards", self.rewards, dict.fromkeys(get_args(RewardName)))
        if self.schedule != "auto":
            schedule_named(self.schedule)
        if kind.reward_model is not None and self.rewards not in ("auto", kind.reward_model):
            raise ValueError(
                f"rewards must be auto for agent={shown(self.agent)}, got {shown(self.rewards)}; "
                f"other reward models go with agent={shown(Method.agent)}."
            )
        if self.resamples is not None:
            schedule_named(self.resamples)
            if not kind.can_resample:
                raise ValueError(
                    f"resamples must be left out for agent={shown(self.agent)}, which does not "
                    f"sample a posterior again, got {shown(self.resamples)}; it is for "
                    f"agent={shown(Method.agent)}."
                )
        for name in ("alpha", "reward_alpha"):
            check_positive(name, getattr(self, name))
        if check_finite("threshold", self.threshold) < 0:
            raise ValueError(f"threshold must be >= 0 and finite, got {shown(self.threshold)}.")
        check_between("reward_share", self.reward_share, 0, 1)
        if self.reward_epsilon is not None:
            check_positive("reward_epsilon", self.reward_epsilon)
        self._check_sampler()
        if not self.label:
            self._put("label", self._default_label())
        check_is("label", self.label, str)
        if len(self.label) > _LONGEST_LABEL:
            raise ValueError(
                f"label must have at most {_LONGEST_LABEL} characters, since pictures show it, "
                f"got {len(self.label)}; give a shorter one."
            )

    def _check_sampler(self) -> None:
        """Check that sampler, agent and rewards are compatible."""
        if self.window is not None:
            check_count("window", self.window)
            if not self._sampler.has_window:
                raise ValueError(
                    "window is for the samplers diffuse and concentrated, got "
                    f"{shown(self.sampler)}; noisy counts pay for a whole stream once."
                )
        if self._sampler.is_sparse and self.support:
            raise ValueError(
                f"support must be left out for sampler={shown(self.sampler)}, because tables of "
                "possible next states are small; or take noisy-counts:buffered."
            )
        if self._sampler.is_sparse and self.kind.needs_counts and not self.kind.takes_cells:
            takers = [name for name, kind in AGENTS.items() if kind.takes_cells]
            raise ValueError(
                f"sampler must release all counts for agent={shown(self.agent)}, got "
                f"{shown(self.sampler)}; take noisy-counts:buffered, or agent={shown(takers[0])}."
            )
        if not self._sampler.releases_counts and (
            self.kind.needs_counts or self.rewards in ("noisy", "hat")
        ):
            raise ValueError(
                f"sampler must release counts for agent={shown(self.agent)} with "
                f"rewards={shown(self.rewards)}, got {shown(self.sampler)}; take noisy-counts, or "
                "agent='psrl' with it."
            )

    def _put(self, name: str, value: str) -> None:
        object.__setattr__(self, name, value)

    @property
    def kind(self) -> type[TabularAgent]:
        """The class of the agent."""
        return AGENTS[self.agent]

    @property
    def _sampler(self) -> SamplerEntry:
        return SAMPLERS[self.sampler]

    @property
    def is_private(self) -> bool:
        """Whether the agent has a privacy guarantee."""
        return self._sampler.is_private and self.kind.releases

    @property
    def has_hats(self) -> bool:
        """Whether the reward model is `privrl.agents.HatRewards`."""
        return "hat" in (self.rewards, self.kind.reward_model)

    @property
    def needs_tables(self) -> bool:
        """Whether it needs public facts that only an environment with tables has."""
        return self.kind.needs_tables or self.rewards == "known"

    @property
    def side_by_side(self) -> bool:
        """Whether runs of several budgets can be one array program."""
        return self.is_private and self.kind.side_by_side and self._sampler.stacks

    def draws_of(self, episodes: int) -> Schedule:
        """Return the schedule of a run of ``episodes`` episodes."""
        return self.kind.schedule_of(self.schedule, episodes, private=self.is_private)

    @property
    def is_sparse(self) -> bool:
        """Whether no table of all transitions is kept."""
        return self._sampler.is_sparse and self.kind.takes_cells

    def tables_kept(self, draws: int) -> int:
        """Return the number of tables that a run keeps between draws: of rewards if sparse."""
        return self._sampler.tables_kept(draws, self.window)

    @property
    def lighter_sampler(self) -> str:
        """The name of a sampler that keeps fewer tables, or an empty string."""
        return self._sampler.lighter

    def _default_label(self) -> str:
        kind, name = self.kind, self.agent.upper()
        if not kind.releases:
            return kind.title or name
        public = ["known support"] * self.support
        if self.schedule == "auto":  # the agent's own
            name, usual = kind.title or name, self.sampler == kind.usual_sampler
            words = [name + (f", {self.sampler}" * (not usual and self.is_private))]
            words[0] += "" if self.is_private else " without privacy"
            return ", ".join(words + public)
        words = [f"{name} without privacy" if not self.is_private else self.sampler]
        if self.is_private and self.agent != Method.agent:
            words[0] = f"{name}, {words[0]}"
        words += [self.schedule] * (not kind.has_own_schedule)
        words += [f"window {self.window}"] * (self.window is not None)
        words += ["known rewards"] * (self.rewards == "known") + public
        return ", ".join(words)


@dataclass(frozen=True, kw_only=True)
class Task:
    """The public facts of a learning task."""

    n_states: int
    n_actions: int
    horizon: int
    reward_range: tuple[float, float]
    relation: Relation
    episodes: int
    terminates: bool = False
    expected_reward: FloatArray | None = None
    support: Support | None = None
    best_policy: NDArray[np.intp] | None = None  # for agents that need tables alone
    bins: tuple[int, ...] = ()  # of each coordinate, if states are those of real ones

    @classmethod
    def of(cls, facts: PublicFacts, **more: Any) -> "Task":
        """Return a task with the public facts of an environment."""
        named = ("n_states", "n_actions", "horizon", "reward_range", "terminates", "bins")
        return cls(**{name: getattr(facts, name) for name in named}, **more)


def make_agent(
    method: Method,
    task: Task,
    targets: Sequence[Target | None],
    rng: Rng,
    *,
    runs: int | None = None,
    accountant: KeepsJournal | None = None,
    budgets: Sequence[RenyiDP | None] | None = None,
) -> TabularAgent:
    """Return an agent for targets and runs, with samplers calibrated to the targets.

    Parameters
    ----------
    method : Method
        Configuration of the agent.
    task : Task
        Public facts of the task.
    targets : sequence of Target or None
        The privacy of a whole run for each setting; None without privacy.
    rng : numpy.random.Generator, int or None
        All of the agent's randomness.
    runs : int, optional
        Number of independent runs for each target; the agent then has batch shape ``(len(targets),
        runs)``. By default a single run with the only target.
    accountant : KeepsJournal, optional
        Charged for all draws; by default a new accountant, whose budget is the target.
    budgets : sequence of RenyiDP or None, optional
        What `renyi_budget` returns for each target, if that is known.

    Raises
    ------
    ValueError
        If the task lacks a public fact that the method needs, or a target cannot be met.
    """
    kind, plan = method.kind, SamplerPlan(method, task, method.draws_of(task.episodes),
                                          single=runs is None)  # fmt: skip
    budgets = budgets or [renyi_budget(each, method, task) for each in targets]
    made: dict[str, Any] = {}
    if kind.releases:
        parts = [_split(method, budget) for budget in budgets]
        made["sampler"] = method._sampler.build([part[0] for part in parts], plan, "transitions")
        made["rewards"] = _reward_model(method, task, [part[1] for part in parts], plan)
        if method.support:
            made["support"] = _known("support", task.support)
    if accountant is None:
        whole = [_whole(method, target) for target in targets]
        budget = whole[0] if runs is None else whole
        accountant = RdpAccountant(budget=budget, plan=_planned(made, plan, targets))
    setup = TabularSetup(
        task.n_states,
        task.n_actions,
        task.horizon,
        rng=rng,
        schedule=method.draws_of(task.episodes),
        accountant=accountant,
        target=targets[0] if runs is None else None,
        batch_shape=() if runs is None else (len(targets), runs),
        terminates=task.terminates,
        **made,
    )
    return kind.build(setup, method, task)


def renyi_budget(target: Target | None, method: Method, task: Task) -> RenyiDP | None:
    """Return the Renyi divergence that a method can spend under a target.

    It covers transitions and rewards of all planned draws.

    Raises
    ------
    ValueError
        If the method is not private, or has a ``reward_epsilon``, which is a Renyi divergence, or
        if the target cannot be met.
    """
    if target is None:
        return None
    check_target(target)
    if isinstance(target, RenyiDP):
        return target
    if not method.is_private:
        raise ValueError("method must be private to have a budget, got one that releases counts.")
    if method.reward_epsilon is not None:
        raise ValueError(
            "reward_epsilon is a Renyi divergence, so the budget must be one (--renyi-order), got "
            f"{shown(method.reward_epsilon)} beside {target}; or divide that with reward_share."
        )
    plan = SamplerPlan(method, task, method.draws_of(task.episodes), single=True)

    def costs(amount: float) -> list[Cost]:
        parts = zip(
            _split(method, RenyiDP(_SPLIT_ORDER, amount)), ("transitions", "rewards"), strict=True
        )
        built = [method._sampler.build([part], plan, table) for part, table in parts if part]
        return [each.cost for each in built if each.cost is not None]

    if isinstance(target, PureDP) and any(pure_ratio(each) is None for each in costs(1.0)):
        raise ValueError(
            f"delta must be > 0 for the sampler {method.sampler}, which has no pure epsilon, got "
            "0; 1e-5 is usual."
        )
    count = _charges(method, plan)

    def cost(amount: float) -> Cost:
        return together(costs(amount))

    # The exact posterior may already meet a large target.
    if not method._sampler.pays_once and target.excess(cost(_MOST), count) <= 0:
        return RenyiDP(_SPLIT_ORDER, _MOST)
    return RenyiDP(_SPLIT_ORDER, calibrate(target, cost, rises=True, count=count))


def _charges(method: Method, plan: SamplerPlan) -> int:
    """Return the number of charges of a run."""
    if method._sampler.pays_once:
        return 1
    return min(plan.draws, method.window or plan.draws)


def _planned(
    made: dict[str, Any], plan: SamplerPlan, targets: Sequence[Target | None]
) -> list[tuple[Cost, int]] | None:
    """Return the charges of a run, if the order of the budget depends on them."""
    count = _charges(plan.method, plan)
    if count == 1 or all(each is None or isinstance(each, RenyiDP) for each in targets):
        return None
    costs = [made[name].cost for name in ("sampler", "rewards")]
    return [(together([each for each in costs if each is not None]), count)]


def _split(method: Method, budget: RenyiDP | None) -> tuple[RenyiDP | None, RenyiDP | None]:
    """Return the budgets of transitions and rewards."""
    if budget is None or method.rewards == "known":
        return budget, None
    if method.reward_epsilon is not None:
        return budget, RenyiDP(budget.order, method.reward_epsilon)
    share = method.reward_share
    return (
        RenyiDP(budget.order, budget.epsilon * (1 - share)),
        RenyiDP(budget.order, budget.epsilon * share),
    )


def _whole(method: Method, target: Target | None) -> Target | None:
    """Return the budget of a run: the target plus ``reward_epsilon``."""
    if method.reward_epsilon is None or method.rewards == "known":
        return target
    if not isinstance(target, RenyiDP):
        return target
    return RenyiDP(target.order, target.epsilon + method.reward_epsilon)


def _reward_model(
    method: Method, task: Task, budgets: Sequence[RenyiDP | None], plan: SamplerPlan
) -> RewardModel:
    if method.rewards == "known":
        return KnownRewards(_known("expected_reward", task.expected_reward))
    low, high = task.reward_range
    sampler = method._sampler.build(budgets, plan, "rewards")
    if method.has_hats:
        return HatRewards(sampler, low=low, high=high)
    noisy = method.rewards == "noisy" or (
        method.rewards == "auto" and method._sampler.releases_counts
    )
    return (NoisyRewards if noisy else BetaRewards)(sampler, low=low, high=high)


def _known(name: str, fact: Any) -> Any:
    if fact is None:
        raise ValueError(
            f"method needs the public fact {shown(name)}, which this environment does not have; "
            "use one with tables, or another method."
        )
    return fact


def private_agent(
    env: gym.Env[Any, Any] | TabularMDP,
    *,
    epsilon: float | None,
    delta: float | None,
    target: Target | None,
    episodes: int,
    relation: Relation | None,
    support: Support | None,
    accountant: KeepsJournal | None,
    rng: Rng,
) -> "PSRL | ContinuousAgent":
    """Return the recommended agent; see `PSRL.private`."""
    if isinstance(env, VectorEnv):
        raise ValueError(
            "env must be one environment, got a vector of them; make the agent for a single "
            "one, and learn in all: PSRL.private(gymnasium.make(...), ...).learn(env=...)."
        )
    if not isinstance(env, gym.Env | TabularMDP):
        raise ValueError(
            f"env must be an environment, got {shown(env)}; make one with gymnasium.make, or a "
            "TabularMDP."
        )
    if (target is None) == (epsilon is None) or (target is not None and delta is not None):
        raise ValueError(
            "epsilon must be given, with delta or without, or target, and not both; such as "
            "epsilon=1.0, or target=RenyiDP(2, 1.0)."
        )
    if target is None:
        target = target_of(_known("epsilon", epsilon), DEFAULT_DELTA if delta is None else delta)
    check_target(target)
    if isinstance(env, gym.Env) and has_numbers(env.observation_space):
        if support is not None:
            raise ValueError("support must be None for observations that are real numbers.")
        # It loads what reads logs, which sweeps do not need.
        from privrl.agents.continuous import ContinuousAgent  # noqa: PLC0415

        return ContinuousAgent.private(
            env,
            target=target,
            episodes=check_count("episodes", episodes),
            relation=relation,
            accountant=accountant,
            rng=rng,
        )
    facts = facts_of_tables(env, support) if isinstance(env, TabularMDP) else public_facts(env)
    if relation is None:
        relation = ReplaceStep(arrival_rewards=facts.arrival_rewards)
    check_is("relation", relation, Relation, hint="ReplaceEpisode(horizon) in privrl.costs is one")
    episodes = check_count("episodes", episodes)
    task = Task.of(facts, relation=relation, episodes=episodes, support=support)
    cells = facts.n_states**2 * facts.n_actions
    method = Method(
        agent="sparse-psrl",
        sampler="sparse-counts" if support is None and cells > _LARGEST_TABLE else "auto",
        support=support is not None,
    )
    agent = make_agent(method, task, [target], as_rng(rng), accountant=accountant)
    assert isinstance(agent, PSRL)
    agent.env = env
    learns_in(agent, env)
    return agent


def facts_of_tables(mdp: TabularMDP, support: Support | None) -> PublicFacts:
    """Return what is public where the tables are, and next states too if ``support`` is given."""
    low, high = mdp.reward_range
    terminates = bool(mdp.ends.any())
    if terminates and support is not None:  # then ends are states like others, and pay nothing
        low, high, terminates = min(low, 0.0), max(high, 0.0), False
    return PublicFacts(
        n_states=mdp.n_states,
        n_actions=mdp.n_actions,
        horizon=mdp.horizon,
        reward_range=(low, high if low < high else low + 1),
        terminates=terminates,
        arrival_rewards=mdp.reward.ndim == 3,
    )
