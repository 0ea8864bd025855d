// Errors of kiln-run, one line each, and its exit codes.

// RUN: not kiln-run 2>&1 | FileCheck %s --check-prefix=NOFILE
// NOFILE: error: FILE.mlir is missing: name the module to run (see --help)
// RUN: not kiln-run %t.none 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: cannot open input file '{{.*}}.none': No such file or directory
// RUN: not kiln-run %s --entry=g 2>&1 | FileCheck %s --check-prefix=ENTRY
// ENTRY: error: the module has no program 'g'; it has: f
// RUN: not kiln-run %s 2>&1 | FileCheck %s --check-prefix=TRAIN
// TRAIN: error: the module has no program 'train'; it has: f
// RUN: not kiln-run %s --entry=f 2>&1 | FileCheck %s --check-prefix=INPUTS
// INPUTS: error: program 'f' has inputs: give their values with --inputs=FILE.safetensors
// RUN: not kiln-run %s --entry=f --steps=1 2>&1 | FileCheck %s --check-prefix=FLAG
// FLAG: error: --steps is a flag of training: to train, add --data=FILE and --steps=N; to run one program once, omit this flag
// RUN: not kiln-run %s --entry=f --eval-type=f16 2>&1 | FileCheck %s --check-prefix=EVAL
// EVAL: error: --eval-type is 'f16', expected f32 or f64
// RUN: not kiln-run %s --entry=f --seed=x 2>&1 | FileCheck %s --check-prefix=SEED
// SEED: error: --seed is 'x', expected a number

// RUN: %python %S/Inputs/write_safetensors.py %t.missing y:F32:2:1,2
// RUN: not kiln-run %s --entry=f --inputs=%t.missing 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error: {{.*}}.missing: has no tensor 'x' of shape [2], which program 'f' needs as an input
// RUN: %python %S/Inputs/write_safetensors.py %t.shape x:F32:3:1,2,3 t:I32:1:0
// RUN: not kiln-run %s --entry=f --inputs=%t.shape 2>&1 | FileCheck %s --check-prefix=SHAPE
// SHAPE: error: {{.*}}.shape: tensor 'x' has shape [3], expected [2]
// RUN: %python %S/Inputs/write_safetensors.py %t.real x:F32:2:1,2 t:F32:1:0
// RUN: not kiln-run %s --entry=f --inputs=%t.real 2>&1 | FileCheck %s --check-prefix=REAL
// REAL: error: {{.*}}.real: tensor 't' has type F32, expected I32 or I64
// RUN: %python %S/Inputs/write_safetensors.py %t.large x:F32:2:1,2 t:I64:1:4294967296
// RUN: not kiln-run %s --entry=f --inputs=%t.large 2>&1 | FileCheck %s --check-prefix=LARGE
// LARGE: error: {{.*}}.large: tensor 't' holds 4294967296, which does not fit in a 32-bit integer
// RUN: %python %S/Inputs/write_safetensors.py %t.token x:F32:2:1,2 t:I32:1:4
// RUN: not kiln-run %s --entry=f --inputs=%t.token 2>&1 | FileCheck %s --check-prefix=TOKEN
// TOKEN: error: {{.*}}errors.mlir{{.*}}'kiln.embedding' op token 0 is 4, expected a row index of the table, below 4

// RUN: %python %S/Inputs/write_safetensors.py %t.good x:F32:2:1,2 t:I32:1:3
// RUN: kiln-run %s --entry=f --inputs=%t.good --dump=%t.weights
// RUN: not kiln-run %s --entry=f --inputs=%t.good --init=%t.good 2>&1 | FileCheck %s --check-prefix=STATE
// STATE: error: {{.*}}.good: has no tensor 'w' for state 'w'
// RUN: kiln-run %s --entry=f --inputs=%t.good --init=%t.weights
// RUN: not kiln-run %s --entry=f --inputs=%t.good --dump=%t.none/dump 2>&1 | FileCheck %s --check-prefix=DUMP
// DUMP: error: {{.*}}.none{{.*}}No such file or directory

// RUN: not kiln-run %s --data=%s --steps=1 2>&1 | FileCheck %s --check-prefix=VOCABULARY
// VOCABULARY: error: training needs the vocabulary size: give the module the attribute kiln.model = {vocab_size = N}

// RUN: %python -c "import subprocess, sys; sys.exit(subprocess.run(['kiln-run', '%s', '--entry=g']).returncode != 2)"
// RUN: %python -c "import subprocess, sys; sys.exit(subprocess.run(['kiln-run', '%s', '--entry=f', '--inputs=%t.shape']).returncode != 3)"

kiln.state @w : tensor<4x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.program @f(%x: tensor<2xf32> {kiln.name = "x"}, %t: tensor<1xi32> {kiln.name = "t"})
    -> (tensor<2xf32> {kiln.name = "y"}, tensor<1x3xf32> {kiln.name = "e"})
    attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<4x3xf32>
  %e = kiln.embedding %t, %w : (tensor<1xi32>, tensor<4x3xf32>) -> tensor<1x3xf32>
  %y = kiln.neg %x : tensor<2xf32>
  kiln.return %y, %e : tensor<2xf32>, tensor<1x3xf32>
}
