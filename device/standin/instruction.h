// Instructions as they are executed: a handler, which does the work for many lanes of a warp at
// once, and rows of the warp's register file (one value per lane) for its operands.
//
// Registers hold 64 bits; a value of fewer bits lies in the lowest, the others mean nothing.
// Constants and special registers (%tid.x) are rows too, filled when a warp starts.
#ifndef STRATA_DEVICE_STANDIN_INSTRUCTION_H_
#define STRATA_DEVICE_STANDIN_INSTRUCTION_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "device/standin/findings.h"

namespace strata::standin {

class Warp;
struct Instruction;

// For the lanes of a mask, all of which are at this instruction.
using Handler = void (*)(Warp& warp, const Instruction& instruction, uint32_t lanes);

enum class Base : uint8_t {
  kBits,
  kUnsigned,
  kSigned,
  kFloat,
  kHalf,
  kBrain,
  kE4M3,
  kE5M2,
  kPredicate
};
struct Type {
  Base base = Base::kBits;
  int bits = 32;
  int count = 1;  // 2: of packed pairs such as bf16x2, whose `bits` are an element's

  bool operator==(const Type&) const = default;
  bool IsFloating() const { return base >= Base::kFloat && base <= Base::kE5M2; }
};

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kParameter };
// Generic addresses of what is not global memory: no host has such addresses.
constexpr uint64_t kSharedWindow = uint64_t{1} << 56, kLocalWindow = uint64_t{2} << 56,
                   kParameterWindow = uint64_t{3} << 56;

// "ld.global.v2.f32" taken apart.
struct Opcode {
  explicit Opcode(std::string_view text);
  bool Has(std::string_view part) const;
  std::string_view name() const { return parts[0]; }
  Type type(size_t i = 0) const { return i < types.size() ? types[i] : Type{}; }

  std::vector<std::string> parts;
  std::vector<Type> types;
};

// How the interpreter goes on.
enum class Flow : uint8_t {
  kNext,
  kBranch,   // lanes whose guard holds go to `target`
  kExit,     // they are done
  kMeet,     // the lanes of a mask wait for each other, then the handler is called for all of them
  kBarrier,  // threads of the block wait for each other; the handler is the block's
  kUnknown,  // the stand-in does not know it
};

enum class Rounding : uint8_t { kNearest, kZero, kDown, kUp };

struct Instruction {
  Handler execute = nullptr;
  Flow flow = Flow::kNext;
  int32_t guard = -1;  // row
  bool guard_not = false;
  int32_t target = -1;
  int32_t mask = -1;  // row of a kMeet's mask; -1: all lanes
  Site site = 0;
  // Operands in the order they are written, vectors element by element; an address is its base.
  absl::InlinedVector<int32_t, 8> rows;
  std::array<int64_t, 2> offsets{};  // of the first and the second address

  Type type, from;  // as written: of cvt, to and from
  Space space = Space::kGeneric;
  int vector = 1;
  int code = 0;  // a handler's own: comparison, atomic operation, shuffle, …
  Rounding rounding = Rounding::kNearest;
  bool saturate = false, flush = false, transpose = false, acquire = false, release = false,
       strong = false, aligned = false;
  std::string text;
};

// Each knows some instructions: fills `execute` and what it needs, false when it is not one of
// its own. Types, space, rows and flags are there already.
bool DecodeInteger(const Opcode& opcode, Instruction& instruction);
bool DecodeFloat(const Opcode& opcode, Instruction& instruction);
bool DecodeConversion(const Opcode& opcode, Instruction& instruction);
bool DecodeCompare(const Opcode& opcode, Instruction& instruction);
bool DecodeMemory(const Opcode& opcode, Instruction& instruction);
bool DecodeAtomic(const Opcode& opcode, Instruction& instruction);
bool DecodeAsyncCopy(const Opcode& opcode, Instruction& instruction);
bool DecodeWarp(const Opcode& opcode, Instruction& instruction);
bool DecodeMatrix(const Opcode& opcode, Instruction& instruction);

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_INSTRUCTION_H_
