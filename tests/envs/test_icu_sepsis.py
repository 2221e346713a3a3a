"""ICU-Sepsis is read from its package without running it, and has the values that are known."""

import os
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from privrl.envs import icu_sepsis
from privrl.envs.suite import Benchmark

INSIDE = "icu_sepsis/envs/assets/dynamics.npz"
WHEEL = os.environ.get("PRIVRL_ICU_SEPSIS")  # a path


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half of all patients survive the first dose, with action 3; nobody any other."""
    transition = np.zeros((716, 25, 716))
    transition[:713, :, 713] = 1
    transition[:713, 3, 713:715] = 0.5
    transition[713:, :, 715] = 1
    path = tmp_path_factory.mktemp("icu") / "dynamics.npz"
    np.savez_compressed(path, tx_mat=transition, d_0=np.eye(716)[5], expert_policy=np.eye(3))
    return path


def test_it_is_read_from_a_file_a_wheel_and_a_package_that_is_not_run(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "icu_sepsis-2.0.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("icu_sepsis/__init__.py", "import gym")
        file.write(tables, INSIDE)
        file.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    for mdp in (icu_sepsis(tables), icu_sepsis(str(wheel), horizon=2), icu_sepsis()):
        assert (mdp.n_states, mdp.n_actions) == (716, 25)
        assert mdp.horizon in (2, 20)
        policy, value = mdp.plan()
        assert value == 0.5
        assert policy[0, 5] == 3
        assert mdp.policy_value(0 * policy) == 0
        assert mdp.reward_range == (0, 1)
        assert (mdp.reward[:, :, 714] == 1).all()  # on arrival
        assert mdp.reward.sum() == 716 * 25
    assert "icu_sepsis" not in sys.modules


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["privrl.envs.icu_sepsis"], "find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"is not installed; 'pip download --no-deps icu-sepsis'"):
        icu_sepsis()
    with pytest.raises(FileNotFoundError):
        icu_sepsis(tmp_path / "nowhere.whl")
    text, other, small = (tmp_path / name for name in ("text", "other.whl", "small.npz"))
    text.write_text("no tables")
    with zipfile.ZipFile(other, "w") as file:
        file.writestr("other/__init__.py", "")
    np.savez(small, tx_mat=np.ones((2, 1, 2)) / 2, d_0=np.ones(2) / 2)
    for wrong in (text, other, small):
        with pytest.raises(ValueError, match=r"path must be a wheel of icu-sepsis or its dynamics"):
            icu_sepsis(wrong)


@pytest.mark.skipif(
    not (WHEEL or find_spec("icu_sepsis")),
    reason="no ICU-Sepsis: 'pip download --no-deps icu-sepsis', and PRIVRL_ICU_SEPSIS says where",
)
@pytest.mark.parametrize(
    ("horizon", "best", "chance"),
    [(20, 0.792216, 0.685447), (500, 0.875142, 0.780071)],  # the package says .88 and .78
)
def test_known_values(horizon: int, best: float, chance: float) -> None:
    mdp = icu_sepsis(WHEEL, horizon=horizon)
    benchmark = Benchmark("ICU-Sepsis", lambda: mdp, 1, "judged")
    assert benchmark.optimal_value == pytest.approx(best, abs=1e-6)
    assert benchmark.random_value == pytest.approx(chance, abs=1e-6)
