"""Writing the ONNX graph of a fitted model, and what it says of itself."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from titans_ts.devices import isolated
from titans_ts.fitted import FittedModel
from titans_ts.paths import check_path, replace_file
from titans_ts.tables.infer import show

from .window import WindowForecast

NEEDED = "onnx", "onnxscript"
METADATA = "titans_ts"  # the key of what a graph says of itself
MOST_BYTES = 2**31 - 1  # of one file in protobuf
SAMPLES = 3  # of the windows that a graph is traced with; any number fits it


def check_exportable(fitted: FittedModel, window_only: bool) -> None:
    """Refuse a model whose forecast a window does not hold.

    Raises
    ------
    ValueError
        Naming what else is part of the forecast, and what to set.
    """
    if fitted.regression is not None:
        raise ValueError(
            "`export` writes what a forecast makes of its window, but this model adds effects of covariates ahead, "
            "which are solved for outside of it. Fit it without `static_cols`, `future_cols` and `calendar`; "
            "`past_cols` can be exported."
        )
    if window_only:
        return
    remedy = "or pass `window_only=True` for a graph of the network's part alone, which `predict` differs from."
    if fitted.combination is not None:
        raise ValueError(
            "`export` writes what a forecast makes of its window, but this model averages it with statistical "
            f"forecasts of the whole history. Fit it with `combine=False`, {remedy}"
        )
    if fitted.long_term is not None:
        raise ValueError(
            "`export` writes what a forecast makes of its window, but this model adds what a long-term memory holds "
            f"of all rows before. Fit it with `context='window'`, {remedy}"
        )


def check_packages() -> None:
    """Refuse to go on without the packages that write ONNX."""
    if absent := [name for name in NEEDED if find_spec(name) is None]:
        raise ImportError(
            f"`export` needs {' and '.join(absent)}, which cannot be imported. "
            "Install by `pip install titans-ts[onnx]`."
        )


@isolated()
def write_graph(fitted: FittedModel, path: str | os.PathLike[str], window_only: bool, version: str) -> None:
    """Write the graph of a model to a file; errors as `TitansForecaster.export` lists them."""
    check_exportable(fitted, window_only)
    check_packages()
    target = _file(path)
    module = WindowForecast(fitted)
    proto = _graph(module)
    described = {**_description(fitted, module), "part": "window" if window_only else "all", "titans_ts": version}
    entry = proto.metadata_props.add()
    entry.key, entry.value = METADATA, json.dumps(described)
    if proto.ByteSize() > MOST_BYTES:
        raise ValueError(
            f"`export` writes one file of at most 2 GiB, but this graph takes {proto.ByteSize() / 2**30:.1f} GiB. "
            "Fit with `linear_path=True`, whose weights all series share, or export fewer series."
        )
    replace_file(target, lambda file: file.write(proto.SerializeToString()))


def _file(path: Any) -> Path:
    """`path` as a Path that a file can be written to: making a graph takes too long to find out afterwards."""
    target = check_path(path, "a file")
    if target.is_dir():
        raise IsADirectoryError(f"`path` must be a file, but {str(target)!r} is a folder. Name a file in it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"`path` must lie in a folder that is there, got {str(target)!r}. Make it first.")
    return target


def _graph(module: WindowForecast) -> Any:
    """The graph as a protobuf message."""
    from onnxscript import opset18 as op

    def silu_backward(grad: Any, z: Any) -> Any:
        s = op.Sigmoid(z)
        return op.Mul(grad, op.Mul(s, op.Add(op.Mul(z, op.Sub(1.0, s)), 1.0)))

    inputs, outputs = module.inputs(), module.outputs()
    example = {
        name: torch.zeros([SAMPLES if isinstance(size, str) else size for size in shape], dtype=getattr(torch, dtype))
        for name, (dtype, shape) in inputs.items()
    }
    batch = torch.export.Dim.DYNAMIC
    shapes = {name: {0: batch} if "batch" in shape else None for name, (_, shape) in inputs.items()}
    with torch.no_grad(), _quiet():
        module(**example)  # what modules remember must not be made of the tensors that tracing stands in for them
        program = torch.export.export(module, (), kwargs=example, dynamic_shapes=shapes, strict=False)
        found = torch.onnx.export(
            program,
            dynamo=True,
            input_names=list(inputs),
            output_names=list(outputs),
            custom_translation_table={torch.ops.aten.silu_backward.default: silu_backward},
            verbose=False,
        )
    if found is None:
        raise RuntimeError("`torch.onnx.export` returned no program.")
    proto = found.model_proto  # made anew each time
    graph = proto.graph
    for node in graph.node:  # where in which file it was traced
        node.ClearField("metadata_props")
    graph.ClearField("value_info")
    for value in (*graph.input, *graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:  # a symbol of torch's
                dim.dim_param = "batch"
    return proto


def _description(fitted: FittedModel, module: WindowForecast) -> dict[str, Any]:
    """What the graph says of itself."""
    panel, config = fitted.panel, fitted.network.config
    ids = [panel.id_of(i) for i in range(panel.n_series)]
    last = (panel.data.ends - 1).tolist()
    columns = () if panel.covariates is None or not config.covariates else panel.covariates.columns
    return {
        "horizon": config.horizon,
        "lookback": config.lookback,
        "freq": panel.calendar.freq,
        "ids": [name if isinstance(name, (str, int)) else str(name) for name in ids],
        "cutoffs": [show(panel.calendar.of_series(name).label(at)) for name, at in zip(ids, last, strict=True)],
        "cutoff_time_index": last,
        "levels": config.levels,
        "covariates": [{**column._asdict(), "name": str(column.name)} for column in columns],
        "inputs": {name: {"dtype": dtype, "shape": shape} for name, (dtype, shape) in module.inputs().items()},
        "outputs": {name: {"dtype": dtype, "shape": shape} for name, (dtype, shape) in module.outputs().items()},
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch says of its own parts while it exports: torchvision, which is not needed, and its trees."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    logger.addFilter(_says_nothing_of_torchvision)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
            yield
    finally:
        logger.removeFilter(_says_nothing_of_torchvision)


def _says_nothing_of_torchvision(record: logging.LogRecord) -> bool:
    return "torchvision is not installed" not in record.getMessage()
