"""Checkpoints of a run: what was trained and earned so far, and where its environment was."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from privrl.accounting import Ledger
from privrl.agents import checkpoints
from privrl.agents.tabular import TabularAgent
from privrl.envs import TabularMDP
from privrl.files.shown import shown
from privrl.files.states import settings_digest
from privrl.numerics.checks import check_count, check_positive
from privrl.numerics.randomness import SECRET, randomness_of

Record = dict[str, NDArray[Any]]
_MINUTE = 60.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Where a run of `train` is saved, and how often; one is gone on with if it is there.

    The file is **not private**, see `privrl.agents.TabularAgent.save`. An agent of secret
    randomness is also saved before each draw, so that it can always go on.

    Parameters
    ----------
    path : str or path-like
        The file, of this one run.
    episodes : int, optional
        To be saved after every so many.
    minutes : float, optional
        To be saved after so many, between two episodes (or stretches under one policy).
    run : str
        What tells the run from others of the same agent and environment, a seed, say; the file of
        another is refused.
    ledger : Ledger, optional
        See `privrl.agents.TabularAgent.save`.

    Raises
    ------
    ValueError
        If neither ``episodes`` nor ``minutes`` is given, or one is out of range.
    """

    path: str | os.PathLike[str]
    episodes: int | None = None
    minutes: float | None = None
    run: str = ""
    ledger: Ledger | None = None

    def __post_init__(self) -> None:
        if self.episodes is None and self.minutes is None:
            raise ValueError("episodes or minutes must say how often to save; give one or both.")
        if self.episodes is not None:
            check_count("episodes", self.episodes)
        if self.minutes is not None:
            check_positive("minutes", self.minutes)

    @classmethod
    def parse(
        cls,
        every: str,
        *,
        path: str | os.PathLike[str],
        run: str = "",
        ledger: Ledger | None = None,
    ) -> Self:
        """Return one from how often in words: ``500`` episodes, or ``10min``.

        Raises
        ------
        ValueError
            If it is neither.
        """
        number, minutes, _ = every.strip().partition("min")
        try:
            if minutes:
                return cls(path=path, minutes=float(number), run=run, ledger=ledger)
            return cls(path=path, episodes=int(number), run=run, ledger=ledger)
        except ValueError:
            raise ValueError(
                f"checkpoint_every must be a number of episodes, or of minutes as in 10min, got "
                f"{shown(every)}."
            ) from None


class Keeper:
    """Saves one run, or goes on with it.

    Attributes
    ----------
    first, last : int
        The run's first episode, and the one after its last.
    record : dict of arrays
        What was recorded before it was stopped; empty if it begins here.
    """

    def __init__(
        self,
        checkpoint: Checkpoint | None,
        agent: TabularAgent,
        env: gym.Env[Any, Any] | VectorEnv[Any, Any, Any] | TabularMDP,
        rng: np.random.Generator,
        episodes: int,
    ) -> None:
        self._checkpoint, self._agent, self._rng = checkpoint, agent, rng
        self.first, self.record = agent.episodes_done, Record()
        self.last = self.first + episodes
        if checkpoint is None:
            return
        self._of = _of(checkpoint, env, episodes)
        self._every_draw = randomness_of(agent.rng) == SECRET
        if Path(checkpoint.path).exists():
            more = checkpoints.load(agent, checkpoint.path, self._is_ours, ledger=checkpoint.ledger)
            self.first, self.record = more["first"], more["record"]
            self.last = self.first + episodes
            rng.bit_generator.state = more["rng"]
        self._saved, self._when = agent.episodes_done, time.monotonic()

    @property
    def next(self) -> int:
        """The episode to go on with."""
        return self._agent.episodes_done

    @property
    def seeds_episodes(self) -> bool:
        """Whether each episode gets a seed, so that it can be gone on with after any of them."""
        return self._checkpoint is not None

    def before(self, episode: int, record: Callable[[], Record]) -> None:
        """Save what was recorded before an episode, if it is time."""
        kept = self._checkpoint
        if kept is None or episode == self._saved:
            return
        episodes, minutes = episode - self._saved, (time.monotonic() - self._when) / _MINUTE
        if (
            (kept.episodes is not None and episodes >= kept.episodes)
            or (kept.minutes is not None and minutes >= kept.minutes)
            or (self._every_draw and self._agent.schedule.is_due(episode))
        ):
            self._save(record())

    def end(self, record: Callable[[], Record]) -> None:
        """Save the whole run, so that it is not run once more."""
        if self._checkpoint is not None and self._saved != self.last:
            self._save(record())

    def _save(self, record: Record) -> None:
        kept = self._checkpoint
        assert kept is not None
        more = {
            "of": self._of,
            "first": self.first,
            "record": record,
            "rng": dict(self._rng.bit_generator.state),
        }
        checkpoints.save(self._agent, kept.path, more, ledger=kept.ledger)
        self._saved, self._when = self._agent.episodes_done, time.monotonic()

    def _is_ours(self, more: Any) -> None:
        if more is None or more["of"] != self._of:
            raise ValueError(
                f"{self._checkpoint and self._checkpoint.path} must be a checkpoint of this run, "
                "got that of another (the environment, the number of episodes and the run's name "
                "are to be the same); choose another path, or remove it."
            )


def _of(
    checkpoint: Checkpoint,
    env: gym.Env[Any, Any] | VectorEnv[Any, Any, Any] | TabularMDP,
    episodes: int,
) -> str:
    where = env if isinstance(env, TabularMDP) else (env.spec, getattr(env, "num_envs", 1))
    return settings_digest({"env": where, "episodes": episodes, "run": checkpoint.run})
