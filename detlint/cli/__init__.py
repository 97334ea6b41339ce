"""The `detlint` command: one module a command, imported when it is called, and the exit code.

0: clean; 1: findings; 2: detlint could not do its job.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from detlint.errors import DetlintError, UsageError, did_you_mean
from detlint.version import __version__

_DEFAULT = "check"
# command → module that defines a click command of the same name
_COMMANDS: Mapping[str, str] = {
    "audit": "detlint.cli.audit",
    "check": "detlint.cli.check",
    "clean": "detlint.cli.clean",
    "compare": "detlint.cli.compare",
    "env": "detlint.cli.env",
    "explain": "detlint.cli.rules",
    "ops": "detlint.cli.ops",
    "record": "detlint.cli.record",
    "rules": "detlint.cli.rules",
}
_DEBUG = click.Option(["--debug"], is_flag=True, expose_value=False, help="Show tracebacks of internal errors.")
"""For every command: `main` looks for it among the arguments."""
_INTERRUPTED = 130
_COMPLETE = "_DETLINT_COMPLETE"  # set by the shell that asks how to complete a command line
# A full disk, a limit or a broken device behind stdout; a stream that the caller has closed.
_STREAM_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class _Commands(click.Group):
    """Import commands only when called; anything else on the command line is meant for `check`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(_COMMANDS[cmd_name]), cmd_name)
        assert isinstance(command, click.Command)
        if all(parameter.name != "debug" for parameter in command.params):
            command.params.append(_DEBUG)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        if ctx.resilient_parsing and not args:  # the first word is being completed, and may become a command
            return super().parse_args(ctx, args)
        if not args or args[0] not in own | set(_COMMANDS):
            if not ctx.resilient_parsing:
                _refuse_misspelt(args[:1])
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer commands, and what `check` takes, for which no command need be written."""
        check = self.get_command(ctx, _DEFAULT)
        assert check is not None
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            return [*found, *check.shell_complete(click.Context(check, info_name=_DEFAULT, parent=ctx), incomplete)]
        return found or [CompletionItem(incomplete, type="file")]


def _refuse_misspelt(first: list[str]) -> None:
    """Tell a word that is nearly a command from a path that does not exist."""
    for word in first:
        nearest = did_you_mean(word, _COMMANDS)
        if nearest and not Path(word).exists():
            raise UsageError(f"{word}: no such path or command{nearest}")


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`detlint PATHS` is short for `detlint check PATHS`. Exit codes: 0 clean, 1 findings, 2 error.",
)
@click.version_option(__version__, "-V", "--version", message="detlint %(version)s")
def detlint() -> None:
    """Find what makes a PyTorch program give different results from the same input."""


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code; errors are one line on stderr."""
    _stand_in_for_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    debug = "--debug" in (sys.argv if args is None else args)
    try:
        code = detlint.main(args, prog_name="detlint", standalone_mode=False)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except BrokenPipeError:
        _give_up_stdout()  # whoever read the report has seen enough
        code = 2
    except click.ClickException as error:
        code = _fail(error.format_message())
    except DetlintError as error:
        code = _fail(str(error))
    except (Exception, SystemExit) as error:  # the last door: never confuse a crash with "findings", which is 1
        if isinstance(error, SystemExit) and _COMPLETE in os.environ:
            raise
        if isinstance(error, SystemExit) and type(sys.stdout).__name__.endswith("PacifyFlushWrapper"):
            sys.exit(2)  # click has noticed before us that whoever read the report has seen enough
        if debug:
            raise
        if isinstance(error, OSError) and error.filename is None and error.errno in _STREAM_ERRORS:
            _give_up_stdout()
            code = _fail(f"stdin or stdout: {error.strerror}")
        else:
            code = _fail(f"internal error: {type(error).__name__}: {error} (run with --debug and report it)")
    sys.exit(code or 0)


def _stand_in_for_closed_streams() -> None:
    """Let the use of a stream that the caller has closed (`>&-`) fail as on a full disk, and not as a crash."""
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_WRONLY), "r")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _give_up_stdout() -> None:
    """Keep Python's own flush at exit quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> int:
    click.echo(f"detlint: {message}", err=True)
    return 2
