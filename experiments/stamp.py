"""What a measured row says of where it was measured."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import torch


def device_name(device: torch.device | str = "cpu") -> str:
    """The model of the GPU or of the processor."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    models = re.findall(r"^model name\s*: (.+)", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.exists() else []
    return models[0] if models else platform.processor() or platform.machine()


def commit() -> str:
    """The commit of this checkout, marked where files but the results differ from it; 'unknown' outside one."""
    where = Path(__file__).parent
    try:
        call = ["git", "describe", "--always", "--exclude=*"]
        name = subprocess.run(call, cwd=where, capture_output=True, text=True, check=True).stdout.strip()
        call = ["git", "diff", "--quiet", "HEAD", "--", ":/", ":(exclude)results"]
        differs = subprocess.run(call, cwd=where).returncode != 0
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name}-dirty" if differs else name
