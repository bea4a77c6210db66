// SPDX-License-Identifier: Apache-2.0
//
// Branches, calls, barriers, and exchanges between the lanes of a warp.

#include "test/emulator/ptx/decoder.h"
#include "test/emulator/ptx/lanes.h"

#include <cstring>

namespace ashlar::emulator {
namespace {

void decodeBranch(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 1, 1);
  qualifiers.take("uni");
  decoder.emitBranch(statement.operands[0].name);
}

void decodeReturn(Decoder &decoder, Qualifiers &qualifiers, const Statement &) {
  qualifiers.take("uni");
  decoder.emitReturn();
}

void decodeExit(Decoder &decoder, Qualifiers &, const Statement &) {
  decoder.emit(nullptr, {}).flow = Flow::Exit;
}

void trap(Warp &warp, const Instruction &instruction, uint32_t mask) {
  warp.fault(Fault::LaunchFailure, unsigned(__builtin_ctz(mask)), instruction, "the kernel gave up");
}

void decodeTrap(Decoder &decoder, Qualifiers &, const Statement &) {
  decoder.emit(&trap, {});
}

// Memory is in order already; time does not matter.
void decodeNothing(Decoder &, Qualifiers &qualifiers, const Statement &) {
  while (!qualifiers.all().empty()) {
    qualifiers.takeFirst();
  }
}

// call{.uni} (results), name, (arguments)
void decodeCall(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 1, 3);
  qualifiers.take("uni");
  auto operand = statement.operands.begin();
  const std::vector<Operand> results = operand->kind == Operand::List ? (operand++)->list : std::vector<Operand>();
  if (operand == statement.operands.end() || operand->kind != Operand::Name || decoder.registerType(operand->name)) {
    decoder.fail("a call through a pointer is not known");
  }
  const std::string name = (operand++)->name;
  const bool more = operand != statement.operands.end();
  if (more && operand->kind != Operand::List) {
    decoder.fail("a call through a pointer is not known");
  }
  decoder.inlineCall(name, results, more ? operand->list : std::vector<Operand>());
}

void nothing(Warp &, const Instruction &, uint32_t) {}

// bar.sync n{, threads}; bar.warp.sync mask.
void decodeBarrier(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 1, 2);
  qualifiers.ignore({"cta", "aligned"});
  const bool warp = qualifiers.take("warp");
  if (!qualifiers.take("sync")) {
    decoder.fail("of barriers only .sync is known");
  }
  const Operand &first = statement.operands[0];
  if (warp) {
    decoder.emit(&nothing, {decoder.source(first, Type::B32)}).flow = Flow::Converge;
    return;
  }
  if (first.kind != Operand::Integer) {
    decoder.fail("the number of a barrier must be a literal");
  }
  const uint32_t threads = statement.operands.size() == 2 ? decoder.source(statement.operands[1], Type::U32) : kNowhere;
  decoder.emit(nullptr, {threads}, int64_t(first.bits)).flow = Flow::Barrier;
}

enum Shuffle : int64_t { Up, Down, Butterfly, Index };

// Returns the lane to read from; `inRange`: whether that is inside the lane's segment.
unsigned sourceLane(int64_t mode, unsigned lane, uint32_t b, uint32_t c, bool &inRange) {
  const unsigned segment = c >> 8 & 31, clamp = c & 31, distance = b & 31;
  const unsigned last = (lane & segment) | (clamp & ~segment), start = lane & segment;
  int source = 0;
  switch (mode) {
  case Up:
    source = int(lane) - int(distance);
    inRange = source >= int(last);
    break;
  case Down:
    source = int(lane + distance);
    inRange = source <= int(last);
    break;
  case Butterfly:
    source = int(lane ^ distance);
    inRange = source <= int(last);
    break;
  default:
    source = int(start | (distance & ~segment));
    inRange = source <= int(last);
  }
  return inRange ? unsigned(source) : lane;
}

// operands: mask, out, predicate, value, b, c; immediate: the mode.
void shuffle(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t values[kLanes];
  std::memcpy(values, warp.slot<uint32_t>(instruction.operand[3]), sizeof values);
  const uint32_t *b = warp.slot<uint32_t>(instruction.operand[4]), *c = warp.slot<uint32_t>(instruction.operand[5]);
  forEachLane(mask, [&](unsigned lane) {
    bool inRange = false;
    const unsigned source = sourceLane(instruction.immediate, lane, b[lane], c[lane], inRange);
    if ((mask >> source & 1) == 0) {
      warp.fault(Fault::LaunchFailure, lane, instruction, "reads from lane " + std::to_string(source) + ", which does not take part");
    }
    warp.slot<uint32_t>(instruction.operand[1])[lane] = values[source];
    warp.slot<uint8_t>(instruction.operand[2])[lane] = inRange;
  });
}

void decodeShuffle(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 5, 5);
  const Type type = qualifiers.takeType();
  if (!qualifiers.take("sync")) {
    decoder.fail("'shfl' needs .sync");
  }
  const int64_t mode = qualifiers.take("up") ? Up : qualifiers.take("down") ? Down : qualifiers.take("bfly") ? Butterfly : Index;
  qualifiers.take("idx");
  const auto &operands = statement.operands;
  const uint32_t predicate =
      operands[0].second.empty() ? decoder.temporary(1) : decoder.destination({Operand::Name, operands[0].second}, Type::Pred);
  Operand out{Operand::Name, operands[0].name};
  decoder
      .emit(&shuffle,
            {decoder.source(operands[4], Type::B32), decoder.destination(out, type), predicate, decoder.source(operands[1], type),
             decoder.source(operands[2], Type::B32), decoder.source(operands[3], Type::B32)},
            mode)
      .flow = Flow::Converge;
}

enum Vote : int64_t { All, Any, Uniform, Ballot, Negated = 8 };

// operands: mask, out, predicate; immediate: the mode.
void vote(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t set = 0;
  const uint8_t *predicate = warp.slot<uint8_t>(instruction.operand[2]);
  const bool negated = (instruction.immediate & Negated) != 0;
  forEachLane(mask, [&](unsigned lane) { set |= uint32_t((predicate[lane] != 0) != negated) << lane; });
  const int64_t mode = instruction.immediate & ~Negated;
  const bool answer = mode == All ? set == mask : mode == Any ? set != 0 : set == mask || set == 0;
  forEachLane(mask, [&](unsigned lane) {
    if (mode == Ballot) {
      warp.slot<uint32_t>(instruction.operand[1])[lane] = set;
    } else {
      warp.slot<uint8_t>(instruction.operand[1])[lane] = answer;
    }
  });
}

void decodeVote(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 3, 3);
  if (!qualifiers.take("sync")) {
    decoder.fail("'vote' needs .sync");
  }
  const int64_t mode = qualifiers.take("all") ? All : qualifiers.take("any") ? Any : qualifiers.take("uni") ? Uniform : Ballot;
  qualifiers.take("ballot");
  const Type type = qualifiers.takeType();
  const auto &operands = statement.operands;
  decoder
      .emit(&vote,
            {decoder.source(operands[2], Type::B32), decoder.destination(operands[0], type), decoder.source(operands[1], Type::Pred)},
            mode | (operands[1].negated ? Negated : 0))
      .flow = Flow::Converge;
}

enum Reduction : int64_t { ReduceAdd, ReduceMin, ReduceMax, ReduceAnd, ReduceOr, ReduceXor };

template <class T> T combine(int64_t op, T a, T b) {
  switch (op) {
  case ReduceAdd:
    return T(uint32_t(a) + uint32_t(b));
  case ReduceMin:
    return std::min(a, b);
  case ReduceMax:
    return std::max(a, b);
  case ReduceAnd:
    return a & b;
  case ReduceOr:
    return a | b;
  default:
    return a ^ b;
  }
}

// operands: mask, out, value; immediate: the operation.
template <class T> void reduce(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const T *values = warp.slot<T>(instruction.operand[2]);
  T result = values[__builtin_ctz(mask)];
  forEachLane(mask & (mask - 1), [&](unsigned lane) { result = combine(instruction.immediate, result, values[lane]); });
  forEachLane(mask, [&](unsigned lane) { warp.slot<T>(instruction.operand[1])[lane] = result; });
}

void decodeReduce(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  static const std::pair<std::string_view, int64_t> kOps[] = {{"add", ReduceAdd}, {"min", ReduceMin}, {"max", ReduceMax},
                                                              {"and", ReduceAnd}, {"or", ReduceOr},   {"xor", ReduceXor}};
  decoder.expectOperands(statement, 3, 3);
  qualifiers.take("sync");
  const Type type = qualifiers.takeType();
  int64_t op = -1;
  for (const auto &[name, number] : kOps) {
    op = qualifiers.take(name) ? number : op;
  }
  if (op < 0 || isFloat(type) || widthOf(type) != 4) {
    decoder.fail("this 'redux' is not known");
  }
  const auto &operands = statement.operands;
  decoder
      .emit(type == Type::S32 ? &reduce<int32_t> : &reduce<uint32_t>,
            {decoder.source(operands[2], Type::B32), decoder.destination(operands[0], type), decoder.source(operands[1], type)}, op)
      .flow = Flow::Converge;
}

void activeMask(Warp &warp, const Instruction &instruction, uint32_t mask) {
  forEachLane(mask, [&](unsigned lane) { warp.slot<uint32_t>(instruction.operand[0])[lane] = mask; });
}

void decodeActiveMask(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement) {
  decoder.expectOperands(statement, 1, 1);
  decoder.emit(&activeMask, {decoder.destination(statement.operands[0], qualifiers.takeType())});
}

} // namespace

void addControl(Families &families) {
  families.insert({{"activemask", &decodeActiveMask},
                   {"bar", &decodeBarrier},
                   {"barrier", &decodeBarrier},
                   {"bra", &decodeBranch},
                   {"call", &decodeCall},
                   {"exit", &decodeExit},
                   {"fence", &decodeNothing},
                   {"membar", &decodeNothing},
                   {"nanosleep", &decodeNothing},
                   {"redux", &decodeReduce},
                   {"ret", &decodeReturn},
                   {"shfl", &decodeShuffle},
                   {"trap", &decodeTrap},
                   {"vote", &decodeVote}});
}

} // namespace ashlar::emulator
