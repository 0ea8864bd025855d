// Modules must have a known target. No tool
// compiles or runs a module for an unknown target.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics
// RUN: not kiln-run %s 2>&1 | FileCheck %s
// CHECK: error: {{.*}} has 'kiln.target' = "gpu", but the value must be "cpu", "cuda" or "cuda-emu", and only a module may have this attribute{{$}}

// expected-error @below {{has 'kiln.target' = "gpu", but the value must be "cpu", "cuda" or "cuda-emu", and only a module may have this attribute}}
module attributes {kiln.target = "gpu"} {
}

// -----

// expected-error @below {{has 'kiln.target' = 1 : i64, but the value must be "cpu", "cuda" or "cuda-emu", and only a module may have this attribute}}
module attributes {kiln.target = 1} {
}

// -----

module {
  // expected-error @below {{has 'kiln.target' = "cuda", but the value must be "cpu", "cuda" or "cuda-emu", and only a module may have this attribute}}
  kiln.program @f() attributes {kind = #kiln.program_kind<train>, kiln.target = "cuda"} {
    kiln.return
  }
}
