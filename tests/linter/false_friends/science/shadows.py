"""Local names, strings and comments that only look like torch or like random draws."""

import glob
import logging
import os
import time
import uuid

log = logging.getLogger(__name__)

# torch.empty(3), F.dropout(x, 0.5), random.random(), np.random.rand(3), torch.backends.cudnn.benchmark = True
HELP = """
Call model.train() before model.eval(), never torch.use_deterministic_algorithms(False);
np.random.seed() and random.seed(time.time()) are a mistake, os.listdir(path) too.
"""


class Sampler:
    """A sampler of its own, with methods named as those of torch."""

    def __init__(self, seed):
        self.state = seed
        self.training = False

    def random(self):
        self.state = (self.state * 1103515245 + 12345) % 2**31
        return self.state / 2**31

    def dropout(self, values, p):
        return [value for value in values if self.random() > p]

    def scatter(self, values):
        return {index: value for index, value in enumerate(values)}

    def multinomial(self, weights):
        return max(range(len(weights)), key=weights.__getitem__)

    def train(self):
        self.training = True
        return self

    def eval(self):
        self.training = False
        return self


def draw(random):
    """`random` is a parameter here."""
    return random.random() + random.uniform(0, 1)


def local_names():
    random = Sampler(3)
    dropout = random.dropout([1, 2, 3], 0.5)
    scatter = random.scatter(dropout)
    empty = {}
    torch = {"empty": len, "manual_seed": None}
    return torch["empty"](scatter), empty.setdefault("sort", dropout)


def train(config):
    """Not a model's: a plain function."""
    log.info("train %s", config)
    return eval_split(config)


def eval_split(config):
    return eval("1 + 1") + len(config)


def newest_log(folder):
    logs = glob.glob(os.path.join(folder, "*.log"))
    return max(logs, key=os.path.getmtime) if logs else None


def total_size(folder):
    return sum(os.path.getsize(os.path.join(root, name)) for root, _, names in os.walk(folder) for name in names)


def has_checkpoint(folder):
    return any(name.endswith(".pt") for name in os.listdir(folder)) and "last.pt" in os.listdir(folder)


def run_name(prefix):
    return f"{prefix}-{uuid.uuid4().hex[:8]}-{int(time.time())}"


def known(names):
    allowed = {"train", "test"}
    return [name for name in names if name in allowed], len(allowed), allowed == set(names)


if __name__ == "__main__":
    started = time.time()
    os.makedirs(run_name("runs"), exist_ok=True)
    print(train({"a": 1}), local_names(), draw(Sampler(1)), time.time() - started)
