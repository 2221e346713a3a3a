import math
import pickle
from inspect import signature

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.utils.env_checker import check_env

from privrl._registration import register_envs
from privrl.envs import numbered
from privrl.envs.bins import CARTPOLE_BINS, PUBLIC_BINS, edges_of
from privrl.envs.wrappers import Discretised, FlattenActions, FlattenDiscrete

register_envs()

IDS = {"privrl/Blackjack-v0": 704, "privrl/CartPole-v0": 162}
# From Gymnasium 1.4 on keys may stay in the order that they were given in.
UNSORTED = {"sort_keys": False} if "sort_keys" in signature(Dict).parameters else {}
SPACES = [
    (Discrete(5, start=-2), 5),
    (MultiDiscrete([3, 2, 4], start=[1, -1, 10]), 24),
    (MultiDiscrete([[2, 3], [1, 2]]), 12),
    (MultiBinary(3), 8),
    (MultiBinary((2, 2)), 16),
    (Tuple([Discrete(3, start=7), MultiBinary(2), Tuple([MultiDiscrete([2, 2])])]), 48),
    (Discrete(1), 1),
    (Tuple([]), 1),
    (Dict({"b": Discrete(2, start=4), "a": MultiBinary(2)}), 8),
    (Dict({"b": Tuple([Discrete(2)]), "a": Discrete(3)}, **UNSORTED), 6),
    (Box(np.array([0, -2]), np.array([2, 1]), dtype=np.int8), 12),
]


class Replay(gym.Env):
    """Shows the given observations, one after the other; an info says which."""

    action_space = Discrete(1)

    def __init__(self, space, observations=()):
        self.observation_space = space
        self.observations = list(observations)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observations[0], {"options": options}

    def step(self, action):
        self.steps += 1
        ended = self.steps + 1 == len(self.observations)
        return self.observations[self.steps], 0.5, ended, False, {"steps": self.steps}


def numbers(env):
    """Play one episode and return the observations."""
    seen = [env.reset()[0]]
    ended = len(env.unwrapped.observations) == 1
    while not ended:
        observation, _, ended, _, _ = env.step(0)
        seen.append(observation)
    assert all(type(number) is np.int64 and number in env.observation_space for number in seen)
    return seen


def all_observations(space):
    """Every observation of a space, the last part changing fastest."""
    if isinstance(space, Discrete):
        return [np.int64(space.start + i) for i in range(space.n)]
    if isinstance(space, Dict):
        names = list(space.spaces)
        parts = all_observations(Tuple([space[name] for name in names]))
        return [dict(zip(names, values, strict=True)) for values in parts]
    if isinstance(space, Tuple):
        combined = [()]
        for part in space.spaces:
            combined = [(*before, value) for before in combined for value in all_observations(part)]
        return combined
    if isinstance(space, MultiBinary):
        sizes, start = np.full(space.shape, 2), 0
    elif isinstance(space, Box):
        sizes, start = space.high.astype(int) - space.low + 1, space.low
    else:
        sizes, start = space.nvec, space.start
    cells = np.array(list(np.ndindex(*sizes.ravel()))).reshape(-1, *space.shape)
    return list((cells + start).astype(space.dtype))


# Parts that are Discrete


@pytest.mark.parametrize(("space", "size"), SPACES)
def test_combinations_are_numbered_in_order(space, size):
    observations = all_observations(space)
    assert all(observation in space for observation in observations)
    env = FlattenDiscrete(Replay(space, observations))
    assert env.observation_space == Discrete(size)
    assert numbers(env) == list(range(size))


def test_blackjack_is_numbered_like_an_array():
    plain, wrapped = gym.make("Blackjack-v1"), FlattenDiscrete(gym.make("Blackjack-v1"))
    assert wrapped.observation_space == Discrete(704)
    for seed in range(50):
        seen = [plain.reset(seed=seed)[0], plain.step(1)[0]]
        states = [wrapped.reset(seed=seed)[0], wrapped.step(1)[0]]
        assert states == [np.ravel_multi_index(parts, (32, 11, 2)) for parts in seen]


@pytest.mark.parametrize(
    "space",
    [Box(0, 1), Dict({"a": Text(2)}), Tuple([Discrete(2), Box(0, 1)]), Text(3)],
)
def test_other_spaces_are_refused(space):
    with pytest.raises(ValueError, match=r"env must have .*spaces? of Discrete"):
        FlattenDiscrete(Replay(space))


def test_too_many_combinations_are_refused():
    assert FlattenDiscrete(Replay(MultiBinary(62))).observation_space.n == 2**62
    with pytest.raises(
        ValueError, match=r"fewer than 2\*\*63 combinations .* got more than 2\*\*63"
    ):
        FlattenDiscrete(Replay(MultiBinary(63)))
    with pytest.raises(ValueError, match=r"more than 2\*\*21168;"):  # too many for their digits
        FlattenDiscrete(Replay(Box(0, 255, (42, 21, 3), np.uint8)))


@pytest.mark.parametrize("observation", [(0, 0), (4, 0), (1, 2), (1, -1), (np.nan, 0)])
def test_observations_outside_the_declared_space_are_refused(observation):
    env = FlattenDiscrete(Replay(Tuple([Discrete(3, start=1), Discrete(2)]), [observation]))
    with pytest.raises(ValueError, match="observation must lie in the observation space"):
        env.reset()


# Actions


class Echo(gym.Env):
    """Says in the info which action it was given."""

    observation_space = Discrete(1)

    def __init__(self, action_space):
        self.action_space = action_space

    def step(self, action):
        assert action in self.action_space
        return 0, 0.0, False, False, {"action": action}


@pytest.mark.parametrize(("space", "size"), SPACES)
def test_numbers_of_actions_stand_for_all_of_them(space, size):
    env = FlattenActions(Echo(space))
    assert env.action_space == Discrete(size)
    made = [env.step(np.int64(number))[4]["action"] for number in range(size)]
    for action, wanted in zip(made, all_observations(space), strict=True):
        assert type(action) is type(wanted)
        np.testing.assert_equal(action, wanted)
    for number in (-1, size, 0.5):
        with pytest.raises(ValueError, match=r"action must be in Discrete"):
            env.step(number)


def test_continuous_actions_are_refused():
    with pytest.raises(ValueError, match=r"env must have an action space of Discrete.*a few"):
        FlattenActions(Echo(Box(-1, 1)))


# Whatever it takes


@pytest.mark.parametrize(
    ("env_id", "states", "actions", "wrapper"),
    [
        ("FrozenLake-v1", 16, 4, gym.wrappers.TimeLimit),
        ("Blackjack-v1", 704, 2, FlattenDiscrete),
        ("CartPole-v1", 162, 2, Discretised),
        ("MountainCar-v0", 144, 3, Discretised),
        ("Acrobot-v1", 256, 3, Discretised),
    ],
)
def test_gymnasiums_tasks_are_numbered(env_id, states, actions, wrapper):
    env = numbered(gym.make(env_id))
    assert type(env) is wrapper
    assert (env.observation_space, env.action_space) == (Discrete(states), Discrete(actions))


def test_public_bins_are_of_the_tasks_that_they_are_for():
    """Each edge lies within its task's bounds."""
    for env_id, bins in PUBLIC_BINS.items():
        space = gym.make(env_id).observation_space
        for edges, low, high in zip(bins, space.low, space.high, strict=True):
            assert all(low < edge < high for edge in edges)


def test_states_and_actions_are_numbered_together():
    class Both(Echo):
        observation_space = MultiDiscrete([2, 3])

    env = numbered(Both(MultiDiscrete([2, 2])))
    assert (env.observation_space, env.action_space) == (Discrete(6), Discrete(4))


def test_a_box_needs_bins_and_nothing_else_does():
    with pytest.raises(ValueError, match="bins must be given for the observation space Box"):
        numbered(Replay(Box(0, 1)))
    assert numbered(Replay(Box(0, 1)), "7").observation_space == Discrete(7)
    for space in (Discrete(3), MultiDiscrete([2, 2]), Box(0, 3, dtype=np.uint8)):
        with pytest.raises(ValueError, match="bins are for real numbers in an observation space"):
            numbered(Replay(space), "7")
    with pytest.raises(ValueError, match="env must have spaces of Discrete"):
        numbered(Replay(Text(3)))
    with pytest.raises(ValueError, match=r"several side by side; .*wrappers=\(numbered,\)"):
        numbered(gym.make_vec("FrozenLake-v1", num_envs=2))


PLANE = Box(np.array([-1.0, 0.0]), np.array([1.0, np.inf]), dtype=np.float64)


@pytest.mark.parametrize(
    ("bins", "edges"),
    [
        ("4,1", [(-0.5, 0, 0.5), ()]),
        ("1", [(), ()]),
        ("2,-2:2:4", [(0,), (-1, 0, 1)]),
        ("0:1:2", [(0.5,), (0.5,)]),
        (" -0.8/0.8 , 0/1e2/1e3", [(-0.8, 0.8), (0, 100, 1000)]),
        ("-1:1:1,1", [(), ()]),
    ],
)
def test_bins_are_spelled(bins, edges):
    assert edges_of(bins, PLANE) == edges


@pytest.mark.parametrize(
    ("bins", "message"),
    [
        ("", "bins must be, for each coordinate"),
        ("4,", "got ''"),
        ("0", "got '0'"),
        ("2.5", "got '2.5'"),
        ("1:0:3", "got '1:0:3'"),
        ("0:1", "got '0:1'"),
        ("0:inf:3", "got '0:inf:3'"),
        ("0/0", "got '0/0'"),
        ("0/nan", "got '0/nan'"),
        ("nan/", "got 'nan/'"),
        ("9999999999999", "got '9999999999999'"),
        ("2,2,2", "for each of 2 coordinates"),
        ("4", "coordinate 1 has 4 of them, for its space is 0 to inf; say LOW:HIGH:4"),
        (4, "bins must be a str, got int; '12' makes as many of each real coordinate"),
    ],
)
def test_bins_that_cannot_be_read_are_refused(bins, message):
    with pytest.raises(ValueError, match=message):
        edges_of(bins, PLANE)


def test_even_bins_have_one_width():
    """Against NumPy's own histogram of points on a line."""
    points = np.linspace(-2, 3, 1001)
    (edges,) = edges_of("-1:2:12", Box(-5, 5, (1,)))
    counts, _ = np.histogram(points, np.concatenate([[-np.inf], edges, [np.inf]]))
    inner = np.histogram(points, np.linspace(-1, 2, 13))[0]
    inner[0] += (points < -1).sum()
    inner[-1] += (points > 2).sum()
    np.testing.assert_array_equal(counts, inner)


# Boxes


@pytest.mark.parametrize("shape", [(3,), (1, 3), (3, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_boxes_are_numbered_like_an_array(shape, dtype):
    """Against NumPy's own search and numbering; the space is unbounded."""
    rng = np.random.default_rng(3)
    bins = [[-1.0, 0.0, 2.5], [0.0], [-3, -2, -1, 0, 1]]
    observations = list(rng.normal(scale=2, size=(2000, *shape)).astype(dtype))
    env = Discretised(Replay(Box(-np.inf, np.inf, shape, dtype), observations), bins)
    assert env.observation_space == Discrete(4 * 2 * 6)
    cells = [[np.digitize(x, edges) for x, edges in zip(seen.ravel(), bins, strict=True)]
             for seen in observations]  # fmt: skip
    seen = numbers(env)
    assert seen == [np.ravel_multi_index(cell, (4, 2, 6)) for cell in cells]
    assert len(set(seen)) == 48


def test_boxes_among_other_parts_are_cut():
    """Whole numbers stay as they are, in their place; against NumPy's own numbering."""
    plane = Box(np.array([0.0, -np.inf]), np.array([1.0, np.inf]), dtype=np.float64)
    space = Dict({"left": Discrete(3, start=1), "at": plane, "up": Tuple([MultiBinary(1)])})
    rng = np.random.default_rng(5)
    observations = [
        {"left": 1 + i % 3, "at": rng.normal(size=2), "up": (np.array([i % 2]),)}
        for i in range(300)
    ]
    env = numbered(Replay(space, observations), "2,-1:1:4")
    assert env.observation_space == Discrete(2 * 4 * 3 * 2)
    assert list(space.spaces) == ["at", "left", "up"]
    cells = [
        (x["at"][0] >= 0.5, np.digitize(x["at"][1], [-0.5, 0, 0.5]), x["left"] - 1, x["up"][0][0])
        for x in observations
    ]
    assert numbers(env) == [np.ravel_multi_index(tuple(map(int, c)), (2, 4, 3, 2)) for c in cells]
    observations[0]["left"] = 4
    with pytest.raises(ValueError, match="observation must lie in the observation space"):
        env.reset()


def test_edges_belong_to_the_bin_above_and_ends_take_the_rest():
    line = [-np.inf, -1e300, -1.0, np.nextafter(0, -1), 0.0, 1.0, 2.0, 1e300, np.inf]
    env = Discretised(
        Replay(Box(-np.inf, np.inf, (1,), np.float64), [np.array([x]) for x in line]),
        [[0.0, 2.0]],
    )
    assert numbers(env) == [0, 0, 0, 0, 1, 1, 2, 2, 2]


def test_a_coordinate_without_edges_is_ignored():
    observations = [np.array([x, y]) for x in (-5.0, 5.0) for y in (-5.0, 5.0)]
    env = Discretised(Replay(Box(-9, 9, (2,), np.float64), observations), [[], [0]])
    assert env.observation_space == Discrete(2)
    assert numbers(env) == [0, 1, 0, 1]


def box_of_1983(x, speed, angle, turning):
    """The published decoder, by comparisons, numbered our way."""
    first = 0 if x < -0.8 else 1 if x < 0.8 else 2
    second = 0 if speed < -0.5 else 1 if speed < 0.5 else 2
    limits = (math.radians(degrees) for degrees in (-6, -1, 0, 1, 6))
    third = sum(angle >= limit for limit in limits)
    fourth = 0 if turning < -math.radians(50) else 1 if turning < math.radians(50) else 2
    return ((first * 3 + second) * 6 + third) * 3 + fourth


def test_cartpole_has_the_boxes_of_1983():
    rng = np.random.default_rng(4)
    scale = np.array([1.2, 1.0, 0.1, 1.5])
    # The rarest box has probability 0.0014: one is missed once in a million seeds.
    observations = list((rng.normal(size=(12_000, 4)) * scale).astype(np.float32))
    space = gym.make("CartPole-v1").observation_space
    env = Discretised(Replay(space, observations), CARTPOLE_BINS)
    seen = numbers(env)
    assert seen == [box_of_1983(*map(float, x)) for x in observations]
    assert set(seen) == set(range(162))


@pytest.mark.parametrize(
    ("space", "bins", "message"),
    [
        (Discrete(3), [[0]], r"env must have a Box observation space, got Discrete\(3\)"),
        (Box(0, 1, (2,)), [[0]], "bins must hold edges for each of 2 coordinates, got 1"),
        (Box(0, 1, (2,)), [[0], [1], [2]], "2 coordinates, got 3"),
        (Box(0, 1), [0.5], "one sequence of finite edges per coordinate, got 0.5"),
        (Box(0, 1), [[[0.5]]], "one sequence of finite edges"),
        (Box(0, 1), [[0.0, np.inf]], r"got an object of type list for coordinate 0; end bins"),
        (Box(0, 1), [[np.nan]], "one sequence of finite edges"),
        (Box(0, 1), [[1.0, 0.0]], r"increasing edges, got an object of type list for coordinate 0"),
        (Box(0, 1), [[0.0, 0.0]], "increasing edges"),
        (Box(0, 1, (63,)), [[0.5]] * 63, r"fewer than 2\*\*63 combinations"),
    ],
)
def test_bins_out_of_range_are_refused(space, bins, message):
    with pytest.raises(ValueError, match=message):
        Discretised(Replay(space), bins)


def test_nan_lies_in_no_box():
    env = Discretised(Replay(Box(0, 1), [np.array([np.nan])]), [[0.5]])
    with pytest.raises(ValueError, match="observation must hold numbers, got NaN"):
        env.reset()


# As Gymnasium sees them


@pytest.mark.parametrize(
    "env",
    [
        FlattenDiscrete(Replay(Discrete(2), [0, 1])),
        Discretised(Replay(Box(0, 1), [np.zeros(1), np.ones(1)]), [[0.5]]),
    ],
)
def test_everything_else_passes_through(env):
    state, info = env.reset(seed=5, options={"a": 1})
    assert (state, info) == (0, {"options": {"a": 1}})
    assert env.unwrapped.np_random_seed == 5
    assert env.step(0) == (1, 0.5, True, False, {"steps": 1})


@pytest.mark.parametrize("env_id", IDS)
def test_the_checker_passes(env_id):
    """It warns about the wrapper, which is the object under test; pictures need pygame."""
    env = gym.make(env_id)
    assert env.observation_space == Discrete(IDS[env_id])
    assert env.action_space == Discrete(2)
    with pytest.warns(UserWarning, match="different from the unwrapped version"):
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("env_id", IDS)
def test_copies_play_the_same(env_id):
    env = gym.make(env_id)
    copies = [
        env,
        gym.make(env_id),
        env.spec.make(),
        gym.make(EnvSpec.from_json(env.spec.to_json())),
        pickle.loads(pickle.dumps(env)),
        gym.make(f"privrl:{env_id}"),
    ]
    episodes = []
    for copy in copies:
        seen = [copy.reset(seed=11)]
        while not any(seen[-1][2:4]):
            seen.append(copy.step(len(seen) % 2))
        episodes.append(seen)
    assert all(episode == episodes[0] for episode in episodes)


@pytest.mark.parametrize("env_id", IDS)
def test_many_at_once(env_id):
    envs = gym.make_vec(env_id, num_envs=3)
    states, _ = envs.reset(seed=1)
    assert envs.single_observation_space == Discrete(IDS[env_id])
    assert states.shape == (3,)
    envs.close()


def test_the_longest_hand_fits_the_time_limit(monkeypatch):
    """All aces: two count as 12 and become 2 as more arrive; the 22nd is one too many."""
    monkeypatch.setattr("gymnasium.envs.toy_text.blackjack.draw_card", lambda rng: 1)
    env = gym.make("privrl/Blackjack-v0")
    env.reset()
    ends = [env.step(1)[2] for _ in range(20)]
    assert ends == [False] * 19 + [True]
    assert env.spec.max_episode_steps == 20


def test_cartpole_keeps_its_time_limit():
    assert gym.spec("privrl/CartPole-v0").max_episode_steps == 500


def test_registering_twice_changes_nothing():
    before = {name: gym.spec(name) for name in IDS}
    register_envs()
    assert all(gym.spec(name) is before[name] for name in IDS)
