// SPDX-License-Identifier: Apache-2.0
//
// Facts -> text, JSON, page.

#include "compiler/driver/report_files.h"

#include "compiler/file/input_file.h"
#include "compiler/file/output_file.h"
#include "compiler/report/explain.h"
#include "compiler/report/page/measured_run.h"
#include "compiler/report/page/plan_page.h"
#include "compiler/report/report_json.h"

using namespace mlir;

namespace ashlar::driver {
namespace {

// Reads a file that the page shows.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readShown(StringRef option, StringRef path) {
  auto text = file::readText(path, file::Pipes::Taken);
  return text ? std::move(text) : llvm::createStringError(option + " " + path + ": " + llvm::toString(text.takeError()));
}

llvm::Error writePage(const command::Options &options, const report::LayoutReport &report) {
  std::vector<report::PagePart> parts = {{"report", report::reportJson(report, /*indent=*/0)}};
  if (!options.compare.empty()) {
    auto text = readShown("--compare", options.compare);
    auto other = text ? report::compactReport((*text)->getBuffer(), options.compare) : text.takeError();
    if (!other) {
      return other.takeError();
    }
    parts.emplace_back("other", std::move(*other));
  }
  if (!options.trace.empty()) {
    auto text = readShown("--trace", options.trace);
    auto run = text ? report::measuredRun((*text)->getBuffer(), options.trace, report.plan) : text.takeError();
    if (!run) {
      return run.takeError();
    }
    parts.emplace_back("measured", std::move(*run));
  }
  return file::writeOutput(options.html, [&](llvm::raw_ostream &out) { out << report::planPage(report.model, parts); });
}

} // namespace

bool asksForReport(const command::Options &options) {
  return options.explain || !options.report.empty() || !options.html.empty();
}

report::ModelGraph readGraph(ModuleOp programs, const pipelines::Variant &variant) {
  ScopedDiagnosticHandler silent(programs.getContext(), [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> copy = programs.clone();
  PassManager passes(programs.getContext());
  pipelines::addOptimizerParallelPasses(passes, variant);
  pipelines::addRedistributionPasses(passes, variant);
  return failed(passes.run(*copy)) ? report::ModelGraph() : report::makeModelGraph(*copy);
}

std::vector<report::JobRuleFact> listRules(const job::Job &job) {
  std::vector<report::JobRuleFact> rules;
  for (const job::Rule &rule : job.rules()) {
    job::Rule own = rule;
    own.clear_origin();
    rules.push_back({rule.origin(), StringRef(own.ShortDebugString()).trim().str()});
  }
  return rules;
}

llvm::Error writeReport(const command::Options &options, const report::LayoutReport &report) {
  if (options.explain) {
    llvm::outs() << report::explainText(report);
    llvm::outs().flush();
  }
  if (!options.report.empty()) {
    if (llvm::Error error = file::writeOutput(options.report, [&](llvm::raw_ostream &out) { out << report::reportJson(report); })) {
      return error;
    }
  }
  return options.html.empty() ? llvm::Error::success() : writePage(options, report);
}

} // namespace ashlar::driver
