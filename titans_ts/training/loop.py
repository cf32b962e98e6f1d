"""One training loop for every network and every caller: notebook, experiment, search.

AdamW with warm-up and cosine decay, clipped gradients, evaluations on the validation windows several times an epoch,
and the best weights kept by an error that no single series decides, those that training began with among them.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields, replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from titans_ts import __version__
from titans_ts.devices import isolated, seeded_gpu
from titans_ts.model import Batch, SimbaForecaster
from titans_ts.model.layers import dropout_from
from titans_ts.progress import Progress
from titans_ts.windows.windows import Windows

from .checkpoint import Checkpoint, TrainingState
from .config import TrainConfig
from .cuda_graph import recorded
from .distributed import Ranks, process_group
from .history import Evaluation, History
from .losses import find_loss, try_loss
from .probe import Probe
from .validation import Validation

LOADING_SECONDS = 3.0  # that a process's first optimizer takes: torch loads its compiler with it
STEP_OVER_EVALUATION = 3  # the time of a training step over that of evaluating as many windows, until one was taken
NETWORK, BEST, INITIAL, OPTIMIZER = "network.", "best.", "initial.", "optimizer."  # begin tensors of a checkpoint


def fit_network(
    network: SimbaForecaster,
    train: Windows,
    validation: Windows | None,
    config: TrainConfig,
    on_evaluation: Callable[[Evaluation], None] | None = None,
    *,
    probe: Probe | None = None,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
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
        Called with each evaluation as it is made; what it raises ends training, and KeyboardInterrupt ends it as the
        user's own does: with the best weights so far.
    probe : Probe, optional
        Train only where that soon turns out to be better than the initialisation, which is kept elsewhere and where
        there are no validation windows. If None, train as `config` says.
    progress : Progress, optional
        That of the fit that this training is a part of: its time limit ends the training, too. If None, there is no
        limit, and the bar is that of `config.verbose`.
    checkpoint : Checkpoint, optional
        Where the training is written after each evaluation but the first, and goes on from if one of the same windows
        and settings is there, with the result of one that was not killed: on a CPU, to the bit. It stays where the
        training ends, for the caller to remove, but after a FloatingPointError, in which it would end again.

    Returns
    -------
    History

    Raises
    ------
    FloatingPointError
        If a loss becomes infinite or NaN: names epoch, step and learning rate.
    TypeError, ValueError
        If several processes train together and there is a checkpoint, or if that is of another training. If the network
        has other outputs than the loss needs, if a loss is a function that cannot be trained by, if
        `probe` is given where the initialisation is no candidate, or if several processes train together and were given
        different windows, networks or settings.
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
    needed, shape = find_loss(config.loss), network.config
    if (shape.n_outputs, shape.levels) != (needed.n_outputs, needed.levels):
        raise ValueError(
            f"`network` must have `n_outputs` = {needed.n_outputs} and `levels` = {needed.levels}, which the loss "
            f"{needed.name!r} needs, got {shape.n_outputs} and {shape.levels}."
        )
    try_loss("loss", config.loss, shape.horizon, train.device)
    try_loss("val_loss", config.evaluated_by, shape.horizon, train.device)
    if probe is not None and not config.initialisation_is_candidate:
        raise ValueError("`probe` must be None where `initialisation_is_candidate` is False: it may keep that.")
    with isolated(), process_group(train.device, "fit") as ranks, ExitStack() as stack:
        if progress is None:
            progress = stack.enter_context(Progress(verbose=config.verbose if ranks.rank == 0 else 0))
        if checkpoint is not None:
            if ranks.world > 1:
                raise ValueError("`checkpoint` must be None where several processes train together.")
            checkpoint.facts |= _facts(network, train, validation, config, probe)
        if ranks.world == 1:
            return _fit(network, train, validation, config, on_evaluation, probe, progress, ranks, checkpoint)
        config = replace(config, cuda_graph=False)
        facts = {
            "the number of windows in `train`": len(train),
            "the number of windows in `validation`": 0 if validation is None else len(validation),
            "the checksum of the values": train.checksum,
            "the checksum of the weights": _checksum(train),
            "the checksum of `network.config`": zlib.crc32(repr(network.config).encode()),
            "the checksum of `config`": zlib.crc32(repr(config.described).encode()),
            "the checksum of `probe`": zlib.crc32(repr(probe).encode()),
            "the time limit": progress.time_limit or 0,
        }
        ranks.require_same(facts)
        ranks.broadcast_weights(network)
        history = _fit(network, train, validation, config, on_evaluation, probe, progress, ranks)
        ranks.broadcast_weights(network)
        return history


def _fit(
    network: SimbaForecaster,
    train: Windows,
    validation: Windows | None,
    config: TrainConfig,
    on_evaluation: Callable[[Evaluation], None] | None,
    probe: Probe | None,
    progress: Progress,
    ranks: Ranks,
    checkpoint: Checkpoint | None = None,
) -> History:
    """`fit_network` in one of `ranks`, whose networks are alike."""
    margin = 0.0 if probe is None else probe.margin
    history = History(initialisation_is_candidate=config.initialisation_is_candidate, margin=margin)
    initial, seed = _weights(network), ranks.seed(config.random_state)
    best, loss, most = dict(initial), config.evaluated_by, config.most_validation_windows
    if probe is not None:
        most = min(most, probe.most_validation_windows)
    try:
        dropout = torch.Generator().manual_seed(seed)
        with progress.among(ranks.broadcast), seeded_gpu(seed, train.device), dropout_from(dropout, network):
            progress.begin("validation")
            errors = Validation(validation, loss, most, probe is not None, ranks)
            training = _Training(network, train, errors, config, probe, on_evaluation, progress, ranks, history, best)
            training.checkpointed(checkpoint, initial, dropout)
            history.stopped = training.run()
    except FloatingPointError:
        if checkpoint is not None:
            checkpoint.remove()
        raise
    except KeyboardInterrupt:
        if ranks.world > 1:  # others may be at another step
            raise
        history.stopped = "interrupted"
        if not history.evaluations:
            history.evaluations.append(Evaluation(0.0, 0, math.nan, math.nan, 0.0))
        warnings.warn("Training was interrupted; the best weights so far are kept.", stacklevel=3)
    finally:
        unconfirmed = bool(history.evaluations) and history.best is not history.chosen
        network.load_state_dict(initial if unconfirmed else best)
        network.eval()
    return history


class _Training:
    """One training in one of `ranks`, whose evaluations are added to `history` and whose best weights are in `best`.

    Parameters as `fit_network` takes them.
    """

    def __init__(
        self,
        network: SimbaForecaster,
        train: Windows,
        validation: Validation,
        config: TrainConfig,
        probe: Probe | None,
        on_evaluation: Callable[[Evaluation], None] | None,
        progress: Progress,
        ranks: Ranks,
        history: History,
        best: dict[str, Tensor],
    ) -> None:
        self.network, self.train, self.validation, self.config, self.probe = network, train, validation, config, probe
        self.on_evaluation, self.progress, self.history, self.best = on_evaluation, progress, history, best
        self.ranks = ranks
        self.steps_per_epoch = math.ceil(min(len(train), config.most_windows) / config.batch_size)
        self.total = config.max_epochs * self.steps_per_epoch
        self.probe_steps, self.rising = 0, max(1, round(config.warmup * self.total))
        if probe is not None:
            tokens = network.config.n_tokens + network.config.n_persistent
            self.probe_steps = probe.steps_of(config.batch_size * tokens)
            self.rising = min(self.rising, max(1, self.probe_steps // 2))  # a probe is to see the full rate
        self.checkpoint: Checkpoint | None = None
        self.losses: list[Tensor] = []  # since the evaluation before
        self.step_seconds = 0.0
        self.probes = 0
        self.begun = 0  # steps that were taken before a kill
        self.generator = torch.Generator().manual_seed(config.random_state)  # of batches
        self.epoch_state = self.generator.get_state()  # that this epoch began with

    def checkpointed(self, checkpoint: Checkpoint | None, initial: dict[str, Tensor], dropout: torch.Generator) -> None:
        """Write a checkpoint, if there is to be one: with the weights that training began with, and this generator."""
        self.checkpoint, self.initial, self.dropout = checkpoint, initial, dropout

    def run(self) -> str:
        """Evaluate the initialisation and train from there; returns `History.stopped`."""
        ended = self._reason_not_to_train()
        state = None if ended or self.checkpoint is None else self.checkpoint.read()
        if state is not None:
            return self._confirmed(self._epochs(state))
        if not ended and self.progress.time_limit is not None:
            self.validation.fit_into(self.progress.left, self.network)
            share = self.config.batch_size / max(1, self.validation.n_windows)
            self.step_seconds = STEP_OVER_EVALUATION * share * self.validation.seconds
            loading = 0.0 if "torch._dynamo" in sys.modules else LOADING_SECONDS
            ended = "time_limit" * self.progress.lacks(loading + self.step_seconds + 2 * self.validation.seconds)
        self._evaluate(0)
        if ended:
            return ended
        return self._confirmed(self._epochs())

    def _confirmed(self, stopped: str) -> str:
        """Why training ended, once the series held back have had their say."""
        unconfirmed = stopped in ("max_epochs", "patience") and self.history.best is not self.history.chosen
        return "held back" if unconfirmed else stopped

    def _reason_not_to_train(self) -> str:
        """What `History.stopped` says where the initialisation is all; empty where it is not."""
        if self.probe is not None and not self.validation.n_series:
            return "no validation"
        if self.probe is not None and self.validation.n_series < self.probe.least_series:
            return "few series"
        if not self.total:
            return "max_epochs"
        return "time_limit" * self.progress.lacks(0.0)

    def _epochs(self, state: TrainingState | None = None) -> str:
        """Train, on from where another training was killed."""
        config = self.config
        times = config.evaluations_per_epoch
        evaluated_steps = {math.ceil(self.steps_per_epoch * (i + 1) / times) for i in range(times)}
        self.optimizer = _optimizer(self.network, config)
        if state is not None:
            self._restore(state)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self._rate, last_epoch=self.begun - 1)
        self.update = _step(self.network, self.optimizer, config, self.ranks)
        self.network.train()
        if self.probe is None:
            self.progress.begin("training", self.total - self.begun)
        else:
            self.progress.begin("probing", self.probe.most_probes * self.probe_steps - self.begun)
        if self.begun and (ended := self._decide(self.begun)):
            return ended
        first, done = divmod(self.begun, self.steps_per_epoch)
        for epoch in range(first, config.max_epochs):
            self.epoch_state = self.generator.get_state()
            batches = self.train.shuffled(config.batch_size, self.generator, config.most_windows)
            for i, batch in islice(enumerate(batches, start=1), done if epoch == first else 0, None):
                step = epoch * self.steps_per_epoch + i
                if self.progress.lacks(self.step_seconds + self.validation.seconds):
                    if self.losses:
                        self._evaluate(step - 1)
                    return "time_limit"
                self._step(batch)
                if i in evaluated_steps if self.probe is None else step % self.probe_steps == 0:
                    self._evaluate(step)
                    if ended := self._decide(step):
                        return ended
        return "max_epochs" if self.probe is None else "probe"

    def _decide(self, step: int) -> str:
        """Why training ends after the evaluation at `step`; empty where it goes on."""
        if self.probe is None:
            return "patience" * self.history.is_exhausted(self.config.patience)
        self.probes += 1
        pays = self.probe.pays(self.history, self.probes)
        if pays:
            self.probe = None
            self.progress.begin("training", self.total - step)
        return "probe" * (pays is False)

    def _step(self, batch: Batch) -> None:
        begun = time.perf_counter()
        self.losses.append(self.update(batch))
        self.schedule.step()
        if self.progress.time_limit is not None:
            if self.train.device.type == "cuda":  # which may still be at earlier steps
                torch.cuda.synchronize(self.train.device)
            self.step_seconds = time.perf_counter() - begun
        self.progress.step()

    def _rate(self, step: int) -> float:
        """Linear warm-up, then half a cosine to zero."""
        if step < self.rising:
            return (step + 1) / self.rising
        return 0.5 * (1 + math.cos(math.pi * (step - self.rising) / max(1, self.total - self.rising)))

    def _state(self, step: int) -> TrainingState:
        """All that the training goes on from after the evaluation at `step`."""
        now = self.network.state_dict()
        tensors = {f"{NETWORK}{name}": x for name, x in now.items()}
        for prefix, weights in ((BEST, self.best), (INITIAL, self.initial)):  # most of which may be as they are now
            tensors |= {f"{prefix}{name}": x for name, x in weights.items() if not torch.equal(x, now[name])}
        for i, parameter in enumerate(_parameters(self.optimizer)):
            held = self.optimizer.state.get(parameter, {})
            tensors |= {f"{OPTIMIZER}{i}.{name}": x for name, x in held.items()}
        at_end = step % self.steps_per_epoch == 0
        tensors["batches"] = self.generator.get_state() if at_end else self.epoch_state
        tensors["dropout"] = self.dropout.get_state()
        if self.train.device.type == "cuda":
            tensors["gpu"] = torch.cuda.get_rng_state(self.train.device)
        evaluations = [asdict(evaluation) for evaluation in self.history.evaluations]
        numbers = {"step": step, "probes": self.probes, "probing": self.probe is not None, "evaluations": evaluations}
        return TrainingState({**numbers, "validated": self.validation.most}, tensors)

    def _restore(self, state: TrainingState) -> None:
        """Be where another training was when it was killed."""
        numbers, weights = state.numbers, state.part(NETWORK)
        self.network.load_state_dict(weights)
        now = self.network.state_dict()
        for kept, prefix in ((self.best, BEST), (self.initial, INITIAL)):
            kept.update({name: x.clone() for name, x in now.items()})
            kept.update({name: x.to(now[name].device) for name, x in state.part(prefix).items()})
        for i, parameter in enumerate(_parameters(self.optimizer)):
            if held := state.part(f"{OPTIMIZER}{i}."):
                on_host = not self.optimizer.defaults["capturable"]  # where the count of steps lies
                self.optimizer.state[parameter] = {
                    name: x if name == "step" and on_host else x.to(parameter.device) for name, x in held.items()
                }
        for group in self.optimizer.param_groups:
            rate = group["lr"]
            group["initial_lr"] = rate.clone() if isinstance(rate, Tensor) else rate
        self.generator.set_state(state.tensors["batches"])
        self.dropout.set_state(state.tensors["dropout"])
        if "gpu" in state.tensors:
            torch.cuda.set_rng_state(state.tensors["gpu"], self.train.device)
        self.history.evaluations[:] = [Evaluation(**evaluation) for evaluation in numbers["evaluations"]]
        self.begun, self.probes = numbers["step"], numbers["probes"]
        self.probe = self.probe if numbers["probing"] else None
        self.validation.take(numbers["validated"])
        self.progress.found(self.history.best.validation_loss)

    def _evaluate(self, step: int) -> None:
        """Add an evaluation to the history, and keep the weights if it is the best."""
        recent = torch.stack(self.losses) if self.losses else torch.tensor([math.nan])
        if self.losses:
            _check_finite(recent, step, self.steps_per_epoch, self.config)
        self.losses.clear()
        errors, rate = self.validation.errors(self.network), float(self.config.learning_rate) * self._rate(step)
        found = Evaluation(step / self.steps_per_epoch, step, recent.mean().item(), errors.loss, rate, *errors[1:])
        self.history.evaluations.append(found)
        validated = self.validation.n_series > 0
        if not validated and not all(p.isfinite().all() for p in self.network.parameters()):
            raise FloatingPointError(f"The weights became infinite or NaN by step {step}. Lower `learning_rate`.")
        if not validated or self.history.chosen is found or len(self.history.evaluations) == 1:
            self.best.update(_weights(self.network))
        self.progress.found(self.history.best.validation_loss)
        if self.checkpoint is not None and step:
            self.checkpoint.write(self._state(step))
        if self.on_evaluation is not None:
            self.on_evaluation(found)


def _facts(
    network: SimbaForecaster, train: Windows, validation: Windows | None, config: TrainConfig, probe: Probe | None
) -> dict[str, str]:
    """What a training that goes on must have in common with the one before, as text."""
    shape = {field.name: repr(getattr(network.config, field.name)) for field in fields(network.config)}
    windows = {"data": train.digest, "validation": "none" if validation is None else validation.digest}
    kind = {"titans_ts": __version__, "device": network.device.type, "probe": repr(probe)}
    return {**kind, **windows, **shape, **config.described}


def _checksum(windows: Windows) -> float:
    """A sum of the weights of series and, coarsely, of their order."""
    weight = windows.series_weight
    return 0.0 if weight is None else (weight * torch.arange(1, 1 + len(weight), device=weight.device)).sum().item()


def _weights(network: SimbaForecaster) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def _step(
    network: SimbaForecaster, optimizer: torch.optim.Optimizer, config: TrainConfig, ranks: Ranks
) -> Callable[[Batch], Tensor]:
    """A training step: a batch, which all `ranks` hold, to its mean loss; changes weights and optimizer in place."""
    device, loss_of = network.device, find_loss(config.loss)
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bfloat16")

    def step(batch: Batch) -> Tensor:
        batch, share = ranks.shard(batch)
        with autocast:
            seen = network.normalised(batch)
            forecast, truth = network.forecast_normalised(seen), seen.normalise(batch.future)
            loss = loss_of.mean(forecast, truth, batch.observed_mask, batch.weight)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        loss = ranks.all_reduce_gradients(loss.detach(), network.parameters(), share)
        nn.utils.clip_grad_norm_(network.parameters(), config.clip)
        optimizer.step()
        return loss

    return recorded(step, device) if config.cuda_graph else step


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


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """All that an optimizer changes, in its order."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _check_finite(losses: Tensor, last: int, steps_per_epoch: int, config: TrainConfig) -> None:
    """Refuse losses that are infinite or NaN, of all steps up to `last` at once: a GPU need not wait at every step."""
    bad = (~losses.isfinite()).nonzero()
    if len(bad):
        step = last - len(losses) + int(bad[0]) + 1
        raise FloatingPointError(
            f"The training loss became {losses[bad[0]].item()} at epoch {(step - 1) // steps_per_epoch + 1}, "
            f"step {step}, learning rate {config.learning_rate:g}. Lower `learning_rate`."
        )
