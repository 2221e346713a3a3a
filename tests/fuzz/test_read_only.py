"""Of whatever users make, no public attribute can be changed that a guarantee rests on."""

import contextlib
import copy
import inspect
import pickle
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import calls
import gymnasium as gym
import numpy as np
import pytest

from privrl import agents
from privrl.accounting import Ledger, RenyiDP
from privrl.agents import Policy
from privrl.agents.policy_release import PolicyMechanism
from privrl.costs import ReplaceEpisode
from privrl.costs.noise import LaplaceCost
from privrl.envs import Released, TabularMDP
from privrl.envs.released import privacy_statement
from privrl.files.chosen import MayBeChosen
from privrl.models import PrivateClassifier, PrivateLogisticRegression, PrivateNaiveBayes
from privrl.offline import ReleasedPolicy
from privrl.samplers import NoisyCounts

#: What can be assigned, by the class that has it, since no statement rests on it.
WRITABLE = {
    "TabularAgent": {"env", "episodes_done"},
    # scikit-learn sets parameters. To save a model that was fitted with others is refused.
    "PrivateNaiveBayes": {
        "alpha", "mechanism", "shares", "temperature",
    },
    "PrivateClassifier": {"model"},
    "Classifier": {
        "bins", "bounds", "classes", "delta", "epsilon", "random_state", "schema", "target",
    },
}  # fmt: skip
#: Read from the class alone, whatever an instance has.
OF_CLASSES = {
    "derived", "fixed", "remembered", "settings", "title", "look", "releases", "acts_randomly",
    "usual_sampler", "usual_schedule", "has_own_schedule", "reward_model", "needs_counts",
    "needs_tables", "needs_steps", "can_resample", "side_by_side", "takes_cells", "released_as",
}  # fmt: skip


@cache
def results() -> dict[str, Any]:
    """What each valid call returns."""
    return {name: call.function(**call.given()) for name, call in calls.table().items()}


def made() -> dict[str, Any]:
    """An object of each public class that has a valid call, but environments."""
    found: dict[str, Any] = {"Ledger": Ledger("nowhere")}
    table = calls.table()
    for name, thing in results().items():
        agent = inspect.isclass(getattr(agents, name, None))  # made by a function of its options
        made_here = agent or inspect.isclass(table[name].function) or name.startswith("Ledger")
        ours = type(thing).__module__.startswith("privrl") and not isinstance(thing, gym.Env)
        if made_here and ours:
            found.setdefault(type(thing).__name__, thing)
    return found


def attributes(thing: object) -> set[str]:
    """Public attributes other than methods."""
    kinds = {name: inspect.getattr_static(type(thing), name) for name in dir(type(thing))}
    of_class = {
        name
        for name, kind in kinds.items()
        if not callable(kind)
        and not isinstance(kind, classmethod | staticmethod)
        and not name.startswith("set_")  # scikit-learn's
    }
    return {name for name in of_class | {*getattr(thing, "__dict__", {})} if name[0] != "_"}


@pytest.mark.filterwarnings("ignore::privrl.costs.relations.PaperStepWarning")
def test_no_attribute_that_a_guarantee_rests_on_can_be_assigned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # for the files that calls write
    things, writable = made(), []
    assert {"PSRL", "QLearning", "NoisyCounts", "PersonStream", "Policy", "Ledger"} <= {*things}
    assert len(things) > 60
    for name, thing in things.items():
        free = set().union(*(WRITABLE.get(base.__name__, ()) for base in type(thing).__mro__))
        for each in attributes(thing) - free - OF_CLASSES:
            for change in (lambda t, a: setattr(t, a, 0.123), delattr):
                try:
                    change(thing, each)
                except AttributeError:
                    continue
                writable.append(f"{name}.{each}")
    assert not writable


#: What can be written to in place, since nothing of a guarantee rests on it.
IN_PLACE = {
    "PrivateBayesNet": {"parents", "shares"},  # as of estimators; a fit is charged what it does
    "GaussianLaw": {"centre", "covariance"},
    "DiscreteGaussianLaw": {"centre"},
    "LaplaceLaw": {"centre"},
    "DiscreteLaplaceLaw": {"centre"},
    "DirichletLaw": {"counts"},
}


@pytest.mark.filterwarnings("ignore::privrl.costs.relations.PaperStepWarning")
def test_no_attribute_that_a_guarantee_rests_on_can_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column of a schema could be replaced after its log was read."""
    monkeypatch.chdir(tmp_path)
    writable = []
    for name, thing in made().items():
        for each in attributes(thing) - IN_PLACE.get(name, set()):
            try:
                value = getattr(thing, each)
            except (AttributeError, ValueError):  # such as a policy before the first episode
                continue
            is_array = isinstance(value, np.ndarray) and value.size and value.flags.writeable
            if (is_array or type(value) in (list, dict, set)) and getattr(thing, each) is value:
                writable.append(f"{name}.{each}")
    assert not writable


def arrays_in(thing: Any, place: str, met: dict[int, Any]) -> Iterator[tuple[str, Any]]:
    """All arrays that an object of privrl holds, at any depth, by their places."""
    if id(thing) in met:
        return
    met[id(thing)] = thing
    parts: dict[Any, Any] = {}
    if isinstance(thing, np.ndarray):
        yield place, thing
    elif isinstance(thing, Mapping):
        parts = dict(thing)
    elif isinstance(thing, list | tuple):
        parts = dict(enumerate(thing))
    elif type(thing).__module__.startswith("privrl"):
        parts = getattr(thing, "__dict__", {})
    for name, each in parts.items():
        yield from arrays_in(each, f"{place}.{name}", met)


#: Arrays that are read-only by the way: what is released, or public, and states nothing.
BY_THE_WAY = {"DirichletPosterior", "NoisyPosterior", "RiverSwimEnv", "TabularEnv", "ReleasedEnv"}


@pytest.mark.filterwarnings("ignore")
def test_copies_are_read_only_where_their_originals_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy's pickles and deep copies forget it: of what a policy does, a statement stayed."""
    monkeypatch.chdir(tmp_path)
    buffered = NoisyCounts(sigma=3.0, updates=99, factorisation="buffered")
    assert buffered.deviations.size  # of factors that are made when they are asked for
    tried, writable = set(), []
    for name, thing in [*results().items(), ("NoisyCounts, buffered", buffered)]:
        for one in thing if isinstance(thing, tuple) else (thing,):
            if type(one).__name__ in BY_THE_WAY:
                continue
            fixed = {at for at, array in arrays_in(one, name, {}) if not array.flags.writeable}
            for how in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
                try:
                    copied = how(one) if fixed else None
                except (ValueError, TypeError, AttributeError, pickle.PicklingError):
                    continue  # refused, or a table of a test
                tried.update([type(one).__name__] * bool(fixed))
                writable += [
                    at
                    for at, array in arrays_in(copied, name, {})
                    if at in fixed and array.size and array.flags.writeable
                ]
    assert tried >= {"NoisyCounts", "Policy", "PrivateHistogram", "ContinuousModel", "Support"}
    assert not writable


#: Which keep an argument as it is given, since no statement rests on it.
KEPT = {
    "GaussianLaw", "DiscreteGaussianLaw", "LaplaceLaw", "DiscreteLaplaceLaw", "DirichletLaw",
    "PublicFacts", "TrainSpec",
    "PrivateNaiveBayes", "PrivateLogisticRegression", "PrivateClassifier", "PrivateBayesNet",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_no_class_keeps_an_array_or_list_of_its_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who wrote to it later changed what was checked: a distance of 2 became .001 at no noise."""
    monkeypatch.chdir(tmp_path)
    tried, kept = 0, []
    table = {name: call for name, call in calls.table().items() if inspect.isclass(call.function)}
    policy = {"weight": 20.0, "n_actions": 2, "mixing": 0.3, "distance": 2.0}
    table["PolicyMechanism"] = calls.Valid(PolicyMechanism, lambda: dict(policy))
    for name, call in table.items():
        for argument, value in call.given().items() if name not in KEPT else ():
            others: list[Any] = []
            if isinstance(value, int | float | np.ndarray):
                others = [np.array(value)]
            elif isinstance(value, list | tuple):
                others = [list(value)]
                with contextlib.suppress(ValueError):  # rows of several lengths
                    others.append(np.array(value))
            elif isinstance(value, dict):
                others = [dict(value)]
            for other in others:
                try:
                    made = call.function(**{**call.given(), argument: other})
                except (ValueError, TypeError, AttributeError):
                    continue
                tried += 1
                inside: dict[int, Any] = {}
                arrays = [array for _, array in arrays_in(made, "", inside)]
                if id(other) in inside or (
                    isinstance(other, np.ndarray)
                    and any(np.shares_memory(array, other) for array in arrays)
                ):
                    kept.append(f"{name}({argument})")
    assert tried > 50
    assert not kept


@pytest.mark.filterwarnings("ignore::privrl.costs.relations.PaperStepWarning")
def test_no_array_can_be_written_to_in_a_copy_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pickles and deep copies forget that arrays are read-only."""
    monkeypatch.chdir(tmp_path)
    writable, copies = [], 0
    things = made()
    released = (calls.table()[each] for each in ("histogram", "fit_continuous_model"))
    things |= {each.function.__name__: each.function(**each.given()) for each in released}
    for name, thing in things.items():
        arrays = [each for each, value in vars(thing).items() if _is_read_only(value)]
        for copied in (lambda t: pickle.loads(pickle.dumps(t)), copy.deepcopy) if arrays else ():
            try:
                again = copied(thing)
            except (TypeError, ValueError, AttributeError, pickle.PicklingError):  # refused
                continue
            copies += 1
            kept = [each for each in arrays if each in vars(again)]  # or made when asked for
            writable += [f"{name}.{each}" for each in kept if vars(again)[each].flags.writeable]
    assert copies > 10
    assert not writable


def _is_read_only(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.size > 0 and not value.flags.writeable


@pytest.mark.filterwarnings("ignore::privrl.costs.relations.PaperStepWarning")
def test_no_statement_can_be_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy with another epsilon in its guarantee was saved as such, and shared."""
    monkeypatch.chdir(tmp_path)
    found = {}
    for name, thing in made().items():
        for each in ("guarantee", "statement"):
            table = inspect.getattr_static(thing, each, None) and getattr(thing, each, None)
            if isinstance(table, Mapping):
                found[name] = table
    private = calls.table()["PSRL.private"]
    agent = private.function(**private.given())
    agent.learn(2)
    policy = agent.to_policy()
    assert policy.guarantee is not None
    found["to_policy"] = policy.guarantee
    assert {"Released", "to_policy"} <= {*found}
    for table in found.values():
        before = copy.deepcopy(table)
        with pytest.raises(TypeError):
            table["epsilon"] = 1e-9
        with pytest.raises((TypeError, AttributeError)):
            table.update(epsilon=1e-9)
        with pytest.raises((TypeError, AttributeError)):
            table["caveats"].append("none")
        assert pickle.loads(pickle.dumps(table)) == table == before


def test_a_copy_of_what_states_a_guarantee_states_the_same() -> None:
    """The statement of a deep copy could be changed, and saved as that of the release."""
    statement = privacy_statement(
        unit="a person", relation="replace one person", epsilon=1.0, delta=0.0, released="a",
        randomness="secret", details={"more": [1]},
    )  # fmt: skip
    actions = np.zeros((1, 2), int)
    stating = (
        (Policy(actions=actions, n_actions=2, guarantee=statement), "guarantee"),
        (
            ReleasedPolicy(action=actions[0], n_actions=2, kind="vote", statement=statement),
            "statement",
        ),
        (
            Released(
                mdp=TabularMDP(np.ones((1, 1, 1)), np.zeros((1, 1)), np.ones(1), 1),
                statement=statement,
            ),
            "statement",
        ),
    )
    for thing, name in stating:
        for copied in (copy.copy(thing), copy.deepcopy(thing), pickle.loads(pickle.dumps(thing))):
            said = getattr(copied, name)
            with pytest.raises(TypeError, match="read-only"):
                said["epsilon"] = 1e-9
            with pytest.raises(TypeError, match="read-only"):
                said["details"]["more"].append(1)
        changed = copy.deepcopy(getattr(thing, name))
        changed["details"]["more"].append(1)
        assert changed != getattr(thing, name)
        assert type(changed) is dict
        if hasattr(thing, "to_dict"):  # plain data
            thing.to_dict()[name]["details"]["more"].append(1)
            assert getattr(thing, name)["details"]["more"] == [1]


def test_a_relation_is_about_episodes_as_long_as_it_says() -> None:
    """An agent of longer ones took it for theirs after an assignment."""
    relation = ReplaceEpisode(5)
    with pytest.raises(AttributeError):
        relation.horizon = 30
    assert (relation.horizon, relation.changes()) == (5, ((5.0, -5.0),))


def test_a_stream_draws_the_noise_that_was_charged() -> None:
    call = calls.table()["PersonStream"]
    stream = call.function(**call.given())
    with pytest.raises(AttributeError, match="cost of a PersonStream is read-only"):
        stream.cost = LaplaceCost(scale=1e-3, relation=stream.cost.relation)


@pytest.mark.parametrize("kind", [PrivateNaiveBayes, PrivateLogisticRegression, PrivateClassifier])
def test_a_fitted_model_states_what_its_fit_cost(kind: type) -> None:
    model = kind([3, 2], classes=[0, 1], target=RenyiDP(2, 1))
    with pytest.raises(AttributeError):
        _ = model.classifier_ if kind is PrivateClassifier else model.cost_
    model.fit([[0, 0], [1, 0], [2, 1], [2, 1]] * 50, [0, 0, 1, 1] * 50)
    saved = model.classifier_ if kind is PrivateClassifier else model
    before = saved.to_dict()
    for name in ("cost_", "mechanism_", "randomness_", "naive_bayes_", "n_records_", "n_steps_"):
        if hasattr(saved, name):
            with pytest.raises(AttributeError, match="read-only"):
                setattr(saved, name, None)
    assert saved.to_dict() == before
    saved.target = RenyiDP(2, 0.01)
    with pytest.raises(ValueError, match="saved with the parameters that it was fitted with"):
        saved.to_dict()
    saved.target = RenyiDP(2, 1)
    assert saved.to_dict() == type(saved).from_dict(before).to_dict() == before


@pytest.mark.filterwarnings("ignore")
def test_no_array_of_a_release_can_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a policy does, and where a model's episodes start, were changed under its statement."""
    monkeypatch.chdir(tmp_path)
    released = {name: thing for name, thing in results().items() if isinstance(thing, MayBeChosen)}
    assert released.keys() >= {"fit_policy", "fit_model", "fit_continuous_model", "histogram"}
    writable = [
        at
        for name, thing in released.items()
        for at, array in arrays_in(thing, name, {})
        if array.size and array.flags.writeable
    ]
    assert not writable
