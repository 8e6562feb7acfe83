#include "protocol/step_record.h"

#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "protocol/path_stalls.h"

namespace strata::protocol {
namespace {

using Json = nlohmann::json;

// The shortest of the three that is exact, so that lines stay readable.
std::string NumberText(double value) {
  if (!std::isfinite(value)) return "null";
  std::string text;
  for (const int digits : {15, 16, 17}) {
    text = absl::StrFormat("%.*g", digits, value);
    double read = 0;
    if (absl::SimpleAtod(text, &read) && read == value) break;
  }
  return text;
}

// File names and the system's messages may be any bytes.
std::string Dump(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string PathsObject(const v1::TierMemory& tier, const std::vector<PathStall>& stalls) {
  std::string text;
  for (int p = 0; p < tier.paths_size(); ++p) {
    const v1::PathTraffic& path = tier.paths(p);
    absl::StrAppend(&text, text.empty() ? "" : ", ", Dump(path.path()),
                    ": {\"read_bytes\": ", path.read_bytes(),
                    ", \"written_bytes\": ", path.written_bytes(),
                    ", \"total_read_bytes\": ", path.total_read_bytes(),
                    ", \"total_written_bytes\": ", path.total_written_bytes(),
                    ", \"read_seconds\": ", NumberText(path.read_seconds()),
                    ", \"write_seconds\": ", NumberText(path.write_seconds()),
                    ", \"read_stall_seconds\": ", NumberText(stalls[p].read),
                    ", \"write_stall_seconds\": ", NumberText(stalls[p].write),
                    ", \"mean_queue_depth\": ", NumberText(path.mean_queue_depth()),
                    ", \"most_queue_depth\": ", path.most_queue_depth(), "}");
  }
  return absl::StrCat("{", text, "}");
}

// What only the SSD tier has.
std::string TrafficText(const v1::TierMemory& tier, const std::vector<PathStall>& stalls) {
  return absl::StrCat(", \"read_bytes\": ", tier.read_bytes(),
                      ", \"written_bytes\": ", tier.written_bytes(),
                      ", \"total_read_bytes\": ", tier.total_read_bytes(),
                      ", \"total_written_bytes\": ", tier.total_written_bytes(),
                      ", \"write_rate\": ", NumberText(tier.write_rate()),
                      ", \"busiest_read_bytes\": ", tier.busiest_read_bytes(),
                      ", \"busiest_written_bytes\": ", tier.busiest_written_bytes(),
                      ", \"processor_seconds\": ", NumberText(tier.processor_seconds()),
                      ", \"paths\": ", PathsObject(tier, stalls));
}

// What only arenas of fixed pages have.
std::string PagesText(const v1::TierMemory& tier) {
  if (!tier.has_locked_bytes()) return "";
  std::string text = absl::StrCat(", \"locked_bytes\": ", tier.locked_bytes(),
                                  ", \"huge_bytes\": ", tier.huge_bytes());
  if (tier.has_misplaced_bytes()) {
    absl::StrAppend(&text, ", \"misplaced_bytes\": ", tier.misplaced_bytes());
  }
  if (!tier.lacks().empty()) absl::StrAppend(&text, ", \"lacks\": ", Dump(tier.lacks()));
  return text;
}

std::string MemoryObject(const v1::StepRecord& record) {
  std::string text;
  for (const v1::TierMemory& tier : record.memory()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "\"", tier.tier(),
                    "\": {\"predicted_bytes\": ", tier.predicted_bytes(),
                    ", \"arena_bytes\": ", tier.arena_bytes(),
                    ", \"measured_bytes\": ", tier.measured_bytes(),
                    ", \"overhead_bytes\": ", tier.overhead_bytes());
    absl::StrAppend(
        &text,
        tier.tier() == "ssd" ? TrafficText(tier, StallsByPath(record, tier)) : PagesText(tier),
        "}");
  }
  return absl::StrCat("{", text, "}");
}

std::string TransfersObject(const v1::StepRecord& record) {
  std::string text;
  for (const v1::Transfer& transfer : record.transfers()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "\"", transfer.stream(),
                    "\": {\"bytes\": ", transfer.bytes(),
                    ", \"total_bytes\": ", transfer.total_bytes(),
                    ", \"seconds\": ", NumberText(transfer.seconds()),
                    ", \"stall_seconds\": ", NumberText(transfer.stall_seconds()), "}");
  }
  return absl::StrCat("{", text, "}");
}

std::string PredictedObject(const v1::PurposeSeconds& purpose) {
  if (!purpose.has_predicted_compute_seconds()) return "";
  return absl::StrCat(
      ", \"predicted\": {\"compute_seconds\": ", NumberText(purpose.predicted_compute_seconds()),
      ", \"exposed_seconds\": ", NumberText(purpose.predicted_exposed_seconds()),
      ", \"background_seconds\": ", NumberText(purpose.predicted_background_seconds()), "}");
}

std::string PurposesObject(const v1::StepRecord& record) {
  std::string text;
  for (const v1::PurposeSeconds& purpose : record.purposes()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "\"", purpose.purpose(),
                    "\": {\"compute_seconds\": ", NumberText(purpose.compute_seconds()),
                    ", \"exposed_seconds\": ", NumberText(purpose.exposed_seconds()),
                    ", \"background_seconds\": ", NumberText(purpose.background_seconds()),
                    PredictedObject(purpose), "}");
  }
  return absl::StrCat("{", text, "}");
}

Json Parse(absl::string_view line) {
  return Json::parse(line.data(), line.data() + line.size(), /*cb=*/nullptr,
                     /*allow_exceptions=*/false);
}

double Number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nan("");
  return found->get<double>();
}

int64_t Whole(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_number_integer() ? 0 : found->get<int64_t>();
}

std::string Text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? "" : found->get<std::string>();
}

void ReadPaths(const Json& tier, v1::TierMemory& memory) {
  const auto paths = tier.find("paths");
  if (paths == tier.end() || !paths->is_object()) return;
  for (const auto& [name, path] : paths->items()) {
    if (!path.is_object()) continue;
    v1::PathTraffic& traffic = *memory.add_paths();
    traffic.set_path(name);
    traffic.set_read_bytes(Whole(path, "read_bytes"));
    traffic.set_written_bytes(Whole(path, "written_bytes"));
    traffic.set_total_read_bytes(Whole(path, "total_read_bytes"));
    traffic.set_total_written_bytes(Whole(path, "total_written_bytes"));
    traffic.set_read_seconds(Number(path, "read_seconds"));
    traffic.set_write_seconds(Number(path, "write_seconds"));
    traffic.set_mean_queue_depth(Number(path, "mean_queue_depth"));
    traffic.set_most_queue_depth(Whole(path, "most_queue_depth"));
  }
}

void ReadTraffic(const Json& tier, v1::TierMemory& memory) {
  memory.set_read_bytes(Whole(tier, "read_bytes"));
  memory.set_written_bytes(Whole(tier, "written_bytes"));
  memory.set_total_read_bytes(Whole(tier, "total_read_bytes"));
  memory.set_total_written_bytes(Whole(tier, "total_written_bytes"));
  memory.set_busiest_read_bytes(Whole(tier, "busiest_read_bytes"));
  memory.set_busiest_written_bytes(Whole(tier, "busiest_written_bytes"));
  // Lines of before there were these have none.
  if (tier.contains("write_rate")) memory.set_write_rate(Number(tier, "write_rate"));
  if (tier.contains("processor_seconds")) {
    memory.set_processor_seconds(Number(tier, "processor_seconds"));
  }
  ReadPaths(tier, memory);
}

void ReadPages(const Json& tier, v1::TierMemory& memory) {
  if (!tier.contains("locked_bytes")) return;
  memory.set_locked_bytes(Whole(tier, "locked_bytes"));
  memory.set_huge_bytes(Whole(tier, "huge_bytes"));
  if (tier.contains("misplaced_bytes")) memory.set_misplaced_bytes(Whole(tier, "misplaced_bytes"));
  memory.set_lacks(Text(tier, "lacks"));
}

void ReadMemory(const Json& tiers, v1::StepRecord& record) {
  for (const auto& [name, tier] : tiers.items()) {
    if (!tier.is_object()) continue;
    v1::TierMemory& memory = *record.add_memory();
    memory.set_tier(name);
    memory.set_predicted_bytes(Whole(tier, "predicted_bytes"));
    memory.set_arena_bytes(Whole(tier, "arena_bytes"));
    memory.set_measured_bytes(Whole(tier, "measured_bytes"));
    memory.set_overhead_bytes(Whole(tier, "overhead_bytes"));
    ReadTraffic(tier, memory);
    ReadPages(tier, memory);
  }
}

void ReadTransfers(const Json& transfers, v1::StepRecord& record) {
  for (const auto& [stream, each] : transfers.items()) {
    if (!each.is_object()) continue;
    v1::Transfer& transfer = *record.add_transfers();
    transfer.set_stream(stream);
    transfer.set_bytes(Whole(each, "bytes"));
    transfer.set_total_bytes(Whole(each, "total_bytes"));
    transfer.set_seconds(Number(each, "seconds"));
    transfer.set_stall_seconds(Number(each, "stall_seconds"));
  }
}

void ReadPurposes(const Json& purposes, v1::StepRecord& record) {
  for (const auto& [name, purpose] : purposes.items()) {
    if (!purpose.is_object()) continue;
    v1::PurposeSeconds& seconds = *record.add_purposes();
    seconds.set_purpose(name);
    seconds.set_compute_seconds(Number(purpose, "compute_seconds"));
    seconds.set_exposed_seconds(Number(purpose, "exposed_seconds"));
    seconds.set_background_seconds(Number(purpose, "background_seconds"));
    const auto predicted = purpose.find("predicted");
    if (predicted == purpose.end() || !predicted->is_object()) continue;
    seconds.set_predicted_compute_seconds(Number(*predicted, "compute_seconds"));
    seconds.set_predicted_exposed_seconds(Number(*predicted, "exposed_seconds"));
    seconds.set_predicted_background_seconds(Number(*predicted, "background_seconds"));
  }
}

std::optional<int64_t> IntegerOf(const Json& record, const char* key) {
  if (!record.is_object()) return std::nullopt;
  const auto found = record.find(key);
  if (found == record.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

// A job of before there were uids has none, and nor have its lines.
bool IsOf(const Json& object, const std::string& job_uid) {
  const auto found = object.find("job_uid");
  return found == object.end() ? job_uid.empty() : *found == job_uid;
}

}  // namespace

std::string StepLine(const v1::StepRecord& record, const std::string& job_uid) {
  std::string line = absl::StrCat(
      "{\"step\": ", record.step(), ", \"loss\": ", NumberText(record.loss()),
      ", \"grad_norm\": ", NumberText(record.grad_norm()),
      ", \"learning_rate\": ", NumberText(record.learning_rate()),
      ", \"tokens\": ", record.tokens(), ", \"seconds\": ", NumberText(record.seconds()),
      ", \"epoch\": ", record.epoch(), ", \"attempt\": ", record.attempt());
  if (record.has_predicted_seconds()) {
    absl::StrAppend(&line, ", \"predicted_seconds\": ", NumberText(record.predicted_seconds()));
  }
  absl::StrAppend(
      &line, ", \"applied\": ", record.applied(),
      ", \"exposed_communication_seconds\": ", NumberText(record.exposed_communication_seconds()));
  if (record.has_validation_loss()) {
    absl::StrAppend(&line, ", \"validation_loss\": ", NumberText(record.validation_loss()));
  }
  if (record.has_loss_scale()) {
    absl::StrAppend(&line, ", \"loss_scale\": ", NumberText(record.loss_scale()));
  }
  absl::StrAppend(&line, ", \"memory\": ", MemoryObject(record));
  if (!record.purposes().empty()) {
    absl::StrAppend(&line, ", \"purposes\": ", PurposesObject(record));
  }
  if (!record.transfers().empty()) {
    absl::StrAppend(&line, ", \"transfers\": ", TransfersObject(record));
  }
  if (!job_uid.empty()) absl::StrAppend(&line, ", \"job_uid\": \"", job_uid, "\"");
  absl::StrAppend(&line, "}\n");
  return line;
}

std::optional<v1::StepRecord> ParseStepLine(absl::string_view line, const std::string& job_uid) {
  const Json object = Parse(line);
  if (!object.is_object() || !IsOf(object, job_uid)) return std::nullopt;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer()) return std::nullopt;
  v1::StepRecord record;
  record.set_step(step->get<int64_t>());
  record.set_loss(Number(object, "loss"));
  record.set_grad_norm(Number(object, "grad_norm"));
  record.set_learning_rate(Number(object, "learning_rate"));
  record.set_tokens(Whole(object, "tokens"));
  record.set_seconds(Number(object, "seconds"));
  record.set_epoch(Whole(object, "epoch"));
  record.set_attempt(Whole(object, "attempt"));
  record.set_applied(Whole(object, "applied"));
  record.set_exposed_communication_seconds(Number(object, "exposed_communication_seconds"));
  if (object.contains("predicted_seconds")) {
    record.set_predicted_seconds(Number(object, "predicted_seconds"));
  }
  if (object.contains("validation_loss")) {
    record.set_validation_loss(Number(object, "validation_loss"));
  }
  if (object.contains("loss_scale")) record.set_loss_scale(Number(object, "loss_scale"));
  if (const auto memory = object.find("memory"); memory != object.end() && memory->is_object()) {
    ReadMemory(*memory, record);
  }
  if (const auto found = object.find("purposes"); found != object.end() && found->is_object()) {
    ReadPurposes(*found, record);
  }
  if (const auto found = object.find("transfers"); found != object.end() && found->is_object()) {
    ReadTransfers(*found, record);
  }
  return record;
}

std::optional<int64_t> StepOfLine(absl::string_view line) { return IntegerOf(Parse(line), "step"); }

std::optional<int64_t> EpochOfLine(absl::string_view line, const std::string& job_uid) {
  const Json record = Parse(line);
  if (record.is_object() && record.value("job_uid", Json(job_uid)) != job_uid) return std::nullopt;
  return IntegerOf(record, "epoch");
}

}  // namespace strata::protocol
