"""`detlint audit`: run a model and say by the exit code whether its results can be trusted to repeat."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

import detlint
from detlint.cli.output import Output, check_writable
from detlint.cli.progress import Progress
from detlint.errors import AuditError, UsageError
from detlint.reports import LINT_FORMATS, renderer
from detlint.runtime.factories import build, place_of
from detlint.runtime.locations import in_files
from detlint.runtime.options import DEFAULT_PROBES, OTHER_PROBES
from detlint.tables import DEVICES

if TYPE_CHECKING:
    from collections.abc import Callable


@click.command()
@click.argument("model", metavar="MODULE:FACTORY")
@click.option("--sample", required=True, metavar="MODULE:FACTORY", help="What makes the input of the model.")
@click.option(
    "--probe",
    "probes",
    multiple=True,
    metavar="NAME",
    help=f"Ask only this question (may be repeated): {', '.join(DEFAULT_PROBES)}, which are asked if none is named; "
    f"{', '.join(OTHER_PROBES)}.",
)
@click.option("--all-probes", is_flag=True, help="Ask every question there is; compile can take minutes.")
@click.option("--runs", type=click.IntRange(min=2), default=3, show_default=True, help="How often to repeat.")
@click.option("--batch-dim", type=int, metavar="N", help="Dimension that counts samples; found if not given.")
@click.option(
    "--tiling",
    type=(int, int, int),
    metavar="INPUT OUTPUT STRIDE",
    help="Least tile, what it gives, distance of tiles, in pixels; worked out if not given.",
)
@click.option(
    "--compile-mode",
    "compile_modes",
    multiple=True,
    metavar="MODE",
    help="Mode of torch.compile to try (may be repeated).  [default: default]",
)
@click.option("--compile-backend", metavar="NAME", help="Backend of torch.compile instead of inductor.")
@click.option("--backward", is_flag=True, help="Run the backward pass too.")
@click.option("--device", metavar="D", help="Run a copy of the model on this device.")
@click.option(
    "--target",
    "targets",
    multiple=True,
    type=click.Choice(DEVICES),
    help="Report hazards of this device (may be repeated).  [default: cpu, cuda]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of every run.")
@click.option(
    "--allow",
    type=click.Choice(["rounding", "bitwise"]),
    default="rounding",
    show_default=True,
    help="What probes other than `repeat` may show before the audit fails.",
)
@click.option("--strict", is_flag=True, help="Fail for what can differ and for skipped probes that were named, too.")
@click.option("--no-reference", is_flag=True, help="Judge by an error bound instead of a float64 run.")
@click.option("--no-execute", is_flag=True, help="Trace with fake tensors only: for models too big to run.")
@click.option("--format", "style", type=click.Choice(LINT_FORMATS), default="text", show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Write the report to this file.")
@click.option("--html", type=click.Path(path_type=Path), help="Write an HTML report to this file as well.")
@click.option("--graph", type=click.Path(path_type=Path), help="Draw the annotated graph to this .svg or .dot file.")
@click.option("--repro", type=click.Path(path_type=Path), help="Write a script with the one operator that departs.")
@click.option("--no-color", is_flag=True, help="No colours; so does NO_COLOR. FORCE_COLOR=1 colours pipes.")
def audit(
    model: str,
    sample: str,
    probes: tuple[str, ...],
    all_probes: bool,
    runs: int,
    batch_dim: int | None,
    tiling: tuple[int, int, int] | None,
    compile_modes: tuple[str, ...],
    compile_backend: str | None,
    backward: bool,
    device: str | None,
    targets: tuple[str, ...],
    seed: int,
    allow: str,
    strict: bool,
    no_reference: bool,
    no_execute: bool,
    style: str,
    output: Path | None,
    html: Path | None,
    graph: Path | None,
    repro: Path | None,
    no_color: bool,
) -> int:
    """Run the model that MODULE:FACTORY makes: which operators can differ, which did, where it began."""
    if probes and all_probes:
        raise UsageError("--probe, --all-probes: only one of them")
    for written in (output, html, graph, repro):
        if written is not None:
            check_writable(written)
    if graph is not None:
        from detlint.runtime.graph import check_drawable  # imports torch, which --help does without

        check_drawable(graph)
    chosen: dict[str, Any] = {"probes": "all" if all_probes else probes} if probes or all_probes else {}
    with Progress() as progress, redirect_stdout(sys.stderr):  # stdout is the report's
        report = detlint.audit(
            cast("Callable[..., object]", build("MODULE:FACTORY", model)),
            build("--sample", sample),
            runs=runs,
            batch_dim=batch_dim,
            tiling=None if tiling is None else detlint.Tiling(*tiling),
            compile_modes=compile_modes or ("default",),
            compile_backend=compile_backend or "inductor",
            backward=backward,
            device=device,
            targets=targets or ("cpu", "cuda"),
            seed=seed,
            reference=not no_reference,
            allow=allow,
            strict=strict,
            execute=not no_execute,
            progress=lambda done, of, name: progress.show(f"{name} ({done} of {of} probes done)"),
            **chosen,
        )
    target = Output.to(output, no_color=no_color)
    if style == "text":
        text = report.to_text(color=target.color, width=target.width)
    elif style == "json":
        text = report.to_json()
    else:
        located = in_files(report.findings, place_of("MODULE:FACTORY", model))
        text = renderer(style)(located, report.run_info())
    target.write(text)
    if html is not None:
        report.to_html(html)
    if graph is not None:
        with redirect_stdout(sys.stderr):  # the model runs once more
            report.save_graph(graph)
    if repro is not None:
        try:
            report.save_repro(repro)
        except AuditError as reason:  # the report stands, and its exit code
            click.echo(f"detlint: no script was written: {reason}", err=True)
    return 0 if report.ok else 1
