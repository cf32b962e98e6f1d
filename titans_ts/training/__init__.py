"""From windows to a trained network: the closed-form initialisation, then gradient descent where it helps."""
