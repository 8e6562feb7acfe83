#include "spec/planned_keys.h"

namespace strata::spec {
namespace {

struct PlannedKey {
  absl::string_view path;
  absl::string_view instead;
};

// A key leaves the table when a field of JobSpec takes its name.
constexpr PlannedKey kPlannedKeys[] = {};

}  // namespace

absl::string_view InsteadOfPlannedKey(absl::string_view path) {
  for (const PlannedKey& key : kPlannedKeys) {
    if (key.path == path) return key.instead;
  }
  return "";
}

}  // namespace strata::spec
