// SPDX-License-Identifier: Apache-2.0
//
// A NaN has all bits of the exponent set and a mantissa that is not zero, in every floating-point type.

#include "runtime/launch/numerics.h"

#include "runtime/base/dtype.h"
#include "runtime/launch/executor.h"

#include <cstring>

namespace ashlar::rt {
namespace {

// Finds the first word that, without its sign, is greater than infinity.
template <typename Word> int64_t firstAbove(const void *data, size_t bytes, Word infinity) {
  const auto *at = static_cast<const char *>(data);
  constexpr Word kMagnitude = static_cast<Word>(static_cast<Word>(~Word{0}) >> 1);
  for (size_t i = 0; i < bytes / sizeof(Word); ++i) {
    Word word;
    std::memcpy(&word, at + i * sizeof(Word), sizeof(Word));
    if ((word & kMagnitude) > infinity) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

} // namespace

int64_t findNan(uint32_t dtype, const void *data, size_t bytes) {
  switch (dtype) {
  case ASHLAR_RT_F32:
    return firstAbove<uint32_t>(data, bytes, 0x7f800000);
  case ASHLAR_RT_F64:
    return firstAbove<uint64_t>(data, bytes, 0x7ff0000000000000);
  case ASHLAR_RT_F16:
    return firstAbove<uint16_t>(data, bytes, 0x7c00);
  case ASHLAR_RT_BF16:
    return firstAbove<uint16_t>(data, bytes, 0x7f80);
  default:
    return -1;
  }
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
