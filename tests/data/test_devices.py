"""Endless devices are not read, and a pipe is read once."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privrl.cli import app
from privrl.data import Bins, Schema
from privrl.data.logs import LogSchema, read_log
from privrl.data.records import read_records
from privrl.data.schema import read_header
from privrl.models.bayes_net.network import BayesNet
from privrl.offline import load_policy

ZERO = Path("/dev/zero")
needs_devices = pytest.mark.skipif(not ZERO.is_char_device(), reason="no /dev/zero")
NEEDS_ARROW = pytest.mark.needs("pyarrow")
SCHEMA = Schema({"a": Bins((0, 1, 2))})
STEPS = LogSchema(person="p", action=SCHEMA, most_steps=2)


@needs_devices
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("s.toml", Schema.load),
        ("s.json", LogSchema.load),
        ("r.csv", lambda path: read_records(path, SCHEMA)),
        ("r.csv", read_header),
        ("l.csv", lambda path: read_log(path, STEPS)),
        ("l.csv.gz", lambda path: read_log(path, STEPS)),
        pytest.param("l.parquet", lambda path: read_log(path, STEPS), marks=NEEDS_ARROW),
        ("m.json", BayesNet.load),
        ("p.json", load_policy),
    ],
)
def test_devices_are_refused(name: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / name).symlink_to(ZERO)
    with pytest.raises(ValueError, match="must be a file, got the device"):
        read(tmp_path / name)


@needs_devices
def test_a_statement_that_is_a_device(tmp_path: Path) -> None:
    """This one ends, so that a wrong reader stops."""
    (tmp_path / "m.json").write_text("{}")
    (tmp_path / "release.json").symlink_to("/dev/null")
    with pytest.raises(ValueError, match="got the device"):
        BayesNet.load(tmp_path / "m.json")


def _fed(path: Path, content: str) -> threading.Thread:
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(content,), daemon=True)
    writer.start()
    return writer


@NEEDS_ARROW
def test_parquet_is_not_read_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "l.parquet")
    with pytest.raises(ValueError, match="must be a Parquet file, got a pipe"):
        read_log(tmp_path / "l.parquet", STEPS)


def test_a_public_table_is_read_from_a_pipe(tmp_path: Path) -> None:
    """Which was opened twice, and the second time nobody wrote."""
    STEPS.save(tmp_path / "s.toml")
    (tmp_path / "l.csv").write_text("p,a\n1,0\n2,1\n")
    writer = _fed(tmp_path / "b.csv", "0.5,0.5\n")
    given = ["l.csv", "--schema", "s.toml", "--behaviour", "b.csv", "--out", "out"]
    arguments = [str(tmp_path / each) if each[0] != "-" else each for each in given]
    result = CliRunner().invoke(app, ["fit-model", *arguments])
    writer.join(10)
    assert result.exit_code == 0, result.output
