"""Comparisons of numbers in the package, and lists that say why both sides of each are right."""

import ast
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TypeAlias

Comparison: TypeAlias = tuple[str, str, str]  # module, function and source

TESTS = Path(__file__).parent
KINDS = {
    "speed": "both sides give the same outcome, and it decides how fast",
    "exact": "what is compared is exact, or the very number that the law or the rule is about",
    "bound": "the number is an upper bound on either side",
    "digits": "two formulas of one number, both of all digits at the switch: by a test",
    "public": "settings, or what was released; private whatever is taken",
    "search": "of a place to look at; what is returned holds wherever it ends, or is checked",
    "check": "refuses an argument",
    "record": "both sides depend on one record or person alone, so no other can move it",
    "charged": "what is compared is private, and the outcome is charged",
}
_ORDERINGS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_OF_ARRAYS = {"ndim", "shape", "size", "dtype", "kind"}  # attributes, none of which is rounded


def _only_raises(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and not node.orelse
        and all(isinstance(each, ast.Raise) for each in node.body)
    )


def _is_of_things(side: ast.expr) -> bool:
    if isinstance(side, ast.Constant):
        return isinstance(side.value, str | bytes | None)
    calls_len = any(isinstance(each, ast.Name) and each.id == "len" for each in ast.walk(side))
    return calls_len or any(getattr(each, "attr", "") in _OF_ARRAYS for each in ast.walk(side))


def comparisons(source: str) -> Iterator[tuple[str, str]]:
    """Yield each comparison of numbers with its function, but those that only raise."""

    def walk(node: ast.AST, where: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.Assert):
            return
        if _only_raises(node):
            return
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            where = *where, node.name
        if isinstance(node, ast.Compare) and any(isinstance(op, _ORDERINGS) for op in node.ops):
            of_things = map(_is_of_things, (node.left, *node.comparators))
            yield from [] if any(of_things) else [(".".join(where), ast.unparse(node))]
        for each in ast.iter_child_nodes(node):
            yield from walk(each, where)

    return walk(ast.parse(source), ())


def found(root: Path, folders: Collection[str], left_out: Collection[str] = ()) -> set[Comparison]:
    """Return module, function and source of each comparison in folders of a root, at any depth."""
    files = {
        ".".join(path.relative_to(root).with_suffix("").parts): path
        for folder in folders
        for path in (root / folder).rglob("*.py")
    }
    assert files.keys() >= set(left_out)
    return {
        (module, *each)
        for module in files.keys() - left_out
        for each in comparisons(files[module].read_text(encoding="utf-8"))
    }


def listed(path: Path) -> dict[Comparison, tuple[str, str]]:
    """Return the kind of each entry of a list, and the test that shows it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    entries = [[part.strip() for part in line.split(" | ")] for line in lines if line.strip()]
    assert all(len(each) in (4, 5) for each in entries)
    counted = Counter(tuple(each[:3]) for each in entries)
    assert max(counted.values()) == 1, counted.most_common(1)
    return {(a, b, c): (kind, "".join(test)) for a, b, c, kind, *test in entries}


def unlike(now: set[Comparison], known: Collection[Comparison]) -> tuple[str, str]:
    """Return lines of those that are new, and of those that are gone."""
    new, gone = sorted(now - set(known)), sorted(set(known) - now)
    return "\n".join(map(" | ".join, new)), "\n".join(map(" | ".join, gone))


def unexplained(entries: dict[Comparison, tuple[str, str]]) -> set[str]:
    """Return whatever is no kind, no test, or needs a test that is not named."""
    wrong = {kind for kind, _ in entries.values()} - KINDS.keys()
    wrong |= {" ".join(each) for each, why in entries.items() if why == ("digits", "")}
    tests = {tuple(test.split("::")) for _, test in entries.values() if test}
    for file in {file for file, _ in tests}:
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        there = {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
        wrong |= {f"{file}::{name}" for each, name in tests if each == file} - {
            f"{file}::{name}" for name in there
        }
    return wrong
