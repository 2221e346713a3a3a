"""Generators side by side: rows of their own, and no way of drawing that has none."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from privrl.numerics.randomness import VectorisedGenerator, by_row, columns, generators

N = np.arange(12).reshape(2, 6)
WAYS: dict[str, Callable[[np.random.Generator, slice], Any]] = {
    "random": lambda rng, rows: rng.random(N[rows].shape),
    "standard_normal": lambda rng, rows: rng.standard_normal(N[rows].shape),
    "standard_exponential": lambda rng, rows: rng.standard_exponential(N[rows].shape),
    "standard_gamma": lambda rng, rows: rng.standard_gamma(N[rows] + 1.0),
    "binomial": lambda rng, rows: rng.binomial(N[rows], np.linspace(0, 1, 6)),
    "by_row": lambda rng, rows: by_row(lambda n, own: own.poisson(n), rng, N[rows]),
}


def each() -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in (1, 2)]


@pytest.mark.parametrize("way", WAYS)
def test_rows_are_those_of_each_alone(way: str) -> None:
    drawn, alone = WAYS[way](VectorisedGenerator(each()), slice(None)), each()
    for i in range(2):
        want = WAYS[way](alone[i], slice(i, i + 1))
        assert_array_equal(drawn[i], want[0])


def test_columns_are_divided() -> None:
    drawn, (first, second) = columns(VectorisedGenerator(each()), (3, 4)), each()
    assert_array_equal(drawn, np.hstack([first.random((3, 2)), second.random((3, 2))]))
    with pytest.raises(ValueError, match="columns must have a row for each generator"):
        columns(VectorisedGenerator(each()), (3, 5))


def test_one_generator_is_itself() -> None:
    (rng,) = generators(np.random.default_rng(3))
    assert columns(rng, (2, 2)).shape == (2, 2)
    assert len(generators(VectorisedGenerator(each()))) == 2


REFUSED = ("integers", "multinomial", "choice", "spawn", "gamma", "permuted")


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_rows_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must have a row for each generator"):
        getattr(VectorisedGenerator(each()), name)(2)


def test_other_numbers_of_rows_are_refused() -> None:
    for draw in (lambda rng: rng.random((3, 2)), lambda rng: rng.standard_gamma(np.ones((3, 2)))):
        with pytest.raises(ValueError, match="must have a row for each generator"):
            draw(VectorisedGenerator(each()))
