// SPDX-License-Identifier: Apache-2.0
//
// Attention and its gradients by cuDNN: which engine takes them, how long it runs, how much workspace it asks for, and how far its results
// are from plain loops in f64: of the first and the last head, up to 2^20 scores a head.
//
//   bench_cuda_attention --probe [--small]
//
// Prints a line for each that is refused, with all its engines and why; for each that is wrong; for each other one the engine, its time and
// the largest error as a share of its bound; and a count. --small: few numbers, for the emulator. Exit status 1 where something is wrong or
// the library cannot be used, 77 where there is no GPU.

#include "runtime/kernels/cuda/attention.h"
#include "runtime/kernels/reference/attention.h"
#include "test/bench/cuda_probe.h"

using namespace ashlar::bench;
using namespace ashlar::rt;

namespace {

struct Shape {
  const char *name;
  int64_t batch, heads, rows, keys, width, columns;
  bool isCausal;
};

constexpr Shape kSmall[] = {{"17 tokens", 2, 3, 17, 17, 8, 8, true},
                            {"100 tokens", 1, 4, 100, 100, 64, 64, true},
                            {"100 tokens, whole", 1, 4, 100, 100, 40, 24, false},
                            {"more keys", 2, 2, 9, 64, 128, 128, false}};
constexpr Shape kLarge[] = {{"GPT-2", 16, 12, 1024, 1024, 64, 64, true},      {"encoder", 32, 12, 384, 384, 64, 64, false},
                            {"1000 tokens", 8, 12, 1000, 1000, 64, 64, true}, {"more keys, width 128", 4, 16, 512, 1536, 128, 128, false},
                            {"width 128", 4, 32, 2048, 2048, 128, 128, true}, {"8192 tokens", 1, 16, 8192, 8192, 64, 64, true}};

constexpr int kRuns = 20;
constexpr int kShift = 10007;
constexpr int64_t kMostCompared = int64_t{1} << 20; // scores of a head
// In the order of the descriptor: those of the forward pass, and then those of the gradients besides.
constexpr size_t kBuffers = 9, kOfForward = 5, kLogSum = 4;

class Probe {
public:
  explicit Probe(bool isSmall) : isSmall(isSmall) {}

  Status open() { return gpu.open(); }

  Status run() {
    ASHLAR_RETURN_IF_ERROR(gpu.device.createEvent(begin, /*timing=*/true));
    ASHLAR_RETURN_IF_ERROR(gpu.device.createEvent(end, /*timing=*/true));
    ASHLAR_RETURN_IF_ERROR(probeAll(kSmall));
    return isSmall ? Status() : probeAll(kLarge);
  }

  ProbeReport report;

private:
  template <size_t count> Status probeAll(const Shape (&shapes)[count]) {
    for (const Shape &shape : shapes) {
      for (const uint32_t dtype : {ASHLAR_RT_BF16, ASHLAR_RT_F16}) {
        ASHLAR_RETURN_IF_ERROR(probe(shape, dtype));
      }
    }
    return Status();
  }

  // Both directions on the same buffers; each shape has memory and calls of its own.
  Status probe(const Shape &shape, uint32_t dtype) {
    ashlar_rt_attention_desc desc = {};
    desc.dtype = dtype;
    desc.batch = shape.batch;
    desc.heads = desc.key_heads = shape.heads;
    desc.rows = shape.rows;
    desc.keys = shape.keys;
    desc.width = shape.width;
    desc.value_width = shape.columns;
    desc.causal = shape.isCausal;
    desc.scale = 1 / std::sqrt(static_cast<float>(shape.width));
    desc.kind = ASHLAR_RT_ATTENTION_BACKWARD;
    CUdeviceptr workspace = 0;
    ASHLAR_RETURN_IF_ERROR(gpu.device.allocate(deviceAttentionMemory(desc).bytes, "the workspace", workspace));
    std::vector<float> numbers = leftNumbers(bitsOf(dtype, /*tf32=*/false));
    for (size_t i = 0; i < kBuffers; ++i) {
      const size_t bytes = static_cast<size_t>(shape.batch * shape.heads * ofHead(shape, i)) *
                           dtypeBytes(i == kLogSum ? static_cast<uint32_t>(ASHLAR_RT_F32) : dtype);
      ASHLAR_RETURN_IF_ERROR(gpu.device.allocate(bytes, "a tensor", buffers[i]));
      ASHLAR_RETURN_IF_ERROR(i < 3 || i == 5 ? gpu.fill(buffers[i], bytes, stored(numbers, dtype)) : gpu.spoil(buffers[i], bytes));
      std::rotate(numbers.begin(), numbers.begin() + kShift, numbers.end()); // no operand is like another one
    }
    ASHLAR_RETURN_IF_ERROR(gpu.wait());
    Status status = runBoth(shape, desc, workspace);
    const DriverLibrary &cuda = gpu.device.driver();
    cuda.cuMemFree_v2(workspace);
    std::for_each(std::begin(buffers), std::end(buffers), [&](CUdeviceptr buffer) { cuda.cuMemFree_v2(buffer); });
    return status;
  }

  // Numbers of one head in a buffer.
  static int64_t ofHead(const Shape &shape, size_t buffer) {
    const int64_t query = shape.rows * shape.width, key = shape.keys * shape.width, value = shape.keys * shape.columns,
                  out = shape.rows * shape.columns;
    const int64_t counts[kBuffers] = {query, key, value, out, shape.rows, out, query, key, value};
    return counts[buffer];
  }

  Status runBoth(const Shape &shape, ashlar_rt_attention_desc desc, CUdeviceptr workspace) {
    Attentions attentions;
    ASHLAR_RETURN_IF_ERROR(attentions.create(gpu.device, workspace));
    for (const uint32_t kind : {ASHLAR_RT_ATTENTION_FORWARD, ASHLAR_RT_ATTENTION_BACKWARD}) {
      const bool isBackward = kind == ASHLAR_RT_ATTENTION_BACKWARD;
      const std::string name = fmt::format("{:20} {:8} {:4}", shape.name, isBackward ? "backward" : "forward", dtypeName(desc.dtype));
      desc.kind = kind;
      size_t number = 0;
      const std::vector<CUdeviceptr> used(std::begin(buffers), std::begin(buffers) + (isBackward ? kBuffers : kOfForward));
      if (Status prepared = attentions.prepare(desc, used, name.c_str(), number); !prepared.ok()) {
        ASHLAR_RETURN_IF_ERROR(gpu.wait()); // else the device is lost, and more than a refusal
        report.refused.push_back("refused " + prepared.message());
        if (!isBackward) {
          return Status(); // there is no result to go on with
        }
        continue;
      }
      ASHLAR_RETURN_IF_ERROR(attentions.finish());
      double seconds = 0;
      ASHLAR_RETURN_IF_ERROR(time(attentions, number, seconds));
      double share = 0;
      const bool isCompared = shape.rows * shape.keys <= kMostCompared;
      ASHLAR_RETURN_IF_ERROR(isCompared ? compare(shape, desc, share) : Status());
      const double scores = static_cast<double>(shape.batch * shape.heads * shape.rows) * static_cast<double>(shape.keys);
      const double flop = scores * (shape.isCausal ? 1 : 2) *
                          static_cast<double>((isBackward ? 3 : 1) * shape.width + (isBackward ? 2 : 1) * shape.columns);
      const std::string line = fmt::format("{}: {:.1f} us, {:.1f} TFLOP/s, {}; {}", name, 1e6 * seconds, 1e-12 * flop / seconds,
                                           isCompared ? fmt::format("error {:.2f} of its bound", share) : "not compared",
                                           attentions.lastPlan()->chosen()->text());
      const bool isRight = share <= 1; // NaN is not
      report.right += isRight ? 1 : 0;
      (isRight ? report.noted : report.wrong).push_back((isRight ? "right   " : "wrong   ") + line);
    }
    return Status();
  }

  Status time(const Attentions &attentions, size_t number, double &seconds) {
    const DriverLibrary &cuda = gpu.device.driver();
    const int runs = isSmall ? 1 : kRuns;
    ASHLAR_RETURN_IF_ERROR(attentions.enqueue(number, gpu.stream));
    ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventRecord(begin, gpu.stream), "cannot record an event"));
    for (int i = 0; i < runs; ++i) {
      ASHLAR_RETURN_IF_ERROR(attentions.enqueue(number, gpu.stream));
    }
    ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventRecord(end, gpu.stream), "cannot record an event"));
    ASHLAR_RETURN_IF_ERROR(gpu.device.wait(end));
    float milliseconds = 0;
    ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventElapsedTime_v2(&milliseconds, begin, end), "cannot measure an attention"));
    seconds = 1e-3 * static_cast<double>(milliseconds) / runs;
    return Status();
  }

  // Compares the first and the last head; `share`: the largest error as a share of its bound.
  Status compare(const Shape &shape, ashlar_rt_attention_desc desc, double &share) {
    const bool isBackward = desc.kind == ASHLAR_RT_ATTENTION_BACKWARD;
    const int64_t heads = shape.batch * shape.heads;
    desc.batch = desc.heads = desc.key_heads = 1;
    for (const int64_t head : {int64_t{0}, heads - 1}) {
      std::vector<std::vector<float>> numbers(kBuffers);
      for (size_t i = 0; i < (isBackward ? kBuffers : kOfForward); ++i) {
        ASHLAR_RETURN_IF_ERROR(download(shape, desc.dtype, i, head, numbers[i]));
      }
      const ReferenceAttention exact =
          referenceAttention(desc, numbers[0].data(), numbers[1].data(), numbers[2].data(), /*mask=*/nullptr, numbers[3].data(),
                             isBackward ? numbers[5].data() : nullptr, desc.dtype == ASHLAR_RT_BF16 ? 0x1p-8 : 0x1p-11);
      auto note = [&](const BoundedNumbers &of, size_t buffer) {
        const double each = of.worstShare(std::vector<double>(numbers[buffer].begin(), numbers[buffer].end()));
        share = each <= share ? share : each; // NaN stays
      };
      if (isBackward) {
        note(exact.dQuery, 6);
        note(exact.dKey, 7);
        note(exact.dValue, 8);
      } else {
        note(exact.out, 3);
        note(exact.lse, kLogSum);
      }
    }
    return Status();
  }

  Status download(const Shape &shape, uint32_t dtype, size_t buffer, int64_t head, std::vector<float> &numbers) {
    const uint32_t type = buffer == kLogSum ? static_cast<uint32_t>(ASHLAR_RT_F32) : dtype;
    const auto count = static_cast<size_t>(ofHead(shape, buffer));
    std::vector<char> bytes(count * dtypeBytes(type));
    ASHLAR_RETURN_IF_ERROR(gpu.download(buffers[buffer] + static_cast<size_t>(head) * bytes.size(), bytes));
    for (size_t i = 0; i < count; ++i) {
      numbers.push_back(static_cast<float>(loaded(bytes.data(), i, type)));
    }
    return Status();
  }

  bool isSmall;
  ProbeDevice gpu;
  CUevent begin = nullptr, end = nullptr;
  CUdeviceptr buffers[kBuffers] = {};
};

} // namespace

int main(int argc, char **argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool isSmall = arguments == std::vector<std::string>{"--probe", "--small"};
  if (!isSmall && arguments != std::vector<std::string>{"--probe"}) {
    fmt::print(stderr, "error: usage: bench_cuda_attention --probe [--small]\n");
    return 1;
  }
  Probe probe(isSmall);
  return runProbe(probe);
}
