// SPDX-License-Identifier: Apache-2.0
//
// What cuDNN refuses: parts that are wrong in themselves, operations that no engine is sure to take, and runs that do not fit their plan.

#include "test/unit/emulator/cudnn_call.h"

#include <catch2/catch.hpp>

namespace ashlar::test::cudnn_refusals_test {

using namespace ashlar::emulator_test;

TEST_CASE("cudnn: what an operation is refused for", "[cudnn]") {
  const auto refusal = [](auto spoil, Tensors result = Y) {
    Call call = good(result);
    spoil(call);
    return call.prepare();
  };
  const Refusal shapes("operation", CUDNN_STATUS_BAD_PARAM), types("heuristic", CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE),
      layout("heuristic", CUDNN_STATUS_NOT_SUPPORTED_LAYOUT), tensor("tensor", CUDNN_STATUS_BAD_PARAM),
      convolution("convolution", CUDNN_STATUS_BAD_PARAM);
  CHECK(refusal([](Call &) {}) == kTaken);
  // Tensors.
  CHECK(refusal([](Call &call) { call.alignment = 6; }) == tensor);
  CHECK(refusal([](Call &call) { call.alignment = 0; }) == tensor);
  CHECK(refusal([](Call &call) { call.strides[X].pop_back(); }) == tensor);
  CHECK(refusal([](Call &call) { call.dims[X][0] = 0; }) == tensor);
  CHECK(refusal([](Call &call) { call.strides[X][0] = 0; }) == tensor);
  CHECK(refusal([](Call &call) { call.types[W] = CUDNN_DATA_DOUBLE; }) == Refusal("tensor", CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE));
  CHECK(refusal([](Call &call) {
          call.dims[X].pop_back();
          call.strides[X].pop_back();
        }) == Refusal("tensor", CUDNN_STATUS_NOT_SUPPORTED_SHAPE));
  // Convolutions.
  CHECK(refusal([](Call &call) { call.before[0] = -1; }) == convolution);
  CHECK(refusal([](Call &call) { call.dilation[1] = 0; }) == convolution);
  CHECK(refusal([](Call &call) { call.stride[1] = 0; }) == convolution);
  CHECK(refusal([](Call &call) { call.after.pop_back(); }) == convolution);
  CHECK(refusal([](Call &call) { call.before = call.after = call.stride = call.dilation = {1}; }) ==
        Refusal("convolution", CUDNN_STATUS_NOT_SUPPORTED));
  CHECK(refusal([](Call &call) { call.direction = CUDNN_CONVOLUTION; }) == Refusal("convolution", CUDNN_STATUS_NOT_SUPPORTED));
  // Operations.
  for (const Tensors result : {X, W, Y}) {
    for (const Tensors role : {X, W, Y}) {
      for (size_t dim = 0; dim < 4; ++dim) {
        CHECK(refusal([&](Call &call) { ++call.dims[role][dim]; }, result) == shapes);
      }
      CHECK(refusal([&](Call &call) { call.types[role] = CUDNN_DATA_HALF; }, result) == types);
      CHECK(refusal([&](Call &call) { call.strides[role] = {4096, 64, 8, 1}; }, result) == layout);
      CHECK(refusal([&](Call &call) { call.strides[role][0] += 4; }, result) == layout);
    }
    CHECK(refusal([](Call &call) { call.before = call.after = call.stride = call.dilation = {1, 1, 1}; }, result) == shapes);
    CHECK(refusal([](Call &call) { call.dims[W][1] = 4; }, result) == shapes);
    CHECK(refusal([](Call &call) { call.dims[W][1] = 2; }, result) == shapes); // 4 filters in 3 groups
    CHECK(refusal([](Call &call) { call.ids = {1, 2, 1}; }, result) == Refusal("operation", CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES));
    // Gradients of bf16 are not summed into f32.
    CHECK(refusal([&](Call &call) { call.typed(CUDNN_DATA_BFLOAT16).types[result] = CUDNN_DATA_FLOAT; }, result) == types);
    CHECK(refusal([](Call &call) { call.compute = CUDNN_DATA_HALF; }, result) == types);
    CHECK(refusal(
              [](Call &call) {
                call.before = {2, 1};
                call.after = {0, 1};
              },
              result) == Refusal("heuristic", CUDNN_STATUS_NOT_SUPPORTED_PADDING));
  }
  // A filter beyond x and its paddings, by one place.
  CHECK(refusal([](Call &call) {
          call.dims[W][2] = 10;
          call.stride[0] = 2;
          call.dims[Y][2] = 1;
        }) == shapes);
  Call deep(Y, {2, 4, 5, 4, 6}, {6, 2, 2, 3, 1}, {1, 0, 2}, {2, 1, 2}, {2, 1, 1});
  for (std::vector<int64_t> *values : {&deep.before, &deep.after, &deep.stride, &deep.dilation}) {
    values->pop_back();
  }
  CHECK(deep.prepare() == shapes);
  CHECK(refusal([](Call &call) { call.mode = CUDNN_HEUR_MODE_B; }) == Refusal("heuristic", CUDNN_STATUS_NOT_SUPPORTED));
  CHECK(refusal([](Call &call) { call.handle = nullptr; }) == Refusal("graph", CUDNN_STATUS_BAD_PARAM));
}

TEST_CASE("cudnn: how attributes are set and read", "[cudnn]") {
  cudnnHandle();
  Part tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto set = [&](cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::vector<int64_t> values) {
    return tensor.set(name, type, values);
  };
  std::array<int64_t, 5> got{};
  int64_t count = -1;
  const auto get = [&](cudnnBackendAttributeType_t type, int64_t requested) {
    return cudnnBackendGetAttribute(tensor.handle, CUDNN_ATTR_TENSOR_DIMENSIONS, type, requested, &count, got.data());
  };
  CHECK(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, {1}) == CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  CHECK(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {1, 2}) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnBackendSetAttribute(tensor.handle, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 0, got.data()) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnBackendSetAttribute(tensor.handle, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, nullptr) == CUDNN_STATUS_BAD_PARAM);
  CHECK(set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, {1, 1}) == CUDNN_STATUS_BAD_PARAM);
  CHECK(set(CUDNN_ATTR_TENSOR_VECTOR_COUNT, CUDNN_TYPE_INT64, {1}) == CUDNN_STATUS_BAD_PARAM);
  CHECK(set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_HALF}) == CUDNN_STATUS_SUCCESS);
  CHECK(set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, {2}) == CUDNN_STATUS_SUCCESS);
  CHECK(set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, {2, 3, 4, 5}) == CUDNN_STATUS_SUCCESS);
  CHECK(set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, {60, 1, 15, 3}) == CUDNN_STATUS_SUCCESS);
  CHECK(tensor.finalize() == CUDNN_STATUS_BAD_PARAM); // no unique id
  CHECK(get(CUDNN_TYPE_INT64, 4) == CUDNN_STATUS_NOT_INITIALIZED);
  CHECK(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {1}) == CUDNN_STATUS_SUCCESS);
  Part heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  CHECK(operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensor) == CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  CHECK(tensor.finalize() == CUDNN_STATUS_SUCCESS);
  CHECK(tensor.finalize() == CUDNN_STATUS_BAD_PARAM);
  CHECK(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {2}) == CUDNN_STATUS_BAD_PARAM);
  CHECK(operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensor) == CUDNN_STATUS_SUCCESS);
  CHECK(operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, tensor) == CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
  CHECK(heuristic.set(CUDNN_ATTR_ENGINEHEUR_RESULTS, Part(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) == CUDNN_STATUS_BAD_PARAM);
  CHECK(Part(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).finalize() == CUDNN_STATUS_BAD_PARAM); // of no heuristic
  CHECK(get(CUDNN_TYPE_INT64, 0) == CUDNN_STATUS_SUCCESS);
  CHECK(count == 4);
  CHECK(get(CUDNN_TYPE_INT64, 2) == CUDNN_STATUS_SUCCESS);
  CHECK(count == 2);
  CHECK(get(CUDNN_TYPE_INT64, 5) == CUDNN_STATUS_SUCCESS);
  CHECK(count == 4);
  CHECK(got == std::array<int64_t, 5>{2, 3, 4, 5, 0});
  CHECK(get(CUDNN_TYPE_FLOAT, 4) == CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  // Handles that are none.
  CHECK(cudnnBackendDestroyDescriptor(got.data()) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  CHECK(cudnnBackendFinalize(nullptr) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  CHECK(cudnnDestroy(nullptr) == CUDNN_STATUS_BAD_PARAM);
  cudnnBackendDescriptor_t none;
  CHECK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR, &none) == CUDNN_STATUS_NOT_SUPPORTED);
  // An engine configuration is read into a new descriptor only.
  Call call = good();
  REQUIRE(call.prepare() == kTaken);
  const Part engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  const auto read = [&](cudnnBackendDescriptor_t into) {
    return cudnnBackendGetAttribute(call.configs[0]->handle, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &into);
  };
  CHECK(read(Part(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).handle) == CUDNN_STATUS_BAD_PARAM);
  CHECK(read(engine.handle) == CUDNN_STATUS_SUCCESS);
  CHECK(read(engine.handle) == CUDNN_STATUS_BAD_PARAM);
}

TEST_CASE("cudnn: what a run is refused for", "[cudnn]") {
  Call call = good(W);
  Operands operands(call);
  const Part plan = lastPlan(call);
  const std::vector<CUdeviceptr> &addresses = operands.addresses;
  const auto refusal = [&](const std::vector<CUdeviceptr> &addresses, CUdeviceptr workspace) {
    return call.run(plan, addresses, workspace);
  };
  const Refusal misaligned("run", CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER), outside("run", CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND),
      wrong("run", CUDNN_STATUS_BAD_PARAM);
  CHECK(refusal(addresses, operands.workspace) == kTaken);
  CHECK(refusal(addresses, 0) == Refusal("run", CUDNN_STATUS_BAD_PARAM_NULL_POINTER));
  CHECK(refusal(addresses, allocate(kWorkspace - 1)) == Refusal("run", CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT));
  CHECK(refusal(addresses, allocate(2 * kWorkspace) + 64) == misaligned);
  CHECK(refusal({addresses[X], addresses[W] + 32, addresses[Y]}, operands.workspace) == misaligned);
  CHECK(refusal({addresses[X] + 64, addresses[W], addresses[Y]}, operands.workspace) == outside); // its end
  alignas(64) static std::array<float, 1024> host;
  CHECK(refusal({addresses[X], addresses[W], reinterpret_cast<CUdeviceptr>(host.data())}, operands.workspace) == outside);
  void *pinned;
  CUdeviceptr mapped;
  REQUIRE(cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS);
  REQUIRE(cuMemHostGetDevicePointer(&mapped, pinned, 0) == CUDA_SUCCESS);
  CHECK(refusal({addresses[X], addresses[W], mapped}, operands.workspace) == outside);
  CHECK(refusal({addresses[X], addresses[X], addresses[Y]}, operands.workspace) == wrong); // the result over x
  const CUdeviceptr large = allocate(2 * kWorkspace);
  CHECK(refusal({large + kWorkspace - 256, addresses[W], addresses[Y]}, large) == wrong); // the workspace over x
  // Unique ids.
  const auto withIds = [&](std::vector<int64_t> ids, const std::vector<CUdeviceptr> &addresses) {
    call.ids = std::move(ids);
    return call.run(plan, addresses, operands.workspace);
  };
  CHECK(withIds({1, 2, 4}, addresses) == wrong);
  CHECK(withIds({1, 2}, {addresses[X], addresses[W]}) == wrong);
  CHECK(withIds({1, 2, 3, 4}, {addresses[X], addresses[W], addresses[Y], large}) == wrong);
  CHECK(withIds({1, 2}, addresses) == Refusal("pack", CUDNN_STATUS_BAD_PARAM));
  CHECK(withIds({1, 2, 2}, addresses) == Refusal("pack", CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES));
  CHECK(withIds({3, 2, 1}, {addresses[Y], addresses[W], addresses[X]}) == kTaken);
  // What is executed, and with what.
  const Part fresh(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  CHECK(call.run(fresh, {addresses[Y], addresses[W], addresses[X]}, operands.workspace) ==
        Refusal("run", CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED));
  CHECK(cudnnBackendExecute(call.handle, plan.handle, pack.handle) == CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  CHECK(cudnnBackendExecute(call.handle, pack.handle, pack.handle) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnBackendExecute(call.handle, plan.handle, fresh.handle) == CUDNN_STATUS_BAD_PARAM);
  CUstream stream;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cudnnSetStream(call.handle, stream) == CUDNN_STATUS_SUCCESS);
  REQUIRE(cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(cudnnSetStream(call.handle, stream) == CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
  CHECK(call.run(plan, {addresses[Y], addresses[W], addresses[X]}, operands.workspace) == Refusal("run", CUDNN_STATUS_EXECUTION_FAILED));
  REQUIRE(cudnnSetStream(call.handle, nullptr) == CUDNN_STATUS_SUCCESS);
  cudnnHandle_t other;
  REQUIRE(cudnnCreate(&other) == CUDNN_STATUS_SUCCESS);
  std::swap(call.handle, other);
  Part foreign(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  CHECK(call.plan(call.configs.size() - 1, foreign) == Refusal("plan", CUDNN_STATUS_BAD_PARAM));
  CHECK(call.run(plan, {addresses[Y], addresses[W], addresses[X]}, operands.workspace) == wrong);
  CHECK(cudnnDestroy(call.handle) == CUDNN_STATUS_SUCCESS);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
}

} // namespace ashlar::test::cudnn_refusals_test
