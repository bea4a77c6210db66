// SPDX-License-Identifier: Apache-2.0
//
// Finds calls that read the same weights in one order, of all programs.

#include "runtime/execute/cpu/ordered_weights.h"

#include "runtime/abi/memory_sizes.h"

#include <algorithm>

namespace ashlar::rt {

namespace {

struct OrderCall {
  const OrderedWeights &weights;
  int64_t shift;
};

void orderPieces(void *context, int64_t begin, int64_t end) {
  auto &[weights, shift] = *static_cast<OrderCall *>(context);
  for (int64_t piece = begin; piece < end; ++piece) {
    weights.order(static_cast<int>(piece), shift);
  }
}

// Whether two buffers move by the same bytes in each repeat.
bool moveAlike(const ashlar_rt_buffer &a, const ashlar_rt_buffer &b) {
  auto stride = [](const ashlar_rt_buffer &buffer, uint32_t i) { return i < buffer.num_strides ? buffer.strides[i] : 0; };
  bool same = true;
  for (uint32_t i = 0; i < std::max(a.num_strides, b.num_strides); ++i) {
    same &= stride(a, i) == stride(b, i);
  }
  return same;
}

// Whether two calls of one kind read their weights in one order.
bool orderAlike(const ashlar_rt_instr &a, const ashlar_rt_instr &b) {
  return a.kind == ASHLAR_RT_GEMM
             ? ordersAlike(*static_cast<const ashlar_rt_gemm_desc *>(a.desc), *static_cast<const ashlar_rt_gemm_desc *>(b.desc))
             : ordersAlike(*static_cast<const ashlar_rt_conv_desc *>(a.desc), *static_cast<const ashlar_rt_conv_desc *>(b.desc));
}

uint64_t orderedBytesOf(const ashlar_rt_instr &instr) {
  return instr.kind == ASHLAR_RT_GEMM ? orderedWeightBytes(*static_cast<const ashlar_rt_gemm_desc *>(instr.desc))
                                      : orderedWeightBytes(*static_cast<const ashlar_rt_conv_desc *>(instr.desc));
}

} // namespace

void OrderedWeights::run(ThreadPool &pool, int64_t shift) const {
  OrderCall call{*this, shift};
  pool.parallelFor(pieces, /*grain=*/1, orderPieces, &call);
}

OrderedWeights *OrderStore::find(const void *place, const ashlar_rt_instr &instr, const ashlar_rt_instr *keeper) {
  auto [begin, end] = all.equal_range(place);
  auto known = std::find_if(begin, end, [&](const auto &entry) {
    const ashlar_rt_instr &other = *entry.second.instr;
    return other.kind == instr.kind && entry.second.keeper == keeper && moveAlike(other.buffers[1], instr.buffers[1]) &&
           orderAlike(other, instr);
  });
  return known == end ? nullptr : &known->second;
}

void OrderStore::add(const void *place, const ashlar_rt_instr &instr, const ashlar_rt_instr *keeper) {
  if (find(place, instr, keeper) == nullptr) {
    all.insert({place, OrderedWeights{&instr, keeper}});
  }
}

Status OrderStore::reserve() {
  uint64_t bytes = 0;
  for (const auto &[place, weights] : all) {
    bytes += orderedBytesOf(*weights.instr);
  }
  if (bytes == 0) {
    return Status();
  }
  ASHLAR_RETURN_IF_ERROR(memory.reserve(bytes));
  auto *ordered = reinterpret_cast<char *>(memory.data());
  for (auto &[place, weights] : all) {
    weights.ordered = ordered;
    ordered += orderedBytesOf(*weights.instr);
  }
  return Status();
}

} // namespace ashlar::rt
