// SPDX-License-Identifier: Apache-2.0
//
// The decoder's view of a statement: its qualifiers, and the places of its operands in the frame.

#include "test/emulator/ptx/decoder.h"
#include "test/emulator/ptx/moves.h"

#include <algorithm>

namespace ashlar::emulator {
namespace {

std::optional<SpecialRegister> specialRegister(const std::string &name) {
  static const std::unordered_map<std::string, SpecialRegister> kNames = {
      {"%tid.x", TidX},       {"%tid.y", TidY},       {"%tid.z", TidZ},     {"%ntid.x", NtidX},   {"%ntid.y", NtidY},
      {"%ntid.z", NtidZ},     {"%ctaid.x", CtaidX},   {"%ctaid.y", CtaidY}, {"%ctaid.z", CtaidZ}, {"%nctaid.x", NctaidX},
      {"%nctaid.y", NctaidY}, {"%nctaid.z", NctaidZ}, {"%laneid", LaneId},  {"%warpid", WarpId}};
  const auto found = kNames.find(name);
  return found == kNames.end() ? std::nullopt : std::optional<SpecialRegister>(found->second);
}

} // namespace

bool Qualifiers::take(std::string_view name) {
  const auto found = std::find(rest.begin(), rest.end(), name);
  if (found == rest.end()) {
    return false;
  }
  rest.erase(found);
  return true;
}

Type Qualifiers::takeType() {
  for (auto part = rest.begin(); part != rest.end(); ++part) {
    if (const std::optional<Type> type = parseType(*part)) {
      rest.erase(part);
      return *type;
    }
  }
  throw PtxError(statement.line, "'" + statement.opcode[0] + "' has no type");
}

void Qualifiers::ignore(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    take(name);
  }
}

std::string Qualifiers::takeFirst() {
  if (rest.empty()) {
    throw PtxError(statement.line, "'" + statement.opcode[0] + "' lacks a qualifier");
  }
  std::string first = rest.front();
  rest.erase(rest.begin());
  return first;
}

void Qualifiers::expectNone() const {
  if (!rest.empty()) {
    throw PtxError(statement.line, "qualifier '." + rest.front() + "' of '" + statement.opcode[0] + "' is not known");
  }
}

std::optional<Type> Decoder::registerType(const std::string &name) const {
  const auto found = body->function->registers.find(name);
  return found == body->function->registers.end() ? std::nullopt : std::optional<Type>(found->second);
}

std::optional<std::pair<uint64_t, Space>> Decoder::symbol(const std::string &name) const {
  if (const auto found = body->variables.find(name); found != body->variables.end()) {
    return found->second;
  }
  if (const auto found = symbols.find(name); found != symbols.end()) {
    return std::make_pair(found->second, Space::Global);
  }
  return std::nullopt;
}

uint32_t Decoder::temporary(unsigned width) {
  const uint32_t place = kernel->frameBytes;
  kernel->frameBytes += kLanes * width;
  return place;
}

uint32_t Decoder::carry() {
  carryPlace = carryPlace == kNowhere ? temporary(1) : carryPlace;
  return carryPlace;
}

uint32_t Decoder::constant(uint64_t bits, unsigned width) {
  const auto [entry, fresh] = constants.try_emplace({bits, width}, 0);
  if (fresh) {
    entry->second = temporary(width);
    kernel->presets.push_back({entry->second, width, bits});
  }
  return entry->second;
}

uint32_t Decoder::registerPlace(const std::string &name) {
  const auto [entry, fresh] = body->places.try_emplace(name, 0);
  if (fresh) {
    entry->second = temporary(widthOf(*registerType(name)));
  }
  return entry->second;
}

uint32_t Decoder::destination(const Operand &operand, Type type) {
  if (operand.kind == Operand::Name && operand.name == "_") {
    return temporary(widthOf(type));
  }
  const std::optional<Type> declared = operand.kind == Operand::Name ? registerType(operand.name) : std::nullopt;
  if (!declared) {
    fail("the result must be a register, not '" + operand.name + "'");
  }
  if (widthOf(*declared) != widthOf(type)) {
    fail("register '" + operand.name + "' has " + std::to_string(widthOf(*declared)) + " bytes, the instruction writes " +
         std::to_string(widthOf(type)));
  }
  return registerPlace(operand.name);
}

uint32_t Decoder::source(const Operand &operand, Type type) {
  const unsigned width = widthOf(type);
  switch (operand.kind) {
  case Operand::Integer:
    return constant(width == 8 ? operand.bits : operand.bits & ((uint64_t(1) << width * 8) - 1), width);
  case Operand::Single:
  case Operand::Double:
    if (width != (operand.kind == Operand::Single ? 4u : 8u)) {
      fail("a literal of the wrong width");
    }
    return constant(operand.bits, width);
  case Operand::Name:
    break;
  default:
    fail("an operand must be a register or a literal");
  }
  if (const std::optional<SpecialRegister> special = specialRegister(operand.name)) {
    if (width != 4) {
      fail("special register '" + operand.name + "' has 4 bytes, the instruction reads " + std::to_string(width));
    }
    return offsetOf(*special);
  }
  const std::optional<Type> declared = registerType(operand.name);
  if (!declared) {
    fail("'" + operand.name + "' is not a register");
  }
  if (widthOf(*declared) != width || (*declared == Type::Pred) != (type == Type::Pred)) {
    fail("register '" + operand.name + "' has " + std::to_string(widthOf(*declared)) + " bytes, the instruction reads " +
         std::to_string(width));
  }
  return registerPlace(operand.name);
}

uint32_t Decoder::narrowSource(const Operand &operand, Type type) {
  const std::optional<Type> declared = operand.kind == Operand::Name ? registerType(operand.name) : std::nullopt;
  if (!declared || widthOf(*declared) <= widthOf(type)) {
    return source(operand, type);
  }
  const uint32_t place = temporary(widthOf(type));
  emit(resizeHandler(*declared, widthOf(type)), {place, registerPlace(operand.name)});
  return place;
}

uint32_t Decoder::narrowDestination(const Operand &operand, Type type) {
  const std::optional<Type> declared = operand.kind == Operand::Name ? registerType(operand.name) : std::nullopt;
  return declared && widthOf(*declared) > widthOf(type) ? temporary(widthOf(type)) : destination(operand, type);
}

void Decoder::widen(const Operand &operand, Type type, uint32_t place) {
  const std::optional<Type> declared = registerType(operand.name);
  if (declared && widthOf(*declared) > widthOf(type)) {
    emit(resizeHandler(type, widthOf(*declared)), {registerPlace(operand.name), place});
  }
}

} // namespace ashlar::emulator
