// SPDX-License-Identifier: Apache-2.0
//
// A forward run: .npy files in, one run of the model, .npy files out. Every device takes its piece of the inputs.

#include "runtime/base/dtype.h"
#include "runtime/base/philox.h"
#include "runtime/data/formats/npy.h"
#include "runtime/run/checkpoint/loader.h"
#include "runtime/run/checkpoint/output_tensors.h"
#include "runtime/run/checkpoint/shard.h"
#include "runtime/run/run_files.h"
#include "runtime/run/same_options.h"
#include "runtime/run/session.h"
#include "runtime/run/tracer.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>

namespace ashlar::rt {
namespace {

// Names of tensors for an error: "x, y".
std::string nameList(const ashlar_rt_variant &variant, const std::vector<uint32_t> &indices) {
  std::string list;
  for (uint32_t index : indices) {
    list += (list.empty() ? "" : ", ") + std::string(variant.tensors[index].name);
  }
  return list;
}

// The file that a tensor is bound to on the command line; null when it is not.
const std::string *findBinding(const std::vector<std::pair<std::string, std::string>> &bindings, const char *name) {
  auto found = std::find_if(bindings.begin(), bindings.end(), [&](const auto &binding) { return binding.first == name; });
  return found == bindings.end() ? nullptr : &found->second;
}

// Fills a buffer with random numbers.
void fillRandom(const ashlar_rt_buffer &buffer, uint64_t seed, uint32_t stream, char *data) {
  size_t width = dtypeBytes(buffer.dtype);
  for (uint64_t i = 0; i < buffer.bytes / width; ++i) {
    PhiloxWords words = philoxWords(seed, stream, /*counter=*/0, i);
    float single = uniformFloat(words);
    double wide = uniformDouble(words);
    uint32_t bits = 0;
    std::memcpy(&bits, &single, sizeof(bits));
    uint16_t brain = static_cast<uint16_t>(bits >> 16);               // truncated
    uint16_t half = static_cast<uint16_t>(0x3800 | (words[0] >> 22)); // [0.5, 1)
    int64_t integer = words[0] & 1;
    const void *value = buffer.dtype == ASHLAR_RT_F32    ? static_cast<const void *>(&single)
                        : buffer.dtype == ASHLAR_RT_F64  ? static_cast<const void *>(&wide)
                        : buffer.dtype == ASHLAR_RT_BF16 ? static_cast<const void *>(&brain)
                        : buffer.dtype == ASHLAR_RT_F16  ? static_cast<const void *>(&half)
                                                         : static_cast<const void *>(&integer);
    std::memcpy(data + i * width, value, width);
  }
}

// What a benchmark prints.
std::string benchmarkLine(Benchmark &result) {
  auto middle = result.seconds.begin() + static_cast<std::ptrdiff_t>(result.seconds.size() / 2);
  std::nth_element(result.seconds.begin(), middle, result.seconds.end());
  std::string line = fmt::format("forward: {:.2f} us a run, median of {}", 1e6 * *middle, result.seconds.size());
  if (result.copyBytes != 0) {
    line += fmt::format("; a copy of {} bytes within the GPU: {:.1f} GB/s", result.copyBytes, 1e-9 * result.copyBytesPerSecond);
  }
  return line;
}

class ForwardRun {
public:
  explicit ForwardRun(Session &session) : session(session), variant(*session.variant), loader(session) {}

  // Looks into the file that the variables start from. Ranks agree on it.
  Status findWeights() {
    ASHLAR_RETURN_IF_ERROR(loader.open());
    return session.communicator->agree(loader.checkTensors());
  }

  // Checks that no output takes the place of another file of the run.
  Status checkRoles() const {
    FileRoles files = filesOf(session, loader, outputs, "--output");
    for (const auto &[input, path] : session.options->inputs) {
      files.addInput("the file of --input " + input, path);
    }
    return checkFiles(files);
  }

  // Checks the names on the command line against the program.
  Status checkNames() {
    if (variant.num_stages > 1) {
      return internal("a forward program of {} pipeline stages; only trainings have stages", variant.num_stages);
    }
    for (uint32_t i = 0; i < variant.num_programs; ++i) {
      program = variant.programs[i].id.role == ASHLAR_RT_RUN ? &variant.programs[i] : program;
    }
    if (program == nullptr) {
      return internal("the image has no program that runs the model");
    }
    std::copy_if(program->outputs, program->outputs + program->num_outputs, std::back_inserter(wantable),
                 [&](uint32_t index) { return !isCount(variant, variant.tensors[index]); });
    const std::vector<uint32_t> inputs(program->inputs, program->inputs + program->num_inputs);
    ASHLAR_RETURN_IF_ERROR(checkBindings("--input", session.options->inputs, inputs));
    ASHLAR_RETURN_IF_ERROR(checkBindings("--output", session.options->outputs, wantable));
    drawsInputs = session.options->benchmark != 0 && session.options->inputs.empty();
    for (uint32_t i = 0; i < program->num_inputs && !drawsInputs; ++i) {
      const char *name = variant.tensors[program->inputs[i]].name;
      if (findBinding(session.options->inputs, name) == nullptr) {
        return invalid("input {} is not given; add --input {}=FILE.npy", name, name);
      }
    }
    if (session.options->benchmark == 0) {
      findOutputs();
    }
    return checkOutputTensors(session, outputs);
  }

  // Reads every input into the arenas of this process.
  Status readInputs() {
    for (uint32_t i = 0; i < program->num_inputs; ++i) {
      const ashlar_rt_tensor &tensor = variant.tensors[program->inputs[i]];
      if (drawsInputs) {
        ASHLAR_RETURN_IF_ERROR(drawInput(tensor, i));
        continue;
      }
      NpyFile file;
      ASHLAR_RETURN_IF_ERROR(NpyFile::open(*findBinding(session.options->inputs, tensor.name), file));
      const uint32_t held = file.element() == tensor.buffer.dtype ? file.element() : npyElement(tensor.buffer.dtype);
      std::vector<int64_t> shape(tensor.global_shape, tensor.global_shape + tensor.rank);
      ASHLAR_RETURN_IF_ERROR(file.expect(held, shape));
      std::vector<char> converted;
      char *global = const_cast<char *>(static_cast<const char *>(file.data()));
      if (held != tensor.buffer.dtype) {
        converted.resize(globalBytes(tensor));
        convertElements(held, global, tensor.buffer.dtype, converted.data(), numElements(shape), /*scale=*/1, /*shift=*/0);
        global = converted.data();
      }
      inputFacts.push_back(factsOf(file, tensor.name));
      Communicator &seat = *session.communicator;
      for (int device = 0; device < seat.mesh().devicesPerProcess(); ++device) {
        auto fill = [&](char *local) { copyShard(ShardCopy::kGlobalToLocal, tensor, variant, seat.firstDevice() + device, global, local); };
        ASHLAR_RETURN_IF_ERROR(session.executor->write(tensor, device, fill));
      }
      ASHLAR_RETURN_IF_ERROR(file.check());
    }
    return Status();
  }

  // Checks that all ranks read the same.
  Status compareInputs() { return checkSameData(inputFacts, *session.communicator); }

  // Sets variables, runs the model; many times when that is to be measured.
  Status run() {
    ASHLAR_RETURN_IF_ERROR(initialise(session));
    ASHLAR_RETURN_IF_ERROR(session.communicator->agree(loader.load()));
    for (const std::string &line : loader.lines()) {
      printLine(line);
    }
    Program &forward = *session.executor->find(ASHLAR_RT_RUN);
    if (session.options->benchmark == 0) {
      return session.recorder != nullptr ? runTraced(forward) : session.executor->run(forward);
    }
    Benchmark result;
    ASHLAR_RETURN_IF_ERROR(session.executor->benchmark(forward, session.options->benchmark, result));
    printLine(benchmarkLine(result));
    return session.recorder != nullptr ? runTraced(forward) : Status();
  }

  // Prepares --trace. A benchmark is traced in runs of its own, behind those that are measured.
  Status prepareTrace() {
    if (session.recorder == nullptr) {
      return Status();
    }
    tracer.emplace(session);
    const auto index = static_cast<uint32_t>(program - variant.programs);
    const uint64_t steps = session.options->benchmark == 0 ? 1 : UINT32_MAX;
    return tracer->prepare(/*firstStep=*/0, steps, /*microBatches=*/1, {{{index, /*micro_batch=*/0, /*takes_batch=*/0}}});
  }

  // Begins the file of --trace.
  Status openTrace() { return tracer ? tracer->open() : Status(); }

  // Says whether the trace was written.
  Status close() { return tracer ? tracer->close() : Status(); }

  // Gathers and writes the outputs. All ranks take part; only rank 0's status can tell of a file.
  Status writeOutputs() { return writeOutputTensors(session, outputs); }

private:
  // Runs the model until the last run that is recorded.
  Status runTraced(Program &forward) {
    std::string line;
    for (uint64_t number = 0; number < tracer->lastStep(); ++number) {
      ASHLAR_RETURN_IF_ERROR(tracer->beginStep(number));
      ASHLAR_RETURN_IF_ERROR(session.executor->run(forward, number));
      ASHLAR_RETURN_IF_ERROR(tracer->endStep(number, line));
    }
    if (!line.empty()) {
      std::fputs((line + "\n").c_str(), stdout);
    }
    return Status();
  }

  // Tells the reader, on rank 0.
  void printLine(const std::string &line) const {
    if (session.communicator->rank() == 0) {
      std::fputs((line + "\n").c_str(), stdout);
    }
  }

  Status checkBindings(const char *option, const std::vector<std::pair<std::string, std::string>> &bindings,
                       const std::vector<uint32_t> &indices) const {
    for (size_t i = 0; i < bindings.size(); ++i) {
      const std::string &name = bindings[i].first;
      bool known = std::any_of(indices.begin(), indices.end(), [&](uint32_t index) { return name == variant.tensors[index].name; });
      if (!known) {
        return invalid("{} {}: no such tensor; the program has {}", option, name, nameList(variant, indices));
      }
      for (size_t j = 0; j < i; ++j) {
        if (bindings[j].first == name) {
          return invalid("{} {} is given twice: {} and {}", option, name, bindings[j].second, bindings[i].second);
        }
      }
    }
    return Status();
  }

  // Fills an input with random numbers: from [0, 1), integers 0 and 1, which are in range whatever they index.
  Status drawInput(const ashlar_rt_tensor &tensor, uint32_t stream) {
    for (int device = 0; device < session.communicator->mesh().devicesPerProcess(); ++device) {
      auto fill = [&](char *local) { fillRandom(tensor.buffer, session.options->seed, stream, local); };
      ASHLAR_RETURN_IF_ERROR(session.executor->write(tensor, device, fill));
    }
    return Status();
  }

  // The outputs that are wanted: those that --output names, or all, in the current directory.
  void findOutputs() {
    for (uint32_t index : wantable) {
      const ashlar_rt_tensor &tensor = variant.tensors[index];
      const std::string *path = findBinding(session.options->outputs, tensor.name);
      if (path != nullptr || session.options->outputs.empty()) {
        outputs.push_back(OutputTensor{&tensor, path != nullptr ? *path : outputFileName(tensor.name), variant.stage});
      }
    }
  }

  Session &session;
  const ashlar_rt_variant &variant;
  const ashlar_rt_program *program = nullptr;
  bool drawsInputs = false;          // a benchmark without files
  std::vector<DataFacts> inputFacts; // by input; none when they are drawn
  std::vector<uint32_t> wantable;    // outputs of the program that files may have
  std::vector<OutputTensor> outputs; // those that are written
  std::optional<Tracer> tracer;      // only with --trace
  Loader loader;
};

} // namespace

Status runForward(Session &session) {
  ForwardRun forward(session);
  Status prepared = forward.checkNames();
  if (prepared.ok()) {
    prepared = forward.prepareTrace();
  }
  if (prepared.ok()) {
    prepared = session.executor->checkMemory(/*batchBytes=*/0);
  }
  if (prepared.ok()) {
    prepared = forward.readInputs();
  }
  ASHLAR_RETURN_IF_ERROR(session.communicator->agree(prepared));
  ASHLAR_RETURN_IF_ERROR(session.communicator->agree(forward.compareInputs()));
  ASHLAR_RETURN_IF_ERROR(forward.findWeights());
  ASHLAR_RETURN_IF_ERROR(session.communicator->agree(forward.checkRoles()));
  ASHLAR_RETURN_IF_ERROR(session.communicator->agree(forward.openTrace()));
  ASHLAR_RETURN_IF_ERROR(forward.run());
  if (session.options->benchmark != 0) {
    return forward.close();
  }
  ASHLAR_RETURN_IF_ERROR(session.communicator->barrier());
  ASHLAR_RETURN_IF_ERROR(session.communicator->agree(forward.writeOutputs()));
  return forward.close();
}

} // namespace ashlar::rt
