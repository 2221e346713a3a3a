"""One agent on one environment: under which relation, with whose randomness, and what is said."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from privrl.agents.methods import Method
from privrl.costs.relations import ReplaceEpisode, ReplaceStep, ReplaceTransition
from privrl.experiments.names import rl_relation
from privrl.experiments.training import TrainSpec, run, run_training


def guarantee(**settings: Any) -> dict[str, Any]:
    return run_training(TrainSpec(**({"env": "FrozenLake-v1", "episodes": 2} | settings))).guarantee


@pytest.mark.few(2)
@pytest.mark.parametrize("env", ["FrozenLake-v1", "privrl/Blackjack-v0"])
def test_rewards_that_may_depend_on_the_arrival_are_covered(env: str) -> None:
    """As the tables say, or because there are none that say otherwise."""
    said = guarantee(env=env, reward_range=(-1.0, 1.0))
    assert said["relation"] == str(ReplaceStep(arrival_rewards=True))


def test_an_episode_is_as_long_as_it_is() -> None:
    said = guarantee(relation="replace-episode", horizon=7)
    assert said["relation"] == str(ReplaceEpisode(7))


@pytest.mark.parametrize("agent", ["psrl", "ucbvi"])
def test_one_episode_has_a_draw_without_users(agent: str) -> None:
    method = Method(agent=agent, sampler="local-counts")
    assert guarantee(episodes=1, method=method)["draws"] == 1


@pytest.mark.slow
def test_what_is_no_guarantee_is_said() -> None:
    assert not guarantee()["caveats"]
    assert "seed" in guarantee(seed=0)["caveats"][0]
    with pytest.warns(UserWarning, match="too small"):
        assert "too small" in guarantee(relation="paper-step")["caveats"][0]


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "method",
    [
        {"agent": "sparse-psrl"},
        {"agent": "psrl", "sampler": "local-counts", "support": True},
        {"agent": "psrl", "sampler": "diffuse", "schedule": "every-episode"},
        {"agent": "psrl", "sampler": "concentrated", "schedule": "every-episode", "window": 2},
        {"agent": "psrl", "rewards": "known"},
        {"agent": "explore-then-plan", "reward_share": 0.6},
    ],
    ids=str,
)
def test_a_budget_with_a_delta_is_spent_and_no_more(method: dict[str, Any]) -> None:
    """Whatever is released: all of it once, or a draw at a time."""
    said = guarantee(method=Method(**method), epsilon=1.5, delta=1e-6, episodes=20)
    assert 1.499 < said["epsilon_delta"] <= 1.5
    assert said["delta"] == 1e-6
    assert (said["order"], said["epsilon"]) == (None, None)


@pytest.mark.slow
def test_a_renyi_budget_is_spent_and_reported_at_the_usual_delta() -> None:
    said = guarantee(epsilon=0.1, renyi_order=2.0, episodes=20)
    assert (said["order"], said["delta"]) == (2.0, 1e-5)
    assert 0.0999 < said["epsilon"] <= 0.1 < said["epsilon_delta"]
    with pytest.raises(ValueError, match="delta must be left out with renyi_order"):
        TrainSpec(env="FrozenLake-v1", renyi_order=2.0, delta=1e-6)


def test_pure_privacy_is_refused_where_a_sampler_has_none() -> None:
    with pytest.raises(ValueError, match="delta must be > 0 for the sampler noisy-counts:buffered"):
        guarantee(delta=0.0)


def test_a_budget_with_a_delta_that_nothing_reaches() -> None:
    """Then draws are those of the ordinary posterior."""
    said = guarantee(method=Method(sampler="diffuse"), epsilon=1e3, delta=0.1)
    assert said["epsilon_delta"] < 100
    assert guarantee(method=Method(agent="random"), delta=0.1)["epsilon_delta"] is None
    with pytest.raises(ValueError, match="divide that with reward_share"):
        guarantee(method=Method(reward_epsilon=1.0), delta=1e-5)
    with pytest.raises(ValueError, match="delta must be a number > 0 and < 1"):
        TrainSpec(env="FrozenLake-v1", delta=1.0)


@pytest.mark.slow
def test_the_agents_randomness_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the environment's nor, without a seed, that of another run: it is the noise."""
    seen: list[np.random.Generator] = []
    make_agent, train = run.make_agent, run.train

    def making(method: Any, task: Any, budgets: Any, rng: np.random.Generator) -> Any:
        seen.append(rng)
        return make_agent(method, task, budgets, rng)

    def training(agent: Any, env: Any, episodes: int, rng: np.random.Generator, **rest: Any) -> Any:
        seen.append(rng)
        return train(agent, env, episodes, rng, **rest)

    monkeypatch.setattr(run, "make_agent", making)
    monkeypatch.setattr(run, "train", training)
    states = []
    for seed in (None, None, 1, 1):
        seen.clear()
        guarantee(seed=seed)
        keys = [each.bit_generator.seed_seq.generate_state(4).tolist() for each in seen]
        assert keys[0] != keys[1]
        states.append(keys)
    assert states[0] != states[1]
    assert states[2] == states[3]


@pytest.mark.parametrize("arrival", [False, True])
def test_names_of_relations(arrival: bool) -> None:
    def named(name: str) -> object:
        return rl_relation(name, horizon=9, arrival_rewards=arrival)

    assert named("replace-transition") == ReplaceTransition(arrival_rewards=arrival)
    assert named("replace-step") == ReplaceStep(arrival_rewards=arrival)
    assert named("replace-episode") == ReplaceEpisode(9)


@pytest.mark.parametrize("arg", [5, None, ["n_states=4"], b"n_states=4"], ids=repr)
def test_what_an_environment_is_made_with_is_text(arg: object) -> None:
    with pytest.raises(ValueError, match="env_args must each be name=value"):
        TrainSpec(env="privrl/RiverSwim-v0", env_args=(arg,))


class OfAUser(gym.Env):
    observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)
    reward_range = 0.0, 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return int(action), float(action), False, False, {}


class Unclosed(OfAUser):
    def close(self):
        raise RuntimeError("no window")


class Exits(OfAUser):
    def close(self):
        raise SystemExit(3)


class Huge(OfAUser):  # the value of its tables is infinite
    reward_range = 0.0, 1e308
    P = {s: {a: [(1.0, a, 1e308 * a, False)] for a in range(2)} for s in range(2)}  # noqa: RUF012
    initial_state_distrib = 1.0, 0.0


class Tables(OfAUser):
    P = {s: {a: [(1.0, a, float(a), False)] for a in range(2)} for s in range(2)}  # noqa: RUF012
    initial_state_distrib = 1.0, 0.0, 0.0


class Unnamed(OfAUser):
    action_names = 7


class Map(OfAUser):
    desc = np.array([[b"S", b"\xff"]])


@pytest.fixture
def spec(request: pytest.FixtureRequest) -> Any:
    gym.register("OfAUser-v0", entry_point=request.param, max_episode_steps=2)
    yield TrainSpec(env="OfAUser-v0", episodes=4)  # whose class declares its rewards
    del gym.registry["OfAUser-v0"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("spec", [Unclosed, Exits, Huge, Tables], indirect=True)
def test_errors_of_an_environment_lose_no_policy(spec: TrainSpec) -> None:
    with pytest.warns(
        UserWarning, match="env: it.*(RuntimeError|SystemExit|OverflowError|ValueError)$"
    ):  # without its text
        result = run_training(spec)
    assert result.policy.actions.shape == (2, 2)
    assert result.worth is None


@pytest.mark.filterwarnings("error:env:UserWarning")
@pytest.mark.parametrize("spec", [Unclosed, Tables], indirect=True)
def test_nor_where_warnings_are_errors(spec: TrainSpec) -> None:
    assert run_training(spec).policy.actions.shape == (2, 2)


@pytest.mark.parametrize("spec", [Unnamed, Map], indirect=True)
def test_what_an_environment_says_of_itself_fails_before_the_first_draw(spec: TrainSpec) -> None:
    stretches: list[object] = []
    with pytest.raises((TypeError, UnicodeDecodeError)):
        run_training(spec, callback=stretches.append)
    assert not stretches
