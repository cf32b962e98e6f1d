"""Prediction intervals: what forecasts have erred by, and the quantiles that this gives those to come."""
