"""What would not fit into memory is refused before it starts, in words that help."""

from dataclasses import replace

import pytest

from privrl.agents.methods import Method
from privrl.experiments.memory import check_memory
from privrl.experiments.training import TrainSpec, run, run_training

ICU = (716, 25, 717)  # 0.103 GB
NOISY = Method()  # 188 draws in 100,000 episodes


def test_a_single_run_is_told_what_to_declare_or_to_lower() -> None:
    draws = len(run.make_agent.__globals__["schedule_named"](NOISY.schedule).starts(100_000))
    needed = 8e-9 * 716 * 25 * 717 * draws
    with pytest.raises(ValueError, match="env must have tables that fit into memory") as caught:
        check_memory(NOISY, ICU, 100_000)
    words = str(caught.value)
    assert f"716 states and 25 actions for {NOISY.label!r}, {needed:.1f} GB" in words
    assert "public (support), or take the sampler noisy-counts:buffered" in words
    assert words.endswith("or draw less often (schedule).")
    for fits in ("noisy-counts:buffered", "non-private", "diffuse"):
        check_memory(replace(NOISY, sampler=fits, label=""), ICU, 100_000)
    check_memory(NOISY, (716, 25, 10), 100_000)
    check_memory(NOISY, ICU, 10)


def test_a_table_that_is_too_large_itself() -> None:
    big = (3000, 10, 3000)
    for method in (NOISY, Method(sampler="non-private")):
        with pytest.raises(ValueError, match=r"0.7 GB for each of several tables; make the poss"):
            check_memory(method, big, 3)
    with pytest.raises(ValueError, match=r"several tables; number fewer states\."):
        check_memory(Method(sampler="non-private", support=True), big, 3)
    with pytest.raises(ValueError, match=r"block must .* got 7 runs .* not one fits; make the p"):
        check_memory(NOISY, big, 3, runs=7)


def test_training_refuses_before_it_makes_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """500 states, 6 actions: 0.012 GB a draw."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(run, "make_agent", never)
    spec = TrainSpec(env="Taxi-v4", episodes=1000, method=Method(schedule="every-episode"))
    with pytest.raises(ValueError, match=r"env must .* 500 states and 6 .* 12.0 GB for what is"):
        run_training(spec)
    with pytest.raises(AssertionError):
        run_training(replace(spec, method=replace(spec.method, support=True)))
