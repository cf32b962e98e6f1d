"""One training loop for every network and every caller: notebook, experiment, search.

AdamW with warm-up and cosine decay, clipped gradients, evaluations on the validation windows several times an epoch,
and the best weights kept by an error that no single series decides, those that training began with among them.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from titans_ts.devices import isolated, seeded_gpu
from titans_ts.model import Batch, SimbaForecaster
from titans_ts.model.layers import dropout_from
from titans_ts.windows.windows import Windows

from .config import TrainConfig
from .cuda_graph import recorded
from .distributed import Ranks, process_group
from .evaluate import loss_by_series
from .history import Evaluation, History
from .losses import LOSSES
from .relative import naive_errors, relative_error


def fit_network(
    network: SimbaForecaster,
    train: Windows,
    validation: Windows | None,
    config: TrainConfig,
    on_evaluation: Callable[[Evaluation], None] | None = None,
) -> History:
    """Train `network` in place and leave it with its best weights.

    Without validation windows nothing can tell when to stop, and the weights after `max_epochs` are kept.

    Parameters
    ----------
    network : SimbaForecaster
        On the device of the windows.
    train, validation : Windows
    config : TrainConfig
    on_evaluation : callable, optional
        Called with each evaluation as it is made; what it raises ends training.

    Returns
    -------
    History

    Raises
    ------
    FloatingPointError
        If a loss becomes infinite or NaN: names epoch, step and learning rate.
    ValueError
        If the network has another number of outputs than the loss needs, or if several processes train together and
        were given different windows, networks or settings.
    RuntimeError
        If another of these processes was killed, has failed, or is silent for too long.

    Notes
    -----
    Modes of torch that the caller has set do not count, and its random numbers go on as if nothing had been: batches
    and, on a CPU, dropout are drawn from generators of this training alone. On a GPU dropout is drawn from the
    device's own, which then goes on as it was; see `seeded_gpu`.

    Under torchrun all processes train one network. Each must be given the same windows, takes its share of every batch,
    and comes to the same gradients, to rounding, as one process would; dropout alone is drawn differently. They begin
    with the weights of rank 0, make the same evaluations, stop at the same one, and end with the same weights and
    history. `on_evaluation` is called in every process and must do the same in each, raising included. An interrupt
    ends the run with the error.
    """
    for name in (config.loss, config.val_loss or config.loss):
        if network.config.n_outputs != LOSSES[name].n_outputs:
            raise ValueError(
                f"`network` must have `n_outputs` = {LOSSES[name].n_outputs}, which the loss {name!r} needs, got "
                f"{network.config.n_outputs}."
            )
    with isolated(), process_group(train.device, "fit") as ranks:
        if ranks.world == 1:
            return _fit(network, train, validation, config, on_evaluation, ranks)
        config = replace(config, cuda_graph=False)
        facts = {
            "the number of windows in `train`": len(train),
            "the number of windows in `validation`": 0 if validation is None else len(validation),
            "the checksum of the values": train.checksum,
            "the checksum of `network.config`": zlib.crc32(repr(network.config).encode()),
            "the checksum of `config`": zlib.crc32(repr(replace(config, verbose=0)).encode()),
        }
        ranks.require_same(facts)
        ranks.broadcast_weights(network)
        history = _fit(network, train, validation, config, on_evaluation, ranks)
        ranks.broadcast_weights(network)
        return history


def _fit(
    network: SimbaForecaster,
    train: Windows,
    validation: Windows | None,
    config: TrainConfig,
    on_evaluation: Callable[[Evaluation], None] | None,
    ranks: Ranks,
) -> History:
    """`fit_network` in one of `ranks`, whose networks are alike."""
    steps_per_epoch = math.ceil(min(len(train), config.most_windows) / config.batch_size)
    total, times = config.max_epochs * steps_per_epoch, config.evaluations_per_epoch
    evaluated_steps = {math.ceil(steps_per_epoch * (i + 1) / times) for i in range(times)}
    optimizer = _optimizer(network, config)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, total, config.warmup))
    take_step = _step(network, optimizer, config, ranks)
    history = History(initialisation_is_candidate=config.initialisation_is_candidate)
    best: dict[str, Tensor] = {}

    loss, most = config.val_loss or config.loss, config.most_validation_windows
    naive = None if validation is None else naive_errors(validation, loss, most)

    def evaluated(epoch: float, step: int, losses: Tensor) -> None:
        error = relative = math.nan
        if validation is not None and naive is not None:
            totals, counts = loss_by_series(network, validation, loss, most, ranks)
            error, relative = (totals.sum() / counts.sum()).item(), relative_error(totals / counts, naive).item()
        found = Evaluation(epoch, step, losses.mean().item(), error, float(schedule.get_last_lr()[0]), relative)
        history.evaluations.append(found)
        if validation is None and not all(p.isfinite().all() for p in network.parameters()):
            raise FloatingPointError(f"The weights became infinite or NaN by step {step}. Lower `learning_rate`.")
        if validation is None or history.best is found or not best:
            best.update({name: value.clone() for name, value in network.state_dict().items()})
        if on_evaluation is not None:
            on_evaluation(found)

    seed = ranks.seed(config.random_state)
    with seeded_gpu(seed, train.device), dropout_from(torch.Generator().manual_seed(seed), network):
        generator = torch.Generator().manual_seed(config.random_state)
        evaluated(0.0, 0, torch.tensor(math.nan))
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
                    if i in evaluated_steps:
                        recent = torch.stack(losses)
                        _check_finite(recent, epoch, steps_per_epoch, i, config)
                        losses.clear()
                        evaluated(epoch + i / steps_per_epoch, epoch * steps_per_epoch + i, recent)
                        progress.show(recent.mean().item(), history.evaluations[-1].validation_loss)
                        if history.is_exhausted(config.patience):
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


def _step(
    network: SimbaForecaster, optimizer: torch.optim.Optimizer, config: TrainConfig, ranks: Ranks
) -> Callable[[Batch], Tensor]:
    """A training step: a batch, which all `ranks` hold, to its mean loss; changes weights and optimizer in place."""
    device, loss_of = network.device, LOSSES[config.loss]
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16")

    def step(batch: Batch) -> Tensor:
        batch, share = ranks.shard(batch)
        with autocast:
            seen = network.normalised(batch)
            forecast, truth = network.forecast_normalised(seen), seen.normalise(batch.future)
            loss = loss_of.mean(forecast, truth, batch.observed_mask)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        loss = ranks.all_reduce_gradients(loss.detach(), network.parameters(), share)
        nn.utils.clip_grad_norm_(network.parameters(), config.clip)
        optimizer.step()
        return loss

    return recorded(step, device) if config.cuda_graph else step


class _Progress:
    """A progress bar on a terminal or in a notebook; tqdm is loaded for that alone."""

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


def _optimizer(network: SimbaForecaster, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW with decay for linear maps alone; cycle and linear path, which begin at an optimum, have a lower rate."""
    initialised = [p for part in (network.cycle, network.linear) if part is not None for p in part.parameters()]
    decayed = [module.weight for module in network.modules() if isinstance(module, nn.Linear)]
    grouped = {id(p) for p in initialised + decayed}
    others = [p for p in network.parameters() if id(p) not in grouped]
    device = network.device
    graphed = config.cuda_graph and device.type == "cuda"

    def group(parameters: Sequence[Tensor], decay: float, share: float = 1.0) -> dict[str, Any]:
        rate = config.learning_rate * share
        # A graph reads the rate from where it lies; a number would be recorded as it was.
        return {
            "params": parameters,
            "weight_decay": decay,
            "lr": torch.tensor(rate, dtype=torch.float32, device=device) if graphed else rate,
        }

    groups = [group(decayed, config.weight_decay), group(others, 0.0), group(initialised, 0.0, config.initialised_rate)]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=config.learning_rate, capturable=graphed)


def _rate(step: int, total: int, warmup: float) -> float:
    """Linear warm-up, then half a cosine to zero."""
    rising = max(1, round(warmup * total))
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, total - rising)))


def _check_finite(losses: Tensor, epoch: int, steps_per_epoch: int, last: int, config: TrainConfig) -> None:
    """Refuse losses that are infinite or NaN, many at once, so that a GPU need not wait at every step."""
    bad = (~losses.isfinite()).nonzero()
    if len(bad):
        step = epoch * steps_per_epoch + last - len(losses) + int(bad[0]) + 1
        raise FloatingPointError(
            f"The training loss became {losses[bad[0]].item()} at epoch {epoch + 1}, step {step}, "
            f"learning rate {config.learning_rate:g}. Lower `learning_rate`."
        )
