#!/usr/bin/env python3
# ===- pack.py - Builds the bundle of the GPU suite --------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Builds the bundle of the GPU suite (`ninja gpu-suite`, docs/design/gpu-suite.md).

The bundle has the compiled models of suite/cases.py and the scripts, tools and
libraries that a machine without kiln needs.

    pack.py --build=BUILD --out=DIR [--small] [--match=TEXT] [--jobs=N]
            [--archive=FILE.tar.gz] [--stand-in]

The manifest records an error of kilnc for a model, which the suite reports as a row.
--small packs only the models of the suite's own tests. --stand-in adds the libraries
with which executables for a GPU run on the fake driver (StandIn/EmulatedKernels.cpp).
"""

import argparse
import concurrent.futures
import dataclasses
import datetime
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

from suite import bundle, cases  # noqa: E402

MODELS = (ROOT / "test/Integration/models", HERE / "models")
TOOLS = ("KilnDeviceTests", "kiln-gpu-rates", "kiln-tensor-errors", "kiln-diff")
EXPECTATIONS = ("reference.py", "make_weights.py")
# Libraries that executables need in addition to the C library: those that are
# always used, and those that are used only if the machine has none.
LIBRARIES = ("libopenblas", "libgomp", "libgfortran", "libquadmath")
FALLBACKS = ("libstdc++", "libgcc_s")
LARGEST = 60 << 20


def model_folder(name):
    return next(path / name for path in MODELS if (path / name).exists())


def run(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    return done.returncode, (done.stderr or done.stdout).strip()


def strip(path):
    tool = shutil.which("llvm-strip-22") or shutil.which("llvm-strip") or shutil.which("strip")
    if tool:
        run([tool, path])


def commit():
    def git(*arguments):
        command = ["git", "-C", str(ROOT), *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    changed = git("status", "--porcelain", "--untracked-files=no")
    name = git("rev-parse", "--short=12", "HEAD") or "unknown"
    return name + (" with changes" if changed else "")


class Packer:
    def __init__(self, options):
        self.options = options
        self.out = options.out
        self.kilnc = options.build / "bin" / "kilnc"
        self.executables = {}

    def compile(self, case, target):
        """Compiles a case and returns (name, entry of the manifest)."""
        name = f"{case.name}-{target}"
        path = self.out / "exe" / name
        model = model_folder(case.model)
        flags = case.compiler_flags(target)
        code, message = run([self.kilnc, model, *flags, "-o", path])
        if code != 0:
            lines = [line for line in message.splitlines() if "kilnc:" in line]
            return name, {"flags": flags, "error": (lines or [f"exit code {code}"])[0]}
        strip(path)
        if self.options.stand_in and target == "cuda":
            self.compile_kernels(case, path)
        return name, {"flags": flags, "file": name}

    def compile_kernels(self, case, path):
        """Compiles the emulated kernels that the fake driver loads."""
        model = model_folder(case.model)
        whole = path.with_name(path.name + ".o")
        flags = [*case.compiler_flags("emu"), "--emit=obj"]
        code, message = run([self.kilnc, model, *flags, "-o", whole])
        driver = self.options.build / "lib" / "stand-in-gpu"
        if code == 0:
            link = ["clang-22", "-shared", whole, f"-L{driver}", "-l:libcuda.so.1"]
            code, message = run([*link, "-o", path.with_name(path.name + ".kernels.so")])
        whole.unlink(missing_ok=True)
        if code != 0:
            raise SystemExit(f"pack.py: {path.name}: {message}")

    def compile_all(self, chosen):
        (self.out / "exe").mkdir()
        wanted = [(case, target) for case in chosen for target in case.targets]
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            done = [pool.submit(self.compile, *each) for each in wanted]
            for number, future in enumerate(concurrent.futures.as_completed(done), 1):
                name, entry = future.result()
                self.executables[name] = entry
                if "error" in entry:
                    print(f"pack.py: {name}: {entry['error']}", flush=True)
                if number % 10 == 0 or number == len(wanted):
                    print(f"pack.py: {number} of {len(wanted)} executables", flush=True)

    def copy_tools(self):
        (self.out / "bin").mkdir()
        for name in TOOLS:
            shutil.copy2(self.options.build / "bin" / name, self.out / "bin" / name)
            strip(self.out / "bin" / name)

    def copy_scripts(self, chosen):
        shutil.copy2(HERE / "gpu_suite.py", self.out)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(HERE / "suite", self.out / "suite", ignore=ignored)
        (self.out / "expectations").mkdir()
        for name in EXPECTATIONS:
            shutil.copy2(ROOT / "test/Integration/expectations" / name, self.out / "expectations")
        for model in sorted({case.model for case in chosen}):
            folder = self.out / "models" / model
            folder.mkdir(parents=True)
            shutil.copy2(model_folder(model) / "config.json", folder)

    def copy_libraries(self):
        """Copies the libraries of KilnDeviceTests, which include those of executables."""
        done = subprocess.run(
            ["ldd", self.out / "bin/KilnDeviceTests"], capture_output=True, text=True, check=True
        )
        for folder, names in {"lib": LIBRARIES, "lib-fallback": FALLBACKS}.items():
            (self.out / folder).mkdir()
            for name, path in re.findall(r"(\S+) => (/\S+)", done.stdout):
                if name.startswith(names):
                    shutil.copy(path, self.out / folder / name)

    def write_manifest(self, chosen):
        manifest = {
            "commit": commit(),
            "built": datetime.date.today().isoformat(),
            "cases": [dataclasses.asdict(case) for case in chosen],
            "executables": dict(sorted(self.executables.items())),
        }
        (self.out / "manifest.json").write_text(json.dumps(manifest, indent=1))

    def archive(self):
        """Writes the archive. The executables share most of their bytes over distances
        that the window of xz covers and that of gzip does not, so they are compressed
        with xz. The suite unpacks them when it starts."""
        path = self.options.archive
        payload = self.out.with_name(self.out.name + ".payload")
        preset = 0 if self.options.small else 3
        filters = [{"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": 256 << 20}]
        with lzma.open(payload, "w", format=lzma.FORMAT_XZ, filters=filters) as stream:
            with tarfile.open(fileobj=stream, mode="w") as file:
                for name in bundle.PAYLOAD_FOLDERS:
                    file.add(self.out / name, arcname=name)
        with tarfile.open(path, "w:gz", compresslevel=1) as file:
            for entry in sorted(self.out.iterdir()):
                if entry.name not in bundle.PAYLOAD_FOLDERS:
                    file.add(entry, arcname=f"{self.out.name}/{entry.name}")
            file.add(payload, arcname=f"{self.out.name}/{bundle.PAYLOAD}")
        payload.unlink()
        size = path.stat().st_size
        print(f"pack.py: {path}, {size / 2**20:.1f} MiB", flush=True)
        if size > LARGEST:
            raise SystemExit(f"pack.py: {path} has {size} bytes, expected at most {LARGEST}")

    def pack(self):
        chosen = cases.cases_of("small" if self.options.small else "full")
        if self.options.match:
            chosen = [case for case in chosen if re.search(self.options.match, case.name)]
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        self.compile_all(chosen)
        self.copy_tools()
        self.copy_scripts(chosen)
        self.copy_libraries()
        self.write_manifest(chosen)
        if self.options.archive:
            self.archive()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="kiln's build folder")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="output folder (emptied)")
    parser.add_argument("--archive", type=pathlib.Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--match", help="pack only models whose name matches this regex")
    parser.add_argument("--stand-in", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    options.build, options.out = options.build.resolve(), options.out.resolve()
    Packer(options).pack()


if __name__ == "__main__":
    main()
