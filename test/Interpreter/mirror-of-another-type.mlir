// A mirror has the values of its parameter, rounded to the type of the mirror.

// RUN: kiln-run %s --entry=evaluate | FileCheck %s
// CHECK: rounded [2] = 1, 1
// CHECK: whole [2] = 1.00100005, 1.00100005

kiln.state @w : tensor<2xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 1.001>}
kiln.state @w.copy : tensor<2xbf16> {role = #kiln.role<mirror>, init = #kiln.splat<value = 0.0>, of = @w}

kiln.program @evaluate() -> (tensor<2xf32> {kiln.name = "rounded"}, tensor<2xf32> {kiln.name = "whole"}) attributes {kind = #kiln.program_kind<evaluate>} {
  %copy = kiln.read @w.copy : tensor<2xbf16>
  %rounded = kiln.cast %copy : tensor<2xbf16> to tensor<2xf32>
  %whole = kiln.read @w : tensor<2xf32>
  kiln.return %rounded, %whole : tensor<2xf32>, tensor<2xf32>
}
