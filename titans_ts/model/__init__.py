"""The network, in the papers' order."""

from .batch import Batch
from .config import ModelConfig
from .memory import LayerState, NeuralMemory
from .simba import SimbaForecaster

__all__ = ["Batch", "LayerState", "ModelConfig", "NeuralMemory", "SimbaForecaster"]
