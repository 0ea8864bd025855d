// States may have any name; symbols of the compiler that clash are renamed.
// Programs and moments are found independently of their symbols.

// RUN: kiln-opt %s --kiln-to-step-pipeline | FileCheck %s
// RUN: kiln-opt %s --kiln-to-step-pipeline=optimizer=momentum | FileCheck %s --check-prefix=MOMENTUM
// RUN: kiln-opt %s --kiln-to-step-pipeline --kiln-to-planned-pipeline --kiln-to-dispatched-pipeline --kiln-to-scheduled-pipeline -o %t.scheduled.mlir
// RUN: FileCheck %s --check-prefix=SCHEDULED --input-file=%t.scheduled.mlir
// RUN: kiln-opt %s --kiln-to-step-pipeline -o %t.step.mlir

// Modules of both levels train and find their programs.
// RUN: %python -c "print('to be or not to be, that is the question: ' * 20)" > %t.txt
// RUN: kiln-run %t.step.mlir --data=%t.txt --val-data=%t.txt --steps=2 | FileCheck %s --check-prefix=TRAINED
// RUN: kiln-run %t.scheduled.mlir --data=%t.txt --val-data=%t.txt --steps=2 | FileCheck %s --check-prefix=TRAINED

// CHECK-DAG: kiln.state @train :
// CHECK-DAG: kiln.state @evaluate :
// CHECK-DAG: kiln.state @generate :
// CHECK-DAG: kiln.state @k0_row :
// CHECK-DAG: kiln.state @train.m :
// CHECK-DAG: kiln.state @train.m_{{[0-9]+}} : {{.*}}of = @train, {{.*}}slot = "m"
// CHECK-DAG: kiln.state @train.v : {{.*}}of = @train, {{.*}}slot = "v"
// CHECK-DAG: kiln.state @train.m.m : {{.*}}of = @train.m, {{.*}}slot = "m"
// CHECK-DAG: kiln.program @train_{{[0-9]+}}({{.*}}kiln.name = "train", kind = #kiln.program_kind<train>
// CHECK-DAG: kiln.program @evaluate_{{[0-9]+}}({{.*}}kiln.name = "evaluate", kind = #kiln.program_kind<evaluate>
// CHECK-DAG: kiln.program @generate_{{[0-9]+}}({{.*}}kiln.name = "generate", kind = #kiln.program_kind<generate>

// TRAINED: step 2/2 {{ *}}loss 5.34
// TRAINED-NEXT: validation after step 2 {{ *}}loss 5.39

// MOMENTUM-DAG: kiln.state @k0_row.momentum : tensor<256x8xf32> {{.*}}role = #kiln.role<parameter>
// MOMENTUM-DAG: kiln.state @k0_row.momentum_{{[0-9]+}} : {{.*}}of = @k0_row, {{.*}}slot = "momentum"

// SCHEDULED-DAG: kiln.state @k0_row :
// SCHEDULED-DAG: kilnrt.kernel @k0_row_{{[0-9]+}}
// SCHEDULED-DAG: kilnrt.program @train_{{[0-9]+}} kind<train> attributes {kiln.name = "train"}
// SCHEDULED-DAG: kilnrt.launch @k0_row_{{[0-9]+}} on @compute (

module attributes {kiln.model = {vocab_size = 256 : i64, batch = 1 : i64, sequence_length = 8 : i64}} {
  kiln.state @k0_row : tensor<256x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.5>}
  kiln.state @k0_row.momentum : tensor<256x8xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.5>}
  kiln.state @evaluate : tensor<8x256xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 1.0>}
  kiln.state @generate : tensor<8x256xf32> {role = #kiln.role<buffer>, init = #kiln.splat<value = 0.0>}
  kiln.state @train : tensor<8x256xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
  kiln.state @train.m : tensor<8x256xf32> {role = #kiln.role<parameter>, init = #kiln.splat<value = 0.0>}
  kiln.program @forward(%tokens: tensor<1x8xi32> {kiln.name = "tokens"}, %targets: tensor<1x8xi32> {kiln.name = "targets"},
                        %loss_scale: tensor<f64> {kiln.name = "loss_scale"})
      -> (tensor<f64> {kiln.name = "loss"}) attributes {kind = #kiln.program_kind<forward>} {
    %table = kiln.read @k0_row : tensor<256x8xf32>
    %other = kiln.read @k0_row.momentum : tensor<256x8xf32>
    %both = kiln.mul %table, %other : tensor<256x8xf32>
    %rows = kiln.embedding %tokens, %both : (tensor<1x8xi32>, tensor<256x8xf32>) -> tensor<8x8xf32>
    %w = kiln.read @evaluate : tensor<8x256xf32>
    %x = kiln.matmul %rows, %w : (tensor<8x8xf32>, tensor<8x256xf32>) -> tensor<8x256xf32>
    %b = kiln.read @train : tensor<8x256xf32>
    %c = kiln.read @train.m : tensor<8x256xf32>
    %y = kiln.add %x, %b : tensor<8x256xf32>
    %z = kiln.add %y, %c : tensor<8x256xf32>
    kiln.write @generate, %x : tensor<8x256xf32>
    %loss = kiln.cross_entropy %z, %targets, %loss_scale : (tensor<8x256xf32>, tensor<1x8xi32>, tensor<f64>) -> tensor<f64>
    kiln.return %loss : tensor<f64>
  }
}
