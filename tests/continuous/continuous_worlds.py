"""A small made-up task for tests."""

import numpy as np

from privrl.continuous import Choice, ContinuousLog, ContinuousSchema, Number

SCHEMA = ContinuousSchema(
    state={"x": Number(low=-1, high=1), "phase": Number(low=0, high=1, periodic=True)},
    action={"push": Number(low=-1, high=1, levels=3)},
    reward=Number(low=-1, high=0),
    terminates=True,
)
MIXED = ContinuousSchema(
    state={"x": Number(low=-1, high=1), "ward": Choice(values=("a", "b", "c"))},
    action={"care": Choice(values=("wait", "treat"))},
    reward=Number(low=-1, high=0),
)


def walks(
    persons: int, seed: int, steps: int = 8, schema: ContinuousSchema = SCHEMA
) -> ContinuousLog:
    """Return a log in which x is pushed and the phase turns, or the ward goes round."""
    rng = np.random.default_rng(seed)
    rows: list[list[float]] = []
    for person in range(persons):
        x, other = rng.uniform(-0.5, 0.5), float(rng.integers(3)) if schema is MIXED else 0.0
        for _ in range(steps):
            action = schema.levels[rng.integers(schema.n_actions)][0]
            push = 2 * action - 1 if schema is MIXED else action
            after = min(max(0.9 * x + 0.1 * push + rng.normal(0, 0.01), -1), 1)
            turned = (other + 1) % 3 if schema is MIXED else (other + 0.05) % 1
            over = float(after > 0.9)
            rows.append([person, x, other, action, after, turned, -abs(x), over])
            x, other = after, turned
            if over:
                break
    table = np.array(rows)
    return ContinuousLog.of_arrays(
        schema,
        person=table[:, 0],
        state=table[:, 1:3],
        action=table[:, 3],
        next_state=table[:, 4:6],
        reward=table[:, 6],
        terminated=table[:, 7] if schema.terminates else None,
    )
