"""`detlint record`: run a model once and write down what another machine can compare with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

import detlint
from detlint.cli.output import check_writable
from detlint.runtime.factories import build

if TYPE_CHECKING:
    from collections.abc import Callable


@click.command()
@click.argument("model", metavar="MODULE:FACTORY")
@click.option("--sample", required=True, metavar="MODULE:FACTORY", help="What makes the input of the model.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Write the record to this file.")
@click.option("--backward", is_flag=True, help="Run the backward pass too.")
@click.option("--device", metavar="D", help="Run a copy of the model on this device.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the run.")
def record(model: str, sample: str, output: Path, backward: bool, device: str | None, seed: int) -> None:
    """Run the model that MODULE:FACTORY makes and record it for `detlint compare`."""
    check_writable(output)
    found = detlint.record(
        cast("Callable[..., object]", build("MODULE:FACTORY", model)),
        build("--sample", sample),
        output,
        backward=backward,
        device=device,
        seed=seed,
    )
    size = output.stat().st_size / 1024
    click.echo(f"{output}: {len(found.trace)} operators of {found.model}, {size:.0f} kB", err=True)
