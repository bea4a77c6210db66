// SPDX-License-Identifier: Apache-2.0
//
// Descriptors, and the tables that hold them.

#include "tools/ashlar_calibrate/measured_program.h"

#include "runtime/base/half.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace ashlar::calibrate {

namespace {

using rt::Bf16;

constexpr uint64_t kAlignment = 4096;

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The sum of two rows of one cache line.
void addRows(void *const *buffers, int64_t, int64_t) {
  const auto *a = static_cast<const float *>(buffers[0]), *b = static_cast<const float *>(buffers[1]);
  auto *out = static_cast<float *>(buffers[2]);
  for (int64_t i = 0; i < 16; ++i) {
    out[i] = a[i] + b[i];
  }
}

} // namespace

MeasuredImage::MeasuredImage(uint32_t ranks) : ranks(ranks), axis{"ranks", ranks} {}

void MeasuredImage::add(const std::string &label, const std::vector<Instruction> &what, uint32_t count, bool isCollective) {
  const std::string &name = names.emplace_back("measured_" + std::to_string(list.size()));
  std::vector<ashlar_rt_instr> &table = instructions.emplace_back();
  uint64_t offset = kAlignment; // the coordinates of the device are in front
  for (const Instruction &each : what) {
    std::vector<ashlar_rt_buffer> &places = buffers.emplace_back();
    for (uint64_t bytes : each.bytes) {
      places.push_back({ASHLAR_RT_ARENA, each.dtype, offset, bytes});
      offset += aligned(bytes);
    }
    std::vector<uint32_t> &accesses = numbers.emplace_back(each.bytes.size(), ASHLAR_RT_READ);
    std::fill(accesses.end() - static_cast<std::ptrdiff_t>(each.written), accesses.end(), ASHLAR_RT_WRITE);
    table.push_back(
        {each.kind, name.c_str(), static_cast<uint32_t>(places.size()), places.data(), accesses.data(), each.desc, /*owner=*/0});
  }
  const std::vector<ashlar_rt_instr> once = table;
  for (uint32_t i = 1; i < count; ++i) {
    table.insert(table.end(), once.begin(), once.end());
  }
  variant.arena_bytes = std::max(variant.arena_bytes, offset);
  list.push_back({label, name, count, isCollective});
}

void MeasuredImage::addProduct(int64_t size, int64_t m, int64_t n, int64_t k, bool transposeA) {
  for (const uint32_t narrow : {uint32_t{0}, static_cast<uint32_t>(ASHLAR_RT_BF16)}) {
    products.push_back({/*batch=*/1, m, n, k, transposeA, 0, 0, ASHLAR_RT_EPILOGUE_NONE, ASHLAR_RT_SUM_OF_NONE, 0, 0, 0, narrow, narrow});
    const uint64_t bytes = narrow != 0 ? sizeof(Bf16) : sizeof(float);
    const Instruction call{ASHLAR_RT_GEMM, &products.back(), {m * k * bytes, k * n * bytes, m * n * bytes}};
    const char *type = narrow != 0 ? "bf16 " : "f32 ";
    add("product " + std::to_string(size) + " " + type + std::to_string(2 * m * n * k), {call}, /*count=*/1);
  }
}

void MeasuredImage::addProducts(int64_t size) {
  const int64_t other = std::max<int64_t>(size, 256);
  addProduct(size, size, other, other, /*transposeA=*/false); // few samples
  addProduct(size, other, size, other, /*transposeA=*/false); // few classes
  addProduct(size, other, other, size, /*transposeA=*/true);  // the gradient of a weight, of few samples
}

void MeasuredImage::addConvolution(int64_t size, uint32_t kind, int64_t in, int64_t out) {
  constexpr int64_t kSide = 14, kWindow = 3;
  const int64_t batch = std::max<int64_t>(1, 128 / std::max<int64_t>(size, 16)); // a call takes a millisecond at most
  const ashlar_rt_conv_dim dim = {kSide, kSide, kWindow, /*stride=*/1, /*dilation=*/1, /*low=*/1};
  const int64_t x = batch * kSide * kSide * in, y = batch * kSide * kSide * out, w = in * out * kWindow * kWindow;
  const int64_t flops = 2 * y * in * kWindow * kWindow;
  for (const uint32_t narrow : {uint32_t{0}, static_cast<uint32_t>(ASHLAR_RT_BF16)}) {
    const bool isNarrow = narrow != 0, isOutNarrow = isNarrow && kind != ASHLAR_RT_CONV_WEIGHTS; // a weight's gradient is f32
    convolutions.push_back({kind,
                            0,
                            0,
                            0,
                            ASHLAR_RT_EPILOGUE_NONE,
                            0,
                            0,
                            /*spatial_dims=*/2,
                            batch,
                            /*groups=*/1,
                            in,
                            out,
                            {{1, 1, 1, 1, 1, 0}, dim, dim},
                            narrow,
                            isOutNarrow});
    const uint64_t bytes = isNarrow ? sizeof(Bf16) : sizeof(float), outBytes = isOutNarrow ? sizeof(Bf16) : sizeof(float);
    Instruction call{ASHLAR_RT_CONV, &convolutions.back(), {x * bytes, w * bytes, y * outBytes}};
    if (kind == ASHLAR_RT_CONV_DATA) {
      call.bytes = {y * bytes, w * bytes, x * outBytes};
    } else if (kind == ASHLAR_RT_CONV_WEIGHTS) {
      call.bytes = {x * bytes, y * bytes, w * outBytes};
    }
    const char *type = isNarrow ? "bf16 " : "f32 ";
    add("convolution " + std::to_string(size) + " " + type + std::to_string(flops), {call}, /*count=*/1);
  }
}

void MeasuredImage::addConvolutions(int64_t size) {
  for (uint32_t kind : {ASHLAR_RT_CONV_FORWARD, ASHLAR_RT_CONV_DATA, ASHLAR_RT_CONV_WEIGHTS}) {
    addConvolution(size, kind, size, std::max<int64_t>(size, 16));
    addConvolution(size, kind, size, std::max<int64_t>(2 * size, 32));
  }
}

void MeasuredImage::addAttention(int64_t size, uint32_t kind, int64_t rows, int64_t width) {
  constexpr int64_t kHeads = 8, kKeys = 256;
  const bool isForward = kind == ASHLAR_RT_ATTENTION_FORWARD;
  const int64_t products = isForward ? 2 : 5; // of a column for each score
  for (const uint32_t type : {static_cast<uint32_t>(ASHLAR_RT_F32), static_cast<uint32_t>(ASHLAR_RT_BF16)}) {
    ashlar_rt_attention_desc &desc = attentions.emplace_back();
    std::memset(&desc, 0, sizeof(desc));
    desc.kind = kind;
    desc.dtype = type;
    desc.batch = 1;
    desc.heads = desc.key_heads = kHeads;
    desc.rows = rows;
    desc.keys = kKeys;
    desc.width = desc.value_width = width;
    desc.scale = 1;
    const uint64_t element = type == ASHLAR_RT_F32 ? sizeof(float) : sizeof(Bf16);
    const uint64_t ofRows = kHeads * rows * width * element, ofKeys = kHeads * kKeys * width * element,
                   sums = kHeads * rows * sizeof(float);
    Instruction call{ASHLAR_RT_ATTENTION, &desc, {ofRows, ofKeys, ofKeys, ofRows, sums}, /*written=*/2};
    if (!isForward) {
      call.bytes.insert(call.bytes.end(), {ofRows, ofRows, ofKeys, ofKeys});
      call.written = 3;
    }
    const char *name = type == ASHLAR_RT_F32 ? "f32 " : "bf16 ";
    const int64_t flops = 2 * products * kHeads * rows * kKeys * width;
    add("attention " + std::to_string(size) + " " + name + std::to_string(flops), {call}, /*count=*/1);
  }
}

void MeasuredImage::addAttentions(int64_t size) {
  constexpr int64_t kFewRows = 8, kRows = 256, kWidth = 64;
  for (uint32_t kind : {ASHLAR_RT_ATTENTION_FORWARD, ASHLAR_RT_ATTENTION_BACKWARD}) {
    size <= kFewRows ? addAttention(size, kind, /*rows=*/size, kWidth) : addAttention(size, kind, kRows, /*width=*/size);
  }
}

void MeasuredImage::addMemory() {
  constexpr uint64_t kBytes = uint64_t{16} << 20;
  add("memory " + std::to_string(2 * kBytes), {{ASHLAR_RT_COPY, nullptr, {kBytes, kBytes}}}, /*count=*/1);
}

void MeasuredImage::addLaunches() {
  kernels.push_back({addRows, nullptr, /*extent=*/1, /*grain=*/1});
  add("launch", {{ASHLAR_RT_KERNEL, &kernels.back(), {64, 64, 64}}}, /*count=*/1000);
}

void MeasuredImage::addCollective(const char *kind, uint64_t bytes) {
  const std::map<std::string, uint32_t> kinds = {{"ALL_REDUCE", ASHLAR_RT_ALL_REDUCE}, {"REDUCE_SCATTER", ASHLAR_RT_REDUCE_SCATTER},
                                                 {"ALL_TO_ALL", ASHLAR_RT_ALL_TO_ALL}, {"ALL_GATHER", ASHLAR_RT_ALL_GATHER},
                                                 {"PERMUTE", ASHLAR_RT_PERMUTE},       {"BROADCAST", ASHLAR_RT_BROADCAST}};
  // Rows and columns that the ranks divide: a scatter cuts rows, an all-to-all rows into columns.
  const bool isGather = kinds.at(kind) == ASHLAR_RT_ALL_GATHER;
  const int64_t rows = isGather ? 1 : ranks, columns = std::max<int64_t>(1, static_cast<int64_t>(bytes / sizeof(float)) / ranks);
  const auto exact = static_cast<uint64_t>(rows * columns) * sizeof(float);
  std::vector<int64_t> &shape = shapes.emplace_back(std::vector<int64_t>{rows, columns});
  tensors.push_back({/*rank=*/2, shape.data(), /*split_dim=*/0, /*concat_dim=*/0});
  ashlar_rt_collective_desc &desc = collectives.emplace_back();
  std::memset(&desc, 0, sizeof(desc));
  desc.kind = kinds.at(kind);
  desc.dtype = ASHLAR_RT_F32;
  desc.reduction = ASHLAR_RT_SUM;
  desc.num_axes = 1;
  desc.axes = &axisNumber;
  desc.num_tensors = 1;
  desc.tensors = &tensors.back();
  uint64_t result = exact;
  switch (desc.kind) {
  case ASHLAR_RT_ALL_GATHER:
    result = exact * ranks;
    break;
  case ASHLAR_RT_REDUCE_SCATTER:
    result = exact / ranks;
    break;
  case ASHLAR_RT_ALL_TO_ALL:
    tensors.back().concat_dim = 1;
    break;
  case ASHLAR_RT_PERMUTE: { // around the ring
    std::vector<uint32_t> &pairs = numbers.emplace_back();
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      pairs.insert(pairs.end(), {rank, (rank + 1) % ranks});
    }
    desc.num_pairs = ranks;
    desc.pairs = pairs.data();
    break;
  }
  default:
    break;
  }
  const auto count = static_cast<uint32_t>(std::clamp<uint64_t>((uint64_t{16} << 10) / exact, 1, 8));
  add("collective " + std::string(kind) + " " + std::to_string(ranks) + " " + std::to_string(exact),
      {{ASHLAR_RT_COLLECTIVE, &desc, {exact, result}}}, count, /*isCollective=*/true);
}

const ashlar_rt_image &MeasuredImage::finish() {
  for (size_t i = 0; i < list.size(); ++i) {
    programs.push_back({list[i].program.c_str(), {}, static_cast<uint32_t>(instructions[i].size()), instructions[i].data()});
  }
  variant.name = "default";
  variant.num_axes = 1;
  variant.axes = &axis;
  variant.devices_per_process = 1;
  variant.num_programs = static_cast<uint32_t>(programs.size());
  variant.programs = programs.data();
  variant.num_stages = 1;
  variant.num_slots = 1;
  image.abi_version = ASHLAR_RT_ABI_VERSION;
  image.model_name = "calibration";
  image.target = "cpu";
  image.program_hash = 1;
  image.num_variants = 1;
  image.variants = &variant;
  return image;
}

} // namespace ashlar::calibrate
