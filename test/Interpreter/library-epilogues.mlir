// A matmul with bias, rounded once by the GPU's vendor library, at every level.

// RUN: kiln-run %s --entry=f | FileCheck %s --check-prefix=TWICE
// RUN: kiln-opt %s --kiln-set-numerics -o %t.planned.mlir
// RUN: FileCheck %s --check-prefix=PLANNED < %t.planned.mlir
// RUN: FileCheck %s --check-prefix=FUSED < %t.planned.mlir
// RUN: kiln-run %t.planned.mlir --entry=f > %t.once
// RUN: FileCheck %s --check-prefix=ONCE < %t.once
// RUN: kiln-opt %t.planned.mlir --kiln-form-dispatches -o %t.dispatched.mlir
// RUN: kiln-run %t.dispatched.mlir --entry=f | diff %t.once -
// RUN: kiln-opt %t.dispatched.mlir --kiln-schedule -o %t.scheduled.mlir
// RUN: FileCheck %s --check-prefix=SCHEDULED < %t.scheduled.mlir
// RUN: FileCheck %s --check-prefix=GEMMS < %t.scheduled.mlir
// RUN: kiln-run %t.scheduled.mlir --entry=f | diff %t.once -

// Gelu, its gradient and a bias gradient: in f32, the omitted rounding step does
// not change a printed digit.
// RUN: kiln-run %s --entry=g > %t.apart
// RUN: FileCheck %s --check-prefix=GELU < %t.apart
// RUN: kiln-run %t.planned.mlir --entry=g > %t.fused
// RUN: FileCheck %s --check-prefix=GELU < %t.fused
// RUN: kiln-run %t.dispatched.mlir --entry=g | diff %t.fused -
// RUN: kiln-run %t.scheduled.mlir --entry=g | diff %t.fused -
// GELU: y [4, 8] = 0.97822481
// GELU-NEXT: du [4, 8] = 2.1672995
// GELU-NEXT: dw [8, 8] = 4.3345990
// GELU-NEXT: db [8] = 8.6691980
// FUSED-LABEL: kiln.program @g
// FUSED: [[Y:%.+]], [[U:%.+]] = kiln.linear_gelu
// FUSED: [[DU:%.+]] = kiln.matmul_gelu_grad [[Y]], {{%.+}}, [[U]] trans_b
// FUSED: kiln.matmul_bias_grad {{%.+}}, [[DU]] trans_a
// GEMMS-LABEL: kilnrt.program @g
// GEMMS: kilnrt.gemm on @compute ({{.*}}) grid [1, 1] library "gelu_aux_bias" bias({{.*}}) aux({{.*}})
// GEMMS: kilnrt.gemm on @compute ({{.*}}) grid [1, 1] library "dgelu" aux({{.*}})
// GEMMS: kilnrt.gemm on @compute ({{.*}}) grid [1, 1] library "bgrad_b" bias({{.*}})

// The vendor library of a CPU has no epilogues.
// RUN: sed 's/, kiln.target = "cuda-emu"//' %t.dispatched.mlir > %t.cpu.mlir
// RUN: not kiln-opt %t.cpu.mlir --kiln-schedule 2>&1 | FileCheck %s --check-prefix=CPU
// CPU: 'kiln.linear' op has an epilogue of the vendor library, which the module's target, cpu, does not support

// 16 * 16 + 1 * 1 = 257 rounds to 256 in bf16, and so does 256 + 1. Adding the
// bias before rounding gives 258.
// TWICE: y [3, 5] = 256, 256
// TWICE-NEXT: wide [3, 5] = 258, 258
// ONCE: y [3, 5] = 258, 258
// ONCE-NEXT: wide [3, 5] = 258, 258

// PLANNED-NOT: kiln.matmul
// PLANNED: kiln.linear %{{.*}}, %{{.*}}, %{{.*}} trans_a {grid = array<i64: 1, 1>} : (tensor<2x3xbf16>, tensor<2x5xbf16>, tensor<5xbf16>) -> tensor<3x5xbf16>
// PLANNED: kiln.linear %{{.*}}, %{{.*}}, %{{.*}} trans_a {grid = array<i64: 1, 1>} : (tensor<2x3xbf16>, tensor<2x5xbf16>, tensor<5xf32>) -> tensor<3x5xf32>
// SCHEDULED: [[NARROW:%.+]] = kilnrt.view {{%.+}}[0] : memref<5xbf16>
// SCHEDULED: kilnrt.gemm on @compute ({{.*}}) grid [1, 1] library "bias" bias([[NARROW]]) scratch({{.*}})
// SCHEDULED: kilnrt.gemm on @compute ({{.*}}) grid [1, 1] library "bias" bias({{.*}}) scratch({{.*}})

module attributes {kiln.library_epilogues, kiln.target = "cuda-emu"} {
kiln.state @a : tensor<1x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 16.0>}
kiln.state @b : tensor<1x3xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @c : tensor<1x5xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 16.0>}
kiln.state @d : tensor<1x5xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}
kiln.state @bias : tensor<5xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.0>}

kiln.program @f() -> (tensor<3x5xbf16> {kiln.name = "y"}, tensor<3x5xf32> {kiln.name = "wide"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %a = kiln.read @a : tensor<1x3xf32>
  %b = kiln.read @b : tensor<1x3xf32>
  %c = kiln.read @c : tensor<1x5xf32>
  %d = kiln.read @d : tensor<1x5xf32>
  %left = kiln.concat %a, %b dim 0 : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %right = kiln.concat %c, %d dim 0 : (tensor<1x5xf32>, tensor<1x5xf32>) -> tensor<2x5xf32>
  %x = kiln.cast %left : tensor<2x3xf32> to tensor<2x3xbf16>
  %w = kiln.cast %right : tensor<2x5xf32> to tensor<2x5xbf16>
  %bias = kiln.read @bias : tensor<5xf32>
  %narrow = kiln.cast %bias : tensor<5xf32> to tensor<5xbf16>
  %p = kiln.matmul %x, %w trans_a : (tensor<2x3xbf16>, tensor<2x5xbf16>) -> tensor<3x5xbf16>
  %rows = kiln.broadcast %narrow dims [1] : tensor<5xbf16> to tensor<3x5xbf16>
  %y = kiln.add %p, %rows : tensor<3x5xbf16>
  %q = kiln.matmul %x, %w trans_a : (tensor<2x3xbf16>, tensor<2x5xbf16>) -> tensor<3x5xf32>
  %wideRows = kiln.broadcast %bias dims [1] : tensor<5xf32> to tensor<3x5xf32>
  %wide = kiln.add %wideRows, %q : tensor<3x5xf32>
  kiln.return %y, %wide : tensor<3x5xbf16>, tensor<3x5xf32>
}

kiln.state @x : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.5>}
kiln.state @w : tensor<8x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.25>}
kiln.state @row : tensor<8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.125>}

// u = 8 * 0.5 * 0.25 + 0.125; the gradient of y is 8 * 0.25 * gelu(u).
kiln.program @g() -> (tensor<4x8xf32> {kiln.name = "y"}, tensor<4x8xf32> {kiln.name = "du"}, tensor<8x8xf32> {kiln.name = "dw"}, tensor<8xf32> {kiln.name = "db"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %x = kiln.read @x : tensor<4x8xf32>
  %w = kiln.read @w : tensor<8x8xf32>
  %row = kiln.read @row : tensor<8xf32>
  %p = kiln.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %rows = kiln.broadcast %row dims [1] : tensor<8xf32> to tensor<4x8xf32>
  %u = kiln.add %p, %rows : tensor<4x8xf32>
  %y = kiln.gelu %u tanh : tensor<4x8xf32>
  %dy = kiln.matmul %y, %w trans_b : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %du = kiln.gelu_grad %u, %dy tanh : tensor<4x8xf32>
  %dw = kiln.matmul %x, %du trans_a : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %db = kiln.reduce sum %du dims [0] : tensor<4x8xf32> to tensor<8xf32>
  kiln.return %y, %du, %dw, %db : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>
}
}
