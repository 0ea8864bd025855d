// RUN: kiln-opt %s --kiln-place-copies -split-input-file | FileCheck %s

// A value leaves when it is made and is waited for behind `lag` commands; it comes
// back behind the longest stretch without a reader, and begins to `lead` commands
// ahead. Marks are gone then.
// CHECK-LABEL: kiln.program @lag_and_lead
// CHECK: [[X:%.+]] = kiln.matmul
// CHECK-NOT: kiln.offload
// CHECK-NEXT: [[F:%.+]] = kiln.copy_out [[X]] : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: [[H:%.+]] = kiln.copy_wait [[F]], [[X]] : tensor<4x4xf32> to tensor<4x4xf32, #kiln.memory<host>>
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: [[G:%.+]] = kiln.copy_in [[H]] : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: [[Y:%.+]] = kiln.copy_wait [[G]], [[H]] : tensor<4x4xf32, #kiln.memory<host>> to tensor<4x4xf32>
// CHECK-NEXT: kiln.matmul {{%.+}}, [[Y]]
// CHECK-NEXT: kiln.return
kiln.program @lag_and_lead(%a: tensor<4x4xf32> {kiln.name = "a"}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.matmul %a, %a {grid = array<i64: 1, 1>, kiln.offload = array<i64: 0, 2, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = kiln.matmul %a, %1 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = kiln.matmul %a, %2 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = kiln.matmul %a, %3 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = kiln.matmul %4, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %5 : tensor<4x4xf32>
}

// -----

// The copy back does not begin before the way out has ended.
// CHECK-LABEL: kiln.program @longest_lead
// CHECK: [[X:%.+]] = kiln.matmul
// CHECK-NEXT: [[F:%.+]] = kiln.copy_out [[X]]
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: [[H:%.+]] = kiln.copy_wait [[F]], [[X]]
// CHECK-NEXT: [[G:%.+]] = kiln.copy_in [[H]]
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: [[Y:%.+]] = kiln.copy_wait [[G]], [[H]]
// CHECK-NEXT: kiln.matmul {{%.+}}, [[Y]]
kiln.program @longest_lead(%a: tensor<4x4xf32> {kiln.name = "a"}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.matmul %a, %a {grid = array<i64: 1, 1>, kiln.offload = array<i64: 0, 1, 100>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = kiln.matmul %a, %1 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = kiln.matmul %2, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %3 : tensor<4x4xf32>
}

// -----

// Where the lag reaches the reader nothing would be won: the value stays.
// CHECK-LABEL: kiln.program @long_lag
// CHECK-NOT: kiln.copy
// CHECK-NOT: kiln.offload
// CHECK: kiln.return
kiln.program @long_lag(%a: tensor<4x4xf32> {kiln.name = "a"}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.matmul %a, %a {grid = array<i64: 1, 1>, kiln.offload = array<i64: 0, 2, 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = kiln.matmul %a, %1 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = kiln.matmul %2, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %3 : tensor<4x4xf32>
}

// -----

// Readers in front of the gap read the value, and the way out ends behind the
// last of them; readers behind it share one copy. A view behind the gap is one of
// the copy, and one that both sides use is there twice.
// CHECK-LABEL: kiln.program @gap
// CHECK: [[X:%.+]] = kiln.matmul
// CHECK-NEXT: [[F:%.+]] = kiln.copy_out [[X]]
// CHECK-NEXT: [[V:%.+]] = kiln.reshape [[X]] : tensor<4x4xf32> to tensor<2x8xf32>
// CHECK-NEXT: kiln.matmul [[V]], [[V]] trans_b
// CHECK-NEXT: kiln.matmul [[X]],
// CHECK-NEXT: [[H:%.+]] = kiln.copy_wait [[F]], [[X]]
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: kiln.matmul
// CHECK: [[G:%.+]] = kiln.copy_in [[H]]
// CHECK-NEXT: [[Y:%.+]] = kiln.copy_wait [[G]], [[H]]
// CHECK-NEXT: [[W:%.+]] = kiln.reshape [[Y]] : tensor<4x4xf32> to tensor<2x8xf32>
// CHECK-NEXT: [[P:%.+]] = kiln.slice [[W]] [0, 4] : tensor<2x8xf32> to tensor<2x4xf32>
// CHECK: kiln.matmul [[P]], [[Y]]
// CHECK-NEXT: kiln.matmul [[W]], [[W]] trans_b
// CHECK-NEXT: kiln.matmul {{.*}}, [[Y]]
kiln.program @gap(%a: tensor<4x4xf32> {kiln.name = "a"}) -> (tensor<2x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.matmul %a, %a {grid = array<i64: 1, 1>, kiln.offload = array<i64: 0, 0, 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = kiln.reshape %x : tensor<4x4xf32> to tensor<2x8xf32>
  %1 = kiln.matmul %v, %v trans_b {grid = array<i64: 1, 1>} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x2xf32>
  %2 = kiln.matmul %x, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = kiln.matmul %2, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = kiln.matmul %3, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %p = kiln.slice %v [0, 4] : tensor<2x8xf32> to tensor<2x4xf32>
  %5 = kiln.matmul %p, %x {grid = array<i64: 1, 1>} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %6 = kiln.matmul %v, %v trans_b {grid = array<i64: 1, 1>} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x2xf32>
  %7 = kiln.matmul %5, %x {grid = array<i64: 1, 1>} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  kiln.return %7 : tensor<2x4xf32>
}

// -----

// A mark of an op in a dispatch is one of the dispatch's result; what its kernel
// alone reads is in no memory. What is returned or becomes part of another value
// stays.
// CHECK-LABEL: kiln.program @dispatches
// CHECK: [[D:%.+]]:2 = kiln.dispatch row
// CHECK-NOT: kiln.offload
// CHECK: kiln.yield
// CHECK-NEXT: }
// CHECK-NEXT: [[F:%.+]] = kiln.copy_out [[D]]#1
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: [[H:%.+]] = kiln.copy_wait [[F]], [[D]]#1
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: kiln.concat
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: [[G:%.+]] = kiln.copy_in [[H]]
// CHECK-NEXT: [[Y:%.+]] = kiln.copy_wait [[G]], [[H]]
// CHECK-NEXT: kiln.matmul [[D]]#0, [[Y]]
// CHECK-NEXT: kiln.return
kiln.program @dispatches(%a: tensor<4x4xf32> {kiln.name = "a"}) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %0:2 = kiln.dispatch row(%a) space [4, 4] : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  ^bb0(%b: tensor<4x4xf32>):
    %c = kiln.add %b, %b {kiln.offload = array<i64: 0, 1, 0>} : tensor<4x4xf32>
    %d = kiln.relu %c {kiln.offload = array<i64: 0, 1, 0>} : tensor<4x4xf32>
    %e = kiln.relu %b {kiln.offload = array<i64: 0, 1, 0>} : tensor<4x4xf32>
    kiln.yield %e, %d : tensor<4x4xf32>, tensor<4x4xf32>
  }
  %1 = kiln.matmul %a, %a {grid = array<i64: 1, 1>, kiln.offload = array<i64: 0, 0, 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = kiln.matmul %a, %a {grid = array<i64: 1, 1>, kiln.offload = array<i64: 0, 0, 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %both = kiln.concat %1, %2 dim 1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  %3 = kiln.matmul %a, %2 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = kiln.matmul %0#0, %0#1 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %4, %0#0, %both : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x8xf32>
}

// -----

// Where copies begin in front of the same command, that which is needed first
// goes first.
// CHECK-LABEL: kiln.program @order
// CHECK: [[X:%.+]] = kiln.matmul
// CHECK-NEXT: [[FX:%.+]] = kiln.copy_out [[X]]
// CHECK-NEXT: [[Y:%.+]] = kiln.matmul
// CHECK-NEXT: [[FY:%.+]] = kiln.copy_out [[Y]]
// CHECK: [[HX:%.+]] = kiln.copy_wait [[FX]], [[X]]
// CHECK: [[HY:%.+]] = kiln.copy_wait [[FY]], [[Y]]
// CHECK: kiln.copy_in [[HY]]
// CHECK-NEXT: kiln.copy_in [[HX]]
// CHECK-NEXT: kiln.matmul
kiln.program @order(%a: tensor<4x4xf32> {kiln.name = "a"}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.matmul %a, %a {grid = array<i64: 1, 1>, kiln.offload = array<i64: 0, 1, 2>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = kiln.matmul %a, %a {grid = array<i64: 1, 1>, kiln.offload = array<i64: 0, 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = kiln.matmul %a, %1 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = kiln.matmul %2, %y {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = kiln.matmul %3, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %4 : tensor<4x4xf32>
}

// -----

// A state on the host is copied once per group of adjacent readers, with the lead
// of the group. The program begins with a read of the state on the host. Reads of
// other states do not change.
kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @v : tensor<4x4xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kiln.program @groups
// CHECK: [[W:%.+]] = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
// CHECK-NEXT: [[F:%.+]] = kiln.copy_in [[W]]
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: kiln.read @v
// CHECK-NEXT: [[C:%.+]] = kiln.copy_wait [[F]], [[W]]
// CHECK-NEXT: [[V:%.+]] = kiln.reshape [[C]]
// CHECK-NEXT: kiln.matmul {{%.+}}, [[C]]
// CHECK-COUNT-6: kiln.matmul
// CHECK: kiln.matmul [[V]], [[V]] trans_b
// CHECK-COUNT-6: kiln.matmul
// CHECK-NEXT: [[G:%.+]] = kiln.copy_in [[W]]
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: [[D:%.+]] = kiln.copy_wait [[G]], [[W]]
// CHECK-NEXT: kiln.matmul {{%.+}}, [[D]]
// CHECK-NEXT: [[R:%.+]] = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
// CHECK-NEXT: kiln.dispatch row([[R]]) space [4, 4] :
// CHECK-NOT: kiln.copy
// CHECK: kiln.return
kiln.program @groups(%a: tensor<4x4xf32> {kiln.name = "a"}) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %0 = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = kiln.read @v : tensor<4x4xf32>
  %w = kiln.read @w {kiln.prefetch = array<i64: 1, 3>} : tensor<4x4xf32>
  %1 = kiln.matmul %a, %w {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = kiln.matmul %a, %v {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = kiln.matmul %a, %2 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = kiln.matmul %a, %3 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = kiln.matmul %a, %4 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %6 = kiln.matmul %a, %5 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %7 = kiln.matmul %a, %6 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %view = kiln.reshape %w : tensor<4x4xf32> to tensor<2x8xf32>
  %8 = kiln.matmul %view, %view trans_b {grid = array<i64: 1, 1>} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x2xf32>
  %9 = kiln.matmul %a, %7 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %10 = kiln.matmul %a, %9 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %11 = kiln.matmul %a, %10 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %12 = kiln.matmul %a, %11 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %13 = kiln.matmul %a, %12 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %14 = kiln.matmul %a, %13 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %15 = kiln.matmul %a, %14 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %16 = kiln.matmul %a, %15 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %17 = kiln.matmul %a, %16 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %18 = kiln.matmul %a, %w {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %on_host = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
  %19 = kiln.dispatch row(%on_host) space [4, 4] : (tensor<4x4xf32, #kiln.memory<host>>) -> tensor<4x4xf32, #kiln.memory<host>> {
  ^bb0(%b: tensor<4x4xf32, #kiln.memory<host>>):
    %r = kiln.relu %b : tensor<4x4xf32, #kiln.memory<host>>
    kiln.yield %r : tensor<4x4xf32, #kiln.memory<host>>
  }
  kiln.write @w, %19 : tensor<4x4xf32, #kiln.memory<host>>
  kiln.return %17, %18 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// No copy crosses a loop, neither into it nor past it.
kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kiln.program @loop
// CHECK: [[W:%.+]] = kiln.read @w
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: kiln.microbatches
// CHECK-NEXT: ^bb0
// CHECK-NEXT: [[F:%.+]] = kiln.copy_in [[W]]
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: [[C:%.+]] = kiln.copy_wait [[F]], [[W]]
// CHECK-NEXT: kiln.matmul {{%.+}}, [[C]]
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: kiln.yield
// CHECK-NEXT: }
// CHECK-NEXT: [[G:%.+]] = kiln.copy_in [[W]]
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: [[D:%.+]] = kiln.copy_wait [[G]], [[W]]
// CHECK-NEXT: kiln.matmul {{%.+}}, [[D]]
kiln.program @loop(%a: tensor<4x4xf32> {kiln.name = "a"}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %0 = kiln.matmul %a, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %w = kiln.read @w : tensor<4x4xf32>
  %1 = kiln.microbatches sliced(%a) count 2 : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<2x4xf32>, %sum: tensor<4x4xf32>):
    %x = kiln.matmul %part, %0 {grid = array<i64: 1, 1>} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %y = kiln.matmul %x, %w {grid = array<i64: 1, 1>} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %s = kiln.matmul %part, %y accumulate %sum trans_a {grid = array<i64: 1, 1>} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %s : tensor<4x4xf32>
  }
  %2 = kiln.matmul %a, %1 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = kiln.matmul %2, %w {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %3 : tensor<4x4xf32>
}

// -----

// Values from in front of a loop leave before it and come back behind it, or
// stay if they are wanted on both sides.
// CHECK-LABEL: kiln.program @past_a_loop
// CHECK: [[X:%.+]] = kiln.matmul
// CHECK-NEXT: [[F:%.+]] = kiln.copy_out [[X]]
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: [[H:%.+]] = kiln.copy_wait [[F]], [[X]]
// CHECK-NEXT: kiln.microbatches
// CHECK-NOT: kiln.copy
// CHECK: kiln.yield
// CHECK-NEXT: }
// CHECK-NEXT: [[G:%.+]] = kiln.copy_in [[H]]
// CHECK-NEXT: kiln.matmul
// CHECK-NEXT: [[Y:%.+]] = kiln.copy_wait [[G]], [[H]]
// CHECK-NEXT: kiln.matmul {{%.+}}, [[Y]]
// CHECK-NOT: kiln.copy
// CHECK: kiln.return
kiln.program @past_a_loop(%a: tensor<4x4xf32> {kiln.name = "a"}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %x = kiln.matmul %a, %a {grid = array<i64: 1, 1>, kiln.offload = array<i64: 0, 3, 5>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = kiln.matmul %a, %a {grid = array<i64: 1, 1>, kiln.offload = array<i64: 0, 0, 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = kiln.microbatches sliced(%a) count 2 : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<2x4xf32>, %sum: tensor<4x4xf32>):
    %s = kiln.matmul %part, %part accumulate %sum trans_a {grid = array<i64: 1, 1>} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %s : tensor<4x4xf32>
  }
  %2 = kiln.matmul %z, %1 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = kiln.matmul %2, %x {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = kiln.matmul %3, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = kiln.matmul %4, %a {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %6 = kiln.matmul %5, %z {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %6 : tensor<4x4xf32>
}

// -----

// Copies are also inserted before the end of a program, a loop that slices the
// state, and a write of another state. Unused views are erased.
kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @v : tensor<4x4xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kiln.program @other_readers
// CHECK-NEXT: [[W:%.+]] = kiln.read @w : tensor<4x4xf32, #kiln.memory<host>>
// CHECK-NEXT: [[F:%.+]] = kiln.copy_in [[W]]
// CHECK-NEXT: [[S:%.+]] = kiln.copy_wait [[F]], [[W]]
// CHECK-NEXT: [[VIEW:%.+]] = kiln.reshape [[S]]
// CHECK-NEXT: [[SUM:%.+]] = kiln.microbatches sliced([[S]])
// CHECK: kiln.yield
// CHECK-NEXT: }
// CHECK-NEXT: kiln.write @v, [[S]]
// CHECK-NEXT: kiln.return [[SUM]], [[VIEW]]
kiln.program @other_readers() -> (tensor<4x4xf32>, tensor<2x8xf32>) attributes {kind = #kiln.program_kind<train>} {
  %w = kiln.read @w : tensor<4x4xf32>
  kiln.write @v, %w : tensor<4x4xf32>
  %view = kiln.reshape %w : tensor<4x4xf32> to tensor<2x8xf32>
  %s = kiln.microbatches sliced(%w) count 2 : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<2x4xf32>, %sum: tensor<4x4xf32>):
    %t = kiln.matmul %part, %part accumulate %sum trans_a {grid = array<i64: 1, 1>} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %t : tensor<4x4xf32>
  }
  kiln.return %s, %view : tensor<4x4xf32>, tensor<2x8xf32>
}

// -----

// With `kiln.keep`, a state is copied once, and all readers share the copy: those
// in micro-batches, those outside of them, and those of a second read. Copies start
// at the beginning, in the order of their first readers. The states of other reads
// are copied in every micro-batch.
kiln.state @v : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @w : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
kiln.state @z : tensor<4x4xf32, #kiln.memory<host>> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
// CHECK-LABEL: kiln.program @keep
// CHECK-NEXT: [[V:%.+]] = kiln.read @v : {{.*}}#kiln.memory<host>>
// CHECK-NEXT: [[W:%.+]] = kiln.read @w : {{.*}}#kiln.memory<host>>
// CHECK-NEXT: [[W2:%.+]] = kiln.read @w : {{.*}}#kiln.memory<host>>
// CHECK-NEXT: [[Z:%.+]] = kiln.read @z : {{.*}}#kiln.memory<host>>
// CHECK-NEXT: [[F:%.+]] = kiln.copy_in [[W]]
// CHECK-NEXT: [[G:%.+]] = kiln.copy_in [[V]]
// CHECK-NEXT: [[KW:%.+]] = kiln.copy_wait [[F]], [[W]]
// CHECK-NEXT: [[KV:%.+]] = kiln.copy_wait [[G]], [[V]]
// CHECK-NEXT: kiln.microbatches
// CHECK-NEXT: ^bb0([[PART:%.+]]: tensor<4x4xf32>, {{.*}}):
// CHECK-NEXT: [[C:%.+]] = kiln.copy_in [[Z]]
// CHECK-NEXT: [[A:%.+]] = kiln.matmul [[PART]], [[KW]]
// CHECK-NEXT: [[B:%.+]] = kiln.matmul [[A]], [[KV]]
// CHECK-NEXT: [[KZ:%.+]] = kiln.copy_wait [[C]], [[Z]]
// CHECK-NEXT: kiln.matmul [[B]], [[KZ]] accumulate
// CHECK: kiln.matmul {{%.+}}, [[KW]]
// CHECK-NOT: kiln.keep
kiln.program @keep(%x: tensor<8x4xf32> {kiln.name = "x"}) -> (tensor<4x4xf32>) attributes {kind = #kiln.program_kind<train>} {
  %v = kiln.read @v {kiln.keep} : tensor<4x4xf32>
  %w = kiln.read @w {kiln.keep} : tensor<4x4xf32>
  %w2 = kiln.read @w {kiln.keep} : tensor<4x4xf32>
  %z = kiln.read @z : tensor<4x4xf32>
  %s = kiln.microbatches sliced(%x) count 2 : (tensor<8x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%part: tensor<4x4xf32>, %sum: tensor<4x4xf32>):
    %a = kiln.matmul %part, %w {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = kiln.matmul %a, %v {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %t = kiln.matmul %b, %z accumulate %sum {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    kiln.yield %t : tensor<4x4xf32>
  }
  %y = kiln.matmul %s, %w2 {grid = array<i64: 1, 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  kiln.return %y : tensor<4x4xf32>
}
