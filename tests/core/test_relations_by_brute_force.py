"""Change vectors against every pair of neighbouring trajectories of two small MDPs."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from functools import cache
from itertools import product

import numpy as np
import pytest
from made import agent_of

from privrl.agents import PSRL, HatRewards, NoisyRewards, Transition
from privrl.agents.rewards import reward_loops
from privrl.agents.setup import self_loops
from privrl.costs import relations
from privrl.costs.dirichlet import DirichletCost
from privrl.costs.noise import DiscreteGaussianCost, DiscreteLaplaceCost, GaussianCost, LaplaceCost
from privrl.samplers import NoisyCounts

SIZES = [(2, 2, 3), (3, 2, 3)]  # states, actions, horizon
Trajectory = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
Changes = frozenset[tuple[int, ...]]


def trajectories(n_states: int, n_actions: int, horizon: int) -> Iterator[Trajectory]:
    """Every states s_0..s_H, actions a_0..a_{H-1} and binary rewards b_0..b_{H-1}."""
    yield from product(
        product(range(n_states), repeat=horizon + 1),
        product(range(n_actions), repeat=horizon),
        product(range(2), repeat=horizon),
    )


def transition_counts(trajectory: Trajectory) -> Counter:
    states, actions, _ = trajectory
    return Counter(zip(states, actions, states[1:], strict=False))


def reward_counts(trajectory: Trajectory) -> Counter:
    return Counter(zip(*trajectory, strict=False))


def put(values: tuple[int, ...], i: int, value: int) -> tuple[int, ...]:
    return (*values[:i], value, *values[i + 1 :])


def with_another_step(here: Trajectory, n_states: int, n_actions: int) -> Iterator[Trajectory]:
    """State, action and reward at one time replaced; at the end there is only a state."""
    states, actions, rewards = here
    for i in range(len(actions)):
        for s, a, b in product(range(n_states), range(n_actions), range(2)):
            yield put(states, i, s), put(actions, i, a), put(rewards, i, b)
    for s in range(n_states):
        yield put(states, len(actions), s), actions, rewards


def difference(new: Counter, old: Counter) -> tuple[int, ...]:
    moved = (new[cell] - old[cell] for cell in new.keys() | old.keys())
    return tuple(sorted(m for m in moved if m))


@cache
def observed_steps(n_states: int, n_actions: int, horizon: int) -> tuple[Changes, Changes]:
    """Changes of transition counts and of reward counts under a replaced step."""
    transitions, rewards = set(), set()
    for here in trajectories(n_states, n_actions, horizon):
        counts, rewarded = transition_counts(here), reward_counts(here)
        for there in with_another_step(here, n_states, n_actions):
            if not any(here[2] + there[2]):  # transitions do not depend on rewards
                transitions.add(difference(transition_counts(there), counts))
            rewards.add(difference(reward_counts(there), rewarded))
    return frozenset(transitions), frozenset(rewards)


def uncovered(observed: Changes, relation: relations.Relation, table: str) -> set[tuple[int, ...]]:
    """Return what is no sub-multiset of a listed vector."""
    listed = [Counter(change) for change in relation.changes(table)]
    return {
        seen for seen in observed if seen and not any(Counter(seen) <= vector for vector in listed)
    }


def in_order(relation: relations.Relation, table: str) -> set[tuple[float, ...]]:
    return {tuple(sorted(change)) for change in relation.changes(table)}


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_a_replaced_step_is_covered(size: tuple[int, int, int]) -> None:
    transitions, rewards = observed_steps(*size)
    assert not uncovered(transitions, relations.ReplaceStep(), "transitions")
    assert not uncovered(rewards, relations.ReplaceStep(), "rewards")


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_every_vector_of_a_replaced_step_happens(size: tuple[int, int, int]) -> None:
    transitions, rewards = observed_steps(*size)
    assert in_order(relations.ReplaceStep(), "transitions") <= transitions
    assert in_order(relations.ReplaceStep(), "rewards") <= rewards


@pytest.mark.parametrize("size", SIZES)
def test_the_papers_step_misses_the_self_loops(size: tuple[int, int, int]) -> None:
    with pytest.warns(relations.PaperStepWarning):
        paper = relations.PaperStep()
    transitions, rewards = observed_steps(*size)
    assert uncovered(transitions, paper, "transitions") == {(-2, 1, 1), (-1, -1, 2)}
    assert not uncovered(rewards, paper, "rewards")


def test_rewards_paid_on_arrival_change_twice() -> None:
    """The replaced state may change the reward before it too, into any other value."""
    n_states, n_actions, horizon = SIZES[0]
    observed = set()
    for here in trajectories(n_states, n_actions, horizon):
        counts = reward_counts(here)
        for states, actions, rewards in with_another_step(here, n_states, n_actions):
            changed = [i for i in range(horizon + 1) if states[i] != here[0][i]]
            for before in {i - 1 for i in changed if i > 0}:
                for b in range(2):
                    there = states, actions, put(rewards, before, b)
                    observed.add(difference(reward_counts(there), counts))
    on_arrival = relations.ReplaceStep(arrival_rewards=True)
    assert not uncovered(frozenset(observed), on_arrival, "rewards")
    assert in_order(on_arrival, "rewards") <= observed
    assert uncovered(frozenset(observed), relations.ReplaceStep(), "rewards")


def test_a_replaced_arrival_changes_the_reward_that_it_pays() -> None:
    """Under the weakest unit too, where the steps that follow stay as they are."""
    n_states, n_actions, horizon = SIZES[0]
    observed = set()
    for states, actions, rewards in trajectories(n_states, n_actions, horizon):
        counts = reward_counts((states, actions, rewards))
        for i, paid in product(range(horizon), range(2)):
            there = states, actions, put(rewards, i, paid)
            observed.add(difference(reward_counts(there), counts))
    on_arrival = relations.ReplaceTransition(arrival_rewards=True)
    assert not uncovered(frozenset(observed), on_arrival, "rewards")
    assert in_order(on_arrival, "rewards") <= observed
    for kind in (relations.ReplaceTransition, relations.ReplaceStep):
        assert kind(arrival_rewards=True).covers_arrival
        assert not kind().covers_arrival


@pytest.mark.few(6)
@pytest.mark.parametrize("size", SIZES)
def test_a_replaced_next_state_is_covered(size: tuple[int, int, int]) -> None:
    """The outcome of one transition only: the step that follows stays as it is."""
    n_states, n_actions, horizon = size
    observed = set()
    for here in trajectories(n_states, n_actions, horizon):
        counts = transition_counts(here)
        states, actions, _ = here
        for i, other in product(range(horizon), range(n_states)):
            there = counts.copy()
            there[states[i], actions[i], states[i + 1]] -= 1
            there[states[i], actions[i], other] += 1
            observed.add(difference(there, counts))
    assert not uncovered(frozenset(observed), relations.ReplaceTransition(), "transitions")
    assert in_order(relations.ReplaceTransition(), "transitions") <= observed
    assert relations.ReplaceTransition().changes("rewards") == ()


@pytest.mark.parametrize("table", ["transitions", "rewards"])
@pytest.mark.parametrize("size", SIZES)
def test_a_replaced_episode_spreads_at_most_the_horizon(
    size: tuple[int, int, int], table: str
) -> None:
    """Gains sum to at most +H and losses to at least -H; the one listed vector happens."""
    count = transition_counts if table == "transitions" else reward_counts
    seen = {frozenset(count(t).items()) for t in trajectories(*size)}
    cells = sorted({cell for counts in seen for cell, _ in counts})
    vectors = np.array([[dict(counts).get(cell, 0) for cell in cells] for counts in seen])
    ((gain, loss),) = relations.ReplaceEpisode(size[2]).changes(table)
    attained = False
    for old in vectors:
        moved = vectors - old
        assert np.maximum(moved, 0).sum(axis=1).max() <= gain
        assert np.minimum(moved, 0).sum(axis=1).min() >= loss
        ends = np.sort(moved, axis=1)[:, [-1, 0]]
        attained |= bool(np.any(np.all(ends == (gain, loss), axis=1)))
    assert attained


# What the relations say about themselves ---------------------------------------------------------


def test_listed_vectors() -> None:
    assert in_order(relations.ReplaceRecord(), "counts") == {(-1, 1)}
    assert in_order(relations.AddRemoveRecord(), "counts") == {(1,), (-1,)}
    assert in_order(relations.ReplaceTransition(), "transitions") == {(-1, 1)}
    step = {(-1, -1, 1, 1), (-2, 1, 1), (-1, -1, 2)}
    assert in_order(relations.ReplaceStep(), "transitions") == step
    assert in_order(relations.ReplaceStep(), "rewards") == {(-1, 1)}
    assert in_order(relations.ReplaceEpisode(30), "transitions") == {(-30, 30)}
    assert in_order(relations.ReplaceEpisode(30), "rewards") == {(-30, 30)}


def test_relations_are_compared_by_what_they_say() -> None:
    assert relations.ReplaceStep() == relations.ReplaceStep()
    assert hash(relations.ReplaceEpisode(5)) == hash(relations.ReplaceEpisode(5))
    assert relations.ReplaceEpisode(5) != relations.ReplaceEpisode(6)
    assert relations.ReplaceRecord() != relations.ReplaceTransition()
    with pytest.warns(relations.PaperStepWarning):
        assert relations.PaperStep() != relations.ReplaceStep()


def test_relations_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        relations.ReplaceRecord().name = "another"


@pytest.mark.parametrize("name", ["changes", "tables", "name", "norm_only", "__str__", "__eq__"])
def test_no_subclass_hides_what_costs_rest_on(name: str) -> None:
    """Costs went by `changes`, and ledgers and files by `tables`: they had no noise to state."""
    with pytest.raises(TypeError, match=f"must not define .*{name}"):
        type("Mine", (relations.ReplaceRecord,), {name: lambda self, table=None: ((1e-6,),)})


def test_a_builtin_name_stands_for_the_builtin_changes() -> None:
    for known in (relations.ReplaceStep(), relations.ReplaceEpisode(4)):
        assert relations.check_name(known) is known
        tables = dict(known.tables)
        copied = relations.Relation(
            known.name, tables, covers_arrival=known.covers_arrival,
            norm_only=known.norm_only, convex_from=known.convex_from,
        )  # fmt: skip
        assert relations.check_name(copied) is copied
        for fewer in ({**tables, "rewards": [(0.1,)]}, {"transitions": tables["transitions"]}):
            with pytest.raises(ValueError, match=f"which is {type(known).__name__}'s"):
                relations.check_name(relations.Relation(known.name, fewer))
        for spelled in (
            f"{known.name} ",
            known.name.upper(),
            known.name.replace(" ", "\u00a0\u200b"),
            f"{known.name}\n",
            known.name.replace("of 4", "of 04"),
        ):
            with pytest.raises(ValueError, match=f"which is {type(known).__name__}'s"):
                relations.check_name(relations.Relation(spelled, {"rewards": [(0.1,)]}))
        relations.check_name(relations.Relation("mine", {"rewards": [(0.1,)]}))


def test_changes_are_tuples_of_floats() -> None:
    mine = relations.Relation("mine", {"a": [[1, -1]], "b": []})
    assert mine.changes("a") == ((1.0, -1.0),)
    assert isinstance(mine.changes("a")[0][0], float)
    assert mine.changes("b") == ()


def test_an_unknown_table_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"transitions.*rewards.*rewrads"):
        relations.ReplaceStep().changes("rewrads")


@pytest.mark.parametrize("amount", [0, float("nan"), float("inf")])
def test_an_amount_that_is_no_change_is_refused(amount: float) -> None:
    with pytest.raises(ValueError, match=str(amount)):
        relations.Relation("mine", {"counts": [(1, amount)]})


def test_the_papers_step_warns_whoever_builds_it() -> None:
    with pytest.warns(relations.PaperStepWarning, match="too small"):
        relations.PaperStep()
    assert issubclass(relations.PaperStepWarning, UserWarning)


# Self-loops damped -------------------------------------------------------------------------


def damped_square(new: Counter, old: Counter) -> float:
    """Squared norm of a change of the transition table whose self-loops are divided by √2."""
    return sum(
        (new[cell] - old[cell]) ** 2 / (2 if cell[0] == cell[2] else 1)
        for cell in new.keys() | old.keys()
    )


def largest_square(relation: relations.Relation, table: str = relations.DAMPED) -> float:
    return max(sum(m * m for m in vector) for vector in relation.changes(table))


@pytest.mark.few(6)
@pytest.mark.parametrize("size", SIZES)
def test_damping_self_loops_bounds_a_step(size: tuple[int, int, int]) -> None:
    worst = max(
        damped_square(transition_counts(there), transition_counts(here))
        for here in trajectories(*size)
        if not any(here[2])
        for there in with_another_step(here, size[0], size[1])
        if not any(there[2])
    )
    assert worst == 4
    assert largest_square(relations.ReplaceStep()) == pytest.approx(4, rel=1e-15)
    assert largest_square(relations.ReplaceStep()) >= 4


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5])
def test_damping_self_loops_bounds_an_episode(horizon: int) -> None:
    """Every pair of episodes with two states and two actions."""
    tables = {
        frozenset(transition_counts((states, actions, ())).items())
        for states in product(range(2), repeat=horizon + 1)
        for actions in product(range(2), repeat=horizon)
    }
    cells = list(product(range(2), repeat=3))
    counts = np.array([[dict(table).get(cell, 0) for cell in cells] for table in tables])
    damped = counts / np.where([s == t for s, _, t in cells], np.sqrt(2), 1.0)
    squares = (damped**2).sum(1)
    worst = (squares[:, None] + squares - 2 * damped @ damped.T).max()
    stated = largest_square(relations.ReplaceEpisode(horizon))
    assert worst <= stated * (1 + 1e-12)
    assert stated == pytest.approx(2 * ((horizon**2 + 1) // 2))
    if horizon % 2 == 0:
        assert worst == pytest.approx(stated)  # attained


Paid = tuple[int, int, int, int]  # state, action, next state (-1: the episode is over), reward


def paid_steps(trajectory: Trajectory, *, ends: bool) -> tuple[Paid, ...]:
    """The steps of a trajectory whose last one may end it."""
    states, actions, rewards = trajectory
    following = (*states[1:-1], -1) if ends else states[1:]
    return tuple(zip(states, actions, following, rewards, strict=False))


def damped_rewards(steps: tuple[Paid, ...]) -> Counter:
    """The table of rewards, with cells of their own for steps that stay."""
    return Counter((s, a, reward, following == s) for s, a, following, reward in steps)


def rewards_square(new: Counter, old: Counter) -> float:
    """Squared norm of a change of it; the cells of steps that stay are divided by √2.

    It is convex in what a reward adds, so none that is split between two cells changes more.
    """
    return sum(
        (new[cell] - old[cell]) ** 2 / (2 if cell[3] else 1) for cell in new.keys() | old.keys()
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("ends", [False, True])
def test_damping_self_loops_bounds_the_rewards_of_a_step(ends: bool) -> None:
    """Of the step, and of the one before where the state is another."""
    n_states, n_actions, horizon = SIZES[0]
    worst = {False: 0.0, True: 0.0}  # by whether rewards are paid on arrival
    for here in trajectories(n_states, n_actions, horizon):
        old = damped_rewards(paid_steps(here, ends=ends))
        for there in with_another_step(here, n_states, n_actions):
            states, actions, rewards = there
            changed = [i for i in range(horizon + 1) if states[i] != here[0][i]]
            for arrival, before in [(False, 0), *((True, i - 1) for i in changed if i > 0)]:
                for paid in range(2) if arrival else [rewards[before]]:
                    other = states, actions, put(rewards, before, paid)
                    new = damped_rewards(paid_steps(other, ends=ends))
                    worst[arrival] = max(worst[arrival], rewards_square(new, old))
    assert worst[True] == 4
    assert 2 < worst[False] <= 4  # the reward before is in another cell if its step did not stay
    for arrival in (False, True):
        relation = relations.ReplaceStep(arrival_rewards=arrival)
        stated = largest_square(relation, relations.DAMPED_REWARDS)
        assert worst[True] <= stated == pytest.approx(4, rel=1e-15)


@pytest.mark.parametrize("arrival", [False, True])
def test_a_replaced_next_state_moves_one_damped_reward(arrival: bool) -> None:
    n_states, n_actions, horizon = SIZES[0]
    worst = 0.0
    for here in trajectories(n_states, n_actions, horizon):
        steps = paid_steps(here, ends=False)
        for i, to, other in product(range(horizon), range(n_states), range(2)):
            s, a, _, reward = steps[i]
            there = (*steps[:i], (s, a, to, other if arrival else reward), *steps[i + 1 :])
            worst = max(worst, rewards_square(damped_rewards(there), damped_rewards(steps)))
    relation = relations.ReplaceTransition(arrival_rewards=arrival)
    assert worst <= largest_square(relation, relations.DAMPED_REWARDS) == 2
    assert worst == (2 if arrival else 1.5)


@pytest.mark.few(6)
@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5])
def test_damping_self_loops_bounds_the_rewards_of_an_episode(horizon: int) -> None:
    """Counts are not negative: a difference has at most the squares of both episodes."""
    relation, nothing = relations.ReplaceEpisode(horizon), Counter()
    each = max(
        rewards_square(damped_rewards(paid_steps(here, ends=ends)), nothing)
        for here in trajectories(2, 2, horizon)
        for ends in (False, True)
    )
    stated = largest_square(relation, relations.DAMPED_REWARDS)
    assert 2 * each <= stated * (1 + 1e-12)
    assert stated == largest_square(relation)
    one, other = (((s,) * (horizon + 1), (0,) * horizon, (s,) * horizon) for s in range(2))
    if horizon % 2 == 0:  # attained
        new, old = (damped_rewards(paid_steps(t, ends=False)) for t in (one, other))
        assert rewards_square(new, old) == pytest.approx(stated)


@pytest.mark.parametrize("table", [relations.DAMPED, relations.DAMPED_REWARDS])
def test_what_is_about_norms_is_for_gaussian_noise_only(table: str) -> None:
    for relation in (
        relations.ReplaceStep(),
        relations.ReplaceEpisode(4),
        relations.ReplaceTransition(),
    ):
        GaussianCost(sigma=1, relation=relation, table=table)
        with pytest.raises(ValueError, match="bounds only the norm of a change"):
            DirichletCost(weight=1, alpha=1, relation=relation, table=table)
        with pytest.raises(ValueError, match="bounds only the norm of a change"):
            LaplaceCost(scale=1, relation=relation, table=table)


# Smaller changes -----------------------------------------------------------------------------

COSTS = {
    "dirichlet": lambda relation, size: DirichletCost(
        weight=1 / size, alpha=0.7, relation=relation
    ),
    "gaussian": lambda relation, size: GaussianCost(sigma=size, relation=relation),
    "laplace": lambda relation, size: LaplaceCost(scale=size, relation=relation),
    "discrete gaussian": lambda relation, size: DiscreteGaussianCost(sigma=size, relation=relation),
    "discrete laplace": lambda relation, size: DiscreteLaplaceCost(scale=size, relation=relation),
}
LOWERED = [
    ((3, -3), [(2, -2), (1, -3), (2, -1), (3,), (-3,), (1,)]),
    ((2,), [(1,)]),
    ((-5,), [(-4,), (-1,)]),
    ((1, -1, 1, -1), [(1, -1), (1, 1, -1), (-1,)]),
    ((-2, 1, 1), [(-1, 1), (-1, 1, 1), (-2, 1), (1, 1)]),
]


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
@pytest.mark.parametrize(("vector", "lower"), LOWERED, ids=[str(v) for v, _ in LOWERED])
@pytest.mark.parametrize("size", [0.8, 3.0, 20.0])
def test_lowering_a_change_is_never_dearer(cost, vector, lower, size: float) -> None:
    """At Rényi orders, and in delta where a change is a cell or a pair, which is exact."""

    def made(change: tuple[int, ...]):
        return cost(relations.Relation("mine", {"counts": [change]}), size)

    orders, epsilons = np.array([1.1, 1.5, 2.0, 4.0]), np.array([0.0, 0.01, 0.3, 1.0, 3.0])
    highest = made(vector)
    for change in lower:
        lowered = made(change)
        assert (lowered.rdp(orders) <= highest.rdp(orders) * (1 + 1e-9)).all(), change
        if len(vector) <= 2:
            blur = 1e-3 if len(vector) == 2 else 1e-9  # two cells by convolution, of some noises
            assert (lowered.delta(epsilons) <= highest.delta(epsilons) * (1 + blur)).all(), change


# Tables of agents, in which all of it comes together ------------------------------------------


def paid_for(sampler: NoisyCounts) -> float:
    """Squared norm of a change that a sampler's noise is calibrated to."""
    cost = sampler.cost
    assert isinstance(cost, GaussianCost)
    return max(sum(m * m for m in vector) for vector in cost.changes)


def with_arrivals(here: Trajectory, n_states: int, n_actions: int) -> Iterator[Trajectory]:
    """A replaced step; if its state is another one, the reward for reaching it may be, too."""
    for states, actions, rewards in with_another_step(here, n_states, n_actions):
        yield states, actions, rewards
        for i in range(1, len(states)):
            if states[i] != here[0][i]:
                yield states, actions, put(rewards, i - 1, 1 - rewards[i - 1])


def both_rewards(here: Trajectory) -> Iterator[Trajectory]:
    """The state and the action stay, and both rewards are replaced: no neighbour."""
    states, actions, rewards = here
    for i in range(1, len(rewards)):
        both = put(put(rewards, i - 1, 1 - rewards[i - 1]), i, 1 - rewards[i])
        yield states, actions, both


REWARDS = {"noisy": NoisyRewards, "hats": HatRewards, "damped hats": HatRewards}


@pytest.mark.slow
@pytest.mark.parametrize("name", REWARDS)
def test_tables_of_agents_change_by_no_more_than_is_paid_for(name: str) -> None:
    """What agents enter of all neighbouring episodes, in both tables, and what they pay."""
    n_states, n_actions, horizon = SIZES[0]
    relation = relations.ReplaceStep(arrival_rewards=True)
    damped = name == "damped hats"
    loops = self_loops(n_states, n_actions) if damped else None
    moves = NoisyCounts(sigma=5.0, updates=1, relation=relation, loops=loops)
    paid = NoisyCounts(
        sigma=5.0, updates=1, relation=relation, table="rewards",
        loops=reward_loops(relation) if damped else None,
    )  # fmt: skip

    def entered(trajectory: Trajectory) -> tuple[np.ndarray, np.ndarray]:
        agent = agent_of(
            PSRL, n_states, n_actions, horizon, sampler=moves, rewards=REWARDS[name](paid), rng=0
        )
        states, actions, rewards = trajectory
        for i, action in enumerate(actions):
            agent.observe(Transition(states[i], action, float(rewards[i]), states[i + 1]))
        agent._count_steps()
        tables = []
        for table, sampler in ((agent._new.counts, moves), (agent._new.rewards, paid)):
            quieter = 1 if sampler.loops is None else np.where(sampler.loops, np.sqrt(0.5), 1)
            tables.append((table * quieter).ravel())
        return tables[0], tables[1]

    each = list(trajectories(n_states, n_actions, horizon))
    place = {trajectory: i for i, trajectory in enumerate(each)}
    tables = [np.array(table) for table in zip(*map(entered, each), strict=True)]

    def squares(neighbours: list[Iterator[Trajectory]]) -> np.ndarray:
        """Of each pair and each table."""
        pairs = np.array(
            [(i, place[there]) for i, all_of in enumerate(neighbours) for there in all_of]
        )
        moved = [table[pairs[:, 0]] - table[pairs[:, 1]] for table in tables]
        return np.stack([(each**2).sum(axis=1) for each in moved])

    worst = squares([with_arrivals(here, n_states, n_actions) for here in each]).max(axis=1)
    claimed = [paid_for(moves), paid_for(paid)]
    np.testing.assert_allclose(worst, claimed, rtol=1e-12)  # attained, and never more
    np.testing.assert_allclose(claimed, [4, 4] if damped else [6, 6], rtol=1e-12)
    # Why the reward for reaching a state that stays is no part of a step.
    beyond = squares([both_rewards(here) for here in each]).max(axis=1)
    np.testing.assert_allclose(beyond, [0, 4 if damped else 8], atol=1e-12)
