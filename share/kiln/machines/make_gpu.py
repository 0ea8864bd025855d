#!/usr/bin/env python3
# ===- make_gpu.py - Machine files of GPUs, from their data sheets -----------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""make_gpu.py: writes the files of GPUs beside itself.

Per GPU: peaks from its data sheet, and the share of each that libraries reach on
large problems. Rates of smaller products follow from a model of a tiled kernel:
  - the result is cut into tiles, which the multiprocessors take in waves; the
    last wave is not full. Few tiles are cut along k too.
  - a tile costs as much as the steps along k, and a ramp of RAMP steps
  - operands and result are moved through memory once
  - a launch
Measured files (kilnc --measure-machine) replace all of this.
"""

import itertools
import json
import math
import pathlib

AXIS = [16, 64, 256, 1024, 4096]
BYTES = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2}
RAMP = 128  # elements along k
GIB, MIB = 1 << 30, 1 << 20

# peak: TFLOP/s of the data sheet (fp32 without tensor cores), share: of it that
# large products reach. memory: data sheet GB/s and share. l2: bytes and GB/s.
V100 = {
    "processors": 80,
    "peak": {"fp64": (7.8, 0.90), "fp32": (15.7, 0.90), "fp16": (125, 0.76)},
    "vector": 15.7,
    "l2": (6 * MIB, 2100),
    "tile": 128 * 128,
    "launch": 4e-6,
    "attention": ([512, 1024, 2048, 4096], [0.30, 0.36, 0.40, 0.42], [0.24, 0.28, 0.30, 0.32]),
    "link": (12.3, 12.3),
    # DGX-1: 2 sockets with 4 channels of DDR4-2133 and 20 cores with AVX2.
    "host": ("DGX-1", 136.5, 40, 2.2e9 * 16),
}
A100 = {
    "processors": 108,
    "peak": {"fp64": (19.5, 0.90), "fp32": (19.5, 0.93), "bf16": (312, 0.82), "fp16": (312, 0.82)},
    "vector": 19.5,
    "l2": (40 * MIB, 4500),
    "tile": 128 * 128,
    "launch": 2.5e-6,
    "attention": ([512, 1024, 2048, 4096, 16384], [0.58, 0.66, 0.70, 0.72, 0.74], [0.44, 0.52, 0.58, 0.62, 0.65]),
    "link": (25, 25),
    # DGX A100: 2 sockets with 8 channels of DDR4-3200 and 64 cores with AVX2.
    "host": ("DGX A100", 409.6, 128, 2.25e9 * 32),
}
H100 = {
    "processors": 132,
    "peak": {"fp64": (67, 0.85), "fp32": (67, 0.77), "bf16": (989, 0.80), "fp16": (989, 0.80)},
    "vector": 67,
    "l2": (50 * MIB, 5700),
    "tile": 128 * 256,
    "launch": 2e-6,
    # cuDNN 9 and FlashAttention-3, 64 wide, over 790: 335 / 390 / 460 forward,
    # 266 / 360 / 420 backward.
    "attention": ([512, 1024, 2048, 4096, 16384], [0.42, 0.49, 0.58, 0.60, 0.63], [0.34, 0.46, 0.53, 0.56, 0.58]),
    "link": (52, 52),
    # DGX H100 and H200: 2 sockets with 8 channels of DDR5-4800 and 56 cores with AVX-512.
    "host": ("DGX H100", 614.4, 112, 2e9 * 64),
}
# A server has 8 GPUs. Of the host's memory bandwidth, kernels reach HOST_SHARE;
# of the peak of its vector units, generated code reaches HOST_VECTOR_SHARE.
GPUS, HOST_SHARE, HOST_VECTOR_SHARE = 8, 0.8, 0.25
ATTENTION_NOTE = {
    "v100": "attention as public kernels without hardware-specific tuning reach",
    "a100": "attention as FlashAttention-2 reaches with heads of 64",
    "h100": "attention as cuDNN 9 and FlashAttention-3 reach with heads of 64",
    "h200": "attention as cuDNN 9 and FlashAttention-3 reach with heads of 64",
}
# name: (GPU, product, device bytes as the driver reports them, data sheet GB/s,
# share of it that kernels reach, host memory of such a server per GPU, link)
MACHINES = {
    "v100-16": (V100, "V100 SXM2 16 GB", 16160 * MIB, 900, 0.90, 64 * GIB, "PCIe 3.0 x16"),
    "v100-32": (V100, "V100 SXM2 32 GB", 32510 * MIB, 900, 0.90, 96 * GIB, "PCIe 3.0 x16"),
    "a100-40": (A100, "A100 SXM4 40 GB", 40536 * MIB, 1555, 0.89, 128 * GIB, "PCIe 4.0 x16"),
    "a100-80": (A100, "A100 SXM4 80 GB", 81251 * MIB, 2039, 0.88, 256 * GIB, "PCIe 4.0 x16"),
    "h100": (H100, "H100 SXM5 80 GB", 81559 * MIB, 3350, 0.89, 256 * GIB, "PCIe 5.0 x16"),
    "h200": (H100, "H200 SXM 141 GB", 143771 * MIB, 4800, 0.896, 256 * GIB, "PCIe 5.0 x16"),
}


def product_seconds(gpu, kind, bandwidth, m, n, k):
    peak, share = gpu["peak"][kind]
    # Of the tiles that libraries have, the one that is best here.
    best = math.inf
    for tile_m, tile_n in ((256, 128), (128, 128), (64, 128), (128, 64), (64, 64), (32, 32)):
        tiles = math.ceil(m / tile_m) * math.ceil(n / tile_n)
        # A smaller tile reads its operands more often.
        quality = min(1.0, (tile_m * tile_n / gpu["tile"]) ** 0.25)
        for split in (1, 2, 4, 8, 16):
            if split > 1 and k < 256 * split:
                break
            waves = tiles * split / gpu["processors"]
            # Smooth between full waves: kernels of several waves overlap.
            waves = max(1.0, 0.5 * (waves + math.ceil(waves)))
            depth = k / split + RAMP + (64 if split > 1 else 0)
            rate = peak * 1e12 * share * quality / gpu["processors"]
            best = min(best, waves * 2 * tile_m * tile_n * depth / rate)
    traffic = BYTES[kind] * (m * k + k * n + m * n) / bandwidth
    return gpu["launch"] + max(best, traffic)


def rounded(value):
    return float(f"{value:.3g}")


def gemm_curve(gpu, kind, bandwidth):
    size = len(AXIS)
    rates = [[[0.0] * size for _ in AXIS] for _ in AXIS]
    seconds = {}
    for a, b, c in itertools.product(range(size), repeat=3):
        m, n, k = AXIS[a], AXIS[b], AXIS[c]
        least = max(
            (seconds[p] for p in ((a - 1, b, c), (a, b - 1, c), (a, b, c - 1)) if min(p) >= 0),
            default=0,
        )
        flops = 2 * m * n * k
        rate = rounded(flops / max(least, product_seconds(gpu, kind, bandwidth, m, n, k)))
        if flops / rate < least:  # rounded up
            rate = float(f"{rate * 0.995:.3g}")
        seconds[a, b, c] = max(least, flops / rate)
        rates[a][b][c] = rate
    return {"m": AXIS, "n": AXIS, "k": AXIS, "flop_per_s": rates}


def rows(value, indent):
    """JSON with lists of numbers on one line each."""
    pad = " " * indent
    if isinstance(value, dict):
        inner = ",\n".join(f"{pad}  {json.dumps(k)}: {rows(v, indent + 2)}" for k, v in value.items())
        return "{\n" + inner + "\n" + pad + "}"
    if isinstance(value, list) and value and isinstance(value[0], list):
        inner = ",\n".join(f"{pad}  {rows(v, indent + 2)}" for v in value)
        return "[\n" + inner + "\n" + pad + "]"
    if isinstance(value, list):
        return "[" + ", ".join(rows(v, 0) for v in value) + "]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value)


def main():
    folder = pathlib.Path(__file__).resolve().parent
    for name, (gpu, product, device, memory, share, host, bus) in MACHINES.items():
        bandwidth = memory * 1e9 * share
        cache_bytes, cache_rate = gpu["l2"]
        to_host, to_device = gpu["link"]
        server, host_bandwidth, cores, core_rate = gpu["host"]
        peaks = ", ".join(
            f"{kind} {peak:g} TFLOP/s ({100 * part:.0f} % of it in large products)"
            for kind, (peak, part) in gpu["peak"].items()
        )
        source = (
            f"NVIDIA {product} data sheet: {peaks}; memory {memory} GB/s ({100 * share:.0f} % "
            f"reached); {bus} at {to_host:g} GB/s a direction; the host is an eighth "
            f"of a {server}'s {host_bandwidth:g} GB/s ({100 * HOST_SHARE:.0f} % reached) and {cores} "
            f"cores. Rates of smaller products from "
            f"make_gpu.py's model of a tiled kernel; {ATTENTION_NOTE[name.split('-')[0]]}; "
            f"{gpu['launch'] * 1e6:g} us a kernel in a captured graph. Not measured."
        )
        file = {
            "format": "kiln-machine",
            "version": 1,
            "name": f"NVIDIA {product}",
            "kind": "gpu",
            "origin": {"how": "data-sheet", "source": source},
            "device_bytes": device,
            "host_bytes": host,
            "launch_s": gpu["launch"],
            "vector_flop_per_s": rounded(gpu["vector"] * 1e12 * 0.5),
            "gemm": {kind: gemm_curve(gpu, kind, bandwidth) for kind in gpu["peak"]},
            # Half of the cache holds what one kernel leaves to the next.
            "bandwidth": {
                "bytes": [cache_bytes // 2, cache_bytes * 2, cache_bytes * 8],
                "bytes_per_s": [cache_rate * 1e9, rounded(1.15 * bandwidth), rounded(bandwidth)],
            },
            "attention": dict(zip(("sequence", "forward", "backward"), gpu["attention"])),
            "link": {
                "to_host_bytes_per_s": to_host * 1e9,
                "to_device_bytes_per_s": to_device * 1e9,
                "latency_s": 1e-5,
                "duplex": True,
            },
            "host": {
                "bytes_per_s": rounded(HOST_SHARE * host_bandwidth * 1e9 / GPUS),
                "vector_flop_per_s": rounded(HOST_VECTOR_SHARE * cores * core_rate / GPUS),
            },
        }
        (folder / f"{name}.json").write_text(rows(file, 0) + "\n")


if __name__ == "__main__":
    main()
