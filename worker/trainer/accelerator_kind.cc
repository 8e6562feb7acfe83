#include "worker/trainer/accelerator_kind.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace strata::worker {

absl::Status CheckKind(const v1::TrainerTask& task, const NamedAccelerator& made) {
  if (task.kind() != v1::TrainerTask::KIND_TRAIN || task.has_controlled()) return absl::OkStatus();
  const std::string& asked = task.job().resources().device();
  if (asked == "gpu" || made.kind.empty() || made.kind == asked) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "resources.device: ", asked, ": the device of rank ", task.rank(), " is of kind ", made.kind,
      " (", made.name, ") — use ", made.kind, ", or gpu for any kind"));
}

}  // namespace strata::worker
