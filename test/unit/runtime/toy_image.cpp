// SPDX-License-Identifier: Apache-2.0
//
// Hand-written images whose kernels are plain C functions.

#include "test/unit/runtime/toy_image.h"

#include <cstring>

namespace ashlar::test {
namespace {

constexpr int64_t kBatch = 16;
constexpr float kRate = 0.1f;

constexpr uint32_t kRead = ASHLAR_RT_READ, kWrite = ASHLAR_RT_WRITE;
const uint32_t kMove[] = {kRead, kWrite};
const uint32_t kInit[] = {kWrite, kWrite, kRead};
const uint32_t kReadThree[] = {kRead, kRead, kRead, kWrite};
const uint32_t kUpdate[] = {kRead | kWrite, kRead, kRead | kWrite, kWrite};

const uint32_t kAxis0[] = {0};
const ashlar_rt_dim_split kSplitRows[] = {{1, kAxis0}, {0, nullptr}};
const ashlar_rt_dim_split kWhole[] = {{0, nullptr}, {0, nullptr}};

// Offsets in the arena of the training image.
enum : uint64_t {
  kX = 0,
  kZ = 128,
  kParameters = 192,
  kPartial = 256,
  kStep = 320,
  kSeed = 384,
  kLoss = 448,
  kCoordinates = 512,
  kArena = 576
};

ashlar_rt_buffer arena(uint32_t dtype, uint64_t offset, uint64_t bytes) {
  return {ASHLAR_RT_ARENA, dtype, offset, bytes};
}

// {parameters, step, seed}: small numbers that depend on the seed.
void initKernel(void *const *buffers, int64_t, int64_t) {
  auto *parameters = static_cast<float *>(buffers[0]);
  int64_t seed = *static_cast<int64_t *>(buffers[2]);
  for (int i = 0; i < 3; ++i) {
    parameters[i] = 0.02f * static_cast<float>((seed + i) % 5);
  }
  *static_cast<int64_t *>(buffers[1]) = 0;
}

// {x, z, parameters, partial}: this device's share of the gradient and of the loss, rows summed in pairs so that any even cut agrees.
template <int64_t rows> void gradientKernel(void *const *buffers, int64_t, int64_t) {
  auto *x = static_cast<const float *>(buffers[0]);
  auto *z = static_cast<const float *>(buffers[1]);
  auto *p = static_cast<const float *>(buffers[2]);
  auto *partial = static_cast<float *>(buffers[3]);
  float sums[rows][4];
  for (int64_t i = 0; i < rows; ++i) {
    float error = p[0] * x[2 * i] + p[1] * x[2 * i + 1] + p[2] - z[i];
    float scale = 2.0f * error / kBatch;
    sums[i][0] = scale * x[2 * i];
    sums[i][1] = scale * x[2 * i + 1];
    sums[i][2] = scale;
    sums[i][3] = error * error / kBatch;
  }
  for (int64_t width = rows; width > 1; width /= 2) {
    for (int64_t i = 0; i < width / 2; ++i) {
      for (int j = 0; j < 4; ++j) {
        sums[i][j] = sums[2 * i][j] + sums[2 * i + 1][j];
      }
    }
  }
  std::memcpy(partial, sums[0], sizeof(sums[0]));
}

// {parameters, partial, step, loss}
void updateKernel(void *const *buffers, int64_t, int64_t) {
  auto *parameters = static_cast<float *>(buffers[0]);
  auto *total = static_cast<const float *>(buffers[1]);
  for (int i = 0; i < 3; ++i) {
    parameters[i] -= kRate * total[i];
  }
  ++*static_cast<int64_t *>(buffers[2]);
  *static_cast<float *>(buffers[3]) = total[3];
}

// One mesh of the training program.
class TrainingVariant {
public:
  TrainingVariant(const char *name, uint32_t devices, uint32_t perProcess) : axis{"dp", devices} {
    int64_t rows = kBatch / devices;
    xLocal[0] = zLocal[0] = rows;
    uint64_t xBytes = static_cast<uint64_t>(rows) * 8;
    uint64_t zBytes = static_cast<uint64_t>(rows) * 4;
    tensors[0] = {"x", ASHLAR_RT_INPUT, 2, xLocal, xGlobal, kSplitRows, arena(ASHLAR_RT_F32, kX, xBytes)};
    tensors[1] = {"z", ASHLAR_RT_INPUT, 2, zLocal, zGlobal, kSplitRows, arena(ASHLAR_RT_F32, kZ, zBytes)};
    tensors[2] = {"loss", ASHLAR_RT_OUTPUT, 0, nullptr, nullptr, nullptr, arena(ASHLAR_RT_F32, kLoss, 4)};
    tensors[3] = {"step", ASHLAR_RT_STATE, 0, nullptr, nullptr, nullptr, arena(ASHLAR_RT_I64, kStep, 8)};
    tensors[4] = {"seed", ASHLAR_RT_STATE, 0, nullptr, nullptr, nullptr, arena(ASHLAR_RT_I64, kSeed, 8)};
    tensors[5] = {"parameters", ASHLAR_RT_VARIABLE, 1, parameterShape, parameterShape, kWhole, arena(ASHLAR_RT_F32, kParameters, 12)};
    initBuffers[0] = updateBuffers[0] = gradientBuffers[2] = arena(ASHLAR_RT_F32, kParameters, 12);
    initBuffers[1] = updateBuffers[2] = tensors[3].buffer;
    initBuffers[2] = tensors[4].buffer;
    gradientBuffers[0] = tensors[0].buffer;
    gradientBuffers[1] = tensors[1].buffer;
    gradientBuffers[3] = updateBuffers[1] = reduceBuffers[0] = reduceBuffers[1] = arena(ASHLAR_RT_F32, kPartial, 16);
    updateBuffers[3] = lossCopy[1] = tensors[2].buffer;
    lossCopy[0] = arena(ASHLAR_RT_F32, kPartial + 12, 4);
    ashlar_rt_kernel_fn functions[] = {gradientKernel<16>, gradientKernel<8>, gradientKernel<4>, gradientKernel<2>};
    gradient = {functions[devices == 1 ? 0 : devices == 2 ? 1 : devices == 4 ? 2 : 3], nullptr, 1, 1};
    reduce.kind = ASHLAR_RT_ALL_REDUCE;
    reduce.dtype = ASHLAR_RT_F32;
    reduce.num_axes = 1;
    reduce.axes = kAxis0;
    reduce.num_tensors = 1;
    reduce.tensors = &reduceTensor;
    initInstr[0] = {ASHLAR_RT_KERNEL, "init", 3, initBuffers, kInit, &init};
    stepInstrs[0] = evalInstrs[0] = {ASHLAR_RT_KERNEL, "gradient", 4, gradientBuffers, kReadThree, &gradient};
    stepInstrs[1] = evalInstrs[1] = {ASHLAR_RT_COLLECTIVE, "all_reduce gradient", 2, reduceBuffers, kMove, &reduce};
    stepInstrs[2] = {ASHLAR_RT_KERNEL, "update", 4, updateBuffers, kUpdate, &update};
    evalInstrs[2] = {ASHLAR_RT_COPY, "loss", 2, lossCopy, kMove, nullptr};
    programs[0] = {"init", {ASHLAR_RT_INIT}, 1, initInstr, 0, nullptr, 0, nullptr};
    programs[1] = {"train_step", {ASHLAR_RT_TRAIN_STEP}, 3, stepInstrs, 2, inputs, 1, outputs};
    programs[2] = {"eval_step", {ASHLAR_RT_EVAL_STEP}, 3, evalInstrs, 2, inputs, 1, outputs};
    variant = {name, 1, &axis, perProcess, kArena, kCoordinates, 6, tensors, 3, programs, nullptr};
    variant.order = {/*num_runs=*/1, &run, /*num_repeats=*/1, &once};
  }
  TrainingVariant(const TrainingVariant &) = delete;

  ashlar_rt_variant variant = {};

private:
  ashlar_rt_axis axis;
  int64_t xLocal[2] = {0, 2};
  int64_t zLocal[2] = {0, 1};
  const int64_t xGlobal[2] = {kBatch, 2};
  const int64_t zGlobal[2] = {kBatch, 1};
  const int64_t parameterShape[1] = {3};
  const int64_t reduceShape[1] = {4};
  const ashlar_rt_collective_tensor reduceTensor = {/*rank=*/1, reduceShape, /*split_dim=*/0, /*concat_dim=*/0};
  const uint32_t inputs[2] = {0, 1};
  const uint32_t outputs[1] = {2};
  const ashlar_rt_run run = {/*program=*/1, /*micro_batch=*/0, /*takes_batch=*/1};
  ashlar_rt_repeat once = {/*begin=*/0, /*end=*/1, /*count=*/1, /*stride=*/0};
  ashlar_rt_tensor tensors[6];
  ashlar_rt_buffer initBuffers[3];
  ashlar_rt_buffer gradientBuffers[4];
  ashlar_rt_buffer reduceBuffers[2];
  ashlar_rt_buffer updateBuffers[4];
  ashlar_rt_buffer lossCopy[2];
  ashlar_rt_kernel_desc init = {initKernel, nullptr, 1, 1};
  ashlar_rt_kernel_desc gradient = {};
  ashlar_rt_kernel_desc update = {updateKernel, nullptr, 1, 1};
  ashlar_rt_collective_desc reduce = {};
  ashlar_rt_instr initInstr[1];
  ashlar_rt_instr stepInstrs[3];
  ashlar_rt_instr evalInstrs[3];
  ashlar_rt_program programs[3];
};

class ToyTraining final : public ToyImage {
public:
  explicit ToyTraining(uint32_t ranks) : usual("default", ranks, 1), deterministic("deterministic", 8, 8 / ranks) {
    variants[0] = usual.variant;
    variants[1] = deterministic.variant;
    training.dataset.format = "regression";
    training.dataset.train_samples = 160;
    training.dataset.eval_samples = 64;
    const double params[] = {2, 3, 5, 0.03};
    std::memcpy(training.dataset.params, params, sizeof(params));
    training.dataset.shuffle = 1;
    training.dataset.drop_remainder = 1;
    training.dataset.repeat = 20;
    training.dataset.num_features = 2;
    training.dataset.features = features;
    training.global_batch = kBatch;
    training.epochs = 2;
    training.log_every = 50;
    training.loss_tensor = "loss";
    training.learning_rate = 0.02;
    toy.abi_version = ASHLAR_RT_ABI_VERSION;
    toy.model_name = "toy";
    toy.target = "cpu";
    toy.program_hash = 4711 + ranks;
    toy.seed = 1;
    toy.seed_tensor = "seed";
    toy.num_variants = 2;
    toy.variants = variants;
    toy.training = &training;
    toy.plan = "a toy with one all-reduce of 16 bytes\n";
  }

  const ashlar_rt_image &image() const override { return toy; }

private:
  TrainingVariant usual;
  TrainingVariant deterministic;
  ashlar_rt_variant variants[2];
  const ashlar_rt_feature features[2] = {{"x", "x", 0, nullptr, 0, 0, 0}, {"z", "z", 0, nullptr, 0, 0, 0}};
  ashlar_rt_training training = {};
  ashlar_rt_image toy = {};
};

// {x, twice}: one unit a row of three.
void doubleKernel(void *const *buffers, int64_t begin, int64_t end) {
  for (int64_t i = 3 * begin; i < 3 * end; ++i) {
    static_cast<float *>(buffers[1])[i] = 2 * static_cast<const float *>(buffers[0])[i];
  }
}

class ToyForward final : public ToyImage {
public:
  explicit ToyForward(uint32_t ranks) : axis{"dp", ranks} {
    int64_t rows = 8 / ranks;
    xLocal[0] = partShape[0] = rows;
    uint64_t xBytes = static_cast<uint64_t>(rows) * 12;
    uint64_t partBytes = static_cast<uint64_t>(rows) * 8;
    tensors[0] = {"x", ASHLAR_RT_INPUT, 2, xLocal, xGlobal, kSplitRows, arena(ASHLAR_RT_F32, 0, xBytes)};
    tensors[1] = {"net/twice", ASHLAR_RT_OUTPUT, 2, xLocal, xGlobal, kSplitRows, arena(ASHLAR_RT_F32, 128, xBytes)};
    tensors[2] = {"product", ASHLAR_RT_OUTPUT, 2, productShape, productShape, kWhole, arena(ASHLAR_RT_F32, 256, 64)};
    doubleBuffers[0] = gemmBuffers[0] = tensors[0].buffer;
    doubleBuffers[1] = tensors[1].buffer;
    gemmBuffers[1] = {ASHLAR_RT_CONSTANT, ASHLAR_RT_F32, 0, 24};
    gemmBuffers[2] = {ASHLAR_RT_CONSTANT, ASHLAR_RT_F32, 24, 8};
    gemmBuffers[3] = gatherBuffers[0] = arena(ASHLAR_RT_F32, 384, partBytes);
    gatherBuffers[1] = tensors[2].buffer;
    doubling = {doubleKernel, nullptr, rows, 1};
    gemm.batch = 1;
    gemm.m = rows;
    gemm.n = 2;
    gemm.k = 3;
    gemm.addend = ASHLAR_RT_ADDEND_BIAS;
    gather.kind = ASHLAR_RT_ALL_GATHER;
    gather.dtype = ASHLAR_RT_F32;
    gather.num_axes = 1;
    gather.axes = kAxis0;
    gather.num_tensors = 1;
    gather.tensors = &gatherTensor;
    instrs[0] = {ASHLAR_RT_KERNEL, "double", 2, doubleBuffers, kMove, &doubling};
    instrs[1] = {ASHLAR_RT_GEMM, "product", 4, gemmBuffers, kReadThree, &gemm};
    instrs[2] = {ASHLAR_RT_COLLECTIVE, "gather product", 2, gatherBuffers, kMove, &gather};
    program = {"forward", {ASHLAR_RT_RUN}, 3, instrs, 1, inputs, 2, outputs};
    variant = {"default", 1, &axis, 1, 512, 448, 3, tensors, 1, &program, nullptr};
    toy.abi_version = ASHLAR_RT_ABI_VERSION;
    toy.model_name = "toy";
    toy.target = "cpu";
    toy.program_hash = 1147 + ranks;
    toy.constants = reinterpret_cast<const uint8_t *>(weights);
    toy.constants_bytes = sizeof(weights);
    toy.num_variants = 1;
    toy.variants = &variant;
    toy.deterministic_refusal = "a forward program has nothing to fix";
    toy.plan = "a toy with one all-gather of 64 bytes\n";
  }

  const ashlar_rt_image &image() const override { return toy; }

private:
  ashlar_rt_axis axis;
  const float weights[8] = {1, 2, 3, 4, 5, 6, 100, 200}; // w (3, 2), then b
  int64_t xLocal[2] = {0, 3};
  int64_t partShape[2] = {0, 2};
  const ashlar_rt_collective_tensor gatherTensor = {/*rank=*/2, partShape, /*split_dim=*/0, /*concat_dim=*/0};
  const int64_t xGlobal[2] = {8, 3};
  const int64_t productShape[2] = {8, 2};
  const uint32_t inputs[1] = {0};
  const uint32_t outputs[2] = {1, 2};
  ashlar_rt_tensor tensors[3];
  ashlar_rt_buffer doubleBuffers[2];
  ashlar_rt_buffer gemmBuffers[4];
  ashlar_rt_buffer gatherBuffers[2];
  ashlar_rt_kernel_desc doubling = {};
  ashlar_rt_gemm_desc gemm = {};
  ashlar_rt_collective_desc gather = {};
  ashlar_rt_instr instrs[3];
  ashlar_rt_program program = {};
  ashlar_rt_variant variant = {};
  ashlar_rt_image toy = {};
};

} // namespace

std::unique_ptr<ToyImage> makeToyTraining(uint32_t ranks) {
  return std::make_unique<ToyTraining>(ranks);
}

std::unique_ptr<ToyImage> makeToyForward(uint32_t ranks) {
  return std::make_unique<ToyForward>(ranks);
}

} // namespace ashlar::test
