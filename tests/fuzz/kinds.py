"""Kinds of input: each is a function that makes a trial from a valid input and random changes.

To add one, write a function of a `random.Random` and an empty folder that returns a `Call` or a
`Command`, and mark it ``@kind(weight)``; the weight is its part of all cases. Valid inputs are made
once, in `prepare`.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import sqlite3
import string
from collections.abc import Callable, Iterator
from contextlib import chdir, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import calls
import damage
import numpy as np
from judge import CANARY, CANARY_NUMBER, Call, Command, Trial

Make = Callable[[Random, Path], Trial]


@dataclass(frozen=True)
class Kind:
    """A kind of input."""

    make: Make
    weight: int


KINDS: dict[str, Kind] = {}
VALID: dict[str, Path] = {}  # folders of valid outputs, by the command that wrote them


def kind(weight: int) -> Callable[[Make], Make]:
    """Add a function to the kinds, under its name."""

    def add(make: Make) -> Make:
        KINDS[make.__name__] = Kind(make, weight)
        return make

    return add


# Valid inputs -------------------------------------------------------------------------------------

SCHEMA: dict[str, Any] = {
    "columns": {
        "age": {"edges": [0, 20, 40, 60, 100], "missing": True},
        "job": {"categories": ["cook", "nurse", "none"], "other": True},
        "size": {"categories": [1, 2, 3]},
        "ill": {"categories": [True, False], "other": True},
    }
}
RECORDS = "age,job,size,ill,name\n" + "".join(
    f"{age},{('cook', 'nurse', CANARY)[age % 3]},{age % 3 + 1},"
    f"{('true', 'False', '')[age % 3]},x{age}\n"
    for age in (3, 25, 31, 44, 59, 61, 78, 99, int(CANARY_NUMBER), 17, 33)
)
LOG_SCHEMA: dict[str, Any] = {
    "person": "patient", "episode": "stay", "order": "hour", "most_steps": 5, "most_episodes": 2,
    "state": {"ill": {"count": 2}, "ward": {"categories": ["a", "b"], "other": True}},
    "action": {"dose": {"count": 2}},
    "reward": {"column": "score", "low": 0, "high": 1},
    "outcome": {"column": "left", "values": ["well", "dead"], "rewards": [1, 0]},
}  # fmt: skip
LOG = "patient,stay,hour,ill,ward,dose,score,left\n" + "".join(
    f"{person},{stay},{hour},{(person + hour) % 2},{'ab'[hour % 2] if person else CANARY},"
    f"{hour % 2},{0.25 * hour if person != 2 else CANARY_NUMBER},"
    f"{('', '', 'well' if person % 2 else 'dead')[hour]}\n"
    for person in range(5)
    for stay in range(2)
    for hour in range(3)
)
NETWORK: dict[str, Any] = {
    "parents": {"age": [], "job": ["age"], "size": ["age", "job"], "ill": []}
}
SIZES: dict[str, Any] = {"episodes": 3, "horizon": 4, "runs": 1, "block": 2}


@contextmanager
def seeded(seed: str) -> Iterator[None]:
    """Let all secret randomness follow from a seed, so that a case is the same each time."""
    with patch("random._urandom", Random(seed).randbytes):  # `secrets` reads it, NumPy too
        yield


def prepare(base: Path) -> None:
    """Have valid files of all kinds below a folder: make them, unless another process has."""
    if not (base / "valid").exists():
        noon = datetime(2020, 1, 1, 12, tzinfo=UTC)
        with (
            seeded("valid"),
            patch("privrl.accounting.ledger._clock", lambda: noon),
            patch("privrl.experiments.sweeps.jobs.perf_counter", lambda: 0.0),
        ):
            _make(base)
    VALID["files"] = base / "valid"
    VALID.update({path.name: path for path in (base / "valid").iterdir() if path.is_dir()})


def _make(base: Path) -> None:
    import pandas as pd
    from judge import _run

    from privrl.accounting import ApproxDP
    from privrl.envs import riverswim, save_tables
    from privrl.experiments import SweepSpec, run_sweep
    from privrl.models import histogram

    folder = base / "valid"
    folder.mkdir()
    (folder / "people.names").write_text("yes, no.\nage: continuous.\njob: clerk, smith.\n")
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    (folder / "log.json").write_text(json.dumps(LOG_SCHEMA))
    (folder / "network.json").write_text(json.dumps(NETWORK))
    (folder / "records.csv").write_text(RECORDS)
    (folder / "log.csv").write_text(LOG)
    frame = pd.read_csv(io.StringIO(LOG), dtype={"left": str}, keep_default_na=False)
    frame.to_parquet(folder / "log.parquet")
    save_tables(folder / "tables.npz", riverswim(4, 5))
    agent = _agent()
    agent.begin_episode(0)
    agent.save(folder / "agent.private")
    np.save(folder / "behaviour.npy", np.full((6, 2), 0.5))
    # Their statements quote the command: its paths must not be those of a temporary folder.
    records, schema = "records.csv", ["--schema", "schema.json"]
    log, logs = "log.csv", ["--schema", "log.json"]
    given, linear = ("--network", "network.json"), ("--model", "logistic-regression")
    choose = ("--choose", "model=naive-bayes,logistic-regression")
    for name, verb, *arguments in (
        ("histogram", "histogram", records, *schema, "--column", "job"),
        ("naive-bayes", "naive-bayes", records, *schema, "--target-column", "size"),
        ("classify", "classify", records, *schema, "--target-column", "size", *linear),
        ("chosen", "classify", records, *schema, "--target-column", "size", *choose),
        ("bayes-net", "bayes-net", records, *schema, *given),
        ("chosen-net", "bayes-net", records, *schema),
        ("fit-model", "fit-model", log, *logs),
        ("fit-policy", "fit-policy", log, *logs),
    ):
        options = ["--ledger", "ledger.sqlite", "--out", name]
        said = io.StringIO()
        with chdir(folder):
            code, error = _run([verb, *arguments, *options], said, said)
        if code != 0:
            raise RuntimeError(f"{verb} failed: {said.getvalue()}") from error
    blocks = histogram(
        np.arange(60), 60, (0, 60), target=ApproxDP(1, 1e-5), rng=np.random.default_rng(0),
        mechanism="blocks",
    )  # fmt: skip
    (folder / "blocks").mkdir()
    blocks.save(folder / "blocks" / "histogram.json")
    spec = SweepSpec(**SIZES, epsilons=(1.0,))
    run_sweep(spec, backend="sequential", database=folder / "sweep.sqlite")
    (folder / "sweep.json").write_text(json.dumps(spec.to_dict()))


def _text(name: str) -> str:
    return (VALID["files"] / name).read_text(encoding="utf-8")


def _plain_file(r: Random, path: Path, data: Any) -> Path:
    """Write plain data that were changed, or as a text that was, into a file."""
    damaged = damage.sometimes(r, 0.8, damage.plain, data)
    make = damage.toml_text if path.suffix == ".toml" else damage.json_text
    content = damage.sometimes(r, 0.15, damage.lines, make(r, damaged))
    return damage.write(r, path, content)


# Files that say what data are ---------------------------------------------------------------------


@kind(10)
def schema(r: Random, at: Path) -> Trial:
    """The public schema of records."""
    from privrl.data import Schema

    path = _plain_file(r, at / f"schema.{r.choice(('toml', 'json'))}", SCHEMA)
    if r.random() < 0.9:
        return Call(f"Schema.load({path.name!r})", lambda: Schema.load(path), at)
    records = damage.write(Random(0), at / "records.csv", RECORDS)
    last = r.choice(
        (
            ("histogram", "--column", "job"),
            ("histogram", "--column", "age"),
            ("naive-bayes", "--target-column", "size"),
        )
    )
    return Command((last[0], str(records), "--schema", str(path), "--out", "out", *last[1:]), at)


@kind(10)
def log_schema(r: Random, at: Path) -> Trial:
    """The public schema of a log."""
    from privrl.data.logs import LogSchema

    path = _plain_file(r, at / f"log.{r.choice(('toml', 'json'))}", LOG_SCHEMA)
    if r.random() < 0.9:
        return Call(f"LogSchema.load({path.name!r})", lambda: LogSchema.load(path), at)
    (at / "log.csv").write_text(LOG)
    verb = r.choice(("fit-model", "fit-policy"))
    return Command((verb, "log.csv", "--schema", str(path), "--out", "out"), at)


_BIF = string.ascii_letters + string.digits + "_(){}[]|,;. \n+-"


def _written(path: Path, content: str) -> Path:
    path.write_bytes(content.encode(errors="replace"))
    return path


@kind(6)
def network(r: Random, at: Path) -> Trial:
    """The public structure of a Bayesian network, and names that are hard to write in BIF."""
    from privrl.accounting import RenyiDP
    from privrl.data import Schema
    from privrl.data.records import read_records

    columns, parents = dict(SCHEMA["columns"]), dict(NETWORK["parents"])
    content = RECORDS
    if r.random() < 0.5:  # another name, in all places
        name = damage.text(r)
        columns = {(name if key == "job" else key): value for key, value in columns.items()}
        parents = {
            (name if key == "job" else key): [name if each == "job" else each for each in value]
            for key, value in parents.items()
        }
        quoted = '"' + name.replace('"', '""') + '"'
        content = content.replace("job", quoted, 1)
    if r.random() < 0.3:
        columns["age"] = {"categories": [damage.text(r), damage.text(r), 3, 31], "other": True}
    if r.random() < 0.4:
        parents = damage.plain(r, parents)
    if r.random() < 0.4:
        from privrl.models import PrivateBayesNet

        path = _written(at / "r.csv", content)

        def make() -> None:
            plan = PrivateBayesNet(
                parents=parents, schema=Schema.from_dict({"columns": columns}), target=RenyiDP(2, 1)
            )
            frame = read_records(path, plan.schema)
            made = plan.fit(frame, np.random.default_rng(0)).to_bif()
            wrong = set(made) - set(_BIF)
            if wrong:
                raise AssertionError(f"characters that are none of BIF's: {wrong}")

        return Call(f"PrivateBayesNet(parents={parents!r}, schema={columns!r})", make, at)
    net = _plain_file(r, at / f"net.{r.choice(('toml', 'json'))}", {"parents": parents})
    (at / "s.json").write_text(json.dumps({"columns": columns}))
    (at / "records.csv").write_bytes(content.encode(errors="replace"))
    options = ("--schema", "s.json", "--network", str(net), "--out", "out")
    return Command(("bayes-net", "records.csv", *options), at)


# Private data -------------------------------------------------------------------------------------


@kind(14)
def records(r: Random, at: Path) -> Trial:
    """Private records."""
    from privrl.data import Schema
    from privrl.data.records import read_records

    (at / "s.json").write_text(json.dumps(SCHEMA))
    (at / "net.json").write_text(json.dumps(NETWORK))
    content = damage.sometimes(r, 0.95, damage.lines, RECORDS)
    path = damage.write(r, at / "records.csv", content)
    if r.random() < 0.7:
        columns = Schema.from_dict(SCHEMA)
        return Call(
            "encode(read_records(…))", lambda: columns.encode(read_records(path, columns)), at
        )
    verb, *more = r.choice(
        (
            ("histogram", "--column", r.choice(("age", "job", "size", "ill"))),
            ("naive-bayes", "--target-column", "size"),
            ("bayes-net", "--network", "net.json"),
            ("bayes-net",),
        )
    )
    options = ["--schema", "s.json", "--out", "out", *more]
    if r.random() < 0.1:
        options += ["--separator", r.choice((";", "tab", "|", "\t", "é", '"', "ab", "\0", "\r"))]
    if r.random() < 0.2:
        options += ["--dataset", r.choice(("people", "people", damage.text(r)))]
    if verb == "naive-bayes" and r.random() < 0.2:
        damage.write(r, at / "test.csv", damage.lines(r, RECORDS))
        options += ["--test", "test.csv"]
    return Command((verb, "records.csv", *options), at)


@kind(8)
def logs(r: Random, at: Path) -> Trial:
    """A private log as CSV, perhaps compressed."""
    from privrl.data.logs import LogSchema, read_log

    (at / "log.json").write_text(json.dumps(LOG_SCHEMA))
    content = damage.encoded(r, damage.sometimes(r, 0.95, damage.lines, LOG))
    name = "log.csv"
    if r.random() < 0.2:
        name, content = "log.csv.gz", gzip.compress(content)
        content = damage.sometimes(r, 0.7, damage.octets, content)
    path = damage.write(r, at / name, content)
    if r.random() < 0.8:
        columns = LogSchema.from_dict(LOG_SCHEMA)
        return Call(f"read_log({name!r})", lambda: read_log(path, columns), at)
    verb = r.choice(("fit-model", "fit-policy"))
    return Command((verb, name, "--schema", "log.json", "--out", "out"), at)


@kind(5)
def parquet(r: Random, at: Path) -> Trial:
    """A private log as Parquet: other types, other columns, damaged bytes, folders of files."""
    import pandas as pd

    (at / "log.json").write_text(json.dumps(LOG_SCHEMA))
    source = VALID["files"] / "log.parquet"
    target, verb = at / "log.parquet", r.choice(("fit-model", "fit-policy"))
    if r.random() < 0.4:
        damage.write(r, target, damage.octets(r, source.read_bytes()))
    else:
        frame = pd.read_parquet(source)
        name = r.choice(list(frame.columns))
        values: list[Any] = [r.choice((None, damage.text(r), CANARY)) for _ in range(len(frame))]
        if r.random() < 0.5:
            values = [r.choice((1, 2, 0.5, float("nan"), -1e300)) for _ in values]
        elif r.random() < 0.3:
            values = [pd.Timestamp("2020-01-01"), *[None] * (len(values) - 1)]
        elif r.random() < 0.3:
            values = [[1, 2]] * len(values)
        frame[name] = values
        frame = frame.sample(r.randrange(len(frame) + 1), random_state=r.randrange(99))
        if r.random() < 0.2:
            frame = frame.drop(columns=r.choice(list(frame.columns)))
        try:
            frame.to_parquet(target)
        except (ValueError, TypeError, UnicodeError):
            target.write_bytes(source.read_bytes())
    if r.random() < 0.3:
        (at / "log").mkdir()
        if os.path.lexists(target):
            shutil.move(target, at / "log" / "a.parquet")
        shutil.copy(source, at / "log" / "b.parquet")
        target = at / "log"
    return Command((verb, str(target), "--schema", "log.json", "--out", "out"), at)


@kind(3)
def support(r: Random, at: Path) -> Trial:
    """Public tables beside a log: how actions were chosen, and which are admissible."""
    (at / "log.json").write_text(json.dumps(LOG_SCHEMA))
    (at / "log.csv").write_text(LOG)
    option = r.choice(("--behaviour", "--admissible"))
    value = 0.5 if option == "--behaviour" else 1
    ending = r.choice(("csv", "npy", "npz"))
    path = at / f"table.{ending}"
    if ending == "csv":
        damage.write(r, path, damage.lines(r, f"{value},{value}\n" * 6))
    else:
        file = io.BytesIO()
        array = np.full((6, 2), value)
        np.save(file, array) if ending == "npy" else np.savez(file, array)
        damage.write(r, path, damage.sometimes(r, 0.9, damage.octets, file.getvalue()))
    verb = r.choice(("fit-model", "fit-policy"))
    return Command((verb, "log.csv", "--schema", "log.json", "--out", "out", option, str(path)), at)


# What was released --------------------------------------------------------------------------------


class ChosenClassifier:
    """What reads a classifier of either kind, chosen or not."""

    @staticmethod
    def load(path: Path) -> Any:
        """Return the classifier."""
        from privrl.models.logistic_regression.choice import load_classifier

        return load_classifier(path)


@kind(12)
def models(r: Random, at: Path) -> Trial:
    """Saved histograms, classifiers and networks."""
    from privrl.models import PrivateLogisticRegression, PrivateNaiveBayes
    from privrl.models.bayes_net.network import BayesNet
    from privrl.models.histograms.result import PrivateHistogram

    counts = ("histogram.json", PrivateHistogram, lambda m: (m.to_frame(), m.to_dict()))
    net = ("model.json", BayesNet, lambda m: (m.to_bif(), m.to_dict()))
    of: dict[str, tuple[str, Any, Any]] = {
        "histogram": counts,
        "blocks": counts,
        "naive-bayes": ("model.json", PrivateNaiveBayes, lambda m: m.to_dict()),
        "classify": ("model.json", PrivateLogisticRegression, lambda m: m.to_dict()),
        "chosen": ("model.json", ChosenClassifier, lambda m: m.guarantee),
        "bayes-net": net,
        "chosen-net": net,
    }
    folder = r.choice(tuple(of))
    name, made, use = of[folder]
    data = json.loads((VALID[folder] / name).read_text(encoding="utf-8"))
    path = _plain_file(r, at / name, data)
    if folder in ("naive-bayes", "classify", "chosen") and r.random() < 0.15:
        (at / "records.csv").write_text(RECORDS)
        return Command(("predict", str(path), "records.csv", "--out", "out"), at)
    return Call(f"{made.__name__}.load({name!r})", lambda: use(made.load(path)), at)


@kind(5)
def statements(r: Random, at: Path) -> Trial:
    """Statements beside what they are about."""
    shutil.copytree(VALID["naive-bayes"], at / "model")
    data = json.loads((at / "model" / "release.json").read_text(encoding="utf-8"))
    _plain_file(r, at / "model" / "release.json", data)
    if r.random() < 0.85:
        from privrl.models import PrivateNaiveBayes

        path = at / "model" / "model.json"
        return Call("PrivateNaiveBayes.load(…)", lambda: PrivateNaiveBayes.load(path), at)
    (at / "records.csv").write_text(RECORDS)
    return Command(("predict", "model/model.json", "records.csv", "--out", "out"), at)


@kind(8)
def released(r: Random, at: Path) -> Trial:
    """Folders of released environments."""
    from privrl.envs import load_released

    folder = at / "model"
    shutil.copytree(VALID["fit-model"], folder)
    (folder / "release.json").unlink()
    name = r.choice(("model.json", "model.json", "tables.npz"))
    if name == "model.json":
        data = json.loads((folder / name).read_text(encoding="utf-8"))
        _plain_file(r, folder / name, data)
    else:
        content = _archive(r, folder / name)
        damage.write(r, folder / name, content)
        _restate(folder)
    if r.random() < 0.1:
        return Command(("fit-policy", "--from-model", "model", "--out", "out"), at)
    return Call("load_released('model')", lambda: load_released(folder), at)


def _archive(r: Random, path: Path) -> bytes:
    """Return an archive of tables with other bytes, or other arrays."""
    if r.random() < 0.4:
        return damage.octets(r, path.read_bytes())
    with np.load(path) as arrays:
        kept = dict(arrays)
    name = r.choice(list(kept))
    array = kept[name]
    match r.randrange(6):
        case 0:
            del kept[name]
        case 1:
            kept[f"{name}2"] = array
        case 2:
            kept[name] = array.astype(r.choice(("f4", "i8", "u1", "c16", "U3", "?")))
        case 3:
            kept[name] = array[..., :-1] if array.ndim else array
        case 4:
            kept[name] = array.ravel()
        case _:
            changed = array.copy().ravel()
            with np.errstate(all="ignore"):
                value = np.array(r.choice((0, 1, 255, -1, np.nan, 1e300)))
                changed[r.randrange(max(1, changed.size)) : None] = value.astype(changed.dtype)
            kept[name] = changed.reshape(array.shape)
    file = io.BytesIO()
    np.savez(file, **kept)
    return file.getvalue()


def _restate(folder: Path) -> None:
    """Let the page be about the tables that are there."""
    tables = folder / "tables.npz"
    if tables.is_file() and tables.stat().st_size < 1 << 20:
        page = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        page["tables_sha256"] = hashlib.sha256(tables.read_bytes()).hexdigest()
        (folder / "model.json").write_text(json.dumps(page))


@kind(6)
def policies(r: Random, at: Path) -> Trial:
    """Saved policies."""
    from privrl.offline import load_policy

    data = json.loads((VALID["fit-policy"] / "policy.json").read_text(encoding="utf-8"))
    path = _plain_file(r, at / "policy.json", data)
    return Call("load_policy('policy.json')", lambda: load_policy(path).to_dict(), at)


@kind(6)
def checkpoints(r: Random, at: Path) -> Trial:
    """Checkpoints of agents, also such as say the right digest."""
    path, content = at / "agent.private", (VALID["files"] / "agent.private").read_bytes()
    if r.random() < 0.4:
        content = damage.octets(r, content)
    else:
        title, _, rest = content.partition(b"\n")
        _, _, body = rest.partition(b"\n")
        head, _, numbers = body.partition(b"\n")
        page = damage.plain(r, json.loads(head))
        body = damage.json_text(r, page).replace("\n", " ").encode(errors="replace") + b"\n"
        body += damage.sometimes(r, 0.2, damage.octets, numbers)
        content = b"\n".join((title, hashlib.sha256(body).hexdigest().encode(), body))
    damage.write(r, path, content)
    return Call("load('agent.private')", lambda: _agent().load(path), at)


def _agent() -> Any:
    from privrl.agents import PSRL
    from privrl.envs import TabularEnv, riverswim

    env = TabularEnv(riverswim(3, 4))
    return PSRL.private(env, epsilon=1.0, episodes=8, rng=np.random.default_rng(0))


@kind(3)
def tables(r: Random, at: Path) -> Trial:
    """Files of tables of an environment."""
    from privrl.envs import TabularEnv, load_tables

    path = damage.write(r, at / "tables.npz", _archive(r, VALID["files"] / "tables.npz"))
    if r.random() < 0.3:
        return Call("TabularEnv(path=…)", lambda: TabularEnv(path=path).reset(seed=0), at)
    return Call("load_tables('tables.npz')", lambda: load_tables(path), at)


# Experiments --------------------------------------------------------------------------------------


@kind(7)
def specs(r: Random, at: Path) -> Trial:
    """Specs of sweeps, suites and training."""
    from privrl.experiments import SuiteSpec, SweepSpec, TrainSpec

    spec = json.loads(_text("sweep.json"))
    if r.random() < 0.04:
        path = _plain_file(r, at / "spec.json", spec)
        sizes = ("--episodes", "3", "--horizon", "4", "--runs", "1", "--block", "1")
        return Command(
            ("sweep", "--spec", str(path), *sizes, "--backend", "sequential", "--out", "out"), at
        )
    made: Any = r.choice((SweepSpec, SuiteSpec, TrainSpec))
    data = {
        SweepSpec: spec,
        SuiteSpec: SuiteSpec(tasks=("RiverSwim6",)).to_dict(),
        TrainSpec: TrainSpec(env="privrl/RiverSwim-v0").to_dict(),
    }[made]
    damaged = damage.plain(r, json.loads(json.dumps(data)))
    return Call(f"{made.__name__}.from_dict({damaged!r})", lambda: made.from_dict(damaged), at)


@kind(3)
def databases(r: Random, at: Path) -> Trial:
    """Databases of results."""
    from privrl.experiments import SweepSpec, run_sweep

    path = at / "sweep.sqlite"
    _damaged_database(r, VALID["files"] / "sweep.sqlite", path, ("jobs", "runs"))
    spec = SweepSpec(**SIZES, epsilons=(1.0,))
    return Call(
        "run_sweep(database=…)", lambda: run_sweep(spec, backend="sequential", database=path), at
    )


@kind(7)
def ledgers(r: Random, at: Path) -> Trial:
    """Ledgers, and exports of them."""
    path = at / "other.sqlite"
    _damaged_database(r, VALID["files"] / "ledger.sqlite", path, ("entries", "meta", "curves"))
    chosen = ["--ledger", str(path)]
    if r.random() < 0.4:
        (at / "s.json").write_text(json.dumps(SCHEMA))
        (at / "records.csv").write_text(RECORDS)
        options = ("--schema", "s.json", "--column", "job", "--out", "out", *chosen)
        return Command(("histogram", "records.csv", *options), at)
    if r.random() < 0.2:
        export = {"head": "0" * 64, "number": 1, "entries": []}
        _plain_file(r, at / "export.json", export)
        return Command(("ledger", "verify", "--against", "export.json", *chosen), at)
    verbs = (
        ("show",), ("show", "people"), ("verify",), ("export",), ("export", "--out", "e.json"),
        ("budget", "people", "--epsilon", "2"), ("forget", "people", "--force"),
    )  # fmt: skip
    return Command(("ledger", *r.choice(verbs), *chosen), at)


def _damaged_database(r: Random, source: Path, path: Path, names: tuple[str, ...]) -> None:
    """Copy a SQLite file and change its bytes, its rows or its tables."""
    if r.random() < 0.4:
        damage.write(r, path, damage.octets(r, source.read_bytes()))
        return
    shutil.copy(source, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as base:
        base.execute("PRAGMA writable_schema = ON")
        for _ in range(r.choice((1, 1, 2))):
            table = r.choice(names)
            try:
                columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
                column = r.choice(columns or ["x"])
                match r.randrange(9):
                    case 0:
                        base.execute(f"DROP TABLE {table}")
                    case 1:
                        base.execute(f"DELETE FROM {table}")
                    case 2:
                        base.execute(f"DELETE FROM {table} WHERE rowid = 1")
                    case 3:
                        base.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
                    case 4:
                        base.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")
                    case 5:
                        name = r.choice(("user_version", "application_id", "page_size"))
                        base.execute(f"PRAGMA {name} = {r.randrange(9)}")
                    case 6:
                        text = damage.json_text(r, damage.scalar(r))
                        base.execute(f"UPDATE {table} SET {column} = ?", (text,))
                    case _:
                        value = r.choice(
                            (None, 1, 2**62, -1, 0.5, 1e308, b"\0" * 9, b"", damage.text(r))
                        )
                        base.execute(f"UPDATE {table} SET {column} = ?", (value,))
            except (sqlite3.Error, ValueError):
                pass  # some changes SQLite itself refuses


# Command lines ------------------------------------------------------------------------------------

_RECORDS = ("{f}/records.csv", "--schema", "{f}/schema.json", "--out", "out")
_LOGS = ("{f}/log.csv", "--schema", "{f}/log.json", "--out", "out")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("histogram", *_RECORDS, "--column", "job"),
    ("histogram", *_RECORDS, "--column", "age", "--relation", "add-remove-record",
     "--n-records", "9"),
    ("naive-bayes", *_RECORDS, "--target-column", "size"),
    ("bayes-net", *_RECORDS, "--network", "{f}/network.json", "--synthetic", "5"),
    ("predict", "{f}/naive-bayes/model.json", "{f}/records.csv", "--out", "out"),
    ("fit-model", *_LOGS),
    ("fit-policy", *_LOGS),
    ("fit-policy", "--from-model", "{f}/fit-model", "--out", "out"),
    ("schema", "--columns", "a,b", "--numeric", "a=0:9", "--out", "new.toml"),
    ("schema", "--csv", "{f}/records.csv", "--header", "--log", "--out", "new.json"),
    ("schema", "--csv", "{f}/records.csv", "--from-documentation", "{f}/people.names",
     "--missing", "all", "--categories", "size=a,b", "--out", "new.toml", "--json"),
    ("account", "--weight", "1", "--alpha", "5"),
    ("account", "--weight", "1", "--epsilon", "1", "--renyi-order", "2"),
    ("ledger", "show"),
    ("ledger", "budget", "people", "--epsilon", "1", "--delta", "1e-5"),
    ("ledger", "verify"),
    ("ledger", "export", "--out", "e.json"),
    ("ledger", "forget", "people"),
    ("reproduce", "list"),
    ("train", "--env", "privrl/RiverSwim-v0", "--episodes", "2", "--horizon", "3", "--out", "out"),
    ("sweep", "--episodes", "2", "--horizon", "3", "--runs", "1", "--epsilons", "1",
     "--backend", "sequential", "--out", "out"),
    ("suite", "--tasks", "RiverSwim6", "--episodes", "2", "--runs", "1", "--epsilons", "1",
     "--backend", "sequential", "--out", "out"),
)  # fmt: skip
# Long work, and processes started elsewhere, are no faults if they are what was asked for.
_WORK = {
    "--episodes",
    "--runs",
    "--horizon",
    "--block",
    "--workers",
    "--tasks",
    "--env",
    "--epsilons",
}
_WORK_VALUES = ("0", "-1", "1.5", "nan", "x", "", "1e9", "1_0", str(10**400), "0x3", "١")
_NOT_CHANGED = {"--backend": ("sequential", "x", ""), "--address": ("", "x", "tcp://")}
_SLOW = ("sweep", "suite")


@kind(16)
def commands(r: Random, at: Path) -> Trial:
    """Whole command lines: options dropped, doubled, unknown, of other commands, with any value."""
    (at / "null").symlink_to("/dev/null")
    (at / "zero").symlink_to("/dev/zero")
    chosen = r.choice(COMMANDS)
    if chosen[0] in _SLOW and r.random() < 0.7:
        chosen = r.choice([each for each in COMMANDS if each[0] not in _SLOW])
    given = [each.replace("{f}", str(VALID["files"])) for each in chosen]
    for _ in range(r.choice((1, 1, 2, 3))):
        _change_line(r, given)
    if given[0] == "suite":  # one that is stopped leaves its database, to be resumed
        given = ["2" if each == "1e9" else each for each in given]
    if r.random() < 0.15:
        _occupied(r, at)
    return Command(tuple(given), at)


def _change_line(r: Random, given: list[str]) -> None:
    head = 2 if given[:1] == ["ledger"] else 1
    places = [i for i in range(head, len(given)) if given[i].startswith("--")]
    chance = r.random()
    if chance < 0.35 and places:
        at = r.choice(places)
        if at + 1 < len(given):
            given[at + 1] = _value(r, given[at])
    elif chance < 0.75:
        option = r.choice(_options(given))
        given.append(option)
        if r.random() < 0.9:
            given.append(_value(r, option))
    elif chance < 0.82 and (places := [i for i in places if given[i] not in _WORK]):
        at = r.choice(places)
        del given[at : at + r.choice((1, 2))]
    elif chance < 0.87:
        given.insert(r.randrange(head, len(given) + 1), damage.text(r))
    elif chance < 0.92 and len(given) > head:
        at = r.randrange(head, len(given))
        if given[at - 1] not in _NOT_CHANGED and given[at - 1] not in _WORK:
            given[at] = damage.text(r) if r.random() < 0.5 else str(r.choice(_PLACES))
    elif chance < 0.95 and places:
        at = r.choice(places)
        given += given[at : at + 2]
    else:
        given[:head] = [r.choice(("", "help", "--version", "-h", "ledgers", damage.text(r)))]


# Nothing outside of the case's folder: what is asked for is written, see `fence`.
_PLACES = (".", "..", "null", "zero", "nowhere", "a/b/c")
_FLAGS = {
    "--force", "--reproducible", "--parquet", "--log", "--quick", "--report", "--support", "--help",
    "--json",
}  # fmt: skip


def _options(given: list[str]) -> list[str]:
    """Return the options of a command, as the command line itself knows them."""
    from typer.main import get_command

    from privrl.cli import app

    command: Any = get_command(app)
    for word in given[: 2 if given[:1] == ["ledger"] else 1]:
        command = getattr(command, "commands", {}).get(word)
    if command is None:
        return ["--seed"]
    found = [each for p in command.params for each in p.opts if each.startswith("--")]
    if given[0] in ("train", "sweep", "suite"):
        found += _late(given[0])
    return [*found, "--seed", "--unknown", "--help"]


def _late(verb: str) -> list[str]:
    """Return the options of a command that makes them when it is called."""
    from privrl.cli import suite, sweep, train

    made = {"train": train, "sweep": sweep, "suite": suite}[verb]._options()
    return [f"--{each.name.replace('_', '-')}" for each in made]


def _value(r: Random, option: str) -> str:
    if option in _NOT_CHANGED:
        return r.choice(_NOT_CHANGED[option])
    if option in _WORK:
        return r.choice(_WORK_VALUES)
    chance = r.random()
    if option in (
        "--out",
        "--ledger",
        "--schema",
        "--csv",
        "--test",
        "--network",
        "--spec",
        "--from-documentation",
    ):
        return str(r.choice(_PLACES)) if chance < 0.6 else damage.text(r)
    if chance < 0.45:
        return str(damage.number(r))
    if chance < 0.7:
        return r.choice(("0.5", "2", "3", "dirichlet", "gaussian", "none", "auto", "job", "people"))
    return damage.text(r)


def _occupied(r: Random, at: Path) -> None:
    """Have something where the command writes."""
    names = ("model.json", "release.json", "histogram.csv", "policy.json", "predictions.csv")
    match r.randrange(5):
        case 0:
            (at / "out").write_text("mine")
        case 1:
            (at / "out").mkdir()
            (at / "out" / r.choice(names)).mkdir()
        case 2:
            (at / "out").mkdir()
            (at / "out" / r.choice(names)).write_text("mine")
        case 3:
            (at / "out").symlink_to(r.choice(("nowhere", "out", "null", ".")))
        case _:
            (at / "out").mkdir()
            (at / "out" / r.choice(names)).symlink_to(r.choice(("nowhere", "../null")))


# Public names -------------------------------------------------------------------------------------


@cache
def _valid_calls() -> dict[str, calls.Valid]:
    with seeded("calls"):  # whichever case is the first
        return calls.table()


@kind(110)
def public(r: Random, at: Path) -> Trial:
    """Calls of all public names."""
    return calls.call(r, at, _valid_calls())
