// SPDX-License-Identifier: Apache-2.0
//
// The command lines of tools and compiled programs: their parser, and the report of errors. A value may not be empty: it comes from an
// unset variable of a script, and options for which "" means "not given" would silently do something else. Header only, so that the
// compiler needs no runtime for it.

#ifndef ASHLAR_RUNTIME_ABI_COMMAND_LINE_H
#define ASHLAR_RUNTIME_ABI_COMMAND_LINE_H

#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

namespace ashlar::rt {

inline constexpr const char *kEmptyValue = "its value is empty; give it one, or leave the option out";

// Makes each option that takes a value refuse an empty one, in subcommands too.
inline void refuseEmptyValues(CLI::App &app) {
  for (CLI::Option *option : app.get_options()) {
    if (option->get_items_expected_max() > 0) {
      option->check([](const std::string &value) { return value.empty() ? std::string(kEmptyValue) : std::string(); });
    }
  }
  for (CLI::App *subcommand : app.get_subcommands({})) {
    refuseEmptyValues(*subcommand);
  }
}

// Refuses the name of an option for the value of another one: CLI11 takes it. A value may begin with '-', as a negative number does.
inline void refuseOptionsForValues(CLI::App &app, int argc, const char *const *argv) {
  CLI::App *current = &app; // or its subcommand
  auto find = [&](const std::string &name) { return name.size() > 1 && name[0] == '-' ? current->get_option_no_throw(name) : nullptr; };
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string name = argv[i], next = argv[i + 1];
    for (CLI::App *subcommand : current->get_subcommands({})) {
      current = subcommand->check_name(name) ? subcommand : current;
    }
    const CLI::Option *option = find(name);
    if (option == nullptr || option->get_items_expected_min() == 0) {
      continue;
    }
    if (find(next.substr(0, next.find('='))) != nullptr) {
      throw CLI::ArgumentMismatch::TypedAtLeast(name, 1, option->get_type_name());
    }
    ++i; // the value
  }
}

// Parses a command line. Throws the exceptions of App::parse().
inline void parseCommandLine(CLI::App &app, int argc, const char *const *argv) {
  refuseEmptyValues(app);
  refuseOptionsForValues(app, argc, argv);
  for (int i = 1; i < argc; ++i) { // of "--steps=" CLI11 takes the next argument for the value
    const std::string_view argument = argv[i];
    if (argument.size() > 3 && argument.substr(0, 2) == "--" && argument.find('=') == argument.size() - 1) {
      throw CLI::ValidationError(std::string(argument.substr(0, argument.size() - 1)), kEmptyValue);
    }
  }
  app.parse(argc, argv);
}

// Returns the error as one line that names the option and the remedy: CLI11 counts values where the user wrote an option twice.
inline std::string commandLineFault(const CLI::ParseError &error) {
  const std::string text = error.what();
  constexpr char kAtMost[] = ": At Most 1 required but received ";
  const size_t at = text.find(kAtMost);
  const std::string fault =
      at == std::string::npos ? text : text.substr(0, at) + " is given " + text.substr(at + sizeof(kAtMost) - 1) + " times; give it once";
  return fault + "; --help lists the options";
}

// Checks a time in seconds, for CLI::Option::check(). CLI::PositiveNumber lets NaN pass, and spells out the largest double.
inline std::string checkSeconds(const std::string &text) {
  double seconds = 0;
  const char *end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, seconds);
  const bool isTime = result.ec == std::errc() && result.ptr == end && std::isfinite(seconds) && seconds > 0;
  return isTime ? "" : text + " is not a number of seconds above 0, such as 0.5 or 10";
}

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_ABI_COMMAND_LINE_H
