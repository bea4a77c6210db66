// SPDX-License-Identifier: Apache-2.0
//
// Graphs of several operations: which are refused, where, and what a run of one refuses. That attention is computed right is
// test/unit/kernels/cuda/attention_test.cpp's.

#include "test/unit/emulator/cudnn_call.h"

#include <catch2/catch.hpp>

#include <deque>

namespace ashlar::test::cudnn_graph_test {

using namespace ashlar::emulator_test;

namespace {

using Dims = std::vector<int64_t>;

enum Kind { Memory, Inner, Host };

// A graph whose parts are open to tests that spoil them.
class Graph {
public:
  // Returns the number of the tensor, from 1.
  int64_t tensor(Kind kind, cudnnDataType_t type, const Dims &dims, const Dims &strides) {
    const Part &part = parts.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    tensors.push_back(&part);
    const auto id = int64_t(tensors.size());
    expect(part.set<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {id}));
    expect(part.set<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {type}));
    expect(part.set<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, {16}));
    expect(part.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims));
    expect(part.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides));
    const bool isTrue = true;
    if (kind != Memory) {
      expect(cudnnBackendSetAttribute(part.handle, kind == Inner ? CUDNN_ATTR_TENSOR_IS_VIRTUAL : CUDNN_ATTR_TENSOR_IS_BY_VALUE,
                                      CUDNN_TYPE_BOOLEAN, 1, &isTrue));
    }
    finish(part);
    return id;
  }
  int64_t dense(Kind kind, cudnnDataType_t type, int64_t rows, int64_t columns) {
    return tensor(kind, type, {2, 3, rows, columns}, {3 * rows * columns, rows * columns, columns, 1});
  }

  void multiply(int64_t a, int64_t b, int64_t out, cudnnDataType_t compute = CUDNN_DATA_FLOAT) {
    const Part &mode = parts.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    expect(mode.set<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, {compute}));
    finish(mode);
    add(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_DESC, mode,
        {{CUDNN_ATTR_OPERATION_MATMUL_ADESC, a}, {CUDNN_ATTR_OPERATION_MATMUL_BDESC, b}, {CUDNN_ATTR_OPERATION_MATMUL_CDESC, out}});
  }

  void apply(cudnnPointwiseMode_t kind, const std::vector<int64_t> &operands, int64_t out, cudnnDataType_t compute = CUDNN_DATA_FLOAT,
             int64_t axis = -1) {
    const Part &mode = parts.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    expect(mode.set<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, {kind}));
    expect(mode.set<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, {compute}));
    if (axis >= 0) {
      expect(mode.set<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, {axis}));
    }
    finish(mode);
    std::vector<std::pair<cudnnBackendAttributeName_t, int64_t>> named = {{CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out}};
    const cudnnBackendAttributeName_t names[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                 CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
    for (size_t i = 0; i < operands.size(); ++i) {
      named.emplace_back(names[i], operands[i]);
    }
    add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode, named);
  }

  void reduce(cudnnReduceTensorOp_t kind, int64_t operand, int64_t out) {
    const Part &mode = parts.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    expect(mode.set<cudnnDataType_t>(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT}));
    expect(mode.set<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, {kind}));
    finish(mode);
    add(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_DESC, mode,
        {{CUDNN_ATTR_OPERATION_REDUCTION_XDESC, operand}, {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, out}});
  }

  // The graph, then the engines; the first refusal stays.
  cudnnStatus_t propose() {
    if (status != CUDNN_STATUS_SUCCESS) {
      return status;
    }
    std::vector<cudnnBackendDescriptor_t> handles;
    for (const Part *operation : operations) {
      handles.push_back(operation->handle);
    }
    expect(graph.set<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, {cudnnHandle()}));
    expect(graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, handles));
    finish(graph);
    if (status == CUDNN_STATUS_SUCCESS) {
      expect(heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph));
      expect(heuristic.set<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, {CUDNN_HEUR_MODE_A}));
      finish(heuristic);
    }
    return status;
  }

  // The plan of the last engine.
  Part plan() {
    int64_t count = 0;
    REQUIRE(cudnnBackendGetAttribute(heuristic.handle, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr) ==
            CUDNN_STATUS_SUCCESS);
    std::vector<cudnnBackendDescriptor_t> configs;
    for (int64_t i = 0; i < count; ++i) {
      configs.push_back(parts.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).handle);
    }
    REQUIRE(cudnnBackendGetAttribute(heuristic.handle, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count,
                                     configs.data()) == CUDNN_STATUS_SUCCESS);
    Part made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    expect(made.set<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, {cudnnHandle()}));
    expect(made.set<cudnnBackendDescriptor_t>(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, {configs.back()}));
    finish(made);
    REQUIRE(status == CUDNN_STATUS_SUCCESS);
    return made;
  }

private:
  void expect(cudnnStatus_t found) { status = status == CUDNN_STATUS_SUCCESS ? found : status; }
  void finish(const Part &part) {
    if (status == CUDNN_STATUS_SUCCESS) {
      status = part.finalize();
    }
  }
  void add(cudnnBackendDescriptorType_t kind, cudnnBackendAttributeName_t modeName, const Part &mode,
           const std::vector<std::pair<cudnnBackendAttributeName_t, int64_t>> &named) {
    const Part &operation = parts.emplace_back(kind);
    operations.push_back(&operation);
    expect(operation.set(modeName, mode));
    for (const auto &[name, id] : named) {
      expect(operation.set(name, *tensors[size_t(id - 1)]));
    }
    finish(operation);
  }

  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  std::deque<Part> parts;
  std::vector<const Part *> tensors, operations;
  Part graph{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR}, heuristic{CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR};
};

// What an attention of 5 rows and 7 keys may be spoiled in.
struct Facts {
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16, lseType = CUDNN_DATA_FLOAT, compute = CUDNN_DATA_FLOAT;
  int64_t width = 16, columns = 8, keyStride = 1;
  bool hasLogarithm = true, isInOrder = true;
};

// Tensors: 1 query, 2 key, 3 value, 4 out, 5 lse, 6 scale.
void addForward(Graph &graph, const Facts &facts) {
  const int64_t rows = 5, keys = 7;
  const int64_t query = graph.dense(Memory, facts.type, rows, facts.width);
  const int64_t key = graph.tensor(Memory, facts.type, {2, 3, facts.width, keys},
                                   {3 * facts.width * keys * 2, facts.width * keys * 2, facts.keyStride, facts.width * facts.keyStride});
  const int64_t value = graph.dense(Memory, facts.type, keys, facts.columns), out = graph.dense(Memory, facts.type, rows, facts.columns);
  const int64_t lse = graph.dense(Memory, facts.lseType, rows, 1), scale = graph.tensor(Host, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1});
  const auto score = [&](cudnnDataType_t type) { return graph.dense(Inner, type, rows, keys); };
  const auto row = [&] { return graph.dense(Inner, CUDNN_DATA_FLOAT, rows, 1); };
  const int64_t products = score(CUDNN_DATA_FLOAT), scores = score(CUDNN_DATA_FLOAT), most = row(), below = score(CUDNN_DATA_FLOAT),
                exponentials = score(CUDNN_DATA_FLOAT), sum = row(), logarithm = row(), weights = score(facts.type);
  graph.multiply(query, key, products, facts.compute);
  graph.apply(CUDNN_POINTWISE_MUL, {products, scale}, scores);
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, most);
  graph.apply(CUDNN_POINTWISE_SUB, {facts.isInOrder ? scores : exponentials, most}, below);
  graph.apply(CUDNN_POINTWISE_EXP, {below}, exponentials);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
  if (facts.hasLogarithm) {
    graph.apply(CUDNN_POINTWISE_LOG, {sum}, logarithm);
    graph.apply(CUDNN_POINTWISE_ADD, {most, logarithm}, lse);
  }
  graph.apply(CUDNN_POINTWISE_DIV, {exponentials, sum}, weights);
  graph.multiply(weights, value, out);
}

template <class F> cudnnStatus_t proposed(F spoil) {
  Facts facts;
  spoil(facts);
  Graph graph;
  addForward(graph, facts);
  return graph.propose();
}

} // namespace

TEST_CASE("cudnn: which attentions have engines", "[cudnn]") {
  CHECK(proposed([](Facts &) {}) == CUDNN_STATUS_SUCCESS);
  CHECK(proposed([](Facts &facts) { facts.type = CUDNN_DATA_HALF; }) == CUDNN_STATUS_SUCCESS);
  CHECK(proposed([](Facts &facts) { facts.width = facts.columns = 128; }) == CUDNN_STATUS_SUCCESS);
  CHECK(proposed([](Facts &facts) { facts.type = CUDNN_DATA_FLOAT; }) == CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
  CHECK(proposed([](Facts &facts) { facts.lseType = CUDNN_DATA_BFLOAT16; }) == CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
  CHECK(proposed([](Facts &facts) { facts.compute = CUDNN_DATA_HALF; }) == CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
  CHECK(proposed([](Facts &facts) { facts.width = 12; }) == CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
  CHECK(proposed([](Facts &facts) { facts.columns = 136; }) == CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
  CHECK(proposed([](Facts &facts) { facts.keyStride = 2; }) == CUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  CHECK(proposed([](Facts &facts) { facts.hasLogarithm = false; }) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(proposed([](Facts &facts) { facts.isInOrder = false; }) == CUDNN_STATUS_BAD_PARAM);
}

TEST_CASE("cudnn: what operations of a graph are refused for", "[cudnn]") {
  const auto refusal = [](auto add) {
    Graph graph;
    add(graph);
    return graph.propose();
  };
  CHECK(refusal([](Graph &graph) { // alone it is no attention
          graph.apply(CUDNN_POINTWISE_EXP, {graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 8)}, graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 8));
        }) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(refusal([](Graph &graph) { // not played
          graph.apply(CUDNN_POINTWISE_SIN, {graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 8)}, graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 8));
        }) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(refusal([](Graph &graph) {
          graph.reduce(CUDNN_REDUCE_TENSOR_MIN, graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 8), graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 1));
        }) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(refusal([](Graph &graph) { // an operand too few
          graph.apply(CUDNN_POINTWISE_ADD, {graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 8)}, graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 8));
        }) == CUDNN_STATUS_BAD_PARAM);
  CHECK(refusal([](Graph &graph) { // counts along no dim
          graph.apply(CUDNN_POINTWISE_GEN_INDEX, {graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 8)}, graph.dense(Inner, CUDNN_DATA_INT32, 2, 8));
        }) == CUDNN_STATUS_BAD_PARAM);
  CHECK(refusal([](Graph &graph) { // shapes
          graph.apply(CUDNN_POINTWISE_EXP, {graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 4)}, graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 8));
        }) == CUDNN_STATUS_BAD_PARAM);
  CHECK(refusal([](Graph &graph) {
          graph.reduce(CUDNN_REDUCE_TENSOR_ADD, graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 8), graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 4));
        }) == CUDNN_STATUS_BAD_PARAM);
  CHECK(refusal([](Graph &graph) {
          const int64_t a = graph.dense(Memory, CUDNN_DATA_HALF, 2, 8);
          graph.multiply(a, a, graph.dense(Memory, CUDNN_DATA_HALF, 2, 8));
        }) == CUDNN_STATUS_BAD_PARAM);
  CHECK(refusal([](Graph &graph) { // a result that the caller holds
          const int64_t number = graph.tensor(Host, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1});
          graph.apply(CUDNN_POINTWISE_EXP, {number}, number);
        }) == CUDNN_STATUS_BAD_PARAM);
  CHECK(refusal([](Graph &graph) { // twice
          const int64_t x = graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 8), y = graph.dense(Memory, CUDNN_DATA_FLOAT, 2, 8);
          graph.apply(CUDNN_POINTWISE_EXP, {x}, y);
          graph.apply(CUDNN_POINTWISE_LOG, {x}, y);
        }) == CUDNN_STATUS_BAD_PARAM);
  CHECK(refusal([](Graph &graph) { graph.dense(Memory, CUDNN_DATA_INT32, 2, 8); }) == CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
}

TEST_CASE("cudnn: what a run of a graph is refused for", "[cudnn]") {
  Graph graph;
  addForward(graph, Facts());
  REQUIRE(graph.propose() == CUDNN_STATUS_SUCCESS);
  const Part plan = graph.plan();
  const float scale = 0.5f;
  const auto run = [&](auto spoil) {
    static const CUdeviceptr tensors = allocate(6 << 16), workspace = allocate(kWorkspace);
    std::vector<int64_t> ids = {1, 2, 3, 4, 5, 6};
    std::vector<CUdeviceptr> addresses;
    for (CUdeviceptr i = 0; i < 5; ++i) {
      addresses.push_back(tensors + (i << 16));
    }
    addresses.push_back(reinterpret_cast<CUdeviceptr>(&scale));
    spoil(ids, addresses);
    const Part pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    REQUIRE(pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids) == CUDNN_STATUS_SUCCESS);
    REQUIRE(pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, addresses) == CUDNN_STATUS_SUCCESS);
    REQUIRE(pack.set<CUdeviceptr>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, {workspace}) == CUDNN_STATUS_SUCCESS);
    REQUIRE(pack.finalize() == CUDNN_STATUS_SUCCESS);
    return cudnnBackendExecute(cudnnHandle(), plan.handle, pack.handle);
  };
  using Ids = std::vector<int64_t>;
  using Addresses = std::vector<CUdeviceptr>;
  CHECK(run([](Ids &, Addresses &) {}) == CUDNN_STATUS_SUCCESS);
  CHECK(run([](Ids &ids, Addresses &addresses) {
          ids.pop_back();
          addresses.pop_back();
        }) == CUDNN_STATUS_BAD_PARAM);
  CHECK(run([](Ids &ids, Addresses &) { ids[0] = 9; }) == CUDNN_STATUS_BAD_PARAM);
  CHECK(run([](Ids &, Addresses &addresses) { addresses[5] = addresses[0]; }) == CUDNN_STATUS_BAD_PARAM);      // a number of the device
  CHECK(run([](Ids &, Addresses &addresses) { addresses[3] = addresses[0]; }) == CUDNN_STATUS_BAD_PARAM);      // out on the query
  CHECK(run([](Ids &, Addresses &addresses) { addresses[4] = addresses[3] + 16; }) == CUDNN_STATUS_BAD_PARAM); // two results
  CHECK(run([](Ids &, Addresses &addresses) { addresses[2] += 8; }) == CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  ashlar::emulator::Values(1, CUDA_R_32F).download(); // after the run
}

} // namespace ashlar::test::cudnn_graph_test
