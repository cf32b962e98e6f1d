"""What covariates explain of series: a regression whose errors the network forecasts."""
