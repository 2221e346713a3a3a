"""Every public name that takes private data is known, with the tests that hand it all containers.

Public names are found by walking the packages. A new one with an argument of such a name, or a new
method, fails here until it is listed.
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("sklearn", reason="no sklearn: pip install 'privrl[models]'")

TESTS: Final = Path(__file__).parent
PACKAGES: Final = (
    *("accounting", "agents", "audit", "continuous", "costs", "data", "data.logs", "data.schema"),
    *("envs", "experiments", "mechanisms", "models", "offline", "samplers"),
)
#: Names of arguments that private data come in by.
DATA: Final = {
    *("X", "y", "frame", "values", "series", "log", "episodes", "source", "counts", "data", "seen"),
    *("dataset", "observed", "terminated", "folder", "records"),
}


RECORDS: Final = "models/test_containers_of_records.py"
EPISODES: Final = "data/test_containers_of_episodes.py"

#: What takes private data, by patterns of names, and the test that hands it containers.
READERS: Final[dict[str, str]] = {
    r"data(\.schema)?\.(Bins|Categories|Schema)\.encode": RECORDS,
    r"models\.(histogram|value_counts|discretise|PrivateBayesNet\.fit)": RECORDS,
    r"models\.Private\w+\.(fit|predict\w*|score)": RECORDS,
    r"models\.read_partitioned_records": "models/test_partitioned_records.py",
    r"data\.logs\.(read_log|read_partitions)": "data/test_person_by_person.py",
    r"data\.logs\.from_minari": EPISODES,
    r"continuous\.(ContinuousLog\.\w+|read_continuous_log)": (
        "continuous/test_containers_of_steps.py"
    ),
    r"continuous\.ContinuousLog": "continuous/test_episodes.py",
    r"continuous\.fit_continuous_model": "continuous/test_fit.py",  # logs alone
    r"offline\.(fit_policy|fit_model|evaluate_policy)": "offline/test_before_anything_is_spent.py",
    r"agents\.\w+\.observe": EPISODES,
    r"agents\.\w+\.observe_(steps|counts)": "agents/test_masked_steps.py",
    r"agents\.\w+Rewards\.(check|update|encode_counts)": "agents/test_rewards.py",
    r"mechanisms\.\w+\.(check|release)": "core/test_mechanism_contract.py",
    r"mechanisms\.PosteriorExponentialMechanism\.probabilities": (
        "core/test_posterior_exponential.py"
    ),
    r"samplers\.\w+\.(check|update)": "core/test_samplers.py",
    r"audit\.audit_(mechanism|replay)": "core/test_audit.py",  # of made-up data
}
#: What has arguments of such names that are public: domains, settings, files of released data.
PUBLIC: Final = (
    r".*\.(from_dict|from_plain|of_page)",
    r"accounting\.Ledger\.\w+",  # the names of data sets
    r"agents\.(\w+\.(learn|schedule_of|starts|private|play)|Checkpoint|QLearning|SparsePSRL)",
    r"continuous\.(Choice|(Choice|Number)\.inside)",  # `inside` is of what was read already
    r"data(\.schema)?\.Categories",
    r"envs\.(Ranged\.state_of|TabularMDP\.rollout_counts)",
    r"experiments\.(train|\w+Spec|Method\.draws_of)",
    r"offline\.LoggedPolicy",
    r"mechanisms\.\w+\.expected_error",
)


def members() -> Iterator[tuple[str, Any]]:
    """Public functions, and public methods of public classes, by their names."""
    for package in PACKAGES:
        module = import_module(f"privrl.{package}")
        for name in module.__all__:
            each = getattr(module, name)
            if inspect.isclass(each):
                for of, method in inspect.getmembers(each, callable):
                    if of == "__init__" or not of.startswith("_"):
                        yield f"{package}.{name}" + ("" if of == "__init__" else f".{of}"), method
            elif callable(each):
                yield f"{package}.{name}", each


def takes(function: Any) -> set[str]:
    try:
        return {*inspect.signature(function).parameters} & DATA
    except (TypeError, ValueError):
        return set()


TAKEN: Final = [name for name, function in members() if takes(function)]


@pytest.mark.parametrize("name", TAKEN)
def test_what_takes_private_data_has_a_test_of_its_containers(name: str) -> None:
    of = {test for pattern, test in READERS.items() if re.fullmatch(pattern, name)}
    is_public = any(re.fullmatch(pattern, name) for pattern in PUBLIC)
    assert bool(of) != is_public, f"list {name} in READERS, with a test of containers, or in PUBLIC"
    assert all((TESTS / test).is_file() for test in of)


def test_no_name_that_is_listed_is_gone() -> None:
    for pattern in (*READERS, *PUBLIC):
        assert any(re.fullmatch(pattern, name) for name in TAKEN), pattern
