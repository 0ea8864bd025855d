# ===- stand_in.py - Executables for a GPU without one  -----------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Functions of tests that run executables for --target=cuda on the stand-ins of CUDA's libraries
(test/Gpu/StandIn/EmulatedKernels.cpp)."""

import os

import harness
import ranks


def compile_mesh(kilnc, model, work, mesh, batch, stand_in, *flags):
    """Compiles a model for a mesh with a global batch, and the emulated kernels that the stand-ins
    run in place of the GPU's. Returns the number of ranks, and the executable."""
    count, executable = ranks.compile_mesh(kilnc, model, work, mesh, batch, "--target=cuda", *flags)
    kernels = work / "kernels"
    kernels.mkdir()
    _, code = ranks.compile_mesh(
        kilnc, model, kernels, mesh, batch, "--target=cuda-emu", "--emit=obj", *flags
    )
    library = executable.with_name(executable.name + ".kernels.so")
    harness.run(["clang-22", "-shared", code, f"-L{stand_in}", "-l:libcuda.so.1", "-o", library])
    return count, executable


def environment(stand_in, gpus, **more):
    """Returns the environment of a machine with stand-ins of `gpus` GPUs."""
    return {
        **ranks.environment(),
        "LD_LIBRARY_PATH": str(stand_in),
        "KILN_STAND_IN_GPUS": str(gpus),
        "XDG_CACHE_HOME": os.devnull,
        **more,
    }
