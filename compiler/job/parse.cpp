// SPDX-License-Identifier: Apache-2.0
//
// Text -> Job. Protobuf's own messages are rewritten into our form: lower case, no C++ names, with a suggestion where a name is close.

#include "compiler/file/input_file.h"
#include "compiler/job/implemented.h"
#include "compiler/job/job.h"
#include "compiler/job/protobuf_log.h"
#include "dialects/support/names.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <cctype>

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;
using llvm::StringRef;

namespace ashlar::job {

namespace {

llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

// Keeps the first error of the parser; the later ones follow from it.
class FirstError : public google::protobuf::io::ErrorCollector {
public:
  void AddError(int errorLine, google::protobuf::io::ColumnNumber errorColumn, const std::string &text) override {
    if (message.empty()) {
      line = errorLine, column = errorColumn, message = text;
    }
  }
  int line = -1, column = -1;
  std::string message;
};

// Returns `; did you mean "x"?` for the nearest of the names, "" when none is near.
std::string suggest(StringRef name, llvm::ArrayRef<std::string> names) {
  const unsigned mostEdits = std::max<size_t>(2, name.size() / 3); // more make another word
  llvm::SmallVector<StringRef> nearest = findNearest(llvm::to_vector_of<StringRef>(names), name, /*count=*/1, mostEdits);
  return nearest.empty() ? "" : "; did you mean \"" + nearest.front().str() + "\"?";
}

// Returns the piece of `text` between `before` and `after`, which is taken off the front; nothing when they are not there.
StringRef take(StringRef &text, StringRef before, StringRef after) {
  size_t begin = text.find(before);
  if (begin == StringRef::npos) {
    return {};
  }
  StringRef rest = text.drop_front(begin + before.size());
  size_t end = rest.find(after);
  if (end == StringRef::npos) {
    return {};
  }
  text = rest.drop_front(end + after.size());
  return rest.take_front(end);
}

// Returns the message that position `end` of a text lies in: the fields whose braces are open there, from Job on. The parser's own message
// names only the field, and two messages may have fields of one name. Null when the text is about no field of job.proto.
const Descriptor *messageAt(StringRef text, size_t end) {
  google::protobuf::io::ArrayInputStream bytes(text.data(), static_cast<int>(std::min(end, text.size())));
  FirstError ignored;
  google::protobuf::io::Tokenizer tokens(&bytes, &ignored);
  tokens.set_comment_style(google::protobuf::io::Tokenizer::SH_COMMENT_STYLE);
  std::vector<const Descriptor *> open = {Job::descriptor()};
  std::vector<std::string> names = {""}; // of the field that was last named at each depth; a list of messages names it once
  while (tokens.Next()) {
    const std::string &token = tokens.current().text;
    if (tokens.current().type == google::protobuf::io::Tokenizer::TYPE_IDENTIFIER) {
      names.back() = token;
    } else if (token == "{" || token == "<") {
      const FieldDescriptor *field = open.back() ? open.back()->FindFieldByName(names.back()) : nullptr;
      open.push_back(field ? field->message_type() : nullptr);
      names.emplace_back();
    } else if ((token == "}" || token == ">") && open.size() > 1) {
      open.pop_back();
      names.pop_back();
    }
  }
  return open.back();
}

std::string rewriteUnknownField(StringRef typeName, StringRef field) {
  const Descriptor *type = DescriptorPool::generated_pool()->FindMessageTypeByName(typeName.str());
  std::vector<std::string> names;
  for (int i = 0; type && i < type->field_count(); ++i) {
    names.push_back(type->field(i)->name());
  }
  return ("unknown field \"" + field + "\" of " + (type ? type->name() : typeName.str()) + suggest(field, names)).str();
}

std::string rewriteUnknownValue(StringRef value, const Descriptor *message, StringRef field) {
  std::vector<std::string> names;
  const FieldDescriptor *descriptor = message ? message->FindFieldByName(field.str()) : nullptr;
  const EnumDescriptor *type = descriptor ? descriptor->enum_type() : nullptr;
  for (int i = 0; type && i < type->value_count(); ++i) {
    names.push_back(type->value(i)->name());
  }
  return ("unknown value \"" + value + "\" of field " + field + "; one of " + llvm::join(names, ", ")).str();
}

// The parser notices a name it does not know when it stands behind it: puts `error` where the name begins, and returns that as an offset
// into the text.
size_t moveBackTo(StringRef name, StringRef text, FirstError &error) {
  size_t end = 0;
  for (int line = 0; line < error.line && end != StringRef::npos; ++line) {
    end = text.find('\n', end);
    end = end == StringRef::npos ? end : end + 1;
  }
  size_t at = end == StringRef::npos ? end : text.take_front(end + error.column).rfind(name);
  if (at != StringRef::npos) {
    StringRef before = text.take_front(at);
    error.line = static_cast<int>(before.count('\n'));
    error.column = static_cast<int>(at - (before.rfind('\n') + 1)); // npos + 1 == 0
  }
  return at == StringRef::npos ? text.size() : at;
}

// Rewrites the message of `error`, and its place where that is not the fault's.
void rewrite(StringRef text, FirstError &error) {
  std::string original = std::move(error.message);
  StringRef rest = original;
  if (StringRef type = take(rest, "Message type \"", "\""); !type.empty()) {
    if (StringRef field = take(rest, "no field named \"", "\""); !field.empty()) {
      moveBackTo(field, text, error);
      error.message = rewriteUnknownField(type, field);
      return;
    }
  }
  rest = original;
  if (StringRef value = take(rest, "Unknown enumeration value of \"", "\""); !value.empty()) {
    const Descriptor *message = messageAt(text, moveBackTo(value, text, error));
    error.message = rewriteUnknownValue(value, message, take(rest, "for field \"", "\""));
    return;
  }
  error.message = StringRef(original).rtrim('.').str();
  error.message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(error.message[0])));
}

// A text in which the words of field untie, written as those of an enum are (untie: NEVER), are strings.
struct QuotedText {
  std::string text;
  std::vector<std::pair<int, int>> words; // line and column of each

  // Returns the column of the text as it was.
  int columnOf(int line, int column) const {
    return column - 2 * static_cast<int>(llvm::count_if(words, [&](auto word) { return word.first == line && word.second < column; }));
  }
};

// Returns the offset of a column of the line that begins at `begin`: a tab leads to the next multiple of 8.
size_t offsetOf(StringRef text, size_t begin, int column) {
  size_t at = begin;
  for (int here = 0; here < column && at < text.size(); ++at) {
    here += text[at] == '\t' ? 8 - here % 8 : 1;
  }
  return at;
}

QuotedText quoteWords(StringRef text) {
  google::protobuf::io::ArrayInputStream bytes(text.data(), static_cast<int>(text.size()));
  FirstError ignored;
  google::protobuf::io::Tokenizer tokens(&bytes, &ignored);
  tokens.set_comment_style(google::protobuf::io::Tokenizer::SH_COMMENT_STYLE);
  QuotedText quoted;
  size_t copied = 0, lineBegin = 0;
  std::string field;
  for (int line = 0; tokens.Next();) {
    const google::protobuf::io::Tokenizer::Token &token = tokens.current();
    if (token.type != google::protobuf::io::Tokenizer::TYPE_IDENTIFIER) {
      continue;
    }
    if (field != "untie" || (token.text != "AUTO" && token.text != "NEVER")) {
      field = token.text;
      continue;
    }
    for (; line < token.line; ++line) {
      lineBegin = text.find('\n', lineBegin) + 1;
    }
    const size_t begin = offsetOf(text, lineBegin, token.column);
    quoted.text += text.slice(copied, begin).str() + "\"" + token.text + "\"";
    quoted.words.emplace_back(token.line, token.column);
    copied = begin + token.text.size();
  }
  quoted.text += text.drop_front(copied);
  return quoted;
}

// "name:line:column: " with both counted from 1; only the name where the parser gave no position.
std::string at(StringRef name, int line, int column) {
  std::string place = name.str();
  if (line >= 0) {
    place += ":" + std::to_string(line + 1) + ":" + std::to_string(column + 1);
  }
  return place + ": ";
}

} // namespace

llvm::Expected<Job> parseJobText(StringRef text, StringRef name) {
  Job job;
  FirstError errors;
  TextFormat::ParseInfoTree positions;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(&positions);
  ProtobufLog log;
  QuotedText quoted = quoteWords(text);
  if (!parser.ParseFromString(quoted.text, &job)) {
    rewrite(quoted.text, errors);
    return makeError(at(name, errors.line, quoted.columnOf(errors.line, errors.column)) + errors.message);
  }
  if (auto found = findUnimplemented(job, &positions)) {
    return makeError(at(name, found->line, quoted.columnOf(found->line, found->column)) + found->what + " is not implemented yet");
  }
  const FieldDescriptor *rules = Job::descriptor()->FindFieldByName("rules");
  for (int i = 0; i < job.rules_size(); ++i) {
    if (job.rules(i).has_origin()) {
      auto place = positions.GetTreeForNested(rules, i)->GetLocation(Rule::descriptor()->FindFieldByName("origin"), -1);
      return makeError(at(name, place.line, place.column) + "rules.origin is filled in by the compiler; leave it out");
    }
    int line = positions.GetLocation(rules, i).line;
    job.mutable_rules(i)->set_origin((llvm::sys::path::filename(name) + ":" + llvm::Twine(line + 1)).str());
  }
  return job;
}

// Replaces the name of the order's file by its path. It lies in the folder of the job, or, where the job comes through a pipe, in the
// current one; a job of somebody else names no other file of ours.
static llvm::Error placeOrder(StringRef path, Job &job) {
  const std::string &order = job.pipeline().order();
  if (order.empty()) {
    return llvm::Error::success();
  }
  const StringRef folder = llvm::sys::fs::is_regular_file(path) ? llvm::sys::path::parent_path(path) : "";
  const std::string given = (path + ": pipeline.order \"" + order + "\"").str();
  if (!file::namesBelow(order)) {
    return makeError(given + " is not below the job's folder; copy the file there, and name it from there");
  }
  llvm::Expected<file::ResolvedPath> resolved = file::resolveBelow(folder, order);
  if (!resolved) {
    llvm::SmallString<128> place(folder);
    llvm::sys::path::append(place, order);
    return makeError(place + ": " + llvm::toString(resolved.takeError()));
  }
  if (!resolved->isBelow) {
    return makeError(given + " is a link to " + resolved->path + ", which is not below the job's folder; copy the file there");
  }
  job.mutable_pipeline()->set_order(resolved->path);
  return llvm::Error::success();
}

llvm::Expected<Job> parseJob(StringRef path) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = file::readText(path, file::Pipes::Taken);
  if (!buffer) {
    return makeError(path + ": " + llvm::toString(buffer.takeError()));
  }
  llvm::Expected<Job> job = parseJobText((*buffer)->getBuffer(), path);
  if (job) {
    if (llvm::Error error = placeOrder(path, *job)) {
      return std::move(error);
    }
  }
  return job;
}

llvm::Expected<Mesh> parseMesh(StringRef text) {
  Mesh mesh;
  if (int32_t devices; !text.trim().getAsInteger(10, devices)) {
    mesh.set_devices(devices);
    return mesh;
  }
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    auto [axis, size] = part.split('=');
    int32_t value;
    if (axis.trim().empty() || size.trim().getAsInteger(10, value)) {
      StringRef digits = size.trim();
      if (!axis.trim().empty() && !digits.empty() && llvm::all_of(digits, llvm::isDigit)) {
        return makeError("mesh \"" + text + "\": axis \"" + axis.trim() + "\" has size " + digits +
                         ", which is more than a mesh may have; its sizes multiply to at most 65536 devices");
      }
      return makeError("mesh \"" + text + "\": \"" + part +
                       "\" is not an axis and its size; write it as dp=4 or dp=4,tp=2, or as a number of devices");
    }
    Mesh::Axis *added = mesh.add_axes();
    added->set_name(axis.trim().str());
    added->set_size(value);
  }
  return mesh;
}

} // namespace ashlar::job
