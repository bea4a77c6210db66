// SPDX-License-Identifier: Apache-2.0
//
// Which engines of cuDNN take the convolutions of test/e2e/conv_model.py kinds: the 14 of its training step, each alone, in f32, in f32
// with tf32, in bf16 and in f16. They are prepared as a program would and run once, and the results compared with plain loops.
//
//   bench_cuda_conv --probe [--all]
//
// Prints a line for each that is refused, with all its engines and why; for each that is wrong; for each other one the engine that was
// chosen and those passed over, --all: also those behind it; for convolutions with other operations in their graph the first engine
// (cuda_conv_fusions.h); and a count. Exit status 1 where something is wrong or the library cannot be
// used, 77 where there is no GPU.

#include "runtime/kernels/cuda/convolution.h"
#include "runtime/kernels/reference/conv.h"
#include "test/bench/cuda_conv_fusions.h"
#include "test/bench/cuda_probe.h"

using namespace ashlar::bench;
using namespace ashlar::rt;

namespace {

// Shapes as the compiler lays them out: padding that is even, ConvTranspose as the data gradient of conv5.
struct Shape {
  const char *name;
  int64_t groups, channelsIn, channelsOut;
  ashlar_rt_conv_dim height, width;
  bool hasData; // the image has no gradient
};

constexpr int64_t kBatch = 12;
constexpr Shape kShapes[] = {{"conv1, 5x5 stride 2", 1, 1, 6, {31, 14, 5, 2, 1, 0}, {31, 14, 5, 2, 1, 0}, false},
                             {"conv2, 2 groups, dilated", 2, 3, 3, {14, 14, 2, 1, 2, 1}, {14, 12, 3, 1, 1, 0}, true},
                             {"conv3, depthwise stride 2", 6, 1, 1, {14, 7, 3, 2, 1, 1}, {12, 6, 3, 2, 1, 1}, true},
                             {"conv4, 3x3", 1, 6, 6, {7, 7, 3, 1, 1, 1}, {6, 6, 3, 1, 1, 1}, true},
                             {"conv5, 3x3 stride 2", 1, 3, 6, {14, 7, 3, 2, 1, 1}, {12, 6, 3, 2, 1, 1}, true}};

struct Types {
  const char *name;
  uint32_t dtype;
  bool tf32;
};

constexpr Types kTypes[] = {
    {"f32", ASHLAR_RT_F32, false}, {"f32 tf32", ASHLAR_RT_F32, true}, {"bf16", ASHLAR_RT_BF16, false}, {"f16", ASHLAR_RT_F16, false}};

const char *nameOf(uint32_t kind) {
  return kind == ASHLAR_RT_CONV_FORWARD ? "forward" : kind == ASHLAR_RT_CONV_DATA ? "data" : "weights";
}

ashlar_rt_conv_desc descOf(const Shape &shape, uint32_t kind, bool tf32) {
  ashlar_rt_conv_desc desc = {};
  desc.kind = kind;
  desc.allow_tf32 = tf32;
  desc.spatial_dims = 2;
  desc.batch = kBatch;
  desc.groups = shape.groups;
  desc.channels_in = shape.channelsIn;
  desc.channels_out = shape.channelsOut;
  desc.dims[0] = {1, 1, 1, 1, 1, 0};
  desc.dims[1] = shape.height;
  desc.dims[2] = shape.width;
  return desc;
}

// Weights between the order of cuDNN, channels last, and that of the reference, channels ahead of the places.
std::vector<float> reordered(const ashlar_rt_conv_desc &desc, const std::vector<float> &from, bool toReference) {
  const size_t filters = static_cast<size_t>(desc.groups * desc.channels_out), channels = static_cast<size_t>(desc.channels_in),
               places = static_cast<size_t>(desc.dims[1].kernel * desc.dims[2].kernel);
  std::vector<float> to(from.size());
  for (size_t f = 0; f < filters; ++f) {
    for (size_t p = 0; p < places; ++p) {
      for (size_t c = 0; c < channels; ++c) {
        const size_t last = (f * places + p) * channels + c, first = (f * channels + c) * places + p;
        to[toReference ? first : last] = from[toReference ? last : first];
      }
    }
  }
  return to;
}

class Probe {
public:
  explicit Probe(bool all) : all(all) {}

  Status open() { return gpu.open(); }

  Status run() {
    ASHLAR_RETURN_IF_ERROR(gpu.device.allocate(kConvolutionWorkspaceBytes, "the workspace", workspace));
    for (CUdeviceptr *address : {&first, &second, &out}) {
      ASHLAR_RETURN_IF_ERROR(gpu.device.allocate(kMostBytes, "a tensor", *address));
    }
    ASHLAR_RETURN_IF_ERROR(convolutions.create(gpu.device, workspace));
    for (const Shape &shape : kShapes) {
      for (uint32_t kind : {ASHLAR_RT_CONV_FORWARD, ASHLAR_RT_CONV_DATA, ASHLAR_RT_CONV_WEIGHTS}) {
        for (const Types &types : kTypes) {
          ASHLAR_RETURN_IF_ERROR(kind != ASHLAR_RT_CONV_DATA || shape.hasData ? probe(shape, kind, types) : Status());
        }
      }
    }
    return listConvolutionFusions(report.noted);
  }

  ProbeReport report;

private:
  static constexpr size_t kMostBytes = size_t{1} << 20;

  Status probe(const Shape &shape, uint32_t kind, const Types &types) {
    const ashlar_rt_conv_desc desc = descOf(shape, kind, types.tf32);
    const std::string name = fmt::format("{:26} {:8} {:8}", shape.name, nameOf(kind), types.name);
    size_t number = 0;
    if (Status prepared = convolutions.prepare(desc, {first, second, out, types.dtype}, name.c_str(), number); !prepared.ok()) {
      ASHLAR_RETURN_IF_ERROR(gpu.wait()); // else the device is lost, and more than a refusal
      report.refused.push_back("refused " + prepared.message());
      return Status();
    }
    ASHLAR_RETURN_IF_ERROR(convolutions.finish());
    const ConvolutionTensor(&order)[3] = tensorsOf(desc);
    std::vector<float> a = leftNumbers(bitsOf(types.dtype, types.tf32)), b = rightNumbers();
    a.resize(static_cast<size_t>(elementsOf(desc, order[0])));
    b.resize(static_cast<size_t>(elementsOf(desc, order[1])));
    std::vector<char> result(static_cast<size_t>(elementsOf(desc, order[2])) * dtypeBytes(types.dtype));
    const std::vector<char> aBytes = stored(a, types.dtype), bBytes = stored(b, types.dtype);
    ASHLAR_RETURN_IF_ERROR(gpu.fill(first, aBytes.size(), aBytes));
    ASHLAR_RETURN_IF_ERROR(gpu.fill(second, bBytes.size(), bBytes));
    ASHLAR_RETURN_IF_ERROR(gpu.spoil(out, result.size()));
    ASHLAR_RETURN_IF_ERROR(gpu.wait());
    ASHLAR_RETURN_IF_ERROR(convolutions.enqueue(number, gpu.stream));
    ASHLAR_RETURN_IF_ERROR(gpu.download(out, result));
    ASHLAR_RETURN_IF_ERROR(all ? convolutions.lastPlan()->planAll() : Status());
    note(name, faultOf(desc, a, b, result, types.dtype));
    return Status();
  }

  // Returns the first number that is not what plain loops give; "" for none.
  static std::string faultOf(const ashlar_rt_conv_desc &desc, const std::vector<float> &a, std::vector<float> b,
                             const std::vector<char> &result, uint32_t dtype) {
    std::vector<float> expected(result.size() / dtypeBytes(dtype));
    b = desc.kind == ASHLAR_RT_CONV_WEIGHTS ? b : reordered(desc, b, /*toReference=*/true);
    referenceConv(desc, a.data(), b.data(), /*scale=*/nullptr, /*bias=*/nullptr, /*residual=*/nullptr, expected.data());
    expected = desc.kind == ASHLAR_RT_CONV_WEIGHTS ? reordered(desc, expected, /*toReference=*/false) : expected;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double got = loaded(result.data(), i, dtype), exact = static_cast<double>(expected[i]);
      if (!(std::fabs(got - exact) <= allowance(dtype, exact))) { // also of NaN
        return fmt::format("number {} of {} is {}, not {}", i, expected.size(), got, exact);
      }
    }
    return "";
  }

  void note(const std::string &name, const std::string &fault) {
    const ConvolutionPlan &plan = *convolutions.lastPlan();
    std::string others;
    bool isBehind = false;
    for (const EngineTrial &trial : plan.engines()) {
      isBehind = isBehind || &trial == plan.chosen();
      if (&trial != plan.chosen() && (all || !isBehind)) {
        others += fmt::format("{}({})", others.empty() ? "; passed over: " : "; ", trial.text());
      }
    }
    if (fault.empty()) {
      ++report.right;
      report.noted.push_back(fmt::format("right   {}: {}{}", name, plan.chosen()->text(), others));
    } else {
      report.wrong.push_back(fmt::format("wrong   {}: {}; {}{}", name, fault, plan.chosen()->text(), others));
    }
  }

  bool all;
  ProbeDevice gpu;
  Convolutions convolutions; // dies before the device
  CUdeviceptr workspace = 0, first = 0, second = 0, out = 0;
};

} // namespace

int main(int argc, char **argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool all = arguments == std::vector<std::string>{"--probe", "--all"};
  if (!all && arguments != std::vector<std::string>{"--probe"}) {
    fmt::print(stderr, "error: usage: bench_cuda_conv --probe [--all]\n");
    return 1;
  }
  Probe probe(all);
  return runProbe(probe);
}
