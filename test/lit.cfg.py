# Tests of the compiler's tools: .mlir and .test files with RUN lines. The unit tests are
# separate programs that ctest runs.

import os
import shutil
import subprocess

import lit.formats

config.name = "kiln"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Unit", "Benchmark", "Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.kiln_obj_root

config.environment["PATH"] = os.path.pathsep.join(
    [config.kiln_bin_dir, config.llvm_tools_dir, os.environ.get("PATH", "")]
)
config.substitutions.append(("%python", config.python))
config.substitutions.append(("%cxx", config.cxx))
config.substitutions.append(("%kiln_src", config.kiln_source_root))
config.substitutions.append(("%kiln_bin", config.kiln_bin_dir))

# Features for dependencies that a build or a machine may lack.
for tool in ["kiln-opt", "kiln-run", "kilnc", "kiln-generate", "kiln-missing-events"]:
    if os.path.exists(os.path.join(config.kiln_bin_dir, tool)):
        config.available_features.add(tool)
if os.path.exists("/dev/nvidia0"):
    config.available_features.add("cuda")
if os.path.exists("/dev/nvidia1"):
    config.available_features.add("multi-gpu")

# NVIDIA's assembler, searched for where the compiler searches, too.
toolkits = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
folders = [os.environ.get("PATH", "")] + [os.path.join(home, "bin") for home in toolkits if home]
ptxas = shutil.which("ptxas", path=os.path.pathsep.join(folders))
if ptxas:
    config.available_features.add("ptxas")
    config.substitutions.append(("%ptxas", ptxas))
# A Python with the transformers and peft libraries, which only tests that compare with them need.
transformers_python = os.environ.get("KILN_TRANSFORMERS_PYTHON", config.python)
probe = "import importlib.util as u; exit(not (u.find_spec('torch') and u.find_spec('transformers')))"
if subprocess.run([transformers_python, "-c", probe], capture_output=True).returncode == 0:
    config.available_features.add("transformers")
    probe = "import importlib.util as u; exit(not u.find_spec('peft'))"
    if subprocess.run([transformers_python, "-c", probe], capture_output=True).returncode == 0:
        config.available_features.add("peft")
config.substitutions.append(("%transformers_python", transformers_python))

# Most tests compile variants of a few small models, which have most kernels in common.
config.environment["KILN_KERNEL_CACHE"] = os.path.join(config.kiln_obj_root, "kernel-cache")

# Set by tools/check.sh --long.
if "KILN_LONG" in os.environ:
    config.environment["KILN_LONG"] = os.environ["KILN_LONG"]
