// Typed attributes and their place in an op's ints and floats. An op's struct names its attributes
// once, in Visit; writing, reading with validation and documentation follow from that.
#ifndef STRATA_OPS_ATTRIBUTES_H_
#define STRATA_OPS_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "program/ir/op.h"

namespace strata::ops {

// Half-open, in elements.
using Range = std::pair<int64_t, int64_t>;

class AttributeVisitor {
 public:
  virtual ~AttributeVisitor() = default;
  virtual void Size(const char* name, int64_t& value) = 0;   // at least 1
  virtual void Count(const char* name, int64_t& value) = 0;  // at least 0
  virtual void Flag(const char* name, bool& value) = 0;      // 0 or 1
  virtual void Of(const char* name, program::Group& value) = 0;
  virtual void Number(const char* name, double& value) = 0;  // finite
  // All ints that are left, in pairs: not empty, ascending, without overlap.
  virtual void Ranges(const char* name, std::vector<Range>& value) = 0;
  // A flag that came later: behind all other ints, and left out where it is not set, so that ops
  // without it stay what they were.
  virtual void Option(const char* name, bool& value) = 0;
  // Of numbers: f32 (what ops without it have), bf16, f16.
  virtual void Type(const char* name, program::DType& value) = 0;
  // Attributes that came later, behind all others: written where `any` of them is not what it is
  // by default, read where there are ints left. Visit them if the answer is true; one is an int.
  virtual bool HasMore(bool any) = 0;
};

// Appends the attributes to an op.
class AttributeWriter final : public AttributeVisitor {
 public:
  explicit AttributeWriter(program::Op& op) : op_(op) {}
  void Size(const char* name, int64_t& value) override { Count(name, value); }
  void Count(const char*, int64_t& value) override { op_.ints.push_back(value); }
  void Flag(const char*, bool& value) override { op_.ints.push_back(value); }
  void Of(const char* name, program::Group& value) override;
  void Number(const char*, double& value) override { op_.floats.push_back(value); }
  void Ranges(const char* name, std::vector<Range>& value) override;
  void Option(const char*, bool& value) override {
    if (value) op_.ints.push_back(1);
  }
  void Type(const char*, program::DType& value) override {
    op_.ints.push_back(static_cast<int64_t>(value));
  }
  bool HasMore(bool any) override { return any; }

 private:
  program::Op& op_;
};

// Reads them again. What is missing reads as 0; the first thing that is wrong is the status.
class AttributeReader final : public AttributeVisitor {
 public:
  explicit AttributeReader(const program::Op& op) : op_(op) {}
  void Size(const char* name, int64_t& value) override { value = Int(name, 1, INT64_MAX); }
  void Count(const char* name, int64_t& value) override { value = Int(name, 0, INT64_MAX); }
  void Flag(const char* name, bool& value) override { value = Int(name, 0, 1) != 0; }
  void Of(const char* name, program::Group& value) override;
  void Number(const char* name, double& value) override;
  void Ranges(const char* name, std::vector<Range>& value) override;
  void Option(const char* name, bool& value) override {
    value = ints_ < op_.ints.size() && Int(name, 1, 1) != 0;
  }
  void Type(const char* name, program::DType& value) override;
  bool HasMore(bool /*any*/) override { return ints_ < op_.ints.size(); }
  // InvalidArgument, naming the attribute: it is missing or outside its values, or the op has more
  // than were read.
  absl::Status Finish();

 private:
  int64_t Int(const char* name, int64_t least, int64_t most);
  void Fail(std::string message);

  const program::Op& op_;
  size_t ints_ = 0, floats_ = 0;  // read so far
  absl::Status status_;
};

// Lists them as documentation does: "rows, channels, inverse (flag)".
class AttributeNames final : public AttributeVisitor {
 public:
  void Size(const char* name, int64_t&) override { names_.emplace_back(name); }
  void Count(const char* name, int64_t&) override { Add(name, " (may be 0)"); }
  void Flag(const char* name, bool&) override { Add(name, " (flag)"); }
  void Of(const char* name, program::Group&) override { Add(name, " (a group or none)"); }
  void Number(const char* name, double&) override { Add(name, " (number)"); }
  void Ranges(const char* name, std::vector<Range>&) override { Add(name, " (ranges)"); }
  void Option(const char* name, bool&) override { Add(name, " (1, or left out)"); }
  void Type(const char* name, program::DType&) override { Add(name, " (a type of numbers)"); }
  bool HasMore(bool /*any*/) override { return true; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  void Add(const char* name, const char* kind) { names_.push_back(std::string(name) + kind); }

  std::vector<std::string> names_;
};

// The attribute `type` of an op that had none at first, and no other that came later.
inline void VisitType(AttributeVisitor& visitor, program::DType& type) {
  if (visitor.HasMore(type != program::DType::kF32)) visitor.Type("type", type);
}

}  // namespace strata::ops

#endif  // STRATA_OPS_ATTRIBUTES_H_
