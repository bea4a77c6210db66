// SPDX-License-Identifier: Apache-2.0
//
// The calls, in their order.

#include "test/unit/emulator/cudnn_call.h"

#include <catch2/catch.hpp>

namespace ashlar::emulator_test {
namespace {

// Returns from the function with the first refusal.
#define ASHLAR_TEST_TAKEN(part, call)                                                                                                      \
  if (const cudnnStatus_t status = call) {                                                                                                 \
    return {part, status};                                                                                                                 \
  }

struct Names {
  cudnnBackendDescriptorType_t kind;
  cudnnBackendAttributeName_t convolution, tensors[3], alpha, beta;
};

// By result.
const Names kNames[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA}};

Refusal setTensor(const Part &tensor, const Call &call, size_t role) {
  ASHLAR_TEST_TAKEN("tensor", tensor.set<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {call.ids[role]}))
  ASHLAR_TEST_TAKEN("tensor", tensor.set<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {call.types[role]}))
  ASHLAR_TEST_TAKEN("tensor", tensor.set<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, {call.alignment}))
  ASHLAR_TEST_TAKEN("tensor", tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, call.dims[role]))
  ASHLAR_TEST_TAKEN("tensor", tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, call.strides[role]))
  ASHLAR_TEST_TAKEN("tensor", tensor.finalize())
  return kTaken;
}

Refusal setConvolution(const Part &part, const Call &call) {
  const auto spatial = int64_t(call.stride.size());
  ASHLAR_TEST_TAKEN("convolution", part.set<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, {call.compute}))
  ASHLAR_TEST_TAKEN("convolution",
                    part.set<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, {call.direction}))
  ASHLAR_TEST_TAKEN("convolution", part.set<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, {spatial}))
  ASHLAR_TEST_TAKEN("convolution", part.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, call.before))
  ASHLAR_TEST_TAKEN("convolution", part.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, call.after))
  ASHLAR_TEST_TAKEN("convolution", part.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, call.dilation))
  ASHLAR_TEST_TAKEN("convolution", part.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, call.stride))
  ASHLAR_TEST_TAKEN("convolution", part.finalize())
  return kTaken;
}

} // namespace

Part::Part(cudnnBackendDescriptorType_t kind) {
  REQUIRE(cudnnBackendCreateDescriptor(kind, &handle) == CUDNN_STATUS_SUCCESS);
}

Part::~Part() {
  if (handle) {
    CHECK(cudnnBackendDestroyDescriptor(handle) == CUDNN_STATUS_SUCCESS);
  }
}

Call::Call(Tensors result, std::vector<int64_t> x, std::vector<int64_t> w, std::vector<int64_t> padding, std::vector<int64_t> stride,
           std::vector<int64_t> dilation)
    : result(result), before(padding), after(padding), stride(stride), dilation(dilation), handle(cudnnHandle()) {
  std::vector<int64_t> y{x[0], w[0]};
  for (size_t i = 0; i < stride.size(); ++i) {
    y.push_back((x[i + 2] + 2 * padding[i] - (w[i + 2] - 1) * dilation[i] - 1) / stride[i] + 1);
  }
  dims[X] = x;
  dims[W] = w;
  dims[Y] = y;
  for (const Tensors role : {X, W, Y}) {
    strides[role] = channelsLast(dims[role]);
  }
}

Call &Call::typed(cudnnDataType_t type) {
  types[X] = types[W] = types[Y] = type;
  return *this;
}

Refusal Call::prepare() {
  const Part tensors[] = {Part(CUDNN_BACKEND_TENSOR_DESCRIPTOR), Part(CUDNN_BACKEND_TENSOR_DESCRIPTOR),
                          Part(CUDNN_BACKEND_TENSOR_DESCRIPTOR)};
  for (size_t i = 0; i < 3; ++i) {
    if (const Refusal refused = setTensor(tensors[i], *this, i); refused != kTaken) {
      return refused;
    }
  }
  const Part convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  if (const Refusal refused = setConvolution(convolution, *this); refused != kTaken) {
    return refused;
  }
  const Names &names = kNames[result];
  const Part operation(names.kind);
  ASHLAR_TEST_TAKEN("operation", operation.set(names.convolution, convolution))
  for (size_t i = 0; i < 3; ++i) {
    ASHLAR_TEST_TAKEN("operation", operation.set(names.tensors[i], tensors[i]))
  }
  ASHLAR_TEST_TAKEN("operation", operation.set<float>(names.alpha, CUDNN_TYPE_FLOAT, {alpha}))
  ASHLAR_TEST_TAKEN("operation", operation.set<float>(names.beta, CUDNN_TYPE_FLOAT, {beta}))
  ASHLAR_TEST_TAKEN("operation", operation.finalize())
  const Part graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  ASHLAR_TEST_TAKEN("graph", graph.set<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, {handle}))
  ASHLAR_TEST_TAKEN("graph", graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation))
  ASHLAR_TEST_TAKEN("graph", graph.finalize())
  const Part heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  ASHLAR_TEST_TAKEN("heuristic", heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph))
  ASHLAR_TEST_TAKEN("heuristic", heuristic.set<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, {mode}))
  ASHLAR_TEST_TAKEN("heuristic", heuristic.finalize())
  int64_t count = 0;
  ASHLAR_TEST_TAKEN("results", cudnnBackendGetAttribute(heuristic.handle, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                                        &count, nullptr))
  configs.clear();
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < count; ++i) {
    handles.push_back(configs.emplace_back(std::make_shared<Part>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR))->handle);
  }
  ASHLAR_TEST_TAKEN("results", cudnnBackendGetAttribute(heuristic.handle, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                        count, &count, handles.data()))
  return kTaken;
}

Refusal Call::plan(size_t config, Part &plan) const {
  ASHLAR_TEST_TAKEN("plan", plan.set<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, {handle}))
  ASHLAR_TEST_TAKEN("plan", plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *configs[config]))
  ASHLAR_TEST_TAKEN("plan", plan.finalize())
  return kTaken;
}

Refusal Call::run(const Part &plan, const std::vector<CUdeviceptr> &addresses, CUdeviceptr workspace) const {
  const Part pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  ASHLAR_TEST_TAKEN("pack", pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, addresses))
  ASHLAR_TEST_TAKEN("pack", pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids))
  ASHLAR_TEST_TAKEN("pack", pack.set<CUdeviceptr>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, {workspace}))
  ASHLAR_TEST_TAKEN("pack", pack.finalize())
  ASHLAR_TEST_TAKEN("run", cudnnBackendExecute(handle, plan.handle, pack.handle))
  return kTaken;
}

std::vector<cudnnBackendNumericalNote_t> Call::notes(size_t config) const {
  const Part engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  int64_t count = 0;
  cudnnBackendDescriptor_t handle = engine.handle;
  REQUIRE(cudnnBackendGetAttribute(configs[config]->handle, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                   &handle) == CUDNN_STATUS_SUCCESS);
  return engine.get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                                 CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
}

Call good(Tensors result) {
  return {result, {2, 6, 7, 5}, {4, 6, 3, 3}, {1, 1}, {1, 1}, {1, 1}};
}

Operands::Operands(const Call &call, cudaDataType type)
    : values{emulator::Values(volume(call.dims[X]), type, 1), emulator::Values(volume(call.dims[W]), type, 2),
             emulator::Values(volume(call.dims[Y]), type, 3)},
      addresses{values[X].device, values[W].device, values[Y].device}, workspace(allocate(kWorkspace)) {}

Part planOf(Call &call, size_t config) {
  Part plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  REQUIRE(call.prepare() == kTaken);
  REQUIRE(call.plan(config, plan) == kTaken);
  return plan;
}

Part lastPlan(Call &call) {
  REQUIRE(call.prepare() == kTaken);
  return planOf(call, call.configs.size() - 1);
}

CUdeviceptr allocate(size_t bytes) {
  CUdeviceptr address;
  REQUIRE(cuMemAlloc(&address, bytes) == CUDA_SUCCESS);
  return address;
}

size_t volume(const std::vector<int64_t> &dims) {
  size_t result = 1;
  for (const int64_t dim : dims) {
    result *= size_t(dim);
  }
  return result;
}

cudnnHandle_t cudnnHandle() {
  emulator::enterDevice();
  static cudnnHandle_t handle = [] {
    cudnnHandle_t made;
    REQUIRE(cudnnCreate(&made) == CUDNN_STATUS_SUCCESS);
    return made;
  }();
  return handle;
}

std::vector<int64_t> channelsLast(const std::vector<int64_t> &dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  int64_t stride = dims[1];
  for (size_t i = dims.size() - 1; i > 1; --i) {
    strides[i] = stride;
    stride *= dims[i];
  }
  strides[0] = stride;
  return strides;
}

} // namespace ashlar::emulator_test
