"""`detlint check`: lint files, show the findings, and say by the exit code whether there were any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from detlint.cli.adoption import Baselines, changed_files, looked_for, on_changed_lines
from detlint.cli.output import Output, check_writable
from detlint.cli.progress import Progress
from detlint.cli.stdin import Stdin
from detlint.cli.watch import watch as watch_files
from detlint.config import ConfigResolver, enabled_rules
from detlint.errors import UsageError, first_few
from detlint.findings import Finding, Severity
from detlint.linter.engine import lint_paths
from detlint.linter.jobs import Options
from detlint.linter.result import LintResult
from detlint.linter.source.discovery import not_python
from detlint.linter.source.quoting import file_line, file_lines
from detlint.reports import LINT_FORMATS, renderer
from detlint.reports.run_info import RunInfo
from detlint.reports.statistics import render_statistics
from detlint.reports.terminal import printable
from detlint.rulebook import load_rules
from detlint.settings import Settings, read_pattern, read_torch_version

if TYPE_CHECKING:
    from detlint.linter.fixing import FixedFile, Fixes

_LEVELS = [level.value for level in Severity]
_FOR_PEOPLE = ("text", "concise")
_WITH_FIXES = ("json", "jsonl", "sarif")


def _listed(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...] | None:
    """Split values at commas; None where the option was not given."""
    return tuple(part.strip() for value in given for part in value.split(",") if part.strip()) if given else None


def _patterns(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...] | None:
    patterns = _listed(ctx, parameter, given)
    return patterns and tuple(read_pattern(parameter.opts[0], pattern) for pattern in patterns)


def _torch_version(ctx: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    return None if given is None else read_torch_version("--torch-version", given)


def _level(ctx: click.Context, parameter: click.Parameter, given: str | None) -> Severity | None:
    return None if given is None else Severity(given)


def _list_option(name: str, metavar: str, text: str) -> Callable[[click.decorators.FC], click.decorators.FC]:
    callback = _patterns if metavar == "PATTERNS" else _listed
    return click.option(name, multiple=True, callback=callback, metavar=metavar, help=text)


@click.command()
@click.argument("paths", nargs=-1, type=click.Path())
@_list_option("--select", "RULES", "Rules to use instead of the configured ones: codes, prefixes, names, ALL.")
@_list_option("--extend-select", "RULES", "Rules to use as well.")
@_list_option("--ignore", "RULES", "Rules to leave out.")
@_list_option("--exclude", "PATTERNS", "Files and folders to leave out, instead of the configured ones.")
@_list_option("--extend-exclude", "PATTERNS", "Files and folders to leave out as well.")
@click.option("--force-exclude", is_flag=True, default=None, help="Exclude files named on the command line too.")
@click.option("--severity", type=click.Choice(_LEVELS), callback=_level, help="Show findings from this level on.")
@click.option("--fail-on", type=click.Choice(_LEVELS), callback=_level, help="Exit with 1 from this level on.")
@click.option(
    "--torch-version",
    metavar="V",
    callback=_torch_version,
    help="Release to lint for, such as 2.13; by default the newest the project allows.",
)
@click.option("--config", type=click.Path(path_type=Path), help="Use this file and look for no other.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
@click.option("--fix", is_flag=True, help="Repair what can be repaired safely.")
@click.option(
    "--unsafe-fixes", is_flag=True, help="With --fix or --diff: also what may change order, speed or results."
)
@click.option("--diff", is_flag=True, help="Show what --fix would change and write nothing; exit with 1 if anything.")
@click.option(
    "--baseline", type=click.Path(path_type=Path), help="Hide the findings that this file lists; mend none of them."
)
@click.option(
    "--write-baseline", type=click.Path(path_type=Path), help="Write that file; one that is there only gets shorter."
)
@click.option("--add-ignore", is_flag=True, help="Write a comment that silences it behind each finding.")
@click.option(
    "--since",
    metavar="REV",
    help="Report only what lies on lines changed since this git revision; of a branch, since HEAD left it.",
)
@click.option("--watch", is_flag=True, help="Lint again whenever a file changes.")
@click.option("--format", "style", type=click.Choice(LINT_FORMATS), default="text", show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Write the report to this file.")
@click.option("--statistics", is_flag=True, help="Show how often each rule spoke instead of the findings.")
@click.option("--show-suppressed", is_flag=True, help="Show findings that comments silence, with their reasons.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("--stdin-filename", metavar="NAME", help="Lint or fix what comes on stdin as if it were this file.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes to use. [default: one a core]")
@click.option("--no-cache", is_flag=True, help="Read no results of earlier runs.")
@click.option("--no-color", is_flag=True, help="No colours; so does NO_COLOR. FORCE_COLOR=1 colours pipes.")
@click.option("--debug", is_flag=True, help="Show tracebacks of internal errors.")
def check(
    *,
    paths: tuple[str, ...],
    select: tuple[str, ...] | None,
    extend_select: tuple[str, ...] | None,
    ignore: tuple[str, ...] | None,
    exclude: tuple[str, ...] | None,
    extend_exclude: tuple[str, ...] | None,
    force_exclude: bool | None,
    severity: Severity | None,
    fail_on: Severity | None,
    torch_version: str | None,
    config: Path | None,
    isolated: bool,
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    baseline: Path | None,
    write_baseline: Path | None,
    add_ignore: bool,
    since: str | None,
    watch: bool,
    style: str,
    output: Path | None,
    statistics: bool,
    show_suppressed: bool,
    exit_zero: bool,
    stdin_filename: str | None,
    jobs: int | None,
    no_cache: bool,
    no_color: bool,
    debug: bool,
) -> int:
    """Lint PATHS: files, folders, or - for stdin. No path: the current folder.

    With --fix, source from stdin goes to stdout, repaired, and the report to stderr.
    """
    if statistics and style not in _FOR_PEOPLE:
        raise UsageError(f"--statistics: only with --format {' or '.join(_FOR_PEOPLE)}")
    if unsafe_fixes and not (fix or diff):
        raise UsageError("--unsafe-fixes: only with --fix or --diff")
    if diff:
        other = {
            "--format": style != "text",
            "--statistics": statistics,
            "--add-ignore": add_ignore,
            "--write-baseline": write_baseline is not None,
        }
        for flag in (flag for flag, given in other.items() if given):
            raise UsageError(f"--diff, {flag}: one or the other; --diff shows changes and nothing else")
    if since is not None and write_baseline is not None:
        raise UsageError("--since, --write-baseline: one or the other; a baseline is about whole files")
    overrides = Settings(
        select=select,
        extend_select=extend_select,
        ignore=ignore,
        exclude=exclude,
        extend_exclude=extend_exclude,
        force_exclude=force_exclude,
        severity=severity,
        fail_on=fail_on,
        torch_version=torch_version,
    )
    new_resolver = partial(ConfigResolver, file=config, isolated=isolated, overrides=overrides)
    resolver = new_resolver()
    here = resolver.for_folder(Path.cwd())
    rules = load_rules(here.rule_paths)
    enabled = enabled_rules(here, rules, Path.cwd())  # an unknown rule is an error even if there is no file

    baselines = Baselines.read(baseline, write_baseline)
    for written in (output, write_baseline):
        if written is not None:
            check_writable(written)

    on_stdin = "-" in paths or (stdin_filename is not None and not paths)
    if on_stdin and len(paths) > 1:
        raise UsageError("-: stdin cannot be linted together with other paths")
    if on_stdin and (add_ignore or since or watch or write_baseline):
        raise UsageError("--add-ignore, --since, --watch, --write-baseline: not on stdin; name a file")
    stdin = Stdin.read(stdin_filename, resolver) if on_stdin else None
    targets: Sequence[str] = paths or (".",)
    if watch:
        ctx = click.get_current_context()
        return watch_files(targets, new_resolver, lambda: ctx.invoke(check, **{**ctx.params, "watch": False}))
    changes = None
    if since is not None:
        from detlint.linter.changes import changes_since  # these three load what most runs do not need

        changes = changes_since(since, Path.cwd())
        targets = changed_files(targets, changes, resolver)
    if fix or diff:
        if stdin is None:
            from detlint.linter.fixing import fix_paths

            fixes = fix_paths(
                targets,
                resolver=resolver,
                unsafe=unsafe_fixes,
                wanted=baselines.unlisted,
                jobs=jobs,
                cached=not no_cache,
            )
        else:
            fixes = stdin.fix(unsafe=unsafe_fixes, wanted=baselines.unlisted)
        if diff:
            return _show(fixes, Output.to(output, no_color=no_color), exit_zero=exit_zero)
        if stdin is None:
            _write(fixes.files, "fixed")
        else:
            stdin = _pass_on(stdin, fixes.files)
    if add_ignore:
        from detlint.linter.ignoring import ignore_paths

        ignored = ignore_paths(targets, resolver=resolver, wanted=baselines.unlisted, jobs=jobs, cached=not no_cache)
        _write(ignored, "ignored")

    options = Options(with_fixes=style in _WITH_FIXES, debug=debug)
    if stdin is not None:
        result = stdin.lint(options)
    else:
        with Progress() as progress:
            result = lint_paths(
                targets,
                resolver=resolver,
                jobs=jobs,
                progress=lambda done, of: progress.show(f"{done} of {of} files"),
                options=options,
                cached=not no_cache,
            )

    in_force = {*enabled, *(finding.code for finding in result.findings)}  # nested configurations may add some
    target = Output.to(output, no_color=no_color, err=fix and stdin is not None)
    run = RunInfo(
        rules={code: rule for code, rule in rules.items() if code in in_force},
        files=result.files,
        seconds=result.seconds,
        root=Path.cwd(),
        source_lines=file_lines if stdin is None else stdin.lines(),
        file_line=file_line if stdin is None else stdin.line(),
        color=target.color,
        width=target.width,
    )
    if changes is not None:
        result = on_changed_lines(result, changes)
    reported = len(result.findings)
    result = baselines.applied(result, run, looked_for(targets, resolver) if write_baseline else {})
    run = replace(run, listed=reported - len(result.findings))
    findings = _sorted(result.findings, result.suppressed if show_suppressed else ())
    target.write(render_statistics(findings, run) if statistics else renderer(style)(findings, run))
    passed_over = not_python(paths) if stdin is None else ()
    if passed_over:
        click.echo(printable(f"detlint: not Python, not linted: {first_few(passed_over)}"), err=True)
    for problem in result.problems:
        click.echo(f"detlint: {problem}", err=True)
    return _exit_code(result, resolver, exit_zero=exit_zero)


def _show(fixes: Fixes, target: Output, *, exit_zero: bool) -> int:
    """Write what fixing would change; say what could not be looked at."""
    target.write("".join(file.diff() for file in fixes.files))
    for finding in fixes.unread:
        click.echo(printable(f"{finding.location}: {finding.code} {finding.name}: {finding.message}"), err=True)
    for problem in fixes.problems:
        click.echo(f"detlint: {problem}", err=True)
    return 2 if fixes.problems else int(bool(fixes.files or fixes.unread) and not exit_zero)


def _write(fixed: Sequence[FixedFile], what: str) -> None:
    for file in fixed:
        file.write()
        _tell(file, what)


def _pass_on(stdin: Stdin, fixed: Sequence[FixedFile]) -> Stdin:
    """Write the source to stdout, fixed or as it came, and return it."""
    for file in fixed:
        stdin = replace(stdin, data=file.after)
        _tell(file, "fixed")
    click.echo(stdin.data, nl=False)
    return stdin


def _tell(file: FixedFile, what: str) -> None:
    counts = Counter(f"{finding.code} {finding.name}" for finding in file.repaired)
    done = ", ".join(f"{rule} ({count})" for rule, count in sorted(counts.items()))
    click.echo(f"{file.display}: {what} {done}", err=True)


def _sorted(*parts: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted((finding for part in parts for finding in part), key=lambda finding: finding.sort_key))


def _exit_code(result: LintResult, resolver: ConfigResolver, *, exit_zero: bool) -> int:
    if result.problems:
        return 2
    failing = any(
        finding.severity.rank >= resolver.for_file(Path(finding.location.path)).fail_on.rank
        for finding in result.findings
    )
    return int(failing and not exit_zero)
