"""Randomness: nobody can foretell it, and no two releases share it, wherever they are made."""

import copy
import multiprocessing
import os
import pickle
import re
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forks import forked, needs_forks
from joblib import Parallel, delayed
from scipy import stats

import privrl
from privrl.accounting import RdpAccountant, RenyiDP
from privrl.agents import PSRL, Transition
from privrl.envs import riverswim
from privrl.mechanisms import DiscreteGaussianMechanism
from privrl.numerics import processes as _processes
from privrl.numerics.checks import check_rng
from privrl.numerics.randomness import SECRET, SEEDED, SecretGenerator, randomness_of, secret_rng
from privrl.samplers import NoisyCounts
from privrl.samplers.base import draw

ROOT = Path(__file__).parents[2]
COUNTS = np.array([5.0, 0.0, 7.0, 30.0])
ELSEWHERE = "in the process that"


def release(rng: np.random.Generator | None, _: object = None) -> tuple[int, ...]:
    """Return the noise of a release of 8 empty cells: of 500 values each, none comes twice."""
    mechanism = DiscreteGaussianMechanism(sigma=200.0)
    noisy = mechanism.release(np.zeros(8), secret_rng() if rng is None else rng)
    return tuple(noisy.astype(int).tolist())


# The generator ---------------------------------------------------------------------------------


def test_it_is_aes_in_counter_mode_under_the_key_of_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The example of FIPS 197, appendix C.1: this key makes this block of that one.
    key, block = bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff")
    asked = []

    def system(bits: int) -> int:
        asked.append(bits)
        return int.from_bytes(key, "little")

    monkeypatch.setattr(secrets, "randbits", system)
    bits = secret_rng().bit_generator
    state = bits.state  # four blocks are made at a time, of four counters of two words
    state["s"]["counter"] = np.frombuffer(block * 4, "<u8").astype(np.uint64)
    bits.state = state
    assert bits.random_raw(2).astype("<u8").tobytes().hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"
    assert asked == [128]


def test_it_is_a_generator_like_others() -> None:
    rng = privrl.secret_rng()
    assert isinstance(rng, np.random.Generator)
    # False alarm 1e-6 each: these are laws of a million draws.
    assert stats.kstest(rng.random(100_000), "uniform").pvalue > 1e-6
    assert stats.kstest(rng.standard_normal(100_000), "norm").pvalue > 1e-6
    check_rng(rng)


def test_no_two_share_anything() -> None:
    first = secret_rng()
    several = [
        first,
        secret_rng(),
        copy.copy(first),
        copy.deepcopy(first),
        pickle.loads(pickle.dumps(first)),
        pickle.loads(pickle.dumps(first)),
        *first.spawn(2),
    ]
    assert all(isinstance(each, SecretGenerator) for each in several)
    assert len({each.integers(2**62) for each in several}) == len(several)


def test_what_is_said_of_it() -> None:
    assert randomness_of(secret_rng()) == SECRET
    assert randomness_of(np.random.default_rng(3)) == SEEDED
    assert "not private" in SEEDED


def test_an_agent_without_a_generator_has_it() -> None:
    agent = PSRL.private(riverswim(), epsilon=1.0, episodes=10)
    assert randomness_of(agent.rng) == SECRET


def test_the_library_makes_no_other_where_no_seed_is_given() -> None:
    of_numpy = re.compile(
        r"default_rng\(\)|SeedSequence\(\)|PCG64\(\)|np\.random\.seed|RandomState"
    )
    for folder in ("privrl", "agents", "envs", "experiments"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not of_numpy.search(path.read_text()), path


# Forks -----------------------------------------------------------------------------------------

GENERATORS = {"secret": secret_rng, "NumPy's": np.random.default_rng}
each_generator = pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)


@pytest.mark.few(2)
@needs_forks
@each_generator
def test_a_release_in_a_child_is_refused_and_costs_nothing(make) -> None:
    rng, mechanism = make(), DiscreteGaussianMechanism(sigma=2.0)

    def ask() -> Any:
        accountant = RdpAccountant()
        with pytest.raises(ValueError, match=ELSEWHERE):
            draw(accountant, [(NoisyCounts(sigma=2.0, updates=2), COUNTS)], rng)
        with pytest.raises(ValueError, match=ELSEWHERE) as caught:
            mechanism.release(COUNTS, rng, accountant=accountant)
        return str(caught.value), float(accountant.spent(2.0))

    message, spent = forked(ask)
    assert "privrl.secret_rng()" in message
    assert spent == 0
    assert len({release(rng), release(rng)}) == 2  # and here it goes on


@pytest.mark.slow
@needs_forks
def test_an_accountant_of_another_process_is_refused() -> None:
    """What is charged to its copy here would be known to nobody there."""
    accountant = RdpAccountant(budget=RenyiDP(2, 1.0))
    sent, mechanism = pickle.dumps(accountant), DiscreteGaussianMechanism(sigma=2.0)
    for found in (lambda: accountant, lambda: pickle.loads(sent), lambda: copy.copy(accountant)):
        error = forked(
            lambda found=found: mechanism.release(COUNTS, secret_rng(), accountant=found())
        )
        assert "accountant must be charged in the process that made it" in str(error)
    mechanism.release(COUNTS, secret_rng(), accountant=accountant)  # and here it goes on
    assert "made it" in str(forked(lambda: accountant.compose(mechanism.cost)))
    assert forked(lambda: float(accountant.spent(2.0))) > 0  # what it knows it tells anywhere


@pytest.mark.few(2)
@needs_forks
@each_generator
def test_a_new_face_for_what_drives_it_is_refused(make) -> None:
    rng = make()
    driver = rng.bit_generator
    error = forked(lambda: release(np.random.Generator(driver)))
    assert ELSEWHERE in str(error)


@pytest.mark.few(2)
@needs_forks
@each_generator
def test_a_childs_own_is_not(make) -> None:
    rng = make()
    here = release(rng)
    assert len({forked(lambda: release(make())), forked(lambda: release(make())), here}) == 3


@pytest.mark.slow
@needs_forks
def test_it_refuses_by_itself() -> None:
    rng = secret_rng()
    for ask in (lambda: rng.random(3), lambda: rng.spawn(1), lambda: rng.bit_generator):
        assert ELSEWHERE in str(forked(ask))
    assert forked(lambda: f"{rng} {rng!r}").count("of another process") == 2


@pytest.mark.slow
@needs_forks
def test_a_method_taken_out_before_draws_something_else() -> None:
    rng = secret_rng()
    take, bits = rng.random, rng.bit_generator
    drawn = [forked(take), forked(take), take(), forked(bits.random_raw), bits.random_raw()]
    assert len({*drawn}) == len(drawn)


@pytest.mark.slow
@needs_forks
def test_a_copy_in_a_child_has_randomness_of_its_own() -> None:
    rng = secret_rng()
    drawn = [forked(lambda: copy.copy(rng).random()) for _ in range(2)]
    assert len({*drawn, rng.random()}) == 3


@needs_forks
def test_a_fork_that_python_is_not_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = secret_rng()
    with monkeypatch.context() as patched:
        patched.setattr(_processes.os, "getpid", lambda: 2**22 + 1)
        with pytest.raises(ValueError, match=ELSEWHERE):
            release(rng)
    release(rng)


@needs_forks
def test_a_child_with_its_parents_number_is_another_process() -> None:
    before, number = _processes.this_process(), os.getpid()

    def ask() -> bool:
        os.getpid = lambda: number
        return _processes.this_process() == before

    assert forked(ask) is False


@pytest.mark.few(2)
@needs_forks
@each_generator
def test_a_used_sampler(make) -> None:
    sampler, accountant = NoisyCounts(sigma=2.0, updates=9), RdpAccountant()
    draw(accountant, [(sampler, COUNTS)], make())

    def ask() -> Any:
        own = RdpAccountant()
        with pytest.raises(ValueError, match="one process") as caught:
            draw(own, [(sampler, COUNTS)], make())
        draw(own, [(sampler.fresh(), COUNTS)], make())
        return str(caught.value)

    assert "sampler.fresh()" in forked(ask)
    draw(accountant, [(sampler, COUNTS)], make())


@pytest.mark.slow
@needs_forks
def test_an_unused_sampler_is_settings_alone() -> None:
    sampler = NoisyCounts(sigma=2.0, updates=9)
    sampler.check(COUNTS)

    def ask() -> int:
        accountant = RdpAccountant()
        for _ in range(3):
            draw(accountant, [(sampler, COUNTS)], secret_rng())
        return sampler._done

    assert forked(ask) == 3


@pytest.mark.few(2)
@needs_forks
@each_generator
def test_an_agent(make) -> None:
    agent = PSRL.private(riverswim(), epsilon=1.0, episodes=10, rng=make())

    def begin() -> float:
        with pytest.raises(ValueError, match=ELSEWHERE):
            agent.begin_episode(0)
        with pytest.raises(ValueError, match=ELSEWHERE):
            copy.copy(agent)
        return float(agent.accountant.spent(2.0))

    assert forked(begin) == 0
    agent.begin_episode(0)
    agent.observe(Transition(0, 1, 0.0, 1))


@pytest.mark.slow
@needs_forks
def test_an_agent_though_its_generator_is_replaced() -> None:
    agent = PSRL.private(riverswim(), epsilon=1.0, episodes=10)

    def begin() -> None:
        agent._rng = secret_rng()
        agent.begin_episode(0)

    assert "agent must be used" in str(forked(begin))


# Other processes, and threads ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("rng", [None, secret_rng()], ids=["made there", "sent there"])
def test_processes_share_no_noise(method: str, rng: np.random.Generator | None) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} on this system")
    with multiprocessing.get_context(method).Pool(2) as pool:
        noise = pool.starmap(release, [(rng, i) for i in range(6)], chunksize=1)
    _all_differ([*noise, release(rng), release(rng)])


@pytest.mark.slow
def test_workers_of_loky_share_no_noise() -> None:
    rng = secret_rng()
    noise = Parallel(n_jobs=2, backend="loky")(delayed(release)(rng, i) for i in range(6))
    _all_differ([*noise, release(rng)])


@pytest.mark.needs("distributed")
@pytest.mark.slow
def test_workers_of_dask_share_no_noise() -> None:
    distributed = pytest.importorskip(
        "distributed", reason="no distributed: pip install 'privrl[dask]'"
    )
    rng = secret_rng()
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        noise = client.gather([client.submit(release, rng, i, pure=False) for i in range(6)])
    _all_differ([*noise, release(rng)])


def test_threads_share_a_generator_but_no_noise() -> None:
    rng, together = secret_rng(), threading.Barrier(8)

    def many(_: int) -> list[int]:
        together.wait()
        return [int(rng.integers(2**62)) for _ in range(5_000)]

    with ThreadPoolExecutor(8) as pool:
        drawn = [number for each in pool.map(many, range(8)) for number in each]
    assert len({*drawn}) == len(drawn)


def _all_differ(noise: list[tuple[int, ...]]) -> None:
    """Of 500 values a cell, eight cells of two releases are the same with chance 1e-21."""
    assert len({*noise}) == len(noise)


def test_an_unused_sampler_is_sent_to_another_process() -> None:
    sampler = pickle.loads(pickle.dumps(NoisyCounts(sigma=2.0, updates=9)))
    accountant = RdpAccountant(budget=RenyiDP(2, 1e6))
    for _ in range(2):
        draw(accountant, [(sampler, COUNTS)], secret_rng())
