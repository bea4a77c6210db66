// SPDX-License-Identifier: Apache-2.0
//
// ashlar-sim EXECUTABLE ...: simulates a step of all ranks of a compiled program (docs/simulate.md). Exit status: 0; 1 after an error.

#include "runtime/abi/command_line.h"
#include "runtime/base/output_file.h"
#include "runtime/base/process.h"
#include "runtime/comm/mesh.h"
#include "runtime/simulate/executable_file.h"
#include "runtime/simulate/report.h"
#include "tools/ashlar_sim/faults.h"
#include "tools/ashlar_sim/other_machine.h"
#include "tools/ashlar_sim/simulated_trace.h"
#include "tools/version.h"

#include <CLI/CLI.hpp>

#include <cstdio>

using namespace ashlar;

namespace {

constexpr double kPsPerSecond = 1e12;

struct Request {
  std::string executable, machine, ranks, trace, json;
  std::vector<std::string> faults;
  double dataRate = 0; // samples a second; 0: data is always there
  uint64_t checkpointEvery = 0;
  rt::FailureModel model;
  bool hasRestart = false;
};

// Checks a number, for CLI::Option::check().
std::string checkPositive(const std::string &text) {
  return rt::checkSeconds(text).empty() ? "" : text + " is not a number above 0, such as 0.5 or 1000";
}

// Checks that the program can be simulated, and fills its tables.
rt::Status readTables(const Request &request, const ashlar_rt_image &image, rt::StepTables &tables) {
  ASHLAR_RETURN_IF_ERROR(tables.stages.check(image.num_variants));
  if (tables.stages[0].devices_per_process != 1) {
    return rt::invalid("{}: its ranks have {} devices each, and ranks of one device are simulated; compile it without --deterministic",
                       request.executable, tables.stages[0].devices_per_process);
  }
  rt::StepRuns runs;
  uint64_t microBatches = 1;
  ASHLAR_RETURN_IF_ERROR(rt::readStepRuns(image, tables.stages, runs, microBatches));
  ASHLAR_RETURN_IF_ERROR(rt::makeStepTables(std::move(runs), microBatches, tables));
  uint64_t predicted = 0;
  for (uint32_t stage = 0; stage < tables.stages.size(); ++stage) {
    for (const ashlar_rt_run &run : tables.runs[stage]) {
      predicted += tables.stages[stage].programs[run.program].predicted_ns;
    }
  }
  return predicted != 0 ? rt::Status() : rt::invalid("{}: has no predicted times, so there is nothing to simulate", request.executable);
}

// Adds the loss of a rank: the step in which it stops, and the costs.
rt::Status addLoss(const Request &request, const sim::LostRank &lost, const rt::StepTables &tables, const rt::SimulatedMachine &machine,
                   rt::SimulationOptions options, rt::SimulationReport &report) {
  const ashlar_rt_training *training = report.image->training;
  const uint64_t every = request.checkpointEvery != 0 || training == nullptr ? request.checkpointEvery : training->checkpoint_every;
  if (every == 0 || request.model.saveSeconds == 0 || !request.hasRestart) {
    return rt::invalid("--fault lost-rank={}@{}: the run goes on from a checkpoint; give {}", lost.rank, lost.step,
                       every == 0                       ? "--checkpoint-every STEPS"
                       : request.model.saveSeconds == 0 ? "--checkpoint-seconds S"
                                                        : "--restart-seconds S");
  }
  options.faults.lostRank = lost.rank;
  options.tracedRanks.clear();
  report.lost = rt::LostRank{lost.rank, lost.step, every, request.model, rt::Simulation()};
  return rt::simulateSteps(tables, machine, options, report.lost->standstill);
}

rt::Status writeOutputs(const Request &request, const rt::SimulationReport &report, const std::vector<uint32_t> &traced,
                        rt::OutputFile &trace, rt::OutputFile &json) {
  if (trace.isOpen()) {
    ASHLAR_RETURN_IF_ERROR(sim::writeSimulatedTrace(*report.image, *report.tables, *report.simulation, traced, trace));
  }
  const std::string jsonText = request.json.empty() ? "" : rt::simulationJson(report);
  if (json.isOpen()) {
    ASHLAR_RETURN_IF_ERROR(json.write(jsonText.data(), jsonText.size()));
    ASHLAR_RETURN_IF_ERROR(json.commit());
  }
  const std::string text = request.json == "-" ? jsonText : rt::simulationText(report);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return rt::Status();
}

rt::Status simulate(const Request &request) {
  rt::ExecutableFile executable;
  ASHLAR_RETURN_IF_ERROR(rt::ExecutableFile::open(request.executable, executable));
  rt::FileRoles files;
  files.addInput("the executable", request.executable);
  files.addInput("the machine of --machine", request.machine);
  files.addOutput("--trace", request.trace);
  files.addOutput("--json", request.json);
  ASHLAR_RETURN_IF_ERROR(checkFiles(files));
  const ashlar_rt_image &image = executable.image();
  rt::StepTables tables{rt::Stages(image.variants[0])};
  ASHLAR_RETURN_IF_ERROR(readTables(request, image, tables));
  const uint32_t ranks = static_cast<uint32_t>(rt::Mesh(tables.stages[0]).processes()) * tables.stages.size();
  rt::SimulationReport report = {&image, &tables, nullptr, {}, {}, {}, {}};
  rt::SimulatedMachine machine = rt::plannedMachine(tables.stages);
  if (!request.machine.empty()) {
    ASHLAR_RETURN_IF_ERROR(sim::readOtherMachine(request.machine, image, tables.stages, machine, report.notes));
  }
  rt::SimulationOptions options;
  std::optional<sim::LostRank> lost;
  ASHLAR_RETURN_IF_ERROR(sim::readFaults(request.faults, tables.stages, machine, ranks, options.faults, lost));
  if (!request.ranks.empty()) {
    ASHLAR_RETURN_IF_ERROR(sim::readRanks(request.ranks, ranks, report.ranks));
  }
  if (request.dataRate != 0) {
    if (image.training == nullptr) {
      return rt::invalid("--data-rate: {} does not train, so it takes no batches; leave it out", request.executable);
    }
    options.batchPs = static_cast<uint64_t>(static_cast<double>(image.training->global_batch) / request.dataRate * kPsPerSecond);
  }
  rt::OutputFile trace, json;
  if (!request.trace.empty()) {
    ASHLAR_RETURN_IF_ERROR(trace.create(request.trace));
  }
  if (!request.json.empty() && request.json != "-") {
    ASHLAR_RETURN_IF_ERROR(json.create(request.json));
  }
  rt::Simulation simulation, planned;
  if (request.faults.size() > (lost ? 1 : 0)) { // a lost rank changes no step that ends
    rt::SimulationOptions without = options;
    without.faults = rt::SimulatedFaults();
    ASHLAR_RETURN_IF_ERROR(rt::simulateSteps(tables, machine, without, planned));
    report.plannedPs = planned.endPs;
  }
  std::vector<uint32_t> traced = report.ranks;
  if (traced.empty()) { // the first rank of each stage
    for (uint32_t stage = 0; stage < tables.stages.size(); ++stage) {
      traced.push_back(stage * ranks / tables.stages.size());
    }
  }
  options.tracedRanks = trace.isOpen() ? traced : std::vector<uint32_t>();
  ASHLAR_RETURN_IF_ERROR(rt::simulateSteps(tables, machine, options, simulation));
  report.simulation = &simulation;
  if (lost) {
    ASHLAR_RETURN_IF_ERROR(addLoss(request, *lost, tables, machine, options, report));
  }
  return writeOutputs(request, report, traced, trace, json);
}

int run(int argc, char **argv) {
  CLI::App app("Simulates a step of all ranks of a compiled program.", "ashlar-sim");
  app.set_version_flag("--version", ashlar::tools::versionOf("ashlar-sim"));
  Request request;
  app.add_option("EXECUTABLE", request.executable, "output of ashlarc; it is read, not run")->required();
  app.add_option("--machine", request.machine, "file with the machine, instead of the one it was compiled for (docs/machine.md)")
      ->type_name("F.txtpb");
  app.add_option("--ranks", request.ranks, "ranks with a line and a trace each: all, or a list such as 0,8-15; default: a line a class")
      ->type_name("LIST");
  app.add_option("--trace", request.trace, "write the events of --ranks, or of a rank of each stage, for ui.perfetto.dev")
      ->type_name("F.json");
  app.add_option("--json", request.json, "write the report as JSON, too; - writes only that, to stdout")->type_name("F.json");
  app.add_option("--data-rate", request.dataRate, "samples that the data feed delivers per second, for the whole job; default: no limit")
      ->check(checkPositive)
      ->type_name("SAMPLES");
  app.add_option("--fault", request.faults, "slow-rank=RANK:FACTOR, slow-link=AXIS_OR_CLASS:FACTOR or lost-rank=RANK@STEP; may be repeated")
      ->type_name("FAULT")
      ->allow_extra_args(false);
  app.add_option("--checkpoint-every", request.checkpointEvery, "steps between checkpoints; default: that of the job")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40))
      ->type_name("STEPS");
  app.add_option("--checkpoint-seconds", request.model.saveSeconds, "seconds that a checkpoint stops the run")
      ->check(rt::checkSeconds)
      ->type_name("S");
  CLI::Option *restart = app.add_option("--restart-seconds", request.model.restartSeconds, "seconds from a failure until steps run again")
                             ->check(rt::checkSeconds)
                             ->type_name("S");
  app.add_option("--failures-per-day", request.model.failuresPerDay, "failures of the whole job a day, for its goodput")
      ->check(checkPositive)
      ->type_name("N");
  try {
    rt::parseCommandLine(app, argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) {
      return app.exit(error); // help
    }
    rt::printError(rt::commandLineFault(error));
    return 1;
  }
  request.hasRestart = restart->count() > 0;
  const rt::Status status = simulate(request);
  if (!status.ok()) {
    rt::printError(status.message());
    return 1;
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  return rt::runTool(run, argc, argv, 1);
}
