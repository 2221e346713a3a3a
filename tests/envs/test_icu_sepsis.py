"""ICU-Sepsis is read from its package without running it, and has the values that are known."""

import os
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from fake_icu import ACTIONS, write_actions, write_tables, write_wheel

from privrl.envs.icu_sepsis import icu_sepsis, icu_sepsis_choices
from privrl.envs.suite import Benchmark

WHEEL = os.environ.get("PRIVRL_ICU_SEPSIS")  # a path


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("icu"))


@pytest.mark.slow
def test_it_is_read_from_a_file_a_wheel_and_a_package_that_is_not_run(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "icu_sepsis-2.0.1-py3-none-any.whl"
    write_wheel(tables, wheel)
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    for mdp in (icu_sepsis(tables), icu_sepsis(str(wheel), horizon=2), icu_sepsis()):
        assert (mdp.n_states, mdp.n_actions) == (716, 25)
        assert mdp.horizon in (2, 20)
        policy, value = mdp.plan()
        assert value == 0.5
        assert policy[0, 0] == 3
        assert mdp.policy_value(0 * policy) == 0
        assert mdp.reward_range == (0, 1)
        assert (mdp.reward[:, :, 714] == 1).all()  # on arrival
        assert mdp.reward.sum() == 716 * 25
    for place in (tables, wheel, None):
        admissible, expert = icu_sepsis_choices(place)
        assert [list(np.flatnonzero(row)) for row in admissible] == ACTIONS
        assert expert[0, 5] == 1  # 7 is not admissible
        assert (expert[1:713, 3] == 1).all()  # nothing is known, and there is no choice
        np.testing.assert_allclose(expert.sum(axis=1), 1)
    assert "icu_sepsis" not in sys.modules


@pytest.mark.parametrize("actions", [ACTIONS[:-1], [*ACTIONS, [1]], [[25], *ACTIONS[1:]],
                                     [[], *ACTIONS[1:]]])  # fmt: skip
def test_admissible_actions_that_are_none_are_refused(
    actions: list[list[int]], tables: Path, tmp_path: Path
) -> None:
    (tmp_path / "dynamics.npz").write_bytes(tables.read_bytes())
    write_actions(tmp_path, actions)
    with pytest.raises(ValueError, match=r"path must be a wheel of icu-sepsis or its dynamics"):
        icu_sepsis_choices(tmp_path / "dynamics.npz")


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
        with pytest.raises(ValueError, match=r"path must be a wheel of icu-sepsis or its dynamics"):
            icu_sepsis_choices(wrong)


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
