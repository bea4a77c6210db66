// SPDX-License-Identifier: Apache-2.0
//
// Forecasts -> text and JSON.

#include "compiler/planning/plan_table.h"

#include "compiler/report/json_parts.h"
#include "compiler/report/units.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using llvm::formatv;

namespace ashlar::planning {
namespace {

using llvm::json::OStream;

std::string meshText(const PlannedMesh &mesh) {
  auto axis = [](const pipelines::Axis &each) { return each.name + "=" + std::to_string(each.size); };
  return mesh.axes.empty() ? "one device" : llvm::join(llvm::map_range(mesh.axes, axis), ",");
}

const lower::MemoryPart &largestPart(const lower::MemoryUse &memory) {
  return *llvm::max_element(memory.parts, [](const auto &a, const auto &b) { return a.bytes < b.bytes; });
}

// What rows differ in: columns that are there only where a row has something to say.
struct Columns {
  bool stages, microBatches, levels, recomputes, bubble;

  explicit Columns(const PlanTable &table)
      : stages(llvm::any_of(table.meshes, [](const PlannedMesh &mesh) { return mesh.stages > 1; })),
        microBatches(llvm::any_of(table.meshes, [](const PlannedMesh &mesh) { return mesh.microBatches > 1; })),
        levels(llvm::any_of(table.meshes, [](const PlannedMesh &mesh) { return mesh.level > 0; })),
        recomputes(llvm::any_of(table.meshes, [](const PlannedMesh &mesh) { return mesh.recomputes; })),
        bubble(llvm::any_of(table.meshes, [](const PlannedMesh &mesh) { return mesh.forecast && mesh.forecast->bubble; })) {}
};

std::vector<std::string> headOf(const Columns &columns) {
  std::vector<std::string> cells = {"mesh", "devices"};
  auto add = [&](bool isThere, std::initializer_list<const char *> names) {
    cells.insert(cells.end(), isThere ? names.begin() : names.end(), names.end());
  };
  add(columns.stages, {"stages"});
  add(columns.microBatches, {"micro-batches"});
  add(columns.levels, {"level"});
  add(columns.recomputes, {"recompute"});
  add(true, {"step", "compute", "exposed", "sent", "memory", "most of it"});
  add(columns.bubble, {"bubble"});
  add(true, {""});
  return cells;
}

std::string stagesText(const PlannedMesh &mesh) {
  return std::to_string(mesh.stages) + (mesh.schedule.empty() ? "" : " " + mesh.schedule);
}

std::vector<std::string> cellsOf(const PlanTable &table, const PlannedMesh &mesh, const Columns &columns) {
  std::vector<std::string> cells = {meshText(mesh), std::to_string(mesh.devices)};
  auto add = [&](bool isThere, std::string text) { cells.insert(cells.end(), isThere ? 1 : 0, std::move(text)); };
  add(columns.stages, stagesText(mesh));
  add(columns.microBatches, std::to_string(mesh.microBatches));
  add(columns.levels, mesh.level > 0 ? std::to_string(mesh.level) : "");
  add(columns.recomputes, mesh.recomputes ? "AUTO" : "");
  if (!mesh.forecast) {
    cells.resize(headOf(columns).size() - 1, "-");
    cells.push_back(mesh.refusal);
    return cells;
  }
  const Forecast &forecast = *mesh.forecast;
  const lower::MemoryPart &part = largestPart(forecast.memory);
  const bool fits = table.fits(mesh);
  const auto [memory, limit] = report::comparedBytes(forecast.memory.bytes(), fits ? 0 : table.memoryLimit);
  llvm::append_range(cells, std::vector<std::string>{report::timeText(forecast.stepPs), report::timeText(forecast.computePs),
                                                     report::timeText(forecast.exposedPs), report::bytesText(forecast.bytesSent), memory,
                                                     report::bytesText(part.bytes) + " " + part.name});
  add(columns.bubble, forecast.bubble ? formatv("{0:F1} %", *forecast.bubble * 100).str() : "-");
  cells.push_back(fits ? "" : "above " + limit);
  return cells;
}

double nanoseconds(int64_t timePs) {
  return static_cast<double>(timePs) / 1000;
}

void writeMesh(OStream &out, const PlanTable &table, const PlannedMesh &mesh) {
  out.attributeArray("mesh", [&] {
    for (const pipelines::Axis &axis : mesh.axes) {
      out.object([&] {
        out.attribute("axis", axis.name);
        out.attribute("size", axis.size);
      });
    }
  });
  out.attribute("devices", mesh.devices);
  if (mesh.stages > 1) {
    out.attribute("stages", mesh.stages);
    out.attribute("schedule", mesh.schedule);
  }
  out.attribute("micro_batches", mesh.microBatches);
  out.attribute("level", mesh.level);
  out.attribute("recompute", mesh.recomputes);
  if (!mesh.forecast) {
    return out.attribute("refusal", report::jsonText(mesh.refusal));
  }
  const Forecast &forecast = *mesh.forecast;
  out.attribute("step_ns", nanoseconds(forecast.stepPs));
  out.attribute("compute_ns", nanoseconds(forecast.computePs));
  out.attribute("communication_ns", nanoseconds(forecast.sendPs));
  out.attribute("exposed_ns", nanoseconds(forecast.exposedPs));
  out.attribute("bytes_sent", forecast.bytesSent);
  if (forecast.bubble) {
    out.attribute("bubble", *forecast.bubble);
  }
  out.attributeObject("memory", [&] { report::writeMemory(out, forecast.memory); });
  out.attribute("fits", table.fits(mesh));
}

} // namespace

std::string meshName(const PlannedMesh &mesh) {
  std::string name = meshText(mesh);
  name += mesh.stages > 1 ? ", " + std::to_string(mesh.stages) + " stages " + mesh.schedule : "";
  name += mesh.microBatches > 1 ? ", " + std::to_string(mesh.microBatches) + " micro-batches" : "";
  name += mesh.level > 0 ? ", level " + std::to_string(mesh.level) : "";
  return name + (mesh.recomputes ? ", recompute AUTO" : "");
}

void PlanTable::sort() {
  std::multimap<std::pair<int, int64_t>, PlannedMesh> sorted; // equal ones stay in their order
  for (PlannedMesh &mesh : meshes) {
    std::pair<int, int64_t> place(fits(mesh) ? 0 : mesh.forecast ? 1 : 2, mesh.forecast ? mesh.forecast->stepPs : 0);
    sorted.emplace(place, std::move(mesh));
  }
  meshes.clear();
  for (PlannedMesh &mesh : llvm::make_second_range(sorted)) {
    meshes.push_back(std::move(mesh));
  }
}

std::string planTableText(const PlanTable &table) {
  const Columns columns(table);
  std::vector<std::vector<std::string>> rows = {headOf(columns)};
  for (const PlannedMesh &mesh : table.meshes) {
    rows.push_back(cellsOf(table, mesh, columns));
  }
  std::string text = report::tableText(rows);
  if (table.memoryLimit != 0) {
    const auto fitting = llvm::count_if(table.meshes, [&](const PlannedMesh &mesh) { return table.fits(mesh); });
    text += formatv("{0} of {1} fit a device of {2}\n", fitting, table.meshes.size(), report::bytesText(table.memoryLimit));
  }
  if (table.estimated > 0) {
    text += formatv("the best of {0} that were estimated from a few of the model's equal layers\n", table.estimated);
  }
  if (table.left > 0) {
    text += formatv("{0} more were not looked at; a larger --search-effort does\n", table.left);
  }
  if (table.stoppedSeconds) {
    text += report::stoppedText(*table.stoppedSeconds) + "\n";
  }
  return text;
}

std::string planTableJson(const PlanTable &table) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OStream out(stream, /*IndentSize=*/2);
  out.object([&] {
    out.attribute("model", report::jsonText(table.model));
    out.attribute("target", table.target);
    if (table.memoryLimit != 0) {
      out.attribute("memory_limit", table.memoryLimit);
    }
    if (table.left > 0) {
      out.attribute("not_looked_at", static_cast<int64_t>(table.left));
    }
    if (table.estimated > 0) {
      out.attribute("estimated", static_cast<int64_t>(table.estimated));
    }
    if (table.stoppedSeconds) {
      out.attribute("stopped_after_s", *table.stoppedSeconds);
    }
    out.attributeArray("meshes", [&] {
      for (const PlannedMesh &mesh : table.meshes) {
        out.object([&] { writeMesh(out, table, mesh); });
      }
    });
  });
  stream << "\n";
  return text;
}

} // namespace ashlar::planning
