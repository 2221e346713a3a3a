"""`privrl reproduce`, of every figure, as a user types it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from privrl.cli import app
from privrl.experiments.figures import FIGURES

FAST = ("bay-fig2",)  # its table is a part of a larger one


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in FAST else pytest.mark.slow) for each in FIGURES]
)
def test_every_figure_is_made_and_kept(name: str, tmp_path: Path) -> None:
    """The second time its table is read from the file, and gives the same files."""
    made: list[dict[str, bytes]] = []
    for _ in range(2):
        done = CliRunner().invoke(
            app, ["reproduce", name, "--quick", "--workers", "1", "--force", "--out", str(tmp_path)]
        )
        assert done.exit_code == 0, done.output
        made.append({file.name: file.read_bytes() for file in tmp_path.glob(f"{name}.*")})
    assert sorted(made[0]) == [f"{name}.{kind}" for kind in ("csv", "md", "png", "svg")]
    assert made[0] == made[1]
