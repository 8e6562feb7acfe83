#include "controller/service/requests/filter.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"
#include "controller/service/requests/filter_language.h"

namespace strata::controller {
namespace {

constexpr char kLabels[] = "spec.labels.";

std::string OrDefaultName(const std::string& name) { return name.empty() ? "default" : name; }

using JobText = std::function<std::optional<std::string>(const v1::JobRecord&)>;
using JobNumber = std::function<double(const v1::JobRecord&)>;

double Seconds(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + 1e-9 * time.nanos();
}

std::optional<JobText> TextOf(const std::string& field) {
  if (field == "name") return [](const v1::JobRecord& job) { return ShortName(job.name()); };
  if (field == "owner") return [](const v1::JobRecord& job) { return job.owner(); };
  if (field == "state")
    return [](const v1::JobRecord& job) { return v1::Job::State_Name(job.state()); };
  if (field == "project" || field == "spec.project") {
    return [](const v1::JobRecord& job) { return OrDefaultName(job.spec().project()); };
  }
  if (field == "queue" || field == "spec.resources.queue") {
    return [](const v1::JobRecord& job) { return OrDefaultName(job.spec().resources().queue()); };
  }
  if (!absl::StartsWith(field, kLabels)) return std::nullopt;
  return [key = field.substr(sizeof(kLabels) - 1)](
             const v1::JobRecord& job) -> std::optional<std::string> {
    const auto found = job.spec().labels().find(key);
    if (found == job.spec().labels().end()) return std::nullopt;
    return found->second;
  };
}

std::optional<JobNumber> NumberOf(const std::string& field) {
  if (field == "priority" || field == "spec.resources.priority") {
    return [](const v1::JobRecord& job) {
      return static_cast<double>(job.spec().resources().priority());
    };
  }
  if (field == "create_time") {
    return [](const v1::JobRecord& job) { return Seconds(job.create_time()); };
  }
  return std::nullopt;
}

absl::StatusOr<std::string> ReadState(const std::string& value, bool part) {
  v1::Job::State state;
  if (part || (v1::Job::State_Parse(value, &state) && state != v1::Job::STATE_UNSPECIFIED)) {
    return value;
  }
  return absl::InvalidArgumentError(absl::StrCat(value, " is no state, such as RUNNING"));
}

std::optional<FilterField> FieldOfJobs(const std::string& field) {
  const auto job = [](const google::protobuf::Message& record) -> const v1::JobRecord& {
    return static_cast<const v1::JobRecord&>(record);
  };
  if (const auto number = NumberOf(field); number.has_value()) {
    return NumberField{[job, number = *number](const auto& record) { return number(job(record)); },
                       /*is_time=*/field == "create_time"};
  }
  const auto text = TextOf(field);
  if (!text.has_value()) return std::nullopt;
  TextField found{[job, text = *text](const auto& record) { return text(job(record)); }, nullptr};
  if (field == "state") found.read = ReadState;
  if (field == "name") found.read = [](const std::string& name, bool) { return ShortName(name); };
  return found;
}

// Less than, equal to (0), or greater than.
using Comparison = std::function<int(const v1::JobRecord&, const v1::JobRecord&)>;

std::optional<Comparison> OrderField(absl::string_view field) {
  const auto by_number = [](auto number) -> Comparison {
    return [number](const v1::JobRecord& a, const v1::JobRecord& b) {
      const double left = number(a), right = number(b);
      return left < right ? -1 : left > right ? 1 : 0;
    };
  };
  if (field == "name" || field == "state") {
    return [text = *TextOf(std::string(field))](const v1::JobRecord& a, const v1::JobRecord& b) {
      return text(a)->compare(*text(b));
    };
  }
  if (field == "step") {
    return by_number([](const v1::JobRecord& job) { return static_cast<double>(job.step()); });
  }
  if (field == "end_time") {
    return by_number([](const v1::JobRecord& job) { return Seconds(job.end_time()); });
  }
  if (const auto number = NumberOf(std::string(field)); number.has_value()) {
    return by_number(*number);
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<JobFilter> ParseFilter(absl::string_view filter) {
  static const auto& fields = *new FilterFields{
      FieldOfJobs, "name, state, owner, project, queue, priority, create_time and spec.labels.KEY",
      "state = RUNNING"};
  return ParseFilter(filter, fields);
}

absl::StatusOr<JobOrder> ParseOrder(absl::string_view order_by) {
  std::vector<std::pair<Comparison, bool>> keys;  // whether it descends
  for (const absl::string_view part : absl::StrSplit(order_by, ',')) {
    const std::vector<std::string> words =
        absl::StrSplit(part, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.empty() && keys.empty() && absl::StripAsciiWhitespace(order_by).empty()) break;
    const bool direction = words.size() == 2 && (words[1] == "desc" || words[1] == "asc");
    const auto field = words.empty() ? std::nullopt : OrderField(words[0]);
    if (!field.has_value() || keys.size() == 8 || !(words.size() == 1 || direction)) {
      return InvalidField(
          "order_by", absl::StrCat("\"", part.substr(0, 100),
                                   "\" is no order such as \"create_time desc\" — the fields "
                                   "are name, state, priority, create_time, end_time and step"));
    }
    keys.emplace_back(*field, direction && words[1] == "desc");
  }
  return JobOrder([keys](const v1::JobRecord& a, const v1::JobRecord& b) {
    for (const auto& [compare, descends] : keys) {
      const int order = compare(a, b);
      if (order != 0) return descends ? order > 0 : order < 0;
    }
    return a.name() < b.name();
  });
}

}  // namespace strata::controller
