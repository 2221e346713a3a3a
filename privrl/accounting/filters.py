"""Privacy filters: budgets that hold although outcomes of earlier releases choose the next one.

An accountant that refuses costs beyond (epsilon, delta) is a *privacy filter* if all admitted
releases together are (epsilon, delta)-differentially private, for every rule that chooses the next
release. Checking the best order of the spent divergences against the budget is not a filter:
different outcomes may lead to different best orders, and their deltas add up. Three rules are
filters. Write ``P`` and ``Q`` for the joint laws of all releases under two neighbours,
``L = log(P / Q)`` and ``delta = E_P max(0, 1 - exp(epsilon - L))``.

**One order.** Fix an order ``λ`` before the first release. Let ``R`` be the sum of the Rényi
divergences of the releases made so far, each given the outcomes before it. Then
``exp((λ − 1)(L − R))`` is a supermartingale under ``P`` that starts at 1. Where ``R <= r`` is
enforced, ``E_P exp((λ − 1) L) <= exp((λ − 1) r)``, which is the assumption of the conversion of one
order to (epsilon, delta) (Feldman and Zrnic, 2021, *Individual privacy accounting via a Rényi
filter*; Whitehouse, Ramdas, Rogers and Wu, 2023, *Fully adaptive composition in differential
privacy*). `RdpAccountant` takes an order that admits the plan as often as any order does, or,
without a plan, the first release. Both are chosen before any outcome. So a run that keeps to its
plan, or repeats its first release, loses nothing.

**A plan.** Fix the number of charges of each cost, such that all charges together are within the
budget by any accounting. Then outcomes may decide on their order, and whether to make them at all.
Each cost has a dominating pair of distributions. Draw one sample for every planned charge in
advance: each release is a randomised function of the sample of its cost and of the earlier
releases. So everything released is post-processing of the samples, which are independent
(concurrent composition). `PldAccountant` keeps to a plan; by default, the plan is the first cost as
often as it fits.

**Alone.** A first release may be within the budget by its own privacy profile, but not by one
order. Divergences are never negative, so no other release with a cost is admitted after it. Then
the two rules never both apply to one run: delta is that of the profile, or that of the order.
"""

from collections.abc import Sequence
from typing import Any

from privrl.costs.base import Cost, check_cost
from privrl.files.shown import shown
from privrl.numerics.checks import check_count

#: The releases that are planned: each cost, and how often it is to be charged.
Plan = Sequence[tuple[Cost, int]]


def check_plan(plan: Any) -> tuple[tuple[Cost, int], ...]:
    """Return a plan if it lists costs under one relation, each with a count.

    Raises
    ------
    ValueError
        If it does not.
    """
    fits = isinstance(plan, Sequence) and not isinstance(plan, str | bytes) and len(plan) > 0
    if not fits or not all(isinstance(each, tuple) and len(each) == 2 for each in plan):
        raise ValueError(
            f"plan must be a list of pairs of a cost and a count, got {shown(plan)}; such as "
            "[(mechanism.cost, 10)]."
        )
    for cost, count in plan:
        check_cost(cost)
        check_count("count in plan", count)
        if cost.relation != plan[0][0].relation:
            raise ValueError(
                "plan must be about one neighbouring relation, got "
                f"{str(plan[0][0].relation)!r} and {str(cost.relation)!r}; use another accountant "
                "for the second."
            )
    return tuple(plan)
