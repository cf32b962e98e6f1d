"""Where a network computes, and random numbers that do not leak out."""

from __future__ import annotations

import pytest
import torch

from titans_ts.devices import find_device, local_gpu, seeded, under_torchrun

CPU = torch.device("cpu")


def torchrun(patch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        patch.setenv(name, value)


@pytest.mark.parametrize("gpus", [True, False])
def test_none_is_a_gpu_if_there_is_one(gpus: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus)
    assert find_device(None).type == ("cuda" if gpus else "cpu")
    assert find_device("cpu") == CPU
    assert find_device("meta") == torch.device("meta")


@pytest.mark.parametrize("name", ["abacus", "cpu:x", ("cpu",), "cuda:77"])
def test_what_is_no_device_of_this_machine_is_named(name: str) -> None:
    with pytest.raises(ValueError, match="`device` must be a device of this machine such as 'cpu', got") as caught:
        find_device(name)
    assert repr(name) in str(caught.value)


def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device(None) == torch.device("cuda")
    torchrun(monkeypatch, RANK="5", LOCAL_RANK="1", WORLD_SIZE="8")
    assert find_device(None) == local_gpu() == torch.device("cuda", 1)
    assert find_device("cpu") == CPU
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(ValueError, match=r"this one is number 2 of a machine with 2\. Start fewer "):
        find_device(None)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}, True),
        ({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}, False),
        ({"RANK": "0", "WORLD_SIZE": "2"}, False),
        ({}, False),
    ],
)
def test_torchrun_is_told_by_its_variables_where_it_started_several(
    variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torchrun(monkeypatch, **variables)
    assert under_torchrun() == expected


def test_random_numbers_within_are_fixed_and_those_outside_go_on() -> None:
    torch.manual_seed(1)
    expected = torch.rand(4)
    torch.manual_seed(1)
    first = torch.rand(2)
    with seeded(7, CPU):
        within = torch.rand(3)
    with seeded(7, CPU):
        assert torch.equal(torch.rand(3), within)
    with seeded(8, CPU):
        assert not torch.equal(torch.rand(3), within)
    assert torch.equal(torch.cat([first, torch.rand(2)]), expected)


def test_an_error_within_leaves_random_numbers_as_they_were() -> None:
    def broken() -> None:
        with seeded(7, CPU):
            torch.rand(3)
            raise ZeroDivisionError

    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError):
        broken()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_random_numbers_of_a_gpu_are_fixed_too() -> None:
    gpu, before = torch.device("cuda"), torch.cuda.get_rng_state()
    with seeded(7, gpu):
        within = torch.rand(3, device=gpu)
    with seeded(7, gpu):
        assert torch.equal(torch.rand(3, device=gpu), within)
    assert torch.equal(torch.cuda.get_rng_state(), before)
