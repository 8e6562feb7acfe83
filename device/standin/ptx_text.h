// PTX as text, taken apart: functions with their parameters, variables and statements.
//
// Nothing is known here of what instructions mean. Names are resolved as far as scopes go: every
// register, label and variable of a function has a number.
#ifndef STRATA_DEVICE_STANDIN_PTX_TEXT_H_
#define STRATA_DEVICE_STANDIN_PTX_TEXT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "device/standin/findings.h"

namespace strata::standin {

// `.shared .align 4 .b8 name[64]`, `.global .align 4 .b8 name[4] = {1, 2, 3, 4}`.
struct PtxVariable {
  std::string name;
  uint64_t bytes = 0;  // 0: of unknown length (dynamic shared memory)
  uint64_t align = 1;
  uint64_t element_bytes = 1;
  bool is_external = false;
  std::vector<uint64_t> values;  // initial ones, by element
};

struct PtxStatement {
  int guard = -1;  // register
  bool guard_not = false;
  std::string opcode;                 // "ld.global.v2.f32"
  std::vector<std::string> operands;  // "{%3, %4}", "[%7+8]": registers as $number
  int target = -1;                    // of a branch: statement
  Site site = 0;
  std::string Text() const;
};

struct PtxFunction {
  std::string name;
  std::vector<PtxVariable> parameters;  // of an entry
  std::vector<PtxVariable> shared, local;
  int64_t most_threads = 0;  // .maxntid, 0: none
  int registers = 0;
  std::vector<PtxStatement> statements;
};

struct PtxModule {
  std::vector<PtxVariable> shared, global;  // global: .const too
  std::map<std::string, PtxFunction> entries;
};

// Lines of the source become sites of `findings`. Errors name the statement.
absl::StatusOr<PtxModule> ParsePtx(std::string_view text, Findings& findings);

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_PTX_TEXT_H_
