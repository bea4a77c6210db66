// SPDX-License-Identifier: Apache-2.0
//
// Cuts PTX text into tokens. Words keep '%' and '$'; a word that begins with a dot is a qualifier or a directive.

#ifndef ASHLAR_TEST_EMULATOR_PTX_LEXER_H
#define ASHLAR_TEST_EMULATOR_PTX_LEXER_H

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::emulator {

// A text that is not PTX, or not PTX this emulator knows; what() names the line.
struct PtxError : std::runtime_error {
  PtxError(int line, const std::string &message)
      : std::runtime_error("line " + std::to_string(line) + ": " + message), line(line), message(message) {}
  int line;
  std::string message;
};

struct Token {
  enum Kind { Word, Dot, Number, Punctuation, String, End };
  Kind kind;
  std::string_view text;
  int line;
  bool glued; // nothing stands between it and the token before
};

// Returns the tokens of `text`, which must outlive them; the last one is an End.
std::vector<Token> tokenize(std::string_view text);

} // namespace ashlar::emulator

#endif // ASHLAR_TEST_EMULATOR_PTX_LEXER_H
