// SPDX-License-Identifier: Apache-2.0
//
// Facts -> columns.

#include "compiler/report/page/page_json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstdlib>

namespace ashlar::report {

using llvm::json::OStream;

namespace {

template <typename Range, typename Get> std::vector<int64_t> column(const Range &range, Get get) {
  std::vector<int64_t> numbers;
  for (const auto &each : range) {
    numbers.push_back(static_cast<int64_t>(get(each)));
  }
  return numbers;
}

void writeRaw(OStream &out, llvm::StringRef name, size_t size, llvm::function_ref<void(llvm::raw_ostream &, size_t)> write) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << '[';
  for (size_t i = 0; i < size; ++i) {
    stream << (i == 0 ? "" : ",");
    write(stream, i);
  }
  stream << ']';
  out.attributeBegin(name);
  out.rawValue(text);
  out.attributeEnd();
}

} // namespace

void writeColumn(OStream &out, llvm::StringRef name, llvm::ArrayRef<int64_t> numbers) {
  writeRaw(out, name, numbers.size(), [&](llvm::raw_ostream &stream, size_t i) { stream << numbers[i]; });
}

void writeTimes(OStream &out, llvm::StringRef name, llvm::ArrayRef<int64_t> timesPs) {
  constexpr int64_t kPsPerNs = 1000;
  writeRaw(out, name, timesPs.size(), [&](llvm::raw_ostream &stream, size_t i) {
    const int64_t timePs = std::abs(timesPs[i]);
    stream << (timesPs[i] < 0 ? "-" : "") << timePs / kPsPerNs;
    if (const int64_t rest = timePs % kPsPerNs; rest != 0) {
      stream << '.' << llvm::StringRef(llvm::formatv("{0,0+3}", rest).str()).rtrim('0');
    }
  });
}

void writeTextColumn(OStream &out, llvm::StringRef name, llvm::ArrayRef<std::string> texts) {
  writeRaw(out, name, texts.size(),
           [&](llvm::raw_ostream &stream, size_t i) { stream << llvm::json::Value(llvm::json::fixUTF8(texts[i])); });
}

void writeGraph(OStream &out, const ModelGraph &graph, llvm::function_ref<std::vector<int64_t>(const std::string &)> collectivesOf) {
  const std::vector<ModuleNode> &modules = graph.modules.modules();
  std::vector<std::string> names;
  llvm::append_range(names, llvm::map_range(modules, [](const ModuleNode &each) { return each.name; }));
  out.attributeObject("modules", [&] {
    writeTextColumn(out, "name", names);
    writeColumn(out, "parent", column(modules, [](const ModuleNode &each) { return each.parent; }));
    writeColumn(out, "equal", column(findEqualModules(graph), [](unsigned module) { return module; }));
  });
  out.attributeObject("graph", [&] {
    writeTextColumn(out, "kinds", graph.kinds.texts());
    writeTextColumn(out, "types", graph.types.texts());
    writeTextColumn(out, "layouts", graph.layouts.texts());
    out.attributeObject("ops", [&] {
      writeColumn(out, "module", column(graph.ops, [](const GraphOp &op) { return op.module; }));
      writeColumn(out, "kind", column(graph.ops, [](const GraphOp &op) { return op.kind; }));
      writeColumn(out, "phase", column(graph.ops, [](const GraphOp &op) { return op.phase; }));
      writeColumn(out, "type", column(graph.ops, [](const GraphOp &op) { return op.type; }));
      writeColumn(out, "layout", column(graph.ops, [](const GraphOp &op) { return op.layout; }));
    });
    out.attributeObject("edges", [&] {
      writeColumn(out, "from", column(graph.edges, [](const GraphEdge &edge) { return edge.from; }));
      writeColumn(out, "to", column(graph.edges, [](const GraphEdge &edge) { return edge.to; }));
      writeColumn(out, "made", column(graph.edges, [](const GraphEdge &edge) { return edge.made; }));
      writeColumn(out, "wanted", column(graph.edges, [](const GraphEdge &edge) { return edge.wanted; }));
      writeColumn(out, "redistribution", column(graph.edges, [](const GraphEdge &edge) {
                    return edge.redistribution ? static_cast<int64_t>(*edge.redistribution) : -1;
                  }));
    });
    out.attributeArray("redistributions", [&] {
      for (const std::string &key : graph.redistributions) {
        out.array([&] {
          for (int64_t collective : collectivesOf(key)) {
            out.value(collective);
          }
        });
      }
    });
  });
}

void writeInstructions(OStream &out, const ProgramInstructions &instructions, int64_t firstCollective) {
  TextTable kinds;
  const std::vector<InstructionFact> &list = instructions.list;
  const std::vector<int64_t> kind = column(list, [&](const InstructionFact &each) { return kinds.add(each.kind); });
  writeTextColumn(out, "kinds", kinds.texts());
  writeColumn(out, "kind", kind);
  writeColumn(out, "module", column(list, [](const InstructionFact &each) { return each.module; }));
  writeTimes(out, "begin_ns", column(list, [](const InstructionFact &each) { return each.span.beginPs; }));
  writeTimes(out, "end_ns", column(list, [](const InstructionFact &each) { return each.span.endPs; }));
  writeColumn(out, "started", column(list, [](const InstructionFact &each) { return each.isStarted; }));
  writeColumn(out, "collective", column(list, [&](const InstructionFact &each) {
                return each.collective ? firstCollective + static_cast<int64_t>(*each.collective) : -1;
              }));
  writeColumn(out, "live_bytes", column(instructions.live.bytes, [](uint64_t bytes) { return bytes; }));
  out.attributeObject("peak", [&] {
    const LiveBytes &live = instructions.live;
    out.attribute("instruction", static_cast<int64_t>(live.peak));
    out.attribute("bytes", live.bytes.empty() ? 0 : static_cast<int64_t>(live.bytes[live.peak]));
    writeColumn(out, "writer", column(live.values, [](const LiveValue &each) { return each.writer; }));
    writeColumn(out, "written_bytes", column(live.values, [](const LiveValue &each) { return each.bytes; }));
  });
}

} // namespace ashlar::report
