// SPDX-License-Identifier: Apache-2.0
//
// A NaN has all bits of the exponent set and a mantissa that is not zero, in every floating-point type; an infinity has a mantissa of zero.

#include "runtime/execute/numerics.h"

#include "runtime/base/dtype.h"
#include "runtime/execute/executor.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {
namespace {

constexpr size_t kBlock = 4096; // words that are looked through without a branch

// Finds the first word that, without its sign, is `least` or more.
template <typename Word> int64_t firstFrom(const void *data, size_t bytes, Word least) {
  const auto *at = static_cast<const char *>(data);
  constexpr Word kMagnitude = static_cast<Word>(static_cast<Word>(~Word{0}) >> 1);
  auto isFound = [&](size_t i) {
    Word word;
    std::memcpy(&word, at + i * sizeof(Word), sizeof(Word));
    return (word & kMagnitude) >= least;
  };
  const size_t count = bytes / sizeof(Word);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(count, begin + kBlock);
    bool isInBlock = false;
    for (size_t i = begin; i < end; ++i) {
      isInBlock |= isFound(i);
    }
    for (size_t i = begin; isInBlock && i < end; ++i) {
      if (isFound(i)) {
        return static_cast<int64_t>(i);
      }
    }
  }
  return -1;
}

// Finds the first element whose bits, without the sign, are those of infinity plus `above`, or more.
int64_t findFrom(uint32_t dtype, const void *data, size_t bytes, unsigned above) {
  switch (dtype) {
  case ASHLAR_RT_F32:
    return firstFrom<uint32_t>(data, bytes, 0x7f800000U + above);
  case ASHLAR_RT_F64:
    return firstFrom<uint64_t>(data, bytes, 0x7ff0000000000000U + above);
  case ASHLAR_RT_F16:
    return firstFrom<uint16_t>(data, bytes, static_cast<uint16_t>(0x7c00U + above));
  case ASHLAR_RT_BF16:
    return firstFrom<uint16_t>(data, bytes, static_cast<uint16_t>(0x7f80U + above));
  default:
    return -1;
  }
}

} // namespace

int64_t findNan(uint32_t dtype, const void *data, size_t bytes) {
  return findFrom(dtype, data, bytes, /*above=*/1);
}

int64_t findNonfinite(uint32_t dtype, const void *data, size_t bytes) {
  return findFrom(dtype, data, bytes, /*above=*/0);
}

Status checkNumerics(const Program &program, size_t index, int device,
                     const std::function<const void *(const ashlar_rt_buffer &buffer, Status &status)> &load) {
  const ashlar_rt_instr &instr = program.source.instrs[index];
  for (uint32_t i = 0; i < instr.num_buffers; ++i) {
    const ashlar_rt_buffer &buffer = instr.buffers[i];
    if ((instr.accesses[i] & ASHLAR_RT_WRITE) == 0) {
      continue;
    }
    Status loaded;
    const void *data = load(buffer, loaded);
    ASHLAR_RETURN_IF_ERROR(loaded);
    if (int64_t element = findNan(buffer.dtype, data, buffer.bytes); element >= 0) {
      return unavailable("NaN in run {} of {}: {} ({} of {}) left it in element {} of operand {}, {} of {} elements, on device {}",
                         program.runs, program.source.name, instr.name, index + 1, program.source.num_instrs, element, i,
                         dtypeName(buffer.dtype), buffer.bytes / dtypeBytes(buffer.dtype), device);
    }
  }
  return Status();
}

Status checkInputs(const Program &program, const ashlar_rt_variant &variant, int device,
                   const std::function<const void *(const ashlar_rt_buffer &buffer, Status &status)> &load) {
  for (uint32_t i = 0; i < program.source.num_inputs; ++i) {
    const ashlar_rt_tensor &tensor = variant.tensors[program.source.inputs[i]];
    Status loaded;
    const void *data = load(tensor.buffer, loaded);
    ASHLAR_RETURN_IF_ERROR(loaded);
    if (int64_t element = findNan(tensor.buffer.dtype, data, tensor.buffer.bytes); element >= 0) {
      return invalid("NaN before run {} of {}: element {} of the input {} on device {}", program.runs, program.source.name, element,
                     tensor.name, device);
    }
  }
  return Status();
}

} // namespace ashlar::rt
