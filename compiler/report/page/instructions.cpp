// SPDX-License-Identifier: Apache-2.0
//
// Tables -> instructions, and the ranges of bytes that they use.

#include "compiler/report/page/instructions.h"

#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"

using namespace mlir;

namespace ashlar::report {
namespace {

ByteRange rangeOf(exec::BufferAttr buffer) {
  return {buffer.getOffset(), buffer.getOffset() + static_cast<uint64_t>(byteSize(buffer.getType()))};
}

// The bytes of an arena that have a name.
ByteSet namedBytes(exec::VariantOp variant) {
  ByteSet named;
  for (auto tensor : variant.getOps<exec::TensorOp>()) {
    if (tensor.getBuffer().getSpace() == exec::Space::Arena) {
      named.add(rangeOf(tensor.getBuffer()));
    }
  }
  return named;
}

class RangeReader {
public:
  explicit RangeReader(exec::VariantOp variant) : named(namedBytes(variant)) {}

  InstructionRanges read(Operation &op) {
    InstructionRanges ranges;
    ByteSet written; // by now, of a repeat
    op.walk<WalkOrder::PreOrder>([&](Operation *inner) { addUses(*inner, written, ranges); });
    return ranges;
  }

private:
  static SmallVector<exec::BufferUse> usesOf(Operation &op) {
    if (auto repeat = dyn_cast<exec::RepeatOp>(op)) {
      return repeat.getUses();
    }
    auto instr = dyn_cast<exec::InstrOpInterface>(op);
    return instr ? instr.getUses() : SmallVector<exec::BufferUse>();
  }

  // Bytes that the body of a repeat reads before it writes them are read when it begins.
  void addUses(Operation &op, ByteSet &written, InstructionRanges &ranges) {
    const SmallVector<int64_t> counts = exec::repeatsAround(&op);
    const SmallVector<exec::BufferUse> uses = usesOf(op);
    auto visit = [&](bool wantsRead, bool wantsWritten, llvm::function_ref<void(ByteRange)> take) {
      for (const exec::BufferUse &use : uses) {
        const bool isArena = use.buffer.getSpace() == exec::Space::Arena;
        if (isArena && ((wantsRead && use.isRead) || (wantsWritten && use.isWritten))) {
          const ByteRange range = rangeOf(use.buffer.getSwept(counts));
          if (!named.holds(range)) {
            take(range);
          }
        }
      }
    };
    visit(/*wantsRead=*/true, /*wantsWritten=*/true, [&](ByteRange range) { ranges.touches.push_back(range); });
    visit(/*wantsRead=*/true, /*wantsWritten=*/false, [&](ByteRange range) {
      if (!written.holds(range)) {
        ranges.reads.push_back(range);
      }
    });
    visit(/*wantsRead=*/false, /*wantsWritten=*/true, [&](ByteRange range) {
      ranges.writes.push_back(range);
      written.add(range);
    });
  }

  ByteSet named;
};

} // namespace

ProgramInstructions readInstructions(exec::VariantOp variant, exec::ProgramOp program, ModuleTree &modules,
                                     llvm::function_ref<std::optional<size_t>(exec::CollectiveOp)> numberOf) {
  ProgramInstructions instructions;
  RangeReader reader(variant);
  std::vector<InstructionRanges> ranges;
  int64_t nowPs = 0;
  for (Operation &op : program.getBody().front()) {
    op.walk([&](exec::CollectiveOp inner) {
      if (inner != &op) { // of a repeat: numbered, too
        numberOf(inner);
      }
    });
    InstructionFact &fact = instructions.list.emplace_back();
    fact.module = modules.add(nn::getPath(op.getLoc()));
    fact.kind = isa<exec::GemmOp>(op) ? "product" : isa<exec::ConvOp>(op) ? "convolution" : op.getName().stripDialect().str();
    fact.span = exec::getSpan(&op).value_or(exec::Span{nowPs, nowPs});
    if (auto collective = dyn_cast<exec::CollectiveOp>(op)) {
      fact.isStarted = collective.getToken().has_value();
      fact.collective = numberOf(collective);
    }
    nowPs = fact.isStarted ? nowPs : std::max(nowPs, fact.span.endPs);
    ranges.push_back(reader.read(op));
  }
  instructions.live = findLiveBytes(ranges);
  return instructions;
}

} // namespace ashlar::report
