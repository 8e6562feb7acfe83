#include "controller/logic/names.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"
#include "controller/logic/refusal.h"

namespace strata::controller {
namespace {

constexpr size_t kLongest = 63;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }

bool IsJobId(const std::string& id) {
  if (id.empty() || id.size() > kLongest || id.front() == '-' || id.back() == '-') return false;
  return std::all_of(id.begin(), id.end(),
                     [](char c) { return IsLower(c) || IsDigit(c) || c == '-'; });
}

// The nearest legal name; empty where nothing is left.
std::string Nearest(const std::string& id) {
  std::string near;
  for (const char c : id) {
    if (near.size() == kLongest) break;
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool fine = IsLower(lower) || IsDigit(lower);
    if (fine || (!near.empty() && near.back() != '-')) near += fine ? lower : '-';
  }
  while (!near.empty() && near.back() == '-') near.pop_back();
  return near;
}

}  // namespace

absl::Status CheckJobName(const std::string& name) {
  const std::string id = ShortName(name);
  if (name.rfind("jobs/", 0) == 0 && IsJobId(id)) return absl::OkStatus();
  const std::string near = Nearest(id);
  return InvalidField(
      "name", absl::StrCat("a job (jobs/NAME) is named with 1 to 63 of a-z, 0-9 and '-', not '-' "
                           "at its ends",
                           near.empty() ? "" : absl::StrCat(" — ", near, " would do")));
}

std::string NodeName(const std::string& name) {
  const std::string id = ShortName(name);
  if (id.empty() || id.size() > kLongest || !std::isalnum(static_cast<unsigned char>(id[0]))) {
    return "";
  }
  const bool fine = std::all_of(id.begin(), id.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  });
  return fine ? absl::StrCat("nodes/", id) : "";
}

std::string ShortName(const std::string& resource) {
  for (const char* prefix : {"jobs/", "nodes/"}) {
    if (resource.rfind(prefix, 0) == 0) return resource.substr(std::string(prefix).size());
  }
  return resource;
}

}  // namespace strata::controller
