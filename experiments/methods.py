"""Methods: how an agent learns, as plain data, and the agent made from it for a set of budgets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from privrl.accounting.calibration import calibrate
from privrl.accounting.rdp import RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.agents import (
    DPUCBVI,
    PSRL,
    RLSVI,
    UCBVI,
    BetaRewards,
    ExploreThenPlan,
    HatRewards,
    KnownRewards,
    NoisyRewards,
    Once,
    Oracle,
    QLearning,
    RandomPolicy,
    RewardModel,
    Schedule,
    SparsePSRL,
    TabularAgent,
    reward_loops,
    self_loops,
    sparse_schedule,
)
from privrl.costs.base import Cost, together
from privrl.costs.relations import DAMPED, Relation
from privrl.envs.support import Support
from privrl.experiments.names import lookup, schedule_named
from privrl.files.shown import shown
from privrl.numerics.checks import check_between, check_count, check_is, check_positive, check_truth
from privrl.numerics.special import FloatArray
from privrl.numerics.typing import BoolArray
from privrl.samplers.base import Sampler, stack
from privrl.samplers.dirichlet import Concentrated, Diffuse, DirichletSampler
from privrl.samplers.factorisations import FactorisationName, LocalNoise
from privrl.samplers.noisy_counts import DEFAULT_THRESHOLD, NoisyCounts, NonPrivate

_FROM_COUNTS = (
    "ucbvi",
    "dp-ucbvi",
    "rlsvi",
    "explore-then-plan",
)  # they plan from noisy counts themselves
_YARDSTICKS = {  # they learn nothing, or nothing private
    "random": "random policy",
    "oracle": "best policy",
    "q-learning": "Q-learning without privacy",
}
_LONGEST_LABEL = 200  # characters
_MOST = 1e6  # nats, beyond which no Dirichlet draw is made less private
RewardName = Literal["auto", "beta", "noisy", "hat", "known"]


@dataclass(frozen=True, kw_only=True)
class Method:
    """How an agent learns: everything about it that is public, but the budget.

    Parameters
    ----------
    agent : str
        A name, see `AGENTS`.
    sampler : str
        A name, see `SAMPLERS`; by default noisy counts, for the agent sparse-psrl buffered ones.
    schedule : str
        Before which episodes it draws, see `privrl.experiments.names.schedule_named`; by default
        ``"geometric:1.05"``, and for the agent sparse-psrl its own. The agent explore-then-plan
        does so before the last one, whatever stands here.
    resamples : str, optional
        Another schedule, of the episodes before which a released posterior is sampled afresh.
    window : int, optional
        How many batches a Dirichlet draw looks back on.
    alpha, reward_alpha : float
        Prior pseudo-counts of transitions and of reward successes and failures.
    rewards : {"auto", "beta", "noisy", "hat", "known"}
        The reward model; by default ``"noisy"`` where counts are released with noise, ``"beta"``
        where Dirichlet draws are, and ``"hat"`` for the agent sparse-psrl, which needs it.
    reward_share : float
        Part of each budget that the rewards' table gets; the transitions get the rest.
    reward_epsilon : float, optional
        A budget for the rewards beside the other, in place of a share of it, as Ponnoprat's
        experiment has it. What is reported as spent includes it.
    threshold : float
        How many deviations are taken off noisy counts, see
        `privrl.samplers.NoisyCounts`.
    support : bool
        Whether it is public which next states are possible.
    label : str, optional
        What pictures and tables call it, in at most 200 characters.

    Raises
    ------
    ValueError
        If a name is unknown, a number out of range, or two settings do not go together.
    """

    agent: Annotated[
        str,
        "sparse-psrl, psrl, ucbvi, dp-ucbvi, rlsvi, explore-then-plan, q-learning, random or "
        "oracle.",
    ] = "psrl"
    sampler: Annotated[
        str,
        "auto, non-private, diffuse, concentrated, noisy-counts, noisy-counts:optimal, "
        "noisy-counts:tree, noisy-counts:independent, noisy-counts:buffered or local-counts.",
    ] = "auto"
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
        lookup("agent", self.agent, AGENTS)
        check_truth("support", self.support)
        self._choose_usual()
        lookup("sampler", self.sampler, SAMPLERS)
        lookup("rewards", self.rewards, dict.fromkeys(get_args(RewardName)))
        if self.schedule != "auto":
            schedule_named(self.schedule)
        if self.agent == "sparse-psrl" and self.rewards not in ("auto", "hat"):
            raise ValueError(
                f"rewards must be auto for agent='sparse-psrl', got {shown(self.rewards)}; other "
                "reward models go with agent='psrl'."
            )
        if self.resamples is not None:
            schedule_named(self.resamples)
            if self.agent == "sparse-psrl":
                raise ValueError(
                    "resamples must be left out for agent='sparse-psrl', which plans afresh "
                    f"between draws by itself, got {shown(self.resamples)}; it is for agent='psrl'."
                )
        for name in ("alpha", "reward_alpha"):
            check_positive(name, getattr(self, name))
        if not 0 <= self.threshold < np.inf:
            raise ValueError(f"threshold must be >= 0 and finite, got {shown(self.threshold)}.")
        check_between("reward_share", self.reward_share, 0, 1)
        if self.reward_epsilon is not None:
            check_positive("reward_epsilon", self.reward_epsilon)
        dirichlet = self.sampler in ("diffuse", "concentrated")
        if self.window is not None:
            check_count("window", self.window)
            if not dirichlet:
                raise ValueError(
                    "window is for the samplers diffuse and concentrated, got "
                    f"{shown(self.sampler)}; noisy counts pay for a whole stream once."
                )
        if dirichlet and (
            self.agent in (*_FROM_COUNTS, "sparse-psrl") or self.rewards in ("noisy", "hat")
        ):
            raise ValueError(
                f"sampler must release counts for agent={shown(self.agent)} with "
                f"rewards={shown(self.rewards)}, got {shown(self.sampler)}; take noisy-counts, or "
                "agent='psrl' with it."
            )
        if self.agent in _YARDSTICKS:
            object.__setattr__(self, "sampler", "non-private")
        self._choose_label()

    def _choose_label(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self._default_label())
        check_is("label", self.label, str)
        if len(self.label) > _LONGEST_LABEL:
            raise ValueError(
                f"label must have at most {_LONGEST_LABEL} characters, since pictures show it, "
                f"got {len(self.label)}; give a shorter one."
            )

    def _choose_usual(self) -> None:
        """Put what the agent goes with best in place of "auto"."""
        sparse = self.agent == "sparse-psrl"
        if self.sampler == "auto":
            usual = "noisy-counts:buffered" if sparse else "noisy-counts"
            object.__setattr__(self, "sampler", usual)
        if self.schedule == "auto" and not sparse:
            object.__setattr__(self, "schedule", "geometric:1.05")

    @property
    def is_private(self) -> bool:
        """Whether it makes a claim."""
        return self.sampler != "non-private" and self.agent not in _YARDSTICKS

    @property
    def has_hats(self) -> bool:
        """Whether its reward model is `privrl.agents.HatRewards`."""
        return self.rewards == "hat" or self.agent == "sparse-psrl"

    def draws_of(self, episodes: int) -> Schedule:
        """Return the schedule of a run of so many episodes."""
        if self.agent == "explore-then-plan":
            return Once(episodes - 1)
        if self.schedule == "auto":
            return sparse_schedule(episodes, private=self.is_private)
        return schedule_named(self.schedule)

    def _default_label(self) -> str:
        if self.agent in _YARDSTICKS:
            return _YARDSTICKS[self.agent]
        if self.agent == "sparse-psrl" and self.schedule == "auto":
            usual = self.sampler == "noisy-counts:buffered"
            words = ["sparse PSRL" + (f", {self.sampler}" * (not usual and self.is_private))]
            words[0] += "" if self.is_private else " without privacy"
            return ", ".join(words + ["known support"] * self.support)
        words = [self.agent.upper() + " without privacy" if not self.is_private else self.sampler]
        if self.is_private and self.agent != "psrl":
            words[0] = f"{self.agent.upper()}, {words[0]}"
        words += [self.schedule] * (self.agent != "explore-then-plan")
        words += [f"window {self.window}"] * (self.window is not None)
        words += ["known rewards"] * (self.rewards == "known") + ["known support"] * self.support
        return ", ".join(words)


@dataclass(frozen=True, kw_only=True)
class Task:
    """The public facts of what is to be learned."""

    n_states: int
    n_actions: int
    horizon: int
    reward_range: tuple[float, float]
    relation: Relation
    episodes: int
    terminates: bool = False
    expected_reward: FloatArray | None = None
    support: Support | None = None
    best_policy: NDArray[np.intp] | None = None  # for the yardstick "oracle" alone


def make_agent(
    method: Method,
    task: Task,
    budgets: Sequence[RenyiDP | None],
    rng: np.random.Generator,
    *,
    runs: int | None = None,
) -> TabularAgent:
    """Return an agent of several budgets and runs, its samplers calibrated to the budgets.

    Parameters
    ----------
    method : Method
        How it learns.
    task : Task
        What.
    budgets : sequence of RenyiDP or None
        One for each setting; None without privacy.
    rng : numpy.random.Generator
        All of the agent's randomness.
    runs : int, optional
        Independent runs of each budget; the agent's batch shape is then ``(len(budgets),
        runs)``. By default it is a single run, of the only budget.

    Raises
    ------
    ValueError
        If the method needs a public fact that the task does not have, or a budget cannot be met.
    """
    schedule = method.draws_of(task.episodes)
    batch = () if runs is None else (len(budgets), runs)
    sizes = (task.n_states, task.n_actions, task.horizon)
    if method.agent == "random":
        return RandomPolicy(*sizes, rng=rng, batch_shape=batch, terminates=task.terminates)
    if method.agent == "oracle":
        policy = _known("best_policy", task.best_policy)
        return Oracle(*sizes, policy=policy, batch_shape=batch, terminates=task.terminates)
    accountant = RdpAccountant(budget=[_whole(method, budget) for budget in budgets])
    if method.agent == "q-learning":
        return QLearning(
            *sizes, episodes=task.episodes, rng=rng, batch_shape=batch,
            terminates=task.terminates, accountant=accountant,
        )  # fmt: skip
    parts = [_split(method, budget) for budget in budgets]
    plan = _Plan(method, task, schedule, single=runs is None)
    transitions = SAMPLERS[method.sampler]([part[0] for part in parts], plan, "transitions")
    options: dict[str, Any] = {
        "sampler": transitions,
        "rewards": _reward_model(method, task, [part[1] for part in parts], plan),
        "rng": rng,
        "schedule": schedule,
        "accountant": accountant,
        "batch_shape": batch,
        "terminates": task.terminates,
    }
    if method.support:
        options["support"] = _known("support", task.support)
    if method.agent == "sparse-psrl":
        options["episodes"] = task.episodes
    if method.agent == "psrl" and method.resamples is not None:
        options["resamples"] = schedule_named(method.resamples)
    return AGENTS[method.agent](*sizes, **options)


def renyi_budget(target: ApproxDP, method: Method, task: Task, *, order: float = 2.0) -> RenyiDP:
    """Return the Rényi divergence that a method may spend under an (epsilon, delta) budget.

    It is divided between transitions and rewards as any, for all draws that are planned.

    Raises
    ------
    ValueError
        If the method is not private, or its rewards have a budget of their own, which is a Rényi
        divergence; or the target cannot be met.
    """
    if not method.is_private:
        raise ValueError("method must be private to have a budget, got one that releases counts.")
    if method.reward_epsilon is not None:
        raise ValueError(
            "reward_epsilon is a Rényi divergence, which cannot stand beside an (epsilon, delta) "
            f"budget, got {shown(method.reward_epsilon)}; divide that with reward_share."
        )
    plan = _Plan(method, task, method.draws_of(task.episodes), single=True)

    def samplers(amount: float) -> list[Sampler]:
        parts = zip(_split(method, RenyiDP(order, amount)), ("transitions", "rewards"), strict=True)
        return [SAMPLERS[method.sampler]([part], plan, table) for part, table in parts if part]

    # Noisy counts are paid for once, and a Dirichlet draw each time.
    of_draws = isinstance(samplers(target.epsilon)[0], DirichletSampler)
    count = min(plan.draws, method.window or plan.draws) if of_draws else 1

    def cost(amount: float) -> Cost:
        return together([each.cost for each in samplers(amount) if each.cost is not None])

    # The ordinary posterior may meet a generous target: then nothing binds.
    if of_draws and target.excess(cost(_MOST), count) <= 0:
        return RenyiDP(order, _MOST)
    return RenyiDP(order, calibrate(target, cost, rises=True, count=count))


def _split(method: Method, budget: RenyiDP | None) -> tuple[RenyiDP | None, RenyiDP | None]:
    """Return what transitions and rewards may spend."""
    if budget is None or method.rewards == "known":
        return budget, None
    if method.reward_epsilon is not None:
        return budget, RenyiDP(budget.order, method.reward_epsilon)
    share = method.reward_share
    return (
        RenyiDP(budget.order, budget.epsilon * (1 - share)),
        RenyiDP(budget.order, budget.epsilon * share),
    )


def _whole(method: Method, budget: RenyiDP | None) -> RenyiDP | None:
    if budget is None or method.reward_epsilon is None or method.rewards == "known":
        return budget
    return RenyiDP(budget.order, budget.epsilon + method.reward_epsilon)


def _reward_model(
    method: Method, task: Task, budgets: Sequence[RenyiDP | None], plan: "_Plan"
) -> RewardModel:
    if method.rewards == "known":
        return KnownRewards(_known("expected_reward", task.expected_reward))
    low, high = task.reward_range
    sampler = SAMPLERS[method.sampler](budgets, plan, "rewards")
    if method.has_hats:
        return HatRewards(sampler, low=low, high=high)
    noisy = method.rewards == "noisy" or (
        method.rewards == "auto" and isinstance(sampler, NoisyCounts | NonPrivate)
    )
    return (NoisyRewards if noisy else BetaRewards)(sampler, low=low, high=high)


def _known(name: str, fact: Any) -> Any:
    if fact is None:
        raise ValueError(
            f"method needs the public fact {shown(name)}, which this environment does not tell; "
            "use one with tables, or do without."
        )
    return fact


# Names ----------------------------------------------------------------------------------


class _Plan:
    """What samplers need to know beside their budgets."""

    def __init__(self, method: Method, task: Task, schedule: Schedule, *, single: bool) -> None:
        self.method, self.relation, self.single = method, task.relation, single
        starts = list(schedule.starts(task.episodes))
        self.draws = len(starts)
        self.users = tuple(np.diff([0, *starts]).tolist())  # episodes in the batch of each draw
        self._loops: dict[str, BoolArray | None] = {}
        if method.has_hats:
            self._loops["rewards"] = reward_loops(task.relation)
        if DAMPED in dict(task.relation.tables):
            self._loops["transitions"] = self_loops(
                task.n_states,
                task.n_actions,
                terminates=task.terminates,
                support=task.support if method.support else None,
            )

    def loops(self, table: str) -> BoolArray | None:
        return self._loops.get(table)

    def prior(self, table: str) -> float:
        return self.method.alpha if table == "transitions" else self.method.reward_alpha


Build = Callable[[Sequence[RenyiDP | None], _Plan, str], Sampler]


def _calibrated(
    kind: type[DirichletSampler] | type[NoisyCounts],
    settings: Callable[[_Plan, str], dict[str, Any]],
) -> Build:
    def build(budgets: Sequence[RenyiDP | None], plan: _Plan, table: str) -> Sampler:
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


def _dirichlet(kind: type[DirichletSampler]) -> Build:
    return _calibrated(kind, lambda plan, table: {"window": plan.method.window})


def _noisy(factorisation: FactorisationName | None) -> Build:
    def settings(plan: _Plan, table: str) -> dict[str, Any]:
        return {
            "factorisation": factorisation or LocalNoise(plan.users),
            "loops": plan.loops(table),
            "threshold": plan.method.threshold,
        }

    return _calibrated(NoisyCounts, settings)


def _exact(budgets: Sequence[RenyiDP | None], plan: _Plan, table: str) -> Sampler:
    del budgets
    return NonPrivate(alpha=plan.prior(table), relation=plan.relation)


#: From budgets, one for each row (or the only one), to a sampler of the named table.
SAMPLERS: dict[str, Build] = {
    "non-private": _exact,
    "diffuse": _dirichlet(Diffuse),
    "concentrated": _dirichlet(Concentrated),
    "noisy-counts": _noisy("auto"),
    "noisy-counts:optimal": _noisy("optimal"),
    "noisy-counts:tree": _noisy("tree"),
    "noisy-counts:independent": _noisy("independent"),
    "noisy-counts:buffered": _noisy("buffered"),
    "local-counts": _noisy(None),
}

AGENTS: dict[str, Callable[..., TabularAgent]] = {
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
