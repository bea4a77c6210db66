// SPDX-License-Identifier: Apache-2.0
//
// Attention and its gradients by cuDNN's graphs on the emulator, against plain loops in f64; and what is refused.

#include "runtime/base/dtype.h"
#include "runtime/kernels/cuda/attention.h"
#include "runtime/kernels/reference/attention.h"
#include "test/unit/kernels/cuda/emulated_device.h"

#include <cmath>

namespace ashlar::test::attention_test {

using namespace ashlar::rt;
using ashlar::test::EmulatedDevice;
using ashlar::test::Setting;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

ashlar_rt_attention_desc descOf(uint32_t dtype, int64_t rows, int64_t keys, int64_t width, int64_t columns, bool isCausal) {
  ashlar_rt_attention_desc desc = {};
  desc.kind = ASHLAR_RT_ATTENTION_FORWARD;
  desc.dtype = dtype;
  desc.batch = rows > 17 ? 1 : 2;
  desc.heads = desc.key_heads = 3;
  desc.rows = rows;
  desc.keys = keys;
  desc.width = width;
  desc.value_width = columns;
  desc.causal = isCausal;
  desc.scale = 1 / std::sqrt(static_cast<float>(width));
  return desc;
}

// Gives it a mask, with or without batch and heads.
ashlar_rt_attention_desc masked(ashlar_rt_attention_desc desc, bool hasBatch, bool hasHeads) {
  const int64_t ofHead = desc.rows * desc.keys, ofBatch = hasHeads ? desc.heads * ofHead : ofHead;
  desc.mask = desc.dtype;
  desc.mask_strides[0] = hasBatch ? ofBatch : 0;
  desc.mask_strides[1] = hasHeads ? ofHead : 0;
  desc.mask_strides[2] = desc.keys;
  desc.mask_strides[3] = 1;
  return desc;
}

CUdeviceptr workspace() {
  constexpr uint64_t kRows = 2 * 3 * 128;
  static const CUdeviceptr memory = EmulatedDevice::get().allocate(kMatmulWorkspaceBytes + kRows * 160 * sizeof(float));
  return memory;
}

// An attention and its gradients on the device; results begin as NaNs.
struct Case {
  explicit Case(const ashlar_rt_attention_desc &desc) : desc(desc) {
    const int64_t rows = desc.batch * desc.heads * desc.rows, keys = desc.batch * desc.heads * desc.keys;
    counts = {rows * desc.width,       keys * desc.width, keys * desc.value_width, rows * desc.value_width, rows,
              rows * desc.value_width, rows * desc.width, keys * desc.width,       keys * desc.value_width};
    if (desc.mask != 0) {
      maskCount = static_cast<size_t>((desc.mask_strides[0] == 0 ? 1 : desc.batch) * (desc.mask_strides[1] == 0 ? 1 : desc.heads) *
                                      desc.rows * desc.keys);
      mask = gpu.values(desc.dtype, maskCount, 99);
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      const auto count = static_cast<size_t>(counts[i]);
      const bool isOperand = i < 3 || i == 5;
      buffers.push_back(isOperand ? gpu.values(desc.dtype, count, static_cast<uint32_t>(i + 1)) : gpu.allocate(count * sizeof(float)));
      if (!isOperand) {
        REQUIRE(gpu.device.driver().cuMemsetD8Async(buffers[i], 0xff, count * sizeof(float), gpu.stream) == CUDA_SUCCESS);
      }
    }
  }

  ~Case() {
    gpu.wait();
    if (mask != 0) {
      gpu.device.driver().cuMemFree_v2(mask);
    }
    for (CUdeviceptr buffer : buffers) {
      gpu.device.driver().cuMemFree_v2(buffer);
    }
  }

  // Runs one of both kinds; returns the error.
  std::string run(Attentions &attentions, uint32_t kind) {
    desc.kind = kind;
    const size_t used = kind == ASHLAR_RT_ATTENTION_FORWARD ? 5 : 9;
    std::vector<CUdeviceptr> operands(buffers.begin(), buffers.begin() + static_cast<long>(used));
    if (desc.mask != 0) {
      operands.insert(operands.begin() + 3, mask);
    }
    size_t number = 0;
    Status status = attentions.prepare(desc, operands, "attention1", number);
    if (status.ok()) {
      REQUIRE(attentions.finish().message() == "");
      status = attentions.enqueue(number, gpu.stream);
      gpu.wait();
    }
    return status.message();
  }

  // Takes the tensors of desc.heads_inside from (batch, heads, rows, width) to (batch, rows, heads, width), or back.
  void swapHeads(bool isBack) {
    const uint64_t bits[] = {ASHLAR_RT_ATTENTION_Q,     ASHLAR_RT_ATTENTION_K,   ASHLAR_RT_ATTENTION_V,   ASHLAR_RT_ATTENTION_OUT, 0,
                             ASHLAR_RT_ATTENTION_D_OUT, ASHLAR_RT_ATTENTION_D_Q, ASHLAR_RT_ATTENTION_D_K, ASHLAR_RT_ATTENTION_D_V};
    for (size_t buffer = 0; buffer < buffers.size(); ++buffer) {
      if ((desc.heads_inside & bits[buffer]) == 0) {
        continue;
      }
      const bool ofKeys = buffer == 1 || buffer == 2 || buffer >= 7;
      const auto count = static_cast<size_t>(counts[buffer]), rows = static_cast<size_t>(ofKeys ? desc.keys : desc.rows);
      const auto heads = static_cast<size_t>(desc.heads), width = count / (static_cast<size_t>(desc.batch) * heads * rows);
      const std::vector<char> from = gpu.download(buffers[buffer], count * 2);
      std::vector<char> to(from.size());
      for (size_t i = 0; i < count; ++i) {
        const size_t row = i / width % rows, head = i / width / rows % heads, batch = i / width / rows / heads;
        const size_t at = ((batch * rows + row) * heads + head) * width + i % width;
        std::memcpy(&to[2 * (isBack ? i : at)], &from[2 * (isBack ? at : i)], 2);
      }
      REQUIRE(gpu.device.driver().cuMemcpyHtoDAsync_v2(buffers[buffer], to.data(), to.size(), gpu.stream) == CUDA_SUCCESS);
      gpu.wait();
    }
  }

  std::vector<float> floats(size_t buffer) const { return floats(buffer, buffers[buffer], static_cast<size_t>(counts[buffer])); }

  std::vector<float> floats(size_t buffer, CUdeviceptr address, size_t count) const {
    if (buffer == 4) {
      return gpu.downloadFloats(address, count);
    }
    const std::vector<char> bytes = gpu.download(address, count * 2);
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) {
      Bf16 bf16;
      F16 f16;
      std::memcpy(&bf16, &bytes[2 * i], 2);
      std::memcpy(&f16, &bytes[2 * i], 2);
      values[i] = desc.dtype == ASHLAR_RT_BF16 ? static_cast<float>(bf16) : static_cast<float>(f16);
    }
    return values;
  }

  // Compares all results; returns the largest share of a bound.
  double worstShare(bool isBackward) const {
    const std::vector<float> q = floats(0), k = floats(1), v = floats(2), out = floats(3), dOut = floats(5),
                             added = mask != 0 ? floats(0, mask, maskCount) : std::vector<float>();
    const ReferenceAttention exact =
        referenceAttention(desc, q.data(), k.data(), v.data(), added.data(), out.data(), isBackward ? dOut.data() : nullptr,
                           desc.dtype == ASHLAR_RT_BF16 ? 0x1p-8 : 0x1p-11);
    double worst = 0;
    auto compare = [&](const BoundedNumbers &numbers, size_t buffer) {
      const std::vector<float> found = floats(buffer);
      const double share = numbers.worstShare(std::vector<double>(found.begin(), found.end()));
      CAPTURE(buffer);
      CHECK(share <= 1);
      worst = std::max(worst, share);
    };
    compare(exact.out, 3);
    compare(exact.lse, 4);
    if (isBackward) {
      compare(exact.dQuery, 6);
      compare(exact.dKey, 7);
      compare(exact.dValue, 8);
    }
    return worst;
  }

  EmulatedDevice &gpu = EmulatedDevice::get();
  ashlar_rt_attention_desc desc;
  std::vector<int64_t> counts;
  std::vector<CUdeviceptr> buffers;
  CUdeviceptr mask = 0;
  size_t maskCount = 0;
};

std::string errorOf(const ashlar_rt_attention_desc &desc, uint32_t kind = ASHLAR_RT_ATTENTION_FORWARD) {
  Attentions attentions;
  REQUIRE(attentions.create(EmulatedDevice::get().device, workspace()).message() == "");
  return Case(desc).run(attentions, kind);
}

} // namespace

TEST_CASE("cuda attention: forward and gradients are within the error of 16 bits", "[cuda][attention]") {
  Attentions attentions;
  REQUIRE(attentions.create(EmulatedDevice::get().device, workspace()).message() == "");
  double worst = 0;
  const auto add = [&](const ashlar_rt_attention_desc &desc) {
    Case each(desc);
    CAPTURE(dtypeName(desc.dtype), desc.causal, desc.rows, desc.keys, desc.width, desc.mask);
    REQUIRE(each.run(attentions, ASHLAR_RT_ATTENTION_FORWARD) == "");
    REQUIRE(each.run(attentions, ASHLAR_RT_ATTENTION_BACKWARD) == "");
    worst = std::max(worst, each.worstShare(/*isBackward=*/true));
  };
  for (const uint32_t dtype : {ASHLAR_RT_BF16, ASHLAR_RT_F16}) {
    for (const bool isCausal : {false, true}) {
      for (const int64_t length : {2, 17, 64, 100}) {
        for (const int64_t width : {8, 64, 128}) {
          add(descOf(dtype, length, length, width, width, isCausal));
        }
      }
      if (!isCausal) {
        add(descOf(dtype, 1, 17, 64, 64, isCausal)); // one query
      }
      // Other numbers of keys, and of columns of the values.
      const ashlar_rt_attention_desc uneven = descOf(dtype, isCausal ? 24 : 9, 24, 16, 40, isCausal);
      add(uneven);
      for (const bool hasBatch : {false, true}) {
        for (const bool hasHeads : {false, true}) {
          add(masked(uneven, hasBatch, hasHeads));
        }
      }
    }
  }
  WARN("largest error, as a share of its bound: " << worst);
  CHECK(attentions.relaxed().empty());
  CHECK(attentions.extraBytes() == 0);
}

TEST_CASE("cuda attention: heads may be inside rows", "[cuda][attention]") {
  Attentions attentions;
  REQUIRE(attentions.create(EmulatedDevice::get().device, workspace()).message() == "");
  for (const uint64_t inside : {1, 2, 4, 8, 16, 32, 64, 128, 255, 170}) {
    for (const bool isCausal : {false, true}) {
      Case each(masked(descOf(ASHLAR_RT_BF16, isCausal ? 24 : 9, 24, 16, 40, isCausal), /*hasBatch=*/true, /*hasHeads=*/true));
      CAPTURE(inside, isCausal);
      each.desc.heads_inside = inside;
      each.swapHeads(/*isBack=*/false);
      REQUIRE(each.run(attentions, ASHLAR_RT_ATTENTION_FORWARD) == "");
      REQUIRE(each.run(attentions, ASHLAR_RT_ATTENTION_BACKWARD) == "");
      each.swapHeads(/*isBack=*/true);
      each.worstShare(/*isBackward=*/true);
    }
  }
}

TEST_CASE("cuda attention: what the compiler expands is refused", "[cuda][attention]") {
  CHECK_THAT(errorOf(descOf(ASHLAR_RT_F32, 16, 16, 8, 8, false)), Contains("an attention of f32 on cuda"));
  ashlar_rt_attention_desc shifted = descOf(ASHLAR_RT_BF16, 16, 16, 8, 8, true);
  shifted.diagonal = 1;
  CHECK_THAT(errorOf(shifted), Contains("diagonal 1"));
  CHECK_THAT(errorOf(descOf(ASHLAR_RT_BF16, 8, 16, 8, 8, true)), Contains("8 rows, 16 keys"));
  // What the library refuses is no engine.
  for (const auto &[width, columns] : {std::pair(12, 8), std::pair(8, 12), std::pair(136, 8), std::pair(8, 136)}) {
    CHECK_THAT(errorOf(descOf(ASHLAR_RT_BF16, 16, 16, width, columns, false)),
               EndsWith("of bf16; 0 proposed; ashlarc --no-attention compiles without the call"));
  }
  CHECK_THAT(errorOf(descOf(ASHLAR_RT_F16, 3, 1, 8, 8, false), ASHLAR_RT_ATTENTION_BACKWARD),
             Contains("has no engine for the gradients of an attention of 2 x 3 heads, 3 rows, 1 keys, widths 8 and 8 of f16; 0 proposed"));
  ashlar_rt_attention_desc wide = masked(descOf(ASHLAR_RT_BF16, 16, 16, 8, 8, false), true, true);
  wide.mask = ASHLAR_RT_F32;
  CHECK_THAT(errorOf(wide), Contains("with a mask of f32"));
  CHECK_THAT(errorOf(masked(descOf(ASHLAR_RT_BF16, 16, 17, 8, 8, false), true, true)), Contains("17 keys"));
}

TEST_CASE("cuda attention: gradients take an engine with sums in any order where there is no other one", "[cuda][attention]") {
  const Setting there("ASHLAR_EMULATOR_CUDNN_ENGINES", "5");
  Attentions attentions;
  REQUIRE(attentions.create(EmulatedDevice::get().device, workspace()).message() == "");
  Case each(descOf(ASHLAR_RT_BF16, 17, 17, 16, 16, true));
  CHECK_THAT(each.run(attentions, ASHLAR_RT_ATTENTION_FORWARD), Contains("has no engine for an attention of 2 x 3 heads"));
  {
    const Setting all("ASHLAR_EMULATOR_CUDNN_ENGINES", "63");
    Attentions forward;
    REQUIRE(forward.create(EmulatedDevice::get().device, workspace()).message() == "");
    REQUIRE(each.run(forward, ASHLAR_RT_ATTENTION_FORWARD) == "");
  }
  const Setting again("ASHLAR_EMULATOR_CUDNN_ENGINES", "5");
  REQUIRE(each.run(attentions, ASHLAR_RT_ATTENTION_BACKWARD) == "");
  REQUIRE(attentions.relaxed().size() == 1);
  CHECK_THAT(attentions.relaxed()[0],
             Contains("the gradients' last bits are others in each run by engine 2: TENSOR_CORE NONDETERMINISTIC"));
  each.worstShare(/*isBackward=*/true);
}

TEST_CASE("cuda attention: more workspace than planned is the user's choice", "[cuda][attention]") {
  const Setting there("ASHLAR_EMULATOR_CUDNN_ENGINES", "17");
  CHECK_THAT(errorOf(descOf(ASHLAR_RT_BF16, 16, 16, 8, 8, false)), Contains("; ASHLAR_CUDNN_RELAX=workspace takes one all the same"));
  const Setting allowed("ASHLAR_CUDNN_RELAX", "workspace");
  Attentions attentions;
  REQUIRE(attentions.create(EmulatedDevice::get().device, workspace()).message() == "");
  Case each(descOf(ASHLAR_RT_BF16, 16, 16, 8, 8, false));
  REQUIRE(each.run(attentions, ASHLAR_RT_ATTENTION_FORWARD) == "");
  REQUIRE(each.run(attentions, ASHLAR_RT_ATTENTION_BACKWARD) == "");
  each.worstShare(/*isBackward=*/true);
  CHECK(attentions.extraBytes() == uint64_t{192} << 20);
  CHECK_THAT(attentions.relaxed().at(0), Contains("attention1: ASHLAR_CUDNN_RELAX takes engine 4"));
}

} // namespace ashlar::test::attention_test
