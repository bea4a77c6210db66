// SPDX-License-Identifier: Apache-2.0
//
// Loads, stores, atomics, and the parameters of kernels and calls.

#include "test/emulator/ptx/decoder.h"
#include "test/emulator/ptx/lanes.h"
#include "test/emulator/ptx/moves.h"

#include <algorithm>
#include <cstring>

namespace ashlar::emulator {
namespace {

// The space of a generic address, and the address in it.
Space spaceOf(uint64_t &address) {
  if (address >= kLocalWindow) {
    address -= kLocalWindow;
    return Space::Local;
  }
  if (address >= kSharedWindow) {
    address -= kSharedWindow;
    return Space::Shared;
  }
  return Space::Global;
}

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

Space takeSpace(Qualifiers &qualifiers) {
  static const std::pair<std::string_view, Space> kNames[] = {
      {"global", Space::Global}, {"const", Space::Constant},  {"shared", Space::Shared},          {"shared::cta", Space::Shared},
      {"local", Space::Local},   {"param", Space::Parameter}, {"param::entry", Space::Parameter}, {"param::func", Space::Parameter}};
  for (const auto &[name, space] : kNames) {
    if (qualifiers.take(name)) {
      return space;
    }
  }
  return Space::Generic;
}

// Returns the place of the 64 bit address in `operand` without its offset.
uint32_t addressPlace(Decoder &decoder, const Operand &operand, Space space) {
  if (operand.kind != Operand::Address) {
    decoder.fail("expected an address in [ ]");
  }
  if (operand.name.empty()) {
    return decoder.constant(0, 8);
  }
  if (const std::optional<Type> type = decoder.registerType(operand.name)) {
    const Operand base{Operand::Name, operand.name};
    if (widthOf(*type) == 8) {
      return decoder.source(base, Type::U64);
    }
    const uint32_t place = decoder.temporary(8);
    decoder.emit(resizeHandler(Type::U32, 8), {place, decoder.source(base, Type::U32)});
    return place;
  }
  const auto symbol = decoder.symbol(operand.name);
  if (!symbol) {
    decoder.fail("'" + operand.name + "' is neither a register nor a variable");
  }
  const bool global = space == Space::Global || space == Space::Constant || space == Space::Generic;
  if (symbol->second != space && !(global && symbol->second == Space::Global)) {
    decoder.fail("'" + operand.name + "' is not in the state space of the instruction");
  }
  return decoder.constant(symbol->first, 8);
}

// The registers of a scalar or of { }.
std::vector<Operand> registersOf(const Operand &operand) {
  return operand.kind == Operand::List ? operand.list : std::vector<Operand>{operand};
}

// Hints and orders that change nothing here: every access is done at once.
void ignoreHints(Qualifiers &qualifiers) {
  qualifiers.ignore({"v2",
                     "v4",
                     "v8",
                     "ca",
                     "cg",
                     "cs",
                     "lu",
                     "cv",
                     "wb",
                     "wt",
                     "volatile",
                     "relaxed",
                     "acquire",
                     "release",
                     "acq_rel",
                     "weak",
                     "cta",
                     "gpu",
                     "sys",
                     "L1::no_allocate",
                     "L1::evict_first",
                     "L1::evict_last",
                     "L2::64B",
                     "L2::128B",
                     "L2::256B"});
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
  const std::array<uint32_t, 10> places = access.operand;
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

struct AtomicAdd {
  template <class T> T operator()(T old, T value, T) const { return old + value; }
};
struct AtomicMin {
  template <class T> T operator()(T old, T value, T) const { return std::min(old, value); }
};
struct AtomicMax {
  template <class T> T operator()(T old, T value, T) const { return std::max(old, value); }
};
struct AtomicExchange {
  template <class T> T operator()(T, T value, T) const { return value; }
};
struct AtomicSwap {
  template <class T> T operator()(T old, T expected, T value) const { return old == expected ? value : old; }
};

// operands: address, old value, value, second value.
template <class F, class T> void atomic(Warp &warp, const Instruction &instruction, uint32_t mask) {
  forEachLane(mask, [&](unsigned lane) {
    uint64_t address = warp.slot<uint64_t>(instruction.operand[0])[lane] + uint64_t(instruction.immediate);
    std::byte *place = spaceOf(address) == Space::Shared ? warp.sharedAtomic(address, sizeof(T), lane, instruction)
                                                         : warp.globalAtomic(address, sizeof(T), lane, instruction);
    T old;
    std::memcpy(&old, place, sizeof old);
    const T fresh = F()(old, warp.slot<T>(instruction.operand[2])[lane], warp.slot<T>(instruction.operand[3])[lane]);
    std::memcpy(place, &fresh, sizeof fresh);
    warp.slot<T>(instruction.operand[1])[lane] = old;
  });
}

template <class F> Handler atomicHandler(Decoder &decoder, Type type) {
  switch (type) {
  case Type::U32:
  case Type::B32:
    return &atomic<F, uint32_t>;
  case Type::S32:
    return &atomic<F, int32_t>;
  case Type::U64:
  case Type::B64:
    return &atomic<F, uint64_t>;
  case Type::S64:
    return &atomic<F, int64_t>;
  case Type::F32:
    return &atomic<F, float>;
  case Type::F64:
    return &atomic<F, double>;
  default:
    decoder.fail("an atomic of this type is not known");
  }
}

Handler atomicHandler(Decoder &decoder, Qualifiers &qualifiers, Type type) {
  static const std::pair<std::string_view, Handler (*)(Decoder &, Type)> kOps[] = {{"add", &atomicHandler<AtomicAdd>},
                                                                                   {"min", &atomicHandler<AtomicMin>},
                                                                                   {"max", &atomicHandler<AtomicMax>},
                                                                                   {"exch", &atomicHandler<AtomicExchange>},
                                                                                   {"cas", &atomicHandler<AtomicSwap>}};
  for (const auto &[name, choose] : kOps) {
    if (qualifiers.take(name)) {
      return choose(decoder, type);
    }
  }
  decoder.fail("this atomic is not known");
}

// atom d, [a], b{, c} and red [a], b.
void decodeAtomic(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  const bool reduces = statement.opcode[0] == "red";
  decoder.expectOperands(statement, reduces ? 2 : 3, reduces ? 2 : 4);
  const Type type = qualifiers.takeType();
  const Space space = takeSpace(qualifiers);
  ignoreHints(qualifiers);
  const Handler handler = atomicHandler(decoder, qualifiers, type);
  const auto *operand = statement.operands.data();
  const uint32_t old = reduces ? decoder.temporary(widthOf(type)) : decoder.destination(*operand++, type);
  const Operand &address = *operand++;
  const uint32_t place = addressPlace(decoder, address, space);
  const uint32_t value = decoder.source(*operand++, type);
  const bool more = operand != statement.operands.data() + statement.operands.size();
  // Atomics find their space from a generic address.
  const int64_t window = space == Space::Shared ? int64_t(kSharedWindow) : 0;
  decoder.emit(handler, {place, old, value, more ? decoder.source(*operand, type) : value}, int64_t(address.bits) + window);
}

} // namespace

void addMemory(Families &families) {
  families.insert({{"atom", &decodeAtomic}, {"ld", &decodeLoad}, {"ldu", &decodeLoad}, {"red", &decodeAtomic}, {"st", &decodeStore}});
}

} // namespace ashlar::emulator
