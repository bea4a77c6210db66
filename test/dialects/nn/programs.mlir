// SPDX-License-Identifier: Apache-2.0
//
// The roles of programs: printed as they are parsed, and one case for each label of #nn.program.

// RUN: sed '/^\/\/ -----/,$d' %s | ashlar-opt | ashlar-opt | FileCheck %s
// RUN: ashlar-opt %s -split-input-file -verify-diagnostics

// CHECK: func.func @a() attributes {nn.program = #nn.program<init>}
func.func @a() attributes {nn.program = #nn.program<init>} { return }
// CHECK: func.func @b() attributes {nn.program = #nn.program<larger_run>}
func.func @b() attributes {nn.program = #nn.program<larger_run>} { return }
// CHECK: func.func @c() attributes {nn.program = #nn.program<forward, chunk = 3>}
func.func @c() attributes {nn.program = #nn.program<forward, chunk = 3>} { return }
// Defaults are not printed.
// CHECK: func.func @d() attributes {nn.program = #nn.program<update>}
func.func @d() attributes {nn.program = #nn.program<update, chunk = 0, round = 0>} { return }
// CHECK: func.func @e() attributes {nn.program = #nn.program<update, round = 2>}
func.func @e() attributes {nn.program = #nn.program<update, round = 2>} { return }
// CHECK: func.func @f() attributes {nn.program = #nn.program<train_step, prepares = true>}
func.func @f() attributes {nn.program = #nn.program<train_step, prepares = true>} { return }
// CHECK: func.func @g() attributes {nn.program = #nn.program<weights, chunk = 1, prepares = true, updates = true>}
func.func @g() attributes {nn.program = #nn.program<weights, chunk = 1, prepares = true, updates = true>} { return }

// -----

// expected-error @+2 {{expected ::ashlar::nn::ProgramRole to be one of: init, run, larger_run, prepare, train_step, forward, backward, weights, update, eval_step}}
// expected-error @+1 {{failed to parse Nn_ProgramAttr parameter 'role'}}
func.func @unknown_role() attributes {nn.program = #nn.program<warm_up>} { return }

// -----

// expected-error @+1 {{has nn.program = "train_step"; give it a role, as #nn.program<train_step>}}
func.func @no_attribute() attributes {nn.program = "train_step"} { return }

// -----

func.func @no_function() {
  // expected-error @+1 {{has nn.program, which belongs on functions}}
  %0 = nn.constant {nn.program = #nn.program<init>} dense<1.0> : tensor<f32>
  return
}

// -----

// expected-error @+1 {{chunk -1, round 0 of a program; both are counted from 0}}
func.func @program_c1_chunk() attributes {nn.program = #nn.program<forward, chunk = -1>} { return }

// -----

// expected-error @+1 {{chunk 0, round -1 of a program; both are counted from 0}}
func.func @program_c1_round() attributes {nn.program = #nn.program<update, round = -1>} { return }

// -----

// expected-error @+1 {{chunk 1 of train_step, but only forward, backward, weights and eval_step have chunks}}
func.func @program_c2() attributes {nn.program = #nn.program<train_step, chunk = 1>} { return }

// -----

// expected-error @+1 {{round 1 of forward, but only update has rounds}}
func.func @program_c3() attributes {nn.program = #nn.program<forward, round = 1>} { return }

// -----

// expected-error @+1 {{update that prepares, but only programs of a micro-batch are joined}}
func.func @program_c4_prepares() attributes {nn.program = #nn.program<update, prepares = true>} { return }

// -----

// expected-error @+1 {{eval_step that updates, but only programs of a micro-batch are joined}}
func.func @program_c4_updates() attributes {nn.program = #nn.program<eval_step, updates = true>} { return }
