// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores, and the parameters of kernels and calls.

#include "test/emulator/ptx/addresses.h"
#include "test/emulator/ptx/decoder.h"
#include "test/emulator/ptx/lanes.h"
#include "test/emulator/ptx/moves.h"

#include <cstring>

namespace ashlar::emulator {
namespace {

template <Space kSpace, bool kConstant>
std::byte *readable(Warp &warp, uint64_t address, unsigned size, unsigned lane, const Instruction &instruction) {
  const Space space = kSpace == Space::Generic ? spaceOf(address) : kSpace;
  return space == Space::Shared  ? warp.sharedRead(address, size, lane, instruction)
         : space == Space::Local ? warp.local(address, size, lane, instruction)
                                 : warp.globalRead(address, size, lane, instruction, kConstant);
}

template <Space kSpace>
std::byte *writable(Warp &warp, uint64_t address, unsigned size, unsigned lane, const Instruction &instruction, const std::byte *value) {
  const Space space = kSpace == Space::Generic ? spaceOf(address) : kSpace;
  return space == Space::Shared  ? warp.sharedWrite(address, size, lane, instruction, value)
         : space == Space::Local ? warp.local(address, size, lane, instruction)
                                 : warp.globalWrite(address, size, lane, instruction, value);
}

// operand 0: address; immediate: its offset; operands 1..: registers.
template <Space kSpace, bool kConstant, class T, unsigned kCount> void load(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const uint64_t *addresses = warp.slot<uint64_t>(instruction.operand[0]);
  forEachLane(mask, [&](unsigned lane) {
    T values[kCount];
    std::memcpy(values,
                readable<kSpace, kConstant>(warp, addresses[lane] + uint64_t(instruction.immediate), sizeof values, lane, instruction),
                sizeof values);
    for (unsigned i = 0; i < kCount; ++i) {
      warp.slot<T>(instruction.operand[1 + i])[lane] = values[i];
    }
  });
}

template <Space kSpace, class T, unsigned kCount> void store(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const uint64_t *addresses = warp.slot<uint64_t>(instruction.operand[0]);
  forEachLane(mask, [&](unsigned lane) {
    T values[kCount];
    for (unsigned i = 0; i < kCount; ++i) {
      values[i] = warp.slot<T>(instruction.operand[1 + i])[lane];
    }
    const auto *bytes = reinterpret_cast<const std::byte *>(values);
    std::memcpy(writable<kSpace>(warp, addresses[lane] + uint64_t(instruction.immediate), sizeof values, lane, instruction, bytes), values,
                sizeof values);
  });
}

enum class Access { Load, LoadConstant, Store };

template <Access kAccess, Space kSpace, class T> Handler accessHandler(size_t count) {
  constexpr bool kConstant = kAccess == Access::LoadConstant;
  const auto choose = [](auto size) -> Handler {
    constexpr unsigned kCount = decltype(size)::value;
    if constexpr (kCount * sizeof(T) > 16) {
      return nullptr;
    } else if constexpr (kAccess == Access::Store) {
      return &store<kSpace, T, kCount>;
    } else {
      return &load<kSpace, kConstant, T, kCount>;
    }
  };
  switch (count) {
  case 1:
    return choose(std::integral_constant<unsigned, 1>());
  case 2:
    return choose(std::integral_constant<unsigned, 2>());
  case 4:
    return choose(std::integral_constant<unsigned, 4>());
  case 8:
    return choose(std::integral_constant<unsigned, 8>());
  default:
    return nullptr;
  }
}

template <Access kAccess, Space kSpace> Handler accessHandler(unsigned width, size_t count) {
  switch (width) {
  case 1:
    return accessHandler<kAccess, kSpace, uint8_t>(count);
  case 2:
    return accessHandler<kAccess, kSpace, uint16_t>(count);
  case 4:
    return accessHandler<kAccess, kSpace, uint32_t>(count);
  default:
    return accessHandler<kAccess, kSpace, uint64_t>(count);
  }
}

template <Access kAccess> Handler accessHandler(Space space, unsigned width, size_t count) {
  switch (space) {
  case Space::Shared:
    return accessHandler<kAccess, Space::Shared>(width, count);
  case Space::Local:
    return accessHandler<kAccess, Space::Local>(width, count);
  case Space::Generic:
    return accessHandler<kAccess, Space::Generic>(width, count);
  default:
    return accessHandler<kAccess, Space::Global>(width, count);
  }
}

// The registers of a scalar or of { }.
std::vector<Operand> registersOf(const Operand &operand) {
  return operand.kind == Operand::List ? operand.list : std::vector<Operand>{operand};
}

// ld.param and st.param: parameters are registers.
void decodeParameter(Decoder &decoder, const Operand &address, const std::vector<Operand> &registers, Type type, bool stores) {
  for (size_t i = 0; i < registers.size(); ++i) {
    const uint32_t place = decoder.parameter(address.name, address.bits + i * widthOf(type), widthOf(type));
    if (stores) {
      decoder.emit(copyHandler(widthOf(type)), {place, decoder.narrowSource(registers[i], type)});
    } else {
      const uint32_t out = decoder.narrowDestination(registers[i], type);
      decoder.emit(copyHandler(widthOf(type)), {out, place});
      decoder.widen(registers[i], type, out);
    }
  }
}

void decodeAccess(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement, bool stores) {
  decoder.expectOperands(statement, 2, 2);
  const Type type = qualifiers.takeType();
  const Space space = takeSpace(qualifiers);
  const bool constant = qualifiers.take("nc");
  ignoreHints(qualifiers);
  const Operand &address = statement.operands[stores ? 0 : 1];
  const std::vector<Operand> registers = registersOf(statement.operands[stores ? 1 : 0]);
  if (space == Space::Parameter) {
    decodeParameter(decoder, address, registers, type, stores);
    return;
  }
  const unsigned width = widthOf(type);
  const Handler handler = stores     ? accessHandler<Access::Store>(space, width, registers.size())
                          : constant ? accessHandler<Access::LoadConstant>(space, width, registers.size())
                                     : accessHandler<Access::Load>(space, width, registers.size());
  if (!handler) {
    decoder.fail("an access of " + std::to_string(registers.size()) + " x " + std::to_string(width) + " bytes is not known");
  }
  Instruction access;
  access.operand[0] = addressPlace(decoder, address, space);
  for (size_t i = 0; i < registers.size(); ++i) {
    access.operand[1 + i] = stores ? decoder.narrowSource(registers[i], type) : decoder.narrowDestination(registers[i], type);
  }
  const Operands places = access.operand;
  decoder.emit(handler, {}, int64_t(address.bits)).operand = places;
  for (size_t i = 0; !stores && i < registers.size(); ++i) {
    decoder.widen(registers[i], type, places[1 + i]);
  }
}

void decodeLoad(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decodeAccess(decoder, qualifiers, statement, /*stores=*/false);
}

void decodeStore(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decodeAccess(decoder, qualifiers, statement, /*stores=*/true);
}

} // namespace

void addMemory(Families &families) {
  families.insert({{"ld", &decodeLoad}, {"ldu", &decodeLoad}, {"st", &decodeStore}});
}

} // namespace ashlar::emulator
