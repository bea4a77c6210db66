// SPDX-License-Identifier: Apache-2.0
//
// A PTX module as it is written: functions, variables, statements. Names are unique in a function: names declared in an inner { } have the
// number of their scope appended.

#ifndef ASHLAR_TEST_EMULATOR_PTX_SYNTAX_H
#define ASHLAR_TEST_EMULATOR_PTX_SYNTAX_H

#include "test/emulator/ptx/type.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ashlar::emulator {

struct Operand {
  enum Kind {
    Name,    // register, special register, symbol or label; `second` is q of p|q
    Integer, // a literal, in `bits`
    Single,  // 0f..., the bits of an f32
    Double,  // 0d..., the bits of an f64
    Address, // [name+bits], [bits]
    List     // {a, b}, (a, b)
  };
  Kind kind;
  std::string name;
  std::string second;
  uint64_t bits = 0;
  bool negated = false; // !p
  std::vector<Operand> list;
};

struct Statement {
  int line;
  std::string label; // not empty: a label and nothing else
  std::string guard; // @p
  bool guardNegated = false;
  std::vector<std::string> opcode; // "ld", "global", "f32"
  std::vector<Operand> operands;
};

enum class Space : uint8_t { Generic, Global, Constant, Shared, Local, Parameter };

struct Variable {
  Space space;
  std::string name;
  Type type;
  uint64_t alignment;
  uint64_t bytes; // 0: an array without a size (dynamic shared memory)
  std::vector<uint8_t> initial;
  int line;
};

struct Function {
  std::string name;
  int line;
  bool entry = false;
  bool defined = false;
  std::vector<Variable> results;    // of a .func
  std::vector<Variable> parameters; // in order
  std::vector<Variable> variables;  // .shared, .local, .param of calls
  std::unordered_map<std::string, Type> registers;
  std::vector<Statement> body;
  uint32_t requiredThreads = 0; // .reqntid, 0: none
  uint32_t maxThreads = 0;      // .maxntid, 0: none
};

struct Syntax {
  int version = 0; // of PTX, 80 for 8.0
  int target = 0;  // 90 for sm_90
  std::vector<Variable> variables;
  std::vector<Function> functions;
};

// Parses a module. Throws PtxError.
Syntax parse(std::string_view text);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_SYNTAX_H
