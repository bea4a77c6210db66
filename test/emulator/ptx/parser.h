// SPDX-License-Identifier: Apache-2.0
//
// The parser's two halves: outside functions (parser.cpp) and in their bodies (body_parser.cpp).

#ifndef ASHLAR_TEST_EMULATOR_PTX_PARSER_H
#define ASHLAR_TEST_EMULATOR_PTX_PARSER_H

#include "test/emulator/ptx/lexer.h"
#include "test/emulator/ptx/syntax.h"

namespace ashlar::emulator {

// A place in the tokens of a module.
class TokenStream {
public:
  explicit TokenStream(std::vector<Token> tokens) : tokens(std::move(tokens)) {}

  const Token &peek(size_t ahead = 0) const { return tokens[std::min(at + ahead, tokens.size() - 1)]; }
  const Token &next() {
    const Token &token = peek();
    ++at;
    return token;
  }
  bool is(std::string_view text) const { return peek().text == text && peek().kind != Token::End; }
  // Moves on when the next token is `text`.
  bool take(std::string_view text) {
    const bool found = is(text);
    at += found;
    return found;
  }
  // Moves behind `text`, or throws.
  void expect(std::string_view text);
  std::string expectWord();
  // Returns the bits of an integer literal, with its minus.
  uint64_t expectInteger();
  [[noreturn]] void fail(const std::string &message) const { throw PtxError(peek().line, message); }

private:
  std::vector<Token> tokens;
  size_t at = 0;
};

// Parses ".shared .align 4 .b8 name[128] = {...}" from its state space on, without the end.
Variable parseVariable(TokenStream &tokens);

// Parses the declarations and statements of a body, from behind its { to behind its }.
void parseBody(TokenStream &tokens, Function &function);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_PARSER_H
