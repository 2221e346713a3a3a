"""What an agent's guarantee rests on is checked in the states in which users reach it.

Every guard is tried through the public path, with the samplers that are recommended, before the
first draw and after several.
"""

import copy
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from made import agent_of

from privrl.accounting.ledger import Budget, Ledger
from privrl.accounting.pld import PldAccountant
from privrl.accounting.rdp import BudgetExceeded, RdpAccountant
from privrl.accounting.targets import ApproxDP, RenyiDP
from privrl.agents import (
    PSRL,
    UCBVI,
    BetaRewards,
    Geometric,
    HatRewards,
    KnownRewards,
    NoisyRewards,
    TabularAgent,
    Transition,
)
from privrl.agents.baselines import Oracle
from privrl.agents.rewards import reward_loops
from privrl.agents.setup import self_loops
from privrl.costs.base import NoPrivacy, tables_released
from privrl.costs.noise import GaussianCost
from privrl.costs.relations import DAMPED, DAMPED_REWARDS, Relation, ReplaceEpisode, ReplaceStep
from privrl.envs import Support, TabularVectorEnv, riverswim
from privrl.envs.vector import RiverSwimVectorEnv
from privrl.experiments.training.run import train
from privrl.samplers.base import GRID, draw, stack
from privrl.samplers.dirichlet import Concentrated, Diffuse
from privrl.samplers.factorisations import LocalNoise
from privrl.samplers.noisy_counts import NoisyCounts, NonPrivate

SIZES = S, A, H = 4, 2, 6
DPS = riverswim(n_states=S, horizon=H, variant="dps")
UNIT = ReplaceStep()
COVERING = ReplaceStep(arrival_rewards=True)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def noisy(table: str, **options: Any) -> NoisyCounts:
    return NoisyCounts(**{"sigma": 5.0, "updates": 40, "table": table, **options})


def claimless(**options: Any) -> Diffuse:
    """A sampler of Dirichlet draws that claims nothing about them."""
    sampler = Diffuse(**options)
    sampler._cost = NoPrivacy(UNIT)
    return sampler


def local(table: str, **options: Any) -> NoisyCounts:
    users = LocalNoise((9,) * 40)
    return NoisyCounts(sigma=5.0, updates=40, factorisation=users, table=table, **options)


def windowed(table: str, **options: Any) -> Diffuse:
    return Diffuse(weight=0.1, alpha=1.0, table=table, window=2, **options)


def plain(table: str, **options: Any) -> Concentrated:
    return Concentrated(alpha=40.0, table=table, **options)


KINDS: dict[str, tuple[Callable[..., Any], Any]] = {
    "noisy-counts": (noisy, NoisyRewards),
    "noisy-counts, Bernoulli": (noisy, BetaRewards),
    "local-counts": (local, NoisyRewards),
    "diffuse, window": (windowed, BetaRewards),
    "concentrated": (plain, BetaRewards),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def learner(
    kind: str = "noisy-counts", relation: Relation = UNIT, agent: Any = PSRL, **options: Any
) -> TabularAgent:
    sampler, rewards = KINDS[kind]
    options = {"rng": rng(), "sampler": sampler("transitions", relation=relation), **options}
    model = rewards(sampler("rewards", relation=relation))
    return agent_of(agent, *SIZES, **{"rewards": model, **options})


# Rewards on arrival --------------------------------------------------------------------------

ON_ARRIVAL = np.zeros((S, A, S))
ON_ACTION = np.zeros((S, A, 1))
ONES = np.ones((S, A, S), np.int64)


@each_kind
@pytest.mark.parametrize("draws", [0, 1, 3])
def test_rewards_on_arrival_are_refused_in_every_batch(kind: str, draws: int) -> None:
    agent = learner(kind)
    for episode in range(draws):
        agent.begin_episode(episode)
        agent.observe_counts(ONES, ON_ACTION)
    assert not agent.covers_arrival
    kept = agent._new.counts.sum()
    with pytest.raises(ValueError, match="make it with arrival_rewards=True"):
        agent.observe_counts(ONES, ON_ARRIVAL)
    assert agent._new.counts.sum() == kept
    mine = Relation("mine", dict(COVERING.tables))  # a relation of one's own, which says nothing
    assert not learner(kind, mine).covers_arrival
    covering = learner(kind, COVERING)
    for episode in range(draws):
        covering.begin_episode(episode)
        covering.observe_counts(ONES, ON_ARRIVAL)
    assert covering.covers_arrival


ARRIVAL_ENVS: dict[str, Callable[[], Any]] = {
    "mdp": lambda: DPS,
    "gymnasium": lambda: gym.make("privrl/RiverSwim-v0", n_states=S, horizon=H, variant="dps"),
    "wrapped": lambda: gym.wrappers.TransformReward(
        gym.make("privrl/RiverSwimDPS-v0", n_states=S, horizon=H), lambda reward: reward / 2
    ),
    "native vector": lambda: TabularVectorEnv(3, DPS),
    "wrapped vector": lambda: gym.wrappers.vector.RecordEpisodeStatistics(
        RiverSwimVectorEnv(3, n_states=S, horizon=H, variant="dps")
    ),
    "vector of environments": lambda: SyncVectorEnv(
        [
            lambda v=v: gym.make("privrl/RiverSwim-v0", n_states=S, horizon=H, variant=v)
            for v in ("osband", "dps")
        ]
    ),
    "processes": lambda: AsyncVectorEnv(
        [lambda: gym.make("privrl/RiverSwimDPS-v0", n_states=S, horizon=H)]
    ),
}


@pytest.mark.few(9)
@pytest.mark.parametrize("env", ARRIVAL_ENVS.values(), ids=ARRIVAL_ENVS)
def test_training_refuses_what_tables_show_to_pay_on_arrival(env: Callable[[], Any]) -> None:
    made, agent = env(), learner()
    with pytest.raises(ValueError, match=r"'replace one step' does not cover rewards that depend"):
        train(agent, made, 3, rng())
    assert agent.draws == 0
    assert agent.accountant.relation is None
    for fitting in (learner(relation=COVERING), learner(rewards=KnownRewards(np.zeros((S, A))))):
        train(fitting, made, 3, rng())
        assert fitting.draws == 3
    if made is not DPS:
        made.close()


def test_training_lets_through_what_pays_for_actions_or_claims_nothing() -> None:
    osband = {"n_states": S, "horizon": H}
    for env in (riverswim(**osband), gym.make("privrl/RiverSwim-v0", **osband)):
        train(learner(), env, 3, rng())
    claimless = {"sampler": NonPrivate(), "rewards": BetaRewards(NonPrivate())}
    train(agent_of(PSRL, *SIZES, rng=rng(), **claimless), DPS, 3, rng())
    train(agent_of(Oracle, *SIZES, policy=DPS.plan()[0]), DPS, 3, rng())


def test_one_row_that_makes_a_claim_decides_for_a_batch() -> None:
    rows = [claimless(alpha=1.0), Diffuse(weight=0.1, alpha=1.0, table="rewards")]
    for sampler, covers in ((stack(rows), False), (stack(rows[:1] * 2), True)):
        rewards = BetaRewards(sampler)
        agent = learner(rewards=rewards, sampler=NonPrivate(), batch_shape=(2,))
        assert agent.covers_arrival is covers


# Sums are exact ------------------------------------------------------------------------------


class Recorded:
    """What entered every draw of an agent's samplers: exact sums, beside theirs in floats."""

    def __init__(self, agent: TabularAgent) -> None:
        self.batches: list[list[np.ndarray[Any, Any]]] = [[], []]
        self.samplers = agent._sampler, getattr(agent._rewards, "_sampler", agent._rewards)
        for sampler, entered in zip(self.samplers, self.batches, strict=True):
            sampler.update = self._noting(sampler.update, entered)  # type: ignore[method-assign] # spied on

    @staticmethod
    def _noting(update: Any, entered: list[Any]) -> Any:
        def noting(counts: Any, generator: Any) -> Any:
            entered.append(counts.copy())
            return update(counts, generator)

        return noting

    def totals(self, table: int) -> dict[int, Fraction]:
        """Exact sums of what entered, by cell; and in floats they are the same."""
        sums: dict[int, Fraction] = {}
        for batch in self.batches[table]:
            for cell in np.flatnonzero(batch):
                sums[cell] = sums.get(cell, Fraction(0)) + Fraction(float(batch.flat[cell]))
        total = getattr(self.samplers[table], "_total", None)
        if total is not None:
            assert {c: Fraction(float(total.flat[c])) for c in np.flatnonzero(total)} == sums
        return sums


def square(one: dict[int, Fraction], other: dict[int, Fraction], halved: Any = ()) -> Fraction:
    """Squared norm of the difference, with some cells divided by √2."""
    return sum(
        (
            (one.get(c, Fraction(0)) - other.get(c, Fraction(0))) ** 2 / (2 if c in halved else 1)
            for c in one.keys() | other.keys()
        ),
        Fraction(0),
    )


def declared(relation: Relation, table: str) -> Fraction:
    """Largest squared norm of a listed change; √2 is listed as a float."""
    return Fraction(max(round(sum(m * m for m in v), 9) for v in relation.changes(table)))


@pytest.mark.parametrize("k", [20, 27, 36])
def test_rewards_add_up_exactly_wherever_the_sum_has_got_to(k: int) -> None:
    """A reward that is replaced at 2^k − 1 must not decide how all later ones are rounded."""
    tiny = 1.25 * 2.0 ** (k - 53)
    totals = []
    for replaced in (1.0, 0.0):
        agent = learner()
        entered = Recorded(agent)
        agent.begin_episode(0)
        many = np.zeros((S, A, S), np.int64)
        many[0, 0, 0] = 2**k - 1
        agent.observe_counts(many, np.ones((S, A, 1)))
        for episode in range(1, 20):
            agent.begin_episode(episode)
            for paid in (replaced if episode == 1 else tiny, tiny, 0.3, tiny, 1.0, 2 / 3):
                agent.observe(Transition(0, 0, paid, 0))
        agent.begin_episode(20)
        totals.append(entered.totals(1))
    assert square(*totals) == declared(UNIT, "rewards")


@pytest.mark.parametrize("k", [37, 40, 52, 62])
def test_more_than_floats_hold_exactly_is_refused(k: int) -> None:
    many = np.zeros((S, A, S), np.int64)
    many[0, 0, 0] = 2**k
    agent = learner()
    agent.begin_episode(0)
    with pytest.raises(ValueError, match=r"counts must sum to less than 2\*\*37"):
        agent.observe_counts(many, ON_ACTION)
    assert not agent._new.counts.any()
    many[0, 0, 0] = 2**36
    agent.observe_counts(many, ON_ACTION)
    agent.begin_episode(1)
    agent.observe_counts(many, ON_ACTION)
    with pytest.raises(ValueError, match=r"counts must sum to less than 2\*\*37"):
        agent.begin_episode(2)
    assert agent.draws == 2


def test_a_billion_episodes_still_fit() -> None:
    agent = learner()
    agent.begin_episode(0)
    many = np.zeros((S, A, S), np.int64)
    many[0, 0, 0] = 30 * 10**9
    agent.observe_counts(many, np.full((S, A, 1), 1 / 3))
    agent.begin_episode(1)
    assert agent.draws == 2


def test_rewards_are_rounded_to_the_grid_each_on_its_own() -> None:
    model = NoisyRewards(noisy("rewards"), low=-1.0, high=3.0)
    reward = np.concatenate([[-1.0, 3.0], rng(1).uniform(-1, 3, 500)])
    cells = model.encode(reward, np.ones(len(reward), np.bool_), rng())
    np.testing.assert_array_equal(cells / GRID, np.rint(cells / GRID))
    np.testing.assert_array_equal(cells.sum(axis=1), 1)
    np.testing.assert_allclose(cells[:, 0], (reward + 1) / 4, rtol=0, atol=GRID / 2)
    np.testing.assert_array_equal(cells[:2], [[0, 1], [1, 0]])
    assert ((cells**2).sum(axis=1) <= 1).all()
    counts = rng(2).integers(0, 2**30, (S, A, S)).astype(float)
    table = reward[: S * A * S].reshape(S, A, S)
    by_counts = model.encode_counts(counts, table, np.arange(S), rng())
    steps = np.indices((S, A, S))
    each = model.encode(table, steps[0] == steps[2], rng())
    by_steps = (counts[..., None] * each).sum(axis=2)
    np.testing.assert_array_equal(by_counts, by_steps)


def test_a_range_wider_than_floats_is_refused() -> None:
    with pytest.raises(ValueError, match="their difference finite"):
        NoisyRewards(noisy("rewards"), low=-1e308, high=1e308)


steps = st.lists(
    st.tuples(st.integers(0, S - 1), st.integers(0, A - 1), st.floats(0, 1)), min_size=1, max_size=H
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    episodes=st.lists(steps, min_size=1, max_size=4),
    data=st.data(),
    high=st.sampled_from([0, 1, 2**20 - 1, 2**34 - 1, 2**34 + 12345]),
    damped=st.booleans(),
    ends=st.booleans(),
)
def test_neighbours_differ_by_no_more_than_is_declared(
    episodes: list[Any], data: Any, high: int, damped: bool, ends: bool
) -> None:
    """In exact fractions, whatever the tables hold already: one step of one episode replaced."""
    which = data.draw(st.integers(0, len(episodes) - 1))
    at = data.draw(st.integers(0, len(episodes[which]) - 1))
    other = [list(episode) for episode in episodes]
    other[which][at] = data.draw(
        st.tuples(st.integers(0, S - 1), st.integers(0, A - 1), st.floats(0, 1))
    )
    loops = self_loops(S, A, terminates=ends)
    table = np.zeros((S, A, S + ends), np.int64)
    table[..., :S] = high
    totals = []
    for history in (episodes, other):
        sampler = noisy("transitions", loops=loops) if damped else noisy("transitions")
        agent = learner(sampler=sampler, terminates=ends)
        entered = Recorded(agent)
        agent.begin_episode(0)
        agent.observe_counts(table, np.full((S, A, 1), 0.7))
        for number, episode in enumerate(history):
            agent.begin_episode(number + 1)
            for i, (state, action, reward) in enumerate(episode):
                last = i == len(episode) - 1
                following = 0 if last else episode[i + 1][0]
                agent.observe(Transition(state, action, reward, following, last and ends))
        agent.begin_episode(len(history) + 1)
        totals.append([entered.totals(0), entered.totals(1)])
    (one, one_paid), (two, two_paid) = totals
    halved = np.flatnonzero(loops) if damped else ()
    assert square(one, two, halved) <= declared(UNIT, DAMPED if damped else "transitions")
    assert square(one_paid, two_paid) <= declared(UNIT, "rewards")


# Episodes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("terminates", [False, True])
@pytest.mark.parametrize("damped", [False, True])
def test_no_step_follows_the_one_that_ended_the_episode(terminates: bool, damped: bool) -> None:
    """Four such steps in one cell: squared norm 16, where whole episodes of four are paid for 8."""
    unit = ReplaceEpisode(H)
    loops = {"loops": self_loops(S, A, terminates=terminates)} if damped else {}
    agent = learner(
        relation=unit,
        sampler=noisy("transitions", relation=unit, **loops),
        terminates=terminates,
    )
    for episode in range(3):
        agent.begin_episode(episode)
        agent.observe(Transition(1, 0, 0.0, 1, terminated=True))
        for _ in range(3):
            with pytest.raises(ValueError, match="no step after the one that terminated it"):
                agent.observe(Transition(1, 0, 0.0, 1, terminated=True))
        assert len(agent._new.steps) == 1


def test_an_episode_is_one_chain_whatever_was_counted_meanwhile() -> None:
    agent = learner(sampler=noisy("transitions", loops=self_loops(S, A)))
    agent.observe(Transition(0, 0, 0.0, 1))  # before any episode: of the first
    with pytest.raises(ValueError, match="state must be the next_state"):
        agent.observe(Transition(0, 0, 0.0, 1))
    agent._count_steps()
    assert not agent._new.steps
    with pytest.raises(ValueError, match="state must be the next_state"):
        agent.observe(Transition(0, 0, 0.0, 1))
    agent.observe(Transition(1, 0, 0.0, 1))
    for _ in range(3):  # over and over, also without a step
        agent.begin_episode(0)
    agent.observe(Transition(0, 0, 0.0, 1))
    assert agent._new.counts.sum() == 0
    assert len(agent._new.steps) == 1


def test_beginning_an_episode_again_pays_again() -> None:
    agent = learner("concentrated", schedule=Geometric(2.0))
    entered = Recorded(agent)
    agent.begin_episode(0)
    once = agent.accountant.rdp
    agent.observe(Transition(0, 0, 0.0, 1))
    for _ in range(2):
        agent.begin_episode(0)
    np.testing.assert_allclose(agent.accountant.rdp, 3 * once, rtol=1e-12)
    assert [batch.sum() for batch in entered.batches[0]] == [0, 1, 0]


@pytest.mark.parametrize("kind", [PSRL, UCBVI])
def test_an_episode_has_no_more_steps_than_the_horizon(kind: Any) -> None:
    agent = learner(agent=kind)
    agent.begin_episode(0)
    for _ in range(H):
        agent.observe(Transition(0, 0, 0.0, 0))
    for _ in range(2):
        with pytest.raises(ValueError, match=f"at most {H} steps"):
            agent.observe(Transition(0, 0, 0.0, 0))


# Used samplers -------------------------------------------------------------------------------


def test_samplers_are_checked_by_what_they_cost_when_fresh() -> None:
    """A used one tells no cost, so a reward table's would pass for transitions, and pay 2 of 6."""
    for make in (noisy, local, windowed):
        used = make("rewards")
        short = make("transitions", relation=ReplaceEpisode(2))
        for sampler in (used, short):
            accountant = RdpAccountant()
            for _ in range(2):
                draw(accountant, [(sampler, np.zeros((S, A, S)))], rng())
            assert sampler.cost is None
        rewards = KnownRewards(np.zeros((S, A)))
        with pytest.raises(ValueError, match="sampler must be made for the relation's table"):
            learner(sampler=used, rewards=rewards)
        with pytest.raises(ValueError, match=r"relation must be about episodes of at least 6"):
            learner(sampler=short, rewards=rewards)
    for model in (BetaRewards, NoisyRewards):
        used = noisy("transitions")
        draw(RdpAccountant(), [(used, np.zeros((S, A, 2)))], rng())
        with pytest.raises(ValueError, match="sampler must be made for the relation's table"):
            model(used)
        on_arrival = model(noisy("rewards"))
        draw(RdpAccountant(), [(on_arrival, np.zeros((S, A, 2)))], rng())
        assert on_arrival.cost is None
        assert not learner(rewards=on_arrival).covers_arrival


class OwnDirichlet(Diffuse):
    """A user's own, of another class than ours, that states what it costs."""


@pytest.mark.parametrize(
    "sampler",
    [
        Diffuse(weight=0.1, alpha=1.0, table="rewards"),
        Diffuse(weight=0.1, alpha=1.0, table="rewards", window=1),
        Concentrated(alpha=9.0, table="rewards"),
        stack([claimless(), Diffuse(weight=0.1, alpha=1.0, table="rewards")]),
        OwnDirichlet(weight=0.1, alpha=1.0, table="rewards"),
    ],
    ids=repr,
)
def test_rewards_are_not_split_between_cells_of_a_dirichlet_draw(sampler: Any) -> None:
    """Its cost is stated for whole counts, and below a prior of 1/2 parts can cost more."""
    used = sampler.fresh()
    batch = np.zeros((2, S, A, 2)) if sampler.weight.ndim else np.zeros((S, A, 2))
    draw(RdpAccountant(), [(used, batch)], rng())
    for each in (sampler, used):
        with pytest.raises(ValueError, match="sampler must be NoisyCounts, got"):
            NoisyRewards(each)
        BetaRewards(each)
    NoisyRewards(NonPrivate())
    NoisyRewards(stack([claimless()]))


# Damped self-loops ---------------------------------------------------------------------------


@pytest.mark.parametrize("relation", [UNIT, ReplaceEpisode(H)], ids=str)
def test_the_cost_of_damped_counts_is_not_for_counts_as_they_are(relation: Relation) -> None:
    """Noise for a squared norm of 4 where 6 is needed."""
    options = {"relation": relation, "table": DAMPED}
    for make in (
        lambda: NoisyCounts(sigma=1.0, updates=3, **options),
        lambda: NoisyCounts.calibrated(RenyiDP(2, 1.0), draws=3, **options),
    ):
        with pytest.raises(ValueError, match="needs loops, the cells that are damped"):
            make()
    loops = self_loops(S, A)
    for table in (None, "transitions", DAMPED):
        made = NoisyCounts(sigma=1.0, updates=3, relation=relation, table=table, loops=loops)
        assert made.cost == GaussianCost(sigma=1.0, relation=relation, table=DAMPED)
    with pytest.raises(ValueError, match="loops of rewards must be the second half"):
        NoisyCounts(sigma=1.0, updates=3, relation=relation, table="rewards", loops=loops)
    with pytest.raises(ValueError, match="loops are for the tables 'transitions' and 'rewards'"):
        NoisyCounts(sigma=1.0, updates=3, relation=relation, table="visits", loops=loops)


def test_an_agent_refuses_the_cost_of_damped_counts_from_who_damps_none() -> None:
    class Undamped(NoisyCounts):
        loops = None

    undamped = Undamped(sigma=1.0, updates=3, loops=self_loops(S, A))
    for sampler in (undamped, undamped.fresh()):
        with pytest.raises(ValueError, match="sampler must damp the self-loops"):
            learner(sampler=sampler)


def test_loops_by_hand() -> None:
    """Two states, two actions; whoever ends an episode does not stay where it was."""
    stay = [[[1, 0], [1, 0]], [[0, 1], [0, 1]]]
    np.testing.assert_array_equal(self_loops(2, 2), stay)
    ends = [[[1, 0, 0], [1, 0, 0]], [[0, 1, 0], [0, 1, 0]]]
    np.testing.assert_array_equal(self_loops(2, 2, terminates=True), ends)
    # From 0: to 1 or the end; 0, 1 or the end. From 1: to 1; to 0 or the end.
    possible = [[[0, 1, 1], [1, 1, 1]], [[0, 1, 0], [1, 0, 1]]]
    support = Support.from_mask(np.array(possible, bool))
    compact = [[[0, 0, 0], [1, 0, 0]], [[1, 0, 0], [0, 0, 0]]]
    np.testing.assert_array_equal(self_loops(2, 2, terminates=True, support=support), compact)


@pytest.mark.parametrize("terminates", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_steps_that_stay_are_in_the_cells_with_louder_noise(terminates: bool, known: bool) -> None:
    """Of every step that an agent is told, seen from what it releases; without `self_loops`."""
    mask = np.ones((3, 2, 3 + terminates), bool)
    mask[0, 1, 0] = mask[2, 0, 1] = False
    support = Support.from_mask(mask) if known else None
    loops = self_loops(3, 2, terminates=terminates, support=support)
    sampler = NoisyCounts(sigma=1e-3, updates=99, loops=loops)
    options = {"terminates": terminates, "support": support, "rng": rng()}
    rewards = KnownRewards(np.zeros((3, 2)))
    agent = agent_of(PSRL, 3, 2, 1, sampler=sampler, rewards=rewards, **options)
    released = []
    update = agent._sampler.update
    agent._sampler.update = lambda *a: released.append(update(*a)) or released[-1]  # type: ignore # spied on
    agent.begin_episode(0)
    for state, action, following, ends in np.ndindex(3, 2, 3, 1 + terminates):
        if not ends and not mask[state, action, following]:
            continue
        agent.observe(Transition(state, action, 0.0, following, bool(ends)))
        agent.begin_episode(agent.draws)
        moved = np.argmax(np.rint(released[-1].counts - released[-2].counts))
        louder = released[-1].deviation.flat[moved] / released[-1].deviation.min()
        stays = state == following and not ends
        assert louder == pytest.approx(np.sqrt(2) if stays else 1.0)


# Rewards of self-loops, damped -----------------------------------------------------------------


def hats(relation: Relation = COVERING) -> HatRewards:
    return HatRewards(noisy("rewards", relation=relation, loops=reward_loops(relation)))


@pytest.mark.few(4)
@pytest.mark.parametrize("terminates", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_rewards_of_steps_that_stay_are_kept_apart(terminates: bool, known: bool) -> None:
    """Of every step, told in each of the ways; 1 is the last point of 11."""
    mask = np.ones((S, A, S + terminates), bool)
    mask[0, 1, 0] = mask[2, 0, 1] = False
    support = Support.from_mask(mask) if known else None
    options = {"terminates": terminates, "support": support, "rewards": hats()}
    for state, action, following, ends in np.ndindex(S, A, S, 1 + terminates):
        over = S if ends else following
        if not mask[state, action, over]:
            continue
        agents = [learner(relation=COVERING, **options) for _ in range(3)]
        agents[0].observe(Transition(state, action, 1.0, following, bool(ends)))
        agents[0]._count_steps()
        whole = [np.array([[each]]) for each in (state, action, 1.0, following)]
        ended = np.array([[bool(ends)]])
        agents[1].observe_steps(*whole, observed=~ended | True, terminated=ended)
        counts = np.zeros(agents[2]._new.counts.shape, np.int64)
        cell = over if support is None else support.columns(state, action, np.array(over))
        counts[state, action, cell] = 1
        agents[2].observe_counts(counts, np.ones(counts.shape))
        for agent in agents:
            wanted = np.zeros((S, A, 22))
            wanted[state, action, 21 if over == state else 10] = 1
            np.testing.assert_array_equal(agent._new.rewards, wanted)


class Twice(HatRewards):
    """A model of a user's that adds two units for each step."""

    def encode(self, *given: Any) -> Any:
        return 2 * super().encode(*given)

    def encode_counts(self, *given: Any) -> Any:
        return 2 * super().encode_counts(*given)


def test_a_reward_model_that_adds_more_than_one_unit_is_refused() -> None:
    """Its noise is calibrated to one unit; nothing is kept, and nothing is released."""
    agent, wrong = learner(rewards=Twice(noisy("rewards"))), "must add at most 1 in all"
    with pytest.raises(ValueError, match=wrong):
        agent.observe_counts(ONES, ON_ACTION)
    column = np.zeros((1, 1), np.intp)
    yes = column == 0
    with pytest.raises(ValueError, match=wrong):
        agent.observe_steps(column, column, column * 0.5, column, observed=yes, terminated=yes)
    agent.observe(Transition(0, 0, 0.5, 1))
    with pytest.raises(ValueError, match=wrong):
        agent.begin_episode(0)
    assert not agent._new.rewards.any()
    assert agent.draws == 0


class Signed(HatRewards):
    """A model of a user's that adds one unit for each step, which may be below 0."""

    def encode(self, *given: Any) -> Any:
        return -super().encode(*given)

    def encode_counts(self, *given: Any) -> Any:
        return -super().encode_counts(*given)


def test_a_reward_model_that_adds_amounts_below_zero_is_refused() -> None:
    """From one unit to minus one is twice as far as from one cell to another."""
    agent, wrong = learner(rewards=Signed(noisy("rewards"))), "no amount below 0"
    with pytest.raises(ValueError, match=wrong):
        agent.observe_counts(ONES, ON_ACTION)
    agent.observe(Transition(0, 0, 0.5, 1))
    with pytest.raises(ValueError, match=wrong):
        agent.begin_episode(0)
    assert agent.draws == 0


def test_arriving_where_episodes_end_is_told_as_over() -> None:
    """Where counts of states are told, some of which end an episode."""
    told = []

    class Told(HatRewards):
        def encode_counts(self, counts: Any, reward: Any, next_state: Any, rng: Any) -> Any:
            told.append(next_state)
            return super().encode_counts(counts, reward, next_state, rng)

    agent = learner(terminates=True, rewards=Told(noisy("rewards")))
    agent.observe_counts(ONES, ON_ACTION, ends=np.array([False, False, True, False]))
    np.testing.assert_array_equal(told, [[0, 1, S, 3]])


@pytest.mark.parametrize(
    ("env", "relation", "damped"),
    [
        (DPS, None, True),
        (riverswim(n_states=S, horizon=H), None, False),
        (riverswim(n_states=S, horizon=H), ReplaceEpisode(H), True),
        (gym.make("FrozenLake-v1"), None, True),
    ],
    ids=["on arrival", "on action", "a whole episode", "gymnasium"],
)
def test_agents_for_an_environment_damp_what_costs_less(
    env: Any, relation: Relation | None, damped: bool
) -> None:
    agent = PSRL.private(env, epsilon=1.0, episodes=30, relation=relation, rng=rng())
    cost = agent._rewards.cost
    assert cost is not None
    assert tables_released(cost) == {DAMPED_REWARDS if damped else "rewards"}
    agent.begin_episode(0)


@pytest.mark.parametrize("damped", [False, True])
def test_an_episode_is_one_chain_where_only_rewards_are_damped(damped: bool) -> None:
    """Many episodes told as one could pile up in the row of a step that leaves its state."""
    plain = HatRewards(noisy("rewards", relation=COVERING))
    agent = learner(relation=COVERING, rewards=hats() if damped else plain)
    agent.begin_episode(0)
    agent.begin_episode(1)  # after a draw, when the sampler tells no cost
    zeros, ones = np.zeros((2, 1), int), np.ones((2, 1), int)
    seen = {"observed": ones > 0, "terminated": ones < 0}
    agent.observe(Transition(0, 0, 0.0, 1))
    for again in (
        lambda: agent.observe(Transition(0, 0, 0.0, 1)),
        lambda: agent.observe_steps(zeros, zeros, 0.0 * zeros, ones, **seen),
    ):
        if damped:
            with pytest.raises(ValueError, match="state must be the next_state of the step before"):
                again()
        else:
            again()


# Copies --------------------------------------------------------------------------------------


def begun(agent: TabularAgent) -> None:
    agent.begin_episode(0)


def ready_for_more(agent: TabularAgent) -> None:
    agent.begin_episode(0)
    agent.observe(Transition(0, 0, 0.0, 0))
    agent.begin_episode(1)


USES: dict[str, Callable[[TabularAgent], None]] = {
    "a step": lambda agent: agent.observe(Transition(0, 0, 0.0, 0)),
    "counts": lambda agent: agent.observe_counts(ONES, ON_ACTION),
    "a draw": begun,
    "a step and draws": ready_for_more,
}


@each_kind
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_an_agent_in_use_is_not_copied(kind: str, use: Callable[[TabularAgent], None]) -> None:
    """Two that share counts would enter each step into two batches, and pay for one."""
    agent = learner(kind)
    with pytest.raises(ValueError, match="agent must not be pickled"):  # not even an unused one
        pickle.dumps(agent)
    use(agent)
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(ValueError, match="agent must not be copied once it has observed"):
            copied(agent)
    with pytest.raises(ValueError, match="agent must not be pickled"):
        pickle.dumps(agent)


@each_kind
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_an_unused_agent_shares_nothing(kind: str, copied: Any) -> None:
    one = learner(kind, accountant=RdpAccountant(budget=RenyiDP(2, 100.0)))
    other = copied(one)
    one.begin_episode(0)
    one.observe(Transition(0, 0, 1.0, 1))
    one.begin_episode(1)
    assert other.accountant.relation is None
    assert other.accountant.budget == RenyiDP(2, 100.0)
    assert other.draws == 0
    assert not other._new.steps
    entered = Recorded(other)
    other.begin_episode(0)
    assert not any(batch.any() for table in entered.batches for batch in table)
    assert other.accountant.relation == UNIT
    assert other._rng.bit_generator.state != one._rng.bit_generator.state
    released = [
        agent._sampler.fresh().update(np.zeros((S, A, S)), agent._rng).sample(rng())
        for agent in (learner(kind), copied(learner(kind)))
    ]
    assert (released[0] != released[1]).any()  # with noise of its own


@each_kind
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_reward_models_are_copied_like_their_samplers(kind: str, copied: Any) -> None:
    sampler, model = KINDS[kind]
    one = model(sampler("rewards"), low=-1.0, high=2.0)
    other = copied(one)
    assert repr(other) == repr(one)
    draw(RdpAccountant(), [(one, np.zeros((S, A, 2)))], rng())
    assert other.cost is not None
    with pytest.raises(ValueError, match="sampler must not be copied after its first update"):
        copied(one)
    with pytest.raises(ValueError, match="sampler must not be pickled after its first update"):
        pickle.dumps(one)


def test_copies_of_accountants_go_on_by_themselves() -> None:
    one = RdpAccountant(budget=RenyiDP(2, 0.15))
    cost = GaussianCost(sigma=9.0, relation=UNIT)  # 2/27 at order 2
    one.compose(cost)
    for copied in (copy.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))):
        other, before = copied(one), one.rdp
        other.compose(cost)
        with pytest.raises(BudgetExceeded):
            other.compose(cost)
        np.testing.assert_array_equal(one.rdp, before)
        assert (other.rdp > before).all()


# Data enter one draw, and are gone ------------------------------------------------------------


def _tell(agent: TabularAgent, how: str, step: Transition) -> None:
    state, action, reward, following, _ = step
    if how == "steps":
        agent.observe(step)
    elif how == "counts":
        counts = np.zeros((S, A, S), np.int64)
        counts[state, action, following] = 1
        agent.observe_counts(counts, np.full((S, A, 1), reward))
    else:
        told = {"state": state, "action": action, "reward": reward, "next_state": following}
        arrays = {name: np.array([[value]]) for name, value in told.items()}
        flags = {"observed": np.ones((1, 1), bool), "terminated": np.zeros((1, 1), bool)}
        agent.observe_steps(**arrays, **flags)


@each_kind
@pytest.mark.parametrize("how", ["steps", "counts", "episodes"])
def test_a_record_enters_one_draw(kind: str, how: str) -> None:
    """Records in cells of their own, one before each draw: every batch has its own and no other."""
    agent = learner(kind)
    entered = Recorded(agent)
    agent.begin_episode(0)
    records = [Transition(s, a, 1.0, t) for s, a, t in np.ndindex(S, A, S)]
    for number, record in enumerate(records):
        _tell(agent, how, record)
        agent.begin_episode(number + 1)
    for record, counts, paid in zip(
        records, entered.batches[0][1:], entered.batches[1][1:], strict=True
    ):
        assert counts.sum() == paid.sum() == 1
        assert counts[record.state, record.action, record.next_state] == 1
        assert paid[record.state, record.action, 0] == 1


@pytest.mark.slow
def test_an_interrupted_plan_is_made_up_for(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """The draw of the same episode was made again, so the last planned one was refused."""
    mdp = riverswim()
    agent = PSRL.private(mdp, epsilon=1.0, episodes=60)
    inner, calls = type(agent)._plan, []

    def plan(self: Any, *released: Any) -> Any:
        calls.append(released)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return inner(self, *released)

    monkeypatch.setattr(type(agent), "_plan", plan)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(rng=1)
    assert agent.draws == 3
    agent.save(tmp_path / "kept")
    resumed = PSRL.private(mdp, epsilon=1.0, episodes=60)
    resumed.load(tmp_path / "kept")
    assert resumed.learn(env=mdp, rng=2).draws == agent.sampler.updates  # type: ignore[attr-defined] # sums have it
    calls = calls[:3]
    assert agent.learn(rng=2).draws == agent.sampler.updates  # type: ignore[attr-defined] # sums have it
    assert len(calls) == agent.draws + 1


def test_a_delta_that_no_policy_could_state_is_refused_before_anything_is_drawn() -> None:
    """The budget was spent, and to_policy always raised."""
    accountant = PldAccountant(budget=ApproxDP(5, 1e-11))
    with pytest.raises(ValueError, match="delta must be at least 1e-12"):
        PSRL.private(riverswim(), target=ApproxDP(1, 1e-13), episodes=50, accountant=accountant)


def test_a_policy_states_its_cost_at_the_delta_of_a_ledger_s_budget(tmp_path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("wards", Budget(30.0, 1e-7))
    agent = learner(sampler=noisy("transitions"), accountant=ledger.accountant("wards"))
    agent.begin_episode(0)
    guarantee = agent.to_policy().guarantee
    assert guarantee is not None
    assert guarantee["delta"] == 1e-7
