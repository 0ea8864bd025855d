// One run of one program: initial states are declared or come from a file,
// inputs are named, outputs go to stdout and, with the states, to a file.

// RUN: %python %S/Inputs/write_safetensors.py %t.in x:F64:2x2:1,2,3,4 tokens:I64:2:1,0
// RUN: kiln-run %s --entry=f --inputs=%t.in --dump=%t.out | FileCheck %s --check-prefix=SPLAT
// SPLAT:      gradient:w = 10
// SPLAT-NEXT: y [2, 2] = 1.29999995, 2.29999995, 3.29999995, 4.30000019
// SPLAT-NEXT: result2 [2] = 1, 0

// The dump is the input of the next run: the state has grown by 1.
// RUN: kiln-run %s --entry=f --inputs=%t.in --init=%t.out | FileCheck %s --check-prefix=MOVED
// MOVED: y [2, 2] = 2.29999995, 3.29999995, 4.30000019, 5.30000019

// Without rounding, 0.3 still has the f32 value of its declaration.
// RUN: kiln-run %s --entry=f --inputs=%t.in --eval-type=f64 | FileCheck %s --check-prefix=WIDE
// WIDE: y [2, 2] = 1.300000011920929, 2.300000011920929

// A file may use the tensor names of the source model.
// RUN: %python %S/Inputs/write_safetensors.py %t.source model.w:F32::0.5
// RUN: kiln-run %s --entry=f --inputs=%t.in --init=%t.source | FileCheck %s --check-prefix=SOURCE
// SOURCE: y [2, 2] = 1.5, 2.5, 3.5, 4.5

// RUN: kiln-run %s --entry=table | FileCheck %s --check-prefix=TABLE
// TABLE: result0 [2, 2] = 2, 2, -0.832293689, 1.7551651

// Different seeds give different values.
// RUN: kiln-run %s --entry=random > %t.0
// RUN: kiln-run %s --entry=random --seed=0 | diff %t.0 -
// RUN: kiln-run %s --entry=random --seed=1 | not diff %t.0 -

kiln.state @w : tensor<f32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 3.0e-01>, source = "model.w"}
kiln.state @cos : tensor<2x2xf32> {role = #kiln.role<constant>, init = #kiln.rope_table<sine = false, scale = 2.0, inv_freq = array<f64: 2.0, 0.5>>}
kiln.state @n : tensor<9xf32> {role = #kiln.role<constant>, init = #kiln.normal<mean = 0.0, stddev = 1.0>}

kiln.program @f(%x: tensor<2x2xf32> {kiln.name = "x"}, %t: tensor<2xi32> {kiln.name = "tokens"})
    -> (tensor<f32> {kiln.gradient = @w}, tensor<2x2xf32> {kiln.name = "y"}, tensor<2xi32>)
    attributes {kind = #kiln.program_kind<forward>} {
  %w = kiln.read @w : tensor<f32>
  %b = kiln.broadcast %w dims [] : tensor<f32> to tensor<2x2xf32>
  %y = kiln.add %x, %b : tensor<2x2xf32>
  %ones = kiln.constant dense<1.0> : tensor<f32> -> tensor<f32>
  %w1 = kiln.add %w, %ones : tensor<f32>
  kiln.write @w, %w1 : tensor<f32>
  %s = kiln.reduce sum %x dims [0, 1] : tensor<2x2xf32> to tensor<f32>
  kiln.return %s, %y, %t : tensor<f32>, tensor<2x2xf32>, tensor<2xi32>
}
kiln.program @table() -> tensor<2x2xf32> attributes {kind = #kiln.program_kind<forward>} {
  %cos = kiln.read @cos : tensor<2x2xf32>
  kiln.return %cos : tensor<2x2xf32>
}
kiln.program @random() -> tensor<9xf32> attributes {kind = #kiln.program_kind<forward>} {
  %n = kiln.read @n : tensor<9xf32>
  kiln.return %n : tensor<9xf32>
}
