// SPDX-License-Identifier: Apache-2.0
//
// ashlarc: compiles an ONNX model, and a job that says how to train it, to an executable. Only the command line is here.

#include "compiler/driver/calibrate.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/installation.h"
#include "compiler/driver/plan.h"
#include "compiler/file/process.h"
#include "compiler/plugin/plugins.h"
#include "runtime/abi/command_line.h"
#include "tools/version.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>

using ashlar::command::Emit;

namespace {

// Checks a factor of work, for CLI::Option::check().
std::string checkEffort(const std::string &text) {
  constexpr double kMost = 1e6;
  const bool isEffort = ashlar::rt::checkSeconds(text).empty() && std::stod(text) <= kMost;
  return isEffort ? "" : text + " is not a number above 0 and up to 1000000, such as 0.5 or 10";
}

// Adds the options that say what is planned or compiled.
void addCommonOptions(CLI::App &app, ashlar::command::Options &options) {
  app.add_option("model", options.model, "the model")->type_name("MODEL.onnx");
  app.add_option("--job", options.job, "the training job: loss, optimizer, devices, data (docs/jobs)")->type_name("JOB.txtpb");
  app.add_option("--target", options.target, "target of the code: cpu or cuda")->capture_default_str()->type_name("TARGET");
  app.add_option("--machine", options.machine, "file with the machine, instead of the job's (docs/machine.md)")->type_name("F.txtpb");
  app.add_option("--memory", options.memory, "memory of a device: refuse a program that does not fit")->type_name("SIZE");
  app.add_option("--search-effort", options.searchEffort,
                 "bound of the work of a search in mode AUTO, which takes the best found: 2 allows twice as much (docs/search.md)")
      ->capture_default_str()
      ->check(checkEffort)
      ->type_name("F");
  app.add_option("--search-seconds", options.searchSeconds,
                 "safety net of that search: stop after S seconds, too, and report that the result depends on the machine")
      ->capture_default_str()
      ->check(ashlar::rt::checkSeconds)
      ->type_name("S");
  app.add_flag("!--no-attention", options.joinsAttention, "leave attention as products and a softmax (docs/attention.md)");
  app.add_flag("!--no-overlap", options.overlaps, "do not overlap collectives with computation (docs/overlap.md)");
  app.add_option("--load-plugin", options.plugins, "add the ops and passes of a shared library (docs/plugins.md); may be repeated")
      ->type_name("F.so")
      ->allow_extra_args(false);
  app.add_option("--load-strategy", options.loadStrategy, "take the layouts from this file instead of inferring them")
      ->type_name("F.txtpb");
}

// Adds the subcommand that compares meshes.
CLI::App *addPlan(CLI::App &app, ashlar::driver::PlanOptions &options) {
  CLI::App *plan = app.add_subcommand("plan", "print the predicted cost of a step on other meshes, without compiling it (docs/plan.md)");
  addCommonOptions(*plan, options.common);
  plan->get_option("--memory")->description("memory of a device: mark the meshes that need more");
  auto *meshes =
      plan->add_option("--mesh", options.meshes,
                       "a mesh to plan: dp=4 or dp=4,tp=2; may be repeated; or 8: all candidates of mode AUTO (default: the job's)")
          ->type_name("AXIS=SIZE,...")
          ->allow_extra_args(false);
  auto *sweep = plan->add_flag("--sweep", options.sweeps, "plan all sizes that the axes of the job's mesh can have")->excludes(meshes);
  plan->add_option("--devices", options.devices,
                   "devices of each mesh of --sweep, with a pipeline of a stage (default: as in the job's mesh)")
      ->check(CLI::Range(1, 65536))
      ->needs(sweep);
  plan->add_option("--json", options.json, "write the table as JSON, too; - is stdout, without the text")->type_name("F.json");
  plan->add_option("--html", options.html,
                   "write the table as a page for a browser, too (docs/plan_page.md); - is stdout, without the text")
      ->type_name("F.html");
  return plan;
}

// Adds the options that measure this machine instead of compiling.
void addCalibrate(CLI::App &app, ashlar::driver::CalibrateOptions &options) {
  auto *calibrate = app.add_option("--calibrate", options.output, "measure this machine and write a file for --machine (docs/machine.md)")
                        ->type_name("F.txtpb");
  app.add_option("--ranks", options.ranks, "ranks that --calibrate measures at once (default: the cores of this host)")
      ->check(CLI::Range(1, 4096))
      ->needs(calibrate)
      ->type_name("N");
}

// Returns whether all given options are of these; else prints the error, which begins with `act`.
bool areOnly(const std::vector<const CLI::Option *> &given, std::initializer_list<llvm::StringRef> known, llvm::StringRef act) {
  for (const CLI::Option *option : given) {
    const std::string name = option->get_name();
    if (!llvm::is_contained(known, name)) {
      std::cerr << "error: " << act.str() << " and compiles nothing; leave out " << name << "\n";
      return false;
    }
  }
  return true;
}

// Adds the options of the page of the plan.
void addPage(CLI::App &app, ashlar::command::Options &options) {
  auto *html = app.add_option("--html", options.html,
                              "write a page for a browser: layouts, collectives, memory and the time of a step (docs/plan_page.md)")
                   ->type_name("F.html");
  app.add_option("--trace", options.trace, "a trace of the executable's --trace, for the page: measured tracks next to planned ones")
      ->needs(html)
      ->type_name("F.json");
  app.add_option("--compare", options.compare, "another plan's --report, for the page: both side by side")
      ->needs(html)
      ->type_name("F.json");
}

// Adds the options that plan does not have.
void addOutputs(CLI::App &app, ashlar::command::Options &options, std::string &stage) {
  app.add_option("--mesh", options.mesh, "mesh instead of the job's: dp=4 or dp=4,tp=2; or 8 devices, whose mesh mode AUTO finds")
      ->type_name("AXIS=SIZE,...");
  app.add_option("--batch", options.batch, "samples of a run, where the model leaves them open and no job gives global_batch")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31))
      ->type_name("N");
  app.add_flag("--generate", options.generates, "make a program that generates text with a decoder (docs/generate.md)");
  app.add_option("--gpu-arch", options.gpuArch, "chips to compile for, with --target cuda (default: sm_80,sm_90)")->type_name("sm_NN,...");
  app.add_option("--emit", stage, "form to stop at: nn, dist, exec, ptx, llvm, obj or exe")->capture_default_str()->type_name("STAGE");
  app.add_flag("--debug-info", options.debugInfo, "keep the debug information of the runtime in the executable");
  app.add_option("--dump-phases", options.dumpFolder, "write the module after every phase, numbered")->type_name("DIR");
  app.add_flag("--inspect", options.inspect, "print the contents of the model, and refusals, instead of compiling it (docs/onnx.md)");
  app.add_flag("--suggest-job", options.suggestJob, "print a job that trains the model, to start from, instead of compiling it");
  app.add_flag("--print-params", options.printParameters, "print the fusion id of every parameter");
  app.add_flag("--explain", options.explain, "print the cause of each collective and the layout of each parameter (docs/explain.md)");
  app.add_option("--report", options.report, "write the same as JSON")->type_name("F.json");
  addPage(app, options);
  app.add_option("--timeline", options.timeline, "draw a step of the stages of a pipeline (docs/pipeline.md)")->type_name("F.svg");
  app.add_option("--save-strategy", options.saveStrategy, "write the layout of every tensor")->type_name("F.txtpb");
  app.add_option("--save-order", options.saveOrder,
                 "write the order of a pipeline's stages, in the format of pipeline.order (docs/pipeline.md)")
      ->type_name("F.txt");
  app.add_option("--annotate", options.annotated, "write the model with the layouts of all tensors as ONNX's multi-device annotations")
      ->type_name("F.onnx");
  app.add_option("-o", options.output, "the file to write; - is stdout")->type_name("OUT");
}

// Takes the stage of --emit. Returns why what is asked for cannot be written; empty where it can.
std::string checkOutputs(ashlar::command::Options &options, const std::string &stage) {
  const std::map<std::string, Emit> stages = {{"nn", Emit::Nn},     {"dist", Emit::Dist}, {"exec", Emit::Exec}, {"ptx", Emit::Ptx},
                                              {"llvm", Emit::Llvm}, {"obj", Emit::Obj},   {"exe", Emit::Exe}};
  auto found = stages.find(stage);
  if (found == stages.end()) {
    return "--emit " + stage + " is not a stage; the stages are nn, dist, exec, ptx, llvm, obj and exe";
  }
  options.emit = found->second;
  bool hasOther = options.printParameters || options.explain || !options.report.empty() || !options.html.empty() ||
                  !options.saveStrategy.empty() || !options.saveOrder.empty() || !options.annotated.empty() || !options.timeline.empty();
  bool isAboutModel = options.inspect || options.suggestJob;
  if (isAboutModel && (hasOther || !options.output.empty() || (options.inspect && options.suggestJob))) {
    const std::string name = options.inspect ? "--inspect" : "--suggest-job";
    return name + " prints to stdout and compiles nothing; leave out other outputs";
  }
  if (options.output.empty() && !hasOther && !isAboutModel) {
    return "no output file; name one by -o OUT";
  }
  if (options.output == "-" && (options.emit == Emit::Obj || options.emit == Emit::Exe)) {
    return "--emit " + stage + " cannot write to stdout; name a file by -o OUT";
  }
  if (options.debugInfo && (options.emit != Emit::Exe || options.output.empty())) {
    return "--debug-info is for an executable, and none is written; leave it out";
  }
  bool textToStdout = options.printParameters || options.explain;
  bool isOneOutput = textToStdout + (options.output == "-") + (options.report == "-") + (options.html == "-") +
                         (options.saveStrategy == "-") + (options.saveOrder == "-") + (options.annotated == "-") +
                         (options.timeline == "-") <=
                     1;
  return isOneOutput ? "" : "two outputs go to stdout; name a file for all but one";
}

int run(int argc, char **argv) {
  ashlar::command::Options options;
  std::string stage = "exe";
  CLI::App app("Compiles an ONNX model to an executable: with a job, one that trains it; without, one that runs it.", "ashlarc");
  app.set_version_flag("--version", ashlar::tools::versionOf("ashlarc") + ashlar::driver::versionDetails());
  bool printsPaths = false;
  app.add_flag("--print-paths", printsPaths, "print the files that a compilation takes: runtime, linker, CUDA's tools");
  addCommonOptions(app, options);
  addOutputs(app, options, stage);
  ashlar::driver::CalibrateOptions calibrateOptions;
  addCalibrate(app, calibrateOptions);
  ashlar::driver::PlanOptions planOptions;
  CLI::App *plan = addPlan(app, planOptions);
  try {
    ashlar::rt::parseCommandLine(app, argc, argv);
  } catch (const CLI::CallForHelp &) {
    std::cout << (plan->parsed() ? plan : &app)->help();
    return 0;
  } catch (const CLI::CallForVersion &version) {
    std::cout << version.what() << "\n";
    return 0;
  } catch (const CLI::ParseError &error) {
    std::cerr << "error: " << ashlar::rt::commandLineFault(error) << "\n";
    return 1;
  }
  auto isGiven = [](const CLI::Option *option) { return option->count() > 0; };
  const std::vector<const CLI::Option *> given = std::as_const(app).get_options(isGiven);
  if (plan->parsed() && !given.empty()) {
    std::cerr << "error: " << given.front()->get_name() << " stands before plan; the options of plan come after it\n";
    return 1;
  }
  if (printsPaths) {
    return areOnly(given, {"--print-paths"}, "--print-paths prints the files of a compilation") ? ashlar::driver::printPaths() : 1;
  }
  if (!calibrateOptions.output.empty()) {
    calibrateOptions.target = options.target;
    return areOnly(given, {"--calibrate", "--ranks", "--target"}, "--calibrate measures this machine")
               ? ashlar::driver::calibrate(calibrateOptions)
               : 1;
  }
  if ((plan->parsed() ? planOptions.common : options).model.empty()) { // not required(), which a subcommand would not change
    std::cerr << "error: model is required; --help lists the options\n";
    return 1;
  }
  if (llvm::Error error = ashlar::plugin::load((plan->parsed() ? planOptions.common : options).plugins)) {
    std::cerr << "error: " << llvm::toString(std::move(error)) << "\n";
    return 1;
  }
  if (plan->parsed()) {
    return ashlar::driver::plan(planOptions);
  }
  if (std::string fault = checkOutputs(options, stage); !fault.empty()) {
    std::cerr << "error: " << fault << "\n";
    return 1;
  }
  return ashlar::driver::compile(options);
}

} // namespace

int main(int argc, char **argv) {
  ashlar::file::prepareProcess();
  return ashlar::file::finishProcess(run(argc, argv));
}
