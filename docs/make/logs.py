"""Make the tables of docs/results/logs.md, and the main table and the picture of docs/logs.md.

Run with ``python docs/make/logs.py``; it takes most of an hour. Names of tables as
arguments make those alone. ICU-Sepsis is read from where the environment variable
``PRIVRL_ICU_SEPSIS`` says, a wheel of the package icu-sepsis, or from the package if it is
installed; without it its tables say that it was skipped. All rows are kept in results/logs.
"""

import dataclasses
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from itertools import product
from statistics import mean
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pages
import pandas as pd
from log_studies.plots import scores_by_persons
from log_studies.report import (
    Cell,
    budget_text,
    cells,
    conditions_text,
    score_text,
    summary,
    text_table,
)
from log_studies.simulate import simulate_log
from log_studies.study import Condition, Study, run_study
from log_studies.worlds import (
    BEHAVIOURS,
    Behaviour,
    World,
    clinics,
    icu_world,
    sepsis_simulator,
    ward,
)
from scipy import sparse

from privrl.envs import Released, TabularMDP, riverswim
from privrl.files.files import save_all, table_writer
from privrl.offline import LoggedPolicy, evaluate_policy, fit_model, fit_policy, plan_for

_WHEEL = os.environ.get("PRIVRL_ICU_SEPSIS")
_KEPT = pages.DOCS.parent / "results" / "logs"
_SKIPPED = (
    "ICU-Sepsis was skipped when this page was made: `pip download --no-deps icu-sepsis` gets it, "
    "`PRIVRL_ICU_SEPSIS` says where the wheel is."
)
_UNIT = "Privacy unit: a person: all of their episodes, added or removed; pure epsilon, in nats."
_TWO = Study(conditions=(Condition(), Condition("half-expert", known=False)))
_FEW = dataclasses.replace(_TWO, sizes=((10_000, 4), (100_000, 4)))


def _on_icu(part: Callable[[World], str]) -> Callable[[], str]:
    """Give ICU-Sepsis to a part of the page; without it, the part states that it was skipped."""
    return lambda: part(icu_world(_WHEEL)) if _there() else _SKIPPED


def main() -> None:
    """Write the picture, and the tables between the markers of both pages."""
    blocks = {"clinics": _clinics, "icu": _icu, "others": _others, "small": _small}
    rest = {"environments": _environments, "values": _values}
    rest |= {"coverage": _coverage, "estimates": _estimates, "facts": _facts}
    rest |= {"monotone": _monotone}
    main_table = {"behaviours": _behaviours}
    pages.main_of({"logs.md": main_table, "results/logs.md": blocks | rest})


_RANDOM = {0.05: "near-expert, 5 %", 0.15: "near-expert, 15 %", 0.5: "mixed, 50 %",
           0.8: "mixed, 80 %", 1.0: "uniform"}  # fmt: skip
_BUDGETS = (None, 10.0, 1.0, 0.1)
_ALL_BUDGETS = (None, 10.0, 5.0, 3.0, 1.0, 0.1)  # a rule may fail between those of tables
_UNTOLD = Study(
    conditions=tuple(Condition(name, known=False, admissible=False) for name in BEHAVIOURS),
    sizes=((10_000, 4), (50_000, 2)),
    epsilons=_ALL_BUDGETS,
)


def _behaviours() -> str:
    """Policies from logs of behaviour policies on the sepsis simulator."""
    world = sepsis_simulator()
    even, worth = world.behaviour("uniform"), _Worth(world)
    kept, rows = [], []
    for random, persons in product(_RANDOM, (10_000, 50_000)):
        chances = random * even + (1 - random) * world.expert
        before = worth.of(np.full(world.n_states, -1), chances)
        found: dict[tuple[str, float | None], list[float]] = {}
        for run in range(2):
            rng = np.random.default_rng([run, 17, persons])
            log = simulate_log(world, chances, persons, rng)
            counts = np.zeros(even.shape)
            np.add.at(counts, (log.state, log.action), 1.0)
            for budget, draw in product(_ALL_BUDGETS, range(2)):
                rng = np.random.default_rng([run, 19, draw])
                noise = 0.0 if budget is None else rng.laplace(0, 20 / budget, counts.shape)
                made = {"clone": ("clone", (counts + noise).argmax(axis=1))}
                for name, options in _facts_of(world.admissible, chances).items():
                    rng = np.random.default_rng([run, 23, draw])
                    fitted = fit_policy(log, epsilon=budget, rng=rng, **options)
                    made[name] = fitted.kind, fitted.action
                for name, (kind, action) in made.items():
                    found.setdefault((name, budget), []).append(worth.of(action, chances))
                    kept.append((_RANDOM[random], persons, run, draw, name, _number(budget), kind,
                                 before, found[name, budget][-1]))  # fmt: skip
        for name, shown in _NAMES.items():
            values = [f"{np.mean(found[name, budget]):.3f}" for budget in _BUDGETS]
            rows.append([_RANDOM[random], f"{persons:,}", f"{before:.3f}", shown, *values])
            print(" ", *rows[-1], flush=True)
    columns = [
        "world",
        "persons",
        "log",
        "draw",
        "condition",
        "epsilon",
        "kind",
        "treated",
        "score",
    ]
    table = pd.DataFrame(kept, columns=columns)
    save_all(_KEPT, {"behaviours.csv": table_writer(table)})
    header = ["log", "persons", "behaviour", "policy", *map(budget_text, map(_number, _BUDGETS))]
    best = worth.of(world.expert.argmax(axis=1), even)
    return pages.table(header, rows) + (
        "\n\nTrue values, means of 2 logs and 2 draws of noise each; the best stationary policy is "
        f"worth {best:.3f}. *Clone*: the most frequent action by counts with Laplace noise, of 20 "
        f"steps a person. {_UNIT}"
    )


def _facts_of(admissible: np.ndarray, chances: np.ndarray) -> dict[str, dict[str, object]]:
    """Return arguments of `fit_policy`, by what is told."""
    often = np.where(admissible, chances, np.nan)
    even = bool((np.nanmax(often, axis=1) <= np.nanmin(often, axis=1) * (1 + 1e-9)).all())
    behaviour = {"behaviour": "uniform" if even else chances}
    actions = {"admissible": admissible}
    return {"untold": {}, "actions": actions, "behaviour": behaviour, "both": actions | behaviour}


def _facts() -> str:
    """Compare what is learned with and without public facts."""
    kept = [_kept("behaviours").query("condition != 'clone'")]
    kept[0] = kept[0].assign(world="sepsis simulator, " + kept[0]["world"])
    for world, name in product([*clinics("judged"), ward()], BEHAVIOURS):
        chances, rows = world.behaviour(name), []
        for run in range(2):
            log = simulate_log(world, chances, 10_000, np.random.default_rng([run, 37]))
            for budget, draw in product(_ALL_BUDGETS, range(2)):
                for told, options in _facts_of(world.admissible, chances).items():
                    rng = np.random.default_rng([run, 41, draw])
                    fitted = fit_policy(
                        log, epsilon=budget, discount=world.discount, rng=rng, **options
                    )
                    score = world.score(world.chances(fitted.action, chances))
                    rows.append((f"{world.name}, {name}", 10_000, run, draw, told,
                                 _number(budget), fitted.kind, np.nan, score))  # fmt: skip
        kept.append(pd.DataFrame(rows, columns=kept[0].columns))
        print("  facts", world.name, name, flush=True)
    cell = ["world", "persons", "epsilon"]
    wide = pd.concat(kept).pivot_table(index=[*cell, "log", "draw"], columns="condition",
                                       values="score")  # fmt: skip
    off = wide[["actions", "behaviour", "both"]].sub(wide["untold"], axis=0)
    means, errors = off.groupby(cell).mean(), off.groupby(cell).sem()
    rows = []
    for world in dict.fromkeys(means.index.get_level_values("world")):
        for told in off.columns:
            mean_off, error = means.loc[world][told], errors.loc[world][told]
            worst = mean_off.idxmin()
            persons, epsilon = worst
            where = f"{persons:,}, {budget_text(epsilon)}"
            within = f"{int((mean_off >= -0.005).sum())} of {len(mean_off)}"
            sure = int((mean_off < -0.005 - 2 * error).sum())
            rows.append([world, _TOLD[told], f"{mean_off.mean():+.3f}", within, str(sure),
                         f"{mean_off[worst]:+.3f} ± {error[worst]:.3f} ({where})"])  # fmt: skip
    header = (
        "world | told | mean difference | cells within .005 or better | surely worse | worst cell"
    )
    return pages.table(header, rows) + (
        "\n\nDifference to nothing told: values of the sepsis simulator (10,000 and 50,000 "
        "persons), scores of the other worlds (10,000); a cell is a size and a budget, none, 10, "
        "5, 3, 1 or 0.1, of 2 logs and 2 draws. *Surely worse*: by .005 and two standard errors. "
        f"{_UNIT}"
    )


_TOLD = {"actions": "actions", "behaviour": "propensities", "both": "both"}


def _monotone() -> str:
    """Whether more budget and more persons never cost value: tests between adjacent cells."""
    found = []
    untold = _results("untold", _UNTOLD, [*clinics("judged"), ward()])
    for name in ("behaviours", "clinics", "icu", "others", "untold"):
        if not (_KEPT / f"{name}.csv").exists():
            continue
        rows = _kept(name)
        cells_of = rows[rows["condition"] != "clone"].groupby(
            ["world", "condition", "persons", "epsilon"]
        )
        of_logs = rows.groupby(["world", "condition", "persons", "epsilon", "log"])["score"].mean()
        means = cells_of["score"].agg(["mean", "size"])
        for (world, condition), part in means.groupby(["world", "condition"]):
            of_world = part.droplevel([0, 1])
            for (persons, epsilon), cell in of_world.iterrows():
                key = world, condition, persons, epsilon
                kind = _kinds(cells_of.get_group(key)["kind"])
                for more, other in _next(of_world, persons, epsilon):
                    error = np.hypot(
                        _error(of_logs[key]), _error(of_logs[world, condition, *other])
                    )
                    step = of_world.loc[other, "mean"] - cell["mean"]
                    then = _kinds(cells_of.get_group((world, condition, *other))["kind"])
                    found.append(
                        (more, kind, then, step, error, f"{world}, {condition}, {key[2:]}")
                    )
    table = pd.DataFrame(found, columns=["more", "kind", "then", "step", "error", "where"])
    table["falls"] = table["step"] < -2 * table["error"] - 0.005
    print(table[table["falls"]].to_string(), flush=True)
    lines = [
        [*key, str(len(each)), str(int(each["falls"].sum())),
         f"{min(each['step'].min(), 0):+.3f}"]
        for key, each in table.groupby(["more", "kind", "then"])
    ]  # fmt: skip
    lines.append(["**all**", "", "", str(len(table)), str(int(table["falls"].sum())),
                  f"{min(table['step'].min(), 0):+.3f}"])  # fmt: skip
    header = "more | kind | kind then | steps | falls | largest fall"
    steps = pages.table(header, lines) + (
        "\n\nA step leads from one cell of a table to the next larger budget, or number of "
        "persons. It is a fall if the mean is lower by more than .005 and two standard errors, "
        "over logs."
    )
    return "\n\n".join([steps, "Scores where nothing is told:", _table(untold)])


def _kept(name: str) -> pd.DataFrame:
    """Return the rows of a table that was made before."""
    return pd.read_csv(_KEPT / f"{name}.csv")


def _kinds(kinds: pd.Series) -> str:
    return str(kinds.mode()[0])


def _error(of_logs: pd.Series) -> float:
    """Return the standard error of a mean over logs."""
    return float(of_logs.sem()) if len(of_logs) > 1 else np.nan


def _next(
    cells_of: pd.DataFrame, persons: int, epsilon: float
) -> Iterator[tuple[str, tuple[int, float]]]:
    """Return the next cells, of more persons and of a larger budget."""
    sizes, budgets = (sorted(set(cells_of.index.get_level_values(k))) for k in (0, 1))
    if persons < sizes[-1]:
        yield "persons", (sizes[sizes.index(persons) + 1], epsilon)
    if epsilon < budgets[-1]:
        yield "budget", (persons, budgets[budgets.index(epsilon) + 1])


_NAMES = {
    "clone": "clone",
    "untold": "fit_policy",
    "actions": "actions known",
    "both": "propensities known",
}


def _number(budget: float | None) -> float:
    return np.inf if budget is None else budget


class _Worth:
    """What policies earn in a world until its logs are cut off: as `_worth`, with sparse tables."""

    def __init__(self, world: World) -> None:
        self._world, shape = world, world.admissible.shape
        self._moves = sparse.csr_array(
            world.transition[:, :, : world.n_states].reshape(-1, world.n_states)
        )
        ends = world.transition[:, :, world.n_states :] @ np.array(world.outcome_rewards)
        self._reward = np.broadcast_to(world.step_reward, shape) + ends

    def of(self, action: np.ndarray, otherwise: np.ndarray) -> float:
        world, (n_states, n_actions) = self._world, self._reward.shape
        worth = np.zeros(n_states)
        for chosen in np.broadcast_to(action, (world.most_steps, n_states))[::-1]:
            chances = np.where(chosen[:, None] >= 0, np.eye(n_actions)[chosen], otherwise)
            ahead = (self._moves @ worth).reshape(n_states, n_actions)
            worth = (chances * (self._reward + ahead)).sum(axis=1)
        return float(world.start @ worth)


def _coverage() -> str:
    """How often the bounds of a fitted policy, and of a given one, hold: by world."""
    found = [
        row for each in _covered() for run in range(each.runs) for row in _intervals(each, run)
    ]
    intervals = pd.DataFrame(found)
    save_all(_KEPT, {"coverage.csv": table_writer(intervals)})
    intervals["held"] = intervals["true"].between(intervals["lower"], intervals["upper"])
    intervals["width"] = intervals["upper"] - intervals["lower"]
    rows = []
    for world, of_world in intervals.groupby("world", sort=False):
        of = dict(list(of_world.groupby("of")))
        exact = of["given"].query("epsilon == inf")["width"] if "given" in of else []
        shown = [cell for each in ("untold", "told", "given") for cell in _held(of.get(each))]
        rows.append([world, *shown, f"{np.mean(exact):.3g}" if len(exact) else "-"])
    header = (
        "world | own value, untold: covered | width | told: covered | width | "
        "given policy: covered | width | width, no privacy"
    )
    return pages.table(header, rows) + (
        "\n\nIntervals of 95 %, from 10,000 persons, without privacy and at ε = 10, 1 and 0.1. Own "
        "values *untold*, without public facts, or *told* the actions and propensities; those of "
        "given policies are told both, from 10,000 other persons. Votes state no value, and "
        f"`evaluate_policy` is not for steps that pay. {_UNIT}"
    )


def _held(intervals: pd.DataFrame | None) -> list[str]:
    """Return how often intervals held, and their mean width."""
    if intervals is None:
        return ["-", "-"]
    share, width = 100 * intervals["held"].mean(), intervals["width"].mean()
    return [f"{share:.0f} % of {len(intervals)}", f"{width:.3g}"]


class _Covered(NamedTuple):
    """A world, and the behaviour policy of its logs."""

    name: str
    mdp: World | TabularMDP
    chances: np.ndarray
    runs: int


def _covered() -> Iterator[_Covered]:
    world = sepsis_simulator()
    even = world.behaviour("uniform")
    for random in (0.05, 0.15, 0.5, 0.8):
        chances = random * even + (1 - random) * world.expert
        runs = 40 if random < 0.5 else 8  # intervals are narrow there, and alike at all budgets
        yield _Covered(f"sepsis simulator, {_RANDOM[random]}", world, chances, runs)
    for world in clinics("judged"):
        yield _Covered(f"{world.name}, half expert", world, world.behaviour("half-expert"), 8)
    if _there():
        world = icu_world(_WHEEL)
        yield _Covered("ICU-Sepsis, uniform", world, world.behaviour("uniform"), 8)
        yield _Covered("ICU-Sepsis, half expert", world, world.behaviour("half-expert"), 8)
    for name, mdp, runs in (
        ("RiverSwim 6", riverswim(6, horizon=20), 12),
        ("Taxi", TabularMDP.from_gymnasium(gym.make("Taxi-v4")), 3),
    ):
        yield _Covered(name, mdp, np.full((mdp.n_states, mdp.n_actions), 1 / mdp.n_actions), runs)


def _intervals(covered: _Covered, run: int) -> list[dict[str, object]]:
    """Return the intervals of the policies that are fitted to one log, and the true values."""
    name, mdp, chances, _ = covered
    worth = _Worth(mdp) if isinstance(mdp, World) else None
    even = (chances == chances.max(axis=1, keepdims=True)) | (chances == 0)
    known = {"admissible": chances > 0, "behaviour": "uniform" if even.all() else chances}
    rng = np.random.default_rng([run, 29])
    log, others = (simulate_log(mdp, chances, 10_000, rng) for _ in range(2))
    rows: list[dict[str, object]] = []

    def add(of: str, budget: float | None, kind: str, action: np.ndarray, said: Any) -> None:
        true = _exactly(mdp, worth, action, chances)
        bounds = {"lower": said.lower, "true": true, "upper": said.upper}
        of_run = {"world": name, "run": run, "of": of, "epsilon": _number(budget), "kind": kind}
        rows.append(of_run | bounds)

    for budget in _BUDGETS:
        for of, told in (("untold", {}), ("told", known)):
            fitted = fit_policy(log, epsilon=budget, rng=rng, **told)
            if fitted.value is not None:
                add(of, budget, fitted.kind, fitted.action, fitted.value)
        if log.step_rewards == (0.0, 0.0):
            action = np.atleast_2d(fitted.action)[0][: len(chances)]
            options = {"epsilon": budget, "confidence": 0.975, "rng": rng}
            add("given", budget, "", action, evaluate_policy(others, action, **options, **known))
    print("  coverage", name, run, flush=True)
    return rows


def _exactly(
    mdp: World | TabularMDP, worth: _Worth | None, action: np.ndarray, chances: np.ndarray
) -> float:
    """Return what a policy earns until logs are cut off."""
    if worth is not None:
        return worth.of(action, chances)
    assert isinstance(mdp, TabularMDP)
    value = np.zeros(mdp.n_states)
    for chosen in np.broadcast_to(action, (mdp.horizon, action.shape[-1]))[::-1]:
        policy = chances.copy()
        policy[: len(chosen)] = np.where(
            chosen[:, None] >= 0, np.eye(mdp.n_actions)[chosen], chances[: len(chosen)]
        )
        value = (policy * (mdp.expected_reward + mdp.transition @ value)).sum(axis=1)
    return float(mdp.start @ value)


def _clinics() -> str:
    worlds = list(clinics("judged"))
    results = _results("clinics", _FEW, worlds)
    return "\n\n".join([_described(worlds), _table(results, with_mean=True)])


@_on_icu
def _icu(world: World) -> str:
    results = pages.numbers("logs", lambda: _results("icu", Study(), [world]))
    pages.save(scores_by_persons(results, world.name), pages.IMAGES / "logs.png")
    return "\n\n".join([_described([world]), _table(results)])


def _others() -> str:
    worlds = [ward()]
    if _there():
        name = "ICU-Sepsis with costs"
        worlds.insert(0, icu_world(_WHEEL, name=name, step_reward=-0.01, discount=0.99))
    made = [_described(worlds), _table(_results("others", _TWO, worlds))]
    return "\n\n".join(made if _there() else [*made, _SKIPPED])


def _small() -> str:
    """Policies from 10,000 episodes of random actions, one a person."""
    made = {
        "RiverSwim 6": riverswim(6, horizon=20),
        "FrozenLake 4x4": TabularMDP.from_gymnasium(gym.make("FrozenLake-v1")),
        "FrozenLake 8x8": TabularMDP.from_gymnasium(gym.make("FrozenLake8x8-v1")),
        "Taxi": TabularMDP.from_gymnasium(gym.make("Taxi-v4")),
    }
    rows = []
    for name, mdp in made.items():
        even = np.full((mdp.n_states, mdp.n_actions), 1 / mdp.n_actions)
        policy = np.zeros((mdp.horizon, mdp.n_states), int)
        least, best = _random_value(mdp, even), mdp.optimal_value()
        for budget in (None, 1.0, 0.1):
            shares = []
            for run in range(_RUNS[name]):
                rng = np.random.default_rng([run, 7])
                log = simulate_log(mdp, even, 10_000, rng)
                options = {} if budget is None else {"order": 2.0}
                found = fit_policy(log, epsilon=budget, rng=rng, **options)
                if found.kind == "behaviour":
                    shares.append(0.0)
                    continue
                policy[:] = np.maximum(found.action, 0)
                shares.append((float(mdp.policy_value(policy)) - least) / (best - least))
            print(f"  {name} {budget} {np.mean(shares):.3f}", flush=True)
            rows.append([name, budget, shares])
    header = ["", "random", "optimum", "no privacy", "ε = 1", "ε = 0.1"]
    lines = [
        [name, f"{_random_value_of(mdp):.4g}", f"{mdp.optimal_value():.4g}"]
        + [_share(shares) for other, _, shares in rows if other == name]
        for name, mdp in made.items()
    ]
    return pages.table(header, lines) + (
        "\n\nShare of the way from random actions to the optimum: mean (least) of 24 runs, "
        "3 of Taxi. Budgets are Rényi divergences of order 2, in nats. Privacy unit: a person, "
        "added or removed; each has one episode."
    )


_RUNS = {"RiverSwim 6": 24, "FrozenLake 4x4": 24, "FrozenLake 8x8": 24, "Taxi": 3}


def _share(shares: list[float]) -> str:
    return f"{np.mean(shares):.3f} ({min(shares):.2f})"


def _random_value_of(mdp: TabularMDP) -> float:
    return _random_value(mdp, np.full((mdp.n_states, mdp.n_actions), 1 / mdp.n_actions))


def _random_value(mdp: TabularMDP, chances: np.ndarray) -> float:
    moves = np.einsum("sa,sap->sp", chances, mdp.transition)
    worth = np.zeros(mdp.n_states)
    for _ in range(mdp.horizon):
        worth = (chances * mdp.expected_reward).sum(axis=1) + moves @ worth
    return float(mdp.start @ worth)


@_on_icu
def _environments(world: World) -> str:
    """Environments released from logs of ICU-Sepsis, and what is learned in them."""
    even = world.behaviour("uniform")
    rows = []
    for epsilon in (1.0, 0.1):
        scores = []
        for run in range(2):
            rng = np.random.default_rng([run, 11])
            log = simulate_log(world, even, 400_000, rng)
            released = fit_model(
                log, epsilon=epsilon, admissible=world.admissible, behaviour="uniform", rng=rng
            )
            planned = plan_for(released)[0][0, : world.n_states]
            learned = _q_learned(released, rng)[: world.n_states]
            played = np.zeros((world.n_states, released.mdp.n_actions))
            played[:] = even
            whole = np.vstack([played, np.tile(played[:1] * 0 + 1 / 25, (2, 1))])
            scores.append(
                [
                    world.score(planned),
                    world.score(learned),
                    _random_value(released.mdp, whole),
                ]
            )
            print("  environment", epsilon, np.round(scores[-1], 4), flush=True)
        mean_of = np.mean(scores, axis=0)
        rows.append([f"{epsilon:g}", f"{mean_of[0]:.3f}", f"{mean_of[1]:.3f}", f"{mean_of[2]:.4f}"])
    true = world.value(even)
    header = "ε | planned | Q-learning | value of uniform actions"
    return pages.table(header, rows) + (
        f"\n\nScores on the true world, means of 2 logs of 400,000 patients; the true value of "
        f"uniform actions is {true:.4f}. {_UNIT}"
    )


def _q_learned(released: Released, rng: np.random.Generator) -> np.ndarray:
    """Return what plain Q-learning finds best in a released environment, of what is admissible.

    Two thousand actors play at once, at random, and all learn for one table.
    """
    mdp, admissible = released.mdp, released.admissible
    assert admissible is not None
    n_states, n_actions = admissible.shape
    over = mdp.ends
    chances = np.cumsum(mdp.transition.reshape(-1, n_states), axis=1)
    chances /= chances[:, -1:]
    flat = (chances + np.arange(len(chances))[:, None]).ravel()
    number = admissible.sum(axis=1)
    actions = np.argsort(~admissible, axis=1, kind="stable")
    values = np.where(admissible, 0.0, -np.inf)
    values[over] = 0.0
    visits = np.zeros(values.size)
    state = rng.choice(n_states, 2000, p=mdp.start)
    for _ in range(30_000):
        action = actions[state, (rng.random(len(state)) * number[state]).astype(int)]
        pair = state * n_actions + action
        place = np.searchsorted(flat, pair + rng.random(len(state)))
        following = np.minimum(place - pair * n_states, n_states - 1)
        target = mdp.expected_reward[state, action] + values[following].max(axis=1)
        often = np.bincount(pair, minlength=visits.size)
        visits += often
        here = often > 0
        mean_target = np.bincount(pair, target, visits.size)[here] / often[here]
        rate = np.minimum(1.0, often[here] / visits[here] ** 0.8)
        values.ravel()[here] += rate * (mean_target - values.ravel()[here])
        state = np.where(over[following], rng.choice(n_states, 2000, p=mdp.start), following)
    return values.argmax(axis=1)


@_on_icu
def _values(world: World) -> str:
    """How often bounds on the value of a learned policy hold."""
    even = world.behaviour("uniform")
    rows = []
    for epsilon in (1.0, 0.1):
        held, off = [], []
        for run in range(200):
            rng = np.random.default_rng([run, 13])
            options = {"admissible": world.admissible, "behaviour": "uniform", "rng": rng}
            mine, others = (simulate_log(world, even, 5000, rng) for _ in range(2))
            action = fit_policy(mine, epsilon=epsilon, **options).action
            told = evaluate_policy(others, action, epsilon=epsilon, method="last", **options)
            true = world.value(world.chances(action, even))
            held.append(told.lower <= true)
            off.append(told.value - true)
        share = f"{100 * np.mean(held):.1f} %"
        print("  values", epsilon, share, np.mean(off), flush=True)
        rows.append([f"{epsilon:g}", share, f"{np.mean(off):+.4f}", f"{np.std(off):.4f}"])
    header = "ε | lower bound holds | error, mean | error, deviation"
    return pages.table(header, rows) + (
        "\n\nICU-Sepsis, 5,000 patients to learn from and 5,000 others to judge by, 200 repeats; "
        f"one-sided bounds at 95 %. {_UNIT}"
    )


def _estimates() -> str:
    """How often what a policy says of itself is true."""
    wards = [
        dataclasses.replace(ward(seed, n_states=states, n_actions=5), discount=1.0)
        for seed, states in ((301, 30), (302, 100), (303, 240))
    ]
    care = [*clinics("judged"), *([icu_world(_WHEEL)] if _there() else [])]
    sizes = (2000, 20_000, 200_000)
    found = [
        row
        for world in [*care, *wards]
        for treatment, persons, run in product(BEHAVIOURS, sizes, range(2))
        for row in _stated(world, treatment, persons, run)
    ]
    results = pd.DataFrame(found)
    save_all(_KEPT, {"estimates.csv": table_writer(results)})
    lines = [
        [
            str(kind),
            str(len(of_kind)),
            *(_percent(of_kind[each]) for each in ("done", "below", "above")),
            _gains(of_kind["gain"]) if str(kind).startswith("rounds") else "-",
        ]
        for kind, of_kind in results.groupby("kind")
    ]
    header = (
        "kind | policies | what was done, within bounds | value above its lower bound | "
        "below its upper bound | true gain over what was told"
    )
    return pages.table(header, lines) + (
        f"\n\n{len(care)} worlds of intensive care{', with ICU-Sepsis,' * _there()} and three "
        "wards, 2,000 to 200,000 persons, without privacy and at ε = 10, 1 and 0.1; uniform "
        "treatment with all known, half-expert treatment with chances unknown; 2 logs each. Gains: "
        f"median, and 5 to 95 in 100. {_UNIT}"
    )


def _stated(world: World, treatment: Behaviour, persons: int, run: int) -> list[dict[str, object]]:
    """Return what of the words of policies about themselves is true, of those of one log."""
    rng = np.random.default_rng([zlib.crc32(world.name.encode()), persons, run])
    chances = world.behaviour(treatment)
    before = _worth(world, np.full(world.n_states, -1), chances)
    log = simulate_log(world, chances, persons, rng)
    known = "uniform" if treatment == "uniform" else None
    options = {"admissible": world.admissible, "behaviour": known, "rng": rng}
    rows = []
    for epsilon in _BUDGETS:
        told = fit_policy(log, epsilon=epsilon, **options)
        true = _worth(world, told.action, chances)
        of_log = {"world": world.name, "treatment": treatment, "persons": persons, "run": run}
        rows.append(of_log | {"epsilon": _number(epsilon)}
                    | _told(told, before, true, private=epsilon is not None))  # fmt: skip
    print("  estimates", world.name, treatment, persons, run, flush=True)
    return rows


def _told(told: LoggedPolicy, before: float, true: float, *, private: bool) -> dict[str, object]:
    """Return what of a policy's words about itself is true."""
    done, value = told.facts.done, told.value
    row: dict[str, object] = {
        "kind": told.kind if private or told.kind == "vote" else f"{told.kind}, no privacy",
        "done": done.lower <= before <= done.upper,
    }
    if value is None:
        return row
    gain = (true - before) / (value.value - done.value) if value.value != done.value else np.nan
    return row | {"below": value.lower <= true, "above": true <= value.upper, "gain": gain}


def _percent(held: pd.Series) -> str:
    return "-" if held.isna().all() else f"{100 * held.mean():.0f} %"


def _gains(ratios: pd.Series) -> str:
    low, median, high = ratios.quantile([0.05, 0.5, 0.95])
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


def _worth(world: World, action: np.ndarray, otherwise: np.ndarray) -> float:
    """Return what an episode earns that is cut off where those of the log are."""
    n_states, n_actions = world.admissible.shape
    reward = np.broadcast_to(world.step_reward, (n_states, n_actions))
    reward = reward + world.transition[:, :, n_states:] @ np.array(world.outcome_rewards)
    worth = np.zeros(n_states)
    for chosen in np.broadcast_to(action, (world.most_steps, n_states))[::-1]:
        chances = np.where(chosen[:, None] >= 0, np.eye(n_actions)[chosen], otherwise)
        worth = (chances * (reward + world.transition[:, :, :n_states] @ worth)).sum(axis=1)
    return float(world.start @ worth)


def _there() -> bool:
    return _WHEEL is not None or find_spec("icu_sepsis") is not None


def _results(name: str, study: Study, worlds: Iterable[World]) -> pd.DataFrame:
    results = run_study(study, worlds, on_progress=lambda job: print(" ", job, flush=True))
    print(text_table(results), flush=True)
    found = {f"{name}.csv": results, f"{name}_summary.csv": summary(results)}
    save_all(_KEPT, {file: table_writer(table) for file, table in found.items()})
    return results


def _described(worlds: Iterable[World]) -> str:
    """Return what worlds are like: sizes, and the values that scores lie between."""
    rows = (
        [
            world.name,
            world.n_states,
            f"{world.admissible.sum() / world.n_states:.1f} of {world.n_actions}",
            *(f"{world.value(world.behaviour(name)):.4g}" for name in ("uniform", "half-expert")),
            f"{world.optimum()[1]:.4g}",
        ]
        for world in worlds
    )
    header = "world | states | actions of a state | uniform | half expert | optimum"
    return pages.table(header, rows)


def _table(results: pd.DataFrame, *, with_mean: bool = False) -> str:
    """Return a table of ``mean (least)``, of several worlds with their mean, and its words."""
    epsilons = list(results["epsilon"].unique())
    found = cells(results)
    rows = [
        [world, f"{persons:,}", condition, *_scores(row, epsilons)]
        for (world, persons, condition), row in found.items()
    ]
    if with_mean:
        sizes = dict.fromkeys((persons, condition) for _, persons, condition in found)
        for persons, condition in sizes:
            alike = [row for key, row in found.items() if key[1:] == (persons, condition)]
            over = [mean(row[epsilons[0]].treated for row in alike)]
            over += [mean(row[epsilon].mean for row in alike) for epsilon in epsilons]
            rows.append(["**mean**", f"{persons:,}", condition, *map(score_text, over)])
    header = ["world", "persons", "treatment", "as treated", *map(budget_text, epsilons)]
    return "\n\n".join([pages.table(header, rows), conditions_text(results)])


def _scores(row: dict[float, Cell], epsilons: list[float]) -> list[str]:
    return [score_text(row[epsilons[0]].treated), *(str(row[epsilon]) for epsilon in epsilons)]


if __name__ == "__main__":
    main()
