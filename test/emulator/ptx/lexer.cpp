// SPDX-License-Identifier: Apache-2.0
//
// Tokens of PTX.

#include "test/emulator/ptx/lexer.h"

#include <cctype>

namespace ashlar::emulator {
namespace {

bool isWordStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}
bool isWordPart(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$';
}

class Lexer {
public:
  explicit Lexer(std::string_view text) : text(text) {}

  std::vector<Token> run() {
    while (skipBlanks()) {
      next();
    }
    tokens.push_back({Token::End, "", line, false});
    return std::move(tokens);
  }

private:
  // Skips white space and comments; returns false at the end of the text.
  bool skipBlanks() {
    for (; at < text.size(); ++at) {
      if (text.compare(at, 2, "//") == 0) {
        at = std::min(text.find('\n', at), text.size()) - 1;
      } else if (text.compare(at, 2, "/*") == 0) {
        const size_t end = text.find("*/", at);
        if (end == std::string_view::npos) {
          throw PtxError(line, "a comment without an end");
        }
        for (; at < end + 1; ++at) {
          line += text[at] == '\n';
        }
      } else if (!std::isspace(static_cast<unsigned char>(text[at]))) {
        return true;
      }
      if (at < text.size()) {
        line += text[at] == '\n';
      }
    }
    return false;
  }

  void next() {
    const size_t begin = at;
    const char c = text[at++];
    if (isWordStart(c)) {
      take(isWordPart);
      add(Token::Word, begin);
    } else if (c == '.' && at < text.size() && isWordPart(text[at])) {
      // "::" is part of qualifiers like .L1::no_allocate.
      take([](char part) { return isWordPart(part) || part == ':'; });
      add(Token::Dot, begin);
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      // "0f3F800000" and "0x10" are one token, as is the "8.0" of .version.
      take([](char part) { return isWordPart(part) || part == '.'; });
      add(Token::Number, begin);
    } else if (c == '"') {
      take([](char part) { return part != '"'; });
      ++at;
      add(Token::String, begin);
    } else {
      add(Token::Punctuation, begin);
    }
  }

  template <class Predicate> void take(Predicate predicate) {
    while (at < text.size() && predicate(text[at])) {
      ++at;
    }
  }

  void add(Token::Kind kind, size_t begin) {
    tokens.push_back({kind, text.substr(begin, at - begin), line, begin == lastEnd});
    lastEnd = at;
  }

  std::string_view text;
  size_t at = 0;
  size_t lastEnd = 0;
  int line = 1;
  std::vector<Token> tokens;
};

} // namespace

std::vector<Token> tokenize(std::string_view text) {
  return Lexer(text).run();
}

} // namespace ashlar::emulator
