"""Every public ``rng`` takes a generator, a seed or None (SPEC 7), and says which it was."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest

import privrl
from privrl.accounting import ApproxDP, RdpAccountant, RenyiDP
from privrl.costs import ReplaceStep
from privrl.envs import TabularMDP, riverswim
from privrl.mechanisms import LaplaceMechanism
from privrl.models import histogram
from privrl.numerics.randomness import SECRET, SEEDED, Rng, SecretGenerator, as_rng, secret_rng
from privrl.samplers import NoisyCounts, draw

#: Parts of a run, called again and again with the generator of the whole: a seed would give each
#: of them the same numbers.
PARTS = {"encode", "encode_counts", "update", "draw", "play", "sample of a posterior"}


def signatures() -> Iterator[tuple[str, inspect.Parameter]]:
    """Yield every public function and method that has an ``rng``, and its parameter."""
    found = pkgutil.walk_packages(privrl.__path__, "privrl.")
    names = ["privrl", *(each.name for each in found if each.ispkg and ".cli" not in each.name)]
    for name in names:
        package = importlib.import_module(name)
        for public in getattr(package, "__all__", ()):
            thing = getattr(package, public)
            inner = dir(thing) if inspect.isclass(thing) else ()
            for method in ("", *(each for each in inner if not each.startswith("_"))):
                called = getattr(thing, method) if method else thing
                if not callable(called):
                    continue
                try:
                    parameter = inspect.signature(called).parameters.get("rng")
                except ValueError:
                    continue
                if parameter is not None:
                    yield f"{public}.{method}".rstrip("."), parameter


def test_every_public_rng_may_be_a_generator_a_seed_or_left_out() -> None:
    seen = dict(signatures())
    assert len(seen) > 50
    parts = {name for name in seen if name.rpartition(".")[2] in PARTS}
    parts |= {"Posterior.sample", "ContinuousModel.sample", "ContinuousModel.sample_start"}
    strict = {
        name: parameter
        for name, parameter in seen.items()
        if name not in parts
        and (parameter.default is not None or set(_kinds(parameter)) != set(get_args(Rng)))
    }
    assert strict == {}


def _kinds(parameter: inspect.Parameter) -> tuple[Any, ...]:
    return get_args(parameter.annotation)


def test_a_generator_is_taken_as_it_is() -> None:
    for rng in (np.random.default_rng(3), secret_rng()):
        assert as_rng(rng) is rng


def test_none_is_secret() -> None:
    assert isinstance(as_rng(None), SecretGenerator)
    assert as_rng(None) is not as_rng(None)


@pytest.mark.parametrize("seed", [0, 7, np.int64(7), 2**70])
def test_a_number_is_a_seed(seed: int) -> None:
    numbers = as_rng(seed).random(5)
    assert (numbers == np.random.default_rng(int(seed)).random(5)).all()


@pytest.mark.parametrize("wrong", [-1, 0.0, "0", True, np.random, np.random.RandomState(0), [0]])
def test_nothing_else_is_taken(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"rng must be a numpy\.random\.Generator"):
        as_rng(wrong)


def test_a_seed_is_known_and_statements_say_so() -> None:
    def release(rng: Rng) -> Any:
        return histogram([1, 2, 3, 3], [0, 2, 6], target=ApproxDP(1, 1e-5), rng=rng)

    assert release(None).randomness == SECRET
    assert release(4).randomness == SEEDED
    assert (release(4).probabilities == release(np.random.default_rng(4)).probabilities).all()


def test_releases_and_runs_repeat_with_a_seed_and_not_without() -> None:
    mechanism, counts = LaplaceMechanism(scale=2.0), np.array([4.0, 5.0, 6.0])
    assert (mechanism.release(counts, 1) == mechanism.release(counts, 1)).all()
    assert (mechanism.release(counts) != mechanism.release(counts)).all()
    mdp: TabularMDP = riverswim(4, 6)
    policy = np.zeros((6, 4), int)
    one, other = (mdp.rollout_counts(policy, 50, 5) for _ in range(2))
    assert (one == other).all()


def test_draws_of_a_run_take_no_seed() -> None:
    """Each would have the noise of the one before, and their difference none."""
    sampler = NoisyCounts.calibrated(RenyiDP(2, 1.0), draws=3, relation=ReplaceStep())
    accountant, updates = RdpAccountant(), [(sampler, np.ones((4, 2, 4)))]
    with pytest.raises(ValueError, match=r"rng must be a numpy\.random\.Generator"):
        draw(accountant, updates, 9)  # type: ignore[arg-type] # is refused
    assert not accountant.journal
    (first,) = draw(accountant, updates)
    assert len(accountant.journal) == 1
    (other,) = draw(RdpAccountant(), [(sampler.fresh(), np.ones((4, 2, 4)))])
    assert (first.mean != other.mean).any()
