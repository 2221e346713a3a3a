"""Policies in files, and what they answer."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from made import agent_of

from privrl import secret_rng
from privrl.accounting import ApproxDP, RdpAccountant, RenyiDP
from privrl.agents import PSRL, KnownRewards, Policy, QLearning, Transition
from privrl.agents.baselines import Oracle
from privrl.agents.tabular import _statement_of
from privrl.costs import GaussianCost, ReplaceStep
from privrl.costs.relations import PaperStep, PaperStepWarning
from privrl.envs import riverswim
from privrl.samplers import NoisyCounts, NonPrivate

ACTIONS = np.array([[0, 1, 1], [0, 1, -1], [1, 1, 0]])
NAMED = Policy(
    actions=ACTIONS, n_actions=2, first_state=3, first_action=5, action_names=("left", "right"),
    env="Env-v0",
)  # fmt: skip


def test_it_counts_the_steps() -> None:
    policy = Policy(actions=[[0, 1], [1, 0]], n_actions=2)
    action, step = policy.predict(0)
    assert (action, step) == (0, 1)
    assert isinstance(action, np.int64)
    assert gym.spaces.Discrete(2).contains(action)
    assert policy.predict(0, step) == (1, 2)
    assert policy.predict(0, step, episode_start=True) == (0, 1)
    assert policy.predict(np.int64(1), np.int64(1)) == (0, 2)


def test_of_several_environments_each_counts_its_own() -> None:
    policy = Policy(actions=[[0, 1], [1, 0]], n_actions=2)
    action, step = policy.predict(np.array([0, 1, 0]), np.array([1, 1, 2]), np.array([0, 0, 1]))
    assert action.tolist() == [1, 0, 0]
    assert step.tolist() == [2, 2, 1]
    action, step = policy.predict(np.array([0, 1, 0]))
    assert action.tolist() == [0, 1, 0]
    assert step.tolist() == [1, 1, 1]


def test_it_speaks_the_numbers_of_its_environment() -> None:
    assert NAMED.predict(4, 1) == (6, 2)
    assert {int(NAMED.predict(5, 1)[0]) for _ in range(60)} == {5, 6}  # any: 1 in 2^59 fails
    assert NAMED.action_name(0) == "left"
    assert NAMED.action_name(-1) == "any"
    assert Policy(actions=[[0]], n_actions=1, first_action=7).action_name(0) == "7"


@pytest.mark.parametrize("observation", [-1, 2, [0, 2]])
def test_no_such_observation(observation: Any) -> None:
    with pytest.raises(ValueError, match="observation must be from 0 to 1 everywhere"):
        Policy(actions=[[0, 1]], n_actions=2).predict(observation)


@pytest.mark.parametrize("step", [-1, 1, [0, 1]])
def test_no_such_step(step: Any) -> None:
    with pytest.raises(ValueError, match=r"step, from 0 to 0.*Omit it at the start of an episode"):
        Policy(actions=[[0, 1]], n_actions=2).predict([0, 0], step)


def test_what_is_no_number_is_no_observation() -> None:
    for wrong in (0.5, [0.0], "0", np.array([True]), ({"beds": np.zeros(2)}, np.zeros(1))):
        with pytest.raises(ValueError, match="must be whole numbers"):
            Policy(actions=[[0, 1]], n_actions=2).predict(wrong)


def test_the_loop_of_other_libraries_evaluates_it() -> None:
    """As Stable-Baselines3's ``evaluate_policy`` asks: vector, states and starts passed on.

    Against the exact value, with deviation 0.16 of 400 episodes: five of them, 1 in 10^6 fails.
    """
    mdp = riverswim()
    policy = Policy(actions=mdp.plan()[0], n_actions=2)
    env = gym.make_vec(
        "privrl.envs:privrl/RiverSwim-v0", num_envs=40,
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
    )  # fmt: skip
    observations, _ = env.reset(seed=1)
    states, starts = None, np.ones(40, np.bool_)
    earned = np.zeros(40)
    for _ in range(10 * mdp.horizon):
        actions, states = policy.predict(
            observations, state=states, episode_start=starts, deterministic=True
        )
        observations, rewards, terminations, truncations, _ = env.step(actions)
        starts = terminations | truncations
        earned += rewards
    assert abs(earned.mean() / 10 - mdp.optimal_value()) < 5 * 0.16


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    NAMED.save(tmp_path / "policy.json")
    again = Policy.load(tmp_path / "policy.json")
    assert again.to_dict() == NAMED.to_dict()
    np.testing.assert_array_equal(again.actions, ACTIONS)
    assert not again.actions.flags.writeable
    written = (tmp_path / "policy.json").read_text()
    assert '{"state": 3, "steps": [{"from": 0, "action": 5, "do": "left"}, ' in written
    assert '{"from": 1, "action": null, "do": "any"}' in written
    assert json.loads(written)["shareable"] is False  # nothing says what it cost


def test_an_agents_policy_knows_its_environment(tmp_path: Path) -> None:
    env = gym.make("FrozenLake-v1")
    agent = PSRL.private(env, epsilon=1, episodes=5).learn()
    agent.to_policy().save(tmp_path / "policy.json")
    policy = Policy.load(tmp_path / "policy.json")
    assert policy.env == "FrozenLake-v1"
    assert policy.action_names == ("left", "down", "right", "up")
    np.testing.assert_array_equal(policy.actions, agent.policy)
    assert policy.predict(3, 7) == agent.predict(3, 7)


@pytest.mark.few(2)
@pytest.mark.parametrize("target", [RenyiDP(2, 1.0), ApproxDP(1.0, 1e-6)])
def test_an_agents_policy_says_what_it_cost(target: RenyiDP | ApproxDP, tmp_path: Path) -> None:
    """And so whether it may be shared: not with noise that others can draw again."""
    env = gym.make("FrozenLake-v1")
    agent = PSRL.private(env, target=target, episodes=5)
    assert _statement_of(agent) is None
    guarantee = agent.learn().to_policy().guarantee
    assert guarantee is not None
    delta = getattr(target, "delta", 1e-5)
    assert guarantee["relation"] == str(agent.accountant.relation)
    assert guarantee["delta"] == delta
    assert guarantee["epsilon_delta"] == float(agent.accountant.epsilon(delta))
    renyi = isinstance(target, RenyiDP)
    told = (None, None) if not renyi else (2.0, float(agent.accountant.spent(2.0)))
    assert (guarantee["order"], guarantee["epsilon"]) == told
    assert (guarantee["randomness"], guarantee["caveats"]) == ("secret", [])
    agent.to_policy().save(tmp_path / "policy.json")
    assert Policy.load(tmp_path / "policy.json").to_dict()["shareable"] is True
    seeded = PSRL.private(env, epsilon=1, episodes=5, rng=np.random.default_rng(0)).learn()
    assert seeded.to_policy().to_dict()["shareable"] is False


def test_what_others_cost_is_no_promise() -> None:
    """A policy of raw rewards, or of nobody's, beside a release under the same accountant."""
    accountant = RdpAccountant()
    accountant.compose(GaussianCost(sigma=5.0, relation=ReplaceStep()))
    given = agent_of(Oracle, 4, 2, 5, policy=np.zeros((5, 4), int), accountant=accountant)
    given.begin_episode(0)
    assert given.to_policy().guarantee is None
    assert given.to_policy().to_dict()["shareable"] is False
    raw = agent_of(QLearning, 4, 2, 5, episodes=9, accountant=accountant)
    raw.begin_episode(0)
    raw.observe(Transition(0, 1, 1.0, 2, False))
    told = raw.to_policy().guarantee
    assert told is not None
    assert told["epsilon_delta"] is None
    assert raw.to_policy().to_dict()["shareable"] is False


def test_without_a_promise_there_is_nothing_to_share() -> None:
    """No noise, or noise that is too little."""

    def learned(sampler: Any) -> Policy:
        return (
            agent_of(
                PSRL,
                4,
                2,
                5,
                sampler=sampler,
                rewards=KnownRewards(np.zeros((4, 2))),
                rng=secret_rng(),
            )
            .learn(3, env=riverswim(4, 5))
            .to_policy()
        )

    bare = learned(NonPrivate())
    assert bare.guarantee is not None
    assert bare.guarantee["epsilon_delta"] is None
    with pytest.warns(PaperStepWarning):
        paper = PaperStep()
    printed = learned(NoisyCounts(sigma=9.0, updates=3, relation=paper, table="transitions"))
    assert printed.guarantee is not None
    assert printed.guarantee["caveats"] == ["the paper's sensitivity is too small"]
    for each in (bare, printed):
        assert each.to_dict()["shareable"] is False


def damaged(**changes: Any) -> str:
    return json.dumps(NAMED.to_dict() | changes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no JSON", "must be a policy as JSON, but is not: Expecting value"),
        ("\xff\xd8", "it must be JSON in UTF-8, but is another kind of file"),
        ("[]", "format must be"),
        (damaged(format="privrl policy, 2"), "privrl.offline.load_policy reads it"),
        (damaged(more=1), "'more' are not so"),
        (damaged(horizon=10**12), "horizon times states must be at most"),
        (damaged(horizon=2), "steps must go on from 0 to below the horizon"),
        (damaged(n_actions=1), "actions must be from -1 to 0 everywhere"),
        (damaged(action_names=["one"]), "action_names must be 2 texts"),
        (damaged(action_names=["up", "down"]), "state 0 must be"),
        (damaged(states=[]), "states must be a list"),
        (damaged(states=[{"state": 3}]), "states must each have a number, and steps"),
        (damaged(first_action=10**20), "first_action"),
        (damaged(shareable=True), "shareable must be false"),
        (damaged(env=1), "env must be a text"),
        (damaged(guarantee=[]), "guarantee a dictionary or None"),
    ],
)
def test_a_damaged_file_is_refused_by_name(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=f"^policy.json: .*{words}"):
        Policy.load(tmp_path / "policy.json")


@pytest.mark.parametrize("statement", ["train.json", "release.json"])
def test_a_policy_beside_the_statement_of_another_is_refused(
    statement: str, tmp_path: Path
) -> None:
    """As after a copy of half the files."""
    NAMED.save(tmp_path / "policy.json")
    (tmp_path / statement).write_text(json.dumps({"sha256": {"policy.json": "0" * 64}}))
    with pytest.raises(ValueError, match=f"^policy.json: must be the file that {statement} next"):
        Policy.load(tmp_path / "policy.json")
    (tmp_path / statement).write_text(json.dumps({"sha256": {"another.json": "0" * 64}}))
    assert Policy.load(tmp_path / "policy.json").env == NAMED.env


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"actions": [0, 1]}, r"shape \(steps, states\)"),
        ({"actions": [[0.0]]}, "whole numbers of shape"),
        ({"actions": [[2]]}, "from -1 to 1 everywhere"),
        ({"actions": [[-2]]}, "from -1 to 1 everywhere"),
        ({"n_actions": 0}, "n_actions must be"),
        ({"first_state": 0.5}, "first_state must be"),
    ],
)
def test_bad_arguments(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Policy(**{"actions": [[0, 1]], "n_actions": 2} | wrong)
