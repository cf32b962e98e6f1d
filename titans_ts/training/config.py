"""How a network is trained, in one frozen dataclass that is passed whole."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

from titans_ts.reals import is_real

from .losses import AnyLoss, check_loss, loss_name

PRECISIONS = ("float32", "bfloat16")
AT_LEAST = {
    **dict.fromkeys(("batch_size", "patience", "evaluations_per_epoch", "most_windows", "most_validation_windows"), 1),
    **dict.fromkeys(("max_epochs", "random_state"), 0),
}
MOST_RATE = 1e6  # far beyond any use, and steps still fit float32
REALS: dict[str, tuple[Callable[[float], bool], str]] = {
    "learning_rate": (lambda x: 0 < x <= MOST_RATE, f"a positive number of at most {MOST_RATE:g}"),
    "clip": (lambda x: 0 < x < math.inf, "a positive number"),
    **dict.fromkeys(
        ("initialised_rate", "weight_decay"), (lambda x: 0 <= x <= MOST_RATE, f"a number from 0 to {MOST_RATE:g}")
    ),
    "warmup": (lambda x: 0 <= x < 1, "in [0, 1)"),
}
SWITCHES = ("initialisation_is_candidate", "cuda_graph")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a network is trained.

    Parameters
    ----------
    loss : {"mse", "mae", "huber", "quantile"} or callable
        In training, of the normalised windows. A callable is given the point forecast and the truth, tensors of shape
        (samples, horizon), and returns the loss of every entry.
    val_loss : {"mse", "mae", "huber", "quantile"} or callable, optional
        In validation, of the scaled values; `loss` if None. The quantile loss of a point forecast is its absolute
        error, and a loss of points takes the median of quantiles.
    learning_rate : float
        The optimizer's peak rate.
    initialised_rate : float
        The rate of cycle and linear path, over `learning_rate`: they begin at an optimum.
    batch_size : int
        Windows a step, those of all processes together.
    max_epochs : int
        0 keeps the initialisation.
    most_windows : int
        Of an epoch; as many are drawn at random where there are more.
    initialisation_is_candidate : bool
        Keep the weights that training began with where no evaluation has a better validation error.
    patience : int
        Stop after this many evaluations without a better validation error.
    evaluations_per_epoch : int
        On the validation windows, evenly spaced.
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

    loss: AnyLoss = "mse"
    val_loss: AnyLoss | None = None
    learning_rate: float = 1e-3
    initialised_rate: float = 0.1
    batch_size: int = 256
    max_epochs: int = 10
    initialisation_is_candidate: bool = True
    patience: int = 8
    evaluations_per_epoch: int = 4
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
        check_loss("loss", self.loss)
        if self.val_loss is not None:
            check_loss("val_loss", self.val_loss)
        if not isinstance(self.precision, str) or self.precision not in PRECISIONS:
            raise ValueError(f"`precision` must be one of {PRECISIONS}, got {self.precision!r}.")
        for name, low in AT_LEAST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < low:
                raise ValueError(f"`{name}` must be an integer >= {low}, got {value!r}.")
        for name, (fits, rule) in REALS.items():
            value = getattr(self, name)
            if not is_real(value) or not fits(float(value)):
                raise ValueError(f"`{name}` must be {rule}, got {value!r}.")
        for name in SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"`{name}` must be True or False, got {getattr(self, name)!r}.")

    @property
    def evaluated_by(self) -> AnyLoss:
        """The loss on validation windows."""
        return self.loss if self.val_loss is None else self.val_loss

    @property
    def described(self) -> dict[str, str]:
        """Each field but `verbose` as text that is the same in every process: of a function, its name."""
        found = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "verbose"}
        return {name: loss_name(value) if callable(value) else repr(value) for name, value in found.items()}
