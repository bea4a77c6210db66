// SPDX-License-Identifier: Apache-2.0

include "dialects/nn/nn_base.td"
include "mlir/Pass/PassBase.td"

def Demo_Dialect : Dialect {
  let name = "demo";
  let cppNamespace = "::demo";
}

def Demo_TanhExpOp : Nn_UnaryOpOf<Demo_Dialect, "tanhexp", "x tanh(e^x)", Nn_Computes<"LongFunction", "Follow", "none">, Nn_FloatTensor>;

def FindTanhExp : Pass<"demo-find-tanhexp"> {
  let summary = "Replaces x * tanh(exp(x)) by demo.tanhexp";
  let dependentDialects = ["::demo::DemoDialect"];
}
