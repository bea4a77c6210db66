// SPDX-License-Identifier: Apache-2.0
//
// The frame of a kernel, its operands, and calls.

#include "test/emulator/ptx/decoder.h"

#include "test/emulator/ptx/moves.h"

#include <algorithm>

namespace ashlar::emulator {
namespace {

constexpr int kMaxDepth = 32; // of calls

const Families &families() {
  static const Families kFamilies = [] {
    Families result;
    addAtomics(result);
    addBitFields(result);
    addCarries(result);
    addControl(result);
    addConversions(result);
    addFloats(result);
    addIntegers(result);
    addLogic(result);
    addMatrices(result);
    addMemory(result);
    addMoves(result);
    return result;
  }();
  return kFamilies;
}

uint64_t alignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

bool mentions(const Operand &operand, const std::string &name) {
  return operand.name == name ||
         std::any_of(operand.list.begin(), operand.list.end(), [&](const Operand &part) { return mentions(part, name); });
}

bool mentions(const Function &function, const std::string &name) {
  return std::any_of(function.body.begin(), function.body.end(), [&](const Statement &statement) {
    return std::any_of(statement.operands.begin(), statement.operands.end(),
                       [&](const Operand &operand) { return mentions(operand, name); });
  });
}

} // namespace

std::unique_ptr<Kernel> Decoder::decode(const Function &entry) {
  kernel = std::make_unique<Kernel>();
  kernel->name = entry.name;
  kernel->requiredThreads = entry.requiredThreads;
  kernel->maxThreads = entry.maxThreads;
  kernel->frameBytes = offsetOf(kSpecialRegisters);
  line = entry.line;
  layOutParameters(entry);
  Body top;
  top.function = &entry;
  top.number = copies++;
  body = &top;
  layOutShared(entry);
  decodeBody(top);
  current = nullptr;
  emit(nullptr, {}).flow = Flow::Exit;
  return std::move(kernel);
}

void Decoder::layOutParameters(const Function &entry) {
  for (const Variable &parameter : entry.parameters) {
    kernel->parameterBytes = alignUp(kernel->parameterBytes, parameter.alignment);
    kernelParameters[parameter.name] = kernel->parameterBytes;
    kernel->parameterOffsets.push_back(kernel->parameterBytes);
    kernel->parameterSizes.push_back(parameter.bytes);
    kernel->parameterBytes += parameter.bytes;
  }
}

void Decoder::layOut(const Variable &variable) {
  if (variable.space == Space::Parameter) {
    return; // its parts become registers when they are used
  }
  if (variable.space != Space::Shared && variable.space != Space::Local) {
    fail("a variable of this state space inside a function is not known");
  }
  uint64_t &bytes = variable.space == Space::Shared ? kernel->sharedBytes : kernel->localBytes;
  bytes = alignUp(bytes, variable.alignment);
  body->variables[variable.name] = {bytes, variable.space};
  kernel->dynamicShared |= variable.bytes == 0;
  bytes += variable.bytes;
}

// Shared variables of the module that the entry, or a function it may call, mentions. Those without a size lie behind all others.
void Decoder::layOutShared(const Function &entry) {
  std::vector<const Variable *> unsized;
  for (const Variable &variable : syntax.variables) {
    const bool used =
        variable.space == Space::Shared && std::any_of(syntax.functions.begin(), syntax.functions.end(), [&](const Function &function) {
          return (&function == &entry || !function.entry) && mentions(function, variable.name);
        });
    if (used && variable.bytes == 0) {
      unsized.push_back(&variable);
    } else if (used) {
      layOut(variable);
    }
  }
  if (!unsized.empty()) {
    for (const Variable &variable : entry.variables) {
      if (variable.space == Space::Shared) {
        layOut(variable);
      }
    }
    std::for_each(unsized.begin(), unsized.end(), [&](const Variable *variable) { layOut(*variable); });
  }
}

void Decoder::decodeBody(Body &own) {
  body = &own;
  for (const Variable &variable : own.function->variables) {
    if (own.variables.count(variable.name) == 0) {
      layOut(variable);
    }
  }
  for (const Statement &statement : own.function->body) {
    line = statement.line;
    if (!statement.label.empty()) {
      own.labels[statement.label] = uint32_t(kernel->code.size());
    } else {
      current = &statement;
      decodeStatement(statement);
    }
  }
  own.labels[""] = uint32_t(kernel->code.size());
  for (const auto &[index, label] : own.branches) {
    const auto found = own.labels.find(label);
    if (found == own.labels.end()) {
      throw PtxError(kernel->code[index].line, "label '" + label + "' is not defined");
    }
    kernel->code[index].target = found->second;
  }
}

void Decoder::decodeStatement(const Statement &statement) {
  const auto family = families().find(statement.opcode[0]);
  if (family == families().end()) {
    fail("instruction '" + statement.opcode[0] + "' is not known");
  }
  Qualifiers qualifiers(statement);
  family->second(*this, qualifiers, statement);
  qualifiers.expectNone();
}

std::string Decoder::parameterKey(const std::string &name) const {
  const auto mapped = body->parameters.find(name);
  return mapped != body->parameters.end() ? mapped->second : std::to_string(body->number) + " " + name;
}

uint32_t Decoder::parameter(const std::string &name, uint64_t offset, unsigned width) {
  const auto [entry, fresh] = parameterPlaces.try_emplace({parameterKey(name), offset, width}, 0);
  if (!fresh) {
    return entry->second;
  }
  entry->second = temporary(width);
  if (const auto found = kernelParameters.find(name); body->number == 0 && found != kernelParameters.end()) {
    if (found->second + offset + width > kernel->parameterBytes) {
      fail("reads beyond parameter '" + name + "'");
    }
    kernel->parameterPresets.push_back({entry->second, width, found->second + offset});
  }
  return entry->second;
}

Instruction &Decoder::emit(Handler handler, std::initializer_list<uint32_t> operands, int64_t immediate) {
  Instruction instruction;
  instruction.handler = handler;
  instruction.line = line;
  instruction.immediate = immediate;
  std::copy(operands.begin(), operands.end(), instruction.operand.begin());
  if (current && !current->guard.empty()) {
    Operand guard{Operand::Name, current->guard};
    instruction.guard = source(guard, Type::Pred);
    instruction.guardNegated = current->guardNegated;
  }
  kernel->code.push_back(instruction);
  return kernel->code.back();
}

void Decoder::emitBranch(const std::string &label) {
  body->branches.emplace_back(kernel->code.size(), label);
  emit(nullptr, {}).flow = Flow::Branch;
}

void Decoder::emitReturn() {
  if (depth == 0) {
    emit(nullptr, {}).flow = Flow::Exit;
  } else {
    emitBranch("");
  }
}

void Decoder::inlineCall(const std::string &name, const std::vector<Operand> &results, const std::vector<Operand> &arguments) {
  const auto callee = std::find_if(syntax.functions.begin(), syntax.functions.end(),
                                   [&](const Function &function) { return function.name == name && function.defined; });
  if (callee == syntax.functions.end()) {
    fail("function '" + name + "' is not defined");
  }
  if (results.size() != callee->results.size() || arguments.size() != callee->parameters.size() || depth == kMaxDepth) {
    fail(depth == kMaxDepth ? "calls of '" + name + "' nest too deep" : "the call of '" + name + "' does not fit its declaration");
  }
  if (!current->guard.empty()) {
    fail("a call under a condition is not known");
  }
  Body *caller = body;
  const Statement *call = current;
  Body own;
  own.function = &*callee;
  own.number = copies++;
  for (size_t i = 0; i < results.size(); ++i) {
    own.parameters[callee->results[i].name] = parameterKey(results[i].name);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    own.parameters[callee->parameters[i].name] = parameterKey(arguments[i].name);
  }
  ++depth;
  decodeBody(own);
  --depth;
  body = caller;
  current = call;
}

void Decoder::expectOperands(const Statement &statement, size_t least, size_t most) {
  if (statement.operands.size() < least || statement.operands.size() > most) {
    fail("'" + statement.opcode[0] + "' with " + std::to_string(statement.operands.size()) + " operands");
  }
}

} // namespace ashlar::emulator
