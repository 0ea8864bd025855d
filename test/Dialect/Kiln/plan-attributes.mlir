// The attributes of a plan, on a module.

// RUN: kiln-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// CHECK: kiln.encoded = [#kiln.encoded<value = "h.0.gelu", as = "mask", lossy = false, bytes = 2048, encoded_bytes = 64>]
// CHECK-SAME: kiln.plan = #kiln.plan<budget = 4096, host_budget = 64, predicted_peak_bytes = 4032, predicted_host_bytes = 0,
// CHECK-SAME: predicted_step_ms = 2.500000e+00 : f64, lower_bound_ms = 2.500000e+00 : f64, unplanned_step_ms = 2.000000e+00 : f64, unplanned_peak_bytes = 8192,
// CHECK-SAME: choices = [#kiln.stage<stage = 0, layer = "h.0", forward_runs = 2, keeps_input = true, keeps = ["h.0.attn"], offloads = [], repeats = ["h.0.gelu"],
// CHECK-SAME: kept_bytes = 256, offloaded_bytes = 0, repeated_bytes = 128, repeated_ms = 5.000000e-01 : f64>]>
module attributes {
  kiln.encoded = [#kiln.encoded<value = "h.0.gelu", as = "mask", lossy = false, bytes = 2048, encoded_bytes = 64>],
  kiln.plan = #kiln.plan<budget = 4096, host_budget = 64, predicted_peak_bytes = 4032, predicted_host_bytes = 0, predicted_step_ms = 2.5, lower_bound_ms = 2.5, unplanned_step_ms = 2.0, unplanned_peak_bytes = 8192, choices = [
    #kiln.stage<stage = 0, layer = "h.0", forward_runs = 2, keeps_input = true, keeps = ["h.0.attn"], offloads = [], repeats = ["h.0.gelu"], kept_bytes = 256, offloaded_bytes = 0, repeated_bytes = 128, repeated_ms = 0.5>]>
} {
}

// -----

// CHECK: kiln.plan = #kiln.plan<predicted_peak_bytes = 1, predicted_host_bytes = 0,
module attributes {kiln.plan = #kiln.plan<predicted_peak_bytes = 1, predicted_host_bytes = 0, predicted_step_ms = 2.5, lower_bound_ms = 2.5, unplanned_step_ms = 2.0, unplanned_peak_bytes = 8192, choices = []>} {
}

// -----

// expected-error @+1 {{has 'kiln.plan' = {}, but the value must be a #kiln.plan, and only a module may have this attribute}}
module attributes {kiln.plan = {}} {
}

// -----

// expected-error @+1 {{has 'predicted_peak_bytes' = -1, expected a number of at least 0}}
module attributes {kiln.plan = #kiln.plan<predicted_peak_bytes = -1, predicted_host_bytes = 0, predicted_step_ms = 2.5, lower_bound_ms = 2.5, unplanned_step_ms = 2.0, unplanned_peak_bytes = 8192, choices = []>} {
}

// -----

// expected-error @+1 {{has 'lower_bound_ms' = -2.500000e+00 : f64, expected a finite f64 of at least 0}}
module attributes {kiln.plan = #kiln.plan<predicted_peak_bytes = 1, predicted_host_bytes = 0, predicted_step_ms = 2.5, lower_bound_ms = -2.5, unplanned_step_ms = 2.0, unplanned_peak_bytes = 8192, choices = []>} {
}

// -----

// expected-error @+1 {{has 'choices' = [1], expected an array of #kiln.stage}}
module attributes {kiln.plan = #kiln.plan<predicted_peak_bytes = 1, predicted_host_bytes = 0, predicted_step_ms = 2.5, lower_bound_ms = 2.5, unplanned_step_ms = 2.0, unplanned_peak_bytes = 8192, choices = [1]>} {
}

// -----

// expected-error @+2 {{has 'keeps' = [1], expected an array of strings}}
// expected-error @+1 {{failed to parse Kiln_PlanAttr parameter 'choices'}}
module attributes {kiln.plan = #kiln.plan<predicted_peak_bytes = 1, predicted_host_bytes = 0, predicted_step_ms = 2.5, lower_bound_ms = 2.5, unplanned_step_ms = 2.0, unplanned_peak_bytes = 8192, choices = [#kiln.stage<stage = 0, layer = "h.0", forward_runs = 2, keeps_input = true, keeps = [1], offloads = [], repeats = [], kept_bytes = 256, offloaded_bytes = 0, repeated_bytes = 128, repeated_ms = 0.5>]>} {
}

// -----

// expected-error @+1 {{has 'encoded_bytes' = -1, expected a number of at least 0}}
module attributes {kiln.encoded = [#kiln.encoded<value = "x", as = "mask", lossy = false, bytes = 8, encoded_bytes = -1>]} {
}
