"""The command ``outfold``. Exit codes: 0 done, 1 failed, 2 bad call or bad input, 128 + n ended by signal n."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from ..._version import __version__
from ...exceptions import ClusterError, TableError
from . import explore, inspect, options, serve
from . import fit as cli_fit
from .console import line
from .options import option

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # each ends a command as Ctrl-C does: partial files are removed


@contextmanager
def _interrupted_by_signals() -> Iterator[list[int]]:
    """Yield the list of signals that have come; each raises ``KeyboardInterrupt``, unless the caller has it ignored."""
    heard: list[int] = []
    working = True

    def interrupt(number: int, frame: FrameType | None) -> None:
        if working:
            heard.append(number)
            raise KeyboardInterrupt

    before = {}
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
        usual = (signal.SIG_DFL, signal.default_int_handler)
        before = {n: signal.signal(n, interrupt) for n in numbers if signal.getsignal(n) in usual}
    try:
        yield heard
    finally:
        working = False  # a signal from now on finds nothing to interrupt
        for number, handler in before.items():
            signal.signal(number, handler)


class _Polite(click.Group):
    """A command group that reports an exception as one sentence; with ``--debug`` it shows the traceback."""

    def main(self, *args: object, **settings: object) -> object:  # type: ignore[override]
        """Run a command. One that a signal ended exits with 128 + its number, as shells say it: 130 after Ctrl-C."""
        with _interrupted_by_signals() as heard:
            run: Callable[..., object] = super().main
            try:
                return run(*args, **settings)
            except SystemExit as end:
                if heard and end.code == 1:
                    raise SystemExit(128 + heard[0]) from end
                raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added, not sorted by name."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise  # click handles these itself
        except Exception as error:
            if ctx.params["debug"]:
                raise
            raise _describe_error(error, ctx.invoked_subcommand) from error


def _describe_error(error: Exception, command: str | None) -> click.ClickException:
    """Return the error for click: exit code 2 for a bad call or bad data, 1 for a failure of the program."""
    words = str(error) or "no reason was given"
    if command in ("fit", "plan", "tune") and isinstance(error, ValueError) and not isinstance(error, TableError):
        words = "\n".join(filter(None, [words, options.spell_value(words)]))
    if isinstance(error, ValueError | TypeError | FileNotFoundError | IsADirectoryError):
        return click.UsageError(words)
    if isinstance(error, MemoryError | ImportError | ClusterError | OSError):
        return click.ClickException(words)
    return click.ClickException(f"{type(error).__name__}: {words}\n(outfold --debug shows where.)")


@click.group(cls=_Polite, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="outfold")
@click.option("--debug", is_flag=True, help="Show the traceback of a failure.")
def main(debug: bool) -> None:
    """Spectral manifold learning whose embeddings are functions: fit once, embed any new point.

    outfold COMMAND --help tells more of a command. Exit codes: 0 done, 1 failed, 2 bad call or bad input,
    130 interrupted, 143 terminated.

    \b
    Example:
      outfold demo
      outfold fit wine.csv --id bottle --save wine.outfold
      outfold transform wine.outfold more.csv --trust -o places.csv
      outfold explore wine.outfold wine.csv
    """


@click.command(short_help="Embed digits the fit has not seen, and draw them.")
@option("--out", "Where the picture goes (png, svg or pdf).", "FILE", callback=options.writable(*options.PICTURES),
        default="outfold-demo.png")  # fmt: skip
@options.quiet
def demo(out: Path, quiet: bool) -> None:
    """Embed handwritten digits, then digits the fit has not seen, and draw both.

    \b
    Example:
      outfold demo --out digits.png
    """
    from . import demo

    result = demo.run()
    if not quiet:
        click.echo(demo.summary(result))
    try:
        demo.draw(result, out)
    except ImportError as error:
        click.echo(line("picture", str(error)), err=quiet)
        return
    if not quiet:
        click.echo(line("picture", str(out)))


@click.command(short_help="Run the papers' experiments and put our figures beside theirs.")
@click.argument("names", nargs=-1, metavar="[NAME ... | all]")
@option("--out", "The folder for pictures, tables and the page.", "FOLDER", callback=options.new_folder,
        default="outfold-reproduce")  # fmt: skip
@options.seed
@option("--repeats", "At most so many repeats of what the papers repeat.", "N", least=1)
@options.quiet
def reproduce(names: tuple[str, ...], out: Path, seed: int, repeats: int | None, quiet: bool) -> None:
    """Run the papers' experiments and put our figures beside theirs.

    Without a name it lists them. Pictures, results.json, results.md and index.html go to the folder; what
    earlier runs left there stays on the page.

    \b
    Example:
      outfold reproduce helix --out papers
    """
    from ... import papers, plotting
    from ...papers import page
    from ...papers.record import Effort, NotAtHand

    if not names:
        for name in papers.EXPERIMENT_NAMES:
            click.echo(f"{name:<15} {papers.experiment(name).title}")
        return
    if unknown := [name for name in names if name not in (*papers.EXPERIMENT_NAMES, "all")]:
        raise click.UsageError(
            f"There is no experiment {unknown[0]!r}. There are: {', '.join(papers.EXPERIMENT_NAMES)}; or all."
        )
    wanted = [name for name in papers.EXPERIMENT_NAMES if name in names or "all" in names]
    plotting.panels(1)  # without matplotlib this raises before anything is computed, and says what to install
    bars = not quiet and sys.stderr.isatty()
    left_out = []
    for name in wanted:
        try:
            record = page.run(papers.experiment(name), Effort(seed, repeats, bars), out)
        except NotAtHand as error:
            left_out.append(f"{name} was left out: {error}")
            continue
        page.assemble(out)  # after each experiment, so that the page is complete even if the next one fails
        if not quiet:
            click.echo(f"{name:<15} {page.summary(record)}")
    if len(left_out) == len(wanted):
        raise click.ClickException("\n".join(left_out))
    for text in left_out:
        click.echo(text, err=True)
    if not quiet:
        click.echo(f"{'page':<15} {out / 'index.html'}")


_COMMANDS = (
    *(demo, cli_fit.fit, cli_fit.transform, cli_fit.inverse, inspect.info, inspect.plan, inspect.tune),
    *(explore.explore, explore.report, serve.serve, reproduce),
)
for _command in _COMMANDS:
    main.add_command(_command)
