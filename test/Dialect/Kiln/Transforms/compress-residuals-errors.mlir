// RUN: not kiln-opt %s --kiln-compress-residuals=lossy=fewbit 2>&1 | FileCheck %s --check-prefix=BITS
// RUN: not kiln-opt %s --kiln-compress-residuals=lossy=fewbit:9 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not kiln-opt %s --kiln-compress-residuals=lossy=rmm:1 2>&1 | FileCheck %s --check-prefix=SHARE
// RUN: not kiln-opt %s --kiln-compress-residuals=lossy=adam4bit 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not kiln-opt %s --kiln-compress-residuals=lossy=rmm:0.5,rmm:0.5 2>&1 | FileCheck %s --check-prefix=TWICE

// BITS: error: fewbit has '' bits, expected fewbit:B with B from 1 to 8
// MANY: error: fewbit has '9' bits, expected fewbit:B with B from 1 to 8
// SHARE: error: rmm keeps '1' of the rows, expected rmm:RHO with RHO above 0 and below 1
// NAME: error: unknown technique 'adam4bit', expected fewbit:B or rmm:RHO, or both, separated by a comma
// TWICE: error: 'rmm' is given twice, expected once
module {
}
