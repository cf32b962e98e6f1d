"""How a sequence model is trained, by a fixed number of steps, and asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from benchmark.recall_tasks import Questions

Draw = Callable[[int, int, torch.Generator], Questions]  # (batch, length, generator)
READ_AT_ONCE = 2**17  # tokens, when asked


@dataclass(frozen=True)
class Training:
    """AdamW without weight decay, its rate warmed up and decayed by a cosine; lengths that grow.

    Parameters
    ----------
    steps : int
    lengths : tuple of int
        Of the sequences: each but the last for an equal share of the first `growth` of the steps.
    tokens : int
        In a step.
    learning_rate : float
    growth : float
    """

    steps: int
    lengths: tuple[int, ...]
    tokens: int
    learning_rate: float = 3e-3
    growth: float = 0.8
    warm_up: int = 50  # steps

    def length(self, step: int) -> int:
        """That of the sequences of a step, from 0 on."""
        shares = len(self.lengths) - 1
        stage = shares if shares == 0 else int(step / (self.growth * self.steps) * shares)
        return self.lengths[min(stage, shares)]

    def rate(self, step: int) -> float:
        """The learning rate of a step, as a share of its highest."""
        decayed = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return min(1.0, (step + 1) / self.warm_up) * decayed


def train(model: nn.Module, draw: Draw, training: Training, seed: int) -> Iterator[float]:
    """Train by sequences that are drawn anew for every step; yields each step's share of right answers."""
    generator = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    optimizer = torch.optim.AdamW(model.parameters(), lr=training.learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, training.rate)
    model.train()
    for step in range(training.steps):
        length = training.length(step)
        tokens, asked, answers = (x.to(device) for x in draw(max(1, training.tokens // length), length, generator))
        logits = model(tokens, asked)
        optimizer.zero_grad()
        cross_entropy(logits.flatten(0, 1), answers.flatten()).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        yield (logits.argmax(-1) == answers).float().mean().item()


@torch.no_grad()
def accuracy(model: nn.Module, draw: Draw, length: int, sequences: int, seed: int, last: int | None = None) -> float:
    """The share of right answers to the `last` questions of each of `sequences` sequences, or to all."""
    generator = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    model.eval()
    right = []
    at_once = max(1, READ_AT_ONCE // length)
    for begin in range(0, sequences, at_once):
        questions = draw(min(at_once, sequences - begin), length, generator)
        tokens, asked, answers = (x.to(device) for x in questions)
        if last is not None:
            asked, answers = asked[:, -last:], answers[:, -last:]
        right.append((model(tokens, asked).argmax(-1) == answers).float().flatten())
    return torch.cat(right).mean().item()
