#include "worker/agent/trainers/step_json.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace strata::worker {
namespace {

// The shortest of the three that is exact, so that lines stay readable.
std::string Number(double value) {
  if (!std::isfinite(value)) return "null";
  std::string text;
  for (const int digits : {15, 16, 17}) {
    text = absl::StrFormat("%.*g", digits, value);
    double read = 0;
    if (absl::SimpleAtod(text, &read) && read == value) break;
  }
  return text;
}

std::string MemoryObject(const v1::StepRecord& record) {
  std::string text;
  for (const v1::TierMemory& tier : record.memory()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "\"", tier.tier(),
                    "\": {\"predicted_bytes\": ", tier.predicted_bytes(),
                    ", \"arena_bytes\": ", tier.arena_bytes(),
                    ", \"measured_bytes\": ", tier.measured_bytes(),
                    ", \"overhead_bytes\": ", tier.overhead_bytes(), "}");
  }
  return absl::StrCat("{", text, "}");
}

std::optional<int64_t> IntegerOfLine(absl::string_view line, const char* key) {
  const nlohmann::json record = nlohmann::json::parse(line.data(), line.data() + line.size(),
                                                      /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) return std::nullopt;
  const auto found = record.find(key);
  if (found == record.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

std::string PurposesObject(const v1::StepRecord& record) {
  std::string text;
  for (const v1::PurposeSeconds& purpose : record.purposes()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "\"", purpose.purpose(),
                    "\": {\"compute_seconds\": ", Number(purpose.compute_seconds()),
                    ", \"exposed_seconds\": ", Number(purpose.exposed_seconds()),
                    ", \"background_seconds\": ", Number(purpose.background_seconds()), "}");
  }
  return absl::StrCat("{", text, "}");
}

}  // namespace

std::string StepLine(const v1::StepRecord& record) {
  std::string line =
      absl::StrCat("{\"step\": ", record.step(), ", \"loss\": ", Number(record.loss()),
                   ", \"grad_norm\": ", Number(record.grad_norm()),
                   ", \"learning_rate\": ", Number(record.learning_rate()),
                   ", \"tokens\": ", record.tokens(), ", \"seconds\": ", Number(record.seconds()),
                   ", \"epoch\": ", record.epoch(), ", \"attempt\": ", record.attempt());
  if (record.has_predicted_seconds()) {
    absl::StrAppend(&line, ", \"predicted_seconds\": ", Number(record.predicted_seconds()));
  }
  absl::StrAppend(
      &line, ", \"applied\": ", record.applied(),
      ", \"exposed_communication_seconds\": ", Number(record.exposed_communication_seconds()));
  if (record.has_validation_loss()) {
    absl::StrAppend(&line, ", \"validation_loss\": ", Number(record.validation_loss()));
  }
  absl::StrAppend(&line, ", \"memory\": ", MemoryObject(record));
  if (!record.purposes().empty()) {
    absl::StrAppend(&line, ", \"purposes\": ", PurposesObject(record));
  }
  absl::StrAppend(&line, "}\n");
  return line;
}

std::optional<int64_t> StepOfLine(absl::string_view line) { return IntegerOfLine(line, "step"); }

std::optional<int64_t> EpochOfLine(absl::string_view line) { return IntegerOfLine(line, "epoch"); }

}  // namespace strata::worker
