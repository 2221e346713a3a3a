"""Logs of continuous states in memory: transitions, grouped by person."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privrl.continuous.schema import ContinuousSchema
from privrl.numerics.checks import LARGEST_WHOLE, check_is, check_numbers, plain_array
from privrl.numerics.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False, repr=False)
class ContinuousLog:
    """Transitions of persons; `of_arrays` and `read_continuous_log` make one.

    Attributes
    ----------
    schema : ContinuousSchema
        The public facts.
    state, next_state : array, shape (N, n_state)
        Within their ranges; categories are numbers from 0.
    action : array, shape (N, n_columns)
        Within its ranges.
    reward : array, shape (N,), or None
    terminated : array of bool, shape (N,), or None
    offsets : array of int, shape (n_persons + 1,)
        The rows of person i are ``offsets[i] : offsets[i + 1]``.
    """

    schema: ContinuousSchema
    state: FloatArray
    action: FloatArray
    next_state: FloatArray
    reward: FloatArray | None
    terminated: BoolArray | None
    offsets: IntArray

    def __repr__(self) -> str:  # of nothing private
        return f"ContinuousLog(schema={self.schema!r})"

    @property
    def n_persons(self) -> int:
        """The number of persons: private under add or remove."""
        return len(self.offsets) - 1

    @classmethod
    def of_arrays(
        cls,
        schema: ContinuousSchema,
        *,
        person: ArrayLike,
        state: ArrayLike,
        action: ArrayLike,
        next_state: ArrayLike,
        reward: ArrayLike | None = None,
        terminated: ArrayLike | None = None,
    ) -> Self:
        """Return a log of arrays that have a row for each transition.

        Parameters
        ----------
        schema : ContinuousSchema
            The public facts.
        person : array_like, shape (N,)
            Numbers of persons, whole.
        state, next_state : array_like, shape (N, n_state)
        action : array_like, shape (N, n_columns) or (N,)
            Values of the action's columns.
        reward, terminated : array_like, shape (N,), optional
            Needed if the schema has them.

        Raises
        ------
        ValueError
            If an array is absent or has another shape.

        Notes
        -----
        Rows with a number that is not finite are left out.
        """
        check_is("schema", schema, ContinuousSchema)
        columns = {"person": person, "reward": reward, "terminated": terminated}
        wanted = ["person"]
        wanted += ["reward"] * (schema.reward is not None) + ["terminated"] * schema.terminates
        arrays = {}
        for name in wanted:
            if columns[name] is None:
                raise ValueError(f"{name} must be given: the schema has it.")
            values = plain_array(name, columns[name])
            if name == "person":
                values = _numbered(values)
            arrays[name] = check_numbers(
                name, values.astype(float) if values.dtype == bool else values
            )
        n = len(arrays["person"])
        tables = {"state": state, "next_state": next_state, "action": action}
        widths = {
            "state": schema.n_state,
            "next_state": schema.n_state,
            "action": len(schema.action),
        }
        for name, given in tables.items():
            table = check_numbers(name, given)
            arrays[name] = table[:, None] if table.ndim == 1 else table
            if arrays[name].shape != (n, widths[name]):  # how many rows there are is private
                raise ValueError(
                    f"{name} must have shape (N, {widths[name]}), with a row for each of person."
                )
        for name in wanted:
            if arrays[name].shape != (n,):
                raise ValueError(f"{name} must have shape (N,), with an entry for each of person.")
        return cls.grouped(schema, arrays)

    @classmethod
    def grouped(cls, schema: ContinuousSchema, arrays: dict[str, FloatArray]) -> Self:
        """Return a log of checked arrays with a row for each transition, in any order."""
        fits = np.ones(len(arrays["person"]), np.bool_)
        for values in arrays.values():
            finite = np.isfinite(values)
            fits &= finite if values.ndim == 1 else finite.all(axis=1)
        order = np.argsort(arrays["person"], kind="stable")
        order = order[fits[order]]
        person = arrays["person"][order]
        first = np.flatnonzero(person[1:] != person[:-1]) + 1
        offsets = np.concatenate([[0], first, [len(person)]]) if len(person) else np.zeros(1)
        reward, ended = arrays.get("reward"), arrays.get("terminated")
        if reward is not None and schema.reward is not None:
            reward = schema.reward.inside(reward[order])
        return cls(
            schema,
            schema.inside(arrays["state"][order]),
            schema.actions_inside(arrays["action"][order]),
            schema.inside(arrays["next_state"][order]),
            reward,
            None if ended is None else ended[order] != 0,
            offsets.astype(np.intp),
        )

    def blocks(self, most_rows: int) -> Iterator["ContinuousLog"]:
        """Yield logs of whole persons, each with about ``most_rows`` rows."""
        first = 0
        while first < self.n_persons:
            end = int(np.searchsorted(self.offsets, self.offsets[first] + most_rows, "right")) - 1
            last = max(min(end, self.n_persons), first + 1)
            rows = slice(self.offsets[first], self.offsets[last])
            yield ContinuousLog(
                self.schema,
                self.state[rows],
                self.action[rows],
                self.next_state[rows],
                None if self.reward is None else self.reward[rows],
                None if self.terminated is None else self.terminated[rows],
                self.offsets[first : last + 1] - self.offsets[first],
            )
            first = last


def _numbered(person: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers of persons as small ones: floats do not hold all large ones apart.

    Two persons with one number would count as one, and a change of one as that of both.
    """
    if person.dtype.kind in "iu":
        return np.unique(person, return_inverse=True)[1].reshape(person.shape)
    numbers = check_numbers("person", person)
    if (np.isfinite(numbers) & (np.abs(numbers) >= LARGEST_WHOLE)).any():
        raise ValueError(
            "person must be an array of integers, or hold numbers below 2**53: floats do not hold "
            "all larger ones."
        )
    return numbers
