"""The catalogue fits the library as it is, and the runner takes for killed only what a test saw."""

import subprocess
import sys
from pathlib import Path

import pytest
from mutant import HERE, catalogue

SEEN = "core/test_cost_contract.py::test_count_means_repetition"

CASES = f"""\
# Each is of another fate.
accounting.rdp: seen
- self._pending.add(part, count)
+ self._pending.add(part, 1)
fast: {SEEN}

accounting.rdp: a number that no test looks at
- _FEW = 32
+ _FEW = 33
fast: {SEEN}

accounting.rdp: a module that cannot be imported
- _FEW = 32
+ raise ValueError
fast: {SEEN}

accounting.rdp: a text that is not there
- no such text
+ nor this
fast: {SEEN}

accounting.rdp: a test that is not there
- _FEW = 32
+ _FEW = 33
fast: core/test_cost_contract.py::test_that_is_not_there

accounting.rdp: for ever
- self._pending.add(part, count)
+ while True: pass
hangs: {SEEN}

accounting.rdp: the same in other words
- _FEW = 32
+ _FEW = 2**5
fast: {SEEN}
equivalent: 32 is 32.

accounting.rdp: not the same at all
- for part in parts:
-                 self._pending.add(part, count)
+ for part in parts:
+                 self._pending.add(part, 2)
fast: {SEEN}
equivalent: so it is said.
"""


def test_every_mutation_can_be_made() -> None:
    """Whoever changes a text that a mutant replaces is told so here."""
    mutants, wrong = catalogue(), []
    for mutant in mutants:
        try:
            mutant.check()
        except ValueError as error:
            wrong.append(f"{mutant}: {error}")
    assert not wrong, "\n".join(wrong)
    assert len(mutants) > 100
    assert sum(mutant.speed == "fast" for mutant in mutants) > 50


@pytest.mark.slow
def test_what_the_runner_takes_for_killed(tmp_path: Path) -> None:
    (tmp_path / "cases.txt").write_text(CASES)
    command = [sys.executable, str(HERE / "run.py"), "-j1", "--catalogue", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if "accounting.rdp: " in line]
    fates = {
        line.partition("accounting.rdp: ")[2]: line.split(" s ")[0].split()[:-1] for line in lines
    }
    assert fates == {
        "seen": ["killed"],
        "a number that no test looks at": ["!", "survived"],
        "a module that cannot be imported": ["!", "broken"],
        "a text that is not there": ["!", "broken"],
        "a test that is not there": ["!", "broken"],
        "for ever": ["hung"],
        "the same in other words": ["equivalent"],
        "not the same at all": ["!", "killed"],
    }, done.stdout + done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    "text",
    ["accounting: no text\nfast: a::b", "no name\n- a\n+ b\nfast: a::b", "a: b\n- c\n+ d\nfats: e"],
)
def test_paragraphs_of_another_form_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "cases.txt").write_text(text)
    with pytest.raises(ValueError, match="form"):
        catalogue(tmp_path)


def test_names_differ(tmp_path: Path) -> None:
    paragraph = "accounting: twice\n- a\n+ b\nfast: c\n"
    (tmp_path / "cases.txt").write_text(f"{paragraph}\n{paragraph}")
    with pytest.raises(ValueError, match="twice"):
        catalogue(tmp_path)
