"""What privrl share copies is made of what was released: of other data, with it held fixed, too.

Each command that writes something shareable is run on some data, by record and replay: again on
neighbours, of which nothing at all may be seen, and on data that have nothing in common with them
but what is public. What is copied has to be the same to the last byte, wherever the data lie. What
is left is not the same: it is seen to tell of data.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from randomgen import AESCounter
from typer.testing import CliRunner

from privrl.audit import audit_replay
from privrl.cli import app, released
from privrl.data.logs import LogSchema
from privrl.data.schema import Bins, Categories, Schema
from privrl.files import sharing as _sharing
from privrl.files.sharing import Verdict
from privrl.models.histograms.result import PrivateHistogram
from privrl.numerics import randomness

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

SCHEMA = Schema({"age": Bins((0, 20, 40, 100)), "rich": Categories(("no", "yes"))})
LOG = LogSchema(
    person="patient",
    order="hour",
    state={"ward": Categories(("a", "b", "c"))},
    action={"dose": Categories((0, 1))},
    most_steps=4,
    outcome="left",
    outcomes=("well", "dead"),
    outcome_rewards=(1, 0),
)
HORIZON, STATES = 4, 3


class Told(gym.Env):
    """Episodes that are in a file, whatever is done: states, and what they paid."""

    observation_space, action_space = gym.spaces.Discrete(STATES), gym.spaces.Discrete(2)
    reward_range = (0.0, 1.0)
    arrival_rewards = False

    def __init__(self, path: str) -> None:
        self._rows = iter(np.loadtxt(path, delimiter=",").tolist())

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._now = next(self._rows)
        return int(self._now[0]), {}

    def step(self, action: int) -> Any:
        paid = self._now[1]
        self._now = next(self._rows)
        return int(self._now[0]), paid, False, False, {}


@pytest.fixture(autouse=True)
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    gym.register("Told-v0", entry_point=Told, max_episode_steps=HORIZON)
    yield
    del gym.registry["Told-v0"]


# The data: of a seed, or with another record, person or step in them -----------------------------


def records(seed: int, n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rich = rng.random(n) < (0.3, 0.8)[seed % 2]
    age = rng.uniform(0, 50 + 50 * rich)
    return pd.DataFrame({"age": age.round(1), "rich": np.where(rich, "yes", "no")})


def visits(seed: int, n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    steps = rng.integers(1, 5, n)
    last = np.cumsum(steps) - 1
    size = int(steps.sum())
    left = np.full(size, "", object)
    left[last] = np.where(rng.random(n) < (0.2, 0.9)[seed % 2], "well", "dead")
    return pd.DataFrame(
        {
            "patient": np.repeat([f"s{seed}p{i}" for i in range(n)], steps),
            "hour": np.arange(size) - np.repeat(last - steps + 1, steps),
            "ward": rng.choice(["a", "b", "c"], size),
            "dose": rng.integers(0, 2, size),
            "left": left,
        }
    )


def history(seed: int, episodes: int = 12) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size = episodes * (HORIZON + 1)  # and where each episode ends
    return pd.DataFrame({"state": rng.integers(STATES, size=size), "paid": rng.random(size)})


def without_one(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    return frame[frame[column] != frame[column].iloc[0]]


def other_step(frame: pd.DataFrame) -> pd.DataFrame:
    changed = frame.copy()
    changed.loc[7] = [(frame["state"][7] + 1) % STATES, 0.5]
    return changed


def other_record(frame: pd.DataFrame) -> pd.DataFrame:
    changed = frame.copy()
    changed.loc[0] = [99.0, "no" if frame["rich"][0] == "yes" else "yes"]
    return changed


@dataclass(frozen=True)
class Case:
    """A command, its data, and which of the files that it writes are left."""

    command: list[str]
    make: Callable[[int], pd.DataFrame]
    change: Callable[[pd.DataFrame], pd.DataFrame]
    left: frozenset[str]
    shared: frozenset[str]
    then: tuple[str, ...] = ()


def of(*names: str) -> frozenset[str]:
    return frozenset(names)


OF_RECORDS = {"make": records, "change": other_record, "left": of()}
OF_PERSONS = {
    "make": visits,
    "change": lambda frame: without_one(frame, "patient"),
    "left": of(),
}
FEWER = {"make": lambda seed: records(seed, 60 + 9 * seed), "change": lambda frame: frame.iloc[1:]}
HISTOGRAM = ["histogram", "DATA", "--schema", "schema.toml", "--column"]
HISTOGRAMS = of("histogram.csv", "histogram.json", "release.json")
ADD_REMOVE = ["--relation", "add-remove-record"]
BAYES = ["DATA", "--schema", "schema.toml", "--epsilon", "50", "--renyi-order", "2"]
FIT = ["DATA", "--schema", "visits.toml"]
TRAIN = ["train", "--env", "Told-v0", "--env-arg", "path=DATA", "--episodes", "12"]
MODELS = of("model.json", "release.json")
POLICIES = of("policy.json", "release.json")
TRAINED = {
    "left": of("record.csv", "learning_curve.png"),
    "shared": of("policy.json", "policy.png", "train.json"),
}
CASES = {
    "histogram": Case([*HISTOGRAM, "age"], shared=HISTOGRAMS, **OF_RECORDS),
    "histogram, a draw": Case(
        [*HISTOGRAM, "rich", "--mechanism", "dirichlet"], shared=HISTOGRAMS, **OF_RECORDS
    ),
    "histogram, private size": Case(
        [*HISTOGRAM, "age", *ADD_REMOVE], shared=HISTOGRAMS, **OF_RECORDS | FEWER
    ),
    "histogram, private size, by order": Case(
        [*HISTOGRAM, "age", *ADD_REMOVE, "--renyi-order", "2", "--n-records", "50"],
        shared=HISTOGRAMS,
        **OF_RECORDS | FEWER,
    ),
    "naive-bayes": Case(
        ["naive-bayes", *BAYES, "--target-column", "rich", "--test", "DATA"],
        shared=MODELS,
        **OF_RECORDS,
    ),
    "bayes-net": Case(
        ["bayes-net", *BAYES, "--network", "network.toml", "--synthetic", "30"],
        shared=MODELS | {"model.bif", "synthetic.csv"},
        **OF_RECORDS,
    ),
    "fit-model": Case(["fit-model", *FIT], shared=MODELS | {"tables.npz"}, **OF_PERSONS),
    "fit-policy, pure": Case(["fit-policy", *FIT], shared=POLICIES, **OF_PERSONS),
    "fit-policy, behaviour known": Case(
        ["fit-policy", *FIT, "--behaviour", "uniform", "--epsilon", "50"],
        shared=POLICIES,
        **OF_PERSONS,
    ),
    "fit-policy, by order": Case(
        ["fit-policy", *FIT, "--renyi-order", "2", "--epsilon", "5"], shared=POLICIES, **OF_PERSONS
    ),
    "fit-policy of a model": Case(
        ["fit-model", *FIT, "--epsilon", "20"],
        shared=POLICIES,
        then=("fit-policy", "--from-model", "PUBLIC"),
        **OF_PERSONS,
    ),
    "train": Case(TRAIN, make=history, change=other_step, **TRAINED),
    "train psrl": Case(
        [*TRAIN, "--agent", "psrl", "--sampler", "diffuse"],
        make=history,
        change=other_step,
        **TRAINED,
    ),
}


@dataclass
class Seen:
    """What commands wrote for each data set in turn, and what was copied of it."""

    sources: list[dict[str, bytes]]
    copies: list[dict[str, bytes]]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def run(*arguments: str) -> None:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80", "TERM": "dumb"})
    assert result.exit_code == 0, result.output


def pipeline(case: Case, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return what runs a command on data, and returns what is copied of it.

    Its randomness is said to be secret; here it repeats, and nothing else is as in a release.
    """

    base = Path(tempfile.mkdtemp(dir=Path.cwd()))

    def copied(frame: pd.DataFrame) -> dict[str, bytes]:
        keys = count(1)
        monkeypatch.setattr(randomness, "_keyed", lambda _=None: AESCounter(key=next(keys)))
        header = case.command[0] != "train"
        text = frame.to_csv(index=False, header=header)
        folder = base / hashlib.sha256(text.encode()).hexdigest()  # names tell of data, too
        folder.mkdir()
        monkeypatch.chdir(folder)
        Path("data.csv").write_text(text)
        SCHEMA.save("schema.toml")
        LOG.save("visits.toml")
        Path("network.toml").write_text('[parents]\nrich = []\nage = ["rich"]\n')
        ledger = ["--ledger", str(folder / "ledger")] if header else []
        given = [each.replace("DATA", str(folder / "data.csv")) for each in case.command]
        run(*given, *ledger, "--out", "out")
        out = "out"
        if case.then:
            run("share", out, "--to", "public", "--weak")  # as another would, who was given it
            out = "more"
            run(*(each.replace("PUBLIC", "public") for each in case.then), "--out", out)
        run("share", out, "--to", "copy", "--weak")
        seen.sources.append(contents(Path(out)))
        seen.copies.append(contents(Path("copy")))
        monkeypatch.chdir(base)
        shutil.rmtree(folder)
        return seen.copies[-1]

    return copied


def of_results(findings: tuple[str, ...]) -> list[str]:
    kinds = ("the result differs", "the exception differs")
    return [each for each in findings if each.startswith(kinds)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_of_neighbours_nothing_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, seen = CASES[name], Seen([], [])
    data = case.make(1)
    for one, other in ((data, case.change(data)), (case.change(data), data)):
        result = audit_replay(pipeline(case, seen, monkeypatch), one, other)
        assert not result.findings
        assert result.error is None
        assert result.releases >= 1
    assert {frozenset(each) for each in seen.copies} == {case.shared}


@pytest.mark.few(16)
@pytest.mark.parametrize("name", CASES)
def test_of_other_data_nothing_is_copied(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is left tells of them."""
    case, seen = CASES[name], Seen([], [])
    result = audit_replay(pipeline(case, seen, monkeypatch), case.make(1), case.make(2))
    assert result.error is None
    assert not of_results(result.findings)
    assert result.findings  # what was released is not about these data
    first, _, other = seen.sources
    differ = {name for name in first if first[name] != other[name]}
    assert first.keys() == other.keys()
    statement = differ & set(_sharing.STATEMENTS)
    assert differ == case.left | statement
    assert statement or case.then  # it names the data, but not where a model is all there is
    assert case.left == first.keys() - case.shared


# What leaks is seen ------------------------------------------------------------------------------


def leaks(name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    case = CASES[name]
    run_it = pipeline(case, Seen([], []), monkeypatch)
    return of_results(audit_replay(run_it, case.make(1), case.make(2)).findings)


@pytest.mark.slow
def test_a_record_that_is_shared_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        _sharing, "ARTEFACTS", {**_sharing.ARTEFACTS, "record.csv": Verdict(True, "wrong")}
    )
    assert leaks("train", monkeypatch)


def test_a_command_line_that_is_shared_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    more = {"release.json": ("guarantee", "command")}
    monkeypatch.setattr(_sharing, "STATEMENTS", {**_sharing.STATEMENTS, **more})
    assert leaks("histogram", monkeypatch)


def test_a_number_in_a_statement_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = released.guarantee_of

    def more(*given: Any) -> dict[str, Any]:
        return whole(*given) | {"records": len(Path("data.csv").read_bytes())}

    monkeypatch.setattr(released, "guarantee_of", more)
    assert leaks("histogram", monkeypatch)


@pytest.mark.slow
def test_raw_counts_in_a_model_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PrivateHistogram.of_noisy

    def exact(_: Any, column: Bins, *more: Any, **named: Any) -> PrivateHistogram:
        counts = np.histogram(pd.read_csv("data.csv")["age"], column.edges)[0]
        return whole(counts, column, *more, **named)

    monkeypatch.setattr(PrivateHistogram, "of_noisy", exact)
    assert leaks("histogram", monkeypatch)
