"""``import privrl`` is enough for Gymnasium to know the environments, and stays quick."""

import subprocess
import sys

import pytest

MAKE = 'gymnasium.make("privrl/RiverSwim-v0").reset(seed=0)'
NAMES = 'print(*sorted(name for name in gymnasium.registry if name.startswith("privrl/")))'
IDS = (
    "Blackjack", "CartPole", "Released", "ReleasedContinuous", "RiverSwim", "RiverSwimDPS",
    "Tabular",
)  # fmt: skip


def output(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.few(5)
@pytest.mark.parametrize(
    "imports",
    [
        "import privrl, gymnasium",
        "import gymnasium, privrl",
        "import privrl, importlib.util as u; u.find_spec('gymnasium'); import gymnasium",
        "import privrl, importlib; importlib.reload(privrl); import gymnasium",
        "import privrl.data, gymnasium",
    ],
)
def test_importing_privrl_registers_the_environments(imports):
    expected = " ".join(f"privrl/{name}-v0" for name in IDS)
    assert output(f"{imports}; {NAMES}; {MAKE}") == expected


@pytest.mark.slow
def test_waiting_for_gymnasium_is_quick_and_ends():
    hooks = "import sys; print(len(sys.meta_path))"
    loaded = "{'numpy', 'gymnasium'} & set(sys.modules)"
    assert output(f"import privrl, sys; print(len({loaded}))") == "0"
    assert int(output(f"import privrl; {hooks}")) == int(output(hooks)) + 1
    assert output(f"import privrl, gymnasium; {hooks}") == output(f"import gymnasium; {hooks}")
