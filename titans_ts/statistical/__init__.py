"""Simple statistical forecasts of many series at once, with which the network's are combined."""
