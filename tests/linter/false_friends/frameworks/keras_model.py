"""TensorFlow and Keras: train, evaluate and predict of another library."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(7)
tf.config.experimental.enable_op_determinism()


def build():
    return keras.Sequential(
        [
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(10),
        ]
    )


class Wrapper:
    def __init__(self, model):
        self.model = model

    def train(self, data):
        self.model.fit(data, epochs=1)
        return self

    def eval(self, data):
        return self.model.evaluate(data)


def train(model, data):
    model.compile("adam", "sparse_categorical_crossentropy")
    return Wrapper(model).train(data)


def gather_rows(table, rows):
    picked = tf.gather(table, rows)
    spread = tf.scatter_nd(tf.expand_dims(rows, 1), picked, table.shape)
    dropped = tf.nn.dropout(spread, 0.1, seed=3)
    return tf.sort(dropped), tf.math.top_k(dropped, 2), tf.argsort(dropped)


if __name__ == "__main__":
    images = np.zeros((4, 8, 8, 3), dtype=np.float32)
    labels = np.zeros(4, dtype=np.int64)
    wrapped = train(build(), tf.data.Dataset.from_tensor_slices((images, labels)).batch(2))
    print(wrapped.eval(images), wrapped.model.predict(images))
