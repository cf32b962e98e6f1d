"""The network: what it reads, its configuration, its layers, and the long-term memory beside it."""

from .batch import Batch
from .config import ModelConfig
from .memory import LayerState, NeuralMemory
from .quantiles import point_of
from .simba import SimbaForecaster

__all__ = ["Batch", "LayerState", "ModelConfig", "NeuralMemory", "SimbaForecaster", "point_of"]
