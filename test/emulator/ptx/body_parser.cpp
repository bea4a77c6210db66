// SPDX-License-Identifier: Apache-2.0
//
// Parses the body of a function: registers, variables, labels, instructions, and inner { } with names of their own.

#include "test/emulator/ptx/parser.h"

#include <cstdlib>

namespace ashlar::emulator {
namespace {

class BodyParser {
public:
  BodyParser(TokenStream &tokens, Function &function) : tokens(tokens), function(function) {}

  void run() {
    scopes.emplace_back();
    while (!scopes.empty()) {
      step();
    }
  }

private:
  // One declaration, label, instruction or brace.
  void step() {
    if (tokens.take("{")) {
      scopes.emplace_back();
      ++scopeCount;
    } else if (tokens.take("}")) {
      scopes.pop_back();
    } else if (tokens.take(".reg")) {
      parseRegisters();
    } else if (tokens.take(".pragma") || tokens.take(".loc") || tokens.take(".file")) {
      while (!tokens.take(";") && tokens.peek().kind != Token::End) {
        tokens.next();
      }
    } else if (tokens.peek().kind == Token::Dot) {
      Variable variable = parseVariable(tokens);
      variable.name = declare(variable.name);
      function.variables.push_back(std::move(variable));
      tokens.expect(";");
    } else if (tokens.peek().kind == Token::Word && tokens.peek(1).text == ":") {
      Statement statement{tokens.peek().line};
      statement.label = tokens.expectWord();
      tokens.expect(":");
      function.body.push_back(std::move(statement));
    } else if (!tokens.take(";")) {
      parseInstruction();
    }
  }

  // ".b32 %r<10>, x;" from behind .reg
  void parseRegisters() {
    const std::optional<Type> type = parseType(tokens.peek().text.substr(1));
    if (!type) {
      tokens.fail("registers of type '" + std::string(tokens.peek().text) + "' are not known");
    }
    tokens.next();
    do {
      const std::string name = tokens.expectWord();
      if (tokens.take("<")) {
        const uint64_t count = tokens.expectInteger();
        tokens.expect(">");
        for (uint64_t i = 0; i < count; ++i) {
          function.registers[declare(name + std::to_string(i))] = *type;
        }
      } else {
        function.registers[declare(name)] = *type;
      }
    } while (tokens.take(","));
    tokens.expect(";");
  }

  // Returns the name that is unique in the function.
  std::string declare(const std::string &name) {
    std::string unique = scopes.size() == 1 ? name : name + "@" + std::to_string(scopeCount);
    scopes.back()[name] = unique;
    return unique;
  }

  std::string resolve(const std::string &name) const {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
      const auto found = scope->find(name);
      if (found != scope->end()) {
        return found->second;
      }
    }
    return name;
  }

  void parseInstruction() {
    Statement statement{tokens.peek().line};
    if (tokens.take("@")) {
      statement.guardNegated = tokens.take("!");
      statement.guard = resolve(tokens.expectWord());
    }
    statement.opcode.push_back(tokens.expectWord());
    while (tokens.peek().kind == Token::Dot && tokens.peek().glued) {
      statement.opcode.emplace_back(tokens.next().text.substr(1));
    }
    while (!tokens.take(";")) {
      statement.operands.push_back(parseOperand());
      if (!tokens.take(",") && !tokens.is(";")) {
        tokens.fail("expected ',' or ';', found '" + std::string(tokens.peek().text) + "'");
      }
    }
    function.body.push_back(std::move(statement));
  }

  Operand parseOperand() {
    Operand operand;
    operand.negated = tokens.take("!");
    if (tokens.is("{") || tokens.is("(")) {
      parseList(operand);
    } else if (tokens.take("[")) {
      parseAddress(operand);
    } else if (tokens.peek().kind == Token::Word) {
      operand.kind = Operand::Name;
      operand.name = parseName();
      if (tokens.take("|")) {
        operand.second = parseName();
      }
    } else {
      parseLiteral(operand);
    }
    return operand;
  }

  // A name, with the ".x" of a special register.
  std::string parseName() {
    std::string name = resolve(tokens.expectWord());
    if (tokens.peek().kind == Token::Dot && tokens.peek().glued) {
      name += tokens.next().text;
    }
    return name;
  }

  void parseList(Operand &operand) {
    operand.kind = Operand::List;
    const std::string_view end = tokens.next().text == "{" ? "}" : ")";
    while (!tokens.take(end)) {
      operand.list.push_back(parseOperand());
      tokens.take(",");
    }
  }

  void parseAddress(Operand &operand) {
    operand.kind = Operand::Address;
    if (tokens.peek().kind == Token::Word) {
      operand.name = parseName();
      if (tokens.take("+") || tokens.is("-")) {
        operand.bits = tokens.expectInteger();
      }
    } else {
      operand.bits = tokens.expectInteger();
    }
    tokens.expect("]");
  }

  void parseLiteral(Operand &operand) {
    const std::string text(tokens.peek().text);
    const char kind = text.size() > 1 && text[0] == '0' ? char(std::tolower(text[1])) : ' ';
    if (kind == 'f' || kind == 'd') {
      operand.kind = kind == 'f' ? Operand::Single : Operand::Double;
      operand.bits = std::strtoull(text.c_str() + 2, nullptr, 16);
      tokens.next();
      return;
    }
    operand.kind = Operand::Integer;
    operand.bits = tokens.expectInteger();
  }

  TokenStream &tokens;
  Function &function;
  std::vector<std::unordered_map<std::string, std::string>> scopes;
  int scopeCount = 0;
};

} // namespace

void parseBody(TokenStream &tokens, Function &function) {
  BodyParser(tokens, function).run();
}

} // namespace ashlar::emulator
