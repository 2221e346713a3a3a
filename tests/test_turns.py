"""What takes long is done in turns, and no turn leaves anything to nobody."""

from argparse import ArgumentTypeError

import pytest
from turns import Turn


def test_each_name_has_one_turn() -> None:
    names = [f"tests/test_{i}.py::test_{i % 7}" for i in range(300)]
    turns = [Turn.parse(f"{k}/3") for k in range(3)]
    for name in names:
        assert sum(turn.has(name) for turn in turns) == 1
    for turn in turns:
        assert 70 < sum(map(turn.has, names)) < 130


@pytest.mark.parametrize("text", ["", "3", "3/3", "0/0", "-1/3", "a/3", "1/3/4", "1.0/3"])
def test_what_is_no_turn_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="K/N with 0 <= K < N, such as 0/3"):
        Turn.parse(text)
