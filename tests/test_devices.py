"""Where a network computes, and that random numbers and modes do not leak in or out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from titans_ts.devices import (
    check_memory,
    enough_memory,
    find_device,
    isolated,
    local_gpu,
    seeded,
    seeded_gpu,
    under_torchrun,
)

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


# What torch holds for a thread or a process


def drawn() -> list[torch.Tensor]:
    """Numbers of every kind that a module begins with."""
    made = [
        torch.randn(3),
        torch.rand(2),
        torch.empty(2).uniform_(),
        torch.empty(2).normal_(),
        *nn.Linear(3, 2).parameters(),
    ]
    return [*made, nn.init.xavier_uniform_(torch.zeros(2, 2)), nn.init.normal_(torch.zeros(2))]


def test_a_module_begins_with_the_numbers_of_the_seed_and_the_process_has_its_own() -> None:
    torch.manual_seed(7)
    expected = drawn()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    with seeded(7):
        within = drawn()
    with seeded(8):
        other = drawn()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(within, expected, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(within, other, strict=True))


def test_a_generator_or_a_dtype_that_is_given_counts() -> None:
    with seeded(7):
        first = torch.rand(3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    assert torch.equal(first, torch.rand(3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)))


def test_a_module_begins_in_float32_whatever_the_default() -> None:
    with seeded(7):
        expected = drawn()
    torch.set_default_dtype(torch.float64)
    try:
        with seeded(7):
            found = [*drawn(), torch.arange(2.0), torch.ones(1), torch.full((1,), 0.5), torch.tensor([True])]
        assert torch.rand(1).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert [x.dtype for x in found] == [torch.float32] * (len(found) - 1) + [torch.bool]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=False))


def test_an_error_ends_the_block() -> None:
    def broken() -> None:
        with seeded(7):
            raise ZeroDivisionError

    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    with pytest.raises(ZeroDivisionError):
        broken()
    assert torch.equal(torch.rand(2), expected)


def modes() -> tuple[object, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_device(),
        torch.is_autocast_enabled("cpu"),
    )


def test_within_are_the_modes_that_torch_begins_with() -> None:
    first = modes()
    with torch.inference_mode(), torch.no_grad(), torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
        callers = modes()
        with isolated():
            assert modes() == first
            assert torch.zeros(1).device == CPU
        assert modes() == callers
    assert callers == (False, True, torch.device("meta"), True)
    assert modes() == first


def test_an_error_within_brings_the_callers_modes_back() -> None:
    def broken() -> None:
        with isolated():
            raise ZeroDivisionError

    with torch.no_grad(), torch.device("meta"):
        callers = modes()
        with pytest.raises(ZeroDivisionError):
            broken()
        assert modes() == callers


def test_on_a_cpu_there_is_no_generator_of_a_gpu_to_fix() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    with seeded_gpu(7, CPU):
        assert torch.equal(torch.rand(2), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_random_numbers_of_a_gpu_are_fixed_and_those_outside_go_on() -> None:
    gpu = torch.device("cuda")
    before, on_cpu = torch.cuda.get_rng_state(), torch.get_rng_state()
    with seeded_gpu(7, gpu):
        within = torch.rand(3, device=gpu)
    with seeded_gpu(7, gpu):
        assert torch.equal(torch.rand(3, device=gpu), within)
    with seeded_gpu(8, gpu):
        assert not torch.equal(torch.rand(3, device=gpu), within)
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert torch.equal(torch.get_rng_state(), on_cpu)


def test_a_refused_allocation_names_the_sizes_that_asked_for_it():
    with pytest.raises(MemoryError, match=r"^`a` = 3, `b` = 8 need more memory than there"), enough_memory(a=3, b=8):
        torch.empty(2**50)
    with pytest.raises(MemoryError, match=r"^`horizon` = 4 need"), enough_memory(horizon=4):
        np.empty(2**55)
    with pytest.raises(RuntimeError, match="other"), enough_memory(horizon=4):
        raise RuntimeError("other")


def test_what_takes_more_memory_than_the_machine_has_is_refused(monkeypatch):
    monkeypatch.setattr("os.sysconf", {"SC_PHYS_PAGES": 2**20, "SC_PAGE_SIZE": 2**12}.__getitem__)
    check_memory(2**32, h=9)
    with pytest.raises(MemoryError, match=r"`h` = 9, `n_series` = 2 need 8 GiB, and there are 4; lower one of them"):
        check_memory(2**33, h=9, n_series=2)
    monkeypatch.delattr("os.sysconf")
    check_memory(2**80, h=9)
