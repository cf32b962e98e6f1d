"""Series to windows: scaling, splits, windows and the features that networks read beside them."""
