// SPDX-License-Identifier: Apache-2.0
//
// Parsing and running modules in tests; see parsed_module.h.

#include "test/unit/reference/parsed_module.h"

#include "dialects/dist/dist.h"
#include "dialects/exec/exec.h"
#include "dialects/nn/nn.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include <cstdlib>
#include <stdexcept>

using namespace mlir;

namespace ashlar::test {

namespace {

// Collects the first diagnostic, so that a test can show it.
class FirstError {
public:
  FirstError()
      : handler(&context(), [this](Diagnostic &diagnostic) {
          if (text.empty()) {
            text = diagnostic.str();
          }
          return success();
        }) {}

  [[noreturn]] void raise(const std::string &what) { throw std::runtime_error(what + ": " + text); }

private:
  std::string text;
  ScopedDiagnosticHandler handler;
};

} // namespace

MLIRContext &context() {
  static MLIRContext instance(MLIRContext::Threading::DISABLED);
  instance.loadDialect<dist::DistDialect, exec::ExecDialect, nn::NnDialect, func::FuncDialect>();
  return instance;
}

OwningOpRef<ModuleOp> parse(const std::string &text) {
  FirstError error;
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context());
  if (!module) {
    error.raise("not a module: " + text);
  }
  return module;
}

reference::Tensor tensor(const std::string &text) {
  FirstError error;
  auto elements = dyn_cast_or_null<ElementsAttr>(parseAttribute(text, &context()));
  FailureOr<reference::Tensor> tensor = elements ? reference::Tensor::fromAttribute(elements) : FailureOr<reference::Tensor>();
  if (failed(tensor)) {
    error.raise("not a tensor: " + text);
  }
  return *tensor;
}

std::vector<reference::Tensor> run(ModuleOp module, StringRef function, ArrayRef<reference::Tensor> inputs) {
  FirstError error;
  reference::Interpreter interpreter(module);
  FailureOr<std::vector<reference::Tensor>> results = reference::runGlobal(interpreter, function, inputs);
  if (failed(results)) {
    error.raise("cannot run @" + function.str());
  }
  return *results;
}

uint64_t testSeed() {
  const char *text = std::getenv("ASHLAR_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

} // namespace ashlar::test
