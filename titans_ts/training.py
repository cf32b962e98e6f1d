"""One training loop for every network and every entrance: notebook, experiment, search.

AdamW with warm-up and cosine decay, clipped gradients, checks on the validation windows several times an epoch, and
the best weights kept, those that training started from among them.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .distributed import ALONE, Ranks, joined
from .graphs import recorded
from .model import SimbaForecaster
from .model.simba import NormalisedPair
from .windows import Batch, Windows

LOSSES = {"mse": F.mse_loss, "mae": F.l1_loss, "huber": F.smooth_l1_loss}
PRECISIONS = ("float32", "bfloat16")
LEAST_WHOLE = {
    **dict.fromkeys(("batch_size", "patience", "checks", "most_windows", "most_validation_windows"), 1),
    **dict.fromkeys(("max_epochs", "random_state"), 0),
}
REALS: dict[str, tuple[Callable[[float], bool], str]] = {
    **dict.fromkeys(("learning_rate", "clip"), (lambda x: 0 < x < math.inf, "a positive number")),
    **dict.fromkeys(("start_rate", "weight_decay"), (lambda x: 0 <= x < math.inf, "a number >= 0")),
    "warmup": (lambda x: 0 <= x < 1, "in [0, 1)"),
}
SWITCHES = ("start_is_candidate", "cuda_graph")
EVALUATION_BATCH = 1024  # windows; no gradients are kept, so larger than a training batch


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a network is trained.

    Parameters
    ----------
    loss : {"mse", "mae", "huber"}
        In training, of the normalised windows.
    val_loss : {"mse", "mae", "huber"}, optional
        In validation, of the scaled values; `loss` if None.
    learning_rate : float
        The optimizer's peak rate.
    start_rate : float
        The rate of cycle and linear path, over `learning_rate`: they begin at an optimum.
    batch_size : int
        Windows a step, those of all processes together.
    max_epochs : int
        0 keeps the starting point.
    most_windows : int
        Of an epoch; as many are drawn at random where there are more.
    start_is_candidate : bool
        Keep the weights that training started from where no check has a better validation error.
    patience : int
        Stop after this many checks without a better validation error.
    checks : int
        Validation checks an epoch, evenly spaced.
    most_validation_windows : int
        Evenly spaced ones are taken where there are more.
    weight_decay, clip, warmup : float
        AdamW's; the gradients' largest norm; the share of all steps in which the rate rises.
    precision : {"float32", "bfloat16"}
        bfloat16 is automatic mixed precision.
    cuda_graph : bool
        On a GPU, record the training step once and replay it for every full batch; the same training, only quicker.
        Several processes do without.
    random_state : int
        Fixes batches and dropout; two runs on a CPU are equal to the bit.
    verbose : int
        0 shows nothing; 1 a progress bar where the output is a terminal or a notebook.

    Raises
    ------
    ValueError
        Naming the field that is out of range.
    """

    loss: str = "mse"
    val_loss: str | None = None
    learning_rate: float = 1e-3
    start_rate: float = 0.1
    batch_size: int = 256
    max_epochs: int = 10
    start_is_candidate: bool = True
    patience: int = 8
    checks: int = 4
    most_windows: int = 2**17
    most_validation_windows: int = 20_000
    weight_decay: float = 0.01
    clip: float = 1.0
    warmup: float = 0.05
    precision: str = "float32"
    cuda_graph: bool = True
    random_state: int = 0
    verbose: int = 0

    def __post_init__(self) -> None:
        for name, choices in {"loss": tuple(LOSSES), "val_loss": (*LOSSES, None), "precision": PRECISIONS}.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"`{name}` must be one of {choices}, got {getattr(self, name)!r}.")
        for name, low in LEAST_WHOLE.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < low:
                raise ValueError(f"`{name}` must be an integer >= {low}, got {value!r}.")
        for name, (fits, rule) in REALS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not fits(float(value)):
                raise ValueError(f"`{name}` must be {rule}, got {value!r}.")
        for name in SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"`{name}` must be True or False, got {getattr(self, name)!r}.")


@dataclass(frozen=True)
class Check:
    """One look at the validation windows.

    `validation_loss` is a mean over all scaled values; `train_loss` is over windows as the network sees them, each
    over its own deviation where `scale_windows` is on, since the check before.
    """

    epoch: float
    step: int
    train_loss: float
    validation_loss: float
    learning_rate: float


@dataclass
class History:
    """What happened in training; the first check is the starting point.

    `best` is the check whose weights were kept, and `stopped` says why training ended: "max_epochs", "patience" or
    "interrupted".
    """

    checks: list[Check] = field(default_factory=list)
    stopped: str = "max_epochs"
    start_is_candidate: bool = True

    @property
    def best(self) -> Check:
        """The check with the least validation loss, or the last one where there was no validation."""
        candidates = self.checks if self.start_is_candidate else self.checks[1:]
        scored = [check for check in candidates if not math.isnan(check.validation_loss)]
        return min(scored, key=lambda check: check.validation_loss) if scored else self.checks[-1]


def fit_network(
    network: SimbaForecaster,
    train: Windows,
    validation: Windows | None,
    config: TrainConfig,
    on_check: Callable[[Check], None] | None = None,
) -> History:
    """Train `network` in place and leave it with its best weights.

    Without validation windows nothing can tell when to stop, and the weights after `max_epochs` are kept.

    Parameters
    ----------
    network : SimbaForecaster
        On the device of the windows.
    train, validation : Windows
    config : TrainConfig
    on_check : callable, optional
        Called with each check as it is made; what it raises ends training.

    Returns
    -------
    History

    Raises
    ------
    FloatingPointError
        If a loss becomes infinite or NaN: names epoch, step and learning rate.
    ValueError
        If several processes train together and were given different windows, networks or settings.
    RuntimeError
        If another of these processes was killed, has failed, or is silent for too long.

    Notes
    -----
    Under torchrun all processes train one network. Each must be given the same windows, takes its share of every batch,
    and comes to the same gradients, to rounding, as one process would; dropout alone is drawn differently. They begin
    with the weights of rank 0, make the same checks, stop at the same one, and end with the same weights and history.
    `on_check` is called in every process and must do the same in each, raising included. An interrupt ends the run
    with the error.
    """
    with joined(train.device, "fit") as ranks:
        if ranks.world == 1:
            return _fit(network, train, validation, config, on_check, ranks)
        config = replace(config, cuda_graph=False)
        facts = {
            "the number of windows in `train`": len(train),
            "the number of windows in `validation`": 0 if validation is None else len(validation),
            "the checksum of the values": train.checksum,
            "the checksum of `network.config`": zlib.crc32(repr(network.config).encode()),
            "the checksum of `config`": zlib.crc32(repr(replace(config, verbose=0)).encode()),
        }
        ranks.require_same(facts)
        ranks.share_weights(network)
        history = _fit(network, train, validation, config, on_check, ranks)
        ranks.share_weights(network)
        return history


def _fit(
    network: SimbaForecaster,
    train: Windows,
    validation: Windows | None,
    config: TrainConfig,
    on_check: Callable[[Check], None] | None,
    ranks: Ranks,
) -> History:
    """`fit_network` in one of `ranks`, whose networks are alike."""
    device = train.device
    loss_of = LOSSES[config.loss]
    steps_per_epoch = math.ceil(min(len(train), config.most_windows) / config.batch_size)
    total = config.max_epochs * steps_per_epoch
    check_steps = {math.ceil(steps_per_epoch * (i + 1) / config.checks) for i in range(config.checks)}
    optimizer = _optimizer(network, config)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, total, config.warmup))
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16")

    def step(batch: Batch) -> Tensor:
        batch, share = ranks.shard(batch)
        with autocast:
            pair = normalised(network, batch)
            answer = network.answer(pair.past, pair.mask, pair.series, pair.level)
            loss = loss_of(_where_known(answer, pair.future, batch.known), pair.future)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        loss = ranks.joint(loss.detach(), network.parameters(), share)
        nn.utils.clip_grad_norm_(network.parameters(), config.clip)
        optimizer.step()
        return loss

    def validate() -> float:
        if validation is None:
            return math.nan
        return evaluate(network, validation, config.val_loss or config.loss, config.most_validation_windows, ranks)

    def check(epoch: float, step: int, losses: Tensor) -> None:
        found = Check(epoch, step, losses.mean().item(), validate(), float(schedule.get_last_lr()[0]))
        history.checks.append(found)
        if validation is None and not all(p.isfinite().all() for p in network.parameters()):
            raise FloatingPointError(f"The weights became infinite or NaN by step {step}. Lower `learning_rate`.")
        if validation is None or history.best is found or not best:
            best.update({name: value.clone() for name, value in network.state_dict().items()})
        if on_check is not None:
            on_check(found)

    take_step = recorded(step, device) if config.cuda_graph else step
    history, best = History(start_is_candidate=config.start_is_candidate), dict[str, Tensor]()
    with seeded(ranks.seed(config.random_state), device):
        generator = torch.Generator().manual_seed(config.random_state)
        check(0.0, 0, torch.tensor(math.nan))
        progress = _Progress(total, config.verbose if ranks.rank == 0 else 0)
        try:
            for epoch in range(config.max_epochs):
                network.train()
                losses: list[Tensor] = []
                batches = train.shuffled(config.batch_size, generator, config.most_windows)
                for i, batch in enumerate(batches, start=1):
                    losses.append(take_step(batch))
                    schedule.step()
                    progress.step()
                    if i in check_steps:
                        recent = torch.stack(losses)
                        _refuse_nonfinite(recent, epoch, steps_per_epoch, i, config)
                        losses.clear()
                        check(epoch + i / steps_per_epoch, epoch * steps_per_epoch + i, recent)
                        progress.show(recent.mean().item(), history.checks[-1].validation_loss)
                        if _exhausted(history, config.patience):
                            history.stopped = "patience"
                            return history
        except KeyboardInterrupt:
            if ranks.world > 1:  # others may be at another step
                raise
            history.stopped = "interrupted"
            warnings.warn("Training was interrupted; the best weights so far are kept.", stacklevel=3)
        finally:
            progress.close()
            network.load_state_dict(best)
            network.eval()
    return history


@torch.no_grad()
def evaluate(
    network: SimbaForecaster, windows: Windows, loss: str = "mse", most: int | None = None, ranks: Ranks = ALONE
) -> float:
    """The mean loss over all windows and steps, or `most` evenly spaced windows; each of `ranks` takes its share."""
    was_training = network.training
    network.eval()
    total, count = 0.0, 0.0
    for whole in windows.batches(EVALUATION_BATCH * ranks.world, most):
        batch, share = ranks.shard(whole)
        if not share:
            continue
        forecast = _forecast(network, batch)
        if batch.known is not None:
            forecast = forecast.where(batch.known, batch.future)
        total += LOSSES[loss](forecast, batch.future, reduction="sum").double().item()
        count += batch.future.numel() if batch.known is None else int(batch.known.sum())
    network.train(was_training)
    total, count = ranks.total(total, count)
    return total / count


def normalised(network: SimbaForecaster, batch: Batch) -> NormalisedPair:
    """A batch as the network sees it."""
    return network.normalised(batch.past, batch.future, batch.step, batch.series, batch.mask, batch.around)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Fix torch's random numbers within the block; the caller's go on afterwards as if nothing had been."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


class _Progress:
    """A bar where there is something to show it on; tqdm is loaded for that alone."""

    def __init__(self, total: int, verbose: int) -> None:
        self._bar = None
        if verbose:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, desc="fit", unit="step", disable=None)  # None: off where no terminal

    def step(self) -> None:
        if self._bar is not None:
            self._bar.update()

    def show(self, train_loss: float, validation_loss: float) -> None:
        if self._bar is not None:
            self._bar.set_postfix(train=f"{train_loss:.4f}", validation=f"{validation_loss:.4f}")

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _where_known(answer: Tensor, future: Tensor, known: Tensor | None) -> Tensor:
    """An answer that is right wherever the future was filled in, so that no loss comes from there."""
    return answer if known is None else answer.where(known.transpose(1, 2).flatten(0, 1), future)


def _forecast(network: SimbaForecaster, batch: Batch) -> Tensor:
    out: Tensor = network(batch.past, batch.step, batch.series, batch.mask, batch.around)
    return out


def _optimizer(network: SimbaForecaster, config: TrainConfig) -> torch.optim.AdamW:
    """Decay for linear maps alone; cycle and linear path, which begin at an optimum, have a rate of their own."""
    started = [p for part in (network.cycle, network.linear) if part is not None for p in part.parameters()]
    decayed = [module.weight for module in network.modules() if isinstance(module, nn.Linear)]
    grouped = {id(p) for p in started + decayed}
    others = [p for p in network.parameters() if id(p) not in grouped]
    device = network.head.project.weight.device
    graphed = config.cuda_graph and device.type == "cuda"

    def group(parameters: Sequence[Tensor], decay: float, share: float = 1.0) -> dict[str, Any]:
        rate = config.learning_rate * share
        # A graph reads the rate from where it lies; a number would be recorded as it was.
        return {
            "params": parameters,
            "weight_decay": decay,
            "lr": torch.tensor(rate, device=device) if graphed else rate,
        }

    groups = [group(decayed, config.weight_decay), group(others, 0.0), group(started, 0.0, config.start_rate)]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=config.learning_rate, capturable=graphed)


def _rate(step: int, total: int, warmup: float) -> float:
    """Linear warm-up, then half a cosine to zero."""
    rising = max(1, round(warmup * total))
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, total - rising)))


def _refuse_nonfinite(losses: Tensor, epoch: int, steps_per_epoch: int, last: int, config: TrainConfig) -> None:
    """Losses are looked at together, so that a GPU need not wait at every step."""
    bad = (~losses.isfinite()).nonzero()
    if len(bad):
        step = epoch * steps_per_epoch + last - len(losses) + int(bad[0]) + 1
        raise FloatingPointError(
            f"The training loss became {losses[bad[0]].item()} at epoch {epoch + 1}, step {step}, "
            f"learning rate {config.learning_rate:g}. Lower `learning_rate`."
        )


def _exhausted(history: History, patience: int) -> bool:
    best = history.best
    return not math.isnan(best.validation_loss) and len(history.checks) - 1 - history.checks.index(best) >= patience
