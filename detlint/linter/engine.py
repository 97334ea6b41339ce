"""Runs the linter: files in, sorted findings out. One bad file, rule or worker never stops the run."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from detlint.config import Config, ConfigResolver, enabled_rules
from detlint.findings import Finding
from detlint.linter.arguments import matches
from detlint.linter.context import Call, Context, FileFacts
from detlint.linter.discovery import discover
from detlint.linter.program import calls_named
from detlint.linter.project import Module, Project
from detlint.linter.registry import Check, checks
from detlint.linter.result import LintResult
from detlint.linter.sources import SourceFile, SourceProblem, read_source, source_from_bytes
from detlint.linter.suppress import apply_suppressions
from detlint.rulebook import Rule, load_rules

_FILES_PER_WORKER = 8
_BATCH_BYTES = 400_000


@dataclass(frozen=True, slots=True)
class FileResult:
    """What linting one file gave; `problem` is an internal error in one line."""

    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Finding, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    path: Path
    display: str
    config: Config


def lint_paths(
    paths: Sequence[str],
    *,
    resolver: ConfigResolver,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    debug: bool = False,
) -> LintResult:
    """Lint files and folders.

    `jobs` is the number of processes (default: one a core); `progress` is called with the files done and their total.

    Raises:
        DetlintError: a path, a configuration or a rule file is not usable.
    """
    began = time.perf_counter()
    work = [
        _Job(found.path, found.display, resolver.for_file(found.path)) for found in discover(paths, resolver)
    ]
    for config in {id(job.config): job.config for job in work}.values():
        load_rules(config.rule_paths)
    processes = min(jobs or os.cpu_count() or 1, max(1, len(work) // _FILES_PER_WORKER))
    done = _serial(work, progress, debug) if processes == 1 else _parallel(work, processes, progress, debug)
    return _result(done, len(work), began)


def lint_stdin(data: bytes, filename: str, *, resolver: ConfigResolver, debug: bool = False) -> LintResult:
    """Lint source given as bytes, as if it stood in the file `filename` (which need not exist)."""
    began = time.perf_counter()
    path = Path(filename).absolute()
    source = source_from_bytes(data, path, filename)
    return _result([_lint_source(source, resolver.for_file(path), Project(), debug)], 1, began)


def _result(done: Iterable[FileResult], files: int, began: float) -> LintResult:
    results = list(done)
    return LintResult(
        findings=_sorted(finding for result in results for finding in result.findings),
        suppressed=_sorted(finding for result in results for finding in result.suppressed),
        files=files,
        seconds=time.perf_counter() - began,
        problems=tuple(sorted(result.problem for result in results if result.problem is not None)),
    )


def _sorted(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: finding.sort_key))


# --- spreading the work -----------------------------------------------------------------------------------------------


def _serial(
    work: Sequence[_Job], progress: Callable[[int, int], None] | None, debug: bool
) -> Iterator[FileResult]:
    project = Project()
    for number, job in enumerate(work, start=1):
        yield _lint_job(job, project, debug)
        if progress is not None:
            progress(number, len(work))


def _parallel(
    work: Sequence[_Job], processes: int, progress: Callable[[int, int], None] | None, debug: bool
) -> list[FileResult]:
    results: list[FileResult] = []
    unfinished: list[_Job] = []
    with ProcessPoolExecutor(processes) as pool:
        pending = {pool.submit(_lint_batch, batch, debug): batch for batch in _batches(work, processes)}
        for future in as_completed(pending):
            try:
                results += future.result()
            except BrokenProcessPool:
                unfinished += pending[future]
            if progress is not None:
                progress(len(results), len(work))
    for job in unfinished:
        results.append(_lint_alone(job, debug))
    return results


def _batches(work: Sequence[_Job], processes: int) -> Iterator[list[_Job]]:
    """Split the work into batches of about equal bytes that keep a folder's files together.

    Files of one folder import the same modules, which a worker then parses once.
    """
    batch: list[_Job] = []
    total = 0
    for job in work:
        try:
            size = job.path.stat().st_size
        except OSError:
            size = 0
        batch.append(job)
        total += size
        if total >= _BATCH_BYTES or len(batch) * processes >= len(work):
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


def _lint_batch(batch: Sequence[_Job], debug: bool) -> list[FileResult]:
    return [_lint_job(job, _project(), debug) for job in batch]


_worker_project: list[Project] = []


def _project() -> Project:
    """Return this worker's project, so that its batches share parsed files."""
    if not _worker_project:
        _worker_project.append(Project())
    return _worker_project[0]


def _lint_alone(job: _Job, debug: bool) -> FileResult:
    """Lint a file whose worker died in a process of its own, to learn whether it is the one that kills."""
    with ProcessPoolExecutor(1) as pool:
        try:
            return pool.submit(_lint_batch, [job], debug).result()[0]
        except BrokenProcessPool:
            return FileResult(
                problem=f"{job.display}: the worker process died while it was linted; file not checked"
            )


# --- one file -----------------------------------------------------------------------------------------------------------


def _lint_job(job: _Job, project: Project, debug: bool) -> FileResult:
    return _lint_source(read_source(job.path, job.display), job.config, project, debug)


def _lint_source(
    source: SourceFile | SourceProblem, config: Config, project: Project, debug: bool
) -> FileResult:
    rules = load_rules(config.rule_paths)
    if isinstance(source, SourceProblem):
        enabled = enabled_rules(config, rules, source.path)
        return FileResult(findings=tuple(_unreadable(source, rules, enabled)))
    enabled = enabled_rules(config, rules, source.path)
    module = project.begin(source)
    problem: str | None = None
    findings: list[Finding] = []
    for unreadable in source.problems:
        findings += _unreadable(unreadable, rules, enabled)
    if isinstance(module, SourceProblem):
        findings += _unreadable(module, rules, enabled)
    else:
        try:
            findings += _lint_module(module, config, rules, enabled)
        except RecursionError:
            findings += _unreadable(source.problem("too deeply nested to be analysed"), rules, enabled)
        except Exception as error:
            if debug:
                traceback.print_exc()
            problem = f"{source.display}: internal error: {type(error).__name__}: {error} (run with --debug and report it)"
    kept, suppressed = apply_suppressions(findings, source, rules, enabled)
    return FileResult(_at_severity(kept, config), tuple(suppressed), problem)


def _unreadable(
    problem: SourceProblem, rules: Mapping[str, Rule], enabled: Iterable[str]
) -> Iterator[Finding]:
    rule = rules["DET001"]
    if rule.code in enabled:
        yield Finding(
            code=rule.code,
            name=rule.name,
            severity=rule.severity,
            message=rule.message.format(reason=problem.reason),
            location=problem.location,
            remedy=rule.fix.partition("\n")[0],
            url=rule.url,
        )


def _lint_module(
    module: Module, config: Config, rules: Mapping[str, Rule], enabled: Iterable[str]
) -> Iterator[Finding]:
    facts = FileFacts(module, config)
    registered = checks()
    for code in enabled:
        rule = rules[code]
        ctx = Context(module, rule, config, facts)
        if rule.match is not None:
            yield from (
                ctx.finding(call.node, call=call.name) for call in _calls(module, rule) if matches(call, ctx)
            )
        for entry in registered.get(code, ()):
            yield from _run(entry, ctx)


def _run(entry: Check, ctx: Context) -> Iterator[Finding]:
    if entry.whole_file:
        yield from entry.function(ctx)
    elif entry.nodes:
        for kind in entry.nodes:
            for node in ctx.module.index.of_type(kind):
                yield from entry.function(node, ctx)
    else:
        for call in _calls(ctx.module, ctx.rule):
            yield from entry.function(call, ctx)


def _calls(module: Module, rule: Rule) -> Iterator[Call]:
    """Yield the calls of a rule's triggers, in source order; a call counts once, for the first trigger it can mean."""
    triggers = {trigger.name: trigger for trigger in rule.triggers}
    for node in calls_named(module, frozenset(trigger.last for trigger in rule.triggers)):
        for name in module.inference.callees(node):
            trigger = triggers.get(name)
            if trigger is not None:
                yield Call(node, trigger)
                break


def _at_severity(findings: Iterable[Finding], config: Config) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.severity.rank >= config.severity.rank)


__all__ = ["FileResult", "lint_paths", "lint_stdin"]
