// SPDX-License-Identifier: Apache-2.0
//
// Parser and printer of layouts in rules.

#include "passes/layout/rules/layout_text.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::layout {

namespace {

// A recursive descent parser over the text; `rest` is what is still to be read.
class Parser {
public:
  Parser(StringRef text, function_ref<InFlightDiagnostic()> emitError) : text(text), rest(text), emitError(emitError) {}

  FailureOr<SmallVector<DimSplit>> parse() {
    SmallVector<DimSplit> dims;
    if (failed(expect("["))) {
      return failure();
    }
    if (!take("]")) {
      do {
        if (failed(parseDim(dims.emplace_back()))) {
          return failure();
        }
      } while (take(","));
      if (failed(expect("]"))) {
        return failure();
      }
    }
    skipSpace();
    if (rest.ltrim(", ").starts_with("partial")) {
      return emitError() << "layout " << text
                         << " is partial; a rule describes whole values, and which sums are still open follows from the ops: leave it out";
    }
    if (!rest.empty()) {
      return fail("the end");
    }
    return dims;
  }

private:
  ParseResult parseDim(DimSplit &dim) {
    if (failed(expect("{"))) {
      return failure();
    }
    if (take("}")) {
      return success();
    }
    do {
      if (take("?")) {
        dim.isOpen = true;
        break;
      }
      if (failed(parseAxis(dim.axes.emplace_back()))) {
        return failure();
      }
    } while (take(","));
    return expect("}");
  }

  ParseResult parseAxis(AxisPart &axis) {
    bool quoted = take("\"");
    StringRef name = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (name.empty()) {
      return fail("a mesh axis");
    }
    axis.axis = name.str();
    rest = rest.drop_front(name.size());
    if (rest.consume_front(":(") && (rest.consumeInteger(10, axis.before) || !rest.consume_front(")") ||
                                     rest.consumeInteger(10, axis.size) || axis.before < 1 || axis.size < 1)) {
      return fail("the part of an axis as in tp:(1)2");
    }
    return quoted ? expect("\"") : ParseResult(success());
  }

  void skipSpace() { rest = rest.ltrim(); }

  bool take(StringRef token) {
    skipSpace();
    return rest.consume_front(token);
  }

  ParseResult expect(StringRef token) { return take(token) ? ParseResult(success()) : fail(token); }

  InFlightDiagnostic fail(StringRef expected) {
    return emitError() << "layout " << text << " has " << (rest.empty() ? "its end" : "\"" + rest.take_front(1).str() + "\"")
                       << " at column " << text.size() - rest.size() + 1 << " where " << expected << " is expected; write it as [{dp}, {}]";
  }

  StringRef text, rest;
  function_ref<InFlightDiagnostic()> emitError;
};

} // namespace

FailureOr<SmallVector<DimSplit>> parseLayoutText(StringRef text, function_ref<InFlightDiagnostic()> emitError) {
  return Parser(text, emitError).parse();
}

std::string printLayoutText(ArrayRef<DimSplit> dims) {
  auto printDim = [](const DimSplit &dim) {
    SmallVector<std::string> parts = llvm::map_to_vector(dim.axes, [](const AxisPart &axis) { return axis.toString(); });
    if (dim.isOpen) {
      parts.push_back("?");
    }
    return "{" + llvm::join(parts, ", ") + "}";
  };
  return "[" + llvm::join(llvm::map_range(dims, printDim), ", ") + "]";
}

} // namespace ashlar::layout
