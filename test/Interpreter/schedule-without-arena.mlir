// RUN: split-file %s %t
// RUN: not kiln-run %t/none.mlir --entry=train 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not kiln-run %t/mixed.mlir --entry=train 2>&1 | FileCheck %s --check-prefix=MIXED

// NONE: a scheduled module must have exactly one kilnrt.arena, got 0
// MIXED: the module has kilnrt.program ops, which are scheduled, and the kiln.program 'f', which is not; remove the ops of one of the two kinds

//--- none.mlir
kilnrt.program @train kind<train> {
}

//--- mixed.mlir
kilnrt.arena states 0 height 64
kiln.program @f() attributes {kind = #kiln.program_kind<train>} {
  kiln.return
}
kilnrt.program @train kind<train> {
}
