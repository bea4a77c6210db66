// SPDX-License-Identifier: Apache-2.0
//
// ashlar-ckpt COMMAND ...: looks into checkpoints (docs/checkpoints.md). Exit status: 0; 1 when verify found damage or diff a difference;
// 2 after an error.

#include "runtime/abi/command_line.h"
#include "runtime/base/process.h"
#include "tools/ashlar_ckpt/commands.h"
#include "tools/version.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>

using namespace ashlar;

namespace {

constexpr int kFound = 1, kError = 2;

struct Request {
  std::string directory, checkpoint, second, output;
  std::vector<std::string> checkpoints;
  bool pieces = false, parametersOnly = false;
};

int run(int argc, char **argv) {
  CLI::App app("Inspects checkpoints of compiled programs.", "ashlar-ckpt");
  app.set_version_flag("--version", ashlar::tools::versionOf("ashlar-ckpt"));
  app.require_subcommand(1);
  Request request;
  CLI::App *list = app.add_subcommand("list", "the checkpoints in a directory, the newest first");
  list->add_option("DIR", request.directory, "the directory")->required();
  CLI::App *show = app.add_subcommand("show", "the contents of a checkpoint");
  show->add_option("CKPT", request.checkpoint, "the checkpoint's folder")->required();
  show->add_flag("--pieces", request.pieces, "also the file and place of each piece");
  CLI::App *verify = app.add_subcommand("verify", "reads all of them and compares checksums; exit status 1 when one is damaged");
  verify->add_option("CKPT", request.checkpoints, "the checkpoints' folders")->required();
  CLI::App *diff = app.add_subcommand("diff", "the differences of two checkpoints; exit status 0: none, 1: some, 2: an error");
  diff->add_option("A", request.checkpoint, "a checkpoint's folder")->required();
  diff->add_option("B", request.second, "another one's, of any mesh")->required();
  CLI::App *convert = app.add_subcommand("convert", "writes one safetensors file of whole tensors");
  convert->add_option("CKPT", request.checkpoint, "the checkpoint's folder")->required();
  convert->add_option("-o,--output", request.output, "the file to write")->required();
  convert->add_flag("--parameters", request.parametersOnly, "without the optimizer's state and counters");
  try {
    ashlar::rt::parseCommandLine(app, argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) {
      return app.exit(error); // help
    }
    rt::printError(rt::commandLineFault(error));
    return kError;
  }
  bool found = false;
  rt::Status status;
  if (list->parsed()) {
    status = ckpt::list(request.directory);
  } else if (show->parsed()) {
    status = ckpt::show(request.checkpoint, request.pieces);
  } else if (verify->parsed()) {
    status = ckpt::verify(request.checkpoints, found);
  } else if (diff->parsed()) {
    status = ckpt::diff(request.checkpoint, request.second, found);
  } else {
    status = ckpt::convert(request.checkpoint, request.output, request.parametersOnly);
  }
  if (!status.ok()) {
    std::fflush(stdout);
    rt::printError(status.message());
    return kError;
  }
  return found ? kFound : 0;
}

} // namespace

int main(int argc, char **argv) {
  return rt::runTool(run, argc, argv, kError);
}
