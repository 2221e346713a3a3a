"""Mutants: rules of privacy, broken on purpose, of which tests must see each.

**To add one**, write a paragraph into a file of the folder ``catalogue``: the module and, in words,
what is broken; after minuses the text that is replaced, which occurs once in the module, and after
pluses what replaces it, line by line from wherever the text begins; then the test that must fail, a
node id of pytest below the folder ``tests``:

    accounting: a count is taken for one
    - self._pending.add(part, count)
    + self._pending.add(part, 1)
    fast: core/test_cost_contract.py::test_count_means_repetition

``fast`` puts it into the half that runs with every change; ``slow`` where its test takes more than
some two seconds; ``hangs`` where it is killed by going on for ever. Then run it, by any part of its
first line: ``python tests/mutants/run.py "taken for one"``. If it survives, the suite lacks a test:
write that, where it belongs. Only where none can fail, since the guarantee is the same with the
mutation, a line ``equivalent: …`` says why, after a test that covers the place.
"""

import importlib.util
from ast import PyCF_ONLY_AST
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent


@dataclass(frozen=True)
class Mutant:
    """One rule of privacy, broken on purpose.

    Parameters
    ----------
    name : str
        What is broken, in words.
    module : str
        In which module of privrl: ``"mechanisms.additive"``.
    old, new : str
        The text that is replaced, which occurs once in the module, and what replaces it.
    tests : tuple of str
        Which tests must fail, one of them at least.
    speed : {"fast", "slow", "hangs"}
        Of which half it is, or that it is killed by going on for ever.
    equivalent : str
        Why no test can fail, where that is so.
    """

    name: str
    module: str
    old: str
    new: str
    tests: tuple[str, ...]
    speed: str
    equivalent: str = ""

    def __str__(self) -> str:
        return f"{self.module}: {self.name}"

    @property
    def file(self) -> Path:
        """Where the module is, found without importing it."""
        package = importlib.util.find_spec("privrl")
        assert package is not None
        assert package.submodule_search_locations is not None
        path = Path(package.submodule_search_locations[0], *self.module.split("."))
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

    @property
    def source(self) -> str:
        """The module's text with the mutation in it.

        Raises
        ------
        ValueError
            If the mutation cannot be made: then it has to be written anew.
        """
        mutated = self._text
        try:
            compile(mutated, self.file, "exec", PyCF_ONLY_AST)
        except SyntaxError as error:
            raise ValueError(f"what comes out is no Python: {error}.") from None
        return mutated

    @property
    def _text(self) -> str:
        text = _read(self.file)
        times = text.count(self.old)
        if times != 1:
            raise ValueError(f"the text to be replaced must occur once, not {times} times.")
        return text.replace(self.old, self.new)

    def check(self) -> None:
        """Check that the text to be replaced and the tests are there.

        Whether what comes out is Python is seen where the mutant is run: to parse the modules of
        all mutants takes half a minute.

        Raises
        ------
        ValueError
            If not.
        """
        _ = self._text
        for test in self.tests:
            path, _, name = test.partition("::")
            if not (TESTS / path).is_file() or (
                f"def {name.partition('[')[0]}(" not in _read(TESTS / path)
            ):
                raise ValueError(f"there is no test {test}.")


@cache
def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def catalogue(folder: Path = HERE / "catalogue") -> list[Mutant]:
    """Return the mutants that the files of a folder describe.

    Raises
    ------
    ValueError
        If a paragraph is none of a mutant, or two have one name.
    """
    mutants = [
        mutant
        for file in sorted(folder.glob("*.txt"))
        for mutant in _paragraphs(file.read_text(encoding="utf-8"))
    ]
    names = [str(mutant) for mutant in mutants]
    repeated = [name for i, name in enumerate(names) if name in names[:i]]
    if repeated:
        raise ValueError(f"names must differ, got {repeated[0]!r} twice.")
    return mutants


def _paragraphs(text: str) -> Iterator[Mutant]:
    lines = [line for line in text.split("\n") if not line.startswith("#")]
    for paragraph in "\n".join(lines).split("\n\n"):
        if paragraph.strip():
            yield _mutant(paragraph.strip("\n").split("\n"))


def _mutant(lines: list[str]) -> Mutant:
    """Return what the lines of one paragraph describe."""
    module, _, name = lines[0].partition(": ")
    old = [line[2:] for line in lines[1:] if line[:1] == "-"]
    new = [line[2:] for line in lines[1:] if line[:1] == "+"]
    said = [line.split(": ", 1) for line in lines[1:] if line[:1] not in "-+"]
    tests = [(key, value) for key, value in said if key in ("fast", "slow", "hangs")]
    reasons = [value for key, value in said if key == "equivalent"]
    if not (name and old and tests) or len(tests) + len(reasons) < len(said):
        raise ValueError(f"a paragraph must be of the form that is described, got {lines!r}.")
    return Mutant(
        name=name,
        module=module,
        old="\n".join(old),
        new="\n".join(new),
        tests=tuple(value for _, value in tests),
        speed=tests[0][0],
        equivalent=" ".join(reasons),
    )
