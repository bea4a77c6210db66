// SPDX-License-Identifier: Apache-2.0
//
// A pipeline by hand: the tables that a compiler would write for a chain of factors. Rows are summed in pairs, so that any even cut over
// devices gives the same bits.

#include "test/unit/runtime/toy_pipeline.h"

#include "runtime/abi/memory_sizes.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>

namespace ashlar::test {
namespace {

constexpr float kRate = 0.05f;
constexpr uint32_t kRead = ASHLAR_RT_READ, kWrite = ASHLAR_RT_WRITE, kBoth = ASHLAR_RT_READ | ASHLAR_RT_WRITE;

float firstFactor(uint32_t stage) {
  return 0.5f + 0.25f * static_cast<float>(stage);
}

float sumInPairs(const float *values, int64_t count) {
  return count == 1 ? values[0] : sumInPairs(values, count / 2) + sumInPairs(values + count / 2, count / 2);
}

float *floats(void *const *buffers, int index) {
  return static_cast<float *>(buffers[index]);
}

// Each kernel does all rows of its device: [0, end).

// {step}
void initKernel(void *const *buffers, int64_t, int64_t) {
  *static_cast<int64_t *>(buffers[0]) = 0;
}

// {microseconds, at most}
void sleepKernel(void *const *buffers, int64_t, int64_t) {
  std::this_thread::sleep_for(std::chrono::microseconds(std::rand() % static_cast<int>(*floats(buffers, 0))));
}

// {in, w, out}, in of so many columns of which the first counts.
template <int columns> void scaleKernel(void *const *buffers, int64_t, int64_t end) {
  for (int64_t i = 0; i < end; ++i) {
    floats(buffers, 2)[i] = *floats(buffers, 1) * floats(buffers, 0)[columns * i];
  }
}

// {y, z, error, loss sum}
void lossKernel(void *const *buffers, int64_t, int64_t end) {
  float squares[kToyRows];
  for (int64_t i = 0; i < end; ++i) {
    const float difference = floats(buffers, 0)[i] - floats(buffers, 1)[i];
    floats(buffers, 2)[i] = 2 * difference / kToyRows;
    squares[i] = difference * difference / kToyRows;
  }
  *floats(buffers, 3) += sumInPairs(squares, end);
}

// {in, error, partial gradient}
template <int columns> void gradientKernel(void *const *buffers, int64_t, int64_t end) {
  float products[kToyRows];
  for (int64_t i = 0; i < end; ++i) {
    products[i] = floats(buffers, 1)[i] * floats(buffers, 0)[columns * i];
  }
  *floats(buffers, 2) = sumInPairs(products, end);
}

// {value, sum}
void addKernel(void *const *buffers, int64_t, int64_t) {
  *floats(buffers, 1) += *floats(buffers, 0);
}

// {gradient, [norm of the stages before,] norm}
void firstNormKernel(void *const *buffers, int64_t, int64_t) {
  *floats(buffers, 1) = *floats(buffers, 0) * *floats(buffers, 0);
}
void nextNormKernel(void *const *buffers, int64_t, int64_t) {
  *floats(buffers, 2) = *floats(buffers, 1) + *floats(buffers, 0) * *floats(buffers, 0);
}

// {w, gradient, norm, step}
void updateKernel(void *const *buffers, int64_t, int64_t) {
  *floats(buffers, 0) -= kRate * *floats(buffers, 1) / (1 + *floats(buffers, 2));
  *floats(buffers, 1) = 0;
  ++*static_cast<int64_t *>(buffers[3]);
}

// {loss, loss sum, number of micro-batches}
void endLossKernel(void *const *buffers, int64_t, int64_t) {
  *floats(buffers, 0) /= *floats(buffers, 2);
  *floats(buffers, 1) = 0;
}

// {y, z, loss}: the device's part of the mean.
void evalLossKernel(void *const *buffers, int64_t, int64_t end) {
  float squares[kToyRows];
  for (int64_t i = 0; i < end; ++i) {
    const float difference = floats(buffers, 0)[i] - floats(buffers, 1)[i];
    squares[i] = difference * difference / kToyRows;
  }
  *floats(buffers, 2) = sumInPairs(squares, end);
}

const uint32_t kAxis0[] = {0};
const int64_t kOne[] = {1};
const ashlar_rt_collective_tensor kSummed = {/*rank=*/1, kOne, /*split_dim=*/0, /*concat_dim=*/0};

// One program under construction.
struct Program {
  std::string name;
  ashlar_rt_program_id id;
  std::vector<ashlar_rt_instr> instrs;
  std::vector<uint32_t> inputs;
  std::vector<ashlar_rt_transfer> receives, sends;
};

// The tables of one stage.
class Stage {
public:
  Stage(const ToyPipeline &toy, uint32_t stage, const ashlar_rt_axis *axis) : toy(toy), stage(stage), rows(kToyRows / toy.devices) {
    sum.kind = ASHLAR_RT_ALL_REDUCE;
    sum.dtype = ASHLAR_RT_F32;
    sum.num_axes = 1;
    sum.axes = kAxis0;
    sum.num_tensors = 1;
    sum.tensors = &kSummed;
    w = addTensor("w" + std::to_string(stage), ASHLAR_RT_VARIABLE, ASHLAR_RT_ARENA, ASHLAR_RT_F32, 4);
    step = addTensor("step" + std::to_string(stage), ASHLAR_RT_STATE, ASHLAR_RT_ARENA, ASHLAR_RT_I64, 8);
    gradient = take(ASHLAR_RT_ARENA, 4);
    partial = take(ASHLAR_RT_SLOT, 4);
    total = addTensor("total", ASHLAR_RT_PASSED, ASHLAR_RT_SLOT, ASHLAR_RT_F32, 4);
    in =
        isFirst() ? addBatch("x", 2) : addTensor("h" + std::to_string(stage - 1), ASHLAR_RT_PASSED, ASHLAR_RT_SLOT, ASHLAR_RT_F32, bytes());
    // On the last stage nobody else wants them; they lie in slots all the same.
    out = addTensor("h" + std::to_string(stage), ASHLAR_RT_PASSED, ASHLAR_RT_SLOT, ASHLAR_RT_F32, bytes());
    error = addTensor("d" + std::to_string(stage), ASHLAR_RT_PASSED, ASHLAR_RT_SLOT, ASHLAR_RT_F32, bytes());
    if (isLast()) {
      z = addBatch("z", 1);
      loss = addTensor("loss", ASHLAR_RT_OUTPUT, ASHLAR_RT_ARENA, ASHLAR_RT_F32, 4);
      lossSum = take(ASHLAR_RT_ARENA, 4);
    }
    addInit();
    addForward();
    addBackward();
    addNorm();
    addUpdate();
    addEvaluation();
    addOrder();
    finish(axis);
  }
  Stage(const Stage &) = delete;

  ashlar_rt_variant variant = {};

private:
  bool isFirst() const { return stage == 0; }
  bool isLast() const { return stage + 1 == toy.stages; }
  uint64_t bytes() const { return std::max(rows * 4, toy.messageBytes); }
  const ashlar_rt_buffer &at(uint32_t tensor) const { return tensors[tensor].buffer; }

  ashlar_rt_buffer take(uint32_t space, uint64_t size, uint32_t dtype = ASHLAR_RT_F32) {
    uint64_t &end = space == ASHLAR_RT_SLOT ? slotEnd : arenaEnd;
    const ashlar_rt_buffer buffer = {space, dtype, end, size};
    end += (size + 63) / 64 * 64;
    return buffer;
  }

  uint32_t addTensor(const std::string &name, uint32_t role, uint32_t space, uint32_t dtype, uint64_t size) {
    names.push_back(name);
    tensors.push_back({names.back().c_str(), role, 0, nullptr, nullptr, nullptr, take(space, size, dtype)});
    return static_cast<uint32_t>(tensors.size()) - 1;
  }

  uint32_t addBatch(const char *name, int64_t columns) {
    shapes.push_back({static_cast<int64_t>(rows), columns});
    shapes.push_back({kToyRows, columns});
    const uint32_t index = addTensor(name, ASHLAR_RT_INPUT, ASHLAR_RT_SLOT, ASHLAR_RT_F32, rows * 4 * static_cast<uint64_t>(columns));
    tensors[index].rank = 2;
    tensors[index].local_shape = shapes[shapes.size() - 2].data();
    tensors[index].global_shape = shapes.back().data();
    tensors[index].splits = splits;
    return index;
  }

  Program &addProgram(const char *name, ashlar_rt_program_role role, uint32_t round = 0) {
    programs.push_back({name, {role, 0, round, 0}, {}, {}, {}, {}});
    return programs.back();
  }

  void addKernel(Program &program, const char *name, ashlar_rt_kernel_fn function, std::vector<ashlar_rt_buffer> operands,
                 std::vector<uint32_t> access) {
    buffers.push_back(std::move(operands));
    accesses.push_back(std::move(access));
    kernels.push_back({function, nullptr, static_cast<int64_t>(rows), static_cast<int64_t>(rows)});
    program.instrs.push_back({ASHLAR_RT_KERNEL, name, static_cast<uint32_t>(buffers.back().size()), buffers.back().data(),
                              accesses.back().data(), &kernels.back()});
  }

  void addTwo(Program &program, uint32_t kind, const char *name, const ashlar_rt_buffer &from, const ashlar_rt_buffer &to) {
    buffers.push_back({from, to});
    accesses.push_back({kRead, kWrite});
    program.instrs.push_back({kind, name, 2, buffers.back().data(), accesses.back().data(),
                              kind == ASHLAR_RT_COLLECTIVE ? static_cast<const void *>(&sum) : nullptr});
  }

  void addSleep(Program &program) {
    if (stage == toy.slowStage || toy.slowStage == 99) {
      addKernel(program, "sleep", sleepKernel, {{ASHLAR_RT_CONSTANT, ASHLAR_RT_F32, 4, 4}}, {kRead});
    }
  }

  void addInit() {
    Program &program = addProgram("init", ASHLAR_RT_INIT);
    addKernel(program, "init", initKernel, {at(step)}, {kWrite});
    addTwo(program, ASHLAR_RT_COPY, "first factor", {ASHLAR_RT_CONSTANT, ASHLAR_RT_F32, 64 * (1 + stage), 4}, at(w));
  }

  // Channels from a stage to the next: 0 activations, 1 norm, 2 evaluation, 3 the activations once more, for the backward program: they are
  // not received in the order in which they are sent. From a stage to the one before: 0 errors. The norm of all goes from the last stage on
  // channel 7.
  void addForward() {
    Program &program = addProgram("forward", ASHLAR_RT_FORWARD);
    addSleep(program);
    addKernel(program, "scale", isFirst() ? scaleKernel<2> : scaleKernel<1>, {at(in), at(w), at(out)}, {kRead, kRead, kWrite});
    if (isFirst()) {
      program.inputs.push_back(in);
    } else {
      program.receives.push_back({in, stage - 1, 0});
    }
    if (isLast()) {
      program.inputs.push_back(z);
      addKernel(program, "loss", lossKernel, {at(out), at(z), at(error), lossSum}, {kRead, kRead, kWrite, kBoth});
    } else {
      program.sends.push_back({out, stage + 1, 0});
      program.sends.push_back({out, stage + 1, 3});
    }
  }

  void addBackward() {
    Program &program = addProgram("backward", ASHLAR_RT_BACKWARD);
    addSleep(program);
    if (!isLast()) {
      program.receives.push_back({error, stage + 1, 0});
    }
    uint32_t factorOf = in;
    if (!isFirst()) {
      factorOf = addTensor("again", ASHLAR_RT_PASSED, ASHLAR_RT_SLOT, ASHLAR_RT_F32, bytes());
      program.receives.push_back({factorOf, stage - 1, 3});
      const uint32_t before = addTensor("d" + std::to_string(stage - 1), ASHLAR_RT_PASSED, ASHLAR_RT_SLOT, ASHLAR_RT_F32, bytes());
      addKernel(program, "scale error", scaleKernel<1>, {at(error), at(w), at(before)}, {kRead, kRead, kWrite});
      program.sends.push_back({before, stage - 1, 0});
    }
    addKernel(program, "gradient", isFirst() ? gradientKernel<2> : gradientKernel<1>, {at(factorOf), at(error), partial},
              {kRead, kRead, kWrite});
    addTwo(program, ASHLAR_RT_COLLECTIVE, "sum gradient", partial, partial);
    addKernel(program, "add gradient", ashlar::test::addKernel, {partial, gradient}, {kRead, kBoth});
  }

  void addNorm() {
    Program &program = addProgram("norm", ASHLAR_RT_UPDATE);
    uint32_t norm = total;
    if (!isLast()) {
      norm = addTensor("norm" + std::to_string(stage), ASHLAR_RT_PASSED, ASHLAR_RT_SLOT, ASHLAR_RT_F32, 4);
      program.sends.push_back({norm, stage + 1, 1});
    }
    for (uint32_t other = 0; isLast() && other < stage; ++other) {
      program.sends.push_back({total, other, 7});
    }
    if (isFirst()) {
      addKernel(program, "norm", firstNormKernel, {gradient, at(norm)}, {kRead, kWrite});
      return;
    }
    const uint32_t before = addTensor("norm" + std::to_string(stage - 1), ASHLAR_RT_PASSED, ASHLAR_RT_SLOT, ASHLAR_RT_F32, 4);
    program.receives.push_back({before, stage - 1, 1});
    addKernel(program, "norm", nextNormKernel, {gradient, at(before), at(norm)}, {kRead, kRead, kWrite});
  }

  void addUpdate() {
    Program &program = addProgram("update", ASHLAR_RT_UPDATE, /*round=*/1);
    if (!isLast()) {
      program.receives.push_back({total, toy.stages - 1, 7});
    }
    addKernel(program, "update", updateKernel, {at(w), gradient, at(total), at(step)}, {kBoth, kBoth, kRead, kBoth});
    if (isLast()) {
      addTwo(program, ASHLAR_RT_COPY, "loss", lossSum, at(loss));
      addTwo(program, ASHLAR_RT_COLLECTIVE, "sum loss", at(loss), at(loss));
      addKernel(program, "end loss", endLossKernel, {at(loss), lossSum, {ASHLAR_RT_CONSTANT, ASHLAR_RT_F32, 0, 4}}, {kBoth, kWrite, kRead});
    }
  }

  void addEvaluation() {
    Program &program = addProgram("eval_step", ASHLAR_RT_EVAL_STEP);
    uint32_t from = in;
    if (!isFirst()) {
      from = addTensor("e" + std::to_string(stage - 1), ASHLAR_RT_PASSED, ASHLAR_RT_SLOT, ASHLAR_RT_F32, bytes());
      program.receives.push_back({from, stage - 1, 2});
    }
    const uint32_t to = addTensor("e" + std::to_string(stage), ASHLAR_RT_PASSED, ASHLAR_RT_SLOT, ASHLAR_RT_F32, bytes());
    addKernel(program, "scale", isFirst() ? scaleKernel<2> : scaleKernel<1>, {at(from), at(w), at(to)}, {kRead, kRead, kWrite});
    if (isLast()) {
      addKernel(program, "loss", evalLossKernel, {at(to), at(z), at(loss)}, {kRead, kRead, kWrite});
      addTwo(program, ASHLAR_RT_COLLECTIVE, "sum loss", at(loss), at(loss));
    } else {
      program.sends.push_back({to, stage + 1, 2});
    }
  }

  // Programs are numbered init, forward, backward, norm, update.
  void addOrder() {
    const uint32_t takes = isFirst() || isLast() ? 1 : 0, count = toy.microBatches;
    const uint32_t ahead = toy.allForwardFirst ? count : std::min(toy.stages - 1 - stage, count - 1);
    runs = {{1, 0, takes}, {1, ahead, takes}, {2, 0, 0}, {2, count - ahead, 0}, {3, 0, 0}, {4, 0, 0}};
    auto repeat = [&](uint32_t begin, uint32_t end, uint32_t times) {
      if (times > 0) {
        repeats.push_back({begin, end, times, /*stride=*/1});
      }
    };
    repeat(0, 1, ahead);
    repeat(1, 3, count - ahead);
    repeat(3, 4, ahead);
    repeat(4, 6, 1);
    variant.order = {static_cast<uint32_t>(runs.size()), runs.data(), static_cast<uint32_t>(repeats.size()), repeats.data()};
  }

  void finish(const ashlar_rt_axis *axis) {
    for (const Program &program : programs) {
      const bool sleeps = !program.instrs.empty() && std::strcmp(program.instrs[0].name, "sleep") == 0;
      tables.push_back({program.name.c_str(), program.id, static_cast<uint32_t>(program.instrs.size()), program.instrs.data(),
                        static_cast<uint32_t>(program.inputs.size()), program.inputs.data(), 0, nullptr,
                        static_cast<uint32_t>(program.receives.size()), program.receives.data(),
                        static_cast<uint32_t>(program.sends.size()), program.sends.data(),
                        /*predicted_ns=*/sleeps ? 500 * uint64_t{toy.sleep} : 1000,
                        /*other_ps=*/1000 * (sleeps ? 500 * uint64_t{toy.sleep} : 1000)});
    }
    variant.name = "default";
    variant.num_axes = 1;
    variant.axes = axis;
    variant.devices_per_process = 1;
    variant.coordinates_offset = take(ASHLAR_RT_ARENA, 64).offset;
    variant.num_tensors = static_cast<uint32_t>(tensors.size());
    variant.tensors = tensors.data();
    variant.num_programs = static_cast<uint32_t>(tables.size());
    variant.programs = tables.data();
    variant.stage = stage;
    variant.num_stages = toy.stages;
    variant.num_slots = toy.allForwardFirst ? toy.microBatches : std::min(toy.stages - stage, toy.microBatches);
    variant.slots_offset = arenaEnd;
    variant.slot_bytes = slotEnd;
    variant.arena_bytes = arenaEnd + slotEnd * variant.num_slots;
    variant.arena_bytes += stage * rt::kPageBytes; // no two stages have as much
  }

  const ToyPipeline toy;
  const uint32_t stage;
  const uint64_t rows;
  const ashlar_rt_dim_split splits[2] = {{1, kAxis0}, {0, nullptr}};
  ashlar_rt_collective_desc sum = {};
  uint64_t arenaEnd = 0, slotEnd = 0;
  uint32_t w, step, total, in, out, error, z = 0, loss = 0;
  ashlar_rt_buffer gradient, partial, lossSum = {};
  std::deque<std::string> names;
  std::deque<std::vector<int64_t>> shapes;
  std::deque<std::vector<ashlar_rt_buffer>> buffers;
  std::deque<std::vector<uint32_t>> accesses;
  std::deque<ashlar_rt_kernel_desc> kernels;
  std::vector<ashlar_rt_tensor> tensors;
  std::deque<Program> programs;
  std::vector<ashlar_rt_program> tables;
  std::vector<ashlar_rt_run> runs;
  std::vector<ashlar_rt_repeat> repeats;
};

class ToyPipelineImage final : public ToyImage {
public:
  explicit ToyPipelineImage(const ToyPipeline &toy) : axis{"dp", toy.devices}, constants(16 * (1 + toy.stages)) {
    constants[0] = static_cast<float>(toy.microBatches);
    constants[1] = static_cast<float>(toy.sleep);
    for (uint32_t stage = 0; stage < toy.stages; ++stage) {
      constants[16 * (1 + stage)] = firstFactor(stage);
      stages.emplace_back(toy, stage, &axis);
      variants.push_back(stages.back().variant);
    }
    training.dataset.format = "regression";
    training.dataset.train_samples = 40 * kToyRows;
    training.dataset.eval_samples = 8 * kToyRows;
    const double params[] = {2, 3, 5, 0.03};
    std::memcpy(training.dataset.params, params, sizeof(params));
    training.dataset.shuffle = 1;
    training.dataset.drop_remainder = 1;
    training.dataset.repeat = 1;
    training.dataset.num_features = 2;
    training.dataset.features = features;
    training.global_batch = kToyRows;
    training.epochs = 2;
    training.log_every = 5;
    training.loss_tensor = "loss";
    training.learning_rate = kRate;
    training.accumulate = toy.microBatches;
    pipeline.abi_version = ASHLAR_RT_ABI_VERSION;
    pipeline.model_name = "toy";
    pipeline.target = "cpu";
    pipeline.program_hash = 100 * toy.stages + toy.devices;
    pipeline.constants = reinterpret_cast<const uint8_t *>(constants.data());
    pipeline.constants_bytes = constants.size() * sizeof(float);
    pipeline.seed = 1;
    pipeline.num_variants = toy.stages;
    pipeline.variants = variants.data();
    pipeline.training = &training;
    pipeline.plan = "a toy pipeline\n";
  }

  const ashlar_rt_image &image() const override { return pipeline; }

private:
  ashlar_rt_axis axis;
  std::vector<float> constants; // number of micro-batches, microseconds to sleep; then the first factors, 64 bytes each
  std::deque<Stage> stages;
  std::vector<ashlar_rt_variant> variants;
  const ashlar_rt_feature features[2] = {{"x", "x", 0, nullptr, 0, 0, 0}, {"z", "z", 0, nullptr, 0, 0, 0}};
  ashlar_rt_training training = {};
  ashlar_rt_image pipeline = {};
};

} // namespace

ashlar_rt_program &programNamed(const ashlar_rt_variant &variant, const std::string &name) {
  const ashlar_rt_program *found = variant.programs;
  while (name != found->name) {
    ++found;
  }
  return *const_cast<ashlar_rt_program *>(found);
}

ToyPipeline parseToyPipeline(const std::string &text) {
  ToyPipeline toy;
  toy.stages = static_cast<uint32_t>(std::strtoul(text.c_str(), nullptr, 10));
  toy.devices = static_cast<uint32_t>(std::strtoul(text.c_str() + text.find('x') + 1, nullptr, 10));
  toy.allForwardFirst = text.find(":gpipe") != std::string::npos;
  auto number = [&](const std::string &name, auto &value) {
    if (const size_t at = text.find(name); at != std::string::npos) {
      value = static_cast<std::decay_t<decltype(value)>>(std::strtoull(text.c_str() + at + name.size(), nullptr, 10));
    }
  };
  number(":slow=", toy.slowStage);
  number(":sleep=", toy.sleep);
  number(":bytes=", toy.messageBytes);
  return toy;
}

std::unique_ptr<ToyImage> makeToyPipeline(const ToyPipeline &toy) {
  return std::make_unique<ToyPipelineImage>(toy);
}

std::vector<float> trainByHand(const ToyPipeline &toy, uint64_t steps, const std::function<float(uint64_t, uint32_t)> &x,
                               const std::function<float(uint64_t, uint32_t)> &z, std::vector<float> &losses) {
  std::vector<float> factors;
  for (uint32_t stage = 0; stage < toy.stages; ++stage) {
    factors.push_back(firstFactor(stage));
  }
  for (uint64_t step = 0; step < steps; ++step) {
    std::vector<float> gradients(toy.stages, 0.0f);
    float loss = 0;
    for (uint64_t batch = step * toy.microBatches; batch < (step + 1) * toy.microBatches; ++batch) {
      std::vector<std::vector<float>> values(toy.stages + 1, std::vector<float>(kToyRows));
      std::vector<float> error(kToyRows), terms(kToyRows);
      for (uint32_t i = 0; i < kToyRows; ++i) {
        values[0][i] = x(batch, i);
        for (uint32_t stage = 0; stage < toy.stages; ++stage) {
          values[stage + 1][i] = factors[stage] * values[stage][i];
        }
        const float difference = values[toy.stages][i] - z(batch, i);
        error[i] = 2 * difference / kToyRows;
        terms[i] = difference * difference / kToyRows;
      }
      loss += sumInPairs(terms.data(), kToyRows);
      for (uint32_t stage = toy.stages; stage-- > 0;) {
        for (uint32_t i = 0; i < kToyRows; ++i) {
          terms[i] = error[i] * values[stage][i];
          error[i] = factors[stage] * error[i];
        }
        gradients[stage] += sumInPairs(terms.data(), kToyRows);
      }
    }
    float norm = gradients[0] * gradients[0];
    for (uint32_t stage = 1; stage < toy.stages; ++stage) {
      norm = norm + gradients[stage] * gradients[stage];
    }
    for (uint32_t stage = 0; stage < toy.stages; ++stage) {
      factors[stage] -= kRate * gradients[stage] / (1 + norm);
    }
    losses.push_back(loss / static_cast<float>(toy.microBatches));
  }
  return factors;
}

} // namespace ashlar::test
