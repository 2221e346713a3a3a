"""Reports of training, sweeps and suites."""

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.colors import to_hex
from numpy.typing import NDArray

from privrl.agents.policies import Policy
from privrl.experiments.palette import Drawn, Look, colour, learner, looks_of
from privrl.experiments.reports.contents import Contents
from privrl.experiments.reports.parts import (
    Cell,
    Chart,
    Facts,
    Level,
    Part,
    Picture,
    Section,
    Series,
    Table,
)
from privrl.experiments.reports.policies import policy_parts
from privrl.experiments.reports.promise import HEADING, promise
from privrl.experiments.specs import budget_name
from privrl.experiments.suites import report as suites
from privrl.experiments.sweeps.plots import budget_colour
from privrl.files.plain import parse_json
from privrl.numerics.printing import up

_BLOCKS, _BLOCK = 40, 10  # of a learning curve; the fewest episodes of each
_PANELS = 12  # learning curves of a sweep
_DASHES = {"-": "solid", "--": "dashed", ":": "dotted", "-.": "dashdot"}
_MARKERS = {
    "o": "circle", "s": "square", "^": "triangle", "D": "diamond", "v": "inverted_triangle",
    "P": "plus", "X": "x", "*": "star", "p": "square_pin", "h": "hex", "d": "diamond_cross",
}  # fmt: skip
_SIMULATED = (
    "Nothing here is a release: these are rewards of simulated runs without noise, from a known "
    "seed. A budget is what the policy would cost the people an agent learned from, if the "
    "randomness were secret."
)


def training(found: Contents) -> tuple[str, list[Section]]:
    """Return the title and the sections of a run of training."""
    statement, spec = found.statement, found.statement["spec"]
    method = spec.get("method")
    kind = "that learns from numbers" if method is None else method["label"]
    page = parse_json(found.files["policy.json"].decode())
    policy = Policy.from_dict(page) if "states" in page else None  # or one for continuous states
    length = "" if policy is None else f" of at most {policy.horizon} steps"
    sections = [
        Section.of(
            "Summary",
            f"An agent ({kind}) was trained on {spec['env']} for "
            f"{spec['episodes']:,} episodes{length}. Its last policy was released.",
        ),
        promise(
            statement["guarantee"],
            also_not=("record.csv and the learning curve: rewards without noise",),
        ),
    ]
    worth = statement.get("worth")
    if worth is not None:
        sections.append(_worth(worth))
    if "record.csv" in found.files:
        drawn = learner(*([method["agent"], method["sampler"]] if method else ["", ""]))
        sections.append(_learned(_frame(found.files["record.csv"]), worth, drawn))
    if policy is None:
        return f"Private training: {spec['env']}", sections
    names = [f"state {state + policy.first_state}" for state in range(policy.n_states)]
    actions = {action: _called(policy, action) for action in np.unique(policy.actions).tolist()}
    parts = policy_parts(policy.actions, names, actions, "policy.json")
    if image := found.files.get("policy.png"):  # which has a grid world's map
        parts = (Picture(image, f"The policy in {spec['env']}, as in policy.png."), *parts[1:])
    sections.append(Section.of("Policy", *parts))
    return f"Private training: {spec['env']}", sections


#: Words of the methods' names in legends.
_TERMS = {
    "noisy counts": "the agent sees counts of transitions with Gaussian noise",
    "noisy-counts": "the agent sees counts of transitions with Gaussian noise",
    "diffuse": "draws from a Dirichlet posterior with a small weight on the data",
    "concentrated": "draws from a Dirichlet posterior with a large prior",
    "local-counts": "each user adds noise to their own counts",
    "sparse-counts": "only transitions with large noisy counts appear",
    "every-episode": "a new draw before each episode",
    "geometric": "a new draw whenever the number of episodes has grown by a factor, such as 1.05",
    "buffered": "counts are released when enough new data have arrived",
}


def explained(names: Sequence[str]) -> tuple[Part, ...]:
    """Return what the words in the names of methods mean."""
    terms = [(term, what) for term, what in _TERMS.items() if any(term in name for name in names)]
    return ("In the names of methods:", Facts(tuple(terms))) if terms else ()


def _called(policy: Policy, action: int) -> str:
    name = policy.action_name(action)
    return f"action {name}" if name.isdecimal() else name


class _Reward(NamedTuple):
    """How a sweep's rewards are shown: divided by a scale, and beside some levels."""

    scale: float
    name: str
    levels: tuple[Level, ...]
    is_share: bool

    @classmethod
    def of(cls, optimum: float, chance: float | None) -> "_Reward":
        """Show shares of the optimum; earlier versions did not write what chance earns."""
        is_share = optimum > 0
        scale = optimum if is_share else 1.0
        levels: tuple[Level, ...] = (Level("optimum", 1.0, "dotted"),) if is_share else ()
        levels += () if chance is None else (Level("random actions", chance / scale, "dashed"),)
        name = "reward, share of the optimum" if is_share else "reward of an episode"
        return cls(scale, name, levels, is_share)


def sweep(found: Contents) -> tuple[str, list[Section]]:
    """Return the title and the sections of a sweep."""
    spec, optimum = found.statement["spec"], float(found.statement["optimal_value"])
    results, curves = _frame(found.files["results.csv"]), _frame(found.files["curves.csv"])
    reward = _Reward.of(optimum, found.statement.get("random_value"))
    methods = results["method"].nunique()
    budgets = sorted(e for e in results["epsilon"].unique() if math.isfinite(e))
    unit = spec["relation"]
    said = [_SIMULATED, f"Privacy unit of the budgets: {unit}."]
    if unit == "paper-step":
        said.insert(0, "This is NOT a guarantee: the paper's sensitivity is too small.")
    sections = [
        Section.of(
            "Summary",
            f"Reward on {spec['env']} within a privacy budget for a whole run: {methods} "
            f"methods at {len(budgets)} budgets, {spec['runs']} runs each of "
            f"{spec['episodes']:,} episodes of {spec['horizon']} steps.",
            *explained([method["label"] for method in spec["methods"]]),
        ),
        Section.of(HEADING, *said),
        Section.of("Reward at each budget", *_kept(results, spec, reward)),
        Section.of("Learning curves", *_curves(curves, spec, reward)),
    ]
    return f"Privacy and reward: {spec['env']}", sections


def suite(found: Contents) -> tuple[str, list[Section]]:
    """Return the title and the sections of a suite."""
    results = _frame(found.files["suite.csv"])
    made, looked = suites.report(results), looks_of(results)
    n_tasks, runs = results["task"].nunique(), results["run"].nunique()
    said = [_SIMULATED, suites.conditions_text(results)]
    if (results["relation"] == "paper-step").any():
        said.insert(0, "This is NOT a guarantee: the paper's sensitivity is too small.")
    parts: list[Part] = [
        "0 is random actions, 1 the optimum. "
        + " ".join(f"{h}: {suites.HALVES[h]}." for h in made.rows)
    ]
    rows = [row for rows in made.rows.values() for row in rows]
    for columns in suites.by_budget(made.columns):
        epsilon = columns[0].epsilon
        what = suites.budget_text(epsilon)
        if math.isfinite(epsilon):
            what += f", as (ε, δ) {suites.spent_text(results, epsilon)}"
        parts.append(_dots(made, looked, rows, columns, what))
        heads = [f"{made.names[c.method]}, {w}" for c in columns for w in ("learning", "final")]
        parts.append(
            Table(
                f"Normalised reward, {what}; learning: {suites.LEARNING}; final: {suites.FINAL}",
                ("task", *heads),
                tuple(
                    (row, *(s for c in columns for s in made.shares.get((row, c), (None, None))))
                    for row in rows
                ),
            )
        )
    asked = (
        f"Normalised reward of {len(made.names)} agents on {n_tasks} task{'s' * (n_tasks != 1)}, "
        f"{runs} run{'s' * (runs != 1)} each: 0 is random actions, 1 the optimum."
    )
    sections = [
        Section.of("Summary", asked, *explained(list(made.names.values()))),
        Section.of(HEADING, *said),
        Section.of("Results", *parts),
    ]
    return "Private agents on a suite of tasks", sections


def _dots(
    made: suites.Report,
    looked: Mapping[str, Look],
    rows: list[str],
    columns: list[suites.Column],
    what: str,
) -> Chart:
    """Return the marks of each method in each row, while learning and at the end."""
    shares, lanes = made.shares, {method: lane for lane, method in enumerate(made.names)}
    series = []
    for column in columns:
        there = [(row, shares[row, column]) for row in rows if (row, column) in shares]
        if not there:
            continue
        lane = lanes[column.method]
        # Rows are counted from above; the lanes of a row share four fifths of it.
        down = [rows.index(row) + 0.1 + 0.8 * (lane + 0.5) / len(lanes) for row, _ in there]
        style = looked[column.method]
        series.append(
            Series(
                made.names[column.method],
                x=tuple(learning for _, (learning, _) in there),
                y=tuple(down),
                low=tuple(learning for _, (learning, _) in there),
                high=tuple(final for _, (_, final) in there),
                colour=style["color"],
                marker=_MARKERS[style["marker"]],
            )
        )
    return Chart(
        "dots",
        f"Normalised reward, {what}. A mark: {suites.LEARNING}; the other end of its line: "
        f"{suites.FINAL}.",
        x="normalised reward: 0 random, 1 optimal",
        y="task",
        series=tuple(series),
        labels=tuple(rows),
    )


def _kept(results: pd.DataFrame, spec: Mapping[str, Any], reward: _Reward) -> tuple[Part, ...]:
    kept = results.assign(kept=results["total_reward"] / results["episodes"] / reward.scale)
    looks = looks_of(results)
    series: list[Series] = []
    levels: list[Level] = []
    rows: list[tuple[Cell, ...]] = []
    for (method, epsilon), group in kept.groupby(["method", "epsilon"], sort=False):
        means = group[["kept", "regret", "epsilon_delta"]].to_numpy(float)
        width = _half_width(means[:, 0]) if len(group) > 1 else None
        rows.append(
            (str(method), up(float(str(epsilon))), up(means[:, 2].max()), float(means[:, 0].mean()),
             width, float(means[:, 1].mean()), int(group["draws"].iloc[0]), len(group))
        )  # fmt: skip
    for method, group in kept.groupby("method", sort=False):
        style = looks[str(method)]
        at_each = group.groupby("epsilon")["kept"]
        mean, half = at_each.mean(), 1.96 * at_each.sem().fillna(0.0)
        if np.isinf(mean.index).all():
            levels.append(Level(str(method), float(mean.iloc[0]), _DASHES[style["linestyle"]]))
            continue
        finite = np.isfinite(mean.index)
        mean, half = mean[finite], half[finite]
        series.append(
            Series(
                str(method),
                **_banded(mean.index, mean, half),
                colour=style["color"],
                dash=_DASHES[style["linestyle"]],
                marker=_MARKERS[style["marker"]],
            )
        )
    levels += reward.levels
    order = budget_name(spec["delta"], spec["renyi_order"])
    picture = Chart(
        "lines",
        "Reward at each privacy budget of a whole run; further left is more private. Bands are "
        "95 % confidence intervals of the mean over runs. The table has each budget as (ε, δ).",
        x=f"privacy budget ε (nats, {order})",
        y=reward.name,
        series=tuple(series),
        levels=tuple(levels),
        of_budgets=True,
        from_zero=reward.is_share,
    )
    table = Table(
        "Means over runs, of each method at each budget",
        ("method", f"budget ε ({order})", f"ε at δ = {spec['delta']!r}", reward.name, "95 % ±",
         "regret", "draws", "runs"),
        tuple(rows),
    )  # fmt: skip
    return picture, table


def _curves(curves: pd.DataFrame, spec: Mapping[str, Any], reward: _Reward) -> Iterator[Part]:
    budgets = sorted(e for e in curves["epsilon"].unique() if math.isfinite(e))
    none = [
        str(m)
        for m, rows in curves.groupby("method", sort=False)
        if np.isinf(rows["epsilon"]).all()
    ]
    methods = [m for m in curves["method"].unique() if m not in none] or none
    kind = budget_name(spec["delta"], spec["renyi_order"])
    yield (
        "Reward of each episode, without noise. Bands are 95 % confidence intervals of the mean "
        "over runs. Each picture has a table of its numbers."
    )
    for method in methods[:_PANELS]:
        lines = [
            _curve(rows, float(rows["epsilon"].iloc[0]), budgets, reward.scale)
            for _, rows in curves[curves["method"] == method].groupby("epsilon")
        ]
        beside = [
            _curve(rows, math.inf, budgets, reward.scale, str(other))
            for other, rows in curves[curves["method"].isin(none[:1])].groupby("method")
            if other != method
        ]
        yield Chart(
            "lines",
            f"Learning curves of {method}, at each budget ε (nats, {kind}).",
            x="episode",
            y=reward.name,
            series=(*lines, *beside),
            levels=reward.levels,
            from_zero=reward.is_share,
        )
    if len(methods) > _PANELS:
        yield f"And {len(methods) - _PANELS} more methods, in curves.csv."


def _curve(
    rows: pd.DataFrame, epsilon: float, budgets: list[float], scale: float, name: str = ""
) -> Series:
    mean = rows["reward_per_episode"] / scale
    half = 1.96 * (rows["standard_error"] / scale).abs().fillna(0.0)
    is_private = math.isfinite(epsilon)
    drawn = to_hex(budget_colour(epsilon, budgets)) if is_private else colour("no privacy")
    return Series(
        name or ("no privacy" if math.isinf(epsilon) else f"ε = {up(epsilon)}"),
        **_banded(rows["episode"], mean, half),
        colour=drawn,
        dash="solid" if is_private else "dashed",
    )


def _worth(worth: Mapping[str, Any]) -> Section:
    span = worth["optimum"] - worth["random"]
    share = worth.get("share")
    how_far = "" if share is None else (
        f" That is {100 * share:.3g} % of the way from random actions to the optimum."
    )  # fmt: skip
    return Section.of(
        "Policy value",
        "Expected return of an episode, computed from the environment's public tables: "
        f"{worth['policy']:.4g} for the released policy, {worth['optimum']:.4g} for the best "
        f"policy, and {worth['random']:.4g} for random actions.{how_far if span > 0 else ''}",
    )


def _learned(record: pd.DataFrame, worth: Mapping[str, Any] | None, drawn: Drawn) -> Section:
    """Return the learning curve: means of blocks of episodes."""
    rewards = record["reward"].to_numpy(float)
    blocks = np.array_split(rewards, min(_BLOCKS, max(1, len(rewards) // _BLOCK)))
    ends = np.cumsum([len(block) for block in blocks])
    mean = np.array([block.mean() for block in blocks])
    half = np.array([_half_width(block) for block in blocks])
    levels = () if worth is None else (
        Level("optimum", float(worth["optimum"]), "dotted"),
        Level("random actions", float(worth["random"]), "dashed"),
    )  # fmt: skip
    size = len(blocks[0])
    picture = Chart(
        "lines",
        f"Reward while learning: means of {size} episode{'s' * (size > 1)} each, without noise. "
        "Bands are 95 % confidence intervals.",
        x="episode",
        y="reward of an episode",
        series=(
            Series(
                "agent", **_banded(ends, mean, half), colour=drawn[0]
            ),
        ),
        levels=levels,
    )  # fmt: skip
    last = rewards[-max(1, len(rewards) // 10) :]
    text = (
        f"The mean return of an episode was {rewards.mean():.4g}, and {last.mean():.4g} over the "
        f"last {len(last)}. These numbers have no noise: they are for research on simulations."
    )
    return Section.of("Learning curve", text, picture)


def _half_width(values: NDArray[np.float64]) -> float:
    return 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def _frame(content: bytes) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(content))


def _banded(x: Any, mean: Any, half: Any) -> dict[str, Any]:
    """Return coordinates of a mean with its band."""
    ends = {"x": x, "y": mean, "low": mean - half, "high": mean + half}
    return {name: _floats(values) for name, values in ends.items()}


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(np.asarray(values, float).tolist())
