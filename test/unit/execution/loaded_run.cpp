// SPDX-License-Identifier: Apache-2.0
//
// Compiles by ashlarc, loads the object, and compares.

#include "test/unit/execution/loaded_run.h"

#include "test/unit/data/temporary_folder.h"
#include "test/unit/frontend/onnx_model.h"
#include "test/unit/plan/loaded_image.h"

#include "compiler/reference/interpreter.h"
#include "runtime/comm/local/local.h"
#include "runtime/run/target_runtime.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <sstream>

namespace ashlar::test {
namespace {

constexpr int64_t kBatch = 32, kFeatures = 64, kHidden = 96, kClasses = 10;
constexpr int64_t kCounted = 30; // samples of an evaluated batch that count
constexpr int64_t kSeed = 7;

// Sums of up to 96 products in f32, in another order than the interpreter's, and two steps.
constexpr double kTolerance = 1e-4;

std::vector<double> randomValues(int64_t count, std::mt19937_64 &random) {
  std::vector<double> values(count);
  for (double &value : values) {
    value = std::uniform_real_distribution<float>(-0.5, 0.5)(random);
  }
  return values;
}

void writeModel(const TemporaryFolder &folder, bool trains) {
  std::mt19937_64 random(1);
  OnnxModel model(17);
  constexpr int32_t kFloat = onnx::TensorProto::FLOAT;
  model.input("x", {kBatch, kFeatures});
  model.initializer("w1", kFloat, {kFeatures, kHidden}, randomValues(kFeatures * kHidden, random));
  model.initializer("b1", kFloat, {kHidden}, randomValues(kHidden, random));
  model.initializer("w2", kFloat, {kHidden, kClasses}, randomValues(kHidden * kClasses, random));
  model.initializer("ratio", kFloat, {}, {0.25}).initializer("training", onnx::TensorProto::BOOL, {}, {trains ? 1.0 : 0.0});
  model.node("Gemm", {"x", "w1", "b1"}, {"h"}).node("Relu", {"h"}, {"r"}).node("Dropout", {"r", "ratio", "training"}, {"d"});
  model.node("MatMul", {"d", "w2"}, {"logits"}).output("logits");
  folder.write("model.onnx", model.proto.SerializeAsString());
  folder.write("job.txtpb", "global_batch: 32 loss { softmax_cross_entropy { logits: \"logits\" labels: \"labels\" } }\n"
                            "optimizer { momentum {} learning_rate: 0.5 } epochs: 1 deterministic { chunks: 4 }\n"
                            "dataset { npy {} features { column: \"x\" tensor: \"x\" } features { column: \"y\" tensor: \"labels\" } }\n");
}

// Returns the element type of a tensor.
mlir::Type elementType(uint32_t dtype) {
  REQUIRE((dtype == ASHLAR_RT_F32 || dtype == ASHLAR_RT_I32 || dtype == ASHLAR_RT_I64));
  if (dtype == ASHLAR_RT_F32) {
    return mlir::Float32Type::get(&context());
  }
  return mlir::IntegerType::get(&context(), dtype == ASHLAR_RT_I32 ? 32 : 64);
}

// Returns element `i` of a tensor's bytes.
double elementOf(uint32_t dtype, const std::vector<char> &bytes, int64_t i) {
  auto as = [&](auto value) {
    std::memcpy(&value, bytes.data() + i * sizeof(value), sizeof(value));
    return static_cast<double>(value);
  };
  return dtype == ASHLAR_RT_F32 ? as(float{}) : dtype == ASHLAR_RT_I32 ? as(int32_t{}) : as(int64_t{});
}

// Sets element `i` of a tensor's bytes.
void setElement(uint32_t dtype, char *bytes, int64_t i, double number) {
  auto set = [&](auto value) { std::memcpy(bytes + i * sizeof(value), &value, sizeof(value)); };
  dtype == ASHLAR_RT_F32   ? set(static_cast<float>(number))
  : dtype == ASHLAR_RT_I32 ? set(static_cast<int32_t>(number))
                           : set(static_cast<int64_t>(number));
}

// The executor of an image and the interpreter of the same program, side by side.
class SideBySide {
public:
  SideBySide(const ashlar_rt_image &image, const ashlar_rt_variant &variant, mlir::ModuleOp module)
      : variant(variant), module(module), interpreter(module) {
    REQUIRE(rt::createLocalCommunicators(variant, communicators).ok());
    REQUIRE(communicators.size() == 1);
    rt::Status made =
        rt::findTargetRuntime(image)->createExecutor({image, variant, *communicators[0], pool, {}, [](const rt::Status &) {}}, executor);
    INFO(made.message());
    REQUIRE(made.ok());
    for (uint32_t i = 0; i < variant.num_tensors; ++i) {
      const ashlar_rt_tensor &tensor = variant.tensors[i];
      std::vector<int64_t> shape(tensor.global_shape, tensor.global_shape + tensor.rank);
      // The arena starts as zeros.
      expected.emplace(tensor.name, mlir::RankedTensorType::get(shape, elementType(tensor.buffer.dtype)));
    }
    if (image.seed_tensor) {
      interpreter.setSeed(kSeed);
      expected.at(image.seed_tensor).setInt(0, kSeed);
      write(*executor->tensor(image.seed_tensor));
    }
  }

  // Runs a program on both, from new inputs.
  void run(const ashlar_rt_program &program) {
    auto function = module.lookupSymbol<mlir::func::FuncOp>(program.name);
    REQUIRE(function.getNumArguments() == program.num_inputs);
    REQUIRE(function.getNumResults() == program.num_outputs);
    std::vector<reference::RankTensors> inputs;
    for (uint32_t i = 0; i < program.num_inputs; ++i) {
      const ashlar_rt_tensor &tensor = variant.tensors[program.inputs[i]];
      fill(expected.at(tensor.name));
      write(tensor);
      inputs.push_back({expected.at(tensor.name)});
    }
    REQUIRE(executor->run(executor->at(&program - variant.programs)).ok());
    auto results = interpreter.run(program.name, inputs);
    REQUIRE(succeeded(results));
    for (uint32_t i = 0; i < program.num_outputs; ++i) {
      expected.at(variant.tensors[program.outputs[i]].name) = (*results)[i].front();
    }
    for (uint32_t i = 0; i < variant.num_tensors; ++i) {
      const ashlar_rt_tensor &tensor = variant.tensors[i];
      if (tensor.role == ASHLAR_RT_VARIABLE || tensor.role == ASHLAR_RT_STATE) {
        REQUIRE(interpreter.getVariable(tensor.name));
        expected.at(tensor.name) = interpreter.getVariable(tensor.name)->front();
      }
    }
  }

  // Reads every tensor of every device back. Returns how many elements are not zero, and so cannot be right by chance.
  int64_t checkAll() {
    int64_t nonzero = 0;
    for (uint32_t i = 0; i < variant.num_tensors; ++i) {
      const ashlar_rt_tensor &tensor = variant.tensors[i];
      const reference::Tensor &whole = expected.at(tensor.name);
      for (int device = 0; device < static_cast<int>(variant.devices_per_process); ++device) {
        INFO(tensor.name << " of device " << device);
        std::vector<char> bytes(tensor.buffer.bytes, 1);
        REQUIRE(executor->read(tensor, device, bytes.data()).ok());
        double allowed = whole.isFloat() ? kTolerance : 0;
        int64_t wrong = 0;
        forEachElement(tensor, device, [&](int64_t local, int64_t global) {
          double want = whole.getNumber(global), have = elementOf(tensor.buffer.dtype, bytes, local);
          wrong += !(std::abs(have - want) <= allowed * std::max(1.0, std::abs(want)));
          nonzero += want != 0;
        });
        CHECK(wrong == 0);
      }
    }
    return nonzero;
  }

private:
  // Calls body(local, global) for each element of a device's piece: its places in the piece and in the whole tensor.
  template <typename Body> void forEachElement(const ashlar_rt_tensor &tensor, int device, Body body) {
    reference::Index local(tensor.local_shape, tensor.local_shape + tensor.rank);
    reference::forEachIndex(local, [&](llvm::ArrayRef<int64_t> index, int64_t position) {
      int64_t global = 0;
      for (uint32_t d = 0; d < tensor.rank; ++d) {
        int64_t begin = tensor.splits[d].num_axes == 1 ? device * tensor.local_shape[d] : 0; // the mesh has one axis
        global = global * tensor.global_shape[d] + begin + index[d];
      }
      body(position, global);
    });
  }

  // Fills an input: features, class labels, or the number of samples that count.
  void fill(reference::Tensor &input) {
    for (int64_t i = 0; i < input.getNumElements(); ++i) {
      if (input.isFloat()) {
        input.setFloat(i, std::uniform_real_distribution<float>(-1, 1)(random));
      } else {
        input.setInt(i, input.getShape().empty() ? kCounted : static_cast<int64_t>(random() % kClasses));
      }
    }
  }

  void write(const ashlar_rt_tensor &tensor) {
    for (int device = 0; device < static_cast<int>(variant.devices_per_process); ++device) {
      rt::Status written = executor->write(tensor, device, [&](char *data) {
        forEachElement(tensor, device, [&](int64_t local, int64_t global) {
          setElement(tensor.buffer.dtype, data, local, expected.at(tensor.name).getNumber(global));
        });
      });
      REQUIRE(written.ok());
    }
  }

  const ashlar_rt_variant &variant;
  mlir::ModuleOp module;
  reference::Interpreter interpreter;
  std::vector<std::unique_ptr<rt::Communicator>> communicators;
  rt::ThreadPool pool;
  std::unique_ptr<rt::Executor> executor;
  std::map<std::string, reference::Tensor> expected; // by name, whole
  std::mt19937_64 random{2};
};

} // namespace

const ashlar_rt_image *compileAndLoad(const std::string &folder, const std::string &arguments) {
  std::string command = "cd " + folder + " && " ASHLARC " " + arguments + " --emit obj -o program.o";
  REQUIRE(std::system(command.c_str()) == 0);
  return loadImage(folder + "/program.o");
}

void checkReads(const std::string &target, bool trains, const std::string &variantName) {
  TemporaryFolder folder;
  writeModel(folder, trains);
  std::string arguments = "model.onnx --target " + target + (trains ? " --job job.txtpb" : "");
  std::string command = "cd " + folder.path() + " && " ASHLARC " " + arguments + " --emit nn -o program.mlir";
  REQUIRE(std::system(command.c_str()) == 0);
  std::stringstream text;
  text << std::ifstream(folder.file("program.mlir")).rdbuf();
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(text.str());
  const ashlar_rt_image *image = compileAndLoad(folder.path(), arguments);
  const ashlar_rt_variant *variant = std::find_if(image->variants, image->variants + image->num_variants,
                                                  [&](const ashlar_rt_variant &one) { return one.name == variantName; });
  REQUIRE(variant != image->variants + image->num_variants);
  SideBySide both(*image, *variant, *module);
  int64_t nonzero = 0;
  for (int round = 0; round < 2; ++round) { // a program that runs again is replayed on cuda
    for (ashlar_rt_program_role role : {ASHLAR_RT_INIT, ASHLAR_RT_TRAIN_STEP, ASHLAR_RT_EVAL_STEP, ASHLAR_RT_RUN}) {
      for (uint32_t i = 0; i < variant->num_programs; ++i) {
        if (variant->programs[i].id.role == role) {
          INFO(variant->programs[i].name << " of round " << round);
          both.run(variant->programs[i]);
          nonzero = both.checkAll();
        }
      }
    }
  }
  CHECK(nonzero > (trains ? 2 * kFeatures * kHidden : kBatch * kFeatures)); // a weight and its momentum; or the inputs and more
}

} // namespace ashlar::test
