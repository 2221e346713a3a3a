"""Every command and block of docs/environments.md does what the page says, in one folder."""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from typer.testing import CliRunner

from privrl.cli import app
from privrl.envs.wrappers import numbered

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"
BLOCKS = re.findall(r"^```(python|bash)\n(.*?)^```", PAGE.read_text(), re.M | re.S)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run in a folder of its own, and forget what is registered and imported there."""
    before = dict(gym.registry)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    gym.registry.clear()
    gym.registry.update(before)
    sys.modules.pop("my_module", None)


@pytest.mark.slow
def test_the_page_runs(folder: Path) -> None:
    names: dict[str, object] = {"__name__": "__page__"}
    commands = 0
    for kind, block in BLOCKS:
        if kind == "python" and block.startswith("# my_module.py"):
            Path("my_module.py").write_text(block)
            continue
        if kind == "python":
            exec(compile(block, "environments.md", "exec"), names)
            continue
        for line in block.splitlines():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "privrl"
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, (line, result.output)
            commands += 1
    assert commands >= 7
    env = names["env"]
    assert isinstance(env, gym.Env)
    assert env.observation_space.n == 10  # type: ignore[attr-defined] # a shop of five by two
    assert names["mdp"].optimal_value() == pytest.approx(8.0)  # type: ignore[attr-defined] # tables


def test_the_shop_passes_gymnasiums_own_checks(folder: Path) -> None:
    """Its rewards lie within the range that it declares."""
    block = next(block for _, block in BLOCKS if block.startswith("# my_module.py"))
    exec(compile(block, "environments.md", "exec"), {"__name__": "my_module"})
    env = numbered(gym.make("Shop-v0"))
    low, high = env.unwrapped.reward_range  # type: ignore[attr-defined] # declared
    rng, paid = np.random.default_rng(0), []
    for episode in range(50):
        env.reset(seed=episode)
        over = False
        while not over:
            _, reward, _, over, _ = env.step(rng.integers(3))
            paid.append(float(reward))
    assert low <= min(paid) < 0 < max(paid) <= high
