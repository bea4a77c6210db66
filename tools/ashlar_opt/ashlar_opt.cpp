// SPDX-License-Identifier: Apache-2.0
//
// ashlar-opt: reads IR, runs passes named on the command line, prints IR. For tests, and to look at one pass at a time.

#include "compiler/file/output_file.h"
#include "compiler/file/process.h"
#include "compiler/plugin/plugins.h"
#include "compiler/reference/passes.h"
#include "compiler/strategy/strategy.h"
#include "dialects/dist/dist.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"
#include "passes/decode/passes.h"
#include "passes/format/passes.h"
#include "passes/layout/passes.h"
#include "passes/lower/passes.h"
#include "passes/partition/passes.h"
#include "passes/search/passes.h"
#include "passes/stage/passes.h"
#include "passes/train/passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"

namespace {

int run(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<ashlar::dist::DistDialect, ashlar::exec::ExecDialect, ashlar::nn::NnDialect>();
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::gpu::GPUDialect, mlir::math::MathDialect,
                  mlir::memref::MemRefDialect, mlir::scf::SCFDialect, mlir::vector::VectorDialect>(); // of kernels
  mlir::registerTransformsPasses();
  ashlar::reference::registerReferencePasses();
  ashlar::decode::registerAshlarDecodePasses();
  ashlar::format::registerAshlarFormatPasses();
  ashlar::layout::registerAshlarLayoutPasses();
  ashlar::lower::registerAshlarLowerPasses();
  ashlar::partition::registerAshlarPartitionPasses();
  ashlar::search::registerAshlarSearchPasses();
  ashlar::stage::registerAshlarStagePasses();
  ashlar::strategy::registerAshlarStrategyPasses();
  ashlar::train::registerAshlarTrainPasses();
  // Loaded where the option is read, before a pass pipeline behind it is.
  llvm::cl::list<std::string> plugins("load-plugin", llvm::cl::desc("add the dialects and passes of a shared library (docs/plugins.md); "
                                                                    "its passes are for --pass-pipeline"));
  std::string pluginFault;
  plugins.setCallback([&](const std::string &path) {
    llvm::Expected<ashlar::PluginInfo> info = ashlar::plugin::open(path);
    if (!info) {
      pluginFault = pluginFault.empty() ? llvm::toString(info.takeError()) : (llvm::consumeError(info.takeError()), pluginFault);
      return;
    }
    if (info->addDialects) {
      info->addDialects(registry);
    }
    if (info->registerPasses) {
      info->registerPasses();
    }
  });
  auto [input, output] = mlir::registerAndParseCLIOptions(argc, argv, "Ashlar pass tool\n", registry);
  if (!pluginFault.empty()) {
    llvm::errs() << "error: " << pluginFault << "\n";
    return 1;
  }
  mlir::MlirOptMainConfig config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldListPasses() || config.shouldShowDialects()) { // writes to stdout alone
    return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
  }
  std::string fault;
  std::unique_ptr<llvm::MemoryBuffer> text = mlir::openInputFile(input, &fault);
  if (!text) {
    llvm::errs() << fault << "\n";
    return 1;
  }
  llvm::Error error = ashlar::file::tryWriteOutput(output, [&](llvm::raw_pwrite_stream &out) {
    bool failed = mlir::failed(mlir::MlirOptMain(out, std::move(text), registry, config));
    return failed ? llvm::createStringError("") : llvm::Error::success(); // its diagnostics are printed
  });
  if (!error) {
    return 0;
  }
  std::string message = llvm::toString(std::move(error));
  if (!message.empty()) {
    llvm::errs() << "error: " << message << "\n";
  }
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  ashlar::file::prepareProcess();
  return ashlar::file::finishProcess(run(argc, argv));
}
