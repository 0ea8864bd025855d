# ===- bundle.py - Contents of the bundle ------------------------------------=== #
#
# Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------=== #
"""Access to the folder that pack.py writes, and the environment of its programs."""

import glob
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import tarfile

from . import cases, process

# Library folders of drivers, CUDA toolkits and distributions.
LIBRARY_FOLDERS = (
    "/usr/local/nvidia/lib64",
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/targets/x86_64-linux/lib",
    "/usr/local/cuda-*/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
)


# The compressed part of an archive, and the folders that it contains.
PAYLOAD, PAYLOAD_FOLDERS = "payload.tar.xz", ("bin", "exe", "lib", "lib-fallback")


def unpack(folder):
    """Unpacks the compressed part of an archive unless this was done before."""
    payload = folder / PAYLOAD
    if (folder / "exe").exists() or not payload.exists():
        return
    partial = folder / "unpacking"
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(payload, "r:xz") as file:
        file.extractall(partial)
    for name in sorted(PAYLOAD_FOLDERS, key=lambda name: name == "exe"):
        (partial / name).rename(folder / name)
    partial.rmdir()


def folders_with(library):
    """Returns the folders with a file that matches `library`, including Python packages."""
    patterns = [f"{folder}/{library}" for folder in LIBRARY_FOLDERS]
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        patterns.append(f"{root}/*/lib/{library}")
    found = [path for pattern in patterns for path in sorted(glob.glob(pattern), reverse=True)]
    return list(dict.fromkeys(os.path.dirname(path) for path in found))


class Bundle:
    def __init__(self, folder, device="cuda"):
        """Opens a bundle. `device` is the target that represents the GPU: cuda or emu."""
        self.folder = pathlib.Path(folder)
        unpack(self.folder)
        manifest = json.loads((self.folder / "manifest.json").read_text())
        self.commit = manifest["commit"]
        self.built = manifest["built"]
        self.executables = manifest["executables"]
        self.cases = [self.read_case(each) for each in manifest["cases"]]
        self.device = device
        self.environment = self.make_environment()

    @staticmethod
    def read_case(fields):
        fields = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
        return cases.Case(**fields)

    def make_environment(self):
        folders = [str(self.folder / "lib")]
        folders += filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
        for library in ("libcublasLt.so.1[23]", "libcudnn.so.9", "libcuda.so.1"):
            folders += folders_with(library)
        environment = dict(os.environ, LD_LIBRARY_PATH=":".join(dict.fromkeys(folders)))
        # The bundle's libstdc++ is a fallback, since the machine's own may be
        # newer.
        if not self.starts(environment):
            environment["LD_LIBRARY_PATH"] += f":{self.folder / 'lib-fallback'}"
        return environment

    def starts(self, environment):
        tool = self.tool("kiln-tensor-errors")
        done = subprocess.run(
            [tool], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        return done.returncode == 2

    def tool(self, name):
        return self.folder / "bin" / name

    def model(self, case):
        return self.folder / "models" / case.model

    def config(self, case):
        return json.loads((self.model(case) / "config.json").read_text())

    def named(self, name):
        return next((case for case in self.cases if case.name == name), None)

    def using(self, part):
        return [case for case in self.cases if part in case.uses]

    def target_of(self, target):
        """Returns the target, with "device" replaced by the target of the bundle."""
        return self.device if target == "device" else target

    def executable(self, case, target):
        """Returns the path of a case's executable; raises NotRun if it was not compiled."""
        entry = self.executables.get(f"{case.name}-{self.target_of(target)}")
        if not entry:
            raise process.NotRun(f"the bundle has no {case.name} for {self.target_of(target)}")
        if "error" in entry:
            raise process.NotRun(f"kilnc: {entry['error']}")
        return self.folder / "exe" / entry["file"]

    def has(self, case, target):
        entry = self.executables.get(f"{case.name}-{self.target_of(target)}", {})
        return "file" in entry
