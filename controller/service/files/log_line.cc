#include "controller/service/files/log_line.h"

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
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

// A job of before there were uids has none, and nor have its lines.
bool IsOf(const Json& object, const std::string& job_uid) {
  const auto found = object.find("job_uid");
  return found == object.end() ? job_uid.empty() : *found == job_uid;
}

}  // namespace

std::string WriteLogLine(const v1::LogLine& line, const std::string& job_uid) {
  const Json text(line.text());
  const std::string of = job_uid.empty() ? "" : absl::StrCat("\"job_uid\": \"", job_uid, "\", ");
  return absl::StrFormat(
      "{\"number\": %s, %s\"time\": %d.%09d, \"epoch\": %d, \"rank\": %d, \"text\": %s}\n",
      line.cursor().empty() ? "0" : line.cursor(), of, line.time().seconds(), line.time().nanos(),
      line.epoch(), line.rank(),
      text.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace));
}

std::optional<v1::LogLine> ParseLogLine(const std::string& line, const std::string& job_uid) {
  const Json object = Parse(line);
  if (!object.is_object() || !IsOf(object, job_uid)) return std::nullopt;
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
