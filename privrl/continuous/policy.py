"""Policies for continuous states, planned in a released model."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from privrl.continuous.files import page_files, page_of, read_page, save_page
from privrl.continuous.model import ContinuousModel
from privrl.continuous.planning import (
    MOST_ON_GRID,
    Grid,
    Over,
    Predicted,
    Reward,
    check_plannable,
    checked_core,
    feature_basis,
    plan_by_features,
    worth_on_grid,
)
from privrl.continuous.schema import ContinuousSchema, Number
from privrl.envs.released import checked_statement
from privrl.files.files import Write
from privrl.files.fixed import read_only
from privrl.numerics.checks import check_between, check_is
from privrl.numerics.typing import FloatArray, IntArray

_FORMAT: Final = "privrl continuous policy, 1"
_PAGE: Final = "policy.json"
_ENTRIES: Final = (
    "format", "statement", "shareable", "because", "schema", "kind", "discount", "tables_sha256",
)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class ContinuousPolicy:
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

    schema: ContinuousSchema
    kind: str
    worth: FloatArray
    core: FloatArray
    discount: float
    statement: dict[str, Any] | None

    def __post_init__(self) -> None:
        if self.kind not in ("grid", "features"):
            raise ValueError("kind must be 'grid' or 'features'.")
        object.__setattr__(self, "core", checked_core(self.schema, self.core))
        rows = len(feature_basis(self.schema))
        if self.kind == "grid":
            rows = int(np.prod(Grid.of(self.schema, self.core).sizes))
        worth = np.array(self.worth, np.float64)
        if worth.shape != (rows, self.schema.n_actions):
            raise ValueError(f"worth must have shape {(rows, self.schema.n_actions)}.")
        worth.setflags(write=False)
        object.__setattr__(self, "worth", worth)
        if self.statement is not None:
            statement = read_only(checked_statement(self.statement))
            object.__setattr__(self, "statement", statement)

    def act(self, state: FloatArray) -> IntArray:
        """Return the number of the action in each state, shape (N,), of states (N, n_state).

        ``schema.levels[number]`` is the action's value. Of one state, shape (n_state,), it is one
        number.
        """
        states = self.schema.inside(np.atleast_2d(np.asarray(state, np.float64)))
        if self.kind == "grid":
            index, weight = Grid.of(self.schema, self.core).corners(states, {})
            worth = np.einsum("nk,nka->na", weight, self.worth[index])
        else:
            worth = feature_basis(self.schema)(states) @ self.worth
        best: IntArray = worth.argmax(axis=1)
        return best if np.ndim(state) > 1 else best[0]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy into a folder, ``policy.json`` and ``tables.npz``.

        Raises
        ------
        ValueError
            If the model was not private, or ``path`` is a file.
        """
        save_page(Path(path), self.files())

    def files(self) -> dict[str, Write]:
        """Return a function that writes each file of `save`.

        Raises
        ------
        ValueError
            If the model was not private.
        """
        if self.statement is None:
            raise ValueError("a policy of a fit without privacy must not be saved: it is data.")
        page = {"schema": self.schema.to_dict(), "kind": self.kind, "discount": self.discount}
        return page_files(
            _PAGE,
            _FORMAT,
            statement=self.statement,
            entries=page,
            arrays={"worth": self.worth, "core": self.core},
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a policy from a folder that `save` wrote. Nothing in it is run.

        Raises
        ------
        ValueError
            If the folder holds no such policy, or its files do not belong together.
        OSError
            If the folder does not exist or cannot be read.
        """
        return cls.of_files(read_page(Path(path), _PAGE))

    @classmethod
    def of_files(cls, files: Mapping[str, bytes]) -> Self:
        """Return the policy of the contents of its files, by their names.

        Raises
        ------
        ValueError
            If they are of something else, or do not belong together.
        """
        page, arrays = page_of(files, _PAGE, _FORMAT, _ENTRIES)
        try:
            if set(arrays) != {"worth", "core"}:
                raise ValueError("tables.npz must hold worth and core.")
            return cls(
                schema=ContinuousSchema.from_dict(page["schema"]),
                kind=page["kind"],
                worth=arrays["worth"],
                core=arrays["core"],
                discount=page["discount"],
                statement=page["statement"],
            )
        except ValueError as error:
            raise ValueError(f"{_PAGE}: {error}") from None


def plan_continuous(
    model: ContinuousModel,
    *,
    reward: Reward | None = None,
    ends: Over | None = None,
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
        By how many deviations of the model's error values are lowered, >= 0, on a grid.

    Raises
    ------
    ValueError
        If an argument is out of range, no reward is given or learned, or the plan is too large.
    """
    if discount != 1:
        check_between("discount", discount, 0, 1, "1 is allowed as well")
    check_between("caution", caution, -1e-9, 1e9)
    check_is("model", model, ContinuousModel)
    schema = model.schema
    check_plannable(schema)

    def predict(state: FloatArray, action: FloatArray) -> Predicted:
        return model.predict(state, action, reward=reward, ends=ends)

    numbers = sum(isinstance(c, Number) for c in schema.state.values())
    if numbers > MOST_ON_GRID:
        kind, basis = "features", feature_basis(schema)
        worth = plan_by_features(
            predict, schema, basis, discount=min(discount, 0.99), caution=caution
        )
    else:
        kind = "grid"
        worth = worth_on_grid(
            predict, schema, discount=discount, caution=caution, horizon=2000, core=model.core
        )
    return ContinuousPolicy(
        schema=schema,
        kind=kind,
        worth=worth,
        core=model.core,
        discount=discount,
        statement=model.statement,
    )
