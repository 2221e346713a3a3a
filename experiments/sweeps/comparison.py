"""What sweeps and suites have in common: methods at budgets, in runs from one seed."""

from typing import Any

from privrl.accounting.targets import Target, target_of
from privrl.agents.methods import Method
from privrl.experiments.names import RL_RELATIONS
from privrl.experiments.specs import Spec
from privrl.experiments.sweeps.jobs import Job
from privrl.files.plain import lookup
from privrl.numerics.checks import check_between, check_count, check_is, check_positive


class Comparison(Spec):
    """A spec with these fields, whose values `_check` checks and makes plain data."""

    methods: tuple[Method, ...]
    epsilons: tuple[float | None, ...]
    relation: str
    runs: int
    seed: int
    delta: float
    renyi_order: float | None
    block: int

    def _check(self) -> None:
        for name in ("methods", "epsilons"):
            values = tuple(getattr(self, name))
            object.__setattr__(self, name, values)
            if not values:
                raise ValueError(f"{name} must hold at least one, got none.")
        for method in self.methods:
            check_is("methods", method, Method)
        labels = [method.label for method in self.methods]
        for name, keys in (("methods", labels), ("epsilons", self.epsilons)):
            if len(set(keys)) < len(keys):
                raise ValueError(f"{name} must not repeat itself, got {', '.join(map(str, keys))}.")
        lookup("relation", self.relation, RL_RELATIONS)
        budgets = (e if e is None else check_positive("epsilons", e) for e in self.epsilons)
        plain = {
            "epsilons": tuple(budgets),
            "seed": check_count("seed", self.seed, least=0),
            "delta": 0.0 if self.delta == 0 else check_between("delta", self.delta, 0, 1),
            **{name: check_count(name, getattr(self, name)) for name in ("runs", "block")},
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        self.target(1.0)  # which checks delta and order
        if self.renyi_order is not None and self.delta == 0:
            raise ValueError(
                "delta must be > 0 with renyi_order, as epsilon is reported at it, got 0; 1e-5 is "
                "usual."
            )

    def job(self, method: Method, epsilon: float | None, *, first_run: int = 0, **of: Any) -> Job:
        """Return a job of one of the methods at one of the budgets."""
        return Job(
            method=method,
            relation=self.relation,
            epsilon=epsilon,
            delta=self.delta,
            renyi_order=self.renyi_order,
            first_run=first_run,
            seed=self.seed,
            **of,
        )

    def target(self, epsilon: float | None) -> Target | None:
        """Return the privacy of a whole run at one of the budgets."""
        return None if epsilon is None else target_of(epsilon, self.delta, self.renyi_order)
