#include "client/tracing/chrome_trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"

namespace strata::client {
namespace {

using nlohmann::json;
using protocol::JobTrace;
using protocol::RankTrace;
using protocol::TraceRecord;
using v1::TraceCommunication;

constexpr int kStepsThread = 0;  // streams follow
constexpr int kMostArrows = 64;  // of one collective

std::string Quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

bool CountsSteps(const RankTrace& rank, const TraceRecord& record) {
  return rank.head.programs(record.program).counts_steps();
}
int64_t StepOf(const RankTrace& rank, const TraceRecord& record) {
  return rank.head.first_step() + record.step;
}
const v1::TraceAction& ActionOf(const RankTrace& rank, const TraceRecord& record) {
  return rank.head.programs(record.program).actions(record.action);
}

// One rank's records on the clock that all ranks share.
struct Row {
  const RankTrace* rank;
  bool predicted;
  std::vector<TraceRecord> records;

  int process() const { return 2 * rank->head.rank() + (predicted ? 2 : 1); }
};

// Ends of arrows that belong together.
struct End {
  const Row* row;
  const TraceRecord* record;
};

class Writer {
 public:
  explicit Writer(std::string* text) : text_(text) {}

  void Metadata(const Row& row) {
    const v1::TraceHead& head = row.rank->head;
    std::string name = absl::StrCat("rank ", head.rank());
    if (row.predicted) absl::StrAppend(&name, " predicted");
    std::string place;
    for (const v1::TracePlace& at : head.place()) {
      absl::StrAppend(&place, place.empty() ? " (" : ", ", at.axis(), " ", at.index());
    }
    if (!place.empty()) absl::StrAppend(&name, place, ")");
    Name("process_name", row.process(), kStepsThread, name);
    Sort("process_sort_index", row.process(), kStepsThread, row.process());
    Name("thread_name", row.process(), kStepsThread, "steps");
    std::set<int> streams;
    for (const TraceRecord& record : row.records) {
      streams.insert(ActionOf(*row.rank, record).stream());
    }
    for (const int stream : streams) {
      Name("thread_name", row.process(), stream + 1, head.streams(stream));
      Sort("thread_sort_index", row.process(), stream + 1, stream + 1);
    }
  }

  // The steps' own thread: each from its first computation to its last.
  void Steps(const Row& row) {
    std::map<int64_t, std::pair<double, double>> steps;
    for (const TraceRecord& record : row.records) {
      if (!CountsSteps(*row.rank, record) || ActionOf(*row.rank, record).stream() != 0) continue;
      const auto [at, fresh] =
          steps.try_emplace(StepOf(*row.rank, record), record.begin, record.end);
      at->second.first = std::min(at->second.first, record.begin);
      at->second.second = std::max(at->second.second, record.end);
    }
    for (const auto& [step, span] : steps) {
      Slice(row, kStepsThread, absl::StrCat("step ", step), "step", span.first, span.second,
            absl::StrCat("\"step\":", step));
    }
  }

  void Slices(const Row& row) {
    std::map<int, std::vector<const TraceRecord*>> streams;
    for (const TraceRecord& record : row.records) {
      streams[ActionOf(*row.rank, record).stream()].push_back(&record);
    }
    for (auto& [stream, records] : streams) {
      std::stable_sort(
          records.begin(), records.end(),
          [](const TraceRecord* a, const TraceRecord* b) { return a->begin < b->begin; });
      for (size_t i = 0; i < records.size();) {
        size_t end = i + 1;
        while (end < records.size() && SameInstruction(row, *records[i], *records[end])) ++end;
        Instruction(row, stream + 1, {&records[i], end - i});
        i = end;
      }
    }
  }

  void Arrow(const char* name, const End& from, const End& to) {
    ++arrows_;
    // An arrow ends inside a slice: just before its end.
    const int64_t begin = Nanoseconds(to.record->begin), end = Nanoseconds(to.record->end);
    ArrowEnd(name, "s", from, Nanoseconds(from.record->begin));
    ArrowEnd(name, "f", to, std::max(begin, end - 1));
  }

 private:
  static bool SameInstruction(const Row& row, const TraceRecord& a, const TraceRecord& b) {
    return a.program == b.program && a.step == b.step &&
           ActionOf(*row.rank, a).instruction() == ActionOf(*row.rank, b).instruction();
  }

  void Event(const std::string& event) {
    absl::StrAppend(text_, first_ ? "\n" : ",\n", event);
    first_ = false;
  }

  // Begins and ends are rounded, not lengths: what touches then does.
  static int64_t Nanoseconds(double seconds) { return std::llround(seconds * 1e9); }
  // Microseconds, as the format has them.
  static std::string Time(int64_t nanoseconds) {
    return absl::StrFormat("%d.%03d", nanoseconds / 1000, nanoseconds % 1000);
  }

  void Name(const char* what, int process, int thread, const std::string& name) {
    Event(absl::StrCat("{\"name\":\"", what, "\",\"ph\":\"M\",\"pid\":", process,
                       ",\"tid\":", thread, ",\"args\":{\"name\":", Quoted(name), "}}"));
  }
  void Sort(const char* what, int process, int thread, int index) {
    Event(absl::StrCat("{\"name\":\"", what, "\",\"ph\":\"M\",\"pid\":", process,
                       ",\"tid\":", thread, ",\"args\":{\"sort_index\":", index, "}}"));
  }

  void Slice(const Row& row, int thread, const std::string& name, const std::string& category,
             double begin, double end, const std::string& args) {
    const int64_t begin_ns = Nanoseconds(begin), end_ns = Nanoseconds(end);
    Event(absl::StrCat("{\"name\":", Quoted(name), ",\"cat\":", Quoted(category),
                       ",\"ph\":\"X\",\"ts\":", Time(begin_ns),
                       ",\"dur\":", Time(end_ns - begin_ns), ",\"pid\":", row.process(),
                       ",\"tid\":", thread, ",\"args\":{", args, "}}"));
  }

  void Instruction(const Row& row, int thread, absl::Span<const TraceRecord* const> records) {
    const TraceRecord& first = *records[0];
    const v1::TraceProgram& program = row.rank->head.programs(first.program);
    const int number = ActionOf(*row.rank, first).instruction();
    const v1::TraceInstruction& instruction = program.instructions(number);
    std::string args = absl::StrCat("\"program\":", Quoted(program.name()));
    if (program.counts_steps()) absl::StrAppend(&args, ",\"step\":", StepOf(*row.rank, first));
    absl::StrAppend(&args, ",\"instruction\":", number,
                    ",\"purpose\":", Quoted(instruction.purpose()));
    if (records.size() == 1) {
      return Slice(row, thread, instruction.label(), instruction.purpose(), first.begin, first.end,
                   absl::StrCat(args, OpArguments(row, first)));
    }
    double end = first.end;
    for (const TraceRecord* record : records) end = std::max(end, record->end);
    Slice(row, thread, instruction.label(), instruction.purpose(), first.begin, end, args);
    for (const TraceRecord* record : records) {
      Slice(row, thread, ActionOf(*row.rank, *record).op(), instruction.purpose(), record->begin,
            record->end, absl::StrCat(args, OpArguments(row, *record)));
    }
  }

  static std::string OpArguments(const Row& row, const TraceRecord& record) {
    const v1::TraceAction& action = ActionOf(*row.rank, record);
    std::string args = absl::StrCat(",\"action\":", record.action, ",\"op\":", Quoted(action.op()));
    if (!action.has_communication()) return args;
    const TraceCommunication& what = action.communication();
    absl::StrAppend(&args, ",\"group\":", Quoted(row.rank->head.groups(what.group()).name()),
                    ",\"bytes\":", what.bytes());
    if (what.kind() != TraceCommunication::KIND_COLLECTIVE) {
      absl::StrAppend(&args, ",\"peer\":", what.peer(), ",\"channel\":", what.channel());
    }
    return args;
  }

  void ArrowEnd(const char* name, const char* phase, const End& end, int64_t at) {
    Event(absl::StrCat("{\"name\":\"", name, "\",\"cat\":\"", name, "\",\"ph\":\"", phase,
                       "\",\"bp\":\"e\",\"id\":", arrows_, ",\"ts\":", Time(at),
                       ",\"pid\":", end.row->process(),
                       ",\"tid\":", ActionOf(*end.row->rank, *end.record).stream() + 1, "}"));
  }

  std::string* const text_;
  bool first_ = true;
  int64_t arrows_ = 0;
};

// What is sent meets what is received in order per (sender, receiver, channel), what all members of
// a group do in order per (group, stream): within each step, by the list.
using Meeting = std::tuple<bool, int64_t, int, int, std::vector<int>>;

struct Met {
  std::vector<End> sends, others;  // receives; the members of a collective, each one's in a row
};

void Collect(const Row& row, std::map<Meeting, Met>& meetings) {
  std::vector<const TraceRecord*> records;
  for (const TraceRecord& record : row.records) {
    const bool took_place = record.end > record.begin;
    if (took_place && ActionOf(*row.rank, record).has_communication()) records.push_back(&record);
  }
  std::sort(records.begin(), records.end(), [](const TraceRecord* a, const TraceRecord* b) {
    return std::tie(a->program, a->step, a->action) < std::tie(b->program, b->step, b->action);
  });
  const int own = row.rank->head.rank();
  for (const TraceRecord* record : records) {
    const v1::TraceAction& action = ActionOf(*row.rank, *record);
    const TraceCommunication& what = action.communication();
    const bool sends = what.kind() == TraceCommunication::KIND_SEND;
    Meeting meeting{row.predicted, record->step, record->program, 0, {}};
    if (what.kind() == TraceCommunication::KIND_COLLECTIVE) {
      const v1::TraceGroup& group = row.rank->head.groups(what.group());
      std::get<3>(meeting) = -1 - action.stream();
      std::get<4>(meeting) = {group.members().begin(), group.members().end()};
    } else {
      std::get<3>(meeting) = what.channel();
      std::get<4>(meeting) = {sends ? own : what.peer(), sends ? what.peer() : own};
    }
    Met& met = meetings[meeting];
    (sends ? met.sends : met.others).push_back({&row, record});
  }
}

void DrawMessages(const Met& met, Writer& writer) {
  for (size_t i = 0; i < std::min(met.sends.size(), met.others.size()); ++i) {
    writer.Arrow("message", met.sends[i], met.others[i]);
  }
}

// The k-th of each member are one collective.
void DrawCollectives(const Met& met, size_t members, Writer& writer) {
  std::map<const Row*, std::vector<End>> by_member;
  for (const End& end : met.others) by_member[end.row].push_back(end);
  if (by_member.size() != members || members > kMostArrows) return;
  const size_t count = by_member.begin()->second.size();
  for (const auto& [row, ends] : by_member) {
    if (ends.size() != count) return;
  }
  for (size_t k = 0; k < count; ++k) {
    const auto last =
        std::max_element(by_member.begin(), by_member.end(), [k](const auto& a, const auto& b) {
          return a.second[k].record->begin < b.second[k].record->begin;
        });
    for (const auto& [row, ends] : by_member) {
      if (row != last->first) writer.Arrow("collective", last->second[k], ends[k]);
    }
  }
}

// Of each machine what its clock is behind the first rank's: one machine, one clock. Seconds since
// 1970 would be too large for nanoseconds.
std::map<std::string, double> OffsetsOf(const JobTrace& trace) {
  const double first = trace.ranks.front().head.clock_offset_seconds();
  std::map<std::string, double> offsets;
  for (const RankTrace& rank : trace.ranks) {
    offsets.emplace(rank.head.boot(), rank.head.clock_offset_seconds() - first);
  }
  return offsets;
}

// The records shown of each rank; times since `origin`, which is set to the first of the steps'
// (seconds since 1970).
std::vector<Row> MeasuredRows(const JobTrace& trace, int64_t first, int64_t last, double* origin) {
  const std::map<std::string, double> offsets = OffsetsOf(trace);
  double begin = std::numeric_limits<double>::infinity(), end = -begin;
  const auto is_chosen = [&](const RankTrace& rank, const TraceRecord& record) {
    const int64_t step = StepOf(rank, record);
    return CountsSteps(rank, record) && step >= first && step <= last;
  };
  for (const RankTrace& rank : trace.ranks) {
    const double offset = offsets.at(rank.head.boot());
    for (const TraceRecord& record : rank.records) {
      if (!is_chosen(rank, record)) continue;
      begin = std::min(begin, record.begin + offset);
      end = std::max(end, record.end + offset);
    }
  }
  *origin = begin + trace.ranks.front().head.clock_offset_seconds();
  std::vector<Row> rows;
  for (const RankTrace& rank : trace.ranks) {
    const double offset = offsets.at(rank.head.boot());
    Row& row = rows.emplace_back(Row{&rank, false, {}});
    for (TraceRecord record : rank.records) {
      const bool chosen = is_chosen(rank, record);
      record.begin = record.begin + offset - begin;
      record.end = record.end + offset - begin;
      const bool meanwhile =
          !CountsSteps(rank, record) && record.begin >= 0 && record.end <= end - begin;
      if (chosen || meanwhile) row.records.push_back(record);
    }
  }
  return rows;
}

// The same steps as the timeline has them, end to end.
std::vector<Row> PredictedRows(const JobTrace& trace, int64_t first, int64_t last) {
  std::vector<Row> rows;
  if (!trace.predicted.has_value()) return rows;
  const v1::PredictedTrace& predicted = *trace.predicted;
  double begin = std::numeric_limits<double>::infinity();
  for (const v1::PredictedStage& stage : predicted.stages()) {
    for (const double at : stage.begin_seconds()) begin = std::min(begin, at);
  }
  for (const RankTrace& rank : trace.ranks) {
    if (rank.head.stage() >= predicted.stages_size()) continue;
    const v1::PredictedStage& stage = predicted.stages(rank.head.stage());
    for (int p = 0; p < rank.head.programs_size(); ++p) {
      const v1::TraceProgram& program = rank.head.programs(p);
      if (!program.counts_steps() || program.actions_size() != stage.begin_seconds_size()) continue;
      Row& row = rows.emplace_back(Row{&rank, true, {}});
      for (int64_t step = first; step <= last; ++step) {
        const double shift = static_cast<double>(step - first) * predicted.step_seconds() - begin;
        for (int a = 0; a < program.actions_size(); ++a) {
          row.records.push_back({.step = step - rank.head.first_step(),
                                 .begin = stage.begin_seconds(a) + shift,
                                 .end = stage.end_seconds(a) + shift,
                                 .program = p,
                                 .action = a});
        }
      }
    }
  }
  return rows;
}

std::string About(const JobTrace& trace, int64_t first, int64_t last, double origin) {
  json about = {{"first_step", first},
                {"last_step", last},
                {"attempt", trace.ranks.front().head.attempt()},
                {"begin_seconds_since_1970", origin},
                {"missing_ranks", trace.missing}};
  if (trace.predicted.has_value()) {
    about["predicted_from"] = trace.predicted->costs();
    about["predicted_step_seconds"] = trace.predicted->step_seconds();
  }
  return about.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

int64_t RecordsPerStep(const JobTrace& trace) {
  int64_t records = 0;
  for (const RankTrace& rank : trace.ranks) {
    for (const v1::TraceProgram& program : rank.head.programs()) {
      if (program.counts_steps()) records += program.actions_size();
    }
  }
  return records;
}

std::vector<int64_t> WholeSteps(const JobTrace& trace) {
  std::map<int64_t, size_t> ranks_with;  // by step
  for (const RankTrace& rank : trace.ranks) {
    std::map<std::pair<int, int64_t>, int> actions;  // of each program's step
    for (const TraceRecord& record : rank.records) {
      if (CountsSteps(rank, record)) ++actions[{record.program, StepOf(rank, record)}];
    }
    for (const auto& [which, count] : actions) {
      if (count == rank.head.programs(which.first).actions_size()) ++ranks_with[which.second];
    }
  }
  std::vector<int64_t> steps;
  for (const auto& [step, ranks] : ranks_with) {
    if (ranks == trace.ranks.size()) steps.push_back(step);
  }
  return steps;
}

std::string ChromeTrace(const JobTrace& trace, int64_t first, int64_t last) {
  double origin = 0;
  std::vector<Row> rows = MeasuredRows(trace, first, last, &origin);
  for (Row& row : PredictedRows(trace, first, last)) rows.push_back(std::move(row));
  std::string text =
      absl::StrCat("{\"displayTimeUnit\":\"ms\",\"otherData\":", About(trace, first, last, origin),
                   ",\"traceEvents\":[");
  Writer writer(&text);
  std::map<Meeting, Met> meetings;
  for (const Row& row : rows) {
    writer.Metadata(row);
    writer.Steps(row);
    writer.Slices(row);
    Collect(row, meetings);
  }
  for (const auto& [meeting, met] : meetings) {
    if (met.sends.empty() && std::get<3>(meeting) < 0) {
      DrawCollectives(met, std::get<4>(meeting).size(), writer);
    } else {
      DrawMessages(met, writer);
    }
  }
  text += "\n]}\n";
  return text;
}

}  // namespace strata::client
