"""Q-learning without privacy, a simple baseline."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np

from privrl.agents.observer import Transition, check_index
from privrl.agents.rewards import KnownRewards
from privrl.agents.schedules import Once
from privrl.agents.setup import TabularSetup
from privrl.agents.tabular import TabularAgent
from privrl.envs.rows import TransitionRows
from privrl.envs.tabular import TabularMDP
from privrl.files.fixed import fixed
from privrl.numerics.checks import check_count
from privrl.numerics.typing import BoolArray, FloatArray, IntArray
from privrl.samplers.base import Posterior
from privrl.samplers.noisy_counts import NonPrivate

_LAST_EXPLORED = 0.5  # fraction of the episodes with exploration; later ones are greedy


if TYPE_CHECKING:
    from privrl.agents.methods import Method, Task


class QLearning(TabularAgent):
    """Epsilon-greedy Q-learning (Watkins, 1989).

    It keeps neither a model nor counts, and is not private: every budget refuses its first episode,
    and it neither acts, learns nor has a policy before that. One table
    serves all steps, as in Gymnasium's tutorials. Values are discounted by ``1 − 1 / H`` and start
    at 0. The learning rate of the n-th visit is ``(H + 1) / (H + n)`` (Jin, Allen-Zhu, Bubeck and
    Jordan, 2018). The probability of a random action falls from 1 to 0 over the first half of the
    episodes. Ties are broken at random.

    Parameters
    ----------
    setup : TabularSetup
        Sampler, rewards and schedule are ignored.
    episodes : int
        Planned number of episodes.
    """

    title = "Q-learning without privacy"
    look = ("#444444", "s", "-")
    releases = False
    needs_steps = True
    remembered = ("_random", "_values", "_visits")
    episodes: int = fixed()

    def __init__(self, setup: TabularSetup, *, episodes: int) -> None:
        sizes = setup.n_states, setup.n_actions
        rewards = KnownRewards(np.zeros(sizes))
        super().__init__(replace(setup, sampler=NonPrivate(), rewards=rewards, schedule=Once(0)))
        self.episodes, self._random = check_count("episodes", episodes), 1.0
        self._values = np.zeros((int(np.prod(self.batch_shape)), *sizes))
        self._visits = np.zeros(self._values.shape)
        self._runs = np.arange(len(self._values))

    @classmethod
    def build(cls, setup: TabularSetup, method: "Method", task: "Task") -> Self:
        """Make the agent of a method for a task."""
        del method
        return cls(setup, episodes=task.episodes)

    def __copy__(self) -> Self:
        other = super().__copy__()
        other._values, other._visits = self._values.copy(), self._visits.copy()
        return other

    @property
    def policy(self) -> IntArray:
        """The greedy actions, shape (..., H, S), equal at every step."""
        self._check_charged()
        best = self._values.argmax(axis=-1).reshape(*self.batch_shape, 1, self.n_states)
        return np.repeat(best, self.horizon, axis=-2)

    def _begin_episode(self, episode: int) -> None:
        """Reduce exploration. The first episode charges the accountant, which fails on a budget."""
        super()._begin_episode(episode)
        self._random = max(0.0, 1 - episode / (_LAST_EXPLORED * self.episodes))

    def act(self, state: int, step: int) -> int:
        """Return the action of a single run for a state; see `TabularAgent.act`."""
        del step
        if self.batch_shape:
            raise ValueError("act is for a single run; train batches with play.")
        self._check_charged()
        check_index("state", state, self.n_states)
        return int(self._choose(np.array([state]))[0])

    def observe(self, seen: Transition) -> None:
        """Learn from one step of a single run."""
        self._check_charged()
        check_index("state", seen.state, self.n_states)
        check_index("action", seen.action, self.n_actions)
        check_index("next_state", seen.next_state, self.n_states)
        state, action, paid, following = (np.array([each]) for each in seen[:4])
        self._learn(state, action, paid, following, np.array([seen.terminated]))

    def observe_counts(self, *_: object, **__: object) -> None:
        """Refuse, since counts have no order."""
        raise ValueError("agent learns from single steps, not counts; use observe.")

    def observe_steps(self, *_: object, **__: object) -> None:
        """Refuse, since learning within the episodes would have changed the actions."""
        raise ValueError("agent learns within an episode; use observe.")

    def play(
        self,
        mdp: TabularMDP,
        episodes: int,
        rng: np.random.Generator,
        *,
        first: int = 0,
        tell: Callable[[int, FloatArray], object],
    ) -> tuple[list[int], FloatArray]:
        """Play episodes of all runs side by side, numbered from ``first``.

        ``tell`` is called after each episode, with its number and its rewards.

        Returns
        -------
        starts : list of int
            The numbers of all episodes.
        rewards : array, shape ``(episodes, *batch_shape)``
            Sum of the rewards of each episode and run.
        """
        rows = TransitionRows(mdp.transition, mdp.start)
        paid = np.broadcast_to(mdp.reward_table, mdp.transition.shape)[mdp.transition > 0]
        over = mdp.ends
        earned = np.zeros((episodes, len(self._runs)))
        for episode in range(first, first + episodes):
            self.begin_episode(episode)
            draws = rng.random((self.horizon + 1, len(self._runs)))
            rows.keep_below_one(draws)
            state = rows.next_state[rows.entries(rows.start_row + draws[-1])]
            for draw in draws[:-1]:
                action = self._choose(state)
                entry = rows.entries(state * self.n_actions + action + draw)
                following = rows.next_state[entry]
                self._learn(state, action, paid[entry], following, over[following])
                earned[episode - first] += paid[entry]
                state = following
                if over[state].all():
                    break
            tell(episode, earned[episode - first])
        return list(range(first, first + episodes)), earned.reshape(episodes, *self.batch_shape)

    def _check_charged(self) -> None:
        """Check that an accountant without a budget has let the agent begin."""
        if not self._draws:
            raise ValueError(
                "agent must begin an episode first, which charges its accountant: it is not "
                "private, and a budget refuses it; call begin_episode."
            )

    def _choose(self, state: IntArray) -> IntArray:
        values = self._values[self._runs, state]
        shuffled = self._rng.random(values.shape)
        best = np.where(values == values.max(axis=1, keepdims=True), shuffled, -1.0)
        explores = self._rng.random((len(state), 1)) < self._random
        return np.where(explores, shuffled, best).argmax(axis=1)

    def _learn(
        self, state: IntArray, action: IntArray, paid: FloatArray, next_state: IntArray,
        over: BoolArray,
    ) -> None:  # fmt: skip
        ahead = np.where(over, 0.0, self._values[self._runs, next_state].max(axis=1))
        where = self._runs, state, action
        target = paid + (1 - 1 / self.horizon) * ahead
        self._visits[where] += 1
        rate = (self.horizon + 1) / (self.horizon + self._visits[where])
        self._values[where] += rate * (target - self._values[where])

    def _plan(self, transition: Posterior, reward: Posterior) -> IntArray:
        del transition, reward
        return self.policy
