// SPDX-License-Identifier: Apache-2.0
//
// Parses what stands outside function bodies: directives, variables, signatures.

#include "test/emulator/ptx/parser.h"

#include <cstdlib>
#include <cstring>

namespace ashlar::emulator {

void TokenStream::expect(std::string_view text) {
  if (!take(text)) {
    fail("expected '" + std::string(text) + "', found '" + std::string(peek().text) + "'");
  }
}

std::string TokenStream::expectWord() {
  if (peek().kind != Token::Word) {
    fail("expected a name, found '" + std::string(peek().text) + "'");
  }
  return std::string(next().text);
}

uint64_t TokenStream::expectInteger() {
  const bool negative = take("-");
  const std::string text(peek().text);
  char *end = nullptr;
  const uint64_t value = std::strtoull(text.c_str(), &end, 0);
  if (peek().kind != Token::Number || !(*end == 0 || std::strcmp(end, "U") == 0)) {
    fail("expected an integer, found '" + text + "'");
  }
  next();
  return negative ? -value : value;
}

namespace {

std::optional<Space> parseSpace(std::string_view word) {
  static const std::unordered_map<std::string_view, Space> kSpaces = {{".global", Space::Global},
                                                                      {".const", Space::Constant},
                                                                      {".shared", Space::Shared},
                                                                      {".local", Space::Local},
                                                                      {".param", Space::Parameter}};
  const auto found = kSpaces.find(word);
  return found == kSpaces.end() ? std::nullopt : std::optional<Space>(found->second);
}

// One element of an initialiser: an integer, 0f... or 0d...
uint64_t parseElement(TokenStream &tokens) {
  const std::string text(tokens.peek().text);
  if (text.compare(0, 2, "0f") == 0 || text.compare(0, 2, "0F") == 0 || text.compare(0, 2, "0d") == 0 || text.compare(0, 2, "0D") == 0) {
    tokens.next();
    return std::strtoull(text.c_str() + 2, nullptr, 16);
  }
  return tokens.expectInteger();
}

void parseInitial(TokenStream &tokens, Variable &variable) {
  const unsigned width = widthOf(variable.type);
  variable.initial.assign(variable.bytes, 0);
  uint64_t offset = 0;
  const auto element = [&] {
    if (offset + width > variable.bytes) {
      tokens.fail("the initial value of '" + variable.name + "' is longer than the variable");
    }
    const uint64_t bits = parseElement(tokens);
    std::memcpy(variable.initial.data() + offset, &bits, width);
    offset += width;
  };
  if (!tokens.take("{")) {
    element();
    return;
  }
  while (!tokens.take("}")) {
    element();
    tokens.take(",");
  }
}

// "128, 1, 1" behind .reqntid; returns the product.
uint32_t parseThreads(TokenStream &tokens) {
  uint64_t threads = tokens.expectInteger();
  while (tokens.take(",")) {
    threads *= tokens.expectInteger();
  }
  return uint32_t(threads);
}

// "(.param .b32 a, .param .b64 b)"
std::vector<Variable> parseParameters(TokenStream &tokens) {
  std::vector<Variable> parameters;
  tokens.expect("(");
  while (!tokens.take(")")) {
    parameters.push_back(parseVariable(tokens));
    tokens.take(",");
  }
  return parameters;
}

// From behind .entry or .func.
Function parseFunction(TokenStream &tokens, bool entry) {
  Function function;
  function.entry = entry;
  if (!entry && tokens.is("(")) {
    function.results = parseParameters(tokens);
  }
  function.line = tokens.peek().line;
  function.name = tokens.expectWord();
  if (tokens.is("(")) {
    function.parameters = parseParameters(tokens);
  }
  while (!tokens.is("{") && !tokens.is(";")) {
    if (tokens.take(".reqntid")) {
      function.requiredThreads = parseThreads(tokens);
    } else if (tokens.take(".maxntid")) {
      function.maxThreads = parseThreads(tokens);
    } else if (tokens.take(".minnctapersm") || tokens.take(".maxnreg")) {
      tokens.expectInteger();
    } else if (!tokens.take(".noreturn")) {
      tokens.fail("'" + std::string(tokens.peek().text) + "' of a function is not known");
    }
  }
  function.defined = tokens.take("{");
  if (function.defined) {
    parseBody(tokens, function);
  } else {
    tokens.expect(";");
  }
  return function;
}

// ".target sm_90, texmode_independent"
int parseTarget(TokenStream &tokens) {
  const std::string name = tokens.expectWord();
  while (tokens.take(",")) {
    tokens.next();
  }
  if (name.compare(0, 3, "sm_") != 0) {
    tokens.fail("target '" + name + "' is not known");
  }
  return std::atoi(name.c_str() + 3);
}

} // namespace

Variable parseVariable(TokenStream &tokens) {
  Variable variable;
  variable.line = tokens.peek().line;
  const std::optional<Space> space = parseSpace(tokens.peek().text);
  if (!space) {
    tokens.fail("expected a state space, found '" + std::string(tokens.peek().text) + "'");
  }
  variable.space = *space;
  tokens.next();
  std::optional<Type> type;
  uint64_t alignment = 0;
  while (tokens.peek().kind == Token::Dot) {
    if (tokens.take(".align")) {
      alignment = tokens.expectInteger();
    } else if (tokens.take(".ptr")) {
      // What a pointer parameter points to: ".ptr .global .align 16".
      if (parseSpace(tokens.peek().text)) {
        tokens.next();
      }
      if (tokens.take(".align")) {
        tokens.expectInteger();
      }
    } else {
      type = parseType(tokens.peek().text.substr(1));
      if (!type) {
        tokens.fail("'" + std::string(tokens.peek().text) + "' of a variable is not known");
      }
      tokens.next();
    }
  }
  if (!type) {
    tokens.fail("a variable without a type");
  }
  variable.type = *type;
  variable.alignment = std::max<uint64_t>(alignment, widthOf(*type));
  variable.name = tokens.expectWord();
  variable.bytes = widthOf(*type);
  if (tokens.take("[")) {
    variable.bytes = tokens.is("]") ? 0 : tokens.expectInteger() * widthOf(*type);
    tokens.expect("]");
  }
  if (tokens.take("=")) {
    parseInitial(tokens, variable);
  }
  return variable;
}

Syntax parse(std::string_view text) {
  TokenStream tokens(tokenize(text));
  Syntax syntax;
  while (tokens.peek().kind != Token::End) {
    if (tokens.take(".version")) {
      const std::string version(tokens.next().text);
      syntax.version = int(std::strtod(version.c_str(), nullptr) * 10 + 0.5);
    } else if (tokens.take(".target")) {
      syntax.target = parseTarget(tokens);
    } else if (tokens.take(".address_size")) {
      if (tokens.expectInteger() != 64) {
        tokens.fail("addresses must have 64 bits");
      }
    } else if (tokens.take(".visible") || tokens.take(".weak") || tokens.take(".extern")) {
      continue;
    } else if (tokens.is(".entry") || tokens.is(".func")) {
      const bool entry = tokens.next().text == ".entry";
      syntax.functions.push_back(parseFunction(tokens, entry));
    } else if (parseSpace(tokens.peek().text)) {
      syntax.variables.push_back(parseVariable(tokens));
      tokens.expect(";");
    } else {
      tokens.fail("'" + std::string(tokens.peek().text) + "' is not known");
    }
  }
  if (syntax.version == 0 || syntax.target == 0) {
    tokens.fail("the module has no .version or no .target");
  }
  return syntax;
}

} // namespace ashlar::emulator
