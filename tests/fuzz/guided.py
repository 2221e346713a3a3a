"""Readers of files under a fuzzer that is guided by what code it reaches; needs ``atheris``.

``pip install atheris``, then ``python tests/fuzz/guided.py FOLDER -max_total_time=300``: the first
byte says which reader, the others are the file. What it found stays in the folder.
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import atheris  # noqa: E402 -- from here on what is imported is watched

with atheris.instrument_imports(include=["privrl", "tomllib"]):
    from privrl.data import Schema
    from privrl.data.logs import LogSchema, read_log
    from privrl.data.records import read_records
    from privrl.envs import load_tables
    from privrl.experiments import SweepSpec
    from privrl.models.bayes_net.network import BayesNet
    from privrl.models.histograms.result import PrivateHistogram
    from privrl.offline import load_policy

import kinds  # noqa: E402
from judge import ALLOWED  # noqa: E402

COLUMNS = Schema.from_dict(kinds.SCHEMA)
STEPS = LogSchema.from_dict(kinds.LOG_SCHEMA)
READERS = (
    ("s.toml", Schema.load),
    ("s.json", Schema.load),
    ("l.toml", LogSchema.load),
    ("r.csv", lambda path: COLUMNS.encode(read_records(path, COLUMNS))),
    ("l.csv", lambda path: read_log(path, STEPS)),
    ("h.json", PrivateHistogram.load),
    ("n.json", BayesNet.load),
    ("p.json", load_policy),
    ("t.npz", load_tables),
    ("d.json", lambda path: SweepSpec.from_dict(json.loads(path.read_bytes()))),
)
_folder = tempfile.TemporaryDirectory(prefix="privrl-guided-")


def one(data: bytes) -> None:
    """Read a file; what is refused in words is as it should be."""
    if not data:
        return
    name, read = READERS[data[0] % len(READERS)]
    path = Path(_folder.name) / name
    path.write_bytes(data[1:])
    try:
        read(path)
    except ALLOWED:
        pass
    except RecursionError:
        if name != "d.json":  # read here, and not by the library
            raise


def beginnings(folder: Path) -> None:
    """Write valid files to begin with."""
    kinds.prepare(Path(_folder.name))
    found = {
        "s.json": kinds.VALID["files"] / "schema.json",
        "r.csv": kinds.VALID["files"] / "records.csv",
        "l.csv": kinds.VALID["files"] / "log.csv",
        "h.json": kinds.VALID["histogram"] / "histogram.json",
        "n.json": kinds.VALID["bayes-net"] / "model.json",
        "p.json": kinds.VALID["fit-policy"] / "policy.json",
        "t.npz": kinds.VALID["files"] / "tables.npz",
        "d.json": kinds.VALID["files"] / "sweep.json",
    }
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for name, _ in READERS]
    for name, path in found.items():
        (folder / name).write_bytes(bytes([names.index(name)]) + path.read_bytes())


if __name__ == "__main__":
    warnings.simplefilter("error", RuntimeWarning)
    beginnings(Path(sys.argv[1]))
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
