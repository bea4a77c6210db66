// SPDX-License-Identifier: Apache-2.0
//
// The page of --html: one file without network, the viewer (page.html, page.css, script/) and the JSON that it draws. The viewer computes
// nothing that the compiler knows. The JSON is deflated, in base64: a deep model has megabytes of texts that resemble each other, and
// names, which are untrusted, cannot end their element.

#ifndef ASHLAR_COMPILER_REPORT_PAGE_PLAN_PAGE_H
#define ASHLAR_COMPILER_REPORT_PAGE_PLAN_PAGE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <utility>

namespace ashlar::report {

// A JSON text and the id of its element: "report", "other", "measured" or "plan".
using PagePart = std::pair<llvm::StringRef, std::string>;

// Returns the page with parts, of which none is twice.
std::string planPage(llvm::StringRef model, llvm::ArrayRef<PagePart> parts);

// Returns a report, as --report wrote it, on one line. Fails, naming `path`, where the text lacks a member that the page reads, or one has
// another type.
llvm::Expected<std::string> compactReport(llvm::StringRef text, llvm::StringRef path);

} // namespace ashlar::report

#endif // ASHLAR_COMPILER_REPORT_PAGE_PLAN_PAGE_H
