// SPDX-License-Identifier: Apache-2.0
//
// Which meshes there are to plan, and the table.

#include "compiler/driver/plan.h"

#include "compiler/command/diagnostics.h"
#include "compiler/command/input.h"
#include "compiler/file/output_file.h"
#include "compiler/planning/candidate_jobs.h"
#include "compiler/planning/mesh_search.h"
#include "compiler/report/page/plan_page.h"
#include "compiler/report/units.h"

#include "llvm/Support/Path.h"

using namespace mlir;

namespace ashlar::driver {
namespace {

using llvm::createStringError;

constexpr size_t kMostMeshes = 1000;

class Planning {
public:
  Planning(const PlanOptions &options, command::Input input)
      : options(options), context(MLIRContext::Threading::DISABLED), printer(&context), input(std::move(input)) {
    context.printOpOnDiagnostic(false);
  }

  LogicalResult run() {
    llvm::Expected<std::vector<job::Mesh>> meshes = listMeshes();
    if (!meshes) {
      return command::report(meshes.takeError());
    }
    if (llvm::any_of(*meshes, [](const job::Mesh &mesh) { return mesh.has_devices(); })) {
      return planSearched(*meshes);
    }
    std::vector<planning::Candidate> candidates = checkMeshes(*meshes);
    auto first = llvm::find_if(candidates, [](const planning::Candidate &each) { return each.row.refusal.empty(); });
    if (first == candidates.end()) {
      return command::report(planning::refuseAll(candidates));
    }
    if (llvm::Error error = checkJob(first->job)) {
      return command::report(std::move(error));
    }
    if (failed(forecaster.train(first->job))) { // what is wrong with the model is no refusal of a mesh
      return failure();
    }
    for (planning::Candidate &each : candidates) {
      if (each.row.refusal.empty()) {
        planMesh(each);
      }
    }
    const bool isStopped =
        llvm::any_of(candidates, [](const planning::Candidate &each) { return each.row.forecast && each.row.forecast->isStopped; });
    return write({std::move(candidates), /*left=*/0, isStopped});
  }

private:
  llvm::Expected<std::vector<job::Mesh>> listMeshes() {
    std::vector<job::Mesh> meshes;
    for (const std::string &text : options.meshes) {
      llvm::Expected<job::Mesh> mesh = job::parseMesh(text);
      if (!mesh) {
        return mesh.takeError();
      }
      meshes.push_back(*mesh);
    }
    if (!options.sweeps) {
      return meshes.empty() ? std::vector<job::Mesh>{input.job.mesh()} : meshes;
    }
    const job::Mesh &own = input.job.mesh();
    if (own.has_devices()) {
      return createStringError(
          "--sweep gives the axes of the job's mesh other sizes, and mesh.devices has them searched; leave out --sweep");
    }
    if (own.axes().empty()) {
      return createStringError("--sweep gives the axes of the job's mesh other sizes, and the job has none; add "
                               "mesh { axes { name: \"dp\" size: 4 } }");
    }
    const int64_t devices = options.devices != 0 ? options.devices : job::numDevices(input.job);
    std::vector<std::vector<int64_t>> sizes = planning::factorise(devices, own.axes_size());
    if (sizes.size() > kMostMeshes) {
      return createStringError("--sweep of " + std::to_string(devices) + " devices over " + std::to_string(own.axes_size()) + " axes has " +
                               std::to_string(sizes.size()) + " meshes, and at most " + std::to_string(kMostMeshes) +
                               " are planned; name some by --mesh");
    }
    for (const std::vector<int64_t> &each : sizes) {
      job::Mesh &mesh = meshes.emplace_back();
      for (auto [axis, size] : llvm::zip_equal(own.axes(), each)) {
        job::Mesh::Axis &copy = *mesh.add_axes();
        copy.set_name(axis.name());
        copy.set_size(size);
      }
    }
    return meshes;
  }

  // Plans what a search for the mesh looks at.
  LogicalResult planSearched(ArrayRef<job::Mesh> meshes) {
    if (meshes.size() > 1) {
      return command::report(
          createStringError("--mesh with a number of devices has their axes searched, and stands alone; leave out the others"));
    }
    *input.job.mutable_mesh() = meshes.front();
    if (llvm::Error error = command::checkInput(options.common, input.job, input)) {
      return command::report(std::move(error));
    }
    if (llvm::Error error = checkJob(input.job)) {
      return command::report(std::move(error));
    }
    return write(planning::searchMeshes(options.common, input, forecaster, context));
  }

  // Returns a candidate for each mesh, with what the job has against it.
  std::vector<planning::Candidate> checkMeshes(ArrayRef<job::Mesh> meshes) {
    std::vector<planning::Candidate> candidates;
    for (const job::Mesh &mesh : meshes) {
      planning::Candidate &each = candidates.emplace_back();
      each.job = input.job;
      if (mesh.axes().empty()) {
        each.job.clear_mesh();
      } else {
        *each.job.mutable_mesh() = mesh;
      }
      each.row = planning::makeRow(each.job);
      if (llvm::Error error = command::checkInput(options.common, each.job, input)) {
        each.row.refusal = llvm::toString(std::move(error));
      }
    }
    return candidates;
  }

  // What is said of one mesh only.
  static llvm::Error checkJob(const job::Job &job) {
    if (job::effectiveMode(job) == job::HYBRID) {
      return createStringError(
          "plan gives a model other meshes, and in mode HYBRID it is the program of one device of the job's; compile it");
    }
    if (job.has_device_configuration()) {
      return createStringError("plan gives a model other meshes, and device_configuration takes the model's own; leave it out");
    }
    if (job.deterministic().always()) {
      return createStringError("plan is about the default variant, and deterministic.always leaves it out; leave out one of the two");
    }
    return llvm::Error::success();
  }

  // What is wrong with the job on this mesh becomes its refusal.
  void planMesh(planning::Candidate &candidate) {
    command::FirstError error(&context);
    search::Effort effort(search::Effort::unitsOf(options.common.searchEffort), options.common.searchSeconds);
    FailureOr<planning::Forecast> found = forecaster.forecast(candidate.job, effort);
    if (succeeded(found)) {
      candidate.row.forecast = std::move(*found);
    } else {
      candidate.row.refusal = error.text();
    }
  }

  LogicalResult write(planning::FoundMeshes found) {
    std::vector<planning::Candidate> &candidates = found.candidates;
    auto known = llvm::find_if(candidates, [](const planning::Candidate &each) { return each.row.forecast.has_value(); });
    if (known == candidates.end()) {
      return command::report(planning::refuseAll(candidates));
    }
    FailureOr<ModuleOp> model = forecaster.import(known->job); // it was imported already
    planning::PlanTable table{model->getName().value_or(llvm::sys::path::stem(options.common.model)).str(),
                              options.common.target,
                              input.memoryLimit,
                              {},
                              found.left,
                              found.estimated};
    if (found.isStopped) {
      table.stoppedSeconds = options.common.searchSeconds;
      emitWarning(UnknownLoc::get(&context), report::stoppedText(options.common.searchSeconds));
    }
    for (planning::Candidate &each : candidates) {
      table.meshes.push_back(std::move(each.row));
    }
    table.sort();
    if (options.json != "-" && options.html != "-") {
      llvm::outs() << planning::planTableText(table);
      llvm::outs().flush();
    }
    return writeFiles(table);
  }

  LogicalResult writeFiles(const planning::PlanTable &table) {
    const std::string json = planning::planTableJson(table);
    if (!options.json.empty() && failed(command::report(file::writeOutput(options.json, [&](llvm::raw_ostream &out) { out << json; })))) {
      return failure();
    }
    return options.html.empty() ? success() : command::report(file::writeOutput(options.html, [&](llvm::raw_ostream &out) {
      out << report::planPage(table.model, {{"plan", json}});
    }));
  }

  const PlanOptions &options;
  MLIRContext context;
  command::DiagnosticPrinter printer;
  command::Input input;
  planning::JobForecaster forecaster{options.common, input, context};
};

} // namespace

int plan(const PlanOptions &options) {
  llvm::Expected<command::Input> input = command::readUnchecked(options.common);
  llvm::Error error = input ? llvm::Error::success() : input.takeError();
  if (!error && options.json == "-" && options.html == "-") {
    error = createStringError("two outputs go to stdout; name a file for all but one");
  }
  for (const auto &[role, path] : {std::pair<StringRef, StringRef>{"--json", options.json}, {"--html", options.html}}) {
    if (!error) {
      error = file::checkOutput(path);
    }
    if (!error) {
      error = input->files.addOutput(role, path);
    }
  }
  LogicalResult done = error ? command::report(std::move(error)) : Planning(options, std::move(*input)).run();
  return succeeded(done) ? 0 : 1;
}

} // namespace ashlar::driver
