// SPDX-License-Identifier: Apache-2.0
//
// The pass managers of LLVM, set up once.

#include "compiler/target/code_generator.h"

#include "compiler/target/fetch_rows.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Passes/PassBuilder.h"

namespace ashlar::target {

void optimise(llvm::Module &module, llvm::TargetMachine &machine, bool fetchesRows) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopInterleaving = tuning.LoopUnrolling = true;
  llvm::PassBuilder builder(&machine, tuning);
  if (fetchesRows) {
    builder.registerOptimizerLastEPCallback([](llvm::ModulePassManager &passes, llvm::OptimizationLevel, llvm::ThinOrFullLTOPhase) {
      passes.addPass(llvm::createModuleToFunctionPassAdaptor(FetchRowsPass()));
    });
  }
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

llvm::Error generateCode(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType kind, llvm::raw_pwrite_stream &out) {
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, out, nullptr, kind)) {
    return llvm::createStringError("the code generator of " + machine.getTargetTriple().str() + " cannot write " +
                                   (kind == llvm::CodeGenFileType::ObjectFile ? "objects" : "assembler text"));
  }
  passes.run(module);
  return llvm::Error::success();
}

} // namespace ashlar::target
