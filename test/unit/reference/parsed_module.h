// SPDX-License-Identifier: Apache-2.0
//
// A module written as text in a test, and the tensors that go in and come out.

#ifndef ASHLAR_TEST_UNIT_REFERENCE_PARSED_MODULE_H
#define ASHLAR_TEST_UNIT_REFERENCE_PARSED_MODULE_H

#include "compiler/reference/equivalence.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace ashlar::test {

// Returns the context all tests share, with the nn, dist, exec and func dialects.
mlir::MLIRContext &context();

// Returns the module of `text`; throws std::runtime_error with the parser's message when it is none.
mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text);

// Returns the tensor of a dense attribute: "dense<[1.0, 2.0]> : tensor<2xf32>".
reference::Tensor tensor(const std::string &text);

// Runs @f of `module` on one rank; throws std::runtime_error when it cannot be run.
std::vector<reference::Tensor> run(mlir::ModuleOp module, llvm::StringRef function, llvm::ArrayRef<reference::Tensor> inputs);

// Returns the seed of randomised tests: the environment variable ASHLAR_SEED, else 1.
uint64_t testSeed();

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_REFERENCE_PARSED_MODULE_H
