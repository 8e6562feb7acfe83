#include "controller/service/files/jsonl.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace strata::controller {
namespace {

using Json = nlohmann::json;

Json Parse(const std::string& line) {
  return Json::parse(line, /*cb=*/nullptr, /*allow_exceptions=*/false);
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

void ReadMemory(const Json& tiers, v1::StepRecord& record) {
  for (const auto& [name, tier] : tiers.items()) {
    if (!tier.is_object()) continue;
    v1::TierMemory& memory = *record.add_memory();
    memory.set_tier(name);
    memory.set_predicted_bytes(Whole(tier, "predicted_bytes"));
    memory.set_arena_bytes(Whole(tier, "arena_bytes"));
    memory.set_measured_bytes(Whole(tier, "measured_bytes"));
    memory.set_overhead_bytes(Whole(tier, "overhead_bytes"));
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
  }
}

}  // namespace

std::optional<v1::StepRecord> ParseStepLine(const std::string& line) {
  const Json object = Parse(line);
  if (!object.is_object()) return std::nullopt;
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
  if (const auto memory = object.find("memory"); memory != object.end() && memory->is_object()) {
    ReadMemory(*memory, record);
  }
  if (const auto found = object.find("purposes"); found != object.end() && found->is_object()) {
    ReadPurposes(*found, record);
  }
  return record;
}

std::string WriteLogLine(const v1::LogLine& line) {
  const Json text(line.text());
  return absl::StrFormat(
      "{\"number\": %s, \"time\": %d.%09d, \"epoch\": %d, \"rank\": %d, \"text\": %s}\n",
      line.cursor().empty() ? "0" : line.cursor(), line.time().seconds(), line.time().nanos(),
      line.epoch(), line.rank(),
      text.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace));
}

std::optional<v1::LogLine> ParseLogLine(const std::string& line) {
  const Json object = Parse(line);
  if (!object.is_object()) return std::nullopt;
  const auto text = object.find("text");
  if (text == object.end() || !text->is_string()) return std::nullopt;
  v1::LogLine parsed;
  const double time = Number(object, "time");
  if (time >= 0 && time < 4e9) {
    parsed.mutable_time()->set_seconds(static_cast<int64_t>(time));
    parsed.mutable_time()->set_nanos(static_cast<int32_t>((time - std::floor(time)) * 1e9));
  }
  parsed.set_epoch(Whole(object, "epoch"));
  parsed.set_rank(static_cast<int32_t>(Whole(object, "rank")));
  if (const int64_t number = Whole(object, "number"); number > 0) {
    parsed.set_cursor(std::to_string(number));
  }
  parsed.set_text(text->get<std::string>());
  return parsed;
}

}  // namespace strata::controller
