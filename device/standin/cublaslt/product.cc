#include "device/standin/cublaslt/product.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "device/standin/managed.h"
#include "device/standin/number_formats.h"

namespace strata::standin::cublaslt {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

float ToFloat(cudaDataType type, const std::byte* at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, BytesOf(type));
  if (type == CUDA_R_32F) return std::bit_cast<float>(bits);
  if (type == CUDA_R_16BF) return std::bit_cast<float>(bits << 16);
  return static_cast<float>(Decode(kFloat16, bits));
}

void FromFloat(cudaDataType type, float value, std::byte* at) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (type != CUDA_R_32F) {
    bits = Encode(type == CUDA_R_16BF ? kBfloat16 : kFloat16, value, Rounding::kNearest);
  }
  std::memcpy(at, &bits, BytesOf(type));
}

float Rounded(cudaDataType type, float value) {
  std::byte bytes[sizeof value];
  FromFloat(type, value, bytes);
  return ToFloat(type, bytes);
}

// To 10 bits of mantissa, ties away from zero, as cvt.rna.tf32.f32.
float ToTf32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x1000) & 0xffffe000);
}

// A matrix by rows, of which rows of products can be made 16 columns at a time.
struct Dense {
  static constexpr int64_t kStrip = 16;

  Dense(int64_t rows_of_it, int64_t columns_of_it)
      : rows(rows_of_it),
        columns(columns_of_it),
        stride((columns + kStrip - 1) / kStrip * kStrip),
        values(rows * stride) {}
  float& At(int64_t row, int64_t column) { return values[row * stride + column]; }
  float At(int64_t row, int64_t column) const { return values[row * stride + column]; }

  int64_t rows, columns, stride;
  std::vector<float> values;
};

// sum += a b, over [first, end) of k, upwards.
void Multiply(const Dense& a, const Dense& b, int64_t first, int64_t end, Dense& sum) {
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t strip = 0; strip < b.stride; strip += Dense::kStrip) {
      float* const out = &sum.values[i * sum.stride + strip];
      for (int64_t p = first; p < end; ++p) {
        const float factor = a.At(i, p);
        const float* const row = &b.values[p * b.stride + strip];
        for (int64_t j = 0; j < Dense::kStrip; ++j) out[j] += factor * row[j];
      }
    }
  }
}

class Run {
 public:
  Run(const Product& product, Machine& machine, OperationId id)
      : product_(product), problem_(product.problem), machine_(machine) {
    who_.stamp.operation = id;
  }

  void Do() {
    if (!IsAligned()) return;
    ReportOverlaps();
    float alpha = product_.alpha, beta = product_.beta;
    if (problem_.scalars_on_device) {
      alpha = ReadScalar(product_.alpha_on_device);
      beta = ReadScalar(product_.beta_on_device);
    }
    TouchWorkspace();
    for (int64_t batch = 0; batch < problem_.d.batch; ++batch) {
      const Dense a = ReadFactor(problem_.a, product_.a, batch, problem_.transposed_a);
      const Dense b = ReadFactor(problem_.b, product_.b, batch, problem_.transposed_b);
      Dense sum = Sum(a, b);
      Scale(alpha, beta, batch, sum);
      Write(batch, sum);
    }
  }

 private:
  using Line = std::pair<uint64_t, uint64_t>;  // addresses

  // Memory of the device as the operation finds it. Null: it is none, reported.
  std::byte* Reach(uint64_t address, uint64_t bytes, Checker::Access access) {
    Region* const region = machine_.memory.Find(address);
    if (region == nullptr || !region->Holds(address, bytes) ||
        (region->kind != Region::Kind::kDevice && region->kind != Region::Kind::kManaged)) {
      machine_.checker.Report(
          FindingKind::kOutOfBounds, who_.stamp,
          std::to_string(bytes) + " bytes at " + machine_.memory.Locate(address) + ", accessed");
      return nullptr;
    }
    UsePages(machine_, *region, address, bytes, machine_.operations.DeviceOf(who_.stamp.operation),
             who_);
    const uint64_t offset = address - region->begin;
    if (machine_.options.check) {
      machine_.checker.Touch(region->shadow, offset, bytes, access, who_, {region->name});
    }
    return region->data + offset;
  }

  float ReadScalar(const void* pointer) {
    const std::byte* const at = Reach(AddressOf(pointer), sizeof(float), Checker::Access::kRead);
    return at == nullptr ? kNan : ToFloat(CUDA_R_32F, at);
  }

  static Line LineOf(const Matrix& matrix, const void* data, int64_t batch, int64_t line) {
    const int64_t bytes = BytesOf(matrix.type);
    const uint64_t begin =
        AddressOf(data) + (batch * matrix.batch_stride + line * matrix.leading) * bytes;
    return {begin, begin + matrix.length() * bytes};
  }

  static std::vector<Line> LinesOf(const Matrix& matrix, const void* data) {
    std::vector<Line> lines;
    for (int64_t batch = 0; batch < matrix.batch; ++batch) {
      for (int64_t line = 0; line < matrix.lines(); ++line) {
        lines.push_back(LineOf(matrix, data, batch, line));
      }
    }
    return lines;
  }

  bool IsAligned() {
    struct Operand {
      const char* name;
      const void* pointer;
      uint64_t needed;
    };
    const Problem& p = problem_;
    const auto of = [&](const Matrix& matrix) {
      return std::max<uint64_t>(product_.algorithm.alignment, BytesOf(matrix.type));
    };
    const Operand operands[] = {{"a", product_.a, of(p.a)},
                                {"b", product_.b, of(p.b)},
                                {"c", product_.c, of(p.c)},
                                {"d", product_.d, of(p.d)},
                                {"the bias", p.has_bias ? p.bias : nullptr, kPacketBytes}};
    bool aligned = true;
    for (const auto& [name, pointer, needed] : operands) {
      if (AddressOf(pointer) % needed == 0) continue;
      aligned = false;
      machine_.checker.Report(FindingKind::kMisaligned, who_.stamp,
                              std::string(name) + " at " +
                                  machine_.memory.Locate(AddressOf(pointer)) +
                                  ", which the algorithm needs at a multiple of " +
                                  std::to_string(needed) + " bytes, accessed");
    }
    return aligned;
  }

  // The checker takes an operation's own accesses for ordered; of a product they are not.
  void ReportOverlaps() {
    std::vector<Line> written = LinesOf(problem_.d, product_.d);
    std::sort(written.begin(), written.end());
    const auto report = [&](const char* name, const std::vector<Line>& lines) {
      for (const Line& line : lines) {
        const auto after = std::lower_bound(written.begin(), written.end(), Line{line.second, 0});
        if (after == written.begin() || std::prev(after)->second <= line.first) continue;
        machine_.checker.Report(FindingKind::kRace, who_.stamp,
                                "write of d over " + std::string(name) + " at " +
                                    machine_.memory.Locate(std::prev(after)->first));
        return;
      }
    };
    const uint64_t workspace = AddressOf(product_.workspace);
    report("a", LinesOf(problem_.a, product_.a));
    report("b", LinesOf(problem_.b, product_.b));
    if (product_.workspace_bytes > 0) {
      report("the workspace", {{workspace, workspace + product_.workspace_bytes}});
    }
    for (size_t i = 1; i < written.size(); ++i) {
      if (written[i - 1].second > written[i].first) {
        report("d", {written[i]});
        return;
      }
    }
  }

  // Both ends, and in steps between them: its megabytes are many.
  void TouchWorkspace() {
    constexpr uint64_t kCell = Shadow::kChunkBytes, kStep = 16 << 10;
    const uint64_t begin = AddressOf(product_.workspace), bytes = product_.workspace_bytes;
    if (bytes == 0) return;
    const auto poison = [&](uint64_t offset, uint64_t count) {
      std::byte* const at = Reach(begin + offset, count, Checker::Access::kWrite);
      if (at != nullptr) std::memset(at, 0xff, count);
    };
    if (bytes <= 2 * kStep) {
      poison(0, bytes);
      return;
    }
    poison(0, kStep);
    for (uint64_t offset = kStep; offset < bytes - kStep; offset += kStep) poison(offset, kCell);
    poison(bytes - kStep, kStep);
  }

  Dense Read(const Matrix& matrix, const void* data, int64_t batch, bool transposed) {
    const int64_t bytes = BytesOf(matrix.type);
    Dense dense =
        transposed ? Dense(matrix.columns, matrix.rows) : Dense(matrix.rows, matrix.columns);
    for (int64_t line = 0; line < matrix.lines(); ++line) {
      const auto [begin, end] = LineOf(matrix, data, batch, line);
      const std::byte* const at = Reach(begin, end - begin, Checker::Access::kRead);
      for (int64_t i = 0; i < matrix.length(); ++i) {
        float& value = matrix.by_rows == transposed ? dense.At(i, line) : dense.At(line, i);
        value = at == nullptr ? kNan : ToFloat(matrix.type, at + i * bytes);
      }
    }
    return dense;
  }

  Dense ReadFactor(const Matrix& matrix, const void* data, int64_t batch, bool transposed) {
    Dense factor = Read(matrix, data, batch, transposed);
    if (problem_.compute == CUBLAS_COMPUTE_32F_FAST_TF32) {
      for (float& value : factor.values) value = ToTf32(value);
    }
    return factor;
  }

  Dense Sum(const Dense& a, const Dense& b) const {
    const int64_t splits = product_.algorithm.splits;
    Dense sum(problem_.m, problem_.n);
    if (splits == 1) {
      Multiply(a, b, 0, problem_.k, sum);
      return sum;
    }
    const bool rounds = product_.algorithm.reduction == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    for (int64_t split = 0; split < splits; ++split) {
      Dense part(problem_.m, problem_.n);
      Multiply(a, b, problem_.k * split / splits, problem_.k * (split + 1) / splits, part);
      for (size_t i = 0; i < part.values.size(); ++i) {
        sum.values[i] += rounds ? Rounded(problem_.d.type, part.values[i]) : part.values[i];
      }
    }
    return sum;
  }

  void Scale(float alpha, float beta, int64_t batch, Dense& sum) {
    for (float& value : sum.values) value *= alpha;
    if (beta != 0) {  // c is not looked at otherwise
      const Dense c = Read(problem_.c, product_.c, batch, false);
      for (size_t i = 0; i < c.values.size(); ++i) sum.values[i] += beta * c.values[i];
    }
    if (!problem_.has_bias) return;
    if (product_.algorithm.bias_apart != 0) {
      for (float& value : sum.values) value = Rounded(problem_.d.type, value);
    }
    const int64_t bytes = BytesOf(problem_.d.type);
    const uint64_t begin = AddressOf(problem_.bias) + batch * problem_.bias_stride * bytes;
    const std::byte* const bias = Reach(begin, problem_.m * bytes, Checker::Access::kRead);
    for (int64_t i = 0; i < problem_.m; ++i) {
      const float value = bias == nullptr ? kNan : ToFloat(problem_.d.type, bias + i * bytes);
      for (int64_t j = 0; j < problem_.n; ++j) sum.At(i, j) += value;
    }
  }

  void Write(int64_t batch, const Dense& sum) {
    const Matrix& d = problem_.d;
    const int64_t bytes = BytesOf(d.type);
    for (int64_t line = 0; line < d.lines(); ++line) {
      const auto [begin, end] = LineOf(d, product_.d, batch, line);
      std::byte* const at = Reach(begin, end - begin, Checker::Access::kWrite);
      if (at == nullptr) continue;
      for (int64_t i = 0; i < d.length(); ++i) {
        FromFloat(d.type, d.by_rows ? sum.At(line, i) : sum.At(i, line), at + i * bytes);
      }
    }
  }

  const Product& product_;
  const Problem& problem_;
  Machine& machine_;
  Accessor who_;
};

}  // namespace

void RunProduct(const Product& product, Machine& machine, OperationId id) {
  Run(product, machine, id).Do();
}

}  // namespace strata::standin::cublaslt
