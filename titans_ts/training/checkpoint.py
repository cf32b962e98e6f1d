"""A training on disk: all that it goes on from after a kill, in one file of JSON and tensors, never a pickle.

The file is written beside the one before and takes its place in one step, so that a kill at any moment leaves one of
the two whole. It says which training it is of; another one is refused.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

FILE = "fit.safetensors"
FORMAT = "titans_ts checkpoint 1"
SHORT = 60  # characters of a fact, up to which an error shows it


@dataclass
class TrainingState:
    """A training after one of its evaluations.

    Parameters
    ----------
    numbers : dict
        What JSON can hold.
    tensors : dict of str to Tensor
    """

    numbers: dict[str, Any]
    tensors: dict[str, Tensor]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `prefix`, without it."""
        return {name.removeprefix(prefix): x for name, x in self.tensors.items() if name.startswith(prefix)}


@dataclass
class Checkpoint:
    """The checkpoint of one fit, in a folder.

    Parameters
    ----------
    folder : Path
        Made where it does not exist; nothing in it but the checkpoint is touched.
    facts : dict of str to str
        What a training that goes on must have in common with the one that was killed.
    """

    folder: Path
    facts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(cls, folder: Any) -> Checkpoint:
        """The checkpoint in a folder.

        Raises
        ------
        TypeError, ValueError
            If `folder` is no path, or that of a file.
        """
        if not isinstance(folder, (str, os.PathLike)):
            raise TypeError(f"`checkpoint_dir` must be the path of a folder or None, got {folder!r}.")
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise ValueError(f"`checkpoint_dir` must be a folder, but '{path}' is a file. Choose another path.")
        return cls(path)

    @property
    def path(self) -> Path:
        return self.folder / FILE

    def read(self) -> TrainingState | None:
        """The training that was killed; None where there is none.

        Raises
        ------
        ValueError
            If the file is that of another fit, naming what differs, or cannot be read.
        """
        try:
            with safe_open(self.path, framework="pt") as file:
                header = json.loads((file.metadata() or {})[FORMAT])
                names = file.keys()
                tensors = {name: file.get_tensor(name) for name in names}
        except FileNotFoundError:
            return None
        except (SafetensorError, KeyError, ValueError) as error:
            raise ValueError(
                f"'{self.path}' must be a checkpoint of this version, but cannot be read as one ({error!r}). Remove "
                "it, or give another `checkpoint_dir`."
            ) from error
        kept = header["facts"]
        names = [name for name in {**kept, **self.facts} if kept.get(name) != self.facts.get(name)]
        if names:
            shown = ", ".join(_difference(name, kept.get(name), self.facts.get(name)) for name in names)
            raise ValueError(
                f"`checkpoint_dir` = '{self.folder}' has the checkpoint of another fit: {shown}. Give what that was "
                f"begun with to go on with it, remove {FILE} there to begin anew, or give another folder."
            )
        return TrainingState(header["numbers"], tensors)

    def write(self, state: TrainingState) -> None:
        """Replace the checkpoint in one step."""
        self.folder.mkdir(parents=True, exist_ok=True)
        header = json.dumps({"facts": self.facts, "numbers": state.numbers})
        tensors = {name: x.detach().cpu().contiguous() for name, x in state.tensors.items()}
        draft = self.path.with_suffix(".new")
        with open(draft, "wb") as file:
            file.write(safetensors.torch.save(tensors, {FORMAT: header}))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self.path)

    def remove(self) -> None:
        """Remove the checkpoint of a fit that is finished, or that cannot go on."""
        for path in (self.path, self.path.with_suffix(".new")):
            with suppress(FileNotFoundError):
                path.unlink()


def _difference(name: str, kept: str | None, now: str | None) -> str:
    if max(len(kept or ""), len(now or "")) > SHORT or name in ("data", "validation"):
        return f"{name}: not the same"
    return f"{name} was {kept}, and is {now} now"
