"""privrl train."""

import json
import os
import sys
from dataclasses import asdict
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privrl.cli import outputs
from privrl.cli.options import options_of, takes_options, values_of
from privrl.cli.outputs import Force
from privrl.cli.report import WithReport, write_report
from privrl.cli.seeds import Reproducible, check_seed
from privrl.cli.terminal import OUT, bar, command_line, friendly, print_cost, print_files

if TYPE_CHECKING:
    from privrl.envs.worth import Worth
    from privrl.experiments.training import TrainResult

_CHECKPOINT = "checkpoint.private"


def _options() -> list[Parameter]:
    from privrl.experiments.methods import Method
    from privrl.experiments.training import TrainSpec

    return options_of(TrainSpec) + options_of(
        Method, defaults={"agent": TrainSpec.method.agent}, panel="How the agent learns"
    )


@takes_options(_options)
def train(
    *,
    reproducible: Reproducible = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/train"),
    force: Force = False,
    report: WithReport = False,
    checkpoint_every: Annotated[
        str | None,
        typer.Option(
            help="Save the run after so many episodes, or minutes (500, or 10min): the same "
            "command goes on where it was stopped."
        ),
    ] = None,
    **options: Any,
) -> None:
    """Train one private agent on a Gymnasium environment.

    Rewards are taken to depend on the state that is arrived in, which costs more, unless the
    environment's own tables or an attribute of it, `arrival_rewards = False`, say that they do
    not.

    Writes policy.npy (the private policy: an action for each step and state), record.csv (what
    the agent earned: the researcher's view, not covered by the guarantee) and train.json. Where
    the environment's tables are public it says how good the policy is: its exact value, and how
    far that is from chance (0) to the optimum (1).

    With --checkpoint-every there is a file checkpoint.private until the run has ended. It holds raw
    counts and the state of the noise, for you alone to read: keep it to yourself.
    """
    with friendly():
        from privrl import _files
        from privrl.experiments.methods import Method
        from privrl.experiments.training import Checkpoint, TrainSpec, run_training

        method = Method(**values_of(Method, options))
        spec = TrainSpec(method=method, **values_of(TrainSpec, options))
        check_seed(spec.seed, reproducible=reproducible)
        own = {"reproducible": reproducible, "checkpoint_every": checkpoint_every}
        outputs.check_new(out, ["policy.npy", "record.csv", "train.json"], force=force)
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
            result = run_training(spec, on_progress=on_progress, checkpoint=kept)
        written = _files.save_all(
            out,
            {
                "policy.npy": _files.array_writer(result.policy),
                "record.csv": _files.table_writer(result.record),
            },
            (
                "train.json",
                {"command": command_line("train", own | options), "spec": spec.to_dict()}
                | {"guarantee": result.guarantee, "worth": _shares(result.worth)},
            ),
        )
        path.unlink(missing_ok=True)  # all it is for is done, and it is not private
        _print_rewards(result)
        print_cost(
            "policy.npy",
            result.guarantee,
            without="the sampler is non-private",
            also=f"; draws: {result.guarantee['draws']}",
        )
        print_files(written)
        OUT.print(
            "record.csv holds what the agent earned in each episode, without any privacy: it is "
            "for research on simulations; keep it to yourself where an episode is a person's",
            soft_wrap=True,
        )
        if report:
            write_report(out)


def _shares(worth: "Worth | None") -> dict[str, Any] | None:
    return None if worth is None else asdict(worth) | {"share": worth.share(worth.policy)}


def _print_rewards(result: "TrainResult") -> None:
    """Say what was earned, what the policy is worth, and what these numbers mean."""
    worth = result.worth

    def shown(value: float) -> str:
        share = None if worth is None else worth.share(value)
        return f"{value:.4g}" + ("" if share is None else f" (share {share:.3g})")

    rewards = result.record["reward"]
    last = max(1, len(rewards) // 10)
    OUT.print(
        f"mean reward of an episode of at most {len(result.policy)} steps: "
        f"{shown(rewards.mean())} over all {len(rewards)}, "
        f"{shown(rewards.tail(last).mean())} over the last {last}"
    )
    if worth is not None:
        OUT.print(
            f"policy.npy is worth {shown(worth.policy)} by the environment's tables; a share is "
            f"how far from random actions, {worth.random:.4g}, to the optimum, {worth.optimum:.4g}"
        )
