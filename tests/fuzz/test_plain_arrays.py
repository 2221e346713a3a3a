"""No public call takes a masked array, whose hidden entries pass every comparison."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import calls
import numpy as np
import pytest

#: A record of what was checked where it was read; and laws, which look at their centre when used.
LEFT_OUT = {"PublicFacts", "GaussianLaw", "DiscreteGaussianLaw", "LaplaceLaw", "DiscreteLaplaceLaw"}


def masked(value: Any, rng: Random) -> Iterator[Any]:
    """Array-like numbers with some entries masked: as an array, and one in a list of rows."""
    try:
        array = np.asarray(value)
    except ValueError:
        return
    if array.dtype.kind in "biuf" and array.ndim and array.size:
        mask = np.zeros(array.shape, np.bool_)
        mask.flat[rng.sample(range(array.size), rng.randint(1, array.size))] = True
        yield np.ma.masked_array(array, mask)
        yield [np.ma.masked_array(array, mask)[0], *array[1:]]
        if array.ndim > 1:
            yield tuple(np.ma.masked_array(array, mask))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_call_takes_masked_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # for the files that calls write
    rng, tried, taken = Random(1), 0, []
    for name, call in calls.table().items():
        for argument, value in call.given().items():
            if name in LEFT_OUT or not isinstance(value, np.ndarray | list | tuple):
                continue
            for wrong in masked(value, rng):
                if isinstance(wrong, list) and not np.ma.is_masked(wrong[0]):
                    continue  # that row has none
                tried += 1
                try:
                    call.function(**call.given() | {argument: wrong})
                except (ValueError, TypeError):
                    continue
                taken.append(f"{name}({argument}={type(wrong).__name__})")
    assert tried > 150
    assert not taken
