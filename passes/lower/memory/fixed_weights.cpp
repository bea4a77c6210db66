// SPDX-License-Identifier: Apache-2.0
//
// Fixed is decided on the finished table, by bytes: what is cast or moved in each run lies in a temporary, and so is never fixed.

#include "passes/lower/memory/fixed_weights.h"

#include "dialects/nn/nn.h"
#include "dialects/nn/programs.h"
#include "dialects/support/element_type.h"

using namespace mlir;

namespace ashlar::lower {

FixedBytes::FixedBytes(exec::VariantOp variant) {
  for (auto tensor : variant.getBody().getOps<exec::TensorOp>()) {
    if (tensor.getRole() == exec::Role::Variable && !exec::getOwner(tensor) && tensor.getBuffer().getSpace() == exec::Space::Arena) {
      uint64_t begin = tensor.getBuffer().getOffset();
      variables[begin] = {begin + byteSize(tensor.getBuffer().getType()), /*isWritten=*/false};
    }
  }
  for (auto program : variant.getBody().getOps<exec::ProgramOp>()) {
    program.getBody().walk([&](exec::InstrOpInterface instr) {
      const SmallVector<int64_t> counts = exec::repeatsAround(instr);
      for (const exec::BufferUse &use : instr.getUses()) {
        if (!use.isWritten || use.buffer.getSpace() != exec::Space::Arena || nn::hasRole(program, nn::ProgramRole::Init)) {
          continue;
        }
        exec::BufferAttr swept = use.buffer.getSwept(counts);
        uint64_t begin = swept.getOffset(), end = begin + byteSize(swept.getType());
        auto it = variables.upper_bound(begin);
        for (it = it == variables.begin() ? it : std::prev(it); it != variables.end() && it->first < end; ++it) {
          it->second.isWritten |= begin < it->second.end;
        }
      }
    });
  }
}

bool FixedBytes::contains(exec::BufferAttr buffer) const {
  if (!buffer.getStrides().empty()) {
    return false;
  }
  auto found = variables.find(buffer.getOffset());
  bool isVariable = buffer.getSpace() == exec::Space::Arena && found != variables.end() &&
                    found->second.end == buffer.getOffset() + byteSize(buffer.getType());
  return buffer.getSpace() == exec::Space::Constant || (isVariable && !found->second.isWritten);
}

bool staysInRepeat(exec::RepeatOp repeat, exec::BufferAttr buffer) {
  const SmallVector<int64_t> around = exec::repeatsAround(repeat);
  const bool moves = buffer.getStrides().size() > around.size() && buffer.getStrides().back() != 0;
  bool isWritten = false;
  // Where it is in any iteration of the repeats around: what one of these writes elsewhere is rarely there.
  const exec::BufferAttr swept = buffer.getSwept(around);
  const uint64_t begin = swept.getOffset(), end = begin + byteSize(swept.getType());
  repeat.getBody().walk([&](exec::InstrOpInterface instr) {
    const SmallVector<int64_t> counts = exec::repeatsAround(instr);
    for (const exec::BufferUse &use : instr.getUses()) {
      exec::BufferAttr other = use.buffer.getSwept(counts);
      isWritten |= use.isWritten && other.getSpace() == buffer.getSpace() && other.getOffset() < end &&
                   begin < other.getOffset() + byteSize(other.getType());
    }
  });
  return buffer.getSpace() == exec::Space::Arena && !moves && !isWritten;
}

void markFixedWeights(exec::VariantOp variant) {
  FixedBytes fixed(variant);
  variant.getBody().walk([&](exec::FixedWeightsOpInterface call) {
    bool isInit = nn::hasRole(call->getParentOfType<exec::ProgramOp>(), nn::ProgramRole::Init);
    exec::BufferAttr weights = call.getWeights();
    auto repeat = dyn_cast<exec::RepeatOp>(call->getParentOp());
    if (!isInit && weights && fixed.contains(weights)) {
      call.setFixedWeights(true);
    } else if (!isInit && weights && repeat && repeat.getCount() > 1 && staysInRepeat(repeat, weights)) {
      call.setKeptWeights(true);
    }
  });
}

void unmarkFixedWeights(exec::VariantOp variant) {
  variant.getBody().walk([](exec::FixedWeightsOpInterface call) {
    call.setFixedWeights(false);
    call.setKeptWeights(false);
  });
}

} // namespace ashlar::lower
