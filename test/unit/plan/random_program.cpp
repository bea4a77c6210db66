// SPDX-License-Identifier: Apache-2.0
//
// Writes programs line by line; reads them as plainly as possible.

#include "test/unit/plan/random_program.h"

#include "dialects/dist/dist.h"
#include "dialects/nn/nn.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/TypeSwitch.h"

#include <set>

using namespace mlir;

namespace ashlar::test {
namespace {

constexpr int kVariables = 4;

class ProgramWriter {
public:
  explicit ProgramWriter(std::mt19937_64 &random) : random(random) {}

  std::string write(int ops) {
    text = "dist.mesh @mesh <[\"dp\" = 2]>\n";
    for (int v = 0; v < kVariables; ++v) {
      text += "nn.variable @v" + std::to_string(v) + " : tensor<8x8xf32>\n";
    }
    text += "func.func @train_step(%in: tensor<8x8xf32> {nn.name = \"in\"}) -> (tensor<8x8xf32> {nn.name = \"out0\"}, tensor<8x8xf32> "
            "{nn.name = "
            "\"out1\"}) attributes {nn.program = #nn.program<train_step>} {\n";
    values = {"%in"};
    for (int i = 0; i < ops; ++i) {
      writeOp();
    }
    text += "  return " + pick() + ", " + pick() + " : tensor<8x8xf32>, tensor<8x8xf32>\n}\n";
    return text;
  }

private:
  std::string pick() {
    // Recent values more often, so that most die early.
    size_t back = random() % 3 == 0 ? random() % values.size() : random() % std::min<size_t>(values.size(), 4);
    return values[values.size() - 1 - back];
  }
  std::string fresh() { return "%x" + std::to_string(count++); }

  void writeOp() {
    switch (random() % 11) {
    case 0:
      return writeRead();
    case 1:
      return writeWrite();
    case 2:
      return writeAllReduce(1 + random() % 4);
    case 3: {
      std::string flat = fresh();
      text += "  " + flat + " = nn.reshape " + pick() + " : tensor<8x8xf32> -> tensor<64xf32>\n";
      return writeSimple("nn.reshape " + flat + " : tensor<64xf32> -> tensor<8x8xf32>");
    }
    case 4:
      return writeSimple("nn.constant dense<" + std::to_string(random() % 3) + ".5> : tensor<8x8xf32>");
    case 5:
      return writeFusion("gemm", {pick(), pick()}, 1,
                         "    %r0 = nn.matmul %a0, %a1 : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>\n");
    case 6:
      return writeFusion("loop", {pick(), pick()}, 2,
                         "    %r0 = nn.add %a0, %a1 : tensor<8x8xf32>\n    %r1 = nn.mul %a0, %r0 : tensor<8x8xf32>\n");
    case 8:
      return writeInsert();
    case 7:
      return writeFusion("loop", {pick()}, 1, "    %r0 = nn.relu %a0 : tensor<8x8xf32>\n");
    default:
      return writeFusion("loop", {pick(), pick()}, 1, "    %r0 = nn.sub %a0, %a1 : tensor<8x8xf32>\n");
    }
  }

  // All rows of a value into another one, or into itself.
  void writeInsert() {
    std::string rows = pick(), base = pick(), index = fresh(), name = fresh();
    const std::string types = "tensor<8x8xf32>, tensor<8x8xf32>, tensor<i64>";
    text += "  " + index + " = nn.constant dense<" + std::to_string(random() % 8) + "> : tensor<i64>\n  " + name +
            " = exec.fusion insert(" + rows + ", " + base + ", " + index + ") : (" + types +
            ") -> tensor<8x8xf32> {\n  ^bb0(%a0: tensor<8x8xf32>, %a1: tensor<8x8xf32>, %a2: tensor<i64>):\n"
            "    %r = nn.insert %a0 into %a1 at %a2 dim = 0 : " +
            types + " -> tensor<8x8xf32>\n    exec.yield %r : tensor<8x8xf32>\n  }\n";
    values.push_back(name);
  }

  void writeRead() {
    int variable = random() % kVariables;
    if (written.count(variable) == 0) {
      writeSimple("nn.read @v" + std::to_string(variable) + " : tensor<8x8xf32>");
    }
  }

  void writeWrite() {
    int variable = random() % kVariables;
    if (written.insert(variable).second) {
      text += "  nn.write @v" + std::to_string(variable) + ", " + pick() + " : tensor<8x8xf32>\n";
    }
  }

  void writeSimple(const std::string &op) {
    std::string name = fresh();
    text += "  " + name + " = " + op + "\n";
    values.push_back(name);
  }

  // Several may be of one tensor.
  void writeAllReduce(int operands) {
    std::string names, types, name = fresh();
    for (int i = 0; i < operands; ++i) {
      names += (i ? ", " : "") + pick();
      types += std::string(i ? ", " : "") + "tensor<8x8xf32>";
    }
    text += "  " + name + ":" + std::to_string(operands) + " = dist.all_reduce sum " + names + " over [\"dp\"] : " + types + "\n";
    for (int i = 0; i < operands; ++i) {
      values.push_back(name + "#" + std::to_string(i));
    }
  }

  void writeFusion(const std::string &kind, const std::vector<std::string> &operands, int results, const std::string &body) {
    auto list = [](int n, const std::string &item, bool numbered) {
      std::string joined;
      for (int i = 0; i < n; ++i) {
        joined += (i ? ", " : "") + item + (numbered ? std::to_string(i) : "");
      }
      return joined;
    };
    int n = operands.size();
    std::string name = fresh(), types = "(" + list(n, "tensor<8x8xf32>", false) + ") -> (" + list(results, "tensor<8x8xf32>", false) + ")";
    std::string names = operands[0] + (n > 1 ? ", " + operands[1] : "");
    text += "  " + name + ":" + std::to_string(results) + " = exec.fusion " + kind + "(" + names + ") : " + types +
            " {\n  ^bb0(%a0: tensor<8x8xf32>" + (n > 1 ? ", %a1: tensor<8x8xf32>" : "") + "):\n" + body + "    exec.yield " +
            list(results, "%r", true) + " : " + list(results, "tensor<8x8xf32>", false) + "\n  }\n";
    for (int i = 0; i < results; ++i) {
      values.push_back(name + "#" + std::to_string(i));
    }
  }

  std::mt19937_64 &random;
  std::string text;
  std::vector<std::string> values;
  std::set<int> written;
  int count = 0;
};

} // namespace

std::string randomProgram(std::mt19937_64 &random, int ops) {
  return ProgramWriter(random).write(ops);
}

uint64_t initialSymbol(llvm::StringRef name) {
  return llvm::hash_combine("initially", name);
}

uint64_t applySymbol(Operation *op, llvm::ArrayRef<uint64_t> operands, unsigned result) {
  if (isa<dist::AllReduceOp>(op)) { // each tensor for itself
    return llvm::hash_combine("sum", operands[result]);
  }
  return llvm::hash_combine(op, llvm::hash_combine_range(operands), result);
}

Effects effectsOnTensors(func::FuncOp function) {
  Effects effects;
  llvm::DenseMap<Value, uint64_t> symbols;
  symbols[function.getArgument(0)] = initialSymbol("in");
  for (Operation &op : function.getBody().front()) {
    llvm::TypeSwitch<Operation *>(&op)
        .Case([&](nn::ReadOp read) { symbols[read.getResult()] = initialSymbol(read.getVariable()); })
        .Case([&](nn::WriteOp write) { effects[write.getVariable().str()] = symbols.lookup(write.getValue()); })
        .Case([&](nn::ReshapeOp reshape) { symbols[reshape.getResult()] = symbols.lookup(reshape.getInput()); })
        .Case([&](nn::ConstantOp constant) {
          symbols[constant.getResult()] = llvm::hash_combine(Attribute(constant.getValue()).getAsOpaquePointer());
        })
        .Case([&](func::ReturnOp op) {
          for (auto [i, value] : llvm::enumerate(op.getOperands())) {
            effects["out" + std::to_string(i)] = symbols.lookup(value);
          }
        })
        .Default([&](Operation *other) {
          llvm::SmallVector<uint64_t> operands;
          for (Value operand : other->getOperands()) {
            operands.push_back(symbols.lookup(operand));
          }
          for (OpResult result : other->getResults()) {
            symbols[result] = applySymbol(other, operands, result.getResultNumber());
          }
        });
  }
  return effects;
}

} // namespace ashlar::test
