"""What is checked, one session each: ``nox`` runs those that a change must pass."""

import hashlib
import os
import tomllib
from pathlib import Path
from shutil import which

import nox

nox.options.sessions = ["tests", "lint", "types"]
nox.options.default_venv_backend = "uv|virtualenv"
#: Those that pyproject.toml names and that are here; SPEC 0 says how long each is kept.
NAMED = [
    name.rpartition(" ")[2]
    for name in tomllib.loads(Path("pyproject.toml").read_text())["project"]["classifiers"]
    if name.startswith("Programming Language :: Python :: 3.")
]
PYTHONS = [name for name in NAMED if which(f"python{name}")]
PAGES = sorted({path.stem for path in Path("docs/make").glob("*.py")} - {"benchmarks", "pages"})


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests, but the slow ones, with each Python that is here; arguments go to pytest."""
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
def site(session: nox.Session) -> None:
    """Make the site of the docs, in build/site: no warning, and no page that asks for a network."""
    session.install("-e", ".[dev]")
    session.run("sphinx-build", "-W", "--keep-going", "docs", "build/site", *session.posargs)
    session.run("pytest", "tests/docs/test_site.py", env={"PRIVRL_SITE": "build/site"})


@nox.session
def lock(session: nox.Session) -> None:
    """Choose the versions in requirements/ anew: the newest there are, for every platform."""
    session.install("uv")
    command = (
        *("uv", "pip", "compile", "--universal", "--generate-hashes", "--upgrade", "--quiet"),
        *("--python-version", "3.11", "--no-emit-index-url", "--no-annotate"),
        *("--custom-compile-command", "nox -s lock", "pyproject.toml"),
    )
    session.run(*command, "--extra", "dev", "--output-file", "requirements/dev.txt", silent=True)
    same = ("--constraints", "requirements/dev.txt")
    session.run(*command, *same, "--output-file", "requirements/run.txt", silent=True)


@nox.session
def locked(session: nox.Session) -> None:
    """Run the tests with the locked versions, each file of them known by its digest."""
    session.install("--require-hashes", "-r", "requirements/dev.txt")
    session.install("--no-deps", "--no-build-isolation", "-e", ".")
    session.run("pytest", *(session.posargs or ["-n", "auto", "--dist", "loadfile"]))


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the wheel of a commit with the locked versions: whoever does it gets the same bytes."""
    session.install("--require-hashes", "-r", "requirements/dev.txt")
    date = session.run("git", "log", "-1", "--format=%ct", external=True, silent=True)
    os.umask(0o022)  # as its files are in the wheel
    out = session.create_tmp()
    command = ("python", "-m", "build", "--no-isolation", "--outdir", out, ".")
    session.run(*command, env={"SOURCE_DATE_EPOCH": date.strip()}, silent=True)
    for path in Path(out).glob("*.whl"):
        session.log(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path}")


@nox.session(venv_backend="uv", python=PYTHONS[:1])
def oldest(session: nox.Session) -> None:
    """Run the tests with the oldest versions that pyproject.toml allows, on the oldest Python."""
    session.install("--resolution", "lowest-direct", "-e", ".[dev]")
    session.run("pytest", *(session.posargs or ["-n", "auto", "--dist", "loadfile"]))


@nox.session(venv_backend="uv", python=PYTHONS[-1:])
def newest(session: nox.Session) -> None:
    """Run the tests with the newest versions there are, those before a release too."""
    session.install("--upgrade", "--prerelease", "allow", "-e", ".[dev]")
    session.run("pytest", *(session.posargs or ["-n", "auto", "--dist", "loadfile"]))


@nox.session
def vulnerabilities(session: nox.Session) -> None:
    """Ask, over the network, whether a locked version has a known one. No answer is a failure."""
    session.install("pip-audit")
    session.run("pip-audit", "--strict", "--disable-pip", "--requirement", "requirements/dev.txt")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure speed, beside other libraries, and write the page of benchmarks."""
    session.install("-e", ".[bench,dev]")
    session.run("python", "docs/make/benchmarks.py", *session.posargs)
