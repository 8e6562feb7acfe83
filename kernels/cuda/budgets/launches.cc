// launches: prints what every kernel is launched with, and the work of operations (ledger.h).
#include <cstdio>

#include "common/check.h"
#include "kernels/cuda/budgets/ledger.h"
#include "kernels/cuda/budgets/recorder.h"

namespace strata::kernels::cuda {
namespace {

const char* NameOf(Unit unit) {
  switch (unit) {
    case Unit::kF32:
      return "f32";
    case Unit::kF64:
      return "f64";
    case Unit::kTensor:
      return "tensor";
  }
  return "";
}

}  // namespace

void Ledger::Add(const std::string& name, const char* type, const Work& work,
                 const absl::Status& status, bool told) const {
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", name.c_str(), status.ToString().c_str());
  STRATA_CHECK(status.ok());
  if (told && aligned_) {
    std::printf("op\t%s\t%s\t%.0f\t%.0f\t%s\n", name.c_str(), type, work.bytes, work.flops,
                NameOf(work.unit));
  } else {
    std::printf("op\n");
  }
  for (const RecordedLaunch& launch : TakeLaunches()) {
    std::printf("launch\t%s\t%lld\t%lld\t%lld\n", launch.kernel.c_str(),
                static_cast<long long>(launch.blocks), static_cast<long long>(launch.threads),
                static_cast<long long>(launch.shared_bytes));
  }
}

}  // namespace strata::kernels::cuda

int main() {
  strata::kernels::cuda::Ledger ledger;
  for (int round = 0; round < 2; ++round) {
    AddRowOperations(ledger);
    AddAttention(ledger);
    AddFlatOperations(ledger);
    ledger.Misalign();
  }
  return 0;
}
