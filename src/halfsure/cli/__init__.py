"""The command line: `halfsure train`, `predict`, `compare` and more; `COMMANDS` has them all."""

import atexit
import difflib
import os
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from types import FrameType
from typing import Any, Protocol

from rich.console import Console

from halfsure.cli.process import prepare_process
from halfsure.cli.terminal import screen
from halfsure.cli.version import Version

__all__ = ["COMMANDS", "main", "program"]


@dataclass(frozen=True)
class Row:
    """A command as the overview has it, and where it is."""

    place: str
    about: str


COMMANDS = {
    "train": Row("train.Train", "train a classifier on a few labels and many unlabeled samples"),
    "resume": Row("train.Resume", "go on with a run that was stopped"),
    "predict": Row("predict.Predict", "predict the classes of new data"),
    "evaluate": Row("evaluate.Evaluate", "measure a model on data with labels"),
    "compare": Row("compare.Compare", "train several methods on the same labels and put them side by side"),
    "reproduce": Row("reproduce.Reproduce", "run the paper's experiments, or show what has been run"),
    "report": Row("report.Report", "write a page about a run or a comparison"),
    "demo": Row("demo.Demo", "see in about a minute what unlabeled samples add"),
    "methods": Row("methods.Methods", "list the methods, and what they are put together from"),
    "data": Row("data.Data", "list, fetch, describe and check the official data sets"),
    "encoders": Row("encoders.Encoders", "list the pretrained networks, and fetch their weights"),
    "bank": Row("bank.Bank", "list, describe and remove the features that encoders have computed"),
    "version": Row("version.Version", "print the version"),
}

NO_MEMORY = ("can't allocate memory", "out of memory")
"""What torch says, on the CPU and on a GPU, in place of a MemoryError."""

OVERVIEW = """\
usage: halfsure COMMAND [OPTIONS]

Semi-supervised classification that knows when it is unsure.

{commands}

examples:
  halfsure demo
  halfsure train digits
  halfsure train my_pictures --method fixmatch-ads --labels 100 --out runs/mine
  halfsure predict runs/mine new_pictures -o predictions.csv

`halfsure COMMAND --help` tells the options of a command, `halfsure --version` the version.
With any command, --parts FILE loads a Python file that registers parts of your own."""


class Command(Protocol):
    """What every subcommand can do."""

    def run(self, console: Console) -> int:
        """Do it, print the result, give the exit code."""
        ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command: 0 done, 1 done with a bad answer or broken off, 2 refused, 128 + signal stopped by one."""
    console, errors = screen(), screen(stderr=True)
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        arguments = _known(arguments, console, errors)
        if arguments == ["version"]:
            return Version().run(console)
        with _heeded() as stop_if_asked:
            prepare_process()
            return _carry_out(arguments, console, errors, stop_if_asked)
    except BrokenPipeError:  # whoever read the output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    except KeyboardInterrupt as stopped:
        _say(errors, "stopped; what was saved so far is kept, and the same command goes on from there")
        return 128 + (stopped.args[0] if stopped.args else signal.SIGINT)


def program() -> None:
    """Run a command and end the process."""
    code = main()
    if "RANK" not in os.environ:
        sys.exit(code)
    # Started by torchrun: threads of gloo may outlive what they belong to, and then abort a process that is done. The
    # launcher takes that for a failure and stops the others. So it ends without tearing anything down.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def _heeded() -> Iterator[Callable[[], None]]:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does, in a sentence; one that is ignored stays so.

    → what stops now if that was asked for before: where modules are loaded an exception can get lost.
    """
    asked: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        raise KeyboardInterrupt(number)

    def now() -> None:
        if asked:
            raise KeyboardInterrupt(asked[0])

    known = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    usual = (signal.SIG_DFL, signal.default_int_handler)
    main_thread = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in known if main_thread}
    heeded = {number: handler for number, handler in before.items() if handler in usual}
    for number in heeded:
        signal.signal(number, stop)
    try:
        yield now
    finally:
        for number, handler in heeded.items():
            signal.signal(number, handler)


def _carry_out(arguments: list[str], console: Console, errors: Console, stop_if_asked: Callable[[], None]) -> int:
    """Read a command and run it; what it refuses becomes a sentence and an exit code."""
    # The overview and the version need none of this, and do not wait for torch.
    from halfsure.data import DataError  # noqa: PLC0415
    from halfsure.training.errors import BrokenError, RunError, StoppedError  # noqa: PLC0415
    from halfsure.training.ranks import ToldError  # noqa: PLC0415

    def show(message: Warning | str, *_: object, **__: object) -> None:
        errors.print(f"warning: {message}", style="yellow", soft_wrap=True, markup=False)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            stop_if_asked()
            command = _parse(arguments)
            stop_if_asked()
            return command.run(console)
    except StoppedError as stopped:
        _say(errors, stopped)
        return 128 + stopped.signal
    except BrokenPipeError:  # an OSError too, but nothing to tell a person of
        raise
    except (DataError, RunError, OSError, MemoryError) as error:
        if not isinstance(error, ToldError):
            _say(errors, _in_words(error))
        return 1 if isinstance(error, BrokenError | MemoryError) else 2
    except RuntimeError as error:
        if not any(words in str(error) for words in NO_MEMORY):
            raise
        _say(errors, _in_words(MemoryError()))
        return 1


def _in_words(error: Exception) -> str:
    """What went wrong; of what the system says, the file and the words without their number."""
    if isinstance(error, MemoryError):
        return "there is too little memory for this; what was saved so far is kept"
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{os.fsdecode(error.filename)}: {error.strerror}"


def _say(errors: Console, text: object) -> None:
    with suppress(OSError):  # a terminal that was closed hears nothing
        errors.print(f"halfsure: {text}", soft_wrap=True, highlight=False, markup=False)


def _overview() -> str:
    return OVERVIEW.format(commands="\n".join(f"  {name:<9} {row.about}" for name, row in COMMANDS.items()))


def _known(arguments: list[str], console: Console, errors: Console) -> list[str]:
    """The same words if they begin with a command; else say which there are, and end."""
    if arguments[:1] == ["--version"]:
        return ["version"]
    if arguments[:1] in (["--help"], ["-h"], ["help"]):
        console.print(_overview(), highlight=False, markup=False, soft_wrap=True)
        raise SystemExit(0)
    if arguments and arguments[0] in COMMANDS:
        return arguments
    if arguments:
        near = difflib.get_close_matches(arguments[0], COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(COMMANDS)}."
        text = f"halfsure: there is no command {arguments[0]!r}; {hint} See halfsure --help"
    else:
        text = _overview()
    errors.print(text, highlight=False, markup=False, soft_wrap=True)
    raise SystemExit(2)


def _parse(arguments: Sequence[str]) -> Command:
    """Read the command and its options, once the files that `--parts` names are loaded."""
    from halfsure.data import DataError  # noqa: PLC0415
    from halfsure.settings import load_parts  # noqa: PLC0415

    words, files = _without_parts(arguments)
    try:
        load_parts(files)
        from halfsure.cli.options import read_options  # noqa: PLC0415

        name, *rest = words
        module, _, kind = COMMANDS[name].place.partition(".")
        options: Any = getattr(import_module(f"halfsure.cli.{module}"), kind)
        if hasattr(options, "read"):
            return options.read(rest, shlex.join(["halfsure", *arguments]))  # type: ignore[no-any-return]
        return read_options(options, rest, name)  # type: ignore[no-any-return]
    except ValueError as error:  # a setting out of its range, or a method that has no meaning
        raise DataError(str(error)) from None


def _without_parts(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words without `--parts FILE`, and the files."""
    words, files = [], []
    left = iter(arguments)
    for word in left:
        name, equals, file = word.partition("=")
        if name != "--parts":
            words.append(word)
        elif (given := file if equals else next(left, "")) and not given.startswith("--"):
            files.append(given)
        else:
            raise ValueError("--parts takes the Python file that registers parts")
    return words, files
