"""Summarise experiments: pandas methods that share names with torch ones."""

import argparse
import random as stdlib_random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd

SEED = 13


def load(folder: Path) -> pd.DataFrame:
    frames = [pd.read_csv(path) for path in sorted(folder.glob("*.csv"))]
    return pd.concat(frames, ignore_index=True)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.eval("error = predicted - actual")
    typical = frame.groupby("model")["error"].median()
    common = frame["dataset"].mode().iloc[0]
    spread = frame["error"].sort_values().cumsum()
    best = frame.loc[frame["error"].abs().idxmin()]
    frame["rank"] = frame["error"].rank(method="first")
    print(f"dropout of {common}: {spread.iloc[-1]:.3f}, best {best['model']}")
    return typical.to_frame("median")


def histogram(values, bins=10):
    counts = np.bincount(np.digitize(values, np.linspace(0, 1, bins)))
    return counts / counts.sum()


def bootstrap(values, rounds=1000):
    generator = np.random.default_rng(SEED)
    draws = generator.choice(values, size=(rounds, len(values)))
    return np.median(draws, axis=1)


def shuffled(rows):
    source = stdlib_random.Random(SEED)
    rows = list(rows)
    source.shuffle(rows)
    return rows


def by_dataset(frame):
    groups = {}
    for row in frame.itertuples():
        groups.setdefault(row.dataset, []).append(row)
    return groups


def unique_models(frame):
    seen = set(frame["model"])
    return sorted(seen)


def count_words(texts):
    counts = defaultdict(int)
    stopwords = {"the", "a", "of"}
    for text in texts:
        for word in text.split():
            if word not in stopwords:
                counts[word] += 1
    return counts


def main():
    parser = argparse.ArgumentParser(description="Summarise runs; see torch.empty and F.dropout in the guide.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    frame = load(args.folder)
    print(summarise(frame))
    print(bootstrap(frame["error"].to_numpy()).mean())


if __name__ == "__main__":
    main()
