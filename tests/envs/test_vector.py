import pickle
from collections import Counter
from itertools import product

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from oracle_tabular import FALSE_ALARM, episode_law, p_value, random_mdp, two_ways_on

from privrl._registration import register_envs
from privrl.envs import TabularMDP, TabularVectorEnv, riverswim
from privrl.envs.riverswim_render import rgb_array
from privrl.envs.vector import RiverSwimVectorEnv

register_envs()

ENV_ID = "privrl/RiverSwim-v0"
MODES = list(AutoresetMode)
each_mode = pytest.mark.parametrize("mode", MODES, ids=[mode.value for mode in MODES])


def always(action, env):
    return np.full(env.num_envs, action)


def play(env, steps=70, seed=5):
    """Act at random and return everything that was seen, as plain data."""
    rng = np.random.default_rng(seed)
    seen = []
    for _ in range(steps):
        states, rewards, _, truncations, _ = env.step(rng.integers(2, size=env.num_envs))
        seen.append((states.tolist(), rewards.tolist(), truncations.tolist()))
    return seen


# What Gymnasium sees


@pytest.mark.parametrize("mode", [None, "vector_entry_point"])
@pytest.mark.parametrize(
    ("env_id", "variant"), [(ENV_ID, "osband"), ("privrl/RiverSwimDPS-v0", "dps")]
)
def test_make_vec_makes_it(env_id, variant, mode):
    env = gym.make_vec(
        env_id,
        num_envs=64,
        vectorization_mode=mode,
        n_states=7,
        horizon=9,
        autoreset_mode="SameStep",
    )
    assert type(env) is RiverSwimVectorEnv
    assert env.num_envs == 64
    expected = riverswim(7, 9, variant)
    for name in ("transition", "reward", "start", "horizon"):
        np.testing.assert_array_equal(getattr(env.mdp, name), getattr(expected, name))
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert gym.make_vec(gym.envs.registration.EnvSpec.from_json(env.spec.to_json())).num_envs == 64


def test_it_looks_like_gymnasiums_own_vector_of_the_environment():
    native = gym.make_vec(ENV_ID, num_envs=5)
    sync = gym.make_vec(ENV_ID, num_envs=5, vectorization_mode="sync")
    for name in (
        "num_envs",
        "observation_space",
        "action_space",
        "single_observation_space",
        "single_action_space",
    ):
        assert getattr(native, name) == getattr(sync, name)
    assert native.metadata["autoreset_mode"] is sync.metadata["autoreset_mode"]
    for env in (native, sync):
        assert env.observation_space.contains(env.reset(seed=1)[0])
        states, rewards, terminations, truncations, infos = env.step(always(1, env))
        assert env.observation_space.contains(states)
        kinds = [(each.dtype, each.shape) for each in (rewards, terminations, truncations)]
        assert kinds == [(np.float64, (5,)), (np.bool_, (5,)), (np.bool_, (5,))]
        assert infos == {}
        env.close()
        env.close()


def test_a_mode_is_an_environments_own():
    disabled = RiverSwimVectorEnv(2, autoreset_mode="Disabled")
    assert RiverSwimVectorEnv(2).metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert disabled.metadata["autoreset_mode"] is AutoresetMode.DISABLED


class Clockwork(gym.Env):
    """An MDP without chance, played without privrl; it starts in the first state."""

    def __init__(self, mdp):
        self.mdp = mdp
        self.observation_space = gym.spaces.Discrete(mdp.n_states)
        self.action_space = gym.spaces.Discrete(mdp.n_actions)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.steps = 0, 0
        return np.int64(0), {}

    def step(self, action):
        reward = float(self.mdp.reward[self.state, action])
        self.state = int(self.mdp.transition[self.state, action].argmax())
        self.steps += 1
        return np.int64(self.state), reward, False, self.steps == self.mdp.horizon, {}


def clockwork(rng, horizon):
    following = rng.integers(6, size=(6, 3))
    return TabularMDP(np.eye(6)[following], rng.random((6, 3)), np.eye(6)[0], horizon)


@each_mode
@pytest.mark.parametrize("horizon", [1, 2, 7])
@pytest.mark.parametrize("masks", [False, True])
def test_without_chance_it_does_what_gymnasium_does(mode, horizon, masks):
    """Step by step like SyncVectorEnv, also where some environments are reset between steps."""
    rng = np.random.default_rng(31)
    mdp = clockwork(rng, horizon)
    ours = TabularVectorEnv(9, mdp, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: Clockwork(mdp)] * 9, autoreset_mode=mode)
    ended = np.zeros(9, dtype=bool)
    np.testing.assert_array_equal(ours.reset(seed=0)[0], theirs.reset(seed=0)[0])
    for _ in range(60):
        mask = ended if mode is AutoresetMode.DISABLED else np.zeros(9, dtype=bool)
        if masks:
            mask |= rng.random(9) < 0.1
        if mask.any():
            found, expected = (
                env.reset(options={"reset_mask": mask.copy()}) for env in (ours, theirs)
            )
            np.testing.assert_array_equal(found[0], expected[0])
        actions = rng.integers(3, size=9)
        *found, infos = ours.step(actions)
        *expected, expected_infos = theirs.step(actions)
        for mine, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(mine, other, strict=True)
        assert infos.keys() == expected_infos.keys()
        if infos:
            np.testing.assert_array_equal(infos["final_obs"], expected_infos["final_obs"])
            assert set(map(type, infos["final_obs"])) <= {np.int64, type(None)}
            for name in ("_final_obs", "_final_info"):
                np.testing.assert_array_equal(infos[name], expected_infos[name], strict=True)
            assert infos["final_info"] == expected_infos["final_info"] == {}
        ended = found[3]
    assert (mode is AutoresetMode.SAME_STEP) or not infos


@each_mode
def test_what_is_returned_is_never_written_to_again(mode):
    env = RiverSwimVectorEnv(8, horizon=3, variant="strehl", autoreset_mode=mode)
    states, _ = env.reset(seed=1)
    kept, copies = [states], [states.copy()]
    rng = np.random.default_rng(2)
    for _ in range(12):
        *arrays, infos = env.step(rng.integers(2, size=8))
        arrays += [infos[name] for name in ("final_obs", "_final_obs", "_final_info") if infos]
        if mode is AutoresetMode.DISABLED and arrays[3].any():
            arrays.append(env.reset(options={"reset_mask": arrays[3]})[0])
        kept += arrays
        copies += [array.copy() for array in arrays]
    for array, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert len({id(array) for array in kept}) == len(kept)
    for i, array in enumerate(kept):
        assert not any(np.shares_memory(array, other) for other in kept[:i])


def test_writing_to_what_was_returned_changes_nothing():
    first, second = RiverSwimVectorEnv(8, horizon=3), RiverSwimVectorEnv(8, horizon=3)
    first.reset(seed=1), second.reset(seed=1)
    for _ in range(10):
        found, expected = first.step(always(1, first)), second.step(always(1, second))
        for mine, other in zip(found[:4], expected[:4], strict=True):
            np.testing.assert_array_equal(mine, other)
            mine[:] = 1


# Randomness


def test_steps_follow_the_tables():
    """Chi-square per row, 4096 environments of 60 steps; the last line is the power check.

    Each of the 36 rows, of about 6800 steps, has its own test at FALSE_ALARM / 36.
    """
    mdp = random_mdp(np.random.default_rng(3), n_states=6, n_actions=6, horizon=1000)
    even = 0.8 * mdp.transition + 0.2 / 6  # enough of every next state
    mdp = TabularMDP(even, mdp.reward, mdp.start, mdp.horizon)
    env = TabularVectorEnv(4096, mdp)
    rng, here = np.random.default_rng(4), env.reset(seed=7)[0]
    counts = np.zeros(mdp.transition.shape, dtype=int)
    for _ in range(60):
        actions = rng.integers(6, size=4096)
        following, rewards, *_ = env.step(actions)
        np.testing.assert_array_equal(rewards, mdp.reward[here, actions])
        np.add.at(counts, (here, actions, following), 1)
        here = following

    def least_p_value(transition):
        rows = zip(counts.reshape(-1, 6), transition.reshape(-1, 6), strict=True)
        return min(p_value(found, row) for found, row in rows)

    assert least_p_value(mdp.transition) > FALSE_ALARM / 36
    wrong = mdp.transition.copy()
    row = wrong[2, 3]
    row[[row.argmax(), row.argmin()]] += [-0.05, 0.05]
    assert least_p_value(wrong) < FALSE_ALARM / 36


TWO_STATES = TabularMDP(
    transition=[[[0.6, 0.4], [0.1, 0.9]], [[0.3, 0.7], [0.5, 0.5]]],
    reward=np.zeros((2, 2)),
    start=[0.7, 0.3],
    horizon=2,
)


def paths_of_an_episode(env, policy, here):
    """Play one episode; return each environment's path, and the states after it."""
    path = [here]
    for actions in policy:
        here, _, _, ended, infos = env.step(actions[here])
        path.append(infos["final_obs"] if infos else here)
    assert ended.all()
    if env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP:
        here = env.step(np.zeros(env.num_envs, dtype=int))[0]
    elif env.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
        here = env.reset()[0]
    return list(map(tuple, np.array(path, dtype=int).T.tolist())), here


def p_values_of_pairs(env, times):
    """Test the joint law of two paths: side by side, one after the other, and across."""
    policy = np.array([[0, 1], [0, 0]])
    law = episode_law(TWO_STATES, policy)
    seen = [Counter() for _ in range(3)]
    here = env.reset(seed=12)[0]
    for _ in range(times):
        (first, second), here = paths_of_an_episode(env, policy, here)
        (third, fourth), here = paths_of_an_episode(env, policy, here)
        for pairs, other in zip(seen, (second, third, fourth), strict=True):
            pairs[first, other] += 1
    expected = {(one, other): law[one] * law[other] for one, other in product(law, law)}
    assert all(pairs.keys() <= expected.keys() for pairs in seen)
    return [p_value([pairs[pair] for pair in expected], list(expected.values())) for pairs in seen]


@pytest.mark.slow
@each_mode
@pytest.mark.parametrize("times", [4000, pytest.param(40_000, marks=pytest.mark.slow)])
def test_environments_and_episodes_are_independent(mode, times):
    """Chi-square over the joint paths of two episodes of two steps, 64 outcomes."""
    env = TabularVectorEnv(2, TWO_STATES, autoreset_mode=mode)
    assert min(p_values_of_pairs(env, times)) > FALSE_ALARM / 3


class OneDrawForAll(TabularVectorEnv):
    def _uniforms(self):
        return np.full(self.num_envs, super()._uniforms()[0])


class EveryDrawTwice(TabularVectorEnv):
    """Three draws to an episode: repeat the last three."""

    calls = 0

    def _uniforms(self):
        self.calls += 1
        if self.calls % 6 == 1:
            self.three = [super(EveryDrawTwice, self)._uniforms().copy() for _ in range(3)]
        return self.three[(self.calls - 1) % 3]


@pytest.mark.slow
@pytest.mark.parametrize(("broken", "caught"), [(OneDrawForAll, 0), (EveryDrawTwice, 1)])
def test_draws_used_twice_would_be_caught(broken, caught):
    """The power check of the test above, 4000 times."""
    env = broken(2, TWO_STATES, autoreset_mode="SameStep")
    assert p_values_of_pairs(env, 4000)[caught] < FALSE_ALARM / 3


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_starts_follow_their_distribution(mode):
    """Chi-square, 20000 starts at resets and 20000 between episodes."""
    env = RiverSwimVectorEnv(20_000, variant="strehl", horizon=2, autoreset_mode=mode)
    first = env.reset(seed=2)[0]
    for _ in range(3 if mode is AutoresetMode.NEXT_STEP else 2):
        second = env.step(always(0, env))[0]
    for states in (first, second):
        starts = np.bincount(states, minlength=6)
        assert starts[1] + starts[2] == 20_000
        assert p_value(starts[1:3], [0.5, 0.5]) > FALSE_ALARM
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05  # seven standard deviations


def test_rewards_on_arrival():
    env = RiverSwimVectorEnv(500, variant="dps")
    env.reset(seed=0)
    paid = set()
    for _ in range(30):
        states, rewards, *_ = env.step(always(1, env))
        expected = np.select([states == 0, states == 5], [0.005, 1.0], 0.0)
        np.testing.assert_array_equal(rewards, expected)
        paid |= set(rewards)
    assert paid == {0.0, 0.005, 1.0}


def test_a_seed_fixes_everything():
    env, other = RiverSwimVectorEnv(7, variant="strehl"), RiverSwimVectorEnv(7, variant="strehl")
    runs = []
    for each, seed in ((env, 3), (other, 3), (env, 4), (env, 3), (env, None)):
        start = each.reset(seed=seed)[0].tolist()
        runs.append((start, play(each)))
    assert runs[0] == runs[1] == runs[3]
    assert runs[0] != runs[2]
    assert runs[3] != runs[4]
    assert env.np_random_seed == 3


def test_the_environment_ignores_the_global_seed():
    env = RiverSwimVectorEnv(7)
    runs = []
    for seed in (0, 1):
        np.random.seed(seed)  # noqa: NPY002
        env.reset(seed=3)
        runs.append(play(env))
    assert runs[0] == runs[1]


def test_a_generator_of_ones_own_is_used_at_once():
    runs = []
    for _ in range(2):
        env = RiverSwimVectorEnv(7)
        env.reset()
        env.step(always(1, env))
        env.np_random = np.random.default_rng(8)
        env.reset()
        runs.append(play(env))
    assert runs[0] == runs[1]


@each_mode
def test_a_pickle_goes_on_where_it_was(mode):
    env = RiverSwimVectorEnv(7, horizon=100, variant="strehl", autoreset_mode=mode)
    env.reset(seed=8)
    play(env, steps=30)
    copy = pickle.loads(pickle.dumps(env))
    assert play(env) == play(copy)
    env.reset(), copy.reset()
    assert play(env) == play(copy)


# Edges


class ConstantDraws:
    """A generator whose uniform draws are all the same extreme."""

    def __init__(self, draw):
        self.draw = draw

    def random(self, out):
        out[:] = self.draw


@pytest.mark.parametrize("total", [1.0, 1 - 9e-10])
@pytest.mark.parametrize(("draw", "chosen"), [(0.0, 0), (1 - 2.0**-53, 1)])
def test_extreme_draws_stay_in_their_row(draw, chosen, total):
    """At row 9000, row + u rounds to the next row for the largest u; rows may fall short of 1."""
    transition, start, pairs = two_ways_on(total)
    reward = np.random.default_rng(1).random(transition.shape)
    env = TabularVectorEnv(4, TabularMDP(transition, reward, start, 4))
    env.np_random = ConstantDraws(draw)
    actions = np.array([0, 1, 150, 299])
    state = np.full(4, [3, 28][chosen])
    np.testing.assert_array_equal(env.reset()[0], state)
    for _ in range(4):
        following, rewards, *_ = env.step(actions)
        np.testing.assert_array_equal(following, pairs[state, chosen])
        np.testing.assert_array_equal(rewards, reward[state, actions, following])
        state = following


def test_what_cannot_happen_does_not():
    """4096 environments, 300 steps, next states with a gap in each row."""
    rng = np.random.default_rng(6)
    possible = rng.random((12, 4, 12)) < 0.3
    possible[..., 0] |= ~possible.any(axis=-1)
    weights = possible * rng.random(possible.shape) ** 8  # some of them are tiny
    transition = weights / weights.sum(axis=-1, keepdims=True)
    env = TabularVectorEnv(4096, TabularMDP(transition, np.zeros((12, 4)), np.eye(12)[4], 50))
    here = env.reset(seed=1)[0]
    for step in range(300):
        actions = rng.integers(4, size=4096)
        following = env.step(actions)[0]
        if step % 51 == 50:  # the step that resets
            assert (following == 4).all()
        else:
            assert possible[here, actions, following].all()
        here = following


@pytest.mark.parametrize("num_envs", [1, 3, 2**14 + 1])
def test_any_number_of_environments(num_envs):
    env = TabularVectorEnv(num_envs, TabularMDP([[[1.0]]], [[2.0]], [1.0], 2))
    env.reset(seed=0)
    for reward, truncated in ((2.0, False), (2.0, True), (0.0, False), (2.0, False)):
        states, rewards, terminations, truncations, _ = env.step(always(0, env))
        assert (states == 0).all()
        assert (rewards == reward).all()
        assert (truncations == truncated).all()
        assert not terminations.any()


# Misuse


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 1, 2], r"actions must be in 0\.\.1, got values in 0\.\.2; number them from 0"),
        ([0, -1, 1], r"actions must be in 0\.\.1, got values in -1\.\.1"),
        *(([0, action, 1], "actions must be in") for action in range(-9, 0)),
        ([3, 0, 1], "actions must be in"),
        ([0, -(2**62), 1], "actions must be in"),
        (np.array([0, 1, 2**64 - 1], np.uint64), r"got values in 0\.\.18446744073709551615"),
        (np.array([0, 1, 2**64 - 4], np.uint64), "actions must be in"),
        (np.array([0, 1, -4], np.int8), "actions must be in"),
        ([0, 1], r"actions must be integers of shape \(3,\), got int64 of shape \(2,\); give one"),
        ([[0, 1, 0]], "actions must be integers of shape"),
        (1, r"got int64 of shape \(\)"),
        ([0.0, 1.0, 0.0], "actions must be integers of shape .* got float64"),
        ([True, False, True], "actions must be integers of shape .* got bool"),
        (None, "actions must be integers of shape .* got object"),
    ],
)
def test_wrong_actions_are_refused_and_nothing_happens(actions, message):
    env, other = RiverSwimVectorEnv(3), RiverSwimVectorEnv(3)
    for each in (env, other):
        each.reset(seed=1)
        each.step(always(1, each))
    with pytest.raises(ValueError, match=message):
        env.step(actions)
    assert play(env) == play(other)


def test_actions_are_checked_even_where_they_are_ignored():
    env = RiverSwimVectorEnv(3, horizon=1)
    env.reset(seed=1)
    env.step(always(1, env))
    with pytest.raises(ValueError, match="actions must be in"):
        env.step(always(2, env))
    assert not env.step(always(1, env))[1].any()


@pytest.mark.parametrize("kind", [list, np.int8, np.uint64, np.intp])
def test_integers_of_any_kind_are_actions(kind):
    env = RiverSwimVectorEnv(3)
    env.reset(seed=1)
    actions = [1, 0, 1] if kind is list else np.array([1, 0, 1], kind)
    assert env.step(actions)[1].tolist() == [0.0, 0.005, 0.0]


@pytest.mark.parametrize(
    "mask",
    [
        [True, False, True],
        np.array([1, 0, 1]),
        np.array([True, False]),
        np.array([[True, False, True]]),
        np.zeros(3, dtype=bool),
        None,
    ],
)
def test_wrong_masks_are_refused(mask):
    env = RiverSwimVectorEnv(3)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="reset_mask must be an array of bool of shape"):
        env.reset(options={"reset_mask": mask})


def test_the_first_reset_is_of_all():
    env = RiverSwimVectorEnv(3)
    with pytest.raises(gym.error.ResetNeeded, match="of all environments"):
        env.reset(options={"reset_mask": np.array([True, False, True])})
    env.reset(options={"reset_mask": np.ones(3, dtype=bool)})
    env.step(always(1, env))


@each_mode
def test_stepping_needs_a_reset(mode):
    env = RiverSwimVectorEnv(3, horizon=2, autoreset_mode=mode)
    with pytest.raises(gym.error.ResetNeeded, match=r"call reset\(\) first"):
        env.step(always(1, env))
    env.reset(options={"other": 1})
    env.step(always(1, env))
    env.reset(options={"reset_mask": np.array([True, False, False])})
    env.step(always(1, env))
    if mode is AutoresetMode.DISABLED:
        for _ in range(2):
            with pytest.raises(gym.error.ResetNeeded, match="2 of 3 have ended"):
                env.step(always(1, env))
    else:
        env.step(always(1, env))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs must be"),
        ({"num_envs": 2.0}, "num_envs must be"),
        ({"autoreset_mode": "NextSteps"}, "one of 'NextStep', 'SameStep', 'Disabled', got"),
        ({"autoreset_mode": None}, "autoreset_mode must be one of"),
        ({"n_states": 2}, "n_states must be"),
        ({"horizon": 0}, "horizon must be"),
        ({"variant": "osbund"}, "did you mean 'osband'"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        RiverSwimVectorEnv(**{"num_envs": 3, **arguments})


@pytest.mark.few(4)
@each_mode
def test_a_picture_shows_the_first_of_them(mode):
    """As one alone shows it that does and meets the same, also where an episode begins."""
    env = RiverSwimVectorEnv(3, horizon=4, autoreset_mode=mode, render_mode="rgb_array")
    with pytest.raises(gym.error.ResetNeeded, match="render needs a state"):
        env.render()
    states, _ = env.reset(seed=1)
    last = None
    for step in range(1, 12):
        (picture,) = env.render()
        np.testing.assert_array_equal(picture, rgb_array(6, states[0], last))
        last = step % 2
        states, _, _, truncations, _ = env.step(np.array([last, 1, 1]))
        if mode is AutoresetMode.DISABLED and truncations[0]:
            states, last = env.reset()[0], None
        began = {AutoresetMode.SAME_STEP: 4, AutoresetMode.NEXT_STEP: 5}  # every so many steps
        if step % began.get(mode, 99) == 0:
            last = None


def test_without_a_render_mode_there_is_no_picture():
    env = gym.make_vec(ENV_ID, num_envs=2)
    env.reset(seed=1)
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        assert env.render() is None
    assert (
        len(gym.make_vec(ENV_ID, num_envs=2, render_mode="rgb_array").metadata["render_modes"]) == 1
    )
    with pytest.raises(ValueError, match="render_mode must be None or 'rgb_array'"):
        RiverSwimVectorEnv(2, render_mode="human")
