// SPDX-License-Identifier: Apache-2.0
//
// The texts are those of CLI11, so that executables and tools read alike.

#include "runtime/base/option_parser.h"

#include <algorithm>
#include <charconv>

namespace ashlar::rt {
namespace {

constexpr size_t kColumn = 30; // where the descriptions of --help begin

// Reads a number that is the whole text. Returns whether it is one.
template <typename Number> bool readNumber(const std::string &text, Number &number) {
  const char *end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, number);
  return result.ec == std::errc() && result.ptr == end;
}

// Takes a whole number of a range, which `value` can hold.
template <typename Number> std::string takeWhole(const std::string &text, uint64_t least, uint64_t most, Number &value) {
  uint64_t number = 0;
  if (!readNumber(text, number) || number < least || number > most) {
    return fmt::format("{} is not a whole number from {} to {}", text, least, most);
  }
  value = number;
  return "";
}

} // namespace

void OptionParser::add(const char *name, std::string &value, const char *type, const char *help, std::string shown) {
  add(name, [&value](const std::string &text) { return value = text, std::string(); }, type, help, std::move(shown));
}

void OptionParser::add(const char *name, std::vector<std::string> &values, const char *type, const char *help) {
  add(name, [&values](const std::string &text) { return values.push_back(text), std::string(); }, type, help);
  options.back().values = Values::kMany;
}

void OptionParser::add(const char *name, Take take, const char *type, const char *help, std::string shown) {
  options.push_back({name, type, help, std::move(shown), Values::kOne, std::move(take)});
}

void OptionParser::addCount(const char *name, uint64_t &value, const char *help, std::string shown, uint64_t least, uint64_t most) {
  add(name, [&value, least, most](const std::string &text) { return takeWhole(text, least, most, value); }, "N", help, std::move(shown));
}

void OptionParser::add(const char *name, std::vector<int64_t> &numbers, const char *type, const char *help) {
  Take take = [&numbers](const std::string &text) {
    int64_t number = 0;
    if (!readNumber(text, number)) {
      return fmt::format("{} is not a whole number", text);
    }
    numbers.push_back(number);
    return std::string();
  };
  add(name, std::move(take), type, help);
  options.back().values = Values::kMany;
}

void OptionParser::addCount(const char *name, std::optional<uint64_t> &value, const char *help) {
  add(name, [&value](const std::string &text) { return takeWhole(text, 0, UINT64_MAX, value); }, "N", help);
}

void OptionParser::addCount(const char *name, int &value, const char *help, int least, int most) {
  add(name, [&value, least, most](const std::string &text) { return takeWhole(text, least, most, value); }, "N", help);
}

void OptionParser::addNumber(const char *name, double &value, const char *type, const char *help, std::string shown, double least,
                             double most) {
  Take take = [&value, least, most](const std::string &text) {
    double number = 0;
    if (!readNumber(text, number) || !(number >= least && number <= most)) { // a NaN is in no range
      return fmt::format("{} is not a number from {} to {}", text, least, most);
    }
    value = number;
    return std::string();
  };
  add(name, std::move(take), type, help, std::move(shown));
}

void OptionParser::addFlag(const char *name, bool &flag, const char *help) {
  options.push_back({name, "", help, "", Values::kNone, [&flag](const std::string &) { return flag = true, std::string(); }});
}

void OptionParser::addFlag(const char *name, std::string &value, const char *help) {
  options.push_back({name, "", help, "", Values::kOptional, [&value](const std::string &text) { return value = text, std::string(); }});
}

OptionParser::Option *OptionParser::find(std::string_view name) {
  auto found = std::find_if(options.begin(), options.end(), [&](const Option &option) { return option.name == name; });
  return found == options.end() ? nullptr : &*found;
}

size_t OptionParser::count(std::string_view name) const {
  const Option *option = const_cast<OptionParser *>(this)->find(name);
  return option != nullptr ? option->count : 0;
}

Status OptionParser::takeOption(std::string_view name, const std::string *attached, int argc, const char *const *argv, int &at) {
  Option *option = find(name);
  if (option == nullptr) {
    return invalid("The following argument was not expected: {}; --help lists the options", argv[at]);
  }
  if (++option->count > 1 && option->values != Values::kMany) {
    return invalid("{} is given {} times; give it once; --help lists the options", name, option->count);
  }
  std::string text = attached != nullptr ? *attached : "true";
  if (attached == nullptr && (option->values == Values::kOne || option->values == Values::kMany)) {
    // A value may begin with '-', as a negative number does, but is no other option.
    const std::string_view next = at + 1 < argc ? argv[at + 1] : "--help";
    if (next == "--help" || next == "-h" || find(next.substr(0, next.find('='))) != nullptr) {
      return invalid("{}: 1 required {} missing; --help lists the options", name, option->type);
    }
    text = argv[++at];
  }
  if (attached != nullptr && option->values == Values::kNone) {
    return invalid("{} takes no value, and \"{}\" is given; --help lists the options", name, *attached);
  }
  if (text.empty()) { // of an unset variable of a script
    return invalid("{}: its value is empty; give it one, or leave the option out; --help lists the options", name);
  }
  const std::string fault = option->take(text);
  return fault.empty() ? Status() : invalid("{}: {}; --help lists the options", name, fault);
}

Status OptionParser::parse(int argc, const char *const *argv, bool &asksForHelp) {
  asksForHelp = false;
  for (int at = 1; at < argc; ++at) {
    const std::string argument = argv[at];
    if (argument == "-h" || argument == "--help") {
      asksForHelp = true;
      return Status();
    }
    const size_t equals = argument.rfind("--", 0) == 0 ? argument.find('=') : std::string::npos;
    const std::string attached = equals != std::string::npos ? argument.substr(equals + 1) : "";
    ASHLAR_RETURN_IF_ERROR(takeOption(argument.substr(0, equals), equals != std::string::npos ? &attached : nullptr, argc, argv, at));
  }
  return Status();
}

std::string OptionParser::help(const std::string &program) const {
  std::string text = summary + "\nUsage: " + program + " [OPTIONS]\n\nOptions:\n";
  auto addLine = [&](std::string head, const std::string &description) {
    head = "  " + head;
    text += head.size() + 2 > kColumn ? head + "\n" + std::string(kColumn, ' ') : head + std::string(kColumn - head.size(), ' ');
    text += description + "\n";
  };
  addLine("-h,--help", "Print this help message and exit");
  for (const Option &option : options) {
    const std::string shown = option.shown.empty() ? "" : "=" + option.shown;
    addLine(option.name + (option.type.empty() ? "" : " " + option.type + shown), option.help);
  }
  return text;
}

} // namespace ashlar::rt
