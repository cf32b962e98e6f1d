"""ONNX graphs of fitted models, for runtimes that have neither Python nor PyTorch."""
