// SPDX-License-Identifier: Apache-2.0
//
// Each option is one number: its value, 1 for a flag, or a hash. Data are a text and a hash.

#include "runtime/run/same_options.h"

#include "runtime/base/host.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ashlar::rt {
namespace {

constexpr size_t kOptions = 23;
constexpr uint64_t kNotGiven = UINT64_MAX;

// What stands behind an option on the command line.
enum class Shape { kNumber, kRange, kFlag, kTensors };

struct Told {
  const char *name;
  Shape shape;
  uint64_t value;
};

// The rules of --rename, in their order.
uint64_t hashRenames(const Options &options) {
  std::string text;
  for (const auto &[from, to] : options.renames) {
    text += from + "=" + to + "\n";
  }
  return text.empty() ? kNotGiven : hashText(text);
}

// The tensors that --output names: which they are, not where they go.
uint64_t hashOutputs(const Options &options) {
  std::vector<std::string> names;
  for (const auto &output : options.outputs) {
    names.push_back(output.first);
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string &name : names) {
    text += name + "\n";
  }
  return names.empty() ? kNotGiven : hashText(text);
}

// `tellsLines`: all ranks take part in a line of the log.
std::array<Told, kOptions> tell(const Options &options, bool tellsLines) {
  const uint64_t logEvery = options.logEveryEpoch ? kNotGiven : options.logEvery;
  return {{{"ASHLAR_REPEAT_BATCH", Shape::kFlag, options.repeatsBatch ? 1 : kNotGiven}, // first: it changes others
           {"--log-every", Shape::kNumber, tellsLines ? logEvery : 0},
           {"--steps", Shape::kNumber, options.steps.value_or(kNotGiven)},
           {"--epochs", Shape::kNumber, options.epochs},
           {"--seed", Shape::kNumber, options.seed},
           {"--eval", Shape::kFlag, options.evaluate ? 1 : kNotGiven},
           {"--check-numerics", Shape::kFlag, options.checkNumerics ? 1 : kNotGiven},
           {"--save-parameters", Shape::kFlag, !options.parameterDirectory.empty() ? 1 : kNotGiven},
           {"--checkpoint-dir", Shape::kFlag, options.savesCheckpoints ? 1 : kNotGiven},
           {"--save-every", Shape::kNumber, options.saveEvery},
           {"--checkpoint-local", Shape::kNumber, options.checkpointParts != 0 ? options.checkpointParts : kNotGiven},
           {"--sync-checkpoint", Shape::kFlag, options.syncCheckpoint ? 1 : kNotGiven},
           {"--resume", Shape::kFlag, !options.resume.empty() ? 1 : kNotGiven},
           {"--resume latest", Shape::kFlag, options.resume == kLatest ? 1 : kNotGiven},
           {"--resume-partial", Shape::kFlag, options.resumePartial ? 1 : kNotGiven},
           {"--init-from", Shape::kFlag, !options.initFrom.empty() ? 1 : kNotGiven},
           {"--init-partial", Shape::kFlag, options.initPartial ? 1 : kNotGiven},
           {"--rename", Shape::kTensors, hashRenames(options)},
           {"--export", Shape::kFlag, !options.exportFile.empty() ? 1 : kNotGiven},
           {"--trace", Shape::kFlag, !options.traceFile.empty() ? 1 : kNotGiven},
           {"--trace-steps", Shape::kRange, options.traceFirst != 0 ? options.traceFirst << 32 | options.traceLast : kNotGiven},
           {"--benchmark", Shape::kNumber, options.benchmark != 0 ? options.benchmark : kNotGiven},
           {"--output", Shape::kTensors, hashOutputs(options)}}};
}

std::string describe(const Told &option, uint64_t value) {
  if (value == kNotGiven) {
    return fmt::format("without {}", option.name);
  }
  switch (option.shape) {
  case Shape::kNumber:
    return fmt::format("with {} {}", option.name, value);
  case Shape::kRange:
    return fmt::format("with {} {}-{}", option.name, value >> 32, value & UINT32_MAX);
  case Shape::kFlag:
    return fmt::format("with {}", option.name);
  default:
    return fmt::format("with {} for tensors of its own", option.name);
  }
}

} // namespace

Status checkSameOptions(const Options &options, Communicator &communicator) {
  const bool isPipeline = communicator.mesh().processes() != communicator.processes();
  std::array<Told, kOptions> mine = tell(options, isPipeline);
  std::array<uint64_t, kOptions> values;
  std::transform(mine.begin(), mine.end(), values.begin(), [](const Told &option) { return option.value; });
  std::vector<uint64_t> all(kOptions * static_cast<size_t>(communicator.processes()));
  ASHLAR_RETURN_IF_ERROR(communicator.allGather(values.data(), sizeof(values), all.data()));
  for (size_t i = 0; i < kOptions; ++i) {
    if (values[i] != all[i]) {
      return invalid("started {} but rank 0 {}; give all ranks the same options", describe(mine[i], values[i]), describe(mine[i], all[i]));
    }
  }
  return Status();
}

Status checkSameData(const std::vector<DataFacts> &facts, Communicator &communicator) {
  struct Told {
    uint64_t text;
    uint64_t contents;
    char excerpt[512];
  };
  static_assert(sizeof(Told) <= kLargestGather);
  Status status; // all ranks gather all facts, whatever they find
  for (const DataFacts &mine : facts) {
    Told told = {};
    told.text = hashText(mine.text);
    told.contents = mine.contents;
    std::strncpy(told.excerpt, mine.text.c_str(), sizeof(told.excerpt) - 1);
    std::vector<Told> all(static_cast<size_t>(communicator.processes()));
    ASHLAR_RETURN_IF_ERROR(communicator.allGather(&told, sizeof(told), all.data()));
    if (told.text != all[0].text) {
      status.update(invalid("{} is {} but rank 0's is {}; give all ranks the same files", mine.what, told.excerpt, all[0].excerpt));
    } else if (told.contents != all[0].contents) {
      status.update(invalid("{} of {} holds other numbers (hash {:016x}) than rank 0's (hash {:016x}); give all ranks the same files",
                            mine.what, told.excerpt, told.contents, all[0].contents));
    }
  }
  return status;
}

} // namespace ashlar::rt
