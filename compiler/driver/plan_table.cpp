// SPDX-License-Identifier: Apache-2.0
//
// Forecasts -> text and JSON.

#include "compiler/driver/plan_table.h"

#include "compiler/report/json_parts.h"
#include "compiler/report/units.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using llvm::formatv;

namespace ashlar::driver {
namespace {

using llvm::json::OStream;

std::string meshText(const PlannedMesh &mesh) {
  auto axis = [](const pipelines::Axis &each) { return each.name + "=" + std::to_string(each.size); };
  return mesh.axes.empty() ? "one device" : llvm::join(llvm::map_range(mesh.axes, axis), ",");
}

const lower::MemoryPart &largestPart(const lower::MemoryUse &memory) {
  return *llvm::max_element(memory.parts, [](const auto &a, const auto &b) { return a.bytes < b.bytes; });
}

std::vector<std::string> cellsOf(const PlanTable &table, const PlannedMesh &mesh, bool hasBubble) {
  std::vector<std::string> cells = {meshText(mesh), std::to_string(mesh.devices)};
  if (!mesh.forecast) {
    cells.resize(hasBubble ? 9 : 8, "-");
    cells.push_back(mesh.refusal);
    return cells;
  }
  const Forecast &forecast = *mesh.forecast;
  const lower::MemoryPart &part = largestPart(forecast.memory);
  llvm::append_range(cells,
                     std::vector<std::string>{report::timeText(forecast.stepPs), report::timeText(forecast.computePs),
                                              report::timeText(forecast.exposedPs), report::bytesText(forecast.bytesSent),
                                              report::bytesText(forecast.memory.bytes()), report::bytesText(part.bytes) + " " + part.name});
  if (hasBubble) {
    cells.push_back(forecast.bubble ? formatv("{0:F1} %", *forecast.bubble * 100).str() : "-");
  }
  cells.push_back(table.fits(mesh) ? "" : "above " + report::bytesText(table.memoryLimit));
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
  const bool hasBubble = llvm::any_of(table.meshes, [](const PlannedMesh &mesh) { return mesh.forecast && mesh.forecast->bubble; });
  std::vector<std::vector<std::string>> rows = {{"mesh", "devices", "step", "compute", "exposed", "sent", "memory", "most of it"}};
  if (hasBubble) {
    rows.front().push_back("bubble");
  }
  rows.front().push_back("");
  for (const PlannedMesh &mesh : table.meshes) {
    rows.push_back(cellsOf(table, mesh, hasBubble));
  }
  std::string text = report::tableText(rows);
  if (table.memoryLimit != 0) {
    const auto fitting = llvm::count_if(table.meshes, [&](const PlannedMesh &mesh) { return table.fits(mesh); });
    text += formatv("{0} of {1} fit a device of {2}\n", fitting, table.meshes.size(), report::bytesText(table.memoryLimit));
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
    out.attributeArray("meshes", [&] {
      for (const PlannedMesh &mesh : table.meshes) {
        out.object([&] { writeMesh(out, table, mesh); });
      }
    });
  });
  stream << "\n";
  return text;
}

} // namespace ashlar::driver
