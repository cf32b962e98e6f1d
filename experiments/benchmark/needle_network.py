"""A small network of memory blocks that reads a whole series as one sequence, for the needle task.

Its tokens are the last 40 rows, as many as an event has, every 8 rows; two blocks of `NeuralMemory` and a perceptron
for each token, then a linear map to the 24 rows ahead of each token. It is trained on generated series of 256 to 768
rows, whose kinds are drawn anew for each, so that what it can learn is to write and to ask. Then its weights are fixed,
and it reads streams of any length by `NeuralMemory.step`, in time and memory that do not depend on the distance.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from benchmark.needle_data import EVENT, GRID, NOISE, SHAPE, Stream, draw_season, train_events
from titans_ts.model import ModelConfig
from titans_ts.model.memory import LayerState, NeuralMemory

SEEN = EVENT  # rows of a token
BATCH, LEARNING_RATE, WARM_UP = 16, 3e-3, 50
LENGTHS = (256, 384, 512, 768)  # rows of a training series
DENSITY = 0.85  # of its rows, that events take at most
SEGMENT = 256  # tokens read at a time in a stream


class MemoryNetwork(nn.Module):
    """Tokens of a series -> what it forecasts after each.

    Parameters
    ----------
    writes : bool
        Whether the memory writes; one that does not is what it began with.
    d_model, n_layers : int
    """

    def __init__(self, writes: bool = True, d_model: int = 64, n_layers: int = 2) -> None:
        super().__init__()
        config = ModelConfig(
            lookback=SEEN, horizon=SHAPE, d_model=d_model, n_heads=2, memory_depth=1, memory_writes=writes
        )
        self.embed = nn.Linear(SEEN, d_model)
        self.memories = nn.ModuleList(NeuralMemory(config) for _ in range(n_layers))
        self.perceptrons = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(d_model), nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model)
            )
            for _ in range(n_layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(n_layers))
        self.head = nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, SHAPE))

    def forward(self, tokens: Tensor) -> Tensor:
        """(series, tokens, SEEN) -> (series, tokens, SHAPE), from a memory that holds nothing."""
        z = self.embed(tokens)
        for norm, memory, perceptron in zip(self.norms, self.memories, self.perceptrons, strict=True):
            z = z + memory(norm(z))
            z = z + perceptron(z)
        found: Tensor = self.head(z)
        return found

    @torch.no_grad()
    def stream(self, tokens: Tensor) -> Tensor:
        """The same, read on segment by segment."""
        states: list[LayerState | None] = [None] * len(self.memories)
        found = []
        for segment in tokens.split(SEGMENT, dim=1):
            z = self.embed(segment)
            for i, (norm, memory, perceptron) in enumerate(
                zip(self.norms, self.memories, self.perceptrons, strict=True)
            ):
                assert isinstance(memory, NeuralMemory)
                y, states[i] = memory.step(norm(z), states[i])
                z = z + y
                z = z + perceptron(z)
            found.append(self.head(z))
        return torch.cat(found, dim=1)


def tokens_of(values: np.ndarray) -> Tensor:
    """Rows of series (series, rows) as tokens that end at each multiple of 8 rows from 40 on."""
    return torch.from_numpy(values.astype(np.float32)).unfold(1, SEEN, GRID)


def trained(seed: int, writes: bool, steps: int) -> MemoryNetwork:
    """A network trained for so many steps on series of its own."""
    torch.manual_seed(seed)
    network = MemoryNetwork(writes)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
    batches = _batches(np.random.default_rng([seed, 1]))
    for step, (tokens, ahead, asked) in zip(range(steps), batches, strict=False):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1, (step + 1) / WARM_UP) * min(1, 2 * (1 - step / steps))
        error = (network(tokens) - ahead).square().mean(-1)
        loss = error.mean() + error[asked].mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    return network.eval()


def forecasts(network: MemoryNetwork, stream: Stream) -> np.ndarray:
    """What is forecast from each origin of a stream, the question last: (series, origins, SHAPE).

    The memory holds nothing at the first row after the train rows.
    """
    found = network.stream(tokens_of(stream.values[:, stream.begin : stream.question]))
    place = (np.array(stream.origins) - stream.begin - SEEN) // GRID
    forecast: np.ndarray = found[:, torch.from_numpy(place)].numpy()
    return forecast


def _batches(rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Tokens, what came after each, and which of them are asked for a shape."""
    while True:
        rows = int(rng.choice(LENGTHS))
        n_kinds, repeats = int(rng.integers(2, 9)), int(rng.integers(2, 4))
        while n_kinds * repeats * EVENT > DENSITY * rows:
            n_kinds -= 1
        events, asked = train_events(rng, BATCH, rows, n_kinds, repeats)
        values = draw_season(rng, BATCH, rows) + events + NOISE * rng.normal(size=events.shape)
        tokens = tokens_of(values[:, :-SHAPE])
        ahead = torch.from_numpy(values[:, SEEN:].astype(np.float32)).unfold(1, SHAPE, GRID)
        yield tokens, ahead, torch.from_numpy(asked[:, SEEN : rows - SHAPE + 1 : GRID])
