"""Spreads the files over processes. The order of completion never shows: the engine sorts what comes back.

Garbage is not collected while files are linted: those that are forgotten free themselves at once, and the collector
would go through the syntax trees that are still in use again and again.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from detlint.linter.analysis.project import Project
from detlint.linter.analysis.registry import checks
from detlint.linter.file import lint_source
from detlint.linter.jobs import FileResult, Job, Options, Progress
from detlint.linter.source.sources import read_source

_FILES_WORTH_A_PROCESS = 8
_BATCH_BYTES = 1_000_000
_ROUNDS = 4  # a batch is at most a quarter of a process's share of what is left

Result = tuple[Job, FileResult]


def run_jobs(work: Sequence[Job], jobs: int | None, progress: Progress | None, options: Options) -> list[Result]:
    """Lint every file of `work` in at most `jobs` processes (default: one a core)."""
    processes = min(jobs or os.cpu_count() or 1, max(1, len(work) // _FILES_WORTH_A_PROCESS))
    if processes > 1:
        return _parallel(work, processes, progress, options)
    results: list[Result] = []
    project = Project()
    collected = gc.isenabled()
    gc.disable()
    try:
        for job in work:
            results.append(_lint(job, project, options))
            if progress is not None:
                progress(len(results), len(work))
    finally:
        project.end()
        if collected:
            gc.enable()
    return results


def _parallel(work: Sequence[Job], processes: int, progress: Progress | None, options: Options) -> list[Result]:
    results: list[Result] = []
    unfinished: list[list[Job]] = []
    checks()  # loaded once, where processes are forked
    with ProcessPoolExecutor(processes, initializer=gc.disable) as pool:
        pending = {pool.submit(_lint_batch, batch, options): batch for batch in _batches(work, processes)}
        for future in as_completed(pending):  # detlint: ignore[DET603] the engine sorts what all files gave
            try:
                results += future.result()
            except BrokenProcessPool:
                unfinished.append(pending[future])
            if progress is not None:
                progress(len(results), len(work))
    return [*results, *(result for batch in unfinished for result in _lint_apart(batch, options))]


def _batches(work: Sequence[Job], processes: int) -> Iterator[list[Job]]:
    """Split the work into batches that keep a folder's files together, and that get smaller towards the end.

    Files of one folder import the same modules, which a worker then parses once; small batches at the end leave no
    worker busy long after the others.
    """
    sizes = [_size(job) for job in work]
    left = sum(sizes)
    batch: list[Job] = []
    total = 0
    for job, size in zip(work, sizes, strict=True):
        batch.append(job)
        total += size
        if total >= min(_BATCH_BYTES, left // (_ROUNDS * processes)):
            yield batch
            left -= total
            batch, total = [], 0
    if batch:
        yield batch


def _size(job: Job) -> int:
    try:
        return job.path.stat().st_size
    except OSError:  # one that vanished is reported when it is read
        return 0


_worker_projects: list[Project] = []


def _lint_batch(batch: Sequence[Job], options: Options) -> list[Result]:
    if not _worker_projects:
        _worker_projects.append(Project())  # the batches of one worker share parsed files
    return [_lint(job, _worker_projects[0], options) for job in batch]


def _lint(job: Job, project: Project, options: Options) -> Result:
    return job, lint_source(read_source(job.path, job.display), job.config, project, options)


def _lint_apart(batch: Sequence[Job], options: Options) -> list[Result]:
    """Lint files whose worker died in a process of their own; where that dies too, in one each, to name the culprit."""
    with ProcessPoolExecutor(1, initializer=gc.disable) as pool:
        try:
            return pool.submit(_lint_batch, batch, options).result()
        except BrokenProcessPool:
            pass
    if len(batch) > 1:
        return [result for job in batch for result in _lint_apart([job], options)]
    problem = f"{batch[0].display}: not checked: the worker process died while it was linted"
    return [(batch[0], FileResult(problem=problem))]
