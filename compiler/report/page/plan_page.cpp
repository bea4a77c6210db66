// SPDX-License-Identifier: Apache-2.0
//
// Viewer and JSON -> HTML.

#include "compiler/report/page/plan_page.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/Compression.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using llvm::StringRef;

namespace ashlar::report {
namespace {

// page.html, page.css, then the scripts.
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

} // namespace

std::string planPage(StringRef model, llvm::ArrayRef<PagePart> parts) {
  std::string style = kViewer[1], scripts, data;
  for (const char *script : llvm::ArrayRef(kViewer).drop_front(2)) {
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
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  if (!parsed) {
    return llvm::createStringError("--compare " + path + ": " + llvm::toString(parsed.takeError()) + "; name a file that --report wrote");
  }
  const llvm::json::Object *object = parsed->getAsObject();
  for (const char *field : {"model", "mesh", "programs", "collectives", "variables", "modules"}) {
    if (!object || !object->get(field)) {
      return llvm::createStringError("--compare " + path + ": it has no \"" + field +
                                     "\", which every report has; name a file that --report "
                                     "of this version wrote");
    }
  }
  return llvm::formatv("{0}", *parsed).str();
}

} // namespace ashlar::report
