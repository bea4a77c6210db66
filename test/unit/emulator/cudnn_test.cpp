// SPDX-License-Identifier: Apache-2.0
//
// Convolutions and their gradients as the runtime asks for them, and the engines it chooses from.

#include "test/unit/emulator/cudnn_call.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace ashlar::test::cudnn_test {

using namespace ashlar::emulator;
using namespace ashlar::emulator_test;

namespace {

// Calls f with the indices of x, w and y of every product of a convolution, channels last.
template <class F> void forEveryProduct(const Call &call, F f) {
  const bool deep = call.stride.size() == 3;
  const auto spatial = [&](const std::vector<int64_t> &values, size_t first, int64_t depth) {
    return std::array<int64_t, 3>{deep ? values[first] : depth, values[values.size() - 2], values[values.size() - 1]};
  };
  const auto in = spatial(call.dims[X], 2, 1), tap = spatial(call.dims[W], 2, 1), out = spatial(call.dims[Y], 2, 1);
  const auto pad = spatial(call.before, 0, 0), stride = spatial(call.stride, 0, 1), dilation = spatial(call.dilation, 0, 1);
  const int64_t xChannels = call.dims[X][1], channels = call.dims[W][1], filters = call.dims[W][0];
  const int64_t filtersOfGroup = filters / (xChannels / channels);
  const auto index = [](int64_t n, const std::array<int64_t, 3> &sizes, const std::array<int64_t, 3> &at, int64_t all, int64_t c) {
    return size_t((((n * sizes[0] + at[0]) * sizes[1] + at[1]) * sizes[2] + at[2]) * all + c);
  };
  const auto count = [](const std::array<int64_t, 3> &sizes) { return sizes[0] * sizes[1] * sizes[2]; };
  const auto place = [](int64_t i, const std::array<int64_t, 3> &sizes) {
    return std::array<int64_t, 3>{i / (sizes[1] * sizes[2]), i / sizes[2] % sizes[1], i % sizes[2]};
  };
  for (int64_t n = 0; n < call.dims[X][0]; ++n) {
    for (int64_t o = 0; o < count(out); ++o) {
      for (int64_t t = 0; t < count(tap); ++t) {
        std::array<int64_t, 3> at;
        bool inside = true;
        for (size_t i = 0; i < 3; ++i) {
          at[i] = place(o, out)[i] * stride[i] + place(t, tap)[i] * dilation[i] - pad[i];
          inside &= at[i] >= 0 && at[i] < in[i];
        }
        for (int64_t k = 0; inside && k < filters; ++k) {
          for (int64_t c = 0; c < channels; ++c) {
            f(index(n, in, at, xChannels, k / filtersOfGroup * channels + c), index(k, tap, place(t, tap), channels, c),
              index(n, out, place(o, out), filters, k));
          }
        }
      }
    }
  }
}

// Runs a plan, and returns the result.
std::vector<float> resultOf(const Call &call, const Part &plan, Operands &operands) {
  REQUIRE(call.run(plan, operands.addresses, operands.workspace) == kTaken);
  operands.values[call.result].download();
  return operands.values[call.result].floats;
}

// Compares a call with loops in double.
void checkAgainstLoops(Call call, cudaDataType type) {
  Operands operands(call, type);
  const std::vector<float> old = operands.values[call.result].floats;
  std::vector<double> expected(old.size()), magnitudes(old.size());
  forEveryProduct(call, [&](size_t x, size_t w, size_t y) {
    const size_t indices[] = {x, w, y};
    double product = 1;
    for (const Tensors role : {X, W, Y}) {
      product *= role == call.result ? 1.0 : double(operands.values[role].floats[indices[role]]);
    }
    expected[indices[call.result]] += product;
    magnitudes[indices[call.result]] += std::fabs(product);
  });
  const std::vector<float> got = resultOf(call, lastPlan(call), operands);
  // One rounding to the type of the result, and those of the sum in f32.
  const double unit = type == CUDA_R_32F ? 0x1p-24 : type == CUDA_R_16F ? 0x1p-11 : 0x1p-8;
  for (size_t i = 0; i < got.size(); ++i) {
    const double value = double(call.alpha) * expected[i] + double(call.beta) * double(old[i]);
    REQUIRE(std::fabs(double(got[i]) - value) <= unit * std::fabs(value) + 256 * 0x1p-24 * (magnitudes[i] + 1));
  }
}

} // namespace

TEST_CASE("cudnn: convolutions and gradients of every type", "[cudnn]") {
  for (const auto &[type, cudaType] :
       {std::pair(CUDNN_DATA_FLOAT, CUDA_R_32F), std::pair(CUDNN_DATA_HALF, CUDA_R_16F), std::pair(CUDNN_DATA_BFLOAT16, CUDA_R_16BF)}) {
    for (const Tensors result : {X, W, Y}) {
      CAPTURE(int(type), int(result));
      checkAgainstLoops(good(result).typed(type), cudaType);
      // Groups, unequal strides with rows left over, dilation, no padding on one side.
      checkAgainstLoops(Call(result, {2, 6, 8, 9}, {9, 2, 3, 2}, {2, 0}, {2, 3}, {1, 2}).typed(type), cudaType);
      // A depth-wise one, and one of three spatial dims in groups.
      checkAgainstLoops(Call(result, {1, 5, 6, 6}, {10, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}).typed(type), cudaType);
      checkAgainstLoops(Call(result, {2, 4, 5, 4, 6}, {6, 2, 2, 3, 1}, {1, 0, 2}, {2, 1, 2}, {2, 1, 1}).typed(type), cudaType);
      Call scaled = good(result).typed(type);
      scaled.alpha = -0.5f;
      scaled.beta = 2;
      checkAgainstLoops(scaled, cudaType);
    }
  }
}

TEST_CASE("cudnn: a sum is one chain of fused multiply-adds", "[cudnn]") {
  Call call = good();
  Operands operands(call);
  std::vector<float> expected(operands.values[Y].floats.size());
  forEveryProduct(call, [&](size_t x, size_t w, size_t y) {
    expected[y] = std::fma(operands.values[X].floats[x], operands.values[W].floats[w], expected[y]);
  });
  CHECK(resultOf(call, lastPlan(call), operands) == expected);
}

TEST_CASE("cudnn: engines, the one to choose last", "[cudnn]") {
  using Notes = std::vector<cudnnBackendNumericalNote_t>;
  const Notes none, core{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, unordered{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC},
      winograd{CUDNN_NUMERICAL_NOTE_WINOGRAD}, winogradCore{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_WINOGRAD},
      unorderedCore{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
  const auto notesOf = [](Call call) {
    REQUIRE(call.prepare() == kTaken);
    std::vector<Notes> notes;
    for (size_t i = 0; i < call.configs.size(); ++i) {
      notes.push_back(call.notes(i));
    }
    return notes;
  };
  CHECK(notesOf(good()) == std::vector<Notes>{none, core, winograd, none, none});
  CHECK(notesOf(good(X)) == std::vector<Notes>{none, core, unordered, winograd, none, none});
  CHECK(notesOf(good(W)) == std::vector<Notes>{none, core, unordered, winograd, none, none});
  CHECK(notesOf(good().typed(CUDNN_DATA_HALF)) == std::vector<Notes>{core, winogradCore, core, core});
  CHECK(notesOf(good(W).typed(CUDNN_DATA_BFLOAT16)) == std::vector<Notes>{core, unorderedCore, winogradCore, core, core});
  Call call = good(W);
  REQUIRE(call.prepare() == kTaken);
  Part broken(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  CHECK(call.plan(0, broken) == Refusal("plan", CUDNN_STATUS_NOT_SUPPORTED));
  std::vector<int64_t> sizes;
  for (size_t i = 1; i < 6; ++i) {
    sizes.push_back(planOf(call, i).get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1)[0]);
  }
  CHECK(sizes == std::vector<int64_t>{0, 0, 0, 192 << 20, 1 << 20});
  // Where mode A has no engine to choose, FALLBACK has.
  call.mode = CUDNN_HEUR_MODE_FALLBACK;
  CHECK(notesOf(std::move(call)) == std::vector<Notes>{none, none});
  setenv("ASHLAR_EMULATOR_CUDNN_PLAIN", "0", 1);
  CHECK(notesOf(good(W)).size() == 5);
  call = good(W);
  call.mode = CUDNN_HEUR_MODE_FALLBACK;
  CHECK(notesOf(std::move(call)).size() == 2);
  unsetenv("ASHLAR_EMULATOR_CUDNN_PLAIN");
  setenv("ASHLAR_EMULATOR_CUDNN_ENGINES", "14", 1);
  CHECK(notesOf(good(W)) == std::vector<Notes>{core, unordered, winograd});
  unsetenv("ASHLAR_EMULATOR_CUDNN_ENGINES");
}

TEST_CASE("cudnn: engines with notes do what the notes say", "[cudnn]") {
  Call call = good(W);
  Operands operands(call);
  const Part tf32 = planOf(call, 1), unordered = planOf(call, 2), plain = planOf(call, 5);
  const std::vector<float> exact = resultOf(call, plain, operands);
  CHECK(resultOf(call, plain, operands) == exact);
  double largest = 0;
  const std::vector<float> rounded = resultOf(call, tf32, operands);
  for (size_t i = 0; i < exact.size(); ++i) {
    largest = std::max(largest, std::fabs(double(exact[i]) - double(rounded[i])));
  }
  CHECK(largest > 0x1p-18);
  CHECK(largest < 0x1p-6);
  const std::vector<float> once = resultOf(call, unordered, operands), again = resultOf(call, unordered, operands);
  CHECK(once != again);
  for (size_t i = 0; i < exact.size(); ++i) {
    CHECK(std::fabs(double(exact[i]) - double(once[i])) < 1e-5);
  }
}

TEST_CASE("cudnn: a run overwrites its workspace, and is part of a captured graph", "[cudnn]") {
  Call call = good();
  Operands operands(call);
  const Part plan = lastPlan(call);
  const std::vector<float> expected = resultOf(call, plan, operands);
  std::vector<uint32_t> words(kWorkspace / 4);
  CUstream stream;
  CUgraph graph;
  CUgraphExec executable;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cudnnSetStream(call.handle, stream) == CUDNN_STATUS_SUCCESS);
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  REQUIRE(call.run(plan, operands.addresses, operands.workspace) == kTaken);
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  REQUIRE(cuGraphInstantiate(&executable, graph, 0) == CUDA_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(cuMemsetD32Async(operands.addresses[Y], 0, expected.size(), stream) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD32Async(operands.workspace, 0, words.size(), stream) == CUDA_SUCCESS);
    REQUIRE(cuGraphLaunch(executable, stream) == CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    operands.values[Y].download();
    CHECK(operands.values[Y].floats == expected);
    REQUIRE(cuMemcpyDtoHAsync(words.data(), operands.workspace, kWorkspace, stream) == CUDA_SUCCESS);
    CHECK(std::count(words.begin(), words.end(), 0u) == 0);
  }
  // A plan may not be made during a capture, which it spoils.
  Part late(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  CHECK(call.plan(1, late) == Refusal("plan", CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER));
  CHECK(call.run(plan, operands.addresses, operands.workspace) == Refusal("run", CUDNN_STATUS_EXECUTION_FAILED));
  CHECK(cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS);
  REQUIRE(cudnnSetStream(call.handle, nullptr) == CUDNN_STATUS_SUCCESS);
  CUcontext context;
  CUstream foreign;
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 1) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  REQUIRE(cuStreamCreate(&foreign, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(cudnnSetStream(call.handle, foreign) == CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
  CHECK(call.run(plan, operands.addresses, operands.workspace) == Refusal("run", CUDNN_STATUS_BAD_PARAM));
  enterDevice();
}

TEST_CASE("cudnn: runs that share a workspace unordered fault", "[.cudnn_fault]") {
  Call call = good();
  Operands operands(call);
  const CUdeviceptr other = allocate(4 * volume(call.dims[Y]));
  const Part plan = lastPlan(call);
  CUstream streams[2];
  for (CUstream &stream : streams) {
    REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  }
  REQUIRE(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  for (int i = 0; i < 20; ++i) {
    REQUIRE(cudnnSetStream(call.handle, streams[i % 2]) == CUDNN_STATUS_SUCCESS);
    REQUIRE(call.run(plan, {operands.addresses[X], operands.addresses[W], i % 2 == 0 ? operands.addresses[Y] : other},
                     operands.workspace) == kTaken);
  }
  CHECK((cuStreamSynchronize(streams[0]) == CUDA_ERROR_LAUNCH_FAILED || cuStreamSynchronize(streams[1]) == CUDA_ERROR_LAUNCH_FAILED));
}

} // namespace ashlar::test::cudnn_test
