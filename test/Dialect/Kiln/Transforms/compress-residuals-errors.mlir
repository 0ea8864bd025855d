// RUN: not kiln-opt %s --kiln-compress-residuals=lossy=fewbit 2>&1 | FileCheck %s --check-prefix=BITS
// RUN: not kiln-opt %s --kiln-compress-residuals=lossy=fewbit:9 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not kiln-opt %s --kiln-compress-residuals=lossy=rmm:1 2>&1 | FileCheck %s --check-prefix=SHARE
// RUN: not kiln-opt %s --kiln-compress-residuals=lossy=adam4bit 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not kiln-opt %s --kiln-compress-residuals=lossy=rmm:0.5,rmm:0.5 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not kiln-opt %s --kiln-quantize-residuals=lossy=q8,q8 2>&1 | FileCheck %s --check-prefix=TWICE8
// RUN: not kiln-opt %s --kiln-quantize-residuals=lossy=q4,q8 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not kiln-opt %s --kiln-quantize-residuals=lossy=q4:2 2>&1 | FileCheck %s --check-prefix=VALUE

// BITS: error: fewbit has '' bits, expected fewbit:B with B from 1 to 8
// MANY: error: fewbit has '9' bits, expected fewbit:B with B from 1 to 8
// SHARE: error: rmm keeps '1' of the rows, expected rmm:RHO with RHO above 0 and below 1
// NAME: error: unknown technique 'adam4bit', expected fewbit:B, rmm:RHO, and q8 or q4, separated by commas
// TWICE: error: 'rmm' is given twice, expected once
// TWICE8: error: 'q8' is given twice, expected once
// BOTH: error: q8 and q4 are both given, expected one of them
// VALUE: error: q4 has the value '2', expected none
module {
}
