"""A scikit-learn program: fit, predict, split and shuffle with random_state."""

import argparse

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import resample, shuffle


def build(seed):
    return make_pipeline(StandardScaler(), RandomForestClassifier(random_state=seed))


def evaluate(model, x, y):
    predicted = model.predict(x)
    return accuracy_score(y, predicted)


def test_equal_arrays():
    left = np.array([1, 2, 3])
    right = np.array([1, 2, 3])
    assert (left == right).all()
    assert left.sum() == 6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folds", type=int, default=5)
    args = parser.parse_args()

    x, y = make_classification(n_samples=500, random_state=args.seed)
    x, y = shuffle(x, y, random_state=args.seed)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.2, random_state=args.seed, stratify=y)

    model = build(args.seed)
    model.fit(x_train, y_train)
    print("accuracy", evaluate(model, x_test, y_test))

    plain = KFold(args.folds)
    folds = StratifiedKFold(args.folds, shuffle=True, random_state=args.seed)
    splits = ShuffleSplit(n_splits=3, random_state=args.seed)
    for splitter in (plain, folds, splits):
        print(cross_val_score(build(args.seed), x, y, cv=splitter).mean())
    print(resample(x_test, random_state=args.seed).mean())


if __name__ == "__main__":
    main()
