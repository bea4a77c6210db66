// SPDX-License-Identifier: Apache-2.0
//
// Additions of more than one word: add, sub and mad that write the carry flag (.cc) or add it (addc, subc, madc).

#include "test/emulator/ptx/carries.h"

#include "test/emulator/ptx/integers.h"

namespace ashlar::emulator {
namespace {

// operands: result, a, b, carry flag. A subtraction adds the complement; its flag is the borrow.
template <class T, bool kSubtracts, bool kReads, bool kWrites> void addLanes(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint8_t *carry = warp.slot<uint8_t>(instruction.operand[3]);
  forEachLane(mask, [&](unsigned lane) {
    const T a = warp.slot<T>(instruction.operand[1])[lane], b = warp.slot<T>(instruction.operand[2])[lane];
    const bool in = kReads && carry[lane] != 0;
    const unsigned __int128 sum = kSubtracts ? (unsigned __int128)a - b - in : (unsigned __int128)a + b + in;
    if (kWrites) {
      carry[lane] = uint8_t(sum >> (sizeof(T) * 8) & 1);
    }
    warp.slot<T>(instruction.operand[0])[lane] = T(sum);
  });
}

template <class T, bool kSubtracts> Handler addHandler(bool reads, bool writes) {
  if (reads) {
    return writes ? &addLanes<T, kSubtracts, true, true> : &addLanes<T, kSubtracts, true, false>;
  }
  return &addLanes<T, kSubtracts, false, true>;
}

void emitAdd(Decoder &decoder, Type type, bool subtracts, bool reads, bool writes, uint32_t out, uint32_t a, uint32_t b) {
  Handler handler = nullptr;
  if (widthOf(type) == 4) {
    handler = subtracts ? addHandler<uint32_t, true>(reads, writes) : addHandler<uint32_t, false>(reads, writes);
  } else if (widthOf(type) == 8) {
    handler = subtracts ? addHandler<uint64_t, true>(reads, writes) : addHandler<uint64_t, false>(reads, writes);
  } else {
    decoder.fail("a carry of this type is not known");
  }
  decoder.emit(handler, {out, a, b, decoder.carry()});
}

void decodeAddCarry(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decodeCarry(decoder, qualifiers, statement, qualifiers.takeType());
}

} // namespace

void decodeCarry(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement, Type type) {
  const std::string &name = statement.opcode[0];
  const bool multiplies = name.compare(0, 3, "mad") == 0, subtracts = name.compare(0, 3, "sub") == 0, reads = name.back() == 'c';
  const bool writes = qualifiers.take("cc");
  decoder.expectOperands(statement, multiplies ? 4 : 3, multiplies ? 4 : 3);
  const auto &operands = statement.operands;
  const uint32_t out = decoder.destination(operands[0], type), a = decoder.source(operands[1], type), b = decoder.source(operands[2], type);
  if (!multiplies) {
    emitAdd(decoder, type, subtracts, reads, writes, out, a, b);
    return;
  }
  const bool high = qualifiers.take("hi");
  qualifiers.ignore({"lo"});
  const uint32_t product = decoder.temporary(widthOf(type));
  decoder.emit(high ? integerHandler<MulHigh, 2>(decoder, type) : integerHandler<MulLow, 2>(decoder, type), {product, a, b});
  emitAdd(decoder, type, /*subtracts=*/false, reads, writes, out, product, decoder.source(operands[3], type));
}

void addCarries(Families &families) {
  for (const std::string_view name : {"addc", "madc", "subc"}) {
    families[name] = &decodeAddCarry;
  }
}

} // namespace ashlar::emulator
