"""How far a sweep is, what its bar says of it, and which folder it writes to."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privrl.cli import app
from privrl.cli.jobs import _Pace, _short, folder
from privrl.experiments import Method, SweepSpec, run_sweep
from privrl.experiments.sweeps.jobs import run_abreast
from privrl.experiments.sweeps.progress import Counts, SweepProgress, counts

SPEC = SweepSpec(
    methods=(Method(), Method(sampler="non-private")), epsilons=(1.0,), episodes=40, runs=2
)
RUN = "privrl.experiments.sweeps.execution.run_abreast"


@pytest.mark.slow
def test_progress_counts_the_episodes_of_jobs_that_run(monkeypatch) -> None:
    told, seen = [], []

    def watched(todo, mdp, *, callback):
        (job,) = todo.jobs

        def tell(stretch) -> None:
            callback(stretch)
            now = told[0].now()
            assert now.episodes == (now.done * job.episodes + stretch.done) * job.runs
            seen.append(now)

        return run_abreast(todo, mdp, callback=tell)

    monkeypatch.setattr(RUN, watched)
    found = run_sweep(SPEC, backend="sequential", on_progress=told.append)
    shares = [now.share for now in seen]
    assert len(seen) > 10
    assert 0 < shares[0] < 0.6 < shares[-1] <= 1 + 1e-9
    assert shares == sorted(set(shares))  # each stretch is more
    assert [each.episodes for each in told] == [0, 80, 160]
    assert {each.of_episodes for each in told} == {160}

    def uncounted(todo, mdp, *, callback):
        return run_abreast(todo, mdp)

    monkeypatch.setattr(RUN, uncounted)
    plain = run_sweep(SPEC, backend="sequential")
    assert found.results.equals(plain.results)
    assert found.curves.equals(plain.curves)


def test_counts_are_read_by_others_and_removed() -> None:
    with counts() as ours:
        theirs = Counts(ours._folder)
        with theirs.counting("job") as count:
            assert ours.read() == {}  # none yet
            for done in (1, 300, 70_000):
                count(_Told(done))
                assert ours.read() == {"job": done}
        ours.drop("job")
        ours.drop("job")
        assert ours.read() == {}
    assert not ours._folder.exists()


def test_progress_can_be_read_while_the_sweep_removes_its_counts(monkeypatch) -> None:
    """A progress bar reads them in a thread of its own, at any moment."""
    read = []

    def look(progress: SweepProgress) -> None:
        if progress.done == progress.jobs:
            with monkeypatch.context() as patch:
                for name in ("listdir", "scandir"):  # whichever lists a folder
                    patch.setattr(os, name, partial(_list_removed, getattr(os, name)))
                read.append(progress.now())
            assert read == [progress]

    run_sweep(SPEC, backend="sequential", on_progress=look)
    assert len(read) == 1


def _list_removed(real: Callable[[Path], object], folder: Path) -> object:
    """List a folder that was removed just before."""
    Path(folder).rmdir()
    return real(folder)


def test_another_machine_counts_nothing(tmp_path: Path) -> None:
    with Counts(tmp_path / "elsewhere").counting("job") as count:
        assert count is None


class _Told:
    def __init__(self, done: int) -> None:
        self.done = done


def at(share: float, *, done: int = 0) -> SweepProgress:
    return SweepProgress(done, 10, 0, share, round(share * 1e6), 10**6)


def test_the_start_of_workers_does_not_count_as_slowness() -> None:
    pace = _Pace()
    pace.begin(0.0)
    assert pace.text(at(0.0), 5.0) == ""
    assert pace.text(at(0.1), 60.0) == ""  # the first that is seen
    assert pace.text(at(0.1), 60.5) == ""
    assert pace.text(at(0.2), 70.0) == "10k a second, 0:01:20 left"


def test_jobs_that_count_at_their_end_are_timed_from_the_beginning() -> None:
    pace = _Pace()
    pace.begin(0.0)
    assert pace.text(at(0.25, done=1), 100.0) == "2.5k a second, 0:05:00 left"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (980, "980"), (18_240, "18.2k"), (4.9e6, "4.9M"), (3e9, "3G")]
)
def test_three_digits(number: float, text: str) -> None:
    assert _short(number) == text


@pytest.mark.parametrize(
    ("out", "preset", "where"),
    [
        (None, None, "results/sweep"),
        (None, "quick", "results/sweep"),
        (None, "frontier", "results/sweep-frontier"),
        (Path("mine"), "frontier", "mine"),
    ],
)
def test_each_preset_has_a_folder_of_its_own(out, preset, where: str) -> None:
    assert folder("sweep", out, preset, "quick") == Path(where)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["sweep"], "sweep/results.csv"),
        (["sweep", "--preset", "frontier"], "sweep-frontier/sweep.json"),
        (["suite"], "suite/suite.csv"),
        (["train", "--env", "FrozenLake-v1"], "train/policy.json"),
    ],
)
def test_what_another_command_wrote_is_refused(
    command: list[str], name: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    there = tmp_path / "results" / name
    there.parent.mkdir(parents=True)
    there.write_text("{}")
    refused = CliRunner().invoke(app, command, env={"COLUMNS": "200", "TERM": "dumb"})
    assert refused.exit_code == 2
    assert "choose another --out" in " ".join(refused.output.split())
    assert there.read_text() == "{}"
