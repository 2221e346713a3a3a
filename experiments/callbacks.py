"""Callbacks of training that log it: to TensorBoard, MLflow, Weights & Biases, or a progress bar.

A callback is any callable that takes a `privrl.agents.training.Stretch`; it is called after each
stretch of episodes. The names of logged values show whether the guarantee covers them: rewards are
"not_private/...", and what follows from the schedule alone is "public/...".
"""

import time
from dataclasses import replace
from importlib import import_module
from threading import Event, Thread
from typing import Any, Protocol, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from privrl.agents.training import Stretch

_ROWS = 200  # of MLflow, of one call
_EPISODE = "public/episode"
_EVERY = 0.1  # seconds between two pictures of a bar in a notebook

__all__ = ["MLflow", "ProgressBar", "TensorBoard", "WeightsAndBiases", "logged"]


def logged(told: Stretch) -> dict[str, float]:
    """Return what is logged of a stretch, each under a name that says whether it is private."""
    return {"not_private/reward_per_episode": told.mean_reward, "public/draws": float(told.draws)}


class TensorBoard:
    """Write scalars by episode with a ``SummaryWriter``: tensorboardX's, or PyTorch's.

    Parameters
    ----------
    writer : tensorboardX.SummaryWriter or torch.utils.tensorboard.SummaryWriter
        Whoever made it closes it.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, told: Stretch) -> None:
        """Log a stretch."""
        for name, value in logged(told).items():
            self._writer.add_scalar(name, value, told.first + told.episodes)


class MLflow:
    """Log metrics by episode to a run of MLflow.

    Parameters
    ----------
    mlflow
        The module ``mlflow``, for its active run, or something else with its ``log_metrics``.

    Notes
    -----
    Each row is a transaction of some milliseconds, so that a row for each episode would take longer
    than the episode: of a call of ``learn`` there are 200, means of the episodes since the last.
    """

    def __init__(self, mlflow: Any) -> None:
        self._mlflow = mlflow
        self._held: Stretch | None = None

    def __call__(self, told: Stretch) -> None:
        """Log a stretch, or keep it for the next row."""
        held, before = self._held, told.done - told.episodes
        if held is not None and before and held.first + held.episodes == told.first:
            episodes, reward = held.episodes + told.episodes, held.reward + told.reward
            told = replace(told, first=held.first, episodes=episodes, reward=reward)
        self._held = told
        if told.done * _ROWS // told.total > before * _ROWS // told.total:
            self._mlflow.log_metrics(logged(told), step=told.first + told.episodes)
            self._held = None


class WeightsAndBiases:
    """Log by episode to a run of Weights & Biases.

    Parameters
    ----------
    run : wandb.Run
        What ``wandb.init`` returns.

    Notes
    -----
    The run's own steps only rise, and what comes late is dropped: as all that a second agent logs.
    So the episode is a separate value, against which the others are drawn.
    """

    def __init__(self, run: Any) -> None:
        self._run = run
        for names in ("not_private/*", "public/*"):
            run.define_metric(names, step_metric=_EPISODE)

    def __call__(self, told: Stretch) -> None:
        """Log a stretch."""
        self._run.log({**logged(told), _EPISODE: told.first + told.episodes})


class _Far(Protocol):
    """How far a sweep or a suite is, as they tell it (`privrl.experiments.sweeps.progress`)."""

    @property
    def episodes(self) -> int: ...
    @property
    def of_episodes(self) -> int: ...
    def now(self) -> "_Far": ...


class ProgressBar:
    """A bar in a terminal or a notebook, for the time of a ``with``; of episodes alone, public.

    It is a callback of training, and ``on_progress=`` of `run_sweep` and `run_suite`, too.
    """

    def __init__(self) -> None:
        columns = BarColumn(), MofNCompleteColumn(), TextColumn("episodes"), TimeRemainingColumn()
        progress = Progress(*columns)
        self._bar = _NotebookBar() if progress.console.is_jupyter else _TerminalBar(progress)
        self._sweep: _Far | None = None

    def __enter__(self) -> Self:
        """Show it."""
        self._sweep, self._over = None, Event()
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave it as it is."""
        self._over.set()
        if self._sweep is not None:
            self._follower.join()
            self._bar.show(self._sweep.episodes, self._sweep.of_episodes)
        self._bar.stop()

    def __call__(self, told: Stretch | _Far) -> None:
        """Say how far it is; of a sweep, from then on it is looked up."""
        if isinstance(told, Stretch):
            self._bar.show(told.done, told.total)
            return
        first, self._sweep = self._sweep is None, told
        self._bar.show(told.episodes, told.of_episodes)
        if first:
            self._follower = Thread(target=self._follow, daemon=True)
            self._follower.start()

    def _follow(self) -> None:
        while not self._over.wait(_EVERY):
            assert self._sweep is not None
            now = self._sweep.now()
            self._bar.show(now.episodes, now.of_episodes)


class _TerminalBar:
    def __init__(self, progress: Progress) -> None:
        self._progress, self._task = progress, progress.add_task("", total=None)
        self.start, self.stop = progress.start, progress.stop

    def show(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)


class _NotebookBar:
    """An element of HTML: rich's needs a widget, which is not there once a notebook is a page."""

    _total: int | None = None

    def start(self) -> None:
        self._begun = self._drawn = time.monotonic()
        self._done = 0
        display = import_module("IPython.display").display  # it is there: this is a notebook
        self._handle = display(self, display_id=True)

    def show(self, done: int, total: int) -> None:
        self._done, self._total = done, total
        if time.monotonic() - self._drawn >= _EVERY:
            self._draw()

    def stop(self) -> None:
        self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        self._handle.update(self)

    def __repr__(self) -> str:
        if self._total is None:
            return "no episodes yet"
        text = f"{self._done:,} of {self._total:,} episodes"
        if 0 < self._done < self._total:
            left = (self._drawn - self._begun) * (self._total - self._done) / self._done
            text += f", {left:.0f} s left"
        return text

    def _repr_html_(self) -> str:
        return f'<progress value="{self._done}" max="{self._total or 1}"></progress> {self!r}'
