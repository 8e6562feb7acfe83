#include "device/standin/program.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace strata::standin {
namespace {

constexpr const char* kSpecialNames[] = {
    "%tid.x",           "%tid.y",       "%tid.z",       "%ntid.x",      "%ntid.y",
    "%ntid.z",          "%ctaid.x",     "%ctaid.y",     "%ctaid.z",     "%nctaid.x",
    "%nctaid.y",        "%nctaid.z",    "%laneid",      "%warpid",      "%lanemask_eq",
    "%lanemask_lt",     "%lanemask_le", "%lanemask_gt", "%lanemask_ge", "%dynamic_smem_size",
    "%total_smem_size", "%smid",        "%nsmid"};

constexpr uint64_t kBetween = 128;  // bytes that belong to nobody, behind each shared variable

uint64_t RoundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

std::string Demangled(const std::string& mangled) {
  char* const plain = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, nullptr);
  if (plain == nullptr) return mangled;
  std::string name = plain;
  std::free(plain);
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (size_t at; (at = name.find(kAnonymous)) != std::string::npos;) {
    name.erase(at, kAnonymous.size());
  }
  return name;
}

class Decoder {
 public:
  Decoder(const PtxModule& module, const PtxFunction& function, const Symbols& symbols)
      : module_(module), function_(function), symbols_(symbols) {}
  absl::StatusOr<Program> Run();

 private:
  void LayOut();
  absl::Status DecodeOne(const PtxStatement& statement, Instruction& instruction);
  absl::Status AddOperand(const std::string& text, Instruction& instruction);
  // The row of a register, constant, special register or symbol; −1: none such.
  int RowOf(const std::string& text);
  int ConstantRow(uint64_t value);

  const PtxModule& module_;
  const PtxFunction& function_;
  const Symbols& symbols_;
  Program program_;
  std::map<std::string, uint64_t> names_;  // of what has an address in some space
  std::map<uint64_t, int> constant_rows_;
  std::map<std::string, int> special_rows_;
  int addresses_ = 0;  // of the instruction so far
};

void Decoder::LayOut() {
  names_ = symbols_;
  for (const PtxVariable& parameter : function_.parameters) {
    program_.parameter_bytes = RoundUp(program_.parameter_bytes, parameter.align);
    program_.parameters.emplace_back(program_.parameter_bytes, parameter.bytes);
    names_[parameter.name] = program_.parameter_bytes;
    program_.parameter_bytes += parameter.bytes;
  }
  uint64_t offset = 0;
  std::vector<const PtxVariable*> dynamic;
  for (const auto* variables : {&module_.shared, &function_.shared}) {
    for (const PtxVariable& variable : *variables) {
      if (variable.is_external) {
        dynamic.push_back(&variable);
        continue;
      }
      // Aligned as written and no better, so that what relies on more is found.
      offset = RoundUp(offset, 256) + variable.align % 256;
      program_.shared.push_back({PlainVariableName(variable.name), offset, variable.bytes});
      names_[variable.name] = offset;
      offset += variable.bytes + kBetween;
      program_.shared_bytes = RoundUp(program_.shared_bytes, variable.align) + variable.bytes;
    }
  }
  offset = RoundUp(offset, 1024) + (dynamic.empty() ? 0 : dynamic[0]->align % 1024);
  program_.shared.push_back({"dynamic shared memory", offset, 0});
  for (const PtxVariable* variable : dynamic) {
    program_.shared.back().name = PlainVariableName(variable->name);
    names_[variable->name] = offset;
  }
  for (const PtxVariable& variable : function_.local) {
    program_.local_bytes = RoundUp(program_.local_bytes, std::max<uint64_t>(variable.align, 16));
    names_[variable.name] = program_.local_bytes;
    program_.local_bytes += variable.bytes;
  }
}

int Decoder::ConstantRow(uint64_t value) {
  const auto [found, is_new] = constant_rows_.try_emplace(value, program_.rows);
  if (is_new) program_.constants.emplace_back(program_.rows++, value);
  return found->second;
}

int Decoder::RowOf(const std::string& text) {
  if (text.empty()) return -1;
  if (text[0] == '$') return std::atoi(text.c_str() + 1);
  if (text == "_") return function_.registers;  // a row that nobody reads
  if (text.size() > 2 && text[0] == '0' && absl::StrContains("fFdD", text.substr(1, 1))) {
    return ConstantRow(std::strtoull(text.c_str() + 2, nullptr, 16));
  }
  if (absl::ascii_isdigit(text[0])) {
    return ConstantRow(std::strtoull(text.c_str(), nullptr, 0));
  }
  if (text[0] == '-') return ConstantRow(std::strtoll(text.c_str(), nullptr, 0));
  if (text == "WARP_SZ") return ConstantRow(32);
  if (const auto name = names_.find(text); name != names_.end()) return ConstantRow(name->second);
  const auto special = std::find(std::begin(kSpecialNames), std::end(kSpecialNames), text);
  if (special == std::end(kSpecialNames)) return -1;
  const auto [found, is_new] = special_rows_.try_emplace(text, program_.rows);
  if (is_new) {
    program_.specials.emplace_back(program_.rows++,
                                   static_cast<Special>(special - std::begin(kSpecialNames)));
  }
  return found->second;
}

absl::Status Decoder::AddOperand(const std::string& text, Instruction& instruction) {
  if (text[0] == '{') {
    for (const auto piece : absl::StrSplit(text.substr(1, text.size() - 2), ',')) {
      if (absl::Status status = AddOperand(std::string(piece), instruction); !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }
  std::string name = text;
  if (text[0] == '[') {
    name = text.substr(1, text.size() - 2);
    int64_t offset = 0;
    if (const size_t plus = name.find('+'); plus != std::string::npos) {
      offset = std::strtoll(name.c_str() + plus + 1, nullptr, 0);
      name.resize(plus);
    }
    if (addresses_ < 2) instruction.offsets[addresses_++] = offset;
  }
  const size_t bar = name.find('|');  // two destinations
  for (const std::string& part :
       {name.substr(0, bar), bar == std::string::npos ? std::string() : name.substr(bar + 1)}) {
    if (part.empty()) continue;
    const int row = RowOf(part);
    if (row < 0) return absl::UnimplementedError(absl::StrCat("operand ", part));
    instruction.rows.push_back(row);
  }
  return absl::OkStatus();
}

void SetModifiers(const Opcode& opcode, Instruction& instruction) {
  constexpr std::pair<const char*, Space> kSpaces[] = {
      {"global", Space::kGlobal},      {"const", Space::kGlobal}, {"shared", Space::kShared},
      {"shared::cta", Space::kShared}, {"local", Space::kLocal},  {"param", Space::kParameter}};
  for (const auto& [name, space] : kSpaces) {
    if (opcode.Has(name) && instruction.space == Space::kGeneric) instruction.space = space;
  }
  instruction.type = opcode.type(0);
  instruction.from = opcode.type(1);
  instruction.vector = opcode.Has("v8") ? 8 : opcode.Has("v4") ? 4 : opcode.Has("v2") ? 2 : 1;
  instruction.saturate = opcode.Has("sat") || opcode.Has("satfinite");
  instruction.flush = opcode.Has("ftz");
  instruction.transpose = opcode.Has("trans");
  instruction.acquire = opcode.Has("acquire") || opcode.Has("acq_rel");
  instruction.release = opcode.Has("release") || opcode.Has("acq_rel");
  instruction.strong = instruction.acquire || instruction.release || opcode.Has("relaxed") ||
                       opcode.Has("volatile") || opcode.Has("mmio");
  instruction.aligned = opcode.name() == "bar" || opcode.Has("aligned");
  if (opcode.Has("rz") || opcode.Has("rzi")) instruction.rounding = Rounding::kZero;
  if (opcode.Has("rm") || opcode.Has("rmi")) instruction.rounding = Rounding::kDown;
  if (opcode.Has("rp") || opcode.Has("rpi")) instruction.rounding = Rounding::kUp;
}

absl::Status Decoder::DecodeOne(const PtxStatement& statement, Instruction& instruction) {
  const Opcode opcode(statement.opcode);
  instruction.text = statement.Text();
  instruction.site = statement.site;
  instruction.guard = statement.guard;
  instruction.guard_not = statement.guard_not;
  instruction.target = statement.target;
  SetModifiers(opcode, instruction);
  if (opcode.name() == "bra") {
    instruction.flow = Flow::kBranch;
    return absl::OkStatus();
  }
  if (opcode.name() == "ret" || opcode.name() == "exit") {
    instruction.flow = Flow::kExit;
    return absl::OkStatus();
  }
  addresses_ = 0;
  for (const std::string& operand : statement.operands) {
    if (absl::Status status = AddOperand(operand, instruction); !status.ok()) return status;
  }
  // Where a second destination may stand, there is one.
  if (!statement.operands.empty() && !absl::StrContains(statement.operands[0], "|") &&
      (opcode.name() == "shfl" || opcode.name() == "setp")) {
    instruction.rows.insert(instruction.rows.begin() + 1, RowOf("_"));
  }
  for (const auto decode :
       {&DecodeInteger, &DecodeFloat, &DecodeConversion, &DecodeCompare, &DecodeMemory,
        &DecodeAtomic, &DecodeAsyncCopy, &DecodeWarp, &DecodeMatrix}) {
    if (decode(opcode, instruction)) return absl::OkStatus();
  }
  return absl::UnimplementedError("instruction");
}

absl::StatusOr<Program> Decoder::Run() {
  program_.name = PlainFunctionName(function_.name);
  program_.most_threads = function_.most_threads;
  program_.rows = function_.registers + 1;
  LayOut();
  for (const PtxStatement& statement : function_.statements) {
    Instruction& instruction = program_.code.emplace_back();
    if (!DecodeOne(statement, instruction).ok()) instruction.flow = Flow::kUnknown;
  }
  program_.code.emplace_back().flow = Flow::kExit;
  return std::move(program_);
}

}  // namespace

Opcode::Opcode(std::string_view text) {
  parts = absl::StrSplit(std::string(text), '.');
  for (const std::string& part : parts) {
    constexpr std::pair<const char*, Type> kNamed[] = {
        {"pred", {Base::kPredicate, 1, 1}}, {"bf16", {Base::kBrain, 16, 1}},
        {"bf16x2", {Base::kBrain, 16, 2}},  {"f16", {Base::kHalf, 16, 1}},
        {"f16x2", {Base::kHalf, 16, 2}},    {"e4m3", {Base::kE4M3, 8, 1}},
        {"e4m3x2", {Base::kE4M3, 8, 2}},    {"e5m2", {Base::kE5M2, 8, 1}},
        {"e5m2x2", {Base::kE5M2, 8, 2}},    {"f32", {Base::kFloat, 32, 1}},
        {"f64", {Base::kFloat, 64, 1}}};
    for (const auto& [name, type] : kNamed) {
      if (part == name) types.push_back(type);
    }
    constexpr std::pair<char, Base> kLettered[] = {
        {'b', Base::kBits}, {'u', Base::kUnsigned}, {'s', Base::kSigned}};
    for (const auto& [letter, base] : kLettered) {
      for (const int bits : {8, 16, 32, 64, 128}) {
        if (part == letter + std::to_string(bits)) types.push_back({base, bits, 1});
      }
    }
  }
}

bool Opcode::Has(std::string_view part) const {
  return std::find(parts.begin() + 1, parts.end(), part) != parts.end();
}

absl::StatusOr<Program> Decode(const PtxModule& module, const PtxFunction& function,
                               const Symbols& symbols) {
  return Decoder(module, function, symbols).Run();
}

std::string PlainFunctionName(const std::string& mangled) {
  const std::string name = Demangled(mangled);
  size_t begin = 0, depth = 0, end = 0;
  for (; end < name.size(); ++end) {
    const char c = name[end];
    if (c == '(' && depth == 0) break;
    depth += c == '<' || c == '(' ? 1 : 0;
    depth -= depth > 0 && (c == '>' || c == ')') ? 1 : 0;
    if (depth == 0 && (c == ' ' || c == ':')) begin = end + 1;  // a type, a namespace
  }
  return name.substr(begin, end - begin);
}

std::string PlainVariableName(const std::string& mangled) {
  const std::string name = Demangled(mangled);
  const size_t colons = name.rfind("::");
  return colons == std::string::npos ? name : name.substr(colons + 2);
}

}  // namespace strata::standin
