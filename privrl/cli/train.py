"""privrl train."""

import json
import os
import shlex
import sys
from dataclasses import asdict
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privrl.cli import outputs
from privrl.cli.answers import guaranteed, named
from privrl.cli.options import options_of, takes_options, values_of
from privrl.cli.outputs import Force
from privrl.cli.playing import DEFAULT_OUT, print_shares, reward_title
from privrl.cli.report import WithReport, write_report
from privrl.cli.seeds import Reproducible, check_seed
from privrl.cli.terminal import OUT, bar, command_line, print_cost, print_files

if TYPE_CHECKING:
    from privrl.envs.worth import Worth
    from privrl.experiments.training.run import TrainResult

_CHECKPOINT = "checkpoint.private"
_FILES = (
    "policy.json",
    "tables.npz",
    "policy.png",
    "learning_curve.png",
    "record.csv",
    "train.json",
)


def _options() -> list[Parameter]:
    from privrl.agents.methods import Method
    from privrl.experiments.training import TrainSpec

    return options_of(TrainSpec) + options_of(
        Method, defaults={"agent": TrainSpec.method.agent}, panel="How the agent learns"
    )


@takes_options(_options)
def train(
    answer: dict[str, Any],
    *,
    reproducible: Reproducible = None,
    out: Path = DEFAULT_OUT,
    force: Force = False,
    report: WithReport = False,
    checkpoint_every: str | None = None,
    **options: Any,
) -> None:
    """Train one private agent on a Gymnasium environment.

    By default rewards may depend on the next state, which costs more. The environment's tables, or
    its attribute `arrival_rewards = False`, can show that they do not.

    Without --bins, continuous observations stay numbers, within public --ranges: a model of them is
    learned, and policy.json has its plan in tables.npz.

    Writes policy.json (the private policy as readable text: an action for each step and state) and
    policy.png, a picture of it; record.csv and learning_curve.png (the agent's rewards: the
    researcher's view, not covered by the guarantee); and train.json. If the environment's tables
    are public, prints the policy's exact value, on a scale from random actions (0 %) to the
    optimum (100 %).

    privrl play and privrl watch play the saved policy.

    With --checkpoint-every, the folder holds a file checkpoint.private until the run has ended. It
    holds raw counts and the state of the noise: never share it.

    Parameters
    ----------
    out
        Folder for the files.
    checkpoint_every
        Save the run after this number of episodes, or minutes (500, or 10min). Rerun the
        command to resume.
    """
    from privrl.agents import Checkpoint
    from privrl.agents.methods import Method
    from privrl.experiments.training import TrainSpec, run_training
    from privrl.files import files as _files

    method = Method(**values_of(Method, options))
    spec = TrainSpec(method=method, **values_of(TrainSpec, options))
    check_seed(spec.seed, reproducible=reproducible)
    own = {"reproducible": reproducible, "checkpoint_every": checkpoint_every}
    outputs.check_new(out, _FILES, force=force)
    kept, path = None, out / _CHECKPOINT
    if checkpoint_every is not None:
        run = json.dumps(spec.to_dict())
        kept = Checkpoint.parse(checkpoint_every, path=path, run=run)
        out.mkdir(parents=True, exist_ok=True)
        if path.exists():
            OUT.print(f"going on from {path}", soft_wrap=True)
    elif path.exists():
        raise ValueError(
            f"out has {_CHECKPOINT}, of a run that was stopped, got {str(out)!r}; go on with "
            "it: --checkpoint-every, or remove it."
        )
    if ":" in spec.env and not sys.flags.safe_path:
        sys.path.append(os.getcwd())  # where python -m looks for modules, and scripts do not
    with bar("training", spec.episodes) as on_progress:
        result = run_training(spec, callback=lambda told: on_progress(told.done), checkpoint=kept)
    from privrl.agents import Policy

    said = spec.to_dict()
    if not isinstance(result.policy, Policy):  # what learned from numbers has no such settings
        del said["method"]
        options = {name: value for name, value in options.items() if name not in vars(method)}
    pictures = {}
    if isinstance(result.policy, Policy):
        policy = {"policy.json": _files.text_writer(result.policy.to_text())}
    else:
        policy = result.policy.files()
    _files.save_all(out, policy)  # whatever happens to the pictures
    from privrl.experiments.training import plots

    if isinstance(result.policy, Policy):
        figure = plots.policy_figure(result.policy, result.grid)
        pictures["policy.png"] = _files.figure_writer(figure)

    written = _files.save_all(
        out,
        {
            **policy,
            **pictures,
            "learning_curve.png": _files.figure_writer(
                plots.learning_figure(result.record, result.worth, spec.env, spec.method)
            ),
            "record.csv": _files.table_writer(result.record),
        },
        (
            "train.json",
            {"command": command_line("train", own | options), "spec": said}
            | {"guarantee": result.guarantee, "worth": _shares(result.worth)},
        ),
    )
    path.unlink(missing_ok=True)  # all it is for is done, and it is not private
    _print_rewards(result, spec.env)
    print_cost(
        "policy.json",
        result.guarantee,
        without="the sampler, or the environment, is non-private",
        also=f"; draws: {result.guarantee['draws']}",
    )
    print_files(written)
    OUT.print(
        "record.csv and learning_curve.png show what the agent earned in each episode, without "
        "any privacy: they are for research on simulations; keep them to yourself where an "
        "episode is a person's"
    )
    _print_next(out)
    answer |= {
        "env": spec.env,
        "episodes": spec.episodes,
        "guarantee": guaranteed(result.guarantee),
        "worth": _shares(result.worth),
        "files": named(written),
    }
    if report:
        answer.update(write_report(out))


def _shares(worth: "Worth | None") -> dict[str, Any] | None:
    return None if worth is None else asdict(worth) | {"share": worth.share(worth.policy)}


def _print_rewards(result: "TrainResult", env: str) -> None:
    """Say what the reward is of, and what was earned, beside the optimum and chance."""
    worth, rewards = result.worth, result.record["reward"]
    last = max(1, len(rewards) // 10)
    rows = [
        ("while learning, all episodes", rewards.mean()),
        (f"while learning, the last {last}", rewards.tail(last).mean()),
    ]
    if worth is not None:
        rows = [
            ("the best there is", worth.optimum),
            ("policy.json, expected", worth.policy),
            *reversed(rows),
            ("random actions", worth.random),
        ]
    print_shares(reward_title(env, result.policy), rows, worth)


def _print_next(out: Path) -> None:
    folder = "" if out == DEFAULT_OUT else f" {shlex.quote(str(out))}"
    OUT.print(
        f"next: privrl play{folder}   its reward in new episodes\n"
        f"      privrl watch{folder}  an episode as an animation",
        markup=False,
        soft_wrap=True,
    )
