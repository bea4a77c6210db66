// SPDX-License-Identifier: Apache-2.0
//
// mma and ldmatrix: products of matrices that lie in the registers of all lanes of a warp, and the loads of such registers.
//
// A register holds two neighbours of a row of A, of a column of B, or of a row of an 8 x 8 matrix of ldmatrix; the first one in its low
// half. An accumulator holds one element. Of lane l, l / 4 is its group and l % 4 its place in the group.

#include "test/emulator/ptx/addresses.h"
#include "test/emulator/ptx/decoder.h"
#include "test/emulator/ptx/warp.h"

#include <cstring>

namespace ashlar::emulator {
namespace {

constexpr unsigned kRows = 16, kColumns = 8, kDepth = 16; // m16n8k16

// Returns the opcode with its qualifiers, as it is written.
std::string spelled(const Statement &statement) {
  std::string text = statement.opcode[0];
  for (size_t i = 1; i < statement.opcode.size(); ++i) {
    text += "." + statement.opcode[i];
  }
  return text;
}

// Returns the registers of an operand { }.
const std::vector<Operand> &listOf(Decoder &decoder, const Statement &statement, size_t number, size_t count) {
  const Operand &operand = statement.operands[number];
  if (operand.kind != Operand::List || operand.list.size() != count) {
    decoder.fail("operand " + std::to_string(number) + " of '" + statement.opcode[0] + "' must have " + std::to_string(count) +
                 " registers in { }");
  }
  return operand.list;
}

// The values of all numbers of a format of 16 bits.
template <class T> std::vector<float> valuesOf() {
  std::vector<float> values(1 << 16);
  for (size_t bits = 0; bits < values.size(); ++bits) {
    T number;
    number.bits = uint16_t(bits);
    values[bits] = float(double(number));
  }
  return values;
}

// d = a b + c of all lanes. operands: 4 registers of d, 4 of a, 2 of b, 4 of c.
//
// A product of two numbers of 16 bits is exact in f32, unless it leaves its range. Hardware adds 16 of them and c in an order that is not
// specified, with roundings of its own: here they are added to c in f32, in the order of k.
template <class T> void multiply(Warp &warp, const Instruction &instruction, uint32_t) {
  static const std::vector<float> kValues = valuesOf<T>();
  float a[kRows][kDepth], b[kDepth][kColumns], sums[kRows][kColumns];
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const unsigned group = lane / 4, place = lane % 4;
    for (unsigned i = 0; i < 4; ++i) {
      const auto pair = warp.slot<Pair<T>>(instruction.operand[4 + i])[lane];
      const unsigned row = group + i % 2 * 8, k = 2 * place + i / 2 * 8;
      a[row][k] = kValues[pair.low.bits];
      a[row][k + 1] = kValues[pair.high.bits];
    }
    for (unsigned i = 0; i < 2; ++i) {
      const auto pair = warp.slot<Pair<T>>(instruction.operand[8 + i])[lane];
      const unsigned k = 2 * place + i * 8;
      b[k][group] = kValues[pair.low.bits];
      b[k + 1][group] = kValues[pair.high.bits];
    }
    for (unsigned i = 0; i < 4; ++i) {
      sums[group + i / 2 * 8][2 * place + i % 2] = warp.slot<float>(instruction.operand[10 + i])[lane];
    }
  }
  for (unsigned row = 0; row < kRows; ++row) {
    for (unsigned k = 0; k < kDepth; ++k) {
      for (unsigned column = 0; column < kColumns; ++column) {
        sums[row][column] += a[row][k] * b[k][column];
      }
    }
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    for (unsigned i = 0; i < 4; ++i) {
      warp.slot<float>(instruction.operand[i])[lane] = sums[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
    }
  }
}

// mma.sync... {d}, {a}, {b}, {c}
void decodeMultiply(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  static const std::pair<std::string_view, Handler> kForms[] = {{"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", &multiply<BFloat>},
                                                                {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", &multiply<Half>}};
  const std::string form = spelled(statement);
  Handler handler = nullptr;
  for (const auto &[name, known] : kForms) {
    handler = name == form ? known : handler;
  }
  if (!handler) {
    decoder.fail("'" + form + "' is not known");
  }
  while (!qualifiers.all().empty()) {
    qualifiers.takeFirst();
  }
  decoder.expectOperands(statement, 4, 4);
  Operands places{};
  auto place = places.begin();
  for (const Operand &d : listOf(decoder, statement, 0, 4)) {
    *place++ = decoder.destination(d, Type::F32);
  }
  for (const Operand &a : listOf(decoder, statement, 1, 4)) {
    *place++ = decoder.source(a, Type::B32);
  }
  for (const Operand &b : listOf(decoder, statement, 2, 2)) {
    *place++ = decoder.source(b, Type::B32);
  }
  for (const Operand &c : listOf(decoder, statement, 3, 4)) {
    *place++ = decoder.source(c, Type::F32);
  }
  Instruction &product = decoder.emit(handler, {});
  product.operand = places;
  product.flow = Flow::WholeWarp;
}

// Lanes 8 i to 8 i + 7 have the addresses of the rows of matrix i, which goes to register i. operand 0: a generic address; immediate: its
// offset; operands 1..: registers.
//
// The ISA leaves open which lane reads an element. Here both do, the one that has the address of its row and the one that gets it: a
// barrier must be between either and a lane that writes there.
template <unsigned kCount, bool kTransposed> void loadMatrices(Warp &warp, const Instruction &instruction, uint32_t) {
  uint64_t rows[8 * kCount];
  for (unsigned lane = 0; lane < 8 * kCount; ++lane) {
    rows[lane] = warp.slot<uint64_t>(instruction.operand[0])[lane] + uint64_t(instruction.immediate);
    if (spaceOf(rows[lane]) != Space::Shared) {
      warp.fault(Fault::IllegalAddress, lane, instruction, "the address is not in shared memory");
    }
    warp.sharedRead(rows[lane], 16, lane, instruction);
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    for (unsigned i = 0; i < kCount; ++i) {
      uint16_t pair[2];
      for (unsigned j = 0; j < 2; ++j) {
        const unsigned outer = lane / 4, inner = lane % 4 * 2 + j;
        const unsigned row = kTransposed ? inner : outer, column = kTransposed ? outer : inner;
        std::memcpy(&pair[j], warp.sharedRead(rows[8 * i + row] + 2 * column, 2, lane, instruction), 2);
      }
      std::memcpy(warp.slot<uint32_t>(instruction.operand[1 + i]) + lane, pair, 4);
    }
  }
}

// ldmatrix.sync.aligned.m8n8.num{.trans}{.space}.b16 {registers}, [address]
void decodeLoadMatrices(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  static const std::vector<std::string> kAlways = {"sync", "aligned", "m8n8", "b16"};
  const Space space = takeSpace(qualifiers);
  const bool transposed = qualifiers.take("trans");
  const size_t count = qualifiers.take("x1") ? 1 : qualifiers.take("x2") ? 2 : qualifiers.take("x4") ? 4 : 0;
  if (count == 0 || qualifiers.all() != kAlways || (space != Space::Shared && space != Space::Generic)) {
    decoder.fail("'" + spelled(statement) + "' is not known");
  }
  while (!qualifiers.all().empty()) {
    qualifiers.takeFirst();
  }
  decoder.expectOperands(statement, 2, 2);
  const Handler handler = count == 1   ? (transposed ? &loadMatrices<1, true> : &loadMatrices<1, false>)
                          : count == 2 ? (transposed ? &loadMatrices<2, true> : &loadMatrices<2, false>)
                                       : (transposed ? &loadMatrices<4, true> : &loadMatrices<4, false>);
  Operands places{addressPlace(decoder, statement.operands[1], space)};
  auto place = places.begin() + 1;
  for (const Operand &out : listOf(decoder, statement, 0, count)) {
    *place++ = decoder.destination(out, Type::B32);
  }
  const uint64_t window = space == Space::Shared ? kSharedWindow : 0;
  Instruction &load = decoder.emit(handler, {}, int64_t(statement.operands[1].bits + window));
  load.operand = places;
  load.flow = Flow::WholeWarp;
}

} // namespace

void addMatrices(Families &families) {
  families.insert({{"ldmatrix", &decodeLoadMatrices}, {"mma", &decodeMultiply}});
}

} // namespace ashlar::emulator
