// SPDX-License-Identifier: Apache-2.0
//
// Which engine of cuDNN a convolution gets where none keeps all promises, on the emulator.

#include "runtime/kernels/cuda/convolution.h"
#include "test/unit/kernels/cuda/emulated_device.h"

#include <algorithm>
#include <cmath>

namespace ashlar::test::convolution_test {

using namespace ashlar::rt;
using ashlar::test::EmulatedDevice;
using ashlar::test::Setting;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

// The weight gradient of x (2, 5, 7, 6), y (2, 5, 7, 8), weights (8, 3, 3, 6).
ashlar_rt_conv_desc weightGradient() {
  ashlar_rt_conv_desc desc = {};
  desc.kind = ASHLAR_RT_CONV_WEIGHTS;
  desc.batch = 2;
  desc.groups = 1;
  desc.channels_in = 6;
  desc.channels_out = 8;
  desc.spatial_dims = 2;
  desc.dims[0] = {1, 1, 1, 1, 1, 0};
  desc.dims[1] = {5, 5, 3, 1, 1, 1};
  desc.dims[2] = {7, 7, 3, 1, 1, 1};
  return desc;
}

constexpr size_t kX = 2 * 5 * 7 * 6, kY = 2 * 5 * 7 * 8, kWeights = 8 * 3 * 3 * 6;

struct Result {
  std::string error;
  std::string chosen;
  std::vector<std::string> relaxed;
  uint64_t extraBytes = 0;
  std::vector<float> weights;
};

// Runs it with the engines of the emulator's mask, and what the user lets go.
Result run(const std::string &engines, const std::string &relax) {
  EmulatedDevice &gpu = EmulatedDevice::get();
  static const CUdeviceptr workspace = gpu.allocate(kConvolutionWorkspaceBytes), x = gpu.values(ASHLAR_RT_F32, kX, 1),
                           y = gpu.values(ASHLAR_RT_F32, kY, 2), out = gpu.allocate(kWeights * sizeof(float));
  const Setting there("ASHLAR_EMULATOR_CUDNN_ENGINES", engines), allowed("ASHLAR_CUDNN_RELAX", relax);
  Result result;
  Convolutions convolutions;
  REQUIRE(convolutions.create(gpu.device, workspace).message() == "");
  size_t number = 0;
  result.error = convolutions.prepare(weightGradient(), {x, y, out, ASHLAR_RT_F32}, "conv1", number).message();
  if (!result.error.empty()) {
    return result;
  }
  REQUIRE(convolutions.finish().message() == "");
  result.chosen = convolutions.lastPlan()->chosen()->text();
  result.relaxed = convolutions.relaxed();
  result.extraBytes = convolutions.extraBytes();
  REQUIRE(gpu.device.driver().cuMemsetD8Async(out, 0xff, kWeights * sizeof(float), gpu.stream) == CUDA_SUCCESS);
  REQUIRE(convolutions.enqueue(number, gpu.stream).message() == "");
  result.weights = gpu.downloadFloats(out, kWeights);
  return result;
}

double distance(const std::vector<float> &a, const std::vector<float> &b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double each = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    most = each <= most ? most : each; // NaN stays
  }
  return most;
}

} // namespace

TEST_CASE("convolution: a promise is waived where the user lets it go and no engine keeps it", "[cuda][convolution]") {
  const std::string all = "63", withoutPlain = "31";
  const Result exact = run(all, "tf32,nondeterministic,winograd,workspace");
  REQUIRE(exact.error == "");
  CHECK_THAT(exact.chosen, Contains("engine 5: no notes; CUDNN_STATUS_SUCCESS, 1048576 bytes of workspace"));
  CHECK(exact.relaxed.empty());
  CHECK(exact.extraBytes == 0);

  struct Case {
    const char *engines, *relax, *chosen, *needs;
    double most;
  };
  // The order is that of docs/convolution.md, whatever the library's and the user's are.
  for (const Case &each : {Case{"31", "nondeterministic,winograd,tf32,workspace", "engine 4: no notes", "needs workspace", 0},
                           Case{"15", "nondeterministic,winograd,tf32", "engine 1: TENSOR_CORE", "needs tf32", 0x1p-6},
                           Case{"13", "nondeterministic,winograd", "engine 3: WINOGRAD", "needs winograd", 0},
                           Case{"5", "nondeterministic", "engine 2: NONDETERMINISTIC", "needs nondeterministic", 1e-5},
                           Case{"31", "winograd", "engine 3: WINOGRAD", "needs winograd", 0}}) {
    const Result relaxed = run(each.engines, each.relax);
    INFO(each.engines << " " << each.relax);
    REQUIRE(relaxed.error == "");
    CHECK_THAT(relaxed.chosen, Contains(each.chosen) && EndsWith(each.needs));
    REQUIRE(relaxed.relaxed.size() == 1);
    CHECK_THAT(relaxed.relaxed[0], Contains(", conv1: ASHLAR_CUDNN_RELAX takes " + relaxed.chosen));
    CHECK(relaxed.extraBytes == (std::string(each.needs) == "needs workspace" ? uint64_t{192} << 20 : 0));
    CHECK(distance(relaxed.weights, exact.weights) <= each.most);
    CHECK((each.most == 0 || relaxed.weights != exact.weights));
  }
}

TEST_CASE("convolution: a refusal lists the engines, and what would let one", "[cuda][convolution]") {
  CHECK_THAT(run("31", "").error,
             Contains("has no engine for the weight gradient of batch 2, 1 groups, channels 6 to 8 of f32; 6 proposed: "
                      "(engine 0: no notes; CUDNN_STATUS_NOT_SUPPORTED); "
                      "(engine 1: TENSOR_CORE; CUDNN_STATUS_SUCCESS, 0 bytes of workspace; needs tf32); "
                      "(engine 2: NONDETERMINISTIC; CUDNN_STATUS_SUCCESS, 0 bytes of workspace; needs nondeterministic); "
                      "(engine 3: WINOGRAD; CUDNN_STATUS_SUCCESS, 0 bytes of workspace; needs winograd); "
                      "(engine 4: no notes; CUDNN_STATUS_SUCCESS, 201326592 bytes of workspace; needs workspace); "
                      "(engine 0: no notes; CUDNN_STATUS_NOT_SUPPORTED)") &&
                 EndsWith("; ASHLAR_CUDNN_RELAX=workspace takes one all the same"));
  CHECK_THAT(run("12", "workspace,tf32").error, EndsWith("; ASHLAR_CUDNN_RELAX=workspace,tf32,winograd takes one all the same"));
  CHECK_THAT(run("1", "").error,
             EndsWith("2 proposed: (engine 0: no notes; CUDNN_STATUS_NOT_SUPPORTED); (engine 0: no notes; CUDNN_STATUS_NOT_SUPPORTED)"));
  CHECK_THAT(run("0", "").error, EndsWith("; 0 proposed"));
}

TEST_CASE("convolution: more workspace than is free is none", "[cuda][convolution]") {
  EmulatedDevice &gpu = EmulatedDevice::get();
  REQUIRE(run("63", "").error == ""); // which takes its memory
  size_t free = 0, total = 0;
  REQUIRE(gpu.device.memory(free, total).message() == "");
  const CUdeviceptr most = gpu.allocate(free - (size_t{200} << 20)); // of the rest an eighth stays free
  CHECK_THAT(run("17", "workspace").error, EndsWith("; there are 183500800 bytes for a workspace"));
  REQUIRE(gpu.device.driver().cuMemFree_v2(most) == CUDA_SUCCESS);
}

TEST_CASE("convolution: a word of ASHLAR_CUDNN_RELAX that is none is refused", "[cuda][convolution]") {
  uint32_t relaxations = 0;
  CHECK(readRelaxations(nullptr, relaxations).ok());
  CHECK(relaxations == 0);
  CHECK(readRelaxations("tf32,workspace", relaxations).ok());
  CHECK(relaxations == (kTf32 | kMoreWorkspace));
  CHECK(readRelaxations("tf32,exact", relaxations).message() ==
        "ASHLAR_CUDNN_RELAX=tf32,exact: \"exact\" is not one of workspace,tf32,winograd,nondeterministic; give some of these, with commas "
        "between");
}

} // namespace ashlar::test::convolution_test
