"""How long does a forecast take as an ONNX graph? `python experiments/speed/export.py`.

A thousand hourly series, once by the closed form alone and once with the network of the defaults, whose head is drawn
at random: how long it computes does not depend on its weights. Each is exported, and windows of one series and of all
are forecast by onnxruntime, by the module that was exported in PyTorch, and by `predict`, which also reads the table
and writes one. The three take turns, on as many threads; the figures are medians, after one call of warm-up.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmark.estimator import closed_form
from measure import medians, milliseconds
from record import RESULTS
from speed.generated import wide_table
from speed.report import Report, Row, with_target
from titans_ts import TitansForecaster
from titans_ts.export.window import WindowForecast

PACKAGES = ("titans-ts", "onnx", "onnxruntime", "onnxscript", "numpy", "torch")
SERIES, ROWS, LOOKBACK, HORIZON = 1000, 400, 96, 24
MOST_ERROR = 1e-4  # of the scale of a series


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--series", type=int, default=SERIES, help=f"hourly series (default {SERIES})")
    parser.add_argument("--repeats", type=int, default=20, help="of each call (default 20)")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch and onnxruntime (default 1)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the CSV")
    args = parser.parse_args(argv)
    if min(args.series, args.repeats, args.threads) < 1:
        parser.error("--series, --repeats and --threads must be at least 1")

    torch.set_num_threads(args.threads)
    report = Report(args.out / "export.csv", PACKAGES, args.threads)
    wide = wide_table(args.series, ROWS)
    for name, model in models(wide):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            report.add(name, Row("export()", milliseconds(partial(model.export, path)), "ms"))
            report.add(name, Row("size of the file", path.stat().st_size / 1024, "KiB"))
            for batch, row in measure(model, wide[-LOOKBACK:], path, args.repeats, args.threads):
                report.add(f"{name}, batch {batch}", row)
    print(f"rows appended to {report.path}")


def models(wide: pd.DataFrame) -> Iterator[tuple[str, TitansForecaster]]:
    """The closed form alone, and with a network."""
    how = dict(horizon=HORIZON, lookback=LOOKBACK, context="window", linear_path=True)
    yield "closed form", closed_form(**how).fit(wide)
    model = closed_form(**how).fit(wide)
    torch.nn.init.normal_(model.network_.head.project.weight, std=0.01)
    yield "network", model


def measure(
    model: TitansForecaster, wide: pd.DataFrame, path: Path, repeats: int, threads: int
) -> Iterator[tuple[int, Row]]:
    """Rows for windows of one series and of all, whose last `lookback` rows are those of `wide`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options)
    module = WindowForecast(model.fitted_).eval()
    for table in (wide.iloc[:, :1], wide):
        feeds = model.export_inputs(table)
        tensors = {name: torch.from_numpy(array) for name, array in feeds.items()}
        forecast = partial(session.run, ["forecast"], feeds)
        error = np.abs(forecast()[0] - model.predict(df=table).to_numpy().T).max() / model.scaler_.scale.min()
        row = Row("difference from predict, over the scale", float(error), "")
        yield table.shape[1], with_target(row, f"< {MOST_ERROR:g}", error < MOST_ERROR)
        names = "onnxruntime, p50", "the module in PyTorch, p50", "predict(df=...), p50"
        calls = forecast, partial(in_torch, module, tensors), partial(model.predict, df=table)
        times = medians([partial(milliseconds, call) for call in calls], repeats)
        for name, took in zip(names, times, strict=True):
            yield table.shape[1], Row(name, took, "ms", took / times[0])


@torch.inference_mode()
def in_torch(module: WindowForecast, tensors: dict[str, torch.Tensor]) -> None:
    module(**tensors)


if __name__ == "__main__":
    main()
