// SPDX-License-Identifier: Apache-2.0
//
// Two convolutions of ResNet-50, in bf16 and f16, as graphs of cuDNN's operations, channels last.

#include "test/bench/cuda_conv_fusions.h"

#include "runtime/abi/memory_sizes.h"
#include "runtime/kernels/cuda/cudnn_engines.h"

#include <deque>

namespace ashlar::bench {
namespace {

using namespace rt;

struct Shape {
  const char *name;
  int64_t channelsIn, channelsOut, size, kernel;
};

constexpr int64_t kBatch = 256;
constexpr Shape kShapes[] = {{"1x1, 64 to 256, 56", 64, 256, 56, 1}, {"3x3, 128 to 128, 28", 128, 128, 28, 3}};

// What is before and behind a convolution.
struct Form {
  const char *name;
  bool normalizes, activates, sums;
};

constexpr Form kForms[] = {{"convolution", false, false, false},
                           {"convolution, bias, relu", false, true, false},
                           {"convolution, statistics", false, false, true},
                           {"scale, bias, relu, convolution, statistics", true, false, true}};

// A graph that is put together. The first failure is kept.
class Graph {
public:
  Graph(const CudnnLibrary &dnn, cudnnDataType_t type) : dnn(dnn), type(type), graph(dnn) {}

  CudnnDescriptor *tensor(cudnnDataType_t of, int64_t n, int64_t c, int64_t h, int64_t w, bool isInner = false) {
    CudnnDescriptor &made = begin(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    put(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, static_cast<int64_t>(parts.size()));
    put(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, of);
    put(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kOperandAlignment);
    put(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::vector<int64_t>{n, c, h, w});
    put(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::vector<int64_t>{h * w * c, 1, w * c, c});
    if (isInner) {
      put(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
    }
    return close(made);
  }

  void convolve(CudnnDescriptor *x, CudnnDescriptor *w, CudnnDescriptor *y, int64_t padding) {
    const std::vector<int64_t> pads = {padding, padding}, ones = {1, 1};
    CudnnDescriptor &mode = begin(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    put(mode, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    put(mode, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
    put(mode, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2});
    put(mode, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, pads);
    put(mode, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, pads);
    put(mode, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, ones);
    put(mode, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, ones);
    close(mode);
    CudnnDescriptor &operation = beginOperation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    put(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, *x);
    put(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, *w);
    put(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, *y);
    put(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, mode);
    put(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0f);
    put(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0f);
    close(operation);
  }

  // `other`: null for one operand.
  void apply(cudnnPointwiseMode_t kind, CudnnDescriptor *operand, CudnnDescriptor *other, CudnnDescriptor *result) {
    CudnnDescriptor &mode = begin(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    put(mode, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, kind);
    put(mode, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    close(mode);
    CudnnDescriptor &operation = beginOperation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    put(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode);
    put(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *operand);
    if (other != nullptr) {
      put(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *other);
    }
    put(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *result);
    close(operation);
  }

  void sum(CudnnDescriptor *operand, CudnnDescriptor *sums, CudnnDescriptor *squares) {
    CudnnDescriptor &operation = beginOperation(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    put(operation, CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM);
    put(operation, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    put(operation, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, *operand);
    put(operation, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, *sums);
    put(operation, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, *squares);
    close(operation);
  }

  // Puts the graph of a form together, and returns its first engine, or why there is none.
  std::string plan(cudnnHandle_t handle, const Shape &shape, const Form &form) {
    const int64_t in = shape.channelsIn, out = shape.channelsOut, size = shape.size;
    CudnnDescriptor *x = tensor(type, kBatch, in, size, size);
    CudnnDescriptor *y = tensor(type, kBatch, out, size, size, form.activates);
    if (form.normalizes) {
      for (const cudnnPointwiseMode_t mode : {CUDNN_POINTWISE_MUL, CUDNN_POINTWISE_ADD, CUDNN_POINTWISE_RELU_FWD}) {
        CudnnDescriptor *other = mode == CUDNN_POINTWISE_RELU_FWD ? nullptr : tensor(type, 1, in, 1, 1);
        CudnnDescriptor *result = tensor(CUDNN_DATA_FLOAT, kBatch, in, size, size, /*isInner=*/true);
        apply(mode, x, other, result);
        x = result;
      }
    }
    convolve(x, tensor(type, out, in, shape.kernel, shape.kernel), y, shape.kernel / 2);
    if (form.activates) {
      CudnnDescriptor *sum = tensor(CUDNN_DATA_FLOAT, kBatch, out, size, size, /*isInner=*/true);
      apply(CUDNN_POINTWISE_ADD, y, tensor(type, 1, out, 1, 1), sum);
      apply(CUDNN_POINTWISE_RELU_FWD, sum, nullptr, tensor(type, kBatch, out, size, size));
    }
    if (form.sums) {
      sum(y, tensor(CUDNN_DATA_FLOAT, 1, out, 1, 1), tensor(CUDNN_DATA_FLOAT, 1, out, 1, 1));
    }
    status.update(status.ok() ? graph.create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) : Status());
    put(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
    put(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
    status.update(status.ok() ? dnn.check(graph.finalize(), "cannot describe a graph of cuDNN") : Status());
    CudnnEngines engines(dnn, graph, kConvolutionWorkspaceBytes, EngineOperands::RoundedInside);
    status.update(status.ok() ? engines.choose(handle, kMoreWorkspace | kTransforms | kNondeterministic, UINT64_MAX, "it", "the graph")
                              : Status());
    return status.ok() ? engines.chosen()->text() : "none: " + status.message();
  }

private:
  // Sets an attribute, unless something failed: then there may be no descriptor.
  template <typename... Values> void put(CudnnDescriptor &made, const Values &...values) {
    status.update(status.ok() ? made.set(values...) : Status());
  }

  CudnnDescriptor &begin(cudnnBackendDescriptorType_t kind) {
    CudnnDescriptor &made = parts.emplace_back(dnn);
    status.update(status.ok() ? made.create(kind) : Status());
    return made;
  }

  CudnnDescriptor &beginOperation(cudnnBackendDescriptorType_t kind) {
    CudnnDescriptor &made = begin(kind);
    operations.push_back(made.get());
    return made;
  }

  CudnnDescriptor *close(CudnnDescriptor &made) {
    status.update(status.ok() ? dnn.check(made.finalize(), "cannot describe a graph of cuDNN") : Status());
    return &made;
  }

  const CudnnLibrary &dnn;
  cudnnDataType_t type;
  Status status;
  std::deque<CudnnDescriptor> parts;
  std::vector<cudnnBackendDescriptor_t> operations;
  CudnnDescriptor graph;
};

} // namespace

Status listConvolutionFusions(std::vector<std::string> &lines) {
  CudnnLibrary dnn;
  ASHLAR_RETURN_IF_ERROR(CudnnLibrary::load(dnn, "a convolution"));
  cudnnHandle_t handle = nullptr;
  ASHLAR_RETURN_IF_ERROR(dnn.check(dnn.cudnnCreate(&handle), "cannot initialise cuDNN"));
  for (const Shape &shape : kShapes) {
    for (const Form &form : kForms) {
      for (const auto &[name, type] : {std::pair("bf16", CUDNN_DATA_BFLOAT16), std::pair("f16", CUDNN_DATA_HALF)}) {
        lines.push_back(fmt::format("fusion  {:22} {:5} {}: {}", shape.name, name, form.name, Graph(dnn, type).plan(handle, shape, form)));
      }
    }
  }
  return dnn.check(dnn.cudnnDestroy(handle), "cannot end cuDNN");
}

} // namespace ashlar::bench
