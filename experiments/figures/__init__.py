"""Figures and tables of the papers behind privrl, and some of privrl's own."""

from privrl.experiments.figures.base import Figure
from privrl.experiments.figures.bay import BAY_FIG2, BAY_FIG3, BAY_FIG4
from privrl.experiments.figures.bay_sensitivity import BAY_FIG1
from privrl.experiments.figures.dkl_conversion import DKL_FIG8
from privrl.experiments.figures.dkl_data import DKL_FIG4, DKL_FIG5, DKL_FIG9, DKL_FIG10, DKL_TABLE1
from privrl.experiments.figures.dkl_networks import DKL_FIG6, DKL_FIG7, DKL_FIG11
from privrl.experiments.figures.dkl_noise import DKL_NOISE_EXAMPLE
from privrl.experiments.figures.dkl_theory import DKL_FIG1, DKL_FIG2
from privrl.experiments.figures.dkl_tightness import DKL_FIG3
from privrl.experiments.figures.dps import DPS_EXAMPLE, DPS_FIG1
from privrl.experiments.figures.dps_histogram import DPS_FIG2
from privrl.experiments.figures.dps_posterior import DPS_FIG5
from privrl.experiments.figures.dps_rewards import DPS_FIG4
from privrl.experiments.figures.ours import OURS_FRONTIER, OURS_SCHEDULE, OURS_USERS
from privrl.experiments.figures.ours_exact import OURS_EXACT
from privrl.experiments.figures.sim import SIM_FIG1
from privrl.experiments.figures.sim_average import SIM_FIG2
from privrl.experiments.figures.sim_table import SIM_TABLE1

_ALL: tuple[Figure, ...] = (
    *(DPS_FIG1, DPS_EXAMPLE, DPS_FIG2, DPS_FIG4, DPS_FIG5),
    *(DKL_NOISE_EXAMPLE, DKL_FIG1, DKL_FIG2, DKL_FIG3, DKL_TABLE1),
    *(DKL_FIG4, DKL_FIG5, DKL_FIG6, DKL_FIG7, DKL_FIG8, DKL_FIG9, DKL_FIG10, DKL_FIG11),
    *(SIM_FIG1, SIM_FIG2, SIM_TABLE1),
    *(BAY_FIG1, BAY_FIG2, BAY_FIG3, BAY_FIG4),
    *(OURS_FRONTIER, OURS_EXACT, OURS_SCHEDULE, OURS_USERS),
)

#: By id, in the order of the papers.
FIGURES: dict[str, Figure] = {figure.id: figure for figure in _ALL}
