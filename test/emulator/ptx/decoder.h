// SPDX-License-Identifier: Apache-2.0
//
// Turns the statements of a kernel into instructions. A family of opcodes (integers, floats, conversions, memory, control) is a few
// functions that look at one statement, ask the decoder for the places of its operands and emit one or more instructions; a table names
// them.

#ifndef ASHLAR_TEST_EMULATOR_PTX_DECODER_H
#define ASHLAR_TEST_EMULATOR_PTX_DECODER_H

#include "test/emulator/ptx/kernel.h"
#include "test/emulator/ptx/lexer.h"

#include <map>

namespace ashlar::emulator {

// The qualifiers of an opcode, taken one by one; one that nobody took is an error.
class Qualifiers {
public:
  Qualifiers(const Statement &statement) : statement(statement), rest(statement.opcode.begin() + 1, statement.opcode.end()) {}

  // Removes a qualifier; returns whether it was there.
  bool take(std::string_view name);
  // Removes the first type. Throws when there is none.
  Type takeType();
  // Removes all of the names given.
  void ignore(std::initializer_list<std::string_view> names);
  // Removes the first qualifier.
  std::string takeFirst();
  // Throws when some are left.
  void expectNone() const;
  const std::vector<std::string> &all() const { return rest; }

private:
  const Statement &statement;
  std::vector<std::string> rest;
};

class Decoder;
using Family = void (*)(Decoder &decoder, Qualifiers &qualifiers, const Statement &statement);
using Families = std::unordered_map<std::string_view, Family>;

// Each adds the opcodes of its family.
void addAtomics(Families &families);
void addBitFields(Families &families);
void addCarries(Families &families);
void addControl(Families &families);
void addConversions(Families &families);
void addFloats(Families &families);
void addIntegers(Families &families);
void addLogic(Families &families);
void addMatrices(Families &families);
void addMemory(Families &families);
void addMoves(Families &families);

class Decoder {
public:
  // `symbols`: addresses of the module's variables.
  Decoder(const Syntax &syntax, const std::unordered_map<std::string, uint64_t> &symbols) : syntax(syntax), symbols(symbols) {}

  // Decodes an entry. Throws PtxError.
  std::unique_ptr<Kernel> decode(const Function &entry);

  // Returns the place of a register that is written with, or an operand that is read as, a value of the type. '_' is written to nowhere.
  uint32_t destination(const Operand &operand, Type type);
  uint32_t source(const Operand &operand, Type type);
  // The same for registers that may be wider than the type, as of loads, stores and conversions. A wider destination is written by
  // `widen`, which the caller calls behind its own instruction.
  uint32_t narrowSource(const Operand &operand, Type type);
  uint32_t narrowDestination(const Operand &operand, Type type);
  void widen(const Operand &operand, Type type, uint32_t place);

  uint32_t constant(uint64_t bits, unsigned width);
  uint32_t temporary(unsigned width);
  // Returns the place of the carry flag, a byte.
  uint32_t carry();
  // Returns the declared type of a register, or nothing when the name is not one.
  std::optional<Type> registerType(const std::string &name) const;
  // Returns the address of a variable in its space, and the space.
  std::optional<std::pair<uint64_t, Space>> symbol(const std::string &name) const;

  // Returns the place that holds part of a parameter of the kernel or of a call: `width` bytes at `offset` of variable `name`.
  uint32_t parameter(const std::string &name, uint64_t offset, unsigned width);

  Instruction &emit(Handler handler, std::initializer_list<uint32_t> operands, int64_t immediate = 0);
  // Emits a jump to a label of the function, or to its end.
  void emitBranch(const std::string &label);
  void emitReturn();
  void inlineCall(const std::string &name, const std::vector<Operand> &results, const std::vector<Operand> &arguments);
  [[noreturn]] void fail(const std::string &message) const { throw PtxError(line, message); }
  // Throws unless the statement has that many operands.
  void expectOperands(const Statement &statement, size_t least, size_t most);

private:
  // One copy of a function's body.
  struct Body {
    const Function *function;
    std::unordered_map<std::string, uint32_t> places; // of registers
    std::unordered_map<std::string, uint32_t> labels;
    std::vector<std::pair<size_t, std::string>> branches; // instruction, label; the label "" is the end
    std::unordered_map<std::string, std::pair<uint64_t, Space>> variables;
    std::unordered_map<std::string, std::string> parameters; // of a call: the caller's names of the parameters
    int number;                                              // of the copy
  };

  void decodeBody(Body &body);
  void decodeStatement(const Statement &statement);
  void layOutParameters(const Function &entry);
  void layOut(const Variable &variable);
  void layOutShared(const Function &entry);
  std::string parameterKey(const std::string &name) const;
  uint32_t registerPlace(const std::string &name);

  const Syntax &syntax;
  const std::unordered_map<std::string, uint64_t> &symbols;
  std::unique_ptr<Kernel> kernel;
  Body *body = nullptr;
  const Statement *current = nullptr;
  std::map<std::pair<uint64_t, unsigned>, uint32_t> constants;
  std::map<std::tuple<std::string, uint64_t, unsigned>, uint32_t> parameterPlaces;
  std::unordered_map<std::string, uint64_t> kernelParameters; // offset of each
  uint32_t carryPlace = kNowhere;
  int line = 0;
  int depth = 0;
  int copies = 0;
};

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_DECODER_H
