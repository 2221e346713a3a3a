"""A released model of continuous states: what it predicts, and how it is saved."""

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import numpy as np

from privrl.continuous.design import ENDS
from privrl.continuous.encoding import encoder, numbers_of, target_kinds, target_units
from privrl.continuous.ends import Ends, outside
from privrl.continuous.features import Basis
from privrl.continuous.files import TABLES, Saved
from privrl.continuous.planning import Over, Predicted, Reward
from privrl.continuous.schema import Choice, ContinuousSchema
from privrl.files.fixed import FixedArrays, own_arrays
from privrl.files.plain import listed
from privrl.numerics.checks import check_positive
from privrl.numerics.typing import FloatArray

_ARRAYS: Final = ("mean", "covariance", "residual")  # of the posterior


@dataclass(frozen=True, eq=False)
class Starts(FixedArrays):
    """Where episodes start: mean and deviation of each encoded column of a state."""

    mean: FloatArray
    deviation: FloatArray

    def __post_init__(self) -> None:
        own_arrays(self, "mean", "deviation")


@dataclass(frozen=True, eq=False, kw_only=True)
class ContinuousModel(Saved):
    """A model that was released privately: public.

    Attributes
    ----------
    schema : ContinuousSchema
        The public ranges.
    basis : Basis
        The features.
    mean : array, shape (d, m)
        Posterior means of the weights of each target: change of a number, chance of a category,
        reward.
    covariance : array, shape (m, d, d)
        Their posterior covariances.
    residual : array, shape (m,)
        Deviation of what the model does not explain.
    start : Starts
        Where episodes start.
    core : array, shape (n, 2)
        Between which values of each numeric column there are data, somewhat widened.
    ends : Ends or None
        Where episodes terminate.
    persons : float
        The approximate number of persons, released with the rest.
    statement : dict or None
        The privacy statement; None for a fit without privacy.
    """

    basis: Basis
    mean: FloatArray
    covariance: FloatArray
    residual: FloatArray
    start: Starts
    ends: Ends | None
    persons: float

    _page: ClassVar[str] = "model.json"
    _format: ClassVar[str] = "privrl continuous model, 1"
    _entries: ClassVar[tuple[str, ...]] = ("order", "persons")

    def __post_init__(self) -> None:
        super().__post_init__()
        d, m = len(self.basis), len(target_units(self.schema))
        shapes = {"mean": (d, m), "covariance": (m, d, d), "residual": (m,)}
        for name, shape in shapes.items():
            array = np.array(getattr(self, name), np.float64)
            if array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite numbers of shape {shape}.")
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def predict(
        self,
        state: FloatArray,
        action: FloatArray,
        *,
        reward: Reward | None = None,
        ends: Over | None = None,
    ) -> Predicted:
        """Return what follows on states and actions.

        Parameters
        ----------
        state, action : array, shapes (N, n_state) and (N, n_columns)
        reward : callable, optional
            The public reward of states, actions and next states; by default the learned one.
        ends : callable, optional
            In which next states an episode terminates; by default as learned.

        Raises
        ------
        ValueError
            If no reward is given or learned.
        """
        return self._predict(state, action, reward, ends)[1]

    def sample(
        self,
        state: FloatArray,
        action: FloatArray,
        rng: np.random.Generator,
        *,
        reward: Reward | None = None,
        ends: Over | None = None,
    ) -> tuple[FloatArray, Predicted]:
        """Return next states that were drawn with the learned residual, and what they lead to.

        Arguments are those of `predict`; rewards and ends are those of the drawn states.
        """
        return self._predict(state, action, reward, ends, rng)

    def _predict(
        self,
        state: FloatArray,
        action: FloatArray,
        reward: Reward | None,
        ends: Over | None,
        rng: np.random.Generator | None = None,
    ) -> tuple[FloatArray, Predicted]:
        features = self.basis(state, np.ascontiguousarray(action))
        found, unsure = features @ self.mean, self._unsure(features)
        if rng is not None:
            found = found + rng.normal(size=found.shape) * self.residual
        raw, deviation = np.empty(state.shape), np.zeros(state.shape)
        chances: dict[int, FloatArray] = {}
        place = 0
        for i, column in enumerate(self.schema.state.values()):
            if isinstance(column, Choice):
                n = len(column.values)
                chance = np.clip((features @ self.mean)[:, place : place + n], 1e-6, 1)
                chances[i] = chance / chance.sum(axis=1, keepdims=True)
                raw[:, i] = chance.argmax(axis=1)
                if rng is not None:
                    steps = np.cumsum(chances[i], axis=1)
                    drawn = (rng.random((len(state), 1)) > steps).sum(axis=1)
                    raw[:, i] = np.minimum(drawn, n - 1)
                place += n
            else:
                raw[:, i] = state[:, i] + found[:, place]
                deviation[:, i] = unsure[:, place]
                place += 1
        after = self.schema.inside(raw)
        over = self.end_chance(after) if ends is None else np.asarray(ends(raw), np.float64)
        wrong: FloatArray | None = None
        doubt: FloatArray | None = None
        ended: float | FloatArray = 0.0
        if reward is not None:
            ended = earned = np.asarray(reward(state, action, raw), np.float64)
        elif self.schema.reward is not None:
            earned = self.schema.reward.inside((features @ self.mean)[:, place])
            wrong = unsure[:, place] * (1 - over)
            if self.ends is not None:
                ended = self.ends.reward
                earned = np.where(over > 0, ended, earned)
        else:
            raise ValueError("reward must be given: the log has no rewards.")
        if ends is not None or self.ends is not None:
            numbers = self._numbers(after)
            known = self.ends if ends is None else None
            doubt = np.where(outside(numbers, self.core, known), ENDS.hazard, 0.0)
        return after, Predicted(after, chances, deviation, earned, over, wrong, doubt, ended)

    def _numbers(self, state: FloatArray) -> FloatArray:
        return state[:, [i for i, _ in numbers_of(self.schema)]]

    def end_chance(self, state: FloatArray) -> FloatArray:
        """Return the learned chance that an episode terminates in states, shape (N,)."""
        if self.ends is None:
            return np.zeros(len(state))
        return self.ends.over(self._numbers(state)).astype(np.float64)

    def sample_start(self, rng: np.random.Generator) -> FloatArray:
        """Return a state where an episode may start, shape (n_state,)."""
        found = np.empty(self.schema.n_state)
        place, mean, spread = 0, self.start.mean, self.start.deviation
        for i, column in enumerate(self.schema.state.values()):
            if isinstance(column, Choice):
                n = len(column.values)
                two = n == 2
                chance = np.array([1 - mean[place], 1 + mean[place]]) if two else mean[place:][:n]
                chance = np.maximum(chance, 1e-9)
                found[i] = rng.choice(n, p=chance / chance.sum())
                place += 1 if two else n
            elif column.periodic:
                # A wrapped normal distribution with the released mean direction.
                cos, sin = mean[place], mean[place + 1]
                length = min(max(np.hypot(cos, sin), 1e-6), 1 - 1e-9)
                angle = np.arctan2(sin, cos) + rng.normal() * np.sqrt(-2 * np.log(length))
                found[i] = column.low + angle / (2 * np.pi) * column.width
                place += 2
            else:
                scaled = mean[place] + np.sqrt(3) * spread[place] * rng.uniform(-1, 1)
                found[i] = column.low + (scaled + 1) / 2 * column.width
                place += 1
        return self.schema.inside(found[None])[0]

    def _contents(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {"start_mean": self.start.mean, "start_deviation": self.start.deviation}
        if self.ends is not None:
            arrays |= {"ends": self.ends.bounds, "end_reward": np.array([self.ends.reward])}
        return {"order": self.basis.order, "persons": self.persons}, arrays

    @classmethod
    def _of_contents(
        cls, page: dict[str, Any], arrays: dict[str, FloatArray], **common: Any
    ) -> Self:
        schema: ContinuousSchema = common["schema"]
        basis = Basis(schema, page["order"], page["order"])
        size, numbers = (len(encoder(schema)) - 1,), (len(numbers_of(schema)), 2)
        shapes: dict[str, tuple[int, ...]] = {"start_mean": size, "start_deviation": size}
        shapes |= {"ends": numbers, "end_reward": (1,)} if "ends" in arrays else {}
        wanted = {*_ARRAYS, *shapes}
        if set(arrays) != wanted:
            raise ValueError(f"{TABLES} must hold {listed(sorted({*wanted, 'core'}))}.")
        for name, shape in shapes.items():
            if arrays[name].shape != shape:
                raise ValueError(f"{name} must have shape {shape}.")
        common |= {name: arrays[name] for name in _ARRAYS}
        return cls(
            basis=basis,
            start=Starts(arrays["start_mean"], arrays["start_deviation"]),
            ends=Ends(arrays["ends"], float(arrays["end_reward"][0])) if "ends" in arrays else None,
            persons=check_positive("persons", page["persons"]),
            **common,
        )

    def _unsure(self, features: FloatArray) -> FloatArray:
        """Return deviations of predictions of each target; of categories they are 0."""
        found = np.zeros((len(features), len(self.residual)))
        for place in np.flatnonzero(target_kinds(self.schema)):
            squares = np.einsum("ij,ij->i", features @ self.covariance[place], features)
            found[:, place] = np.sqrt(np.maximum(squares, 0.0))
        return found
