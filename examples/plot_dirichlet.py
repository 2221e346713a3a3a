"""
What a Dirichlet draw costs
===========================

One draw from the posterior ``Dirichlet(weight * counts + alpha)`` is private without further noise.
A larger prior reveals less about the data, and the draw resembles the data less.
"""

import matplotlib.pyplot as plt
import numpy as np

from privrl.costs import DirichletCost, ReplaceRecord

alphas = np.geomspace(1, 300, 9)
costs = [DirichletCost(relation=ReplaceRecord(), weight=1.0, alpha=float(a)) for a in alphas]

_, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for delta, style in ((1e-3, "-"), (1e-6, "--")):
    epsilons = [float(cost.epsilon(delta)) for cost in costs]
    ax.plot(alphas, epsilons, style, color="#0072B2", label=f"δ = {delta:g}")
ax.set(xscale="log", yscale="log", xlabel="prior α, in pseudo-observations", ylabel="ε of one draw")
ax.set_xticks([1, 10, 100], ["1", "10", "100"])
ax.set_yticks([0.3, 1, 3, 10], ["0.3", "1", "3", "10"])
ax.minorticks_off()
ax.legend(frameon=False)
plt.show()
