// SPDX-License-Identifier: Apache-2.0
//
// Which buffers fit an attention. What it computes: test/unit/kernels/cuda/attention_test.cpp.

#include "runtime/kernels/cuda/attention.h"

#include <catch2/catch.hpp>

namespace ashlar::test::attention_test {
namespace {

using namespace ashlar::rt;

// Queries (2, 3, 5, 8), keys (2, 3, 16, 8), values (2, 3, 16, 24), a mask (2, 1, 5, 16).
struct Example {
  explicit Example(uint32_t kind, bool hasMask = false) {
    desc.kind = kind;
    desc.dtype = ASHLAR_RT_BF16;
    desc.batch = 2;
    desc.heads = desc.key_heads = 3;
    desc.rows = 5;
    desc.keys = 16;
    desc.width = 8;
    desc.value_width = 24;
    constexpr uint64_t kQuery = 2 * 3 * 5 * 8, kKey = 2 * 3 * 16 * 8, kValue = 2 * 3 * 16 * 24, kOut = 2 * 3 * 5 * 24, kRows = 2 * 3 * 5;
    add({kQuery, kKey, kValue});
    if (hasMask) {
      desc.mask = ASHLAR_RT_BF16;
      desc.mask_strides[0] = 5 * 16;
      desc.mask_strides[2] = 16;
      desc.mask_strides[3] = 1;
      add({2 * 5 * 16});
    }
    add({kOut});
    buffers.push_back({ASHLAR_RT_ARENA, ASHLAR_RT_F32, 64 * buffers.size(), 4 * kRows});
    if (kind == ASHLAR_RT_ATTENTION_BACKWARD) {
      add({kOut, kQuery, kKey, kValue});
    }
  }

  void add(std::initializer_list<uint64_t> counts) {
    for (const uint64_t count : counts) {
      buffers.push_back({ASHLAR_RT_ARENA, ASHLAR_RT_BF16, 64 * buffers.size(), 2 * count});
    }
  }

  std::string check() const {
    const ashlar_rt_instr instr = {ASHLAR_RT_ATTENTION, "attention", static_cast<uint32_t>(buffers.size()), buffers.data(), nullptr, &desc};
    return checkAttentionOperands(instr).message();
  }

  ashlar_rt_attention_desc desc = {};
  std::vector<ashlar_rt_buffer> buffers;
};

TEST_CASE("cuda attention: buffers of the sizes of the descriptor fit", "[cuda][attention]") {
  for (const uint32_t kind : {ASHLAR_RT_ATTENTION_FORWARD, ASHLAR_RT_ATTENTION_BACKWARD}) {
    CHECK(Example(kind).check() == "");
    CHECK(Example(kind, /*hasMask=*/true).check() == "");
  }
}

TEST_CASE("cuda attention: buffers that do not fit are refused", "[cuda][attention]") {
  Example few(ASHLAR_RT_ATTENTION_FORWARD, /*hasMask=*/true);
  few.buffers.pop_back();
  CHECK(few.check() == "attention: an attention on cuda has 5 buffers, not 6");
  Example narrow(ASHLAR_RT_ATTENTION_FORWARD);
  narrow.buffers[4].dtype = ASHLAR_RT_BF16; // log-sum-exps
  CHECK(narrow.check() == "attention: buffer 4 has 120 bytes of bf16, not 120 of f32");
  Example small(ASHLAR_RT_ATTENTION_BACKWARD, /*hasMask=*/true);
  small.buffers[3].bytes -= 2; // the mask
  CHECK(small.check() == "attention: buffer 3 has 318 bytes of bf16, not 320 of bf16");
}

TEST_CASE("cuda attention: the workspace is the sums of gradients, and cuDNN's", "[cuda][attention]") {
  const DeviceAttentionMemory forward = deviceAttentionMemory(Example(ASHLAR_RT_ATTENTION_FORWARD).desc);
  CHECK(forward.bytes == kMatmulWorkspaceBytes);
  const DeviceAttentionMemory backward = deviceAttentionMemory(Example(ASHLAR_RT_ATTENTION_BACKWARD).desc);
  CHECK(backward.means == 1024);  // 2 x 3 x 5 x 8 numbers in f32, up to a multiple of 256
  CHECK(backward.engine == 1280); // and 2 x 3 x 5
  CHECK(backward.bytes == backward.engine + kMatmulWorkspaceBytes);
}

} // namespace

} // namespace ashlar::test::attention_test
