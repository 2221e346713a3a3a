"""Private release of a stochastic policy, and the exact value of a policy.

The owner of a policy may want to publish it without revealing the decision in any single state.
Its rows are vectors of the unit simplex, which the Dirichlet mechanism on the simplex releases.
Gohari, Wu, Hale and Topcu propose this application, without working it out, in *The Dirichlet
mechanism for differential privacy on the unit simplex*.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from privrl.accounting.base import Accountant
from privrl.accounting.targets import Target
from privrl.costs.dirichlet import DirichletCost
from privrl.envs import TabularMDP
from privrl.files.shown import shown
from privrl.mechanisms import Mechanism, SimplexMechanism
from privrl.numerics.checks import (
    check_between,
    check_count,
    check_numbers,
    check_positive,
    plain_array,
)
from privrl.numerics.typing import FloatArray

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class PolicyMechanism(Mechanism[FloatArray]):
    """Release a stochastic policy: mix each row with a uniform one, then draw from a Dirichlet.

    Neighbouring policies differ in the row of one state (and step), where a probability of up to
    ``distance / 2`` moves from one action to another. Replacing the action of a deterministic
    policy in one state gives a neighbour at distance 2. A probability above 1, which rounding may
    leave, is released as 1, so that no probability changes by more than ``distance / 2``.

    Parameters
    ----------
    weight : float
        Concentration of a draw, > 0: a row is drawn from ``Dirichlet(weight * row)``.
    n_actions : int
        A, >= 2.
    mixing : float
        Weight of the uniform row, in (0, 1). Each action has at least ``mixing / n_actions``.
    distance : float
        In (0, 2]; 2 hides the action of a deterministic row.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    Two probabilities of a row may then change by u and v, less than the paid s. The cost of
    ``(s, -s)`` bounds it. With b the concentrations of a neighbour, c those of the row, and S(.)
    their sums, the Rényi divergence of order l of c from b has the derivatives
    ``l / (l - 1) * (psi(x_i) - psi(c_i) - psi(S(x)) + psi(S(c)))`` in ``c_i`` and
    ``-(psi(x_i) - psi(b_i) - psi(S(x)) + psi(S(b)))`` in ``b_i``, with ``x = l c - (l - 1) b``.
    psi is increasing and concave. From c or b to x, S moves the other way than the component, or
    less far between larger numbers. So the divergence grows with ``c_i`` and falls with ``b_i``
    where ``c_i > b_i``, and the reverse: raising ``c_i``, or ``b_i``, until both changes are s
    makes it larger, and no concentration smaller.
    """

    weight: float
    n_actions: int
    mixing: float
    distance: float = 2.0

    def __post_init__(self) -> None:
        checked = {
            "n_actions": check_count("n_actions", self.n_actions, 2),
            "mixing": check_between("mixing", self.mixing, 0, 1),
            "distance": check_positive("distance", self.distance, "2 hides an action"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.distance > 2:
            raise ValueError(f"distance must be > 0 and <= 2, got {shown(self.distance)}.")
        _ = self._rows  # refuses parameters without a finite cost

    @property
    def _rows(self) -> SimplexMechanism:
        return SimplexMechanism(
            weight=self.weight,
            eta=self.mixing / self.n_actions,
            sensitive=tuple(range(self.n_actions)),
            distance=(1 - self.mixing) * self.distance,
        )

    @property
    def cost(self) -> DirichletCost:
        """Cost of releasing the whole policy."""
        cost = self._rows.cost
        assert isinstance(cost, DirichletCost)
        return cost

    def check(self, data: ArrayLike) -> FloatArray:
        """Return a policy, shape (..., A): each row in [0, 1] and summing to 1 within 1e-9.

        Raises
        ------
        ValueError
            If the data are not such a policy.
        """
        policy = check_numbers("data", data)
        if policy.ndim < 1 or policy.shape[-1] != self.n_actions:
            raise ValueError(
                f"data must be a policy with {self.n_actions} actions on the last axis, got shape "
                f"{policy.shape}."
            )
        if not ((policy >= 0).all() and (abs(policy.sum(-1) - 1) <= _ROUNDING).all()):
            raise ValueError("data must be a policy whose rows are >= 0 and each sum to 1.")
        return np.minimum(policy, 1.0)

    def _draw(self, data: FloatArray, rng: np.random.Generator) -> FloatArray:
        mixed = (1 - self.mixing) * data + self.mixing / self.n_actions
        # Not divided by its sum: where that is below 1 by rounding, changes would be larger.
        return self._rows._draw(mixed, rng)

    @classmethod
    def calibrated(
        cls,
        target: Target,
        *,
        n_actions: int,
        mixing: float,
        distance: float = 2.0,
        count: int = 1,
        accountant: Callable[[], Accountant] | None = None,
    ) -> Self:
        """Return the mechanism with the largest weight whose ``count`` releases meet ``target``.

        Raises
        ------
        ValueError
            If an argument is out of range, or no weight meets the target: with little mixing even
            one action drawn at random has a privacy loss of
            ``log(1 + (1 − mixing) distance n_actions / (2 mixing))``.
        """
        probe = cls(weight=1.0, n_actions=n_actions, mixing=mixing, distance=distance)._rows
        rows = SimplexMechanism.calibrated(
            target,
            eta=probe.eta,
            sensitive=probe.sensitive,
            distance=probe.distance,
            count=count,
            accountant=accountant,
        )
        return cls(weight=rows.weight, n_actions=n_actions, mixing=mixing, distance=distance)


def policy_value(mdp: TabularMDP, policy: ArrayLike) -> FloatArray:
    """Return the exact value of stochastic policies.

    Parameters
    ----------
    mdp : TabularMDP
        The environment.
    policy : array_like, shape (..., S, A) or (..., H, S, A)
        Probabilities of actions, equal at all steps or given for each step.

    Returns
    -------
    array, shape (...)
        Expected reward of an episode.

    Raises
    ------
    ValueError
        If the shape is wrong.
    """
    policy = plain_array("policy", policy).astype(np.float64)
    shape = (mdp.n_states, mdp.n_actions)
    if policy.shape[-2:] != shape:
        raise ValueError(
            f"policy must have shape (..., {shape[0]}, {shape[1]}), got {policy.shape}."
        )
    by_step = policy.ndim > 2 and policy.shape[-3] == mdp.horizon
    value = np.zeros((*policy.shape[: -3 if by_step else -2], mdp.n_states))
    for step in reversed(range(mdp.horizon)):
        worth = mdp.expected_reward + np.einsum("sat,...t->...sa", mdp.transition, value)
        now = policy[..., step, :, :] if by_step else policy
        value = (now * worth).sum(axis=-1)
    return value @ mdp.start
