// The instruction set that the kernels of this process use. Results differ in bits between
// instruction sets, so checkpoints and records name it.
#ifndef STRATA_KERNELS_ISA_H_
#define STRATA_KERNELS_ISA_H_

#include <string>

#include "absl/status/status.h"

namespace strata::kernels {

enum class Isa {
  kUnsupported,  // below AVX2 with FMA and F16C
  kAvx2,         // AVX2, FMA and F16C: every product is our own
  kAvx512,       // AVX-512 F, BW, DQ and VL too: twice the lanes, and products through oneDNN
};

// Found once: the best that the CPU has; at most AVX2 where the environment has
// STRATA_MAX_ISA=avx2, so that tests and comparisons of machines can have it where there is more.
Isa DetectIsa();
inline bool UsesAvx512() { return DetectIsa() == Isa::kAvx512; }

// "avx2", "avx512" or "unsupported".
std::string IsaName();

// FAILED_PRECONDITION when this CPU cannot run the kernels; programs ask before they load anything.
absl::Status CheckCpu();

// True when AMX tile instructions really work: some hypervisors advertise AMX, yet the first tile
// instruction is an illegal one. Tried once, in a forked child.
bool AmxWorks();

// True when the CPU multiplies bf16 numbers itself, by AMX or AVX-512 BF16, and gets a product
// right. Tried once, in a forked child.
bool BFloat16Works();

// Keeps oneDNN off instructions that AmxWorks() found broken. Called by everything in kernels/ that
// uses oneDNN before its first use; other users of oneDNN in a process call it too. Idempotent.
void PrepareOneDnn();

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_ISA_H_
