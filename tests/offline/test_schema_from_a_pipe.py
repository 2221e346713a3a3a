"""A schema that comes through a pipe: it can be read once."""

import os
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from privrl.cli import app

LOG = "patient,hour,ill,dose,left\n1,0,1,0,\n1,1,0,1,well\n2,0,1,1,dead\n"
SCHEMA = """
person = "patient"
order = "hour"
most_steps = 5
[state.ill]
count = 2
[action.dose]
count = 2
[outcome]
column = "left"
values = ["well", "dead"]
rewards = [1, 0]
"""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
@pytest.mark.parametrize("command", ["fit-model", "fit-policy"])
def test_a_schema_is_read_from_a_pipe(command: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    pipe = tmp_path / "schema.toml"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=(SCHEMA,), daemon=True)
    writer.start()
    options = ["--schema", str(pipe), "--out", str(tmp_path / "out")]
    made = CliRunner().invoke(app, [command, str(tmp_path / "log.csv"), *options])
    assert made.exit_code == 0, made.output
    writer.join(timeout=10)
