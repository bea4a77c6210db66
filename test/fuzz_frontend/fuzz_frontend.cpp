// SPDX-License-Identifier: Apache-2.0
//
// The libFuzzer target of job parser and importer: the text of a job, a zero byte, the bytes of a model. Whatever they are, each part ends
// with a result or with one line of ours; sanitizers see to the rest. tools/fuzz_frontend.sh builds and runs it.

#include "compiler/frontend/import.h"
#include "compiler/job/job.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <unistd.h>

using namespace ashlar;

namespace {

constexpr size_t kImportsPerContext = 256; // attributes live as long as their context
constexpr int64_t kBatch = 4;              // of a model whose job cannot be read

// The one file that every model is read from, in a folder of this process.
class ModelFile {
public:
  ModelFile() {
    if (!mkdtemp(folder.data())) {
      std::perror("mkdtemp");
      std::abort();
    }
    path = folder + "/model.onnx";
  }
  ~ModelFile() {
    std::remove(path.c_str());
    rmdir(folder.c_str());
  }

  void write(llvm::StringRef bytes) const {
    std::FILE *file = std::fopen(path.c_str(), "wb");
    if (!file || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || std::fclose(file) != 0) {
      std::perror(path.c_str());
      std::abort();
    }
  }

  std::string folder = "/tmp/ashlar_fuzz_XXXXXX", path;
};

// Returns a message without what it quotes from the input.
std::string withoutQuotes(llvm::StringRef message) {
  std::string own;
  for (bool isQuoted = false; !message.empty(); isQuoted = !isQuoted) {
    auto [part, rest] = message.split('"');
    own += isQuoted ? "" : part.str();
    message = rest;
  }
  return own;
}

// Ends the run unless an error is one line in our words. What `input` says may be repeated: a name with a quote in it ends the quoted part
// early, and the fuzzer puts strings that it sees compared, as these are, into its inputs.
void checkError(llvm::Error error, llvm::StringRef input) {
  std::string message = llvm::toString(std::move(error)), own = withoutQuotes(message);
  if (llvm::StringRef(message).contains('\n')) {
    llvm::errs() << "the error \"" << message << "\" is more than one line\n";
    std::abort();
  }
  for (const char *foreign : {"'nn.", "'func.", "op operand", "op result", "failed to infer", "max_size", "std::", "libprotobuf"}) {
    if (llvm::StringRef(own).contains(foreign) && !input.contains(foreign)) {
      llvm::errs() << "the error \"" << message << "\" contains \"" << foreign << "\"\n";
      std::abort();
    }
  }
}

// Returns what a job, if it is a good one, means for the import.
frontend::ImportOptions readJob(llvm::StringRef text) {
  frontend::ImportOptions options;
  options.globalBatch = kBatch;
  llvm::Expected<job::Job> job = job::parseJobText(text, "job.txtpb");
  if (!job) {
    checkError(job.takeError(), text);
    return options;
  }
  if (llvm::Error error = job::checkJob(*job, "job.txtpb")) {
    checkError(std::move(error), text);
    return options;
  }
  return frontend::makeImportOptions(*job);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const ModelFile file;
  static std::unique_ptr<mlir::MLIRContext> context;
  static size_t imports = 0;
  if (imports++ % kImportsPerContext == 0) {
    context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  }
  llvm::StringRef input(reinterpret_cast<const char *>(data), size);
  auto [job, model] = input.split('\0');
  file.write(model);
  auto module = frontend::importOnnx(file.path, readJob(job), context.get());
  if (!module) {
    checkError(module.takeError(), input);
  }
  return 0;
}
