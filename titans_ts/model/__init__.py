"""The network, in the papers' order."""

from .config import ModelConfig
from .memory import LayerState, NeuralMemory
from .simba import SimbaForecaster

__all__ = ["LayerState", "ModelConfig", "NeuralMemory", "SimbaForecaster"]
