#include "kernels/cuda/mistake.h"

namespace strata::kernels::cuda {
namespace {

Mistake planted = Mistake::kNone;

}  // namespace

void PlantMistake(Mistake mistake) { planted = mistake; }
Mistake PlantedMistake() { return planted; }

}  // namespace strata::kernels::cuda
