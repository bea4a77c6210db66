// SPDX-License-Identifier: Apache-2.0
//
// Viewer and JSON -> HTML.

#include "compiler/report/page/plan_page.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/Compression.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using llvm::StringRef;

namespace ashlar::report {
namespace {

// page.html, page.css, report_shape.json, then the scripts.
constexpr const char *kViewer[] = {
#include "compiler/report/page/viewer_text.inc"
};

std::string deflated(StringRef json) {
  llvm::SmallVector<uint8_t> bytes;
  llvm::compression::zlib::compress(llvm::arrayRefFromStringRef(json), bytes);
  return llvm::encodeBase64(bytes);
}

std::string escaped(StringRef text) {
  std::string result;
  llvm::raw_string_ostream out(result);
  llvm::printHTMLEscaped(llvm::json::fixUTF8(text), out);
  return result;
}

// Returns the first member that is not as a shape has it, "number at variables[3].bytes", or "". A shape is "string" or "number", a list
// with the shape of its elements, or an object of shapes, of which those with a "?" may be absent. script/compare.js has the same function.
std::string misfit(const llvm::json::Value *value, const llvm::json::Value &shape, const std::string &place) {
  const std::string at = place.empty() ? "" : " at " + place;
  if (const std::optional<StringRef> kind = shape.getAsString()) {
    const bool fits = value != nullptr && (*kind == "string" ? value->getAsString().has_value() : value->getAsNumber().has_value());
    return fits ? "" : kind->str() + at;
  }
  if (const llvm::json::Array *elements = shape.getAsArray()) {
    const llvm::json::Array *list = value != nullptr ? value->getAsArray() : nullptr;
    std::string fault = list == nullptr ? "list" + at : "";
    for (size_t i = 0; list != nullptr && fault.empty() && i < list->size(); ++i) {
      fault = misfit(&(*list)[i], elements->front(), place + "[" + std::to_string(i) + "]");
    }
    return fault;
  }
  const llvm::json::Object *object = value != nullptr ? value->getAsObject() : nullptr;
  if (object == nullptr) {
    return "object" + at;
  }
  llvm::SmallVector<StringRef> keys;
  for (const auto &member : *shape.getAsObject()) {
    keys.push_back(member.first);
  }
  llvm::sort(keys);
  std::string fault;
  for (StringRef key : keys) {
    const StringRef name = key.rtrim('?');
    const llvm::json::Value *member = object->get(name);
    if (fault.empty() && (member != nullptr || name == key)) {
      fault = misfit(member, *shape.getAsObject()->get(key), (place.empty() ? "" : place + ".") + name.str());
    }
  }
  return fault;
}

} // namespace

std::string planPage(StringRef model, llvm::ArrayRef<PagePart> parts) {
  std::string style = kViewer[1], scripts = std::string("const kReportShape = ") + kViewer[2] + ";\n", data;
  for (const char *script : llvm::ArrayRef(kViewer).drop_front(3)) {
    scripts += script;
  }
  for (const auto &[id, json] : parts) {
    data += ("<script type=\"application/x-deflate\" id=\"" + id + "\">" + deflated(json) + "</script>\n").str();
  }
  std::string page;
  StringRef rest = kViewer[0];
  for (const auto &[mark, text] : {std::pair<StringRef, std::string>{"{{model}}", escaped(model)},
                                   {"{{style}}", style},
                                   {"{{data}}", data},
                                   {"{{scripts}}", scripts}}) {
    const auto [before, after] = rest.split(mark); // the marks stand in this order
    page += before.str() + text;
    rest = after;
  }
  return page + rest.str();
}

llvm::Expected<std::string> compactReport(StringRef text, StringRef path) {
  auto refuse = [&](const llvm::Twine &fact) {
    return llvm::createStringError("--compare " + path + ": " + fact + "; name a file that --report of this version wrote");
  };
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  if (!parsed) {
    return refuse(llvm::toString(parsed.takeError()));
  }
  const std::string fault = misfit(&*parsed, llvm::cantFail(llvm::json::parse(kViewer[2])), /*place=*/"");
  return fault.empty() ? llvm::Expected<std::string>(llvm::formatv("{0}", *parsed).str()) : refuse("it has no " + fault);
}

} // namespace ashlar::report
