"""The search over a forecaster's parameters with Optuna, in one process or on many machines."""
