// cuBLASLt's descriptors: attributes of fixed sizes, kept in the caller-visible opaque structures.
// Sizes and initial values are those of the real library, 13.1 (descriptors_test runs with both).
#ifndef STRATA_DEVICE_STANDIN_CUBLASLT_ATTRIBUTES_H_
#define STRATA_DEVICE_STANDIN_CUBLASLT_ATTRIBUTES_H_

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace strata::standin::cublaslt {

// Whether the stand-in does what an attribute says, or takes its initial value alone.
enum class Known : uint8_t { kYes, kInitialOnly };

struct Attribute {
  int id;
  uint32_t bytes;
  Known known;
  int64_t initial = 0;
};

// The attributes of one kind of descriptor, which lie in its data one after the other.
class AttributeTable {
 public:
  explicit AttributeTable(std::vector<Attribute> rows) : rows_(std::move(rows)) {}

  void Initialise(void* data) const;
  // As the real library: any value of the right size is taken.
  cublasStatus_t Set(void* data, int id, const void* from, size_t bytes) const;
  cublasStatus_t Get(const void* data, int id, void* to, size_t bytes, size_t* written) const;

  template <typename T>
  T ValueOf(const void* data, int id) const {
    T value{};
    Get(data, id, &value, sizeof value, nullptr);
    return value;
  }
  // Whether all attributes that the stand-in takes no notice of are as they were initially.
  bool IsKnown(const void* data) const;

 private:
  struct Place {
    const Attribute* row;
    size_t offset;
  };
  Place Find(int id) const;

  std::vector<Attribute> rows_;
};

const AttributeTable& ProductAttributes();
const AttributeTable& LayoutAttributes();
const AttributeTable& PreferenceAttributes();

}  // namespace strata::standin::cublaslt

#endif  // STRATA_DEVICE_STANDIN_CUBLASLT_ATTRIBUTES_H_
