"""The network, in the papers' order."""

from .batch import Batch
from .config import ModelConfig
from .memory import LayerState, NeuralMemory
from .quantiles import point_of
from .simba import SimbaForecaster

__all__ = ["Batch", "LayerState", "ModelConfig", "NeuralMemory", "SimbaForecaster", "point_of"]
