# SPDX-License-Identifier: MIT
"""Trains a small model of characters, with nanoGPT's loader or with hetmap's in its place.

    python3 train.py --loader hetmap some.txt
    python3 train.py --loader numpy some.txt

Both print the same losses: the same seed chooses the same blocks, and the loaders give the same
tokens. The model is a small GPT where torch is installed, else one layer of numpy.
"""

import argparse
import os
import sys
import tempfile
import time

import numpy

from hetmap.tokens import Dataset


def prepare(texts, folder):
    """The characters of the texts as numbers, in train.bin; the number of different ones."""
    text = "".join(open(path, encoding="utf-8", errors="replace").read() for path in texts)
    characters = sorted(set(text))
    numbers = {character: i for i, character in enumerate(characters)}
    path = os.path.join(folder, "train.bin")
    numpy.array([numbers[character] for character in text], "uint16").tofile(path)
    return path, len(characters)


class NumpyLoader:
    """get_batch() of nanoGPT: a map of the file for each batch, and copies of each block."""

    def __init__(self, path, block, tensors):
        self.path, self.block, self.tensors = path, block, tensors

    def blocks(self, starts):
        data, block = numpy.memmap(self.path, "uint16", "r"), self.block
        x = numpy.stack([data[i:i + block].astype("int64") for i in starts])
        y = numpy.stack([data[i + 1:i + 1 + block].astype("int64") for i in starts])
        if self.tensors:
            import torch
            return torch.from_numpy(x), torch.from_numpy(y)
        return x, y


LOADERS = {
    "numpy": lambda path, block, tensors: NumpyLoader(path, block, tensors),
    "hetmap": lambda path, block, tensors: Dataset(path, block, tensors=tensors),
}


class NumpyModel:
    """The next character from the 8 before it: an embedding, a hidden layer, Adam."""

    WINDOW, WIDTH, HIDDEN, RATE = 8, 16, 128, 3e-3

    def __init__(self, n_characters, seed):
        random = numpy.random.default_rng(seed)
        shapes = [(n_characters, self.WIDTH), (self.WINDOW * self.WIDTH, self.HIDDEN),
                  (self.HIDDEN,), (self.HIDDEN, n_characters), (n_characters,)]
        self.weights = [random.normal(0, 0.1, shape) for shape in shapes]
        self.means = [numpy.zeros(shape) for shape in shapes]
        self.squares = [numpy.zeros(shape) for shape in shapes]
        self.steps = 0

    def step(self, x, y):
        """The loss of a batch, after which the weights are better."""
        embedding, first, first_bias, second, second_bias = self.weights
        windows = numpy.lib.stride_tricks.sliding_window_view(x, self.WINDOW, axis=1)
        windows, wanted = windows.reshape(-1, self.WINDOW), y[:, self.WINDOW - 1:].reshape(-1)
        every = numpy.arange(len(wanted))
        inputs = embedding[windows].reshape(len(wanted), -1)
        hidden = numpy.tanh(inputs @ first + first_bias)
        logits = hidden @ second + second_bias
        logits -= logits.max(axis=1, keepdims=True)
        chances = numpy.exp(logits)
        chances /= chances.sum(axis=1, keepdims=True)
        loss = -numpy.log(chances[every, wanted]).mean()

        chances[every, wanted] -= 1
        chances /= len(wanted)
        at_hidden = chances @ second.T * (1 - hidden * hidden)
        at_inputs = (at_hidden @ first.T).reshape(-1, self.WIDTH)
        at_embedding = numpy.zeros_like(embedding)
        numpy.add.at(at_embedding, windows.reshape(-1), at_inputs)
        self._improve([at_embedding, inputs.T @ at_hidden, at_hidden.sum(axis=0),
                       hidden.T @ chances, chances.sum(axis=0)])
        return float(loss)

    def _improve(self, slopes):
        self.steps += 1
        for weight, mean, square, slope in zip(self.weights, self.means, self.squares, slopes):
            mean += 0.1 * (slope - mean)
            square += 0.01 * (slope * slope - square)
            scaled = numpy.sqrt(square / (1 - 0.99 ** self.steps)) + 1e-8
            weight -= self.RATE * (mean / (1 - 0.9 ** self.steps)) / scaled


def torch_model(n_characters, seed, block):
    """A GPT of two layers; the same interface."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    width, heads = 64, 4

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.register_buffer("later", torch.ones(block, block).triu(1).bool())

        def forward(self, x):
            batch, n, _ = x.shape
            q, k, v = (part.view(batch, n, heads, -1).transpose(1, 2)
                       for part in self.attend(self.norm(x)).split(width, dim=2))
            scores = q @ k.transpose(-2, -1) / (width // heads) ** 0.5
            scores = scores.masked_fill(self.later[:n, :n], float("-inf")).softmax(dim=-1)
            x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, n, width))
            return x + self.narrow(nn.functional.gelu(self.wide(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(n_characters, width), nn.Embedding(block, width)
            self.layers = nn.Sequential(Layer(), Layer())
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, n_characters)
            self.improver = torch.optim.AdamW(self.parameters(), lr=1e-3)

        def step(self, x, y):
            places = torch.arange(x.shape[1])
            logits = self.head(self.norm(self.layers(self.tokens(x) + self.places(places))))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
            self.improver.zero_grad()
            loss.backward()
            self.improver.step()
            return loss.item()

    return Model()


def has_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="+", metavar="FILE", help="texts to learn from")
    parser.add_argument("--loader", choices=LOADERS, default="hetmap")
    parser.add_argument("--model", choices=["numpy", "torch"], help="torch where it is installed")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1337)
    options = parser.parse_args()
    tensors = (options.model or ("torch" if has_torch() else "numpy")) == "torch"

    with tempfile.TemporaryDirectory() as folder:
        path, n_characters = prepare(options.texts, folder)
        n_tokens = os.path.getsize(path) // 2
        if n_tokens <= options.block:
            sys.exit(f"the texts have {n_tokens} characters, and a block takes {options.block + 1}")
        loader = LOADERS[options.loader](path, options.block, tensors)
        model = (torch_model(n_characters, options.seed, options.block) if tensors else
                 NumpyModel(n_characters, options.seed))
        random, loading, begin = numpy.random.default_rng(options.seed), 0, time.perf_counter()
        for step in range(options.steps):
            starts = random.integers(n_tokens - options.block, size=options.batch)
            before = time.perf_counter()
            x, y = loader.blocks(starts)
            loading += time.perf_counter() - before
            print(f"step {step}: loss {model.step(x, y)!r}")
        print(f"{options.loader}, {'torch' if tensors else 'numpy'}: {options.steps} steps in "
              f"{time.perf_counter() - begin:.2f} s, {loading * 1e3:.1f} ms of it loading",
              file=sys.stderr)


if __name__ == "__main__":
    main()
