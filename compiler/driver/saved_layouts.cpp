// SPDX-License-Identifier: Apache-2.0
//
// Each file is written as a whole or not at all.

#include "compiler/driver/saved_layouts.h"

#include "compiler/driver/planned_tensors.h"
#include "compiler/file/output_file.h"
#include "compiler/frontend/annotations/annotations.h"
#include "compiler/strategy/strategy.h"
#include "dialects/dist/dist.h"
#include "passes/stage/stage_modules.h"

using namespace mlir;
using ashlar::file::writeOutput;

namespace ashlar::driver {

llvm::Error saveStrategy(const command::Options &options, const job::Job &job, bool isMeshFound, ModuleOp programs) {
  if (options.saveStrategy.empty()) {
    return llvm::Error::success();
  }
  if (!dist::findMesh(programs)) {
    return llvm::createStringError("--save-strategy has no layouts to save: the job has no mesh; add one, or --mesh dp=4");
  }
  if (job.deterministic().always()) {
    return llvm::createStringError(
        "--save-strategy saves the layouts of the default variant, and deterministic.always leaves it out; leave "
        "out one of the two");
  }
  return writeOutput(options.saveStrategy, [&](llvm::raw_ostream &out) {
    out << strategy::printStrategy(strategy::readStrategy(programs), isMeshFound ? strategy::foundFields(job) : job::Job());
  });
}

llvm::Error saveAnnotations(const command::Options &options, ModuleOp programs) {
  if (options.annotated.empty()) {
    return llvm::Error::success();
  }
  if (!dist::findMesh(programs)) {
    return llvm::createStringError("--annotate has no layouts to write: the job has no mesh; add one, or --mesh dp=4");
  }
  llvm::Expected<std::string> model =
      frontend::annotateModel(options.model, options.annotated, plannedTensors(programs), makeDeviceMesh(programs));
  return model ? writeOutput(options.annotated, [&](llvm::raw_ostream &out) { out << *model; }) : model.takeError();
}

llvm::Error saveOrder(const command::Options &options, ModuleOp programs) {
  return options.saveOrder.empty() ? llvm::Error::success()
                                   : writeOutput(options.saveOrder, [&](llvm::raw_ostream &out) { out << stage::printOrders(programs); });
}

} // namespace ashlar::driver
