"""Runs the linter: files in, sorted findings out. One bad file, rule or worker never stops the run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from detlint.config import ConfigResolver, enabled_rules
from detlint.findings import Finding
from detlint.linter.cache import Cache
from detlint.linter.jobs import FileResult, Job, Options, Progress
from detlint.linter.result import LintResult
from detlint.linter.source.discovery import discover
from detlint.rulebook import load_rules

DEFAULT_OPTIONS = Options()


def lint_paths(
    paths: Sequence[str],
    *,
    resolver: ConfigResolver,
    jobs: int | None = None,
    progress: Progress | None = None,
    options: Options = DEFAULT_OPTIONS,
    cached: bool = False,
) -> LintResult:
    """Lint files and folders.

    `jobs` is the number of processes (default: one a core); `progress` is called with the files done and their total;
    `cached` reads and keeps results in the `.detlint_cache` of the configuration root.

    Raises:
        DetlintError: a path, a configuration or a rule file is not usable.
    """
    began = time.perf_counter()
    work = [Job(found.path, found.display, resolver.for_file(found.path)) for found in discover(paths, resolver)]
    for config in {id(job.config): job.config for job in work}.values():
        # Selectors and rule files are checked here, where an error is the user's one clear line.
        enabled_rules(config, load_rules(config.rule_paths), config.root)
    cache = Cache(resolver.for_folder(Path.cwd()).root, options) if cached else None
    known = {job.path: cache.get(job) for job in work} if cache is not None else {}
    pending = [job for job in work if known.get(job.path) is None]
    done = _linted(pending, jobs, progress, options) if pending else []
    if cache is not None:
        cache.add(done)
    results = [*(result for result in known.values() if result is not None), *(result for _, result in done)]
    return _result(results, len(work), began)


def lint_stdin(
    data: bytes, filename: str, *, resolver: ConfigResolver, options: Options = DEFAULT_OPTIONS
) -> LintResult:
    """Lint source given as bytes, as if it stood in the file `filename` (which need not exist)."""
    from detlint.linter.analysis.project import Project
    from detlint.linter.file import lint_source
    from detlint.linter.source.sources import source_from_bytes

    began = time.perf_counter()
    path = Path(filename).absolute()
    source = source_from_bytes(data, path, filename)
    return _result([lint_source(source, resolver.for_file(path), Project(), options)], 1, began)


def _linted(
    work: Sequence[Job], jobs: int | None, progress: Progress | None, options: Options
) -> list[tuple[Job, FileResult]]:
    # Half of the time of a run that finds everything in the cache would go into loading what analyses code.
    from detlint.linter.workers import run_jobs

    return run_jobs(work, jobs, progress, options)


def _result(results: Sequence[FileResult], files: int, began: float) -> LintResult:
    return LintResult(
        findings=_sorted(finding for result in results for finding in result.findings),
        suppressed=_sorted(finding for result in results for finding in result.suppressed),
        files=files,
        seconds=time.perf_counter() - began,
        problems=tuple(sorted(result.problem for result in results if result.problem is not None)),
    )


def _sorted(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: finding.sort_key))
