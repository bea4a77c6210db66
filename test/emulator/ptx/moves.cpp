// SPDX-License-Identifier: Apache-2.0
//
// mov in all its forms, and cvta.

#include "test/emulator/ptx/moves.h"
#include "test/emulator/ptx/decoder.h"
#include "test/emulator/ptx/lanes.h"

#include <cstring>

namespace ashlar::emulator {
namespace {

struct Copy {
  template <class T> T operator()(T value) const { return value; }
};

template <class To, class From> struct Resize {
  To operator()(From value) const { return To(value); }
};

template <class From> Handler resizeTo(unsigned width) {
  switch (width) {
  case 1:
    return &lanes<Resize<uint8_t, From>, uint8_t, From>;
  case 2:
    return &lanes<Resize<uint16_t, From>, uint16_t, From>;
  case 4:
    return &lanes<Resize<uint32_t, From>, uint32_t, From>;
  default:
    return &lanes<Resize<uint64_t, From>, uint64_t, From>;
  }
}

struct AddOffset {
  uint64_t operator()(uint64_t address, uint64_t offset) const { return address + offset; }
};

// Copies the bytes of `count` registers of `part` bytes into one, or of one into them. immediate: part | count << 8.
void pack(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const auto part = size_t(instruction.immediate & 0xff), count = size_t(instruction.immediate >> 8);
  forEachLane(mask, [&](unsigned lane) {
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(warp.slot<std::byte>(instruction.operand[0]) + (lane * count + i) * part,
                  warp.slot<std::byte>(instruction.operand[1 + i]) + lane * part, part);
    }
  });
}

void unpack(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const auto part = size_t(instruction.immediate & 0xff), count = size_t(instruction.immediate >> 8);
  forEachLane(mask, [&](unsigned lane) {
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(warp.slot<std::byte>(instruction.operand[1 + i]) + lane * part,
                  warp.slot<std::byte>(instruction.operand[0]) + (lane * count + i) * part, part);
    }
  });
}

Type bitsOf(unsigned width) {
  return width == 1 ? Type::B8 : width == 2 ? Type::B16 : width == 4 ? Type::B32 : Type::B64;
}

void decodePacked(Decoder &decoder, const Statement &statement, Type type) {
  const bool packs = statement.operands[1].kind == Operand::List;
  const std::vector<Operand> &list = statement.operands[packs ? 1 : 0].list;
  const size_t part = widthOf(type) / std::max<size_t>(list.size(), 1);
  if (list.empty() || list.size() > 4 || part * list.size() != widthOf(type) || part < 2) {
    decoder.fail("'mov' with a list that does not fill its type");
  }
  std::array<uint32_t, 5> places{packs ? decoder.destination(statement.operands[0], type) : decoder.source(statement.operands[1], type)};
  for (size_t i = 0; i < list.size(); ++i) {
    const Type element = bitsOf(unsigned(part));
    places[i + 1] = packs ? decoder.source(list[i], element) : decoder.destination(list[i], element);
  }
  decoder.emit(packs ? &pack : &unpack, {places[0], places[1], places[2], places[3], places[4]}, int64_t(part | list.size() << 8));
}

void decodeMove(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 2, 2);
  const Type type = qualifiers.takeType();
  const Operand &from = statement.operands[1];
  if (from.kind == Operand::List || statement.operands[0].kind == Operand::List) {
    decodePacked(decoder, statement, type);
    return;
  }
  const auto symbol = from.kind == Operand::Name ? decoder.symbol(from.name) : std::nullopt;
  const uint32_t in = symbol ? decoder.constant(symbol->first, widthOf(type)) : decoder.source(from, type);
  decoder.emit(copyHandler(widthOf(type)), {decoder.destination(statement.operands[0], type), in});
}

// Between addresses of a space and generic ones; those of global memory are the same.
void decodeConvertAddress(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 2, 2);
  const Type type = qualifiers.takeType();
  const bool toSpace = qualifiers.take("to");
  const uint64_t window = qualifiers.take("shared") || qualifiers.take("shared::cta") ? kSharedWindow
                          : qualifiers.take("local")                                  ? kLocalWindow
                                                                                      : 0;
  qualifiers.ignore({"global", "const"});
  const Operand &from = statement.operands[1];
  const auto symbol = from.kind == Operand::Name ? decoder.symbol(from.name) : std::nullopt;
  const uint32_t in = symbol ? decoder.constant(symbol->first, 8) : decoder.source(from, type);
  decoder.emit(&lanes<AddOffset, uint64_t, uint64_t, uint64_t>,
               {decoder.destination(statement.operands[0], type), in, decoder.constant(toSpace ? -window : window, 8)});
}

} // namespace

Handler copyHandler(unsigned width) {
  switch (width) {
  case 1:
    return &lanes<Copy, uint8_t, uint8_t>;
  case 2:
    return &lanes<Copy, uint16_t, uint16_t>;
  case 4:
    return &lanes<Copy, uint32_t, uint32_t>;
  default:
    return &lanes<Copy, uint64_t, uint64_t>;
  }
}

Handler resizeHandler(Type from, unsigned width) {
  const bool extendSign = isSigned(from);
  switch (widthOf(from)) {
  case 1:
    return extendSign ? resizeTo<int8_t>(width) : resizeTo<uint8_t>(width);
  case 2:
    return extendSign ? resizeTo<int16_t>(width) : resizeTo<uint16_t>(width);
  case 4:
    return extendSign ? resizeTo<int32_t>(width) : resizeTo<uint32_t>(width);
  default:
    return resizeTo<uint64_t>(width);
  }
}

void addMoves(Families &families) {
  families.insert({{"cvta", &decodeConvertAddress}, {"mov", &decodeMove}});
}

} // namespace ashlar::emulator
