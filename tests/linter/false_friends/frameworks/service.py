"""asyncio, matplotlib and click: gather, scatter, sample and choice that draw nothing from torch."""

import asyncio
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import click
import matplotlib.pyplot as plt


async def fetch(address):
    await asyncio.sleep(0)
    return address.lower()


async def fetch_all(addresses):
    return await asyncio.gather(*(fetch(address) for address in addresses))


def sizes(paths):
    with ThreadPoolExecutor() as pool:
        jobs = {pool.submit(path.stat): path for path in paths}
        return {jobs[job]: job.result().st_size for job in as_completed(jobs)}


def in_order(paths):
    with ThreadPoolExecutor() as pool:
        return list(pool.map(Path.read_text, paths))


def plot(points, target):
    figure, axes = plt.subplots()
    axes.scatter([x for x, _ in points], [y for _, y in points])
    axes.hist([y for _, y in points], bins=10)
    plt.scatter(1, 2)
    figure.savefig(target)


def train(name):
    click.echo(f"training {name}")
    return name


@click.group()
def cli():
    """Draw and list things."""


@cli.command("train")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu")
@click.argument("folder", type=click.Path(path_type=Path))
def train_command(device, folder):
    for path in sorted(folder.glob("*.json")):
        train(f"{path.stem} on {device}")
    names = sorted(path.name for path in folder.iterdir())
    plot([(index, len(name)) for index, name in enumerate(names)], folder / "plot.png")
    print(asyncio.run(fetch_all(names)), sizes(sorted(folder.rglob("*.txt"))))


if __name__ == "__main__":
    cli()
