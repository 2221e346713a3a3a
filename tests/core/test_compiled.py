"""When compiled functions take over, and what happens where there are none."""

import math
import sys
from typing import Any

import pytest

from privrl.numerics import compiled
from privrl.numerics.compiled import Compiled


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> Compiled[[float], str]:
    """Return a plain function and its twin, which decides of positive numbers alone."""

    class Kernels:
        @staticmethod
        def quick(x: float) -> str | None:
            return f"quick {x:g}" if x > 0 else None

    monkeypatch.setattr(Compiled, "_taken", 0.0)
    monkeypatch.setitem(sys.modules, "privrl.numerics.kernels", Kernels)  # type: ignore[arg-type] # stands for a module
    return Compiled(lambda x: f"plain {x:g}", "quick")


def test_the_plain_function_is_taken_until_compiling_pays(
    twins: Compiled[[float], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 2.0, 10.0, 12.0, 20.0, 22.0])
    monkeypatch.setattr(compiled, "perf_counter", clock.__next__)
    monkeypatch.setattr(compiled, "_WORTH", 5.0)
    assert [twins(1.0) for _ in range(4)] == ["plain 1", "plain 1", "plain 1", "quick 1"]


def test_all_of_them_wait_together(
    twins: Compiled[[float], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes the time is done for all of them at once."""
    clock = iter([0.0, 4.0, 10.0, 12.0])
    monkeypatch.setattr(compiled, "perf_counter", clock.__next__)
    monkeypatch.setattr(compiled, "_WORTH", 5.0)
    others = Compiled(lambda x: f"other {x:g}", "quick")
    assert [twins(1.0), others(1.0), others(1.0), twins(1.0)] == [
        "plain 1", "other 1", "quick 1", "quick 1",
    ]  # fmt: skip


def test_the_plain_function_decides_what_its_twin_does_not(
    twins: Compiled[[float], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "_WORTH", 0.0)
    assert [twins(1.0), twins(-1.0)] == ["quick 1", "plain -1"]


def test_without_numba_the_plain_function_is_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "privrl.numerics.kernels", raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)  # type: ignore[arg-type] # importing it fails
    monkeypatch.setattr(compiled, "_WORTH", 0.0)
    assert Compiled[Any, float](math.sqrt, "candidates")(4.0) == 2.0
