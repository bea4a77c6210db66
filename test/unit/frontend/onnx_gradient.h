// SPDX-License-Identifier: Apache-2.0
//
// Gradients of imported ONNX nodes: by the rules of the nn ops, and by central differences.

#ifndef ASHLAR_TEST_UNIT_FRONTEND_ONNX_GRADIENT_H
#define ASHLAR_TEST_UNIT_FRONTEND_ONNX_GRADIENT_H

#include "test/unit/frontend/onnx_model.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ashlar::test {

// Makes a function of x and others that returns y, its first result, one of them and g that returns g * dy / dx.
void differentiate(mlir::func::FuncOp function);

// Returns g * dy / dx of a model whose first input is x and whose first output is y, all floats; g of the type of y.
reference::Tensor gradientOf(const OnnxModel &model, std::vector<reference::Tensor> inputs, reference::Tensor g);

// Returns "" where the gradient of a model of f64 agrees with central differences at `inputs`; else where it does not.
std::string gradientDifference(const OnnxModel &model, const std::vector<reference::Tensor> &inputs);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_FRONTEND_ONNX_GRADIENT_H
