"""A method looks the same in every picture."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from privrl.agents.methods import AGENTS, SAMPLERS
from privrl.experiments import palette
from privrl.experiments.palette import BLUE, LOOKS, learner, look, looks, looks_of, shades

SOURCES = Path(palette.__file__).parent


def test_no_two_methods_look_alike_and_blue_is_one_of_them_alone() -> None:
    named = {name: each for name, each in LOOKS.items() if name not in ("q-learning", "other")}
    pairs = [(colour, marker) for colour, marker, _ in named.values()]
    assert len(set(pairs)) == len(pairs)
    blue = [name for name, (colour, *_) in LOOKS.items() if colour == BLUE]
    assert all(name == "gaussian" or name.startswith("noisy-counts:") for name in blue)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_agent_with_every_sampler_has_a_look(agent: str, sampler: str) -> None:
    assert learner(agent, sampler) in LOOKS.values()


def test_a_method_keeps_colour_and_marker_in_whatever_company() -> None:
    table = pd.DataFrame(
        {
            "method": ["a", "b", "c", "a"],
            "agent": ["psrl", "psrl", "ucbvi", "psrl"],
            "sampler": ["noisy-counts:optimal", "noisy-counts", "noisy-counts", "diffuse"],
        }
    )
    found = looks_of(table)
    assert list(found) == ["a", "b", "c"]
    assert found["b"] == looks([("alone", "gaussian")])["alone"] == look("gaussian")
    assert found["c"] == look("ucbvi")


def test_a_method_that_was_also_run_without_privacy_looks_as_it_does_with_it() -> None:
    table = pd.DataFrame(
        {"method": ["a", "b", "a"], "agent": ["ucbvi"] * 3,
         "sampler": ["non-private", "non-private", "noisy-counts"]}
    )  # fmt: skip
    assert looks_of(table) == {"a": look("ucbvi"), "b": look("no privacy")}


def test_a_method_that_comes_again_has_its_colour_and_a_marker_of_its_own() -> None:
    kinds = [(str(i), "diffuse") for i in range(6)] + [("other", "laplace")]
    found = looks(kinds)
    assert len({each["color"] for name, each in found.items() if name != "other"}) == 1
    assert len({each["marker"] for name, each in found.items() if name != "other"}) == 6
    assert found["0"] == look("diffuse")
    assert found["other"] == look("laplace")
    assert all(each["linestyle"] != "-" for each in list(found.values())[1:-1])


def test_what_nobody_named_has_a_look_too() -> None:
    found = looks((str(i), f"new {i}") for i in range(8))
    assert len({each["marker"] for each in found.values()}) == 8


def test_shades_grow_darker_and_none_is_blue() -> None:
    made = np.array([to_rgb(colour) for colour in shades(7)])
    light = made @ (0.2126, 0.7152, 0.0722)
    assert all(after < before - 0.02 for before, after in pairwise(light))
    assert light[0] < 0.7  # to be read on white
    assert (made[:, 2] < 2 * made[:, 0]).all()


def test_colours_are_named_in_one_place() -> None:
    """Any other may draw in greys and paler shades, not in colours of its own."""
    docs = SOURCES.parent / "docs" / "make"
    drawn = [*SOURCES.rglob("*.py"), *docs.glob("*.py")]
    assert len(drawn) > 60
    for path in drawn:
        named = re.findall(r'"#([0-9A-Fa-f]{6})"', path.read_text(encoding="utf-8"))
        greys = [each for each in named if len({each[i : i + 2] for i in (0, 2, 4)}) == 1]
        free = ("palette.py", "frames.py", "markup.py")
        assert path.name in free or named == greys, path
