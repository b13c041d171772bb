"""The command line: `halfsure train | resume | methods | data | version`."""

import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

import tyro
from rich.console import Console
from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, subcommand

import halfsure
from halfsure.cli.data import Data
from halfsure.cli.methods import Methods
from halfsure.cli.train import Resume, Train
from halfsure.data import DataError
from halfsure.engine import BrokenError, RunError, StoppedError

__all__ = ["main"]


class Command(Protocol):
    """What every subcommand can do."""

    def run(self, console: Console) -> int:
        """Do it, print the result, give the exit code."""
        ...


@dataclass(frozen=True)
class Version:
    """Print the version."""

    def run(self, console: Console) -> int:
        """Print it."""
        console.print(halfsure.__version__, highlight=False)
        return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command: 0 done, 1 done with a bad answer or broken off, 2 refused, 128 + signal stopped by one."""
    console, errors = Console(), Console(stderr=True)
    arguments = sys.argv[1:] if arguments is None else list(arguments)

    def show(message: Warning | str, *_: object, **__: object) -> None:
        errors.print(f"warning: {message}", style="yellow", soft_wrap=True, markup=False)

    def say(text: object) -> None:
        errors.print(f"halfsure: {text}", soft_wrap=True, highlight=False, markup=False)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            return _parse(arguments).run(console)
    except StoppedError as stopped:
        say(stopped)
        return 128 + stopped.signal
    except BrokenError as error:
        say(error)
        return 1
    except BrokenPipeError:  # whoever read the output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    except (DataError, RunError, OSError) as error:
        say(error)
        return 2
    except KeyboardInterrupt:
        say("stopped; what was saved so far is kept, and the same command goes on from there")
        return 130


def _parse(arguments: Sequence[str]) -> Command:
    """Read the command and its options; those of `train` twice, the second time with what its preset says."""
    config = (OmitSubcommandPrefixes, OmitArgPrefixes)
    try:
        command: Command = tyro.cli(
            Annotated[Train, subcommand("train")]
            | Annotated[Resume, subcommand("resume")]
            | Annotated[Methods, subcommand("methods")]
            | Annotated[Data, subcommand("data")]
            | Annotated[Version, subcommand("version")],
            args=arguments,
            prog="halfsure",
            description="Semi-supervised classification that knows when it is unsure.",
            config=config,
        )
        if isinstance(command, Train):
            default = command.by_preset()
            given = tyro.cli(Train, args=arguments[1:], prog="halfsure train", default=default, config=config)
            return given.with_data(command.opened).checked()
    except ValueError as error:  # a setting out of its range, or a method that has no meaning
        raise DataError(str(error)) from None
    return command
