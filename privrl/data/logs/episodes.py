"""Logs of episodes that Gymnasium's environments made: Minari's data sets and buffers."""

import os
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from privrl.data.logs.log import Log
from privrl.data.logs.parts import NO_NAME, name_of
from privrl.data.logs.schema import check_reward_bounds
from privrl.files.extras import extra
from privrl.numerics.checks import check_count, plain_array
from privrl.numerics.typing import FloatArray, IntArray

TERMINATED = ("terminated",)
"""How episodes of an environment end, if they are not truncated."""

Person = Callable[[Any], Any] | Sequence[Any]


def from_minari(
    dataset: Any,
    *,
    reward_bounds: tuple[float, float],
    most_steps: int,
    most_episodes: int = 1,
    person: Person | None = None,
) -> Log:
    """Return the log in a data set of Minari's, whose observations and actions are Discrete.

    Parameters
    ----------
    dataset : minari.MinariDataset, str or pathlib.Path
        The data set, its name, by which `minari.load_dataset` finds it on this machine, or its
        folder.
    reward_bounds, most_steps, most_episodes, person
        As for `from_buffer`.

    Returns
    -------
    Log
        States and actions are those of the data set's spaces, from 0.

    Raises
    ------
    ValueError
        If a space is not Discrete, or as `from_buffer`.
    ImportError
        If Minari is needed and not installed.
    FileNotFoundError
        If this machine has no data set of that name.
    """
    if isinstance(dataset, str | os.PathLike):
        dataset = load_minari(dataset)
    discrete = import_module("gymnasium").spaces.Discrete
    first, sizes = [], []
    for name in ("observation_space", "action_space"):
        space = getattr(dataset, name, None)
        if not isinstance(space, discrete):
            raise ValueError(
                f"dataset must have a Discrete {name}, got {type(space).__name__}; read numbers "
                "with privrl.continuous.ContinuousLog.from_minari, or write the steps as a table "
                "for read_log and bins."
            )
        first.append(int(space.start))
        sizes.append(int(space.n))
    return _log(
        dataset.iterate_episodes(), (first[0], first[1]), (sizes[0], sizes[1]),
        _Bounds(reward_bounds, most_steps, most_episodes), person,
    )  # fmt: skip


def from_buffer(
    episodes: Iterable[Any],
    *,
    n_states: int,
    n_actions: int,
    reward_bounds: tuple[float, float],
    most_steps: int,
    most_episodes: int = 1,
    person: Person | None = None,
) -> Log:
    """Return the log of episodes as Minari's `EpisodeBuffer` and `EpisodeData` hold them.

    Parameters
    ----------
    episodes : iterable of objects
        Each with ``observations``, of shape (n + 1,), and ``actions``, ``rewards``,
        ``terminations`` and ``truncations``, of shape (n,). One without steps is passed over.
    n_states, n_actions : int
        Observations are whole numbers below ``n_states``, actions below ``n_actions``; public.
    reward_bounds : (float, float)
        The public lowest and highest reward; rewards outside are clipped.
    most_steps : int
        Of an episode; later ones are cut away.
    most_episodes : int
        Of a person; later ones are left out.
    person : callable or sequence, optional
        Whose each episode is, a text or whole number: a function of the episode, or listed in
        order. Episodes of no such person are left out. By default each episode is a person's own.
        Whoever they are, the unit is "person"; ``dataclasses.replace(log, unit="ward")`` names one.

    Returns
    -------
    Log
        With one outcome, ``terminated``; else the next state of the last step is the state that
        followed.

    Raises
    ------
    ValueError
        If an argument is of another type, or ``person`` lists another number than that of the
        episodes.

    Notes
    -----
    A person with an episode that does not fit (numbers outside, lists of other lengths, a reward of
    NaN, an end before the last step) is left out altogether, without a message.
    """
    sizes = check_count("n_states", n_states), check_count("n_actions", n_actions)
    return _log(episodes, (0, 0), sizes, _Bounds(reward_bounds, most_steps, most_episodes), person)


class _Bounds:
    """How much of a log one person may be."""

    def __init__(self, rewards: Any, most_steps: int, most_episodes: int) -> None:
        self.rewards = check_reward_bounds(rewards)
        self.most_steps = check_count("most_steps", most_steps)
        self.most_episodes = check_count("most_episodes", most_episodes)


_Steps = tuple[IntArray, IntArray, IntArray, FloatArray]  # state, action, next state, reward


def _log(
    episodes: Iterable[Any],
    first: tuple[int, int],
    sizes: tuple[int, int],
    bounds: _Bounds,
    person: Person | None,
) -> Log:
    kept: dict[Any, list[_Steps]] = {}
    bad = set()
    for number, (episode, whose) in enumerate(with_persons(episodes, person)):
        key = number if person is None else name_of(whose)
        if key in (None, NO_NAME):
            continue
        steps = _steps(episode, first, sizes, bounds)
        if steps is None:
            bad.add(key)
        elif len(steps[0]) and len(kept.setdefault(key, [])) < bounds.most_episodes:
            kept[key].append(steps)
    persons = [each for key, each in kept.items() if key not in bad]
    chosen = [steps for each in persons for steps in each]
    no_numbers = np.empty(0, np.intp)
    state, action, next_state = (
        np.concatenate([no_numbers, *(steps[k] for steps in chosen)]) for k in range(3)
    )
    return Log(
        n_states=sizes[0],
        n_actions=sizes[1],
        outcomes=TERMINATED,
        outcome_rewards=(0.0,),
        step_rewards=bounds.rewards,
        most_steps=bounds.most_steps,
        most_episodes=bounds.most_episodes,
        unit="episode" if person is None else "person",
        state=state,
        action=action,
        next_state=next_state,
        reward=np.concatenate([np.empty(0), *(steps[3] for steps in chosen)]),
        episode_starts=np.cumsum([0, *(len(steps[0]) for steps in chosen)]),
        person_starts=np.cumsum([0, *map(len, persons)]),
    )


def with_persons(episodes: Iterable[Any], person: Person | None) -> Iterable[tuple[Any, Any]]:
    """Return each episode and whose it is, see `from_buffer`."""
    if person is None or callable(person):
        return ((each, None if person is None else person(each)) for each in episodes)
    if isinstance(person, str) or not isinstance(person, Sequence | np.ndarray):
        raise ValueError(
            "person must be a callable, or list the person of each episode, got "
            f"{type(person).__name__}."
        )
    if isinstance(person, np.ndarray) and plain_array("person", person).ndim != 1:
        raise ValueError(f"person must be of shape (n,), got {person.ndim} axes.")
    return _paired(episodes, person)


def _paired(episodes: Iterable[Any], persons: Sequence[Any]) -> Iterable[tuple[Any, Any]]:
    count = 0
    for count, episode in enumerate(episodes, 1):
        if count <= len(persons):
            yield episode, persons[count - 1]
    if count != len(persons):
        raise ValueError(
            "person must list the person of each episode, got another number than episodes."
        )


def _steps(
    episode: Any, first: tuple[int, int], sizes: tuple[int, int], bounds: _Bounds
) -> _Steps | None:
    """Return the steps of an episode, or none if it does not fit."""
    try:
        seen = _whole_numbers(episode.observations, first[0], sizes[0])
        action = _whole_numbers(episode.actions, first[1], sizes[1])
        with np.errstate(all="ignore"):  # a warning would tell of longer floats and of NaN
            reward = _array(episode.rewards, "iuf").astype(np.float64)
        terminated = _array(episode.terminations, "b").astype(np.bool_)
        truncated = _array(episode.truncations, "b").astype(np.bool_)
    except Exception:  # whatever an episode holds, no other person is to notice
        return None
    if not len(reward):
        return action[:0], action[:0], action[:0], reward
    if {len(seen) - 1, len(action), len(terminated), len(truncated)} != {len(reward)}:
        return None
    if np.isnan(reward).any() or (terminated | truncated)[:-1].any():
        return None
    next_state = seen[1:].copy()
    if terminated[-1]:
        next_state[-1] = sizes[0]
    reward, steps = np.clip(reward, *bounds.rewards), slice(bounds.most_steps)
    return seen[:-1][steps], action[steps], next_state[steps], reward[steps]


def _array(values: Any, kinds: str) -> Any:
    """Return values of some of NumPy's kinds as an array of one axis.

    Raises
    ------
    ValueError
        If they are something else.
    """
    array = plain_array("values", () if values is None else values)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in kinds):
        raise ValueError
    return array


def _whole_numbers(values: Any, first: int, size: int) -> IntArray:
    """Return whole numbers from ``first`` on as such from 0; a ValueError for something else."""
    numbers = _array(values, "iu")
    if not ((numbers >= first) & (numbers < first + size)).all():
        raise ValueError
    return numbers.astype(np.intp) - first


def load_minari(dataset: "str | os.PathLike[str]") -> Any:
    """Return a data set of Minari's by its name or its folder."""
    minari = extra("minari", "a data set of Minari's", "minari")
    folder = Path(dataset)
    if isinstance(dataset, str) and not folder.is_dir():
        return minari.load_dataset(dataset)
    data = folder / "data"
    return minari.MinariDataset(data if data.is_dir() else folder)
