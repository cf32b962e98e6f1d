"""Check the Triton kernels on a GPU, then time them: `python experiments/gpu_check.py`.

    compile   every configuration used below, in parallel processes that share Triton's cache
    exact     outputs, final state and all gradients against float64, with every launch setting
    repeat    20 runs are equal to the bit
    speed     tokens a second, the share of the arithmetic's floor, other packages side by side
    memory    peak memory of forward and backward, beside titans-pytorch's
    grid      65,600 batch x heads equal two halves
    use       torch.compile, autocast, inference mode, CUDA graphs, strides, poisoned surroundings
    lengths   ten lengths are one compilation
    far       offsets past 2^31 elements
    scaling   tokens a second from 4k to 256k steps
    origins   tokens a second of the long-term memory's shapes, to 50k steps
    epoch     one epoch of ETTm1 by backend, with and without the CUDA graph
    throughput  tokens a second of training, 2k to 32k steps: the Titans family, attention, mamba

Every row is in the CSV as soon as it is measured. A section that runs out of its seconds leaves its other rows out and
says so; what raises becomes a row, and the next case goes on, in a fresh process where the GPU no longer responds. The
exit status is 1 where a check failed; a missed target of speed or memory is only said. Other packages are compared
where they can be imported. Without a GPU: `TRITON_INTERPRET=1 python experiments/gpu_check.py --smoke`.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import time
from pathlib import Path

import torch

import record
from arguments import check_names
from gpu import compilation, exact, speed, throughput, use
from gpu.common import Setup
from gpu.compilation import compile_share
from gpu.peers import shorten_autotuning
from gpu.run import Broken, Report, Sections, run

PACKAGES = ("torch", "triton", "numpy", "fla-core", "titans-pytorch")
BESIDE = Path(__file__).resolve().parents[2] / "shared"
OVERTIME = 45  # seconds past the whole's end after which a hanging kernel ends the run
SECTIONS: Sections = dict(
    compile=(compilation.compiled, compilation.SECONDS),
    exact=(exact.exactness, 60),
    repeat=(exact.repeatability, 10),
    speed=(speed.speed, 90),
    memory=(speed.memory, 20),
    scaling=(speed.scaling, 20),
    origins=(speed.origins, 20),
    epoch=(speed.epoch, 30),
    grid=(exact.grid, 10),
    far=(exact.far, 15),
    use=(use.use, 30),
    lengths=(exact.lengths, 20),
    throughput=(throughput.throughput, 40),
)


def main(argv: list[str] | None = None) -> int:
    args = _arguments(argv)
    device = torch.device("cpu" if args.smoke and not torch.cuda.is_available() else "cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        print("There is no GPU here; --smoke runs tiny sizes on the CPU.", file=sys.stderr)
        return 2
    setup = Setup(device=device, backend=args.backend, smoke=args.smoke, data=args.data, oracle=args.oracle)
    if args.share:
        share, of = (int(part) for part in args.share.split("/"))
        compile_share(setup, (share, of), args.claims)
        return 0
    if device.type == "cuda":
        shorten_autotuning()
    stamp = record.stamp(PACKAGES, device)
    if args.commit:
        stamp["commit"] = args.commit
    out = args.out / "gpu.csv" if args.out.is_dir() or not args.out.suffix else args.out
    report = Report(out, stamp)
    print(f"{stamp['device']}\n{stamp['versions']}\n", flush=True)
    end = args.end or time.time() + 60 * args.minutes
    if device.type == "cuda":
        faulthandler.dump_traceback_later(max(1.0, end - time.time()) + OVERTIME, exit=True)
    after = None
    if args.after:
        section, number = args.after.split(":")
        after = section, int(number)
    try:
        run(setup, {name: SECTIONS[name] for name in args.only}, report, end, after)
    except Broken as where:
        print(f"The GPU no longer responds after {where}; a fresh process goes on.", flush=True)
        report.summary()
        given = [part for part in (sys.argv[1:] if argv is None else argv) if not part.startswith(("--after", "--end"))]
        on = [f"--after={where}", f"--end={end}", *(["--failed"] if report.failed or args.failed else [])]
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, __file__, *given, *on])
    finally:
        faulthandler.cancel_dump_traceback_later()
    report.summary()
    print(f"rows appended to {out}")
    return int(report.failed or args.failed)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "--only", type=lambda given: given.split(","), default=list(SECTIONS), help="sections, by comma"
    )
    parser.add_argument("--minutes", type=float, default=7.5, help="of the whole (default 7.5)")
    parser.add_argument("--backend", default="triton", help="of memory_scan (default triton)")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, on the CPU where there is no GPU")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "gpu.csv", help="the CSV, or its folder")
    named = os.environ.get("TITANS_TS_DATA")
    data = Path(named) if named else BESIDE / "data"
    parser.add_argument("--data", type=Path, default=data, help="folder of ETTm1.csv (else TITANS_TS_DATA)")
    parser.add_argument("--oracle", type=Path, help="folder of exact vectors (else beside that of the data)")
    parser.add_argument("--commit", help="what the rows say, where git cannot")
    for hidden in ("--share", "--after"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--claims", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--end", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--failed", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    check_names(parser, "--only", args.only, SECTIONS)
    if args.oracle is None:
        beside = args.data.parent / "oracle"
        args.oracle = beside if beside.is_dir() else None
    return args


if __name__ == "__main__":
    sys.exit(main())
