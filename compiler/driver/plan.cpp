// SPDX-License-Identifier: Apache-2.0
//
// The model is imported and made to train once; each mesh gets a copy of it, and layouts of its own.

#include "compiler/driver/plan.h"

#include "compiler/driver/diagnostics.h"
#include "compiler/driver/input.h"
#include "compiler/driver/plan_table.h"
#include "compiler/driver/recompute_search.h"
#include "compiler/file/output_file.h"
#include "compiler/frontend/import.h"
#include "compiler/frontend/init_rules.h"
#include "dialects/dist/recompute_rules.h"
#include "dialects/exec/exec.h"

#include "llvm/Support/Path.h"

#include <map>

using namespace mlir;

namespace ashlar::driver {
namespace {

using llvm::createStringError;

constexpr size_t kMostMeshes = 1000;

// A mesh with the job that has it.
struct Candidate {
  job::Job job;
  PlannedMesh row;
};

class Planning {
public:
  Planning(const PlanOptions &options, Input input)
      : options(options), context(MLIRContext::Threading::DISABLED), printer(&context), input(std::move(input)) {
    context.printOpOnDiagnostic(false);
  }

  LogicalResult run() {
    llvm::Expected<std::vector<job::Mesh>> meshes = listMeshes();
    if (!meshes) {
      return report(meshes.takeError());
    }
    std::vector<Candidate> candidates = checkMeshes(*meshes);
    auto first = llvm::find_if(candidates, [](const Candidate &each) { return each.row.refusal.empty(); });
    if (first == candidates.end()) {
      return refuse(candidates);
    }
    if (llvm::Error error = checkJob(first->job)) {
      return report(std::move(error));
    }
    if (failed(import(first->job))) {
      return failure();
    }
    for (Candidate &each : candidates) {
      if (each.row.refusal.empty() && failed(planMesh(each))) {
        return failure();
      }
    }
    if (llvm::none_of(candidates, [](const Candidate &each) { return each.row.forecast.has_value(); })) {
      return refuse(candidates);
    }
    return write(std::move(candidates));
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
    if (own.axes().empty()) {
      return createStringError("--sweep gives the axes of the job's mesh other sizes, and the job has none; add "
                               "mesh { axes { name: \"dp\" size: 4 } }");
    }
    const int64_t devices = options.devices != 0 ? options.devices : job::numDevices(input.job);
    std::vector<std::vector<int64_t>> sizes = factorise(devices, own.axes_size());
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

  // Returns a candidate for each mesh, with what the job has against it.
  std::vector<Candidate> checkMeshes(ArrayRef<job::Mesh> meshes) {
    std::vector<Candidate> candidates;
    for (const job::Mesh &mesh : meshes) {
      Candidate &each = candidates.emplace_back();
      each.job = input.job;
      if (mesh.axes().empty()) {
        each.job.clear_mesh();
      } else {
        *each.job.mutable_mesh() = mesh;
      }
      for (const job::Mesh::Axis &axis : mesh.axes()) {
        each.row.axes.push_back({axis.name(), axis.size()});
      }
      if (llvm::Error error = checkInput(options.common, each.job, input)) {
        each.row.refusal = llvm::toString(std::move(error));
        continue;
      }
      each.row.devices = job::numDevices(each.job) * (each.job.has_pipeline() ? each.job.pipeline().stages() : 1);
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
      return createStringError("plan gives a model other meshes, and device_configuration takes that of the model; leave it out");
    }
    if (job.deterministic().always()) {
      return createStringError("plan is about the default variant, and deterministic.always leaves it out; leave out one of the two");
    }
    return llvm::Error::success();
  }

  static LogicalResult refuse(ArrayRef<Candidate> candidates) {
    const std::string &reason = candidates.front().row.refusal;
    const size_t others = candidates.size() - 1;
    return report(createStringError(
        reason + (others == 0 ? "" : "; and no other of the " + std::to_string(candidates.size()) + " meshes can be, either")));
  }

  LogicalResult import(const job::Job &job) {
    frontend::ImportOptions importOptions = frontend::makeImportOptions(job);
    importOptions.checkDataFile = [this](StringRef path) { return input.files.addInput("external data of the model,", path); };
    llvm::Expected<OwningOpRef<ModuleOp>> module = frontend::importOnnx(options.common.model, importOptions, &context);
    if (!module) {
      return report(module.takeError());
    }
    imported = std::move(*module);
    return success();
  }

  // Returns the programs of a job on global shapes. Of all that jobs differ in here, batch normalization alone knows the mesh.
  FailureOr<ModuleOp> train(const job::Job &job) {
    const int64_t replicas = job.batch_norm() == job::BatchNorm::PER_REPLICA ? job::batchReplicas(job) : 1;
    OwningOpRef<ModuleOp> &module = trained[replicas];
    if (!module) {
      module = imported->clone();
      PassManager passes(&context);
      pipelines::attachSettings(*module, job);
      pipelines::addTrainPasses(passes, job);
      if (failed(passes.run(*module))) {
        return failure();
      }
    }
    return *module;
  }

  // Fails where the model cannot be trained on any mesh; what is wrong with this one becomes its refusal.
  LogicalResult planMesh(Candidate &candidate) {
    const job::Job &job = candidate.job;
    FailureOr<ModuleOp> programs = train(job);
    if (failed(programs)) {
      return failure();
    }
    FirstError error(&context);
    pipelines::Variant variant = pipelines::listVariants(job, input.target->kind()).variants.front();
    variant.overlaps = options.common.overlaps;
    if (variant.search) {
      variant.search->memoryLimit = input.memoryLimit;
      variant.search->seconds = options.common.searchSeconds;
    }
    OwningOpRef<ModuleOp> module = programs->clone();
    FailureOr<Forecast> found = failure();
    if (succeeded(pipelines::inferLayouts(*module, variant, job)) && succeeded(chooseRecompute(*module, variant, job)) &&
        succeeded(found = forecast(*module, variant, job))) {
      candidate.row.forecast = std::move(*found);
    } else {
      candidate.row.refusal = error.text();
    }
    return success();
  }

  // Decides how much is computed again, by what would be needed then.
  LogicalResult chooseRecompute(ModuleOp module, pipelines::Variant &variant, const job::Job &job) {
    if (job.recompute() != job::Recompute::AUTO) {
      return success();
    }
    FailureOr<int64_t> moves = findLeastMoves(input.memoryLimit, [&](int64_t count) -> FailureOr<RecomputeTrial> {
      variant.recomputeMoves = count;
      OwningOpRef<ModuleOp> trial = module.clone();
      FailureOr<Forecast> found = forecast(*trial, variant, job);
      if (failed(found)) {
        return failure();
      }
      return RecomputeTrial{found->memory.bytes(), found->recomputeMoves};
    });
    variant.recomputeMoves = succeeded(moves) ? *moves : 0;
    return success(succeeded(moves));
  }

  LogicalResult write(std::vector<Candidate> candidates) {
    PlanTable table{
        imported->getName().value_or(llvm::sys::path::stem(options.common.model)).str(), options.common.target, input.memoryLimit, {}};
    for (Candidate &each : candidates) {
      table.meshes.push_back(std::move(each.row));
    }
    table.sort();
    if (options.json != "-") {
      llvm::outs() << planTableText(table);
      llvm::outs().flush();
    }
    return options.json.empty() ? success()
                                : report(file::writeOutput(options.json, [&](llvm::raw_ostream &out) { out << planTableJson(table); }));
  }

  const PlanOptions &options;
  MLIRContext context;
  DiagnosticPrinter printer;
  Input input;
  OwningOpRef<ModuleOp> imported;
  std::map<int64_t, OwningOpRef<ModuleOp>> trained; // by the replicas of batch normalizations
};

} // namespace

std::vector<std::vector<int64_t>> factorise(int64_t devices, size_t axes) {
  if (axes == 0) {
    return devices == 1 ? std::vector<std::vector<int64_t>>{{}} : std::vector<std::vector<int64_t>>();
  }
  std::vector<std::vector<int64_t>> lists;
  for (int64_t size = devices; size >= 1; --size) {
    if (devices % size != 0 || (axes == 1 && size != devices)) {
      continue;
    }
    for (std::vector<int64_t> &rest : factorise(devices / size, axes - 1)) {
      rest.insert(rest.begin(), size);
      lists.push_back(std::move(rest));
    }
  }
  return lists;
}

int plan(const PlanOptions &options) {
  llvm::Expected<Input> input = readUnchecked(options.common);
  llvm::Error error = input ? llvm::Error::success() : input.takeError();
  if (!error) {
    error = file::checkOutput(options.json);
  }
  if (!error) {
    error = input->files.addOutput("--json", options.json);
  }
  LogicalResult done = error ? report(std::move(error)) : Planning(options, std::move(*input)).run();
  return succeeded(done) ? 0 : 1;
}

} // namespace ashlar::driver
