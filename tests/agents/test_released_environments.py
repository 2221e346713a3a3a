"""What is learned in a released model states what the model cost, by every road to a file."""

import copy
import json
import pickle
import shutil
from dataclasses import asdict, astuple, replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from typer.testing import CliRunner

import privrl.agents.training as _training
from privrl.accounting import RenyiDP
from privrl.agents import PSRL, Policy
from privrl.agents.checkpoints import Checkpoint
from privrl.cli import app
from privrl.continuous import (
    ContinuousLog,
    ContinuousSchema,
    Number,
    ReleasedContinuousEnv,
    fit_continuous_model,
)
from privrl.envs import (
    Released,
    ReleasedEnv,
    TabularEnv,
    TabularMDP,
    TabularVectorEnv,
    load_tables,
    save_released,
    save_tables,
)
from privrl.envs.released import checked_statement, privacy_statement
from privrl.envs.tabular import released_in
from privrl.experiments import TrainSpec, run_training, train
from privrl.files.chosen import CAVEAT, Selection, TrialName, mark_chosen, paid_by
from privrl.files.sharing import SECRET, SEEDED, amounts_of
from privrl.numerics.printing import beside_texts

RUNNER = CliRunner()
RELATION = "add or remove one person"
WORDS = "its environment was released at a cost beside it:"


def run(*arguments: object, code: int = 0) -> str:
    result = RUNNER.invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def model(*, seed: int = 0, **changed: object) -> Released:
    rng = np.random.default_rng(seed)
    reward = rng.random((3, 2))
    reward[0] = 0, 1  # the range of all models
    tables = TabularMDP(rng.dirichlet(np.ones(3), (3, 2)), reward, np.eye(3)[0], 4)
    said = {"unit": "a person", "relation": RELATION, "epsilon": 0.5, "delta": 1e-6}
    said |= {"released": "counts", "randomness": SECRET} | changed
    if "order" in said:
        del said["delta"]
    return Released(mdp=tables, statement=privacy_statement(**said))


def learned(env: object, **more: object) -> PSRL:
    return PSRL.private(env, epsilon=1.0, episodes=5, **more).learn()


def pages(agent: PSRL) -> dict:
    return agent.to_policy().to_dict()


CASES = {
    "secret": ({}, True),
    "Rényi": ({"order": 2.0}, True),
    "weak": ({"epsilon": 40.0}, True),
    "seeded": ({"randomness": SEEDED}, False),
    "unsaid": ({"randomness": None}, False),
    "caveats": ({"caveats": ["it is not so"]}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_a_policy_states_the_model_that_it_was_learned_in(case):
    changed, shareable = CASES[case]
    released = model(**changed)
    page = pages(learned(ReleasedEnv(released=released)))
    (stated,) = page["guarantee"]["environments"]
    kept = {name: each for name, each in stated.items() if name != "id"}
    left = ("released", "version")
    assert kept == {n: each for n, each in released.statement.items() if n not in left}
    assert page["guarantee"]["randomness"] == changed.get("randomness", SECRET)
    assert page["guarantee"]["caveats"] == changed.get("caveats", [])
    assert page["shareable"] is shareable
    assert page["guarantee"]["epsilon_delta"] <= 1.0
    total = amounts_of(page["guarantee"])[0]
    assert total > page["guarantee"]["epsilon_delta"] + released.statement["epsilon"] - 1e-12
    assert Policy.from_dict(page).to_dict() == page


def wrapped(released: Released) -> gym.Env:
    return gym.wrappers.TimeLimit(ReleasedEnv(released=released), 4)


ROADS = {
    "an environment": lambda released: ReleasedEnv(released=released),
    "a wrapped one": wrapped,
    "its tables": lambda released: released.mdp,
    "tables that were read": lambda r: TabularMDP.from_gymnasium(ReleasedEnv(released=r), 4),
    "an environment of its tables": lambda released: TabularEnv(released.mdp),
    "tables read from one of its tables": lambda r: TabularMDP.from_gymnasium(TabularEnv(r.mdp), 4),
    "a copy of its tables": lambda r: TabularEnv(copy.copy(r.mdp)),
    "a deep copy of its tables": lambda r: TabularEnv(copy.deepcopy(r.mdp)),
    "pickled tables": lambda r: TabularEnv(pickle.loads(pickle.dumps(r.mdp))),
    "an environment made of a spec": lambda r: gym.make(
        gym.make("privrl/Tabular-v0", mdp=r.mdp).spec
    ),
}


@pytest.mark.parametrize("road", ROADS)
def test_every_road_into_a_model_is_stated(road):
    released = model(randomness=SEEDED)
    page = pages(learned(ROADS[road](released)))
    assert page["guarantee"]["environments"][0]["relation"] == RELATION
    assert not page["shareable"]


def test_given_tables_stay_public() -> None:
    """A model has tables of its own, which share arrays with those that were given."""
    mdp = TabularMDP(*(getattr(model().mdp, each) for each in ("transition", "reward", "start")), 4)
    released = Released(mdp=mdp, statement=dict(model().statement))
    assert released.mdp.transition is mdp.transition
    assert "environments" not in pages(learned(mdp))["guarantee"]
    replace(released, action_names=("left", "right"))
    (stated,) = pages(learned(ReleasedEnv(released=released)))["guarantee"]["environments"]
    assert stated["epsilon"] == 0.5


def test_a_refused_run_changes_no_statement() -> None:
    agent = learned(TabularEnv(TabularMDP(*_arrays(), 4)))
    before = pages(agent)
    with pytest.raises(ValueError, match="episodes"):
        agent.learn(5000, env=ReleasedEnv(released=model(randomness=SEEDED)))
    assert pages(agent) == before


def _arrays() -> tuple[np.ndarray, ...]:
    mdp = model().mdp
    return mdp.transition, mdp.reward, mdp.start


def test_names_of_a_user_s_environment_may_mean_anything() -> None:
    class Odd:
        @property
        def mdp(self) -> object:
            raise RuntimeError("SECRET")

    assert released_in(Odd()) == ()
    env = TabularEnv(TabularMDP(*_arrays(), 4))
    env.released = learned(env).to_policy()
    assert "environments" not in pages(learned(env))["guarantee"]


SIDE_BY_SIDE = [gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv]
NAMED = ["2026-05-01", True, np.ones(3), {"on": "2026"}]


@pytest.mark.parametrize("value", NAMED)
def test_an_attribute_called_released_hides_no_model(value, tmp_path):
    class Ward(TabularEnv):
        released = value

    class Wards(TabularVectorEnv):
        released = value

    mdp = model(randomness=SEEDED).mdp
    save_tables(tmp_path / "tables.npz", TabularMDP.from_gymnasium(Ward(mdp), 4))
    agent = PSRL.private(mdp, epsilon=1.0, episodes=5)
    agent._environments = ()
    agent.learn(env=Wards(2, mdp))
    for learner in (
        learned(Ward(mdp)),
        learned(TabularMDP.from_gymnasium(Ward(mdp), 4)),
        learned(load_tables(tmp_path / "tables.npz")),
        agent,
    ):
        page = pages(learner)
        assert page["guarantee"]["environments"][0]["relation"] == RELATION
        assert not page["shareable"]


def test_a_model_beside_that_of_the_tables_is_stated(tmp_path):
    class Ward(TabularEnv):
        released = model(seed=1, epsilon=2.0)

    both = TabularMDP.from_gymnasium(Ward(model().mdp), 4)
    save_tables(tmp_path / "tables.npz", both)
    for env in (Ward(model().mdp), both, load_tables(tmp_path / "tables.npz")):
        stated = pages(learned(env))["guarantee"]["environments"]
        assert {each["epsilon"] for each in stated} == {0.5, 2.0}


@pytest.mark.parametrize("kind", SIDE_BY_SIDE)
def test_all_models_of_a_vector_are_stated(kind):
    models = [model(seed=seed) for seed in (0, 1, 1)]  # two differ, and cost the same
    agent = PSRL.private(wrapped(models[0]), epsilon=1.0, episodes=5)
    vector = kind([lambda each=each: wrapped(each) for each in models])
    try:
        agent.learn(env=vector)
    finally:
        vector.close()
    stated = pages(agent)["guarantee"]["environments"]
    assert len(stated) == 2
    assert len({each["id"] for each in stated}) == 2


def test_an_agent_states_all_that_it_was_made_for_or_learned_in():
    first, second = model(), model(seed=1, epsilon=2.0)
    agent = PSRL.private(ReleasedEnv(released=first), epsilon=1.0, episodes=6)
    agent.learn(2, env=ReleasedEnv(released=second))
    train(agent, ReleasedEnv(released=first), 2)
    agent.learn(2, env=TabularMDP(first.mdp.transition, first.mdp.reward, first.mdp.start, 4))
    stated = pages(agent)["guarantee"]["environments"]
    assert [each["epsilon"] for each in stated] == [0.5, 2.0]


def test_an_environment_without_a_model_changes_nothing():
    mdp = model().mdp
    other = TabularMDP(mdp.transition, mdp.reward, mdp.start, 4)
    page = pages(learned(TabularEnv(other)))
    assert "environments" not in page["guarantee"]
    env = TabularEnv(other)
    env.released, env.statement = True, {"epsilon": 3}  # a user's own attributes
    assert "environments" not in pages(learned(env))["guarantee"]


def test_a_checkpoint_keeps_it(tmp_path):
    env, path = ReleasedEnv(released=model(epsilon=3.0)), tmp_path / "checkpoint.private"
    agent = PSRL.private(env, epsilon=1.0, episodes=6, rng=1).learn(3)
    agent.save(path)
    mdp = env.mdp
    public = TabularEnv(TabularMDP(mdp.transition, mdp.reward, mdp.start, 4))
    again = PSRL.private(public, epsilon=1.0, episodes=6, rng=1)
    again.load(path)
    assert pages(again)["guarantee"]["environments"] == pages(agent)["guarantee"]["environments"]
    again.learn(3)
    assert pages(again)["guarantee"]["environments"][0]["epsilon"] == 3.0


def of_a_file(released: Released) -> TabularMDP:
    save_tables("tables.npz", released.mdp)
    return load_tables("tables.npz")


def of_public(released: Released) -> TabularMDP:
    mdp = released.mdp
    return TabularMDP(mdp.transition, mdp.reward, mdp.start, mdp.horizon)


COPIES = {
    "themselves": lambda released: released.mdp,
    "a pickle": lambda released: pickle.loads(pickle.dumps(released.mdp)),
    "a deep copy": lambda released: copy.deepcopy(released.mdp),
    "a replacement": lambda released: replace(released.mdp),
    "those of a file": of_a_file,
    "public ones": of_public,
}


@pytest.mark.parametrize("second", COPIES)
@pytest.mark.parametrize("first", ["themselves", "a pickle", "public ones"])
def test_a_run_goes_on_in_any_copy_of_its_tables(first, second, tmp_path, monkeypatch):
    """The digest of the tables depended on who held the model, and the checkpoint was refused."""
    monkeypatch.chdir(tmp_path)
    released, kept = model(), Checkpoint(path="run.private", episodes=1)
    public = of_public(released)

    def stop(stretch):
        if stretch.first >= 3:
            raise KeyboardInterrupt

    agents = [PSRL.private(public, epsilon=1.0, episodes=20, rng=0) for _ in range(2)]
    with pytest.raises(KeyboardInterrupt):
        agents[0].learn(env=COPIES[first](released), rng=1, callback=stop, checkpoint=kept)
    agents[1].learn(20, env=COPIES[second](released), rng=1, checkpoint=kept)
    assert agents[1].episodes_done == 20
    guarantee = pages(agents[1])["guarantee"]
    assert len(guarantee.get("environments", ())) == ({first, second} != {"public ones"})


def test_a_model_and_its_tables_are_plain_data():
    """Each held the other, so that both of the first raised RecursionError."""
    released = model()
    names = ("transition", "reward", "start", "horizon")
    assert tuple(asdict(released.mdp)) == tuple(asdict(released)["mdp"]) == names
    np.testing.assert_array_equal(TabularMDP(**asdict(released.mdp)).reward, released.mdp.reward)
    public = TabularMDP(*astuple(of_public(released)))
    np.testing.assert_array_equal(public.start, released.mdp.start)


def test_a_trial_is_not_left_through_an_environment(tmp_path):
    """Neither a policy nor a checkpoint of an agent leaves with a model of one trial."""

    class Accountant:
        trial = TrialName("one of several")

    released = paid_by(Accountant(), model())
    agent = learned(ReleasedEnv(released=released))
    assert CAVEAT in agent.to_policy().guarantee["caveats"]
    with pytest.raises(ValueError, match="chosen among several"):
        agent.to_policy().save(tmp_path / "policy.json")
    kept = Checkpoint(path=tmp_path / "kept", episodes=2)
    fresh = PSRL.private(ReleasedEnv(released=model()), epsilon=1.0, episodes=5)
    with pytest.raises(ValueError, match="chosen among several"):
        fresh.learn(env=ReleasedEnv(released=released), checkpoint=kept)
    assert fresh.draws == 0


def test_a_chosen_model_is_not_laundered(tmp_path):
    released = model()
    mark_chosen(released, Selection(None, None, "fit", ("a", "b")))
    policy = learned(ReleasedEnv(released=released)).to_policy()
    with pytest.raises(ValueError, match="chosen among several"):
        policy.save(tmp_path / "policy.json")


# Numbers ------------------------------------------------------------------------------------------

SCHEMA = ContinuousSchema(
    state={"x": Number(low=-1, high=1)},
    action={"dose": Number(low=0, high=1, levels=3)},
    reward=Number(low=-1, high=0),
)


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(0)
    state, action = rng.uniform(-1, 1, (400, 1)), rng.integers(3, size=400) / 2
    after = 0.9 * state - 0.2 * (action[:, None] - 0.5)
    log = ContinuousLog.of_arrays(
        SCHEMA, person=np.arange(400) // 20, state=state, action=action, next_state=after,
        reward=-np.abs(after[:, 0]),
    )  # fmt: skip
    return fit_continuous_model(log, private=False)


def numeric_agent(released, **target):
    env = ReleasedContinuousEnv(released=released, horizon=5)
    env.reward_range = (-1.0, 0.0)
    return PSRL.private(env, **(target or {"epsilon": 0.1}), episodes=8).learn()


def test_what_is_learned_in_a_fit_without_privacy_is_not_saved(numbers, tmp_path):
    agent = numeric_agent(numbers)
    assert agent.guarantee()["epsilon_delta"] is None
    with pytest.raises(ValueError, match="private data"):
        agent.to_policy(["a caveat"]).save(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bins", [None, "4"])
def test_no_training_begins_in_a_fit_without_privacy(numbers, bins):
    def make(**_: object) -> gym.Env:
        env = ReleasedContinuousEnv(released=numbers, horizon=5)
        env.reward_range = (-1.0, 0.0)
        return env

    gym.register("NoPrivacy-v0", entry_point=make, max_episode_steps=5)
    stretches: list[object] = []
    try:
        with pytest.raises(ValueError, match="released with privacy"):
            run_training(
                TrainSpec(env="NoPrivacy-v0", episodes=5, bins=bins), callback=stretches.append
            )
    finally:
        del gym.registry["NoPrivacy-v0"]
    assert not stretches


@pytest.mark.parametrize("target", [{"epsilon": 0.1}, {"target": RenyiDP(2, 1.0)}])
@pytest.mark.parametrize("case", CASES)
def test_a_plan_of_numbers_states_the_model(case, target, numbers, tmp_path):
    changed, shareable = CASES[case]
    statement = model(**changed).statement
    agent = numeric_agent(replace(numbers, statement=statement), **target)
    policy = agent.to_policy()
    policy.save(tmp_path)
    page = json.loads((tmp_path / "policy.json").read_text())
    assert page["shareable"] is shareable
    (stated,) = page["statement"]["environments"]
    assert stated["epsilon"] == statement["epsilon"]
    assert stated["relation"] == RELATION
    assert agent.guarantee()["environments"] == [stated]
    assert type(policy).load(tmp_path).statement == policy.statement


def test_a_statement_of_environments_is_checked():
    stated = model().statement
    for wrong in ({}, [{"relation": "x"}], [{**stated, "epsilon": -1}], [{"epsilon": 1}]):
        with pytest.raises(ValueError, match="must state"):
            checked_statement({**stated, "environments": wrong})


# Commands -----------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trained(**changed: object) -> str:
    save_released("model", model(**changed))
    env = ["--env", "privrl.envs:privrl/Released-v0", "--env-arg", 'path="model"']
    return run("train", *env, "--epsilon", 0.1, "--episodes", 5, "--horizon", 4, "--out", "out")


@pytest.mark.usefixtures("folder")
def test_a_weak_model_makes_a_weak_policy():
    assert f"{WORDS} (40, 1e-06)-differential privacy; privacy unit: {RELATION}" in trained(
        epsilon=40.0
    )
    assert "that is weak privacy" in run("share", "out", "--to", "public", code=2)
    assert not Path("public").exists()
    run("share", "out", "--to", "public", "--weak")
    shared = json.loads(Path("public/train.json").read_text())["guarantee"]
    assert shared == json.loads(Path("public/policy.json").read_text())["guarantee"]
    assert shared["environments"][0]["epsilon"] == 40.0
    shutil.rmtree("out")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("case", ["seeded", "caveats", "unsaid"])
def test_nothing_is_shared_where_nothing_of_the_model_is(case):
    trained(**CASES[case][0])
    assert "nothing of 'out' may be shared" in run("share", "out", "--to", "public", code=2)


@pytest.mark.usefixtures("folder")
@pytest.mark.needs("bokeh")
def test_reports_and_answers_state_it():
    trained(order=20.0)
    run("report", "out")
    words = f"{WORDS[1:]} Rényi divergence of order 20 at most 0.5; privacy unit: {RELATION}"
    assert words in Path("out/report-public.html").read_text()
    assert f"i{words}" in run("share", "out", "--to", "public")


def test_what_makes_an_environment_once_more_closes_it(monkeypatch):
    """An environment that lives in another process is asked through one of this process."""
    closed = []

    class Closes(gym.Wrapper):
        def close(self):
            closed.append(self)

    class Elsewhere(gym.vector.VectorEnv):
        env_fns = (lambda: Closes(wrapped(model())),)

    agent = learned(ReleasedEnv(released=model(seed=1)))
    _training.learns_in(agent, Elsewhere())
    assert len(closed) == 1
    assert len(pages(agent)["guarantee"]["environments"]) == 2


def test_a_policy_from_a_model_says_what_is_beside_it(tmp_path: Path) -> None:
    """Only the file said it."""
    inner, outer = model(epsilon=40.0).statement, model(epsilon=3.0).statement
    beside = {**model().statement, "environments": [outer]}
    save_released(tmp_path / "model", replace(model(), statement=beside))
    printed = run("fit-policy", "--from-model", tmp_path / "model", "--out", tmp_path / "policy")
    assert f"{WORDS} (3, 1e-06)-differential privacy" in printed
    deep = beside_texts({"environments": [{**outer, "environments": [inner]}]})  # of an edited file
    assert [text.partition(f"{WORDS} (")[2][:2] for text in deep] == ["3,", "40"]
