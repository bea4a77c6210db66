// SPDX-License-Identifier: Apache-2.0
//
// Build, run, compare; see executable.h.

#include "test/fuzz/executable.h"

#include "compiler/reference/equivalence.h"
#include "compiler/target/constants.h"
#include "compiler/target/cpu/kernels.h"
#include "compiler/target/cuda/kernels.h"
#include "compiler/target/host_code.h"
#include "compiler/target/image_emitter.h"
#include "compiler/target/link.h"
#include "dialects/nn/programs.h"
#include "passes/analysis/step_runs.h"
#include "runtime/data/formats/npy.h"
#include "test/fuzz/random_pipeline.h"
#include "test/fuzz/rounding.h"
#include "test/unit/data/temporary_folder.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstring>
#include <fstream>

using namespace mlir;
using ashlar::reference::Tensor;

namespace ashlar::fuzz {

namespace {

constexpr int64_t kSteps = 4;
constexpr uint64_t kSeed = 1;
constexpr int64_t kPackedRanks = 2; // that share one device

// Results of random models are of these types.
uint32_t elementOf(Type type) {
  if (type.isF32()) {
    return ASHLAR_RT_F32;
  }
  if (type.isF64()) {
    return ASHLAR_RT_F64;
  }
  return type.isInteger(1) ? ASHLAR_RT_BOOL : type.isInteger(32) ? ASHLAR_RT_I32 : ASHLAR_RT_I64;
}

// Calls `body` with a null pointer to the C type of the elements.
template <typename Body> void dispatch(Type type, Body body) {
  switch (elementOf(type)) {
  case ASHLAR_RT_F32:
    return body(static_cast<float *>(nullptr));
  case ASHLAR_RT_F64:
    return body(static_cast<double *>(nullptr));
  case ASHLAR_RT_I32:
    return body(static_cast<int32_t *>(nullptr));
  case ASHLAR_RT_I64:
    return body(static_cast<int64_t *>(nullptr));
  default:
    return body(static_cast<uint8_t *>(nullptr));
  }
}

// Writes tensors of one type, one after the other along dim 0.
std::string writeTensors(const std::string &path, ArrayRef<Tensor> tensors) {
  std::vector<int64_t> shape(tensors.front().getShape());
  if (!shape.empty()) {
    shape.front() *= tensors.size();
  }
  Type type = tensors.front().getType().getElementType();
  std::vector<char> bytes;
  dispatch(type, [&](auto *null) {
    for (const Tensor &tensor : tensors) {
      for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
        auto element = static_cast<std::remove_pointer_t<decltype(null)>>(tensor.getNumber(i));
        bytes.insert(bytes.end(), reinterpret_cast<char *>(&element), reinterpret_cast<char *>(&element + 1));
      }
    }
  });
  rt::Status status = rt::writeNpy(path, elementOf(type), shape, bytes.data());
  return status.ok() ? "" : "cannot write " + path;
}

// Reads a tensor of a known type.
std::string readTensor(const std::string &path, Tensor &tensor) {
  rt::NpyFile file;
  Type type = tensor.getType().getElementType();
  if (!rt::NpyFile::open(path, file).ok() || !file.expect(elementOf(type), std::vector<int64_t>(tensor.getShape())).ok()) {
    return "the output is no file of type and shape of the result";
  }
  dispatch(type, [&](auto *null) {
    auto *elements = static_cast<const std::remove_pointer_t<decltype(null)> *>(file.data());
    for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
      tensor.isFloat() ? tensor.setFloat(i, elements[i]) : tensor.setInt(i, elements[i]);
    }
  });
  return "";
}

// One program in a folder of its own.
class Execution {
public:
  Execution(ModuleOp program, ModuleOp lowered, exec::Target target, const std::string &packFolder)
      : program(program), lowered(lowered), target(target), packFolder(packFolder) {
    function = nn::findProgram(program, nn::ProgramRole::TrainStep);
    trains = static_cast<bool>(function);
    function = trains ? function : nn::findProgram(program, nn::ProgramRole::Run);
    if (std::optional<pipelines::Stages> pipeline = pipelineOf(program)) {
      stages = pipeline->stages;
      microBatches = pipeline->microBatches;
    } else if (trains) {
      microBatches = analysis::runsOfStep(program).lookup(function.getSymName());
    }
  }

  std::string check() {
    if (!function) {
      return "neither @train_step nor @forward";
    }
    if (!packFolder.empty() && (trains || ranks() > kPackedRanks)) {
      return "";
    }
    if (std::string fault = build(); !fault.empty()) {
      return fault;
    }
    FailureOr<std::vector<Tensor>> expected = expect({});
    if (failed(expected)) {
      return "the interpreter cannot run the program";
    }
    return trains ? train(*expected) : packFolder.empty() ? forward(*expected) : pack(*expected);
  }

  // Draws the inputs, and returns what the program must compute from them.
  FailureOr<std::vector<Tensor>> expect(const reference::Observer &observer) {
    for (int64_t batch = 0; batch < (trains ? kSteps * microBatches : 1); ++batch) {
      batches.push_back(randomInputs());
    }
    return interpret(observer);
  }

private:
  std::string name(unsigned i, bool isResult) {
    return (isResult ? function.getResultAttrOfType<StringAttr>(i, nn::kNameAttr) : function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr))
        .str();
  }

  target::ImageInfo imageInfo() {
    target::ImageInfo info;
    info.modelName = "fuzz";
    info.target = exec::stringifyTarget(target).str();
    info.seed = kSeed;
    info.deterministicRefusal = "not in a fuzzed program";
    if (trains) {
      target::TrainingInfo training;
      training.dataset.format = "npy";
      training.dataset.shuffle = false;
      for (unsigned i = 0; i < function.getNumArguments(); ++i) {
        target::FeatureInfo feature;
        feature.column = feature.tensor = name(i, /*isResult=*/false);
        training.dataset.features.push_back(feature);
      }
      training.globalBatch = cast<RankedTensorType>(function.getArgumentTypes().front()).getDimSize(0); // of a micro-batch
      training.accumulate = microBatches;
      training.lossTensor = "loss";
      info.seedTensor = drawsNumbers() ? nn::kSeedVariable.str() : "";
      info.training = training;
    }
    return info;
  }

  // Whether a rank has the seed: no stage of a pipeline may need it.
  bool drawsNumbers() {
    return lowered
        .walk([](exec::VariantOp variant) {
          return SymbolTable::lookupSymbolIn(variant, nn::kSeedVariable) ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  int64_t ranks() { return stages * dist::findMesh(program).getMesh().numDevices(); }

  // Makes the code of the device, and an empty module for the host.
  std::string translateForDevice(llvm::LLVMContext &context, std::unique_ptr<llvm::Module> &host, std::vector<target::DeviceCode> &codes) {
    llvm::Expected<cuda::Toolkit> toolkit = cuda::findToolkit();
    if (!toolkit) {
      return llvm::toString(toolkit.takeError());
    }
    FailureOr<std::vector<target::DeviceCode>> made = cuda::compileKernels(lowered, *toolkit, cuda::Chip{90}, folder.path());
    if (failed(made)) {
      return "kernels cannot be compiled";
    }
    codes = std::move(*made);
    auto module = std::make_unique<llvm::Module>("fuzz", context);
    if (llvm::Error error = target::setHostTarget(*module)) {
      return llvm::toString(std::move(error));
    }
    host = std::move(module);
    return "";
  }

  std::string build() {
    llvm::Expected<target::IncludedFile> constants = target::writeConstants(lowered, folder.file("constants.bin"));
    if (!constants) {
      return llvm::toString(constants.takeError());
    }
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> code;
    std::vector<target::DeviceCode> deviceCodes;
    std::string fault = target == exec::Target::Cuda ? translateForDevice(context, code, deviceCodes) : "";
    if (target == exec::Target::Cpu) {
      code = cpu::translateKernels(lowered, context);
    }
    if (!code) {
      return fault.empty() ? "kernels cannot be translated" : fault;
    }
    if (llvm::Error error = target::emitImage(lowered, imageInfo(), *constants, *code, deviceCodes)) {
      return llvm::toString(std::move(error));
    }
    if (llvm::Error error = target::emitObject(*code, folder.file("program.o"))) {
      return llvm::toString(std::move(error));
    }
    llvm::Expected<target::LinkFiles> files = target::findLinkFiles();
    if (!files) {
      return llvm::toString(files.takeError());
    }
    llvm::Error error = target::linkExecutable(*files, folder.file("program.o"), folder.file("program"));
    return error ? llvm::toString(std::move(error)) : "";
  }

  // Runs the executable in its folder with one rank for each device. More ranks than cores are no mistake here, nor is being root.
  std::string run(const std::string &arguments) {
    // Ranks share the emulator's device: each has the memory it asks for.
    const char *device =
        target == exec::Target::Cuda ? "LD_LIBRARY_PATH=" ASHLAR_EMULATOR_FOLDER " ASHLAR_EMULATOR_VERBOSE=1 ASHLAR_SHARE_DEVICE=1 " : "";
    std::string command = llvm::formatv("cd {0} && {3}OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                                        "OMPI_MCA_rmaps_base_oversubscribe=1 timeout 60 mpirun -n {1} ./program {2} >log 2>&1 </dev/null",
                                        folder.path(), ranks(), arguments, device);
    if (std::system(command.c_str()) == 0) {
      return "";
    }
    // What a rank says comes before what mpirun says of it; the emulator's own remarks are none of it.
    auto log = llvm::MemoryBuffer::getFile(folder.file("log"));
    SmallVector<StringRef> lines;
    if (log) {
      (*log)->getBuffer().split(lines, '\n');
    }
    auto said = llvm::find_if(lines, [](StringRef line) { return !line.starts_with("emulator "); });
    return "the executable failed: " + (said == lines.end() ? "" : said->str());
  }

  SmallVector<Tensor> randomInputs() {
    SmallVector<Tensor> inputs;
    for (Type type : function.getArgumentTypes()) {
      inputs.push_back(reference::randomTensor(cast<RankedTensorType>(type), generator, /*intLimit=*/4));
    }
    return inputs;
  }

  // Returns what the program must compute: its results, or the losses of all steps and the trained parameters.
  FailureOr<std::vector<Tensor>> interpret(const reference::Observer &observer) {
    reference::Interpreter interpreter(program, /*numRanks=*/1, observer);
    interpreter.setSeed(trains ? kSeed : 0); // a forward program draws nothing, so nobody sets its seed
    auto runAlone = [&](nn::ProgramRole role) {
      func::FuncOp alone = nn::findProgram(program, role);
      return !alone || succeeded(interpreter.run(alone.getSymName(), {}));
    };
    if (!runAlone(nn::ProgramRole::Init)) {
      return failure();
    }
    std::vector<Tensor> outcome;
    for (auto [i, batch] : llvm::enumerate(batches)) {
      const bool isFirst = static_cast<int64_t>(i) % microBatches == 0;
      if (isFirst && !runAlone(nn::ProgramRole::Prepare)) {
        return failure();
      }
      FailureOr<std::vector<Tensor>> results = reference::runGlobal(interpreter, function.getSymName(), batch);
      if (failed(results)) {
        return failure();
      }
      if ((static_cast<int64_t>(i) + 1) % microBatches != 0) {
        continue;
      }
      func::FuncOp update = nn::findProgram(program, nn::ProgramRole::Update); // at the end of a step
      if (update && failed(results = reference::runGlobal(interpreter, update.getSymName(), {}))) {
        return failure();
      }
      llvm::append_range(outcome, *results);
    }
    for (nn::VariableOp parameter : parameters()) {
      FailureOr<Tensor> value = reference::getGlobalVariable(interpreter, parameter.getSymName());
      if (failed(value)) {
        return failure();
      }
      outcome.push_back(std::move(*value));
    }
    return outcome;
  }

  // Returns the variables that a training program leaves behind as files.
  SmallVector<nn::VariableOp> parameters() {
    SmallVector<nn::VariableOp> trained;
    for (auto variable : program.getOps<nn::VariableOp>()) {
      if (trains && variable.getTrainable()) {
        trained.push_back(variable);
      }
    }
    return trained;
  }

  // Returns what element `i` of the outcome is called.
  std::string outcomeName(size_t i) {
    if (trains && i >= kSteps) {
      return "parameter " + parameters()[i - kSteps].getSymName().str();
    }
    return llvm::formatv("{0} {1}", trains ? "loss" : "result", i);
  }

  // Returns what is wrong with what the executable computed.
  std::string compare(ArrayRef<Tensor> expected, ArrayRef<Tensor> computed) {
    std::vector<ComparedTensor> tensors;
    for (auto [i, pair] : llvm::enumerate(llvm::zip_equal(expected, computed))) {
      auto &[x, y] = pair;
      tensors.push_back({outcomeName(i) + " of the executable", &x, &y});
    }
    return compareRounded(tensors, executableTolerances(), [&](const reference::Observer &observer) { return interpret(observer); }).fault;
  }

  Tolerances executableTolerances() { return tolerancesOf(precisionOf(program)); }

  std::string forward(ArrayRef<Tensor> expected) {
    std::string arguments;
    for (auto [i, input] : llvm::enumerate(batches.front())) {
      std::string file = name(i, /*isResult=*/false) + ".in.npy", fault = writeTensors(folder.file(file), input);
      if (!fault.empty()) {
        return fault;
      }
      arguments += " --input " + name(i, /*isResult=*/false) + "=" + file;
    }
    if (std::string fault = run(arguments); !fault.empty()) {
      return fault;
    }
    std::vector<Tensor> computed;
    for (auto [i, tensor] : llvm::enumerate(expected)) {
      computed.emplace_back(tensor.getType());
      if (std::string fault = readTensor(folder.file(name(i, /*isResult=*/true) + ".npy"), computed.back()); !fault.empty()) {
        return fault;
      }
    }
    return compare(expected, computed);
  }

  // Keeps the executable, its inputs, what it must compute, and how far off any of it may be.
  std::string pack(ArrayRef<Tensor> expected) {
    auto path = [&](const Twine &file) { return (packFolder + "/" + file).str(); };
    if (std::error_code error = llvm::sys::fs::create_directories(packFolder)) {
      return "cannot create " + packFolder + ": " + error.message();
    }
    std::string fault;
    for (auto [i, input] : llvm::enumerate(batches.front())) {
      fault += writeTensors(path("in." + name(i, /*isResult=*/false) + ".npy"), input);
    }
    std::vector<ComparedTensor> tensors;
    for (auto [i, result] : llvm::enumerate(expected)) {
      fault += writeTensors(path("out." + name(i, /*isResult=*/true) + ".npy"), result);
      tensors.push_back({name(i, /*isResult=*/true), &result, &result});
    }
    std::ofstream(path("tolerance")) << largestAllowance(tensors, executableTolerances(), [&](const reference::Observer &observer) {
      return interpret(observer);
    }) << "\n";
    std::ofstream(path("ranks")) << ranks() << "\n";
    std::error_code error = llvm::sys::fs::copy_file(folder.file("program"), path("program"));
    if (error || (error = llvm::sys::fs::setPermissions(path("program"), llvm::sys::fs::perms(0755)))) {
      return "cannot write " + path("program") + ": " + error.message();
    }
    return fault;
  }

  std::string train(ArrayRef<Tensor> expected) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      SmallVector<Tensor> column = llvm::map_to_vector(batches, [i](const SmallVector<Tensor> &batch) { return batch[i]; });
      if (std::string fault = writeTensors(folder.file(name(i, /*isResult=*/false) + "_train.npy"), column); !fault.empty()) {
        return fault;
      }
    }
    std::string fault = run("--data . --log-every 1 --save-parameters parameters");
    std::vector<Tensor> computed;
    fault = fault.empty() ? readLosses(expected, computed) : fault;
    for (nn::VariableOp parameter : parameters()) {
      computed.emplace_back(parameter.getTensorType());
      if (fault.empty()) {
        fault = readTensor(folder.file("parameters/" + parameter.getSymName().str() + ".npy"), computed.back());
      }
    }
    return fault.empty() ? compare(expected, computed) : fault;
  }

  // Reads the lines "epoch: 1 step: 2, loss is 0.5, ...".
  std::string readLosses(ArrayRef<Tensor> expected, std::vector<Tensor> &losses) {
    auto log = llvm::MemoryBuffer::getFile(folder.file("log"));
    SmallVector<StringRef> lines;
    StringRef(log ? (*log)->getBuffer() : "").split(lines, '\n');
    for (StringRef line : lines) {
      StringRef number = line.split(", loss is ").second.split(',').first.trim();
      double loss;
      if (line.starts_with("epoch: ") && !number.getAsDouble(loss)) {
        losses.emplace_back(expected.front().getType());
        losses.back().setFloat(0, loss);
      }
    }
    return losses.size() == kSteps ? "" : llvm::formatv("the executable printed {0} losses, not {1}", losses.size(), kSteps).str();
  }

  ModuleOp program, lowered;
  exec::Target target;
  std::string packFolder;
  func::FuncOp function;
  bool trains;
  int64_t stages = 1, microBatches = 1; // of a step
  std::mt19937_64 generator{kSeed};
  SmallVector<SmallVector<Tensor>> batches; // one of a forward program; of the micro-batches of all steps
  test::TemporaryFolder folder;
};

} // namespace

std::string checkExecutable(ModuleOp program, ModuleOp lowered, exec::Target target, const std::string &packFolder) {
  return Execution(program, lowered, target, packFolder).check();
}

FailureOr<std::vector<Tensor>> expectedOutcome(ModuleOp program, const reference::Observer &observer) {
  return Execution(program, /*lowered=*/{}, exec::Target::Cpu, /*packFolder=*/"").expect(observer);
}

} // namespace ashlar::fuzz
