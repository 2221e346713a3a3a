"""
What an attacker may learn
==========================

An attacker guesses from a release whether Anna is in the data. A blind guess is right half of the
time. The bound is the most that (ε, δ) allows. For a mechanism with a known exact cost, the other
lines show the attacker's real success.
"""

import matplotlib.pyplot as plt
import numpy as np

from privrl.accounting import ApproxDP
from privrl.mechanisms import GaussianMechanism, LaplaceMechanism

delta = 1e-5
epsilons = np.geomspace(0.05, 10, 25)
bound = (1 + delta * np.exp(-epsilons)) / (1 + np.exp(-epsilons))


def best_guess(mechanism):
    """Return how often the best attacker is right, from the total variation distance."""
    return 0.5 + 0.5 * float(mechanism.cost.delta(0.0))


targets = [ApproxDP(float(epsilon), delta) for epsilon in epsilons]
laplace = [best_guess(LaplaceMechanism.calibrated(target)) for target in targets]
gaussian = [best_guess(GaussianMechanism.calibrated(target)) for target in targets]

_, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
ax.plot(epsilons, bound, color="#000000", label="any mechanism, at most")
ax.plot(epsilons, laplace, color="#0072B2", linestyle="--", label="Laplace noise on a table")
ax.plot(epsilons, gaussian, color="#D55E00", linestyle=":", label="Gaussian noise on a table")
ax.set(xscale="log", xlabel="ε, at δ = 0.00001", ylabel="best guess is right", ylim=(0.45, 1.02))
ax.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
ax.legend(frameon=False)
plt.show()
