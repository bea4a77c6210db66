// SPDX-License-Identifier: Apache-2.0
//
// ashlar-opt: reads IR, runs passes named on the command line, prints IR. For tests, and to look at one pass at a time.

#include "compiler/reference/passes.h"
#include "dialects/dist/dist.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"
#include "passes/layout/passes.h"
#include "passes/lower/passes.h"
#include "passes/partition/passes.h"
#include "passes/train/passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<ashlar::dist::DistDialect, ashlar::exec::ExecDialect, ashlar::nn::NnDialect>();
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::gpu::GPUDialect, mlir::math::MathDialect,
                  mlir::memref::MemRefDialect, mlir::scf::SCFDialect, mlir::vector::VectorDialect>(); // of kernels
  mlir::registerTransformsPasses();
  ashlar::reference::registerReferencePasses();
  ashlar::layout::registerAshlarLayoutPasses();
  ashlar::lower::registerAshlarLowerPasses();
  ashlar::partition::registerAshlarPartitionPasses();
  ashlar::train::registerAshlarTrainPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Ashlar pass tool\n", registry));
}
