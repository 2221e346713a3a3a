"""The schema of a small log of patients."""

from privrl.data import Bins, Categories
from privrl.data.logs import LogSchema

SCHEMA = LogSchema(
    person="patient",
    order="hour",
    state={"glucose": Bins((0, 4, 8, 40)), "ward": Categories(("medical", "surgical"))},
    action={"dose": Categories((0, 1, 2))},
    most_steps=5,
    outcome="left",
    outcomes=("well", "dead"),
    outcome_rewards=(1, 0),
)
