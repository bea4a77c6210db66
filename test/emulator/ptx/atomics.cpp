// SPDX-License-Identifier: Apache-2.0
//
// Atomics, which are in no conflict with each other, and the addresses of all memory instructions.

#include "test/emulator/ptx/addresses.h"
#include "test/emulator/ptx/lanes.h"
#include "test/emulator/ptx/moves.h"

#include <algorithm>
#include <cstring>

namespace ashlar::emulator {

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

namespace {

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

void addAtomics(Families &families) {
  families.insert({{"atom", &decodeAtomic}, {"red", &decodeAtomic}});
}

} // namespace ashlar::emulator
