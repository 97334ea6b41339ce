"""Lints one file: reads its facts, wakes the checks of the enabled rules, applies its suppression comments."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Mapping

from detlint.config import Config, enabled_rules
from detlint.errors import DetlintError
from detlint.findings import Finding, Location
from detlint.linter.analysis.context import Call, Context, FileFacts
from detlint.linter.analysis.module import Module
from detlint.linter.analysis.own_options import call_of
from detlint.linter.analysis.project import Project
from detlint.linter.analysis.registry import Check, checks
from detlint.linter.analysis.replaced_defaults import is_replaced
from detlint.linter.analysis.table_calls import calls_meaning
from detlint.linter.analysis.testcode import expected_failures, skipped_tests
from detlint.linter.indices.arguments import matches
from detlint.linter.jobs import FileResult, Options
from detlint.linter.source.dead_code import dead_statements
from detlint.linter.source.nodes import depth
from detlint.linter.source.sources import SourceFile, SourceProblem
from detlint.linter.suppress import apply_suppressions
from detlint.rulebook import Rule, load_rules

UNREADABLE = "DET001"
UNUSED_SUPPRESSION = "DET002"
# Nobody nests code like this by hand; in other code a recursion that does not end is a fault of ours.
_DEEP = 100


def lint_source(source: SourceFile | SourceProblem, config: Config, project: Project, options: Options) -> FileResult:
    """Lint a source that was read, or report why it could not be. No crash of detlint leaves this function.

    Raises:
        DetlintError: a configuration or a rule file is not usable.
    """
    try:
        return _linted(source, config, project, options)
    except DetlintError:
        raise
    except Exception as error:
        display = source.display if isinstance(source, SourceFile) else source.location.path
        return FileResult(problem=_crash(error, display, options))


def _linted(source: SourceFile | SourceProblem, config: Config, project: Project, options: Options) -> FileResult:
    rules = load_rules(config.rule_paths)
    enabled = enabled_rules(config, rules, source.path)
    if isinstance(source, SourceProblem):
        return FileResult(findings=(_unreadable(source, rules),) if UNREADABLE in enabled else ())
    module = project.begin(source)
    problems = [*source.problems, *([module] if isinstance(module, SourceProblem) else ())]
    findings: list[Finding] = []
    crash: str | None = None
    if isinstance(module, Module):
        try:
            found = _lint_module(module, rules, enabled, FileFacts(module, config, options.with_fixes))
            findings += _that_run(found, module)
        except Exception as error:  # what was found before it is kept
            if isinstance(error, RecursionError) and depth(module.tree) > _DEEP:
                problems.append(source.problem("nested too deeply to be analysed"))
            else:
                crash = _crash(error, source.display, options)
    if UNREADABLE in enabled:
        findings += (_unreadable(each, rules) for each in problems)
    # After a crash findings are missing, so a comment that silenced nothing is no news.
    told = [code for code in enabled if crash is None or code != UNUSED_SUPPRESSION]
    kept, suppressed = apply_suppressions(findings, source, rules, told)
    shown = (finding for finding in kept if finding.severity.rank >= config.severity.rank)
    return FileResult(tuple(shown), tuple(suppressed), crash, tuple(project.consulted))


def _crash(error: Exception, display: str, options: Options) -> str:
    """Report the crash that is being handled."""
    if options.debug:
        traceback.print_exc()
    return f"{display}: internal error: {type(error).__name__}: {error}; run with --debug and report it"


def _unreadable(problem: SourceProblem, rules: Mapping[str, Rule]) -> Finding:
    return rules[UNREADABLE].finding(problem.location, reason=problem.reason)


def _lint_module(
    module: Module, rules: Mapping[str, Rule], enabled: Iterable[str], facts: FileFacts
) -> Iterator[Finding]:
    registered = checks()
    for code in enabled:
        ctx = Context(module, rules[code], facts)
        if ctx.rule.match is not None:
            calls = (call for call in _calls(ctx) if matches(call, ctx))
            yield from (ctx.finding(call.node, call=call.name) for call in calls)
        for check in registered.get(code, ()):
            yield from _run(check, ctx)


def _that_run(findings: Iterable[Finding], module: Module) -> Iterator[Finding]:
    """Yield the findings in code that gives anything: not after a `return`, nor in what a test skips or has to fail."""
    dead: list[Location] | None = None
    for finding in findings:
        if dead is None:
            never_run = (*dead_statements(module.tree), *skipped_tests(module), *expected_failures(module))
            dead = [module.source.location(statement) for statement in never_run]
        here = finding.location
        if not any(each.cell == here.cell and each.line <= here.line <= each.end_line for each in dead):
            yield finding


def _run(check: Check, ctx: Context) -> Iterator[Finding]:
    if check.whole_file:
        yield from check.function(ctx)
    elif check.nodes:
        for kind in check.nodes:
            for node in ctx.module.index.of_type(kind):
                yield from check.function(node, ctx)
    elif check.calls:
        for name in sorted(check.calls):
            for call in ctx.module.index.calls_by_name.get(name, ()):
                yield from check.function(call, ctx)
    else:
        for meant in _calls(ctx):
            yield from check.function(meant, ctx)


def _calls(ctx: Context) -> Iterator[Call]:
    """Yield the calls of a rule's triggers, in source order; a call counts once, for the first one it can mean."""
    triggers = ctx.rule.triggers_by_name
    for node in calls_meaning(ctx.module, ctx.rule.calls):
        found = next((triggers[name] for name in ctx.callees(node) if name in triggers), None)
        if found is not None and not is_replaced(node, ctx):
            yield call_of(node, found, ctx)
