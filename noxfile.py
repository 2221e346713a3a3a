"""What is checked, one session each: ``nox`` runs those that a change must pass."""

from pathlib import Path

import nox

nox.options.sessions = ["tests", "lint", "types"]
nox.options.default_venv_backend = "uv|virtualenv"
PAGES = sorted({path.stem for path in Path("docs/make").glob("*.py")} - {"benchmarks", "pages"})


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests, but the slow ones; arguments go to pytest."""
    session.install("-e", ".[dev]")
    session.run("pytest", *(session.posargs or ["-n", "auto", "--dist", "loadfile"]))


@nox.session
def slow(session: nox.Session) -> None:
    """Run the tests that are marked as slow."""
    session.install("-e", ".[dev]")
    session.run("pytest", "-n", "auto", "--dist", "loadfile", "-m", "slow", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, dead code and what is said twice."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("pytest", "-m", "", "tests/test_tidiness.py")


@nox.session
def types(session: nox.Session) -> None:
    """Check types."""
    session.install("-e", ".[dev]")
    session.run("mypy")


@nox.session
def mutants(session: nox.Session) -> None:
    """Break rules of privacy on purpose; the suite must notice. ``-- --fast`` is a part of them."""
    session.install("-e", ".[dev]")
    session.run("python", "tests/mutants/run.py", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Try bad input of all kinds, by default 100,000 times; ``-- --cases 5000 schema``."""
    session.install("-e", ".[dev]")
    session.run(
        "python", "tests/fuzz/run.py", *(session.posargs or ["--cases", "100000", "-j", "2"])
    )


@nox.session
@nox.parametrize("page", PAGES)
def docs(session: nox.Session, page: str) -> None:
    """Make the numbers and pictures of a page of the docs."""
    session.install("-e", ".[dev]")
    session.run("python", f"docs/make/{page}.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure speed, beside other libraries, and write the page of benchmarks."""
    session.install("-e", ".[bench,dev]")
    session.run("python", "docs/make/benchmarks.py", *session.posargs)
