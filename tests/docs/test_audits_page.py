"""What the page of audits tells readers to do, done."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "audits.md"


@pytest.mark.slow
def test_the_examples_run_and_find_what_they_say() -> None:
    """Noise from fresh entropy: a false alarm about once in a million runs."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 4
    shown: list[Any] = []
    exec("\n".join(blocks), {"print": lambda *values, **_: shown.append(values)})
    (violated, found, _), (audit,), (again,), (apart,), (replayed,) = shown
    assert not violated
    assert found == again == ()
    assert not apart.violated
    assert "inputs differ by (-1, +2)" in replayed
    assert audit.epsilon_lower < 1.5 * audit.claimed
