"""PSRL of rlberry-research, which is in no package index: a run by itself."""

import importlib.util
import sys
import types
from importlib.metadata import version

from peers import Call, say_missing, serve

# Its packages import torch and more, which this agent does not need: they stay empty here.
_PACKAGES = ("rlberry_research", "rlberry_research.agents", "rlberry_research.agents.psrl")
_PACKAGES += ("rlberry_research.agents.dynprog",)
found = importlib.util.find_spec(_PACKAGES[0])
for package in _PACKAGES if found and found.submodule_search_locations else ():
    sys.modules[package] = types.ModuleType(package)
    folders = package.split(".")[1:]
    sys.modules[package].__path__ = ["/".join([found.submodule_search_locations[0], *folders])]

try:
    import numpy as np
    from rlberry.envs.finite_mdp import FiniteMDP
    from rlberry_research.agents.psrl.psrl import PSRLAgent
except ImportError as error:
    say_missing(error)


def psrl(transition: list, reward: list, horizon: int, episodes: int) -> Call:
    mdp = FiniteMDP(np.array(reward), np.array(transition), initial_state_distribution=0)
    mdp.reward_range = (0.0, 1.0)
    agent = PSRLAgent(mdp, horizon=horizon, scale_prior_transition=1.0, seeder=1)
    return lambda: agent.fit(episodes)


if __name__ == "__main__":
    serve({"rlberry": version("rlberry"), "numpy": np.__version__}, {"psrl": psrl})
