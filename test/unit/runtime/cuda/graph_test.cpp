// SPDX-License-Identifier: Apache-2.0
//
// A captured graph against a driver that only counts.

#include "runtime/device/cuda/graph.h"

#include <catch2/catch.hpp>

namespace ashlar::test::graph_test {
namespace {

using namespace ashlar::rt;

int graphs = 0;
int executables = 0;

DriverLibrary countingDriver() {
  DriverLibrary driver;
  driver.cuStreamBeginCapture_v2 = [](CUstream, CUstreamCaptureMode) { return CUDA_SUCCESS; };
  driver.cuStreamEndCapture = [](CUstream, CUgraph *graph) {
    ++graphs;
    *graph = reinterpret_cast<CUgraph>(&graphs);
    return CUDA_SUCCESS;
  };
  driver.cuGraphInstantiateWithFlags = [](CUgraphExec *executable, CUgraph, unsigned long long) {
    ++executables;
    *executable = reinterpret_cast<CUgraphExec>(&executables);
    return CUDA_SUCCESS;
  };
  driver.cuGraphDestroy = [](CUgraph) { return --graphs, CUDA_SUCCESS; };
  driver.cuGraphExecDestroy = [](CUgraphExec) { return --executables, CUDA_SUCCESS; };
  return driver;
}

TEST_CASE("graph: what was captured lives until it is forgotten, and ends once", "[cuda][graph]") {
  graphs = executables = 0;
  DriverLibrary driver = countingDriver();
  {
    CudaGraph graph(driver);
    REQUIRE(graph.capture(/*stream=*/nullptr, [] { return Status(); }).ok());
    CHECK(graph.captured());
    CHECK(graphs == 0);
    CHECK(executables == 1);
    graph.reset();
    CHECK_FALSE(graph.captured());
    CHECK(executables == 0);
  }
  CHECK(executables == 0);
}

TEST_CASE("graph: a capture that fails leaves nothing behind", "[cuda][graph]") {
  graphs = executables = 0;
  DriverLibrary driver = countingDriver();
  CudaGraph graph(driver);
  CHECK(graph.capture(/*stream=*/nullptr, [] { return unavailable("no"); }).message() == "no");
  CHECK_FALSE(graph.captured());
  CHECK(graphs == 0);
  CHECK(executables == 0);
}

} // namespace

} // namespace ashlar::test::graph_test
