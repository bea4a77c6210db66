// SPDX-License-Identifier: Apache-2.0
//
// Which loops over rows prefetch, and what.

#include "compiler/target/fetch_rows.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SourceMgr.h"

#include <catch2/catch.hpp>

namespace ashlar::test::fetch_rows_test {
namespace {

// A loop along a row of @f, over vectors of 16 floats at %x plus the offset of the row, or of places in it that %i counts.
std::string loopAlong(const std::string &name, const std::string &next, int64_t vectors, bool stores, bool isLong) {
  std::string body = "  %" + name + ".at = add i64 %row.begin, %" + name + ".i\n  %" + name + ".x = getelementptr float, ptr %x, i64 %" +
                     name + ".at\n  %" + name + ".v = load <16 x float>, ptr %" + name + ".x\n";
  for (int i = 0; isLong && i < 8; ++i) {
    body += "  %" + name + ".l" + std::to_string(i) + " = fmul <16 x float> %" + name + ".v, %" + name + ".v\n";
  }
  body += stores ? "  %" + name + ".y = getelementptr float, ptr %y, i64 %" + name + ".at\n  store <16 x float> %" + name + ".v, ptr %" +
                       name + ".y\n"
                 : "";
  const std::string counted = std::to_string(16 * vectors);
  return name + ":\n  %" + name + ".i = phi i64 [0, %" + name + ".begin], [%" + name + ".next, %" + name + "]\n" + body + "  %" + name +
         ".next = add nuw nsw i64 %" + name + ".i, 16\n  %" + name + ".done = icmp eq i64 %" + name + ".next, " + counted + "\n  br i1 %" +
         name + ".done, label %" + next + ", label %" + name + "\n";
}

// A kernel over rows of `vectors` vectors: a short pass, a long one if `isTwice`, and one that stores.
std::string kernelText(int64_t vectors, bool isTwice) {
  std::string text = "define void @f(ptr %x, ptr %y, i64 %rows) {\nentry:\n  br label %row\nrow:\n"
                     "  %r = phi i64 [0, %entry], [%r.next, %end]\n  %row.begin = mul i64 %r, " +
                     std::to_string(16 * vectors) + "\n";
  if (isTwice) {
    text += "  br label %first.begin\nfirst.begin:\n  br label %first\n" + loopAlong("first", "second.begin", vectors, false, false) +
            "second.begin:\n  br label %second\n" + loopAlong("second", "last.begin", vectors, false, true);
  } else {
    text += "  br label %last.begin\n";
  }
  return text + "last.begin:\n  br label %last\n" + loopAlong("last", "end", vectors, true, false) +
         "end:\n  %r.next = add nuw nsw i64 %r, 1\n  %all = icmp eq i64 %r.next, %rows\n  br i1 %all, label %exit, label %row\nexit:\n"
         "  ret void\n}\n";
}

struct Fetched {
  std::string block, distance;
  bool isWritten;
};

// Returns the prefetches that the pass adds: their blocks, and how far from the address that is read they are.
std::vector<Fetched> fetch(const std::string &text) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, diagnostic, context);
  INFO(text << diagnostic.getMessage().str());
  REQUIRE(module);
  llvm::PassBuilder builder;
  llvm::FunctionAnalysisManager analyses;
  builder.registerFunctionAnalyses(analyses);
  llvm::ModuleAnalysisManager modules;
  analyses.registerPass([&] { return llvm::ModuleAnalysisManagerFunctionProxy(modules); });
  llvm::Function &function = *module->getFunction("f");
  target::FetchRowsPass().run(function, analyses);
  REQUIRE(!llvm::verifyFunction(function, &llvm::errs()));
  std::vector<Fetched> found;
  for (llvm::Instruction &instruction : llvm::instructions(function)) {
    auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    if (call && call->getIntrinsicID() == llvm::Intrinsic::prefetch) {
      auto *bytes = llvm::dyn_cast<llvm::ConstantInt>(llvm::cast<llvm::Instruction>(call->getArgOperand(0))->getOperand(1));
      found.push_back({call->getParent()->getName().str(), bytes ? std::to_string(bytes->getSExtValue()) : "variable",
                       !llvm::cast<llvm::ConstantInt>(call->getArgOperand(1))->isZero()});
    }
  }
  return found;
}

} // namespace

TEST_CASE("fetch rows: the longest of several loops along a row fetches the next one, and what is written", "[lower]") {
  const std::vector<Fetched> found = fetch(kernelText(/*vectors=*/64, /*isTwice=*/true));
  REQUIRE(found.size() == 2);
  for (const Fetched &each : found) {
    CHECK(each.block == "second");
    CHECK(each.distance == (each.isWritten ? "variable" : "4096"));
  }
  CHECK(found[0].isWritten != found[1].isWritten);
}

TEST_CASE("fetch rows: one loop along rows, and rows of a few lines, fetch nothing", "[lower]") {
  CHECK(fetch(kernelText(/*vectors=*/64, /*isTwice=*/false)).empty());
  CHECK(fetch(kernelText(/*vectors=*/16, /*isTwice=*/true)).empty());
}

} // namespace ashlar::test::fetch_rows_test
