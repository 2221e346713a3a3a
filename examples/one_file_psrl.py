"""Private posterior sampling for reinforcement learning (PSRL), complete, in NumPy alone.

An agent learns to swim up a river in many short episodes. The privacy unit is one step: everything
that is published must look nearly the same if one step (a state, an action and its reward) is
replaced by any other. Read from top to bottom: the task, the noise, the agent.

    python examples/one_file_psrl.py

Given the same random numbers, `privrl.agents.PSRL` follows the same policies. It also checks its
arguments, charges an accountant, and rounds its releases, because the last bits of a float can
reveal the noise. Do not protect real data with this file.

References
----------
[1] Osband, Russo and Van Roy (2013), (More) Efficient Reinforcement Learning via Posterior
    Sampling.
[2] Fichtenberger, Henzinger and Upadhyay (2023), Constant matters.
[3] Denisov, McMahan, Rush, Smith and Guha Thakurta (2022), Improved differential privacy for SGD
    via optimal private linear operators on adaptive streams.
[4] Mironov (2017), Rényi differential privacy.
[5] Bun and Steinke (2016), Concentrated differential privacy.
[6] Puterman (1994), Markov Decision Processes, section 4.5.
"""

import math

import numpy as np

STATES, ACTIONS, HORIZON = 6, 2, 30  # the task is RiverSwim, as in [1]
EPISODES, GROWTH = 10_000, 1.3  # the agent draws afresh whenever its episodes grew by this factor
ORDER, EPSILON = 2.0, 1.0  # the budget of all that is ever released: Rényi divergence, in nats [4]
REWARD_SHARE = 1 / 3  # of the budget: rewards get this part, transitions the rest
PRIOR, THRESHOLD = 1.0, 1.5  # pseudo-count of each cell; standard deviations that are taken off
GRID = 2.0**-16  # rewards are multiples of it, so that sums of them are exact

# The task ----------------------------------------------------------------------------------------


def riverswim() -> tuple[np.ndarray, np.ndarray]:
    """Return the chances of next states, shape (S, A, S), and mean rewards, shape (S, A)."""
    chance = np.zeros((STATES, ACTIONS, STATES))
    for state in range(STATES):
        chance[state, 0, max(state - 1, 0)] = 1.0  # left, with the current
    for state in range(1, STATES - 1):
        chance[state, 1, state - 1 : state + 2] = 0.05, 0.60, 0.35  # right, against it
    chance[0, 1, :2] = chance[-1, 1, -2:] = 0.40, 0.60
    reward = np.zeros((STATES, ACTIONS))
    reward[0, 0], reward[-1, 1] = 0.005, 1.0
    return chance, reward


def play(
    chance: np.ndarray, policy: np.ndarray, episodes: int, rng: np.random.Generator
) -> np.ndarray:
    """Play episodes side by side; return how often each transition was made: private counts."""
    bounds = chance.cumsum(axis=-1)[..., :-1]
    counts, state = np.zeros(chance.shape), np.zeros(episodes, int)  # each begins at the left
    for actions in policy:
        action = actions[state]
        following = (rng.random(episodes)[:, None] > bounds[state, action]).sum(axis=1)
        np.add.at(counts, (state, action, following), 1)
        state = following
    return counts


def plan(chance: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the best policy, shape (H, S), and its value, by backward induction [6]."""
    policy, value = np.zeros((HORIZON, STATES), int), np.zeros(STATES)
    for step in reversed(range(HORIZON)):
        worth = reward + chance @ value
        policy[step], value = worth.argmax(axis=1), worth.max(axis=1)
    return policy, value[0]


# The noise ---------------------------------------------------------------------------------------


def draw_starts(episodes: int) -> list[int]:
    """Return before which episodes to draw: by time alone, so that the data do not tell."""
    starts, done = [0], 1
    while (done := max(done + 1, math.ceil(done * GROWTH))) <= episodes:
        starts.append(done - 1)
    return starts


def square_root(n: int) -> np.ndarray:
    """Return the lower triangular R with ``R R = A``, where A sums up a stream of n batches [2].

    Its diagonals are the coefficients of ``(1 − x)^(−1/2)``, for ``1 / (1 − x)`` has A's. Counts d
    are released as ``A d + R z = R (R d + z)``: as if ``R d`` had been released once, with noise z
    on it. A step is in one batch, so that it changes ``R d`` by a column of R times its own change;
    that later batches depend on what was released before changes nothing [3].
    """
    steps = np.arange(1, n)
    diagonals = np.concatenate([[1.0], np.cumprod((2 * steps - 1) / (2 * steps))])
    lag = np.subtract.outer(np.arange(n), np.arange(n))
    return np.where(lag >= 0, diagonals[lag], 0.0)


def noise_size(epsilon: float, change: float) -> float:
    """Return the standard deviation that hides counts which change by a norm.

    Gaussian noise has the Rényi divergence ``order * change² / (2 sigma²)`` [4].
    """
    return change * math.sqrt(ORDER / (2 * epsilon))


# A replaced step lies between two transitions: into its state and out of it. Two counts rise by one
# and two fall, a norm of 2; where a state follows itself both may be in one cell, which changes by
# 2, and the norm is √6. These cells are known, so they get √2 times the noise: counted in units of
# it, they change by √2, and the norm is 2 again.
STEP_CHANGE = 2.0
LOUDER = np.where(np.eye(STATES, dtype=bool)[:, None, :], math.sqrt(2), 1.0)
# A reward r counts as r in one cell and 1 − r in another, r² + (1 − r)² <= 1; a replaced step takes
# them out of the cells of one state and action, and puts others into those of another.
REWARD_CHANGE = math.sqrt(2)

# The agent ---------------------------------------------------------------------------------------


def posterior(noisy: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Return Dirichlet parameters; a count that may well be noise alone counts as nothing."""
    return np.maximum(noisy - THRESHOLD * deviation, 0.0) + PRIOR


def sample(alpha: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw each row from its Dirichlet distribution."""
    rows = rng.standard_gamma(alpha)
    return rows / rows.sum(axis=-1, keepdims=True)


def learn(
    episodes: int, epsilon: float, rng: np.random.Generator, world: np.random.Generator
) -> tuple[list[np.ndarray], float]:
    """Return the policies of a run, one for each draw, and its mean reward of an episode."""
    chance, reward = riverswim()
    parts = np.stack([reward, 1 - reward], axis=-1)
    parts = np.rint(parts / GRID) * GRID
    starts = draw_starts(episodes)
    root = square_root(len(starts))
    norm = math.sqrt((root**2).sum(axis=0).max())  # by which a step's own change is multiplied
    size = norm * noise_size((1 - REWARD_SHARE) * epsilon, STEP_CHANGE) * LOUDER
    reward_size = norm * noise_size(REWARD_SHARE * epsilon, REWARD_CHANGE)
    # All noise that there will ever be, each sum's in turn; the sums' sizes are public.
    noise = np.tensordot(root, rng.standard_normal((len(starts), *chance.shape)), axes=1)
    reward_noise = np.tensordot(root, rng.standard_normal((len(starts), *parts.shape)), axes=1)
    spread = np.sqrt((root**2).sum(axis=1))

    counts, visits, policies = np.zeros(chance.shape), np.zeros(reward.shape), []
    for draw, (start, end) in enumerate(zip(starts, [*starts[1:], episodes], strict=True)):
        # The only lines in which private numbers meet what is released.
        noisy = counts + size * noise[draw]
        noisy_rewards = visits[..., None] * parts + reward_size * reward_noise[draw]
        # One model of the posterior, and the best policy in it [1]: free, like all that follows.
        rows = sample(posterior(noisy, size * spread[draw]), rng)
        mean_reward = sample(posterior(noisy_rewards, reward_size * spread[draw]), rng)[..., 0]
        policies.append(plan(rows, mean_reward)[0])
        counts += play(chance, policies[-1], end - start, world)
        visits = counts.sum(axis=-1)
    return policies, float((visits * reward).sum()) / episodes


def main(seed: int | None = None) -> None:
    """Run it once, and print what was earned and what that cost.

    Whoever knows the seed knows the noise: but for tests it is the operating system's.
    """
    seeds = np.random.SeedSequence(seed).spawn(2)
    policies, earned = learn(EPISODES, EPSILON, *map(np.random.default_rng, seeds))
    best = plan(*riverswim())[1]
    rho = EPSILON / ORDER  # Gaussian noise has the divergence rho * order at all orders at once
    delta = 1e-5
    print(f"{EPISODES:,} episodes, {len(policies)} policies: {earned / best:.1%} of the optimum")
    print(f"cost: a Rényi divergence of {EPSILON:g} of order {ORDER:g} for each step, which is")
    print(f"({rho + 2 * math.sqrt(rho * math.log(1 / delta)):.2f}, {delta:g})-privacy [5]")


if __name__ == "__main__":
    main()
