"""What is public is checked first, and what was released cannot make a run fail."""

import numpy as np
import pandas as pd
import pytest

from privrl.accounting import PldAccountant, RdpAccountant
from privrl.data import Bins, Categories, Schema
from privrl.data.logs import Log, LogSchema, read_log
from privrl.data.logs.schema import cell_labels
from privrl.numerics.randomness import SEEDED
from privrl.offline import ReleasedPolicy, fit_model, fit_policy, load_policy, save_policy

SCHEMA = {
    "person": "who",
    "state": {"place": Categories((0, 1, 2))},
    "action": {"what": Categories((0, 1))},
    "most_steps": 3,
}
REWARD = {"reward": "paid", "reward_bounds": (-1, 1)}
OUTCOME = {"outcome": "left", "outcomes": ("well", "dead")}


def log_of(n_persons: int, paid: float = 0.0, **more: object) -> Log:
    who = np.arange(n_persons)
    frame = pd.DataFrame({"who": who, "place": who % 2, "what": who % 2, "paid": paid, "left": ""})
    return read_log(frame, LogSchema(**SCHEMA | more))


@pytest.mark.few(12)
@pytest.mark.parametrize("paid", [0.0, 1.0])
@pytest.mark.parametrize("n_persons", [0, 1, 2000])
@pytest.mark.parametrize("more", [{}, OUTCOME], ids=["cut off", "outcomes"])
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_logs_where_hardly_anything_is_earned(
    n_persons: int, paid: float, more: dict[str, object], discount: float
) -> None:
    """What noise says of rewards may be that there are none."""
    log = log_of(n_persons, paid, **REWARD, **more)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        policy = fit_policy(log, epsilon=1, discount=discount, rng=rng)
        assert np.isin(policy.action, (-1, 0, 1)).all()


@pytest.mark.parametrize("accountant", [RdpAccountant, PldAccountant])
@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ({**OUTCOME, "outcomes": ("well", "unknown")}, {}, "must not be 'unknown'"),
        ({**OUTCOME, "outcomes": ("well", "de\nad")}, {}, "a line can show"),
        (OUTCOME, {"state_names": ("a", "b")}, "must be"),
        (OUTCOME, {"state_names": ("a", "b", "dead")}, "'dead' twice"),
        (OUTCOME, {"action_names": ("a", "a")}, "'a' twice"),
        (REWARD, {"epsilon": None}, "epsilon must be a number"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_model_is_checked_before(
    schema: dict[str, object], options: dict[str, object], message: str, accountant: type
) -> None:
    spent = accountant()
    given = {"epsilon": 1.0, "rng": np.random.default_rng(0)} | options
    with pytest.raises(ValueError, match=message):
        fit_model(log_of(10, **schema), **given, accountant=spent)
    assert not len(spent.journal)


@pytest.mark.parametrize(
    ("schema", "message"),
    [({}, "log must have rewards"), ({**REWARD, "most_steps": 10**8}, "most_steps times states")],
)
def test_a_policy_is_checked_before(schema: dict[str, object], message: str) -> None:
    spent = RdpAccountant()
    with pytest.raises(ValueError, match=message):
        fit_policy(log_of(10, **schema), epsilon=1, rng=np.random.default_rng(0), accountant=spent)
    assert not len(spent.journal)


def test_inadmissible_actions_are_never_recommended() -> None:
    """Nobody was in place 2, where all that is known is that the first action is none."""
    allowed = np.array([[True, True], [True, True], [False, True]])
    log = log_of(5000, 1.0, **REWARD)
    policy = fit_policy(log, epsilon=2, admissible=allowed, rng=np.random.default_rng(0))
    assert policy.kind == "counts"
    assert np.isin(policy.action[:, 2], (-1, 1)).all()


def test_a_policy_is_shared_with_its_own_budget_alone() -> None:
    log = log_of(500, 1.0, **REWARD)
    policy = fit_policy(log, epsilon=1, rng=np.random.default_rng(0))
    for epsilon, order in ((0.5, None), (1.0, 2)):
        with pytest.raises(ValueError, match="must be those that the policy was made with"):
            ReleasedPolicy.of_log(policy, epsilon=epsilon, order=order)
    bare = fit_policy(log, epsilon=None, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="must be those that the policy was made with"):
        ReleasedPolicy.of_log(bare, epsilon=1)


@pytest.mark.parametrize("epsilon", [0.002, 0.5, 20])
def test_policies_of_logs_are_kept(epsilon: float, tmp_path) -> None:
    log = log_of(2000, 1.0, **REWARD, **OUTCOME)
    policy = fit_policy(log, epsilon=epsilon, rng=np.random.default_rng(1))
    shared = ReleasedPolicy.of_log(policy, epsilon=epsilon, outcomes=("well", "dead"))
    save_policy(tmp_path / "p.json", shared)
    again = load_policy(tmp_path / "p.json")
    np.testing.assert_array_equal(again.action, policy.action)
    assert again.facts == policy.facts
    assert again.to_dict() == shared.to_dict()
    assert again.statement["randomness"] == SEEDED


def test_a_policy_knows_that_its_randomness_was_secret() -> None:
    policy = fit_policy(log_of(500, 1.0, **REWARD), epsilon=1)
    assert ReleasedPolicy.of_log(policy, epsilon=1).to_dict()["shareable"]


def test_labels_of_cells() -> None:
    two = Schema({"sugar": Bins((0, 4, 8), missing=True), "ward": Categories(("a", "b"))})
    assert cell_labels(two) == (
        "sugar [0, 4), ward a", "sugar [0, 4), ward b", "sugar [4, 8], ward a",
        "sugar [4, 8], ward b", "sugar (missing), ward a", "sugar (missing), ward b",
    )  # fmt: skip
    assert cell_labels(None) == ("any",)
    assert cell_labels(Schema({"a": Categories(range(1001))})) is None
    assert cell_labels(Schema({"a": Categories(("x", "y\n"))})) is None
    alike = Schema({"a": Categories(("x", "x, b y")), "b": Categories(("y, b y", "y"))})
    assert cell_labels(alike) is None


@pytest.mark.parametrize("name", ["state_names", "action_names"])
def test_names_from_an_iterator_are_kept(name: str) -> None:
    """The check used them up, and the model failed for the want of them after the charge."""
    names = ("a", "b", "c")[: 3 if name == "state_names" else 2]
    accountant = RdpAccountant()
    model = fit_model(
        log_of(200, **OUTCOME), epsilon=1, accountant=accountant, **{name: iter(names)}
    )
    assert getattr(model, name) == names
