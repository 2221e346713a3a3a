"""privrl train."""

from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

from privrl.cli.options import options_of, takes_options, values_of
from privrl.cli.terminal import OUT, bar, command_line, friendly, print_cost, print_files


def _options() -> list[Parameter]:
    from privrl.experiments.methods import Method
    from privrl.experiments.training import TrainSpec

    return options_of(TrainSpec) + options_of(Method, panel="How the agent learns")


@takes_options(_options)
def train(
    *,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/train"),
    **options: Any,
) -> None:
    """Train one private agent on a Gymnasium environment.

    Rewards are taken to depend on the state that is arrived in, which costs more, unless the
    environment's own tables show that they do not.

    Writes policy.npy (the private policy: an action for each step and state), record.csv (what
    the agent earned: the researcher's view, not covered by the guarantee) and train.json.
    """
    with friendly():
        from privrl import _files
        from privrl.experiments.methods import Method
        from privrl.experiments.training import TrainSpec, run_training

        method = Method(**values_of(Method, options))
        spec = TrainSpec(method=method, **values_of(TrainSpec, options))
        _files.check_folder(out)
        with bar("training", spec.episodes) as on_progress:
            result = run_training(spec, on_progress=on_progress)
        written = _files.save_all(
            out,
            {
                "policy.npy": _files.array_writer(result.policy),
                "record.csv": _files.table_writer(result.record),
                "train.json": _files.json_writer(
                    {"command": command_line("train", options), "spec": spec.to_dict()}
                    | {"guarantee": result.guarantee}
                ),
            },
        )
        rewards = result.record["reward"]
        last = max(1, len(rewards) // 10)
        OUT.print(
            f"mean reward of an episode of at most {len(result.policy)} steps: "
            f"{rewards.mean():.4g} over all {len(rewards)}, "
            f"{rewards.tail(last).mean():.4g} over the last {last}"
        )
        print_cost(
            "policy.npy",
            result.guarantee,
            without="the sampler is non-private",
            also=f"; {result.guarantee['draws']} draws",
        )
        print_files(written)
