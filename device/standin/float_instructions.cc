// Floating point: f32 and f64 as the host's processor does them, smaller formats by way of double.
//
// Approximate instructions (ex2.approx, rsqrt.approx, …) give the host's library's values, which
// are nearer than the device's: not its bits. .ftz is not looked at: subnormal numbers stay.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "device/standin/lane_math.h"
#include "device/standin/number_formats.h"

namespace strata::standin {
namespace {

template <typename T>
struct Float {
  static T Of(uint64_t bits) { return Unpack<T>(bits); }
  static uint64_t Add(uint64_t a, uint64_t b) { return Pack(Of(a) + Of(b)); }
  static uint64_t Sub(uint64_t a, uint64_t b) { return Pack(Of(a) - Of(b)); }
  static uint64_t Mul(uint64_t a, uint64_t b) { return Pack(Of(a) * Of(b)); }
  static uint64_t Div(uint64_t a, uint64_t b) { return Pack(Of(a) / Of(b)); }
  static uint64_t Fma(uint64_t a, uint64_t b, uint64_t c) {
    return Pack(std::fma(Of(a), Of(b), Of(c)));
  }
  static uint64_t Min(uint64_t a, uint64_t b) { return Pack(std::fmin(Of(a), Of(b))); }
  static uint64_t Max(uint64_t a, uint64_t b) { return Pack(std::fmax(Of(a), Of(b))); }
  static uint64_t MinNan(uint64_t a, uint64_t b) {
    return std::isnan(Of(a)) || std::isnan(Of(b)) ? Pack(static_cast<T>(NAN)) : Min(a, b);
  }
  static uint64_t MaxNan(uint64_t a, uint64_t b) {
    return std::isnan(Of(a)) || std::isnan(Of(b)) ? Pack(static_cast<T>(NAN)) : Max(a, b);
  }
  static uint64_t Neg(uint64_t a) { return Pack(-Of(a)); }
  static uint64_t Abs(uint64_t a) { return Pack(std::fabs(Of(a))); }
  static uint64_t Sqrt(uint64_t a) { return Pack(std::sqrt(Of(a))); }
  static uint64_t Rsqrt(uint64_t a) { return Pack(1 / std::sqrt(Of(a))); }
  static uint64_t Rcp(uint64_t a) { return Pack(1 / Of(a)); }
  static uint64_t Exp2(uint64_t a) { return Pack(std::exp2(Of(a))); }
  static uint64_t Log2(uint64_t a) { return Pack(std::log2(Of(a))); }
  static uint64_t Sin(uint64_t a) { return Pack(std::sin(Of(a))); }
  static uint64_t Cos(uint64_t a) { return Pack(std::cos(Of(a))); }
  static uint64_t Tanh(uint64_t a) { return Pack(std::tanh(Of(a))); }
  // The sign of the first, the size of the second.
  static uint64_t CopySign(uint64_t a, uint64_t b) { return Pack(std::copysign(Of(b), Of(a))); }
};

template <typename T>
Handler Find(const std::string& name) {
  using F = Float<T>;
  static const auto* const handlers = new std::map<std::string, Handler>{
      {"add", &Map2<&F::Add>},          {"sub", &Map2<&F::Sub>},
      {"mul", &Map2<&F::Mul>},          {"div", &Map2<&F::Div>},
      {"fma", &Map3<&F::Fma>},          {"mad", &Map3<&F::Fma>},
      {"min", &Map2<&F::Min>},          {"max", &Map2<&F::Max>},
      {"neg", &Map1<&F::Neg>},          {"abs", &Map1<&F::Abs>},
      {"sqrt", &Map1<&F::Sqrt>},        {"rsqrt", &Map1<&F::Rsqrt>},
      {"rcp", &Map1<&F::Rcp>},          {"ex2", &Map1<&F::Exp2>},
      {"lg2", &Map1<&F::Log2>},         {"sin", &Map1<&F::Sin>},
      {"cos", &Map1<&F::Cos>},          {"tanh", &Map1<&F::Tanh>},
      {"min.NaN", &Map2<&F::MinNan>},   {"max.NaN", &Map2<&F::MaxNan>},
      {"copysign", &Map2<&F::CopySign>}};
  const auto found = handlers->find(name);
  return found == handlers->end() ? nullptr : found->second;
}

enum class Operation : int {
  kAdd,
  kSub,
  kMul,
  kFma,
  kMin,
  kMax,
  kMinNan,
  kMaxNan,
  kNeg,
  kAbs,
  kExp2,
  kTanh
};

double Apply(Operation operation, double a, double b, double c) {
  switch (operation) {
    case Operation::kAdd:
      return a + b;
    case Operation::kSub:
      return a - b;
    case Operation::kMul:
      return a * b;
    case Operation::kFma:
      return std::fma(a, b, c);
    case Operation::kMin:
      return std::fmin(a, b);
    case Operation::kMax:
      return std::fmax(a, b);
    case Operation::kMinNan:
      return std::isnan(a) || std::isnan(b) ? NAN : std::fmin(a, b);
    case Operation::kMaxNan:
      return std::isnan(a) || std::isnan(b) ? NAN : std::fmax(a, b);
    case Operation::kNeg:
      return -a;
    case Operation::kAbs:
      return std::fabs(a);
    case Operation::kExp2:
      return std::exp2(a);
    case Operation::kTanh:
      return std::tanh(a);
  }
  return NAN;
}

// What the exact result in double lost when it was rounded to nearest: with it, a rounding in
// another direction is exact for sums and products of floats.
double Residue(Operation operation, double a, double b, double c, double result) {
  if (operation == Operation::kMul) return std::fma(a, b, -result);
  const double x = operation == Operation::kFma ? a * b : a;
  const double y = operation == Operation::kFma ? c : operation == Operation::kSub ? -b : b;
  const double part = result - x;  // two-sum (Knuth, TAOCP 2, 4.2.2)
  return (x - (result - part)) + (y - part);
}

// One element: through double, rounded as the instruction says. Exact, as a product of two such
// values fits a double; for f32 only where a direction other than nearest was asked for.
uint64_t ThroughDouble(const Instruction& in, uint64_t a, uint64_t b, uint64_t c) {
  const auto operation = static_cast<Operation>(in.code);
  const double x = ToDouble(in.type, a), y = ToDouble(in.type, b), z = ToDouble(in.type, c);
  double result = Apply(operation, x, y, z);
  if (operation <= Operation::kFma && in.rounding != Rounding::kNearest && std::isfinite(result)) {
    const double residue = Residue(operation, x, y, z, result);
    // Exact values next to a float lie on one side of it: so does the nearest double but one.
    if (residue != 0 && static_cast<float>(result) == result) {
      result = std::nextafter(result, residue > 0 ? INFINITY : -INFINITY);
    }
  }
  return FromDouble(in.type, result, in.rounding, in.saturate);
}

void Small(Warp& warp, const Instruction& in, uint32_t lanes) {
  const int operands = static_cast<int>(in.rows.size()) - 1, bits = in.type.bits;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  const auto operand = [&](int i, int lane) {
    return i <= operands ? warp.Row(in.rows[i])[lane] : 0;
  };
  ForEachLane(lanes, [&](int lane) {
    const uint64_t a = operand(1, lane), b = operand(2, lane), c = operand(3, lane);
    uint64_t out = 0;
    for (int shift = 0; shift < in.type.count * bits; shift += bits) {
      out |= ThroughDouble(in, a >> shift & mask, b >> shift & mask, c >> shift & mask) << shift;
    }
    warp.Row(in.rows[0])[lane] = out;
  });
}

}  // namespace

bool DecodeFloat(const Opcode& opcode, Instruction& instruction) {
  const Type type = instruction.type;
  if (opcode.types.size() != 1 || !type.IsFloating() || type.bits < 16) return false;
  std::string name(opcode.name());
  if ((name == "min" || name == "max") && opcode.Has("NaN")) name += ".NaN";
  static const auto* const operations = new std::map<std::string, Operation>{
      {"add", Operation::kAdd},        {"sub", Operation::kSub},  {"mul", Operation::kMul},
      {"fma", Operation::kFma},        {"min", Operation::kMin},  {"max", Operation::kMax},
      {"min.NaN", Operation::kMinNan}, {"neg", Operation::kNeg},  {"max.NaN", Operation::kMaxNan},
      {"abs", Operation::kAbs},        {"ex2", Operation::kExp2}, {"tanh", Operation::kTanh}};
  const auto operation = operations->find(name);
  const bool plain = instruction.rounding == Rounding::kNearest && !instruction.saturate;
  if (type.bits == 64 && plain) {
    instruction.execute = Find<double>(name);
  } else if (type.bits == 32 && type.count == 1 && plain) {
    instruction.execute = Find<float>(name);
  } else if (type.bits < 64 && operation != operations->end() && !opcode.Has("relu") &&
             !opcode.Has("xorsign")) {
    instruction.code = static_cast<int>(operation->second);
    instruction.execute = &Small;
  }
  return instruction.execute != nullptr;
}

}  // namespace strata::standin
