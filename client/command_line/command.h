// A subcommand as data: its arguments, its flags, and what runs it.
#ifndef STRATA_CLIENT_COMMAND_LINE_COMMAND_H_
#define STRATA_CLIENT_COMMAND_LINE_COMMAND_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/terminal/terminal.h"

namespace strata::client {

struct Flag {
  enum class Kind { kSwitch, kText, kCount, kNumber, kTime, kWord };

  std::string name;  // "--ranks"
  Kind kind = Kind::kText;
  std::string value_name;  // in help: "N"
  std::string help;
  std::string short_name = "";  // "-o", or empty
  // kCount, kNumber and kTime: the allowed values; of kTime in seconds.
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  std::vector<std::string> words = {};  // of kWord
  bool repeated = false;
  bool required = false;
  bool may_be_empty = false;  // of kText
};

// What was typed, checked against the command's flags.
class Arguments {
 public:
  bool Has(absl::string_view flag) const { return values_.count(std::string(flag)) > 0; }
  // The last value of a flag, or `otherwise`.
  std::string Text(absl::string_view flag, absl::string_view otherwise = "") const;
  std::vector<std::string> All(absl::string_view flag) const;
  std::optional<int64_t> Count(absl::string_view flag) const;
  std::optional<double> Number(absl::string_view flag) const;
  std::optional<double> Seconds(absl::string_view flag) const;  // of kTime
  const std::vector<std::string>& positional() const { return positional_; }

  void Add(const std::string& flag, std::string value) {
    values_[flag].push_back(std::move(value));
  }
  void AddPositional(std::string value) { positional_.push_back(std::move(value)); }

 private:
  std::map<std::string, std::vector<std::string>> values_;
  std::vector<std::string> positional_;
};

struct Command {
  std::string name;
  std::string usage;                   // of the positional arguments: "JOB.yaml"
  std::string summary;                 // one line
  std::vector<std::string> arguments;  // names of those required, for messages
  size_t most_arguments = 0;
  std::vector<Flag> flags;
  std::vector<std::string> outputs = {"table"};  // the values of -o that it knows
  bool listed = true;  // in the help of all commands, and among what a misspelt one may have meant
  int (*run)(const Arguments& arguments, Terminal& terminal) = nullptr;  // returns the exit code
};

// --output, --server, --no-color, --quiet, --help: understood by every command.
const std::vector<Flag>& CommonFlags();

}  // namespace strata::client

#endif  // STRATA_CLIENT_COMMAND_LINE_COMMAND_H_
