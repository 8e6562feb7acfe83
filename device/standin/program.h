// A kernel ready to run: instructions, the layout of its register rows, shared memory, parameters.
#ifndef STRATA_DEVICE_STANDIN_PROGRAM_H_
#define STRATA_DEVICE_STANDIN_PROGRAM_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/standin/instruction.h"
#include "device/standin/ptx_text.h"

namespace strata::standin {

// In the order of kSpecialNames.
enum class Special : uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,  // clang-format off
  kNctaidX, kNctaidY, kNctaidZ, kLaneid, kWarpid, kLaneEq, kLaneLt, kLaneLe, kLaneGt, kLaneGe,
  kDynamicSharedBytes, kTotalSharedBytes, kSmid, kNsmid,  // clang-format on
};

struct SharedVariable {
  std::string name;  // as in the source
  uint64_t offset = 0, bytes = 0;
};

struct Program {
  std::string name;  // as in the source, without parameters
  std::vector<Instruction> code;
  int rows = 0;
  std::vector<std::pair<int, uint64_t>> constants;  // row, value on each lane
  std::vector<std::pair<int, Special>> specials;
  std::vector<SharedVariable> shared;  // by offset; the last is the launch's dynamic part
  uint64_t shared_bytes = 0;           // static, without the space the stand-in leaves between
  uint64_t local_bytes = 0;            // of a thread
  std::vector<std::pair<uint64_t, uint64_t>> parameters;  // offset, bytes
  uint64_t parameter_bytes = 0;
  int64_t most_threads = 0;  // __launch_bounds__; 0: none
};

// Global and constant variables of the module by name.
using Symbols = std::map<std::string, uint64_t>;

// Instructions that are not known become Flow::kUnknown; names that are not, an error.
absl::StatusOr<Program> Decode(const PtxModule& module, const PtxFunction& function,
                               const Symbols& symbols);

// "AddRmsNormKernel<128>" of a mangled function, "partial" of a variable in it.
std::string PlainFunctionName(const std::string& mangled);
std::string PlainVariableName(const std::string& mangled);

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_PROGRAM_H_
