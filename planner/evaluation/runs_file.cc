#include "planner/evaluation/runs_file.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "planner/evaluation/csv.h"

namespace strata::planner {
namespace {

constexpr const char* kRequired[] = {"id",       "gpu",      "n_gpus",   "layers", "hidden",
                                     "heads",    "vocab",    "seq_len",  "tp",     "pp",
                                     "mbs_seqs", "gbs_seqs", "precision"};
constexpr const char* kAbsent[] = {"", "-", "?", "n/a", "na", "nan", "none", "null", "unknown"};
constexpr double kMost = 1e12;      // of any count
constexpr double kMostCount = 1e9;  // products of two are still exact
constexpr size_t kMostProblems = 20;
constexpr double kGiB = 1024.0 * 1024 * 1024;

// The fields of one record by column, with what is wrong with them.
class Row {
 public:
  Row(const std::map<std::string, size_t>& columns, const CsvRecord& record, absl::string_view file,
      std::vector<std::string>& problems)
      : columns_(columns), record_(record), file_(file), problems_(problems) {}

  std::string Text(const std::string& column) const {
    const CsvField* field = Field(column);
    return field == nullptr ? "" : std::string(absl::StripAsciiWhitespace(field->text));
  }
  std::string Lower(const std::string& column) const { return absl::AsciiStrToLower(Text(column)); }

  // Positive; absent when the field is empty, 0 or a word for that.
  std::optional<double> Number(const std::string& column) const {
    const std::string text = Lower(column);
    if (std::find(std::begin(kAbsent), std::end(kAbsent), text) != std::end(kAbsent)) {
      return std::nullopt;
    }
    double value = 0;
    if (absl::SimpleAtod(text, &value) && value >= 0 && value <= kMost) {
      return value > 0 ? std::optional<double>(value) : std::nullopt;
    }
    Complain(column, absl::StrCat(column, ": ", Text(column), " is no positive number"));
    return std::nullopt;
  }
  // A fraction, or more than anything has, is a reason not to predict the row.
  std::optional<int64_t> Count(const std::string& column) const {
    const std::optional<double> value = Number(column);
    if (!value.has_value()) return std::nullopt;
    const bool whole = *value == std::floor(*value);
    if (whole && *value <= kMostCount) return static_cast<int64_t>(*value);
    if (odd_.empty()) {
      odd_ =
          absl::StrCat(column, ": ", Text(column), whole ? " is too many" : " is no whole number");
    }
    return std::nullopt;
  }
  const std::string& odd() const { return odd_; }
  int64_t CountOr(const std::string& column, int64_t otherwise) const {
    return Count(column).value_or(otherwise);
  }
  bool Flag(const std::string& column, bool otherwise) const {
    const std::string text = Lower(column);
    if (text.empty()) return otherwise;
    if (text == "1" || text == "yes" || text == "true" || text == "swiglu") return true;
    if (text == "0" || text == "no" || text == "false") return false;
    Complain(column, absl::StrCat(column, ": ", text, " is neither yes nor no"));
    return otherwise;
  }

 private:
  const CsvField* Field(const std::string& column) const {
    const auto found = columns_.find(column);
    return found == columns_.end() ? nullptr : &record_[found->second];
  }
  void Complain(const std::string& column, const std::string& what) const {
    const CsvField* field = Field(column);
    problems_.push_back(std::string(
        CsvError(file_, field->line, field->column, what, "correct it, or leave the field empty")
            .message()));
  }

  const std::map<std::string, size_t>& columns_;
  const CsvRecord& record_;
  absl::string_view file_;
  std::vector<std::string>& problems_;
  mutable std::string odd_;
};

void AddReason(MeasuredRun& run, const std::string& reason) {
  if (run.reason.empty()) run.reason = reason;
}

int64_t Needed(const Row& row, const std::string& column, MeasuredRun& run) {
  const std::optional<int64_t> value = row.Count(column);
  if (!value.has_value()) AddReason(run, absl::StrCat(column, " is missing"));
  return value.value_or(1);
}

void ReadShape(const Row& row, MeasuredRun& run) {
  TrainingShape& shape = run.shape;
  shape.layers = Needed(row, "layers", run);
  shape.hidden = Needed(row, "hidden", run);
  shape.heads = Needed(row, "heads", run);
  shape.vocab = Needed(row, "vocab", run);
  shape.sequence_length = Needed(row, "seq_len", run);
  shape.kv_heads = std::min(row.CountOr("kv_heads", shape.heads), shape.heads);
  shape.head_dim = row.CountOr("head_dim", std::max<int64_t>(1, shape.hidden / shape.heads));
  shape.gated = row.Flag("gated_mlp", false);
  shape.experts = row.Count("n_experts").value_or(0);
  if (shape.experts > 1) {
    shape.experts_per_token = Needed(row, "moe_topk", run);
    shape.expert_ffn = Needed(row, "moe_ffn_hidden", run);
    shape.ffn = row.CountOr("ffn_hidden", shape.expert_ffn);
  } else {
    shape.experts = 0;
    shape.ffn = Needed(row, "ffn_hidden", run);
  }
}

std::optional<Precision> PrecisionOf(const std::string& text) {
  const std::pair<const char*, Precision> words[] = {
      {"nvfp4", Precision::kNvfp4}, {"fp4", Precision::kNvfp4},  {"mxfp8", Precision::kMxfp8},
      {"fp8", Precision::kFp8},     {"float8", Precision::kFp8}, {"bf16", Precision::kHalf},
      {"fp16", Precision::kHalf},   {"fp32", Precision::kFp32},  {"tf32", Precision::kFp32}};
  if (absl::StartsWith(text, "fp8-mx") || absl::StartsWith(text, "fp8_mx")) {
    return Precision::kMxfp8;
  }
  for (const auto& [word, precision] : words) {
    if (absl::StrContains(text, word)) return precision;
  }
  return std::nullopt;
}

Sharding ShardingOf(const std::string& text) {
  if (text.empty()) return Sharding::kZero1;
  for (const char* word : {"zero3", "zero-3", "full_shard", "fsdp", "hsdp"}) {
    if (absl::StrContains(text, word)) return Sharding::kZero3;
  }
  for (const char* word : {"zero2", "zero-2", "shard_grad"}) {
    if (absl::StrContains(text, word)) return Sharding::kZero2;
  }
  for (const char* word : {"zero1", "zero-1", "distributed"}) {
    if (absl::StrContains(text, word)) return Sharding::kZero1;
  }
  return Sharding::kReplicated;
}

Recompute RecomputeOf(const std::string& text) {
  if (absl::StartsWith(text, "no")) return Recompute::kNone;
  if (absl::StrContains(text, "sel")) return Recompute::kSelective;
  return absl::StrContains(text, "full") || absl::StrContains(text, "block") ? Recompute::kFull
                                                                             : Recompute::kNone;
}

Offload OffloadOf(const std::string& text) {
  if (text.empty() || absl::StartsWith(text, "no")) return Offload::kNone;
  if (absl::StrContains(text, "act")) return Offload::kActivations;
  return absl::StrContains(text, "nvme") || absl::StrContains(text, "ssd") ? Offload::kAll
                                                                           : Offload::kOptimizer;
}

void ReadLayout(const Row& row, MeasuredRun& run) {
  LayoutChoice& layout = run.layout;
  layout.tensor = Needed(row, "tp", run);
  layout.pipeline = Needed(row, "pp", run);
  layout.chunks = row.CountOr("vpp", 1);
  layout.context = row.CountOr("cp", 1);
  layout.expert = row.CountOr("ep", 1);
  const std::string sharding = row.Lower("dp_sharding");
  layout.sharding = ShardingOf(sharding);
  run.data_overlap = !absl::StrContains(sharding, "no overlap");
  layout.sequence_parallel = row.Flag("seq_parallel", layout.tensor > 1);
  layout.micro_batch = Needed(row, "mbs_seqs", run);
  layout.recompute = RecomputeOf(row.Lower("recompute"));
  layout.offload = OffloadOf(row.Lower("offload"));
  layout.update_bytes = row.Number("update_bytes_per_parameter").value_or(layout.update_bytes);
  layout.disk = layout.offload == Offload::kAll;
  const std::optional<Precision> precision = PrecisionOf(row.Lower("precision"));
  if (!precision.has_value()) {
    AddReason(run, absl::StrCat("precision \"", row.Text("precision"), "\" is not known"));
  }
  layout.precision = precision.value_or(Precision::kHalf);
  const int64_t global_batch = Needed(row, "gbs_seqs", run);
  if (!run.reason.empty()) return;
  if (layout.tensor > run.devices || layout.pipeline * layout.context > run.devices) {
    AddReason(run, absl::StrCat("more ranks than n_gpus ", run.devices));
    return;
  }
  const int64_t model = layout.tensor * layout.pipeline * layout.context;
  if (run.devices % model != 0) {
    AddReason(run,
              absl::StrCat("n_gpus ", run.devices, " is no multiple of tp x pp x cp = ", model));
    return;
  }
  layout.data = run.devices / model;
  // A last micro-batch that is not full takes as long as a full one.
  const int64_t step = layout.data * layout.micro_batch;
  layout.global_batch = (global_batch + step - 1) / step * step;
  // The embedding and the head may stand in for a layer each.
  if (layout.pipeline * layout.chunks > run.shape.layers + 2) {
    AddReason(run, absl::StrCat(layout.pipeline * layout.chunks, " pipeline stages for ",
                                run.shape.layers, " layers"));
  }
}

MeasuredRun ReadRun(const Row& row) {
  MeasuredRun run;
  run.id = row.Text("id");
  run.source = row.Text("source_id");
  run.model = row.Text("model");
  run.devices = Needed(row, "n_gpus", run);
  ReadShape(row, run);
  ReadLayout(row, run);
  MachineRequest& machine = run.machine;
  machine.gpu = row.Text("gpu");
  if (machine.gpu.empty()) AddReason(run, "gpu is missing");
  if (!row.odd().empty()) run.reason = row.odd();
  machine.precision = run.layout.precision;
  machine.release = run.source;
  machine.framework = row.Text("framework");
  // Megatron-LM is sharded fully by DeepSpeed, in comparisons of both.
  const std::string framework = row.Lower("framework");
  if (run.layout.sharding == Sharding::kZero3 &&
      (absl::StrContains(framework, "deepspeed") || absl::StrContains(framework, "megatron-lm"))) {
    machine.framework = "DeepSpeed ZeRO-3";
  }
  machine.node_devices = row.Count("gpus_per_node");
  machine.domain_devices = row.Count("nvlink_domain_gpus");
  if (const auto gigabits = row.Number("nic_Gbps_per_gpu"))
    machine.network_rate = *gigabits * 1e9 / 8;
  if (const auto peak = row.Number("peak_dense_bf16_TFLOPs")) machine.half_peak = *peak * 1e12;
  if (const auto memory = row.Number("gpu_mem_GB")) machine.memory_bytes = *memory * 1e9;
  run.seconds = row.Number("iter_time_s_best");
  const std::string basis = row.Lower("iter_time_basis");
  run.direct =
      run.seconds.has_value() && (basis == "reported" || absl::StartsWith(basis, "from tokens"));
  if (const auto memory = row.Number("peak_mem_GiB_reported")) run.memory_bytes = *memory * kGiB;
  return run;
}

}  // namespace

absl::StatusOr<std::vector<MeasuredRun>> ReadRuns(absl::string_view text, absl::string_view file) {
  ASSIGN_OR_RETURN(const CsvTable table, ReadCsv(text, file));
  std::map<std::string, size_t> columns;
  for (size_t i = 0; i < table.columns.size(); ++i) columns[table.columns[i]] = i;
  std::vector<std::string> problems;
  for (const char* name : kRequired) {
    if (columns.contains(name)) continue;
    problems.push_back(
        std::string(CsvError(file, 1, 1, absl::StrCat("column ", name, " is missing"),
                             "add it; its fields may be empty")
                        .message()));
  }
  if (!problems.empty()) return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
  std::vector<MeasuredRun> runs;
  for (const CsvRecord& record : table.records) {
    runs.push_back(ReadRun(Row(columns, record, file, problems)));
    if (problems.size() >= kMostProblems) break;
  }
  if (!problems.empty()) return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
  return runs;
}

}  // namespace strata::planner
