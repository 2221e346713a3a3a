"""
A private agent, and what it learned
====================================

PSRL learns to swim up a river in 1000 episodes of 30 steps. The privacy unit is one step. The
policy is a table with one action for each state and each step of an episode.
"""

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

import privrl.envs
from privrl.agents import PSRL

env = gym.make("privrl/RiverSwim-v0")
mdp = privrl.envs.riverswim()

_, panels = plt.subplots(1, 3, figsize=(9, 3.4), sharey=True, layout="constrained")
for ax, epsilon in zip(panels, (0.1, 1, 10), strict=True):
    agent = PSRL.private(env, epsilon=epsilon, rng=np.random.default_rng(1)).learn()
    policy = agent.to_policy()
    share = mdp.policy_value(policy.actions) / mdp.optimal_value()
    ax.imshow(
        policy.actions, cmap=ListedColormap(["#E69F00", "#0072B2"]), vmin=0, vmax=1, aspect="auto"
    )
    spent = agent.accountant.epsilon(1e-5)
    ax.set(title=f"ε = {spent:.2g}, δ = 1e-5\n{share:.0%} of the optimum", xlabel="state")
panels[0].set_ylabel("step")
panels[0].plot([], [], "s", color="#E69F00", label="left")
panels[0].plot([], [], "s", color="#0072B2", label="right")
panels[0].figure.legend(loc="outside right center", frameon=False)
plt.show()
