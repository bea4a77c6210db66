// SPDX-License-Identifier: Apache-2.0
//
// ashlar-data [DIR] [--job JOB] [--json]: prints the data sets in a folder, or what a job reads of it (docs/data.md). Exit status: 0; 1
// when a data set cannot be read, except a job's eval split that is not there, or holds NaN or infinity; 2 after an error.

#include "runtime/abi/command_line.h"
#include "runtime/base/process.h"
#include "tools/ashlar_data/split_facts.h"
#include "tools/version.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>

using namespace ashlar;

namespace {

constexpr int kDamaged = 1, kError = 2;

int run(int argc, char **argv) {
  CLI::App app("Prints the data sets in a folder, or the part that a job reads.", "ashlar-data");
  app.set_version_flag("--version", ashlar::tools::versionOf("ashlar-data"));
  std::string directory, job;
  bool isJson = false;
  app.add_option("DIR", directory, "the folder that --data of a program names");
  app.add_option("--job", job, "describe the data set of this job; without DIR its generated one");
  app.add_flag("--json", isJson, "print JSON");
  try {
    rt::parseCommandLine(app, argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) {
      return app.exit(error); // help
    }
    rt::printError(rt::commandLineFault(error));
    return kError;
  }
  if (directory.empty() && job.empty()) {
    rt::printError("neither a folder nor --job is given; name one of them");
    return kError;
  }
  std::vector<data::SplitFacts> splits;
  if (job.empty()) {
    splits = data::describeFolder(directory);
  } else if (rt::Status status = data::describeJob(directory, job, splits); !status.ok()) {
    rt::printError(status.message());
    return kError;
  }
  if (splits.empty()) {
    rt::printError(fmt::format("no data set is in \"{}\"; docs/data.md lists the names of files", directory));
    return kError;
  }
  std::fputs((isJson ? data::jsonOf(splits) : data::textOf(splits)).c_str(), stdout);
  const bool isDamaged = std::any_of(splits.begin(), splits.end(), [&](const data::SplitFacts &split) {
    const bool isRead = split.fault.empty() || (split.isMissing && split.split == "eval");
    return !isRead || std::any_of(split.columns.begin(), split.columns.end(), [](const auto &column) { return column.notFinite != 0; });
  });
  return isDamaged ? kDamaged : 0;
}

} // namespace

int main(int argc, char **argv) {
  return rt::runTool(run, argc, argv, kError);
}
