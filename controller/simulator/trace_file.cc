#include "controller/simulator/trace_file.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "controller/logic/names.h"
#include "spec/problems.h"
#include "spec/scalars.h"
#include "spec/suggest.h"

namespace strata::simulator {
namespace {

constexpr int64_t kMostRanks = 1 << 20;
constexpr double kMostSeconds = 1e9;
constexpr size_t kMostJobs = 1'000'000;

const std::vector<std::string>& Columns() {
  static const auto& columns = *new std::vector<std::string>{"name",
                                                             "submit_seconds",
                                                             "nodes",
                                                             "ranks",
                                                             "data",
                                                             "tensor",
                                                             "context",
                                                             "pipeline",
                                                             "shard_group",
                                                             "steps",
                                                             "seconds_per_step",
                                                             "priority",
                                                             "project",
                                                             "queue",
                                                             "device",
                                                             "spares",
                                                             "checkpoint_interval",
                                                             "checkpoint_stall",
                                                             "cancel_seconds"};
  return columns;
}

struct Cell {
  std::string text;
  int column = 1;  // of its first character, counted from 1
};

std::vector<Cell> CellsOf(absl::string_view line) {
  std::vector<Cell> cells;
  size_t at = 0;
  for (const absl::string_view part : absl::StrSplit(line, ',')) {
    const absl::string_view text = absl::StripAsciiWhitespace(part);
    const size_t before = text.empty() ? 0 : static_cast<size_t>(text.data() - part.data());
    cells.push_back({std::string(text), static_cast<int>(at + before) + 1});
    at += part.size() + 1;
  }
  return cells;
}

class Reader {
 public:
  Reader(const std::string& file, const TraceDefaults& defaults)
      : problems_(file), defaults_(defaults) {}

  absl::StatusOr<std::vector<SimJob>> Read(absl::string_view text) {
    absl::ConsumePrefix(&text, "\xEF\xBB\xBF");
    bool headed = false;
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      ++line_;
      line = absl::StripSuffix(line, "\r");
      if (absl::StripAsciiWhitespace(line).empty() || line[0] == '#') continue;
      if (const size_t quote = line.find('"'); quote != line.npos) {
        Add(static_cast<int>(quote) + 1, "", "a quotation mark (cells are plain text)",
            "leave quotes and commas out of the cells");
        continue;
      }
      if (!headed) {
        headed = true;
        ReadHeading(CellsOf(line));
        if (!problems_.empty()) break;  // what the cells mean is not known
      } else {
        ReadJob(CellsOf(line));
      }
      if (problems_.full()) break;
    }
    line_ = std::max(line_, 1);
    if (!headed && problems_.empty()) Add(1, "", "no line with the columns' names", "");
    if (headed && jobs_.empty() && problems_.empty()) Add(1, "", "no job", "");
    if (!problems_.empty()) return problems_.ToStatus();
    return std::move(jobs_);
  }

 private:
  void Add(int column, const std::string& path, const std::string& what,
           const std::string& remedy) {
    problems_.Add({{line_, column}, path, what, remedy});
  }

  void ReadHeading(const std::vector<Cell>& cells) {
    for (const Cell& cell : cells) {
      if (std::find(Columns().begin(), Columns().end(), cell.text) == Columns().end()) {
        const std::string nearest = spec::Nearest(cell.text, Columns());
        Add(cell.column, spec::Shown(cell.text), "unknown column",
            nearest.empty() ? absl::StrCat("columns are ", absl::StrJoin(Columns(), ", "))
                            : absl::StrCat("did you mean ", nearest, "?"));
      } else if (std::count(columns_.begin(), columns_.end(), cell.text) > 0) {
        Add(cell.column, cell.text, "the column is named twice", "");
      }
      columns_.push_back(cell.text);
    }
    for (const char* needed : {"name", "submit_seconds", "steps", "seconds_per_step"}) {
      if (Has(needed)) continue;
      Add(1, needed, "the column is missing", "add it: it has no default");
    }
    const int sizes = Has("nodes") + Has("ranks") + Has("data");
    if (sizes == 0) Add(1, "nodes", "a job's size is missing", "add nodes, ranks or data");
  }

  bool Has(const std::string& column) const {
    return std::count(columns_.begin(), columns_.end(), column) > 0;
  }

  void ReadJob(const std::vector<Cell>& cells) {
    if (cells.size() != columns_.size()) {
      return Add(
          cells.back().column, "",
          absl::StrCat(cells.size(), " cells (the first line has ", columns_.size(), " columns)"),
          "");
    }
    row_.clear();
    for (size_t i = 0; i < cells.size(); ++i) {
      if (!cells[i].text.empty()) row_[columns_[i]] = cells[i];
    }
    const size_t before = problems_.count();
    SimJob job;
    job.device = Text("device", defaults_.device);
    job.project = Text("project", "default");
    job.queue = Text("queue", "default");
    ReadName(job);
    job.submit_seconds = Needed("submit_seconds", 0, kMostSeconds);
    job.steps = static_cast<int64_t>(Count("steps", 1, 1'000'000'000).value_or(0));
    job.seconds_per_step = Needed("seconds_per_step", 1e-3, 1e6);
    job.priority = Count("priority", -1'000'000, 1'000'000).value_or(0);
    job.spares = Count("spares", 0, kMostRanks).value_or(0);
    job.checkpoint_interval =
        Number("checkpoint_interval", 1e-3, kMostSeconds).value_or(defaults_.checkpoint_interval);
    job.checkpoint_stall =
        Number("checkpoint_stall", 0, kMostSeconds).value_or(defaults_.checkpoint_stall);
    job.cancel_seconds = Number("cancel_seconds", 0, kMostSeconds);
    if (!row_.contains("steps")) Missing("steps");
    if (ReadSize(job)) ReadShardGroup(job);
    if (jobs_.size() == kMostJobs) Add(1, "", absl::StrCat("more than ", kMostJobs, " jobs"), "");
    if (problems_.count() == before) jobs_.push_back(std::move(job));
  }

  void ReadName(SimJob& job) {
    const auto cell = row_.find("name");
    if (cell == row_.end()) return Missing("name");
    job.name = cell->second.text;
    const absl::Status status = controller::CheckJobName(absl::StrCat("jobs/", job.name));
    if (!status.ok()) {
      Add(cell->second.column, "name", absl::StrCat(spec::Shown(job.name), " is no job's name"),
          "use at most 63 small letters, digits and '-' between them");
    } else if (!names_.insert(job.name).second) {
      Add(cell->second.column, "name", absl::StrCat("there is a job ", job.name, " already"),
          "give each job a name of its own");
    }
  }

  // Whether its degrees are known.
  bool ReadSize(SimJob& job) {
    job.tensor = Count("tensor", 1, kMostRanks).value_or(1);
    job.context = Count("context", 1, kMostRanks).value_or(1);
    job.pipeline = Count("pipeline", 1, kMostRanks).value_or(1);
    const std::optional<int64_t> data = Count("data", 1, kMostRanks);
    std::optional<int64_t> ranks = Count("ranks", 1, kMostRanks);
    const std::optional<int64_t> nodes = Count("nodes", 1, kMostRanks);
    if (data.has_value() + ranks.has_value() + nodes.has_value() != 1) {
      const bool none =
          !row_.contains("data") && !row_.contains("ranks") && !row_.contains("nodes");
      if (none) Add(1, "nodes", "the job has no size", "give nodes, ranks or data");
      if (data.has_value() + ranks.has_value() + nodes.has_value() > 1) {
        Add(1, "nodes", "the job has more than one size", "give one of nodes, ranks and data");
      }
      return false;
    }
    const int64_t of_a_replica = job.tensor * job.context * job.pipeline;
    job.data = data.value_or(1);
    if (of_a_replica > kMostRanks / job.data) {
      Add(1, "", absl::StrCat("a job of more than ", kMostRanks, " ranks"), "use smaller degrees");
      return false;
    }
    if (data.has_value()) return true;
    const char* column = nodes.has_value() ? "nodes" : "ranks";
    if (nodes.has_value()) ranks = *nodes * defaults_.devices;
    job.data = *ranks / of_a_replica;
    if (*ranks % of_a_replica == 0) return true;
    Add(row_.at(column).column, column,
        absl::StrCat(*ranks, " ranks are no multiple of tensor ", job.tensor, " times context ",
                     job.context, " times pipeline ", job.pipeline),
        absl::StrCat("use ", std::max<int64_t>(1, job.data) * of_a_replica,
                     " ranks, or other degrees"));
    return false;
  }

  void ReadShardGroup(SimJob& job) {
    job.shard_group = Count("shard_group", 1, kMostRanks).value_or(0);
    if (job.shard_group == 0 || job.data % job.shard_group == 0) return;
    Add(row_.at("shard_group").column, "shard_group",
        absl::StrCat(job.shard_group, " does not divide the data degree, ", job.data),
        "use one of its divisors, or leave the cell empty");
  }

  void Missing(const std::string& column) {
    Add(1, column, "the cell is empty", "fill it in: it has no default");
  }

  std::string Text(const std::string& column, const std::string& otherwise) const {
    const auto cell = row_.find(column);
    return cell == row_.end() ? otherwise : cell->second.text;
  }

  template <typename T>
  std::optional<T> Checked(const std::string& column, const absl::StatusOr<T>& value, double least,
                           double most) {
    const Cell& cell = row_.at(column);
    if (!value.ok()) {
      Add(cell.column, column,
          absl::StrCat(spec::Shown(cell.text), ": ", absl::string_view(value.status().message())),
          "");
      return std::nullopt;
    }
    if (static_cast<double>(*value) >= least && static_cast<double>(*value) <= most) return *value;
    Add(cell.column, column,
        absl::StrCat(spec::Shown(cell.text), " is not from ", spec::ShortestNumber(least), " to ",
                     spec::ShortestNumber(most)),
        "");
    return std::nullopt;
  }

  std::optional<int64_t> Count(const std::string& column, double least, double most) {
    const auto cell = row_.find(column);
    if (cell == row_.end()) return std::nullopt;
    return Checked(column, spec::ParseCount(cell->second.text), least, most);
  }

  std::optional<double> Number(const std::string& column, double least, double most) {
    const auto cell = row_.find(column);
    if (cell == row_.end()) return std::nullopt;
    return Checked(column, spec::ParseNumber(cell->second.text), least, most);
  }

  double Needed(const std::string& column, double least, double most) {
    if (!row_.contains(column)) Missing(column);
    return Number(column, least, most).value_or(0);
  }

  spec::Problems problems_;
  const TraceDefaults& defaults_;
  int line_ = 0;
  std::vector<std::string> columns_;
  std::map<std::string, Cell> row_;  // by column; empty cells are not in it
  std::set<std::string> names_;
  std::vector<SimJob> jobs_;
};

}  // namespace

absl::StatusOr<std::vector<SimJob>> ReadTrace(const std::string& file, const std::string& text,
                                              const TraceDefaults& defaults) {
  return Reader(file, defaults).Read(text);
}

}  // namespace strata::simulator
