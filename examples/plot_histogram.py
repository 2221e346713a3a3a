"""
A private histogram
===================

Ages of 5000 people, released at three budgets. The number of records and the bins are public, and
each panel is a separate release.
"""

import matplotlib.pyplot as plt
import numpy as np

from privrl.accounting import ApproxDP
from privrl.models import histogram

rng = np.random.default_rng(0)  # for examples only: anyone who knows the seed can remove the noise
ages = np.clip(np.concatenate([rng.normal(34, 9, 3500), rng.normal(68, 8, 1500)]), 0, 99)
truth = np.histogram(ages, bins=20, range=(0, 100))[0] / len(ages)

_, panels = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True, layout="constrained")
for ax, epsilon in zip(panels, (0.01, 0.1, 1.0), strict=True):
    found = histogram(ages, bins=20, range=(0, 100), target=ApproxDP(epsilon, 1e-5), rng=rng)
    ax.bar(
        np.arange(0, 100, 5),
        found.probabilities,
        5,
        align="edge",
        color="#56B4E9",
        label="released",
    )
    ax.stairs(truth, np.linspace(0, 100, 21), color="#000000", label="true")
    ax.set(title=f"ε = {epsilon:g}", xlabel="age")
panels[0].set_ylabel("share of people")
panels[0].legend(frameon=False)
plt.show()
