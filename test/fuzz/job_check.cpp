// SPDX-License-Identifier: Apache-2.0
//
// Compile, run, compare; see job_check.h.

#include "test/fuzz/job_check.h"

#include "runtime/data/formats/npy.h"
#include "test/unit/data/temporary_folder.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

using namespace mlir;
using ashlar::reference::Tensor;
using llvm::formatv;

namespace ashlar::fuzz {

namespace {

constexpr double kPrinted = 1e-4; // --eval prints four digits behind the point

std::string textOf(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

template <typename T> bool write(const std::string &path, uint32_t element, const DataFile &file) {
  std::vector<T> elements(file.values.begin(), file.values.end());
  return rt::writeNpy(path, element, file.shape, elements.data()).ok();
}

bool writeData(const std::string &path, const DataFile &file) {
  if (file.element == "f32") {
    return write<float>(path, ASHLAR_RT_F32, file);
  }
  if (file.element == "f64") {
    return write<double>(path, ASHLAR_RT_F64, file);
  }
  if (file.element == "u8") {
    return write<uint8_t>(path, ASHLAR_RT_U8, file);
  }
  return file.element == "i32" ? write<int32_t>(path, ASHLAR_RT_I32, file) : write<int64_t>(path, ASHLAR_RT_I64, file);
}

// Numbers with a name, in f64.
struct Numbers {
  std::string name;
  Tensor values;
};

Numbers numbersOf(MLIRContext &context, const std::string &name, const std::vector<double> &values) {
  Tensor tensor(RankedTensorType::get({static_cast<int64_t>(values.size())}, Float64Type::get(&context)));
  for (auto [i, value] : llvm::enumerate(values)) {
    tensor.setFloat(i, value);
  }
  return {name, tensor};
}

// Numbers that a job comes to: what each line of the log says, and each parameter as its file has it; behind them what --eval prints.
std::vector<Numbers> outcomeOf(MLIRContext &context, const RandomJob &job, const Rounding &rounding) {
  TrainingOutcome outcome = trainReference(job.training, rounding);
  std::vector<double> losses;
  for (const LogLine &line : outcome.lines) {
    losses.push_back(line.loss);
  }
  std::vector<Numbers> numbers = {numbersOf(context, "loss lines", losses)};
  for (auto [l, layer] : llvm::enumerate(outcome.layers)) {
    std::vector<double> weight;
    for (int64_t i = 0; i < layer.inputs * layer.outputs; ++i) {
      bool isTransposed = job.isTransposed[l];
      weight.push_back(layer.weight[isTransposed ? i % layer.outputs * layer.inputs + i / layer.outputs : i]);
    }
    if (!layer.weightIsFrozen) {
      numbers.push_back(numbersOf(context, layer.name + ".weight", weight));
    }
    if (!layer.bias.empty()) {
      numbers.push_back(numbersOf(context, layer.name + ".bias", layer.bias));
    }
  }
  numbers.push_back(numbersOf(context, "eval", {outcome.evaluationLoss, static_cast<double>(outcome.correct)}));
  return numbers;
}

// Returns random roundings of a job's precision.
Rounding noise(const RandomJob &job, uint64_t seed) {
  constexpr double kUnit32 = 0x1p-20; // parameters are f32 in every precision
  auto generator = std::make_shared<std::mt19937_64>(seed);
  auto by = [generator](double unit) {
    return [generator, unit](double x) { return x * (1 + unit * (static_cast<double>((*generator)() >> 11) * 0x1p-52 - 1)); };
  };
  return {by(job.unit), by(kUnit32)};
}

class JobRun {
public:
  JobRun(MLIRContext &context, const RandomJob &job) : context(context), job(job) {}

  Verdict check() {
    folder.write("model.onnx", job.model);
    folder.write("job.txtpb", job.job);
    for (auto &[name, file] : job.data) {
      if (!writeData(folder.file(name + ".npy"), file)) {
        return {FailureKind::Program, "cannot write " + name + ".npy"};
      }
    }
    if (!run(ASHLAR_COMPILER " model.onnx --job job.txtpb -o program", "compile.log")) {
      return {FailureKind::Executable, "the job does not compile: " + firstLine("compile.log")};
    }
    std::string ranks = job.ranks == 1 ? std::string() : formatv("mpirun -n {0} ", job.ranks);
    if (!run(ranks + "./program --data . --eval --save-parameters parameters", "log")) {
      bool isRight = textOf(folder.file("log")).find("error: the loss of") != std::string::npos && diverges();
      return isRight ? Verdict() : Verdict{FailureKind::Executable, "the executable failed: " + firstLine("log")};
    }
    return compare();
  }

  void keep(const std::string &path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    std::filesystem::copy(folder.path(), path, std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing,
                          error);
  }

private:
  bool run(const std::string &command, const std::string &log) {
    std::string line =
        formatv("cd {0} && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 timeout "
                "60 {1} >{2} 2>&1 </dev/null",
                folder.path(), command, log);
    return std::system(line.c_str()) == 0;
  }

  // Whether a loss is no number of f32, which ends the run.
  bool diverges() {
    std::vector<Numbers> expected = outcomeOf(context, job, {});
    auto isBeyond = [](const Tensor &tensor) {
      return llvm::any_of(llvm::seq<int64_t>(0, tensor.getNumElements()),
                          [&](int64_t i) { return !(std::abs(tensor.getNumber(i)) <= std::numeric_limits<float>::max()); });
    };
    return isBeyond(expected.front().values) || isBeyond(expected.back().values);
  }

  std::string firstLine(const std::string &log) {
    std::string text = textOf(folder.file(log));
    return text.substr(0, text.find('\n'));
  }

  Verdict compare() {
    std::vector<Numbers> expected = outcomeOf(context, job, {});
    std::vector<Numbers> computed;
    if (std::string fault = read(expected, computed); !fault.empty()) {
      return {FailureKind::Executable, fault};
    }
    Precision precision = job.isNarrow ? Precision::Narrow : Precision::F32;
    Tolerances tolerances = tolerancesOf(precision), printed = tolerances;
    printed.close = kPrinted;
    Comparison trained = compareFrom(0, expected.size() - 1, expected, computed, tolerances);
    Comparison evaluated = compareFrom(expected.size() - 1, expected.size(), expected, computed, printed);
    std::string fault = trained.fault.empty() ? evaluated.fault : trained.fault;
    Verdict verdict{fault.empty() ? FailureKind::None : FailureKind::Executable, fault, trained.difference};
    verdict.elements = trained.elements + evaluated.elements;
    verdict.undecided = trained.undecided + evaluated.undecided;
    verdict.precision = precision;
    return verdict;
  }

  Comparison compareFrom(size_t begin, size_t end, const std::vector<Numbers> &expected, const std::vector<Numbers> &computed,
                         const Tolerances &tolerances) {
    std::vector<ComparedTensor> tensors;
    for (size_t i = begin; i < end; ++i) {
      tensors.push_back({expected[i].name, &expected[i].values, &computed[i].values});
    }
    uint64_t runs = 0;
    return compareRounded(tensors, tolerances, [&](const reference::Observer &) -> FailureOr<std::vector<Tensor>> {
      std::vector<Numbers> moved = outcomeOf(context, job, noise(job, runs++));
      std::vector<Tensor> values;
      for (size_t i = begin; i < end; ++i) {
        values.push_back(moved[i].values);
      }
      return values;
    });
  }

  // Reads what the run left behind, in the order of `expected`.
  std::string read(const std::vector<Numbers> &expected, std::vector<Numbers> &computed) {
    std::vector<double> losses;
    std::istringstream log(textOf(folder.file("log")));
    double evaluation = std::nan("");
    long correct = 0, rows = 0;
    std::vector<LogLine> lines;
    for (std::string line; std::getline(log, line);) {
      LogLine found{};
      (void)std::sscanf(line.c_str(), "eval: loss is %lf, accuracy is %*f (%ld of %ld)", &evaluation, &correct, &rows);
      if (std::sscanf(line.c_str(), "epoch: %ld step: %ld, loss is %lf", &found.epoch, &found.step, &found.loss) == 3) {
        lines.push_back(found);
        losses.push_back(found.loss);
      }
    }
    if (std::string fault = checkLines(lines, rows); !fault.empty()) {
      return fault;
    }
    for (const Numbers &numbers : llvm::ArrayRef(expected).drop_front().drop_back()) {
      rt::NpyFile file;
      std::vector<int64_t> shape = shapeOf(numbers.name);
      rt::Status opened = rt::NpyFile::open(folder.file("parameters/" + numbers.name + ".npy"), file);
      if (!opened.ok() || !file.expect(ASHLAR_RT_F32, shape).ok()) {
        return "parameters/" + numbers.name + ".npy is no file of its type and shape";
      }
      auto *elements = static_cast<const float *>(file.data());
      computed.push_back(numbersOf(context, numbers.name, std::vector<double>(elements, elements + numbers.values.getNumElements())));
    }
    computed.insert(computed.begin(), numbersOf(context, "loss lines", losses));
    computed.push_back(numbersOf(context, "eval", {evaluation, static_cast<double>(correct)}));
    return "";
  }

  // Returns the shape of a parameter in the model.
  std::vector<int64_t> shapeOf(const std::string &parameter) {
    for (auto [l, layer] : llvm::enumerate(job.training.layers)) {
      if (parameter == layer.name + ".bias") {
        return {layer.outputs};
      }
      if (parameter == layer.name + ".weight") {
        return job.isTransposed[l] ? std::vector<int64_t>{layer.inputs, layer.outputs} : std::vector<int64_t>{layer.outputs, layer.inputs};
      }
    }
    return {};
  }

  // Compares epochs, steps and counts, which no rounding touches.
  std::string checkLines(const std::vector<LogLine> &lines, int64_t rows) {
    std::vector<LogLine> expected = trainReference(job.training, {}).lines;
    if (lines.size() != expected.size()) {
      return formatv("the log has {0} lines with a loss, not {1}", lines.size(), expected.size());
    }
    for (auto [x, y] : llvm::zip_equal(expected, lines)) {
      if (x.epoch != y.epoch || x.step != y.step) {
        return formatv("the log says epoch {0} step {1} where epoch {2} step {3} is due", y.epoch, y.step, x.epoch, x.step);
      }
    }
    // Of a loss that the model computes, no rows are known.
    const TrainingJob &training = job.training;
    int64_t counted = training.loss == LossKind::ModelEntropy
                          ? 0
                          : llvm::count_if(training.evaluation.labels, [&](int64_t label) { return training.rows.of(label) > 0; });
    return rows == counted ? "" : formatv("{0} samples were evaluated, not {1}", rows, counted).str();
  }

  MLIRContext &context;
  const RandomJob &job;
  test::TemporaryFolder folder;
};

} // namespace

Verdict checkJob(MLIRContext &context, const RandomJob &job, const std::string &keepFolder) {
  JobRun run(context, job);
  Verdict verdict = run.check();
  if (!keepFolder.empty()) {
    run.keep(keepFolder);
  }
  return verdict;
}

} // namespace ashlar::fuzz
