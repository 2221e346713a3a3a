"""Callbacks of training that log it: to TensorBoard, MLflow, Weights & Biases, or a progress bar.

A callback is whatever can be called with a `privrl.agents.Stretch`, which it is after each stretch
of episodes. Names of logged values say whether the guarantee covers them: what was earned is
"not_private/...", what follows from the schedule alone is "public/...".
"""

import time
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from privrl.agents.training import Stretch

_EVERY = 0.1  # seconds between two pictures of a bar in a notebook

__all__ = ["MLflow", "ProgressBar", "TensorBoard", "WeightsAndBiases", "logged"]


def logged(told: Stretch) -> dict[str, float]:
    """Return what is logged of a stretch, each under a name that says whether it is private."""
    return {
        "not_private/reward_per_episode": told.mean_reward,
        "public/draws": float(told.draws),
    }


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
    """

    def __init__(self, mlflow: Any) -> None:
        self._mlflow = mlflow

    def __call__(self, told: Stretch) -> None:
        """Log a stretch."""
        self._mlflow.log_metrics(logged(told), step=told.first + told.episodes)


class WeightsAndBiases:
    """Log by episode to a run of Weights & Biases.

    Parameters
    ----------
    run : wandb.Run
        What ``wandb.init`` returns.
    """

    def __init__(self, run: Any) -> None:
        self._run = run

    def __call__(self, told: Stretch) -> None:
        """Log a stretch."""
        self._run.log(logged(told), step=told.first + told.episodes)


class ProgressBar:
    """A bar in a terminal or a notebook, for the time of a ``with``; of episodes alone, public."""

    def __init__(self) -> None:
        columns = BarColumn(), MofNCompleteColumn(), TextColumn("episodes"), TimeRemainingColumn()
        progress = Progress(*columns)
        self._bar = _NotebookBar() if progress.console.is_jupyter else _TerminalBar(progress)

    def __enter__(self) -> Self:
        """Show it."""
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave it as it is."""
        self._bar.stop()

    def __call__(self, told: Stretch) -> None:
        """Say how far it is."""
        self._bar.show(told.done, told.total)


class _TerminalBar:
    def __init__(self, progress: Progress) -> None:
        self._progress, self._task = progress, progress.add_task("", total=None)
        self.start, self.stop = progress.start, progress.stop

    def show(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)


class _NotebookBar:
    """An element of HTML: rich's needs a widget, which is not there once a notebook is a page."""

    def start(self) -> None:
        self._begun = self._drawn = time.monotonic()
        self._done, self._total = 0, 0
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
        text = f"{self._done:,} of {self._total:,} episodes"
        passed = self._drawn - self._begun
        if 0 < self._done < self._total:
            text += f", {passed * (self._total - self._done) / self._done:.0f} s left"
        return text if self._total else "no episodes yet"

    def _repr_html_(self) -> str:
        return f'<progress value="{self._done}" max="{self._total or 1}"></progress> {self!r}'
