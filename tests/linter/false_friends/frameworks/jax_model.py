"""JAX and Flax: randomness comes from explicit keys."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax import random


class Net(nn.Module):
    width: int = 64

    @nn.compact
    def __call__(self, x, *, train: bool):
        x = nn.Dense(self.width)(x)
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.Dropout(rate=0.5, deterministic=not train)(x)
        return nn.Dense(10)(nn.relu(x))


def dropout(key, x, rate):
    keep = random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(keep, x / (1 - rate), 0)


def init(seed):
    key = random.PRNGKey(seed)
    key, init_key, data_key = random.split(key, 3)
    x = random.normal(data_key, (8, 32))
    params = Net().init(init_key, x, train=False)
    return key, params, dropout(key, x, 0.1)


@jax.jit
def step(params, state, x, y, key):
    def loss(params):
        logits = Net().apply(params, x, train=True, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optax.adam(1e-3).update(grads, state)
    return optax.apply_updates(params, updates), state, value


def segment_totals(values, segments):
    ordered = jnp.sort(values)
    top = jax.lax.top_k(ordered, 3)
    summed = jnp.zeros(4).at[segments].add(values)
    return jnp.cumsum(summed), jnp.median(values), top, jnp.empty(3) + 1


if __name__ == "__main__":
    print(init(0))
