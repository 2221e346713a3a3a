"""Policies for continuous states, planned in a released model."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

import numpy as np

from privrl.continuous import planning
from privrl.continuous.design import ENDS
from privrl.continuous.encoding import numbers_of, public_points
from privrl.continuous.ends import Ends, outside
from privrl.continuous.files import TABLES, Saved
from privrl.continuous.model import ContinuousModel
from privrl.continuous.schema import ContinuousSchema, Number
from privrl.files.chosen import made_of
from privrl.numerics.checks import as_floats, check_between, check_is
from privrl.numerics.typing import FloatArray, IntArray

_HORIZON: Final = 2000
_POINTS: Final = 20_000  # at which rewards are compared
_STARTS: Final = 50
_SAME: Final = 1e-3  # differences of rewards, as a part of them, that are none
_HOPELESS: Final = 0.9  # of what is lost if no episode ever ends


@dataclass(frozen=True, eq=False, kw_only=True)
class ContinuousPolicy(Saved):
    """A policy: in each state, the action with the largest worth.

    Attributes
    ----------
    schema : ContinuousSchema
        The public ranges, and the levels of actions.
    kind : {"grid", "features"}
        Whether ``worth`` is at points of `Grid.of`, between which it is interpolated, or has
        weights of features.
    worth : array, shape (n, n_actions)
        The worth of each action.
    core : array, shape (n, 2)
        Of the grid.
    discount : float
        That it was planned for.
    statement : dict or None
        The privacy statement of the model; None without privacy.
    """

    kind: str
    worth: FloatArray
    discount: float

    _page: ClassVar[str] = "policy.json"
    _format: ClassVar[str] = "privrl continuous policy, 1"
    _entries: ClassVar[tuple[str, ...]] = ("kind", "discount")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in ("grid", "features"):
            raise ValueError("kind must be 'grid' or 'features'.")
        _check_discount(self.discount)
        object.__setattr__(self, "discount", float(self.discount))
        rows = len(planning.feature_basis(self.schema))
        if self.kind == "grid":
            rows = int(np.prod(planning.Grid.of(self.schema, self.core).sizes))
        worth = np.array(self.worth, np.float64)
        if worth.shape != (rows, self.schema.n_actions):
            raise ValueError(f"worth must have shape {(rows, self.schema.n_actions)}.")
        worth.setflags(write=False)
        object.__setattr__(self, "worth", worth)

    def act(self, state: FloatArray) -> IntArray:
        """Return the number of the action in each state, shape (N,), of states (N, n_state).

        ``schema.levels[number]`` is the action's value. Of one state, shape (n_state,), it is one
        number.
        """
        states = self.schema.inside(np.atleast_2d(as_floats("state", state)))
        if self.kind == "grid":
            index, weight = planning.Grid.of(self.schema, self.core).corners(states, {})
            worth = np.einsum("nk,nka->na", weight, self.worth[index])
        else:
            worth = planning.feature_basis(self.schema)(states) @ self.worth
        best: IntArray = worth.argmax(axis=1)
        return best if np.ndim(state) > 1 else best[0]

    def _contents(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        return {"kind": self.kind, "discount": self.discount}, {"worth": self.worth}

    @classmethod
    def _of_contents(
        cls, page: dict[str, Any], arrays: dict[str, FloatArray], **common: Any
    ) -> Self:
        if set(arrays) != {"worth"}:
            raise ValueError(f"{TABLES} must hold worth and core.")
        return cls(kind=page["kind"], discount=page["discount"], worth=arrays["worth"], **common)


def _check_discount(discount: float) -> None:
    if discount is True or discount != 1:
        check_between("discount", discount, 0, 1, "1 is allowed as well")


def plan_continuous(
    model: ContinuousModel,
    *,
    reward: planning.Reward | None = None,
    ends: planning.Over | None = None,
    discount: float = 0.99,
    caution: float = 0.25,
) -> ContinuousPolicy:
    """Return a plan for a model: by value iteration on a grid, or by features above 5 dimensions.

    Parameters
    ----------
    model : ContinuousModel
        The released model.
    reward, ends : callable, optional
        Public functions in place of what was learned, see `ContinuousModel.predict`.
    discount : float
        In (0, 1].
    caution : float
        By how many deviations of the model's error values are lowered, >= 0, on a grid. Not used
        if all steps that go on cost the same: then an unsure way to an end is better than none.

    Raises
    ------
    ValueError
        If an argument is out of range, no reward is given or learned, or the plan is too large.
    """
    _check_discount(discount)
    check_between("caution", caution, -1e-9, 1e9)
    check_is("model", model, ContinuousModel)
    schema = model.schema
    planning.check_plannable(schema)

    def predict(state: FloatArray, action: FloatArray) -> planning.Predicted:
        return model.predict(state, action, reward=reward, ends=ends)

    numbers = sum(isinstance(c, Number) for c in schema.state.values())
    if numbers > planning.MOST_ON_GRID:
        kind, basis = "features", planning.feature_basis(schema)
        worth = planning.plan_by_features(
            predict, schema, basis, discount=min(discount, 0.99), caution=caution
        )
    else:
        kind = "grid"
        cost = _same_cost(predict, schema)
        if cost is None:
            worth = _on_grid(model, predict, discount, caution)
        else:
            given = None if ends is not None else model.ends
            worth = _shortest(model, predict, discount, cost, given)
    made = ContinuousPolicy(
        schema=schema,
        kind=kind,
        worth=worth,
        core=model.core,
        discount=discount,
        statement=model.statement,
    )
    return made_of(model, made)


def _on_grid(
    model: ContinuousModel, predict: planning.Predict, discount: float, caution: float
) -> FloatArray:
    return planning.worth_on_grid(
        predict, model.schema, discount=discount, caution=caution, horizon=_HORIZON, core=model.core
    )


def _same_cost(predict: planning.Predict, schema: ContinuousSchema) -> float | None:
    """Return the reward of steps that go on, if it is negative and always the same."""
    after = predict(*public_points(schema, _POINTS))
    earned = after.reward[after.ends < 1]
    if not len(earned) or not earned.max() < 0:
        return None
    return float(earned.mean()) if np.ptp(earned) <= -_SAME * earned.max() else None


def _shortest(
    model: ContinuousModel,
    predict: planning.Predict,
    discount: float,
    cost: float,
    ends: Ends | None,
) -> FloatArray:
    """Return the worth of actions where only the number of steps counts.

    If the model sees no way from the starts to an end, it is wrong, or the ends are elsewhere.
    Then an episode may terminate wherever nobody was, so the plan goes there.
    """

    def fearless(state: FloatArray, action: FloatArray) -> planning.Predicted:
        return replace(predict(state, action), doubt=None)

    def hopeful(state: FloatArray, action: FloatArray) -> planning.Predicted:
        after = fearless(state, action)
        numbers = after.state[:, [i for i, _ in numbers_of(model.schema)]]
        unseen = np.where(outside(numbers, model.core, ends), ENDS.hazard, 0.0)
        return replace(after, ends=np.maximum(after.ends, unseen))

    worth = _on_grid(model, fearless, discount, 0.0)
    rng = np.random.default_rng(0)
    starts = np.stack([model.sample_start(rng) for _ in range(_STARTS)])
    index, weight = planning.Grid.of(model.schema, model.core).corners(starts, {})
    expected = float((weight * worth.max(axis=1)[index]).sum(axis=1).mean())
    steps = _HORIZON if discount == 1 else (1 - discount**_HORIZON) / (1 - discount)
    if expected > _HOPELESS * cost * steps:
        return worth
    return _on_grid(model, hopeful, discount, 0.0)
