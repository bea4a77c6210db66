// SPDX-License-Identifier: Apache-2.0
//
// A planned program leaves behind what the program on tensors does. Both are executed in symbols: the planned one on a memory in which
// every write destroys what it overlaps, so a wrong in-place decision, a wrong order of copies or an overlap shows.

#include "dialects/exec/exec.h"
#include "passes/lower/calls/library_insert.h"
#include "passes/lower/memory/program.h"
#include "passes/lower/passes.h"
#include "test/unit/plan/random_program.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/Pass/PassManager.h"
#include <catch2/catch.hpp>

namespace ashlar::test::program_test {

using namespace mlir;

namespace {

// Symbols by place. Reading what was not written there as a whole gives 0.
class SymbolMemory {
public:
  void write(uint64_t offset, uint64_t bytes, uint64_t symbol) {
    for (auto it = cells.begin(); it != cells.end();) {
      bool overlaps = it->first < offset + bytes && offset < it->first + it->second.first;
      it = overlaps ? cells.erase(it) : std::next(it);
    }
    cells[offset] = {bytes, symbol};
  }
  uint64_t read(uint64_t offset, uint64_t bytes) const {
    auto it = cells.find(offset);
    return it != cells.end() && it->second.first == bytes ? it->second.second : 0;
  }

private:
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> cells; // offset -> bytes, symbol
};

constexpr uint64_t kBytes = 8 * 8 * sizeof(float); // of every tensor in the test

// Executes the instructions in symbols and returns what is in the variables and outputs then.
test::Effects effectsOnBuffers(const lower::Program &program, const lower::TensorTable &tensors, func::FuncOp function) {
  SymbolMemory arena;
  llvm::DenseMap<uint64_t, uint64_t> constants; // by offset
  lower::ConstantPool pool;                     // hands out offsets as the planner's did
  for (auto constant : function.getOps<nn::ConstantOp>()) {
    constants[pool.offsetOf(constant.getValue())] = llvm::hash_combine(Attribute(constant.getValue()).getAsOpaquePointer());
  }
  for (const lower::NamedTensor &tensor : tensors.tensors()) {
    if (tensor.role != exec::Role::Output) {
      arena.write(tensor.offset, kBytes, test::initialSymbol(tensor.name));
    }
  }
  for (const lower::Instruction &instruction : program.instructions) {
    llvm::SmallVector<uint64_t> operands;
    for (unsigned index : instruction.operands) {
      const lower::Storage &storage = program.storages[index];
      operands.push_back(storage.space == exec::Space::Constant ? constants.lookup(storage.offset) : arena.read(storage.offset, kBytes));
    }
    auto fusion = dyn_cast_or_null<exec::FusionOp>(instruction.op);
    if (std::optional<unsigned> base = fusion ? lower::findInsertBase(fusion) : std::nullopt) { // the result holds it
      operands[*base] = arena.read(program.storages[instruction.results[0]].offset, kBytes);
    }
    for (auto [i, index] : llvm::enumerate(instruction.results)) {
      if (isa_and_nonnull<dist::AllReduceOp>(instruction.op)) { // its tensors come one after the other: what one wrote, the next would read
        const lower::Storage &operand = program.storages[instruction.operands[i]];
        operands[i] = operand.space == exec::Space::Constant ? operands[i] : arena.read(operand.offset, kBytes);
      }
      uint64_t symbol = instruction.op ? test::applySymbol(instruction.op, operands, i) : operands[0];
      arena.write(program.storages[index].offset, kBytes, symbol);
    }
  }
  test::Effects effects;
  for (const lower::NamedTensor &tensor : tensors.tensors()) {
    uint64_t symbol = arena.read(tensor.offset, kBytes);
    if (tensor.role != exec::Role::Input && symbol != test::initialSymbol(tensor.name)) {
      effects[tensor.name] = symbol;
    }
  }
  return effects;
}

} // namespace

TEST_CASE("program: planned programs do what the programs on tensors do", "[plan][program]") {
  uint64_t seed = test::testSeed();
  INFO("ASHLAR_SEED=" << seed);
  std::mt19937_64 random(seed);
  test::context().loadDialect<exec::ExecDialect>();
  size_t inPlace = 0, copies = 0, sideBySide = 0;
  for (int round = 0; round < 400; ++round) {
    std::string text = test::randomProgram(random, 3 + round % 40);
    INFO(text);
    OwningOpRef<ModuleOp> module = test::parse(text);
    auto function = module->lookupSymbol<func::FuncOp>("train_step");
    lower::TensorTable tensors(dist::findMesh(*module));
    lower::ConstantPool constants;
    REQUIRE(succeeded(tensors.addVariables(*module)));
    REQUIRE(succeeded(tensors.addSignature(function)));
    FailureOr<lower::Program> program =
        lower::buildProgram(function, tensors, constants, dist::findMesh(*module).getMesh(), exec::Target::Cpu);
    REQUIRE(succeeded(program));
    auto [lifetimes, storages] = program->temporaries();
    std::vector<lower::BufferRun> runs = program->temporaryRuns();
    lower::ArenaPlan plan = lower::packArena(lifetimes, runs, /*slack=*/random() % 2000);
    for (const lower::BufferRun &run : runs) {
      sideBySide += plan.offsets[run[1]] == plan.offsets[run[0]] + kBytes;
    }
    for (auto [storage, offset] : llvm::zip_equal(storages, plan.offsets)) {
      program->storages[storage].offset = tensors.bytes() + offset;
    }
    test::Effects expected = test::effectsOnTensors(function);
    for (auto it = expected.begin(); it != expected.end();) { // a variable that gets its own old value
      it = it->second == test::initialSymbol(it->first) ? expected.erase(it) : std::next(it);
    }
    REQUIRE(effectsOnBuffers(*program, tensors, function) == expected);
    for (const lower::Instruction &instruction : program->instructions) {
      inPlace += llvm::any_of(instruction.alias, [](int64_t operand) { return operand >= 0; });
      copies += instruction.op == nullptr;
    }
    // The independent check of the tables agrees.
    PassManager passes(module->getContext());
    passes.addPass(lower::createPlanMemoryPass());
    passes.addPass(lower::createVerifyExecPass());
    REQUIRE(succeeded(passes.run(*module)));
  }
  REQUIRE(inPlace > 400); // or the test shows nothing
  REQUIRE(copies > 100);
  REQUIRE(sideBySide > 100);
}

} // namespace ashlar::test::program_test
