// The values of a template: what JSON has, and what the template language adds (undefined,
// namespaces, callables, the state of a loop). They behave as Python's do.
//
// Values are immutable (namespaces apart) and cheap to copy: what is long is shared. Containers
// hold plain data only and are at most kMaxDepth deep, so no value holds itself and each can be
// walked by recursion.
#ifndef STRATA_DATA_RECORDS_JINJA_VALUE_H_
#define STRATA_DATA_RECORDS_JINJA_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::data::jinja {

// What one rendering may still do: a byte written is one unit, a step of the interpreter, which
// takes longer, several. It bounds time and memory whatever the template and its input.
class Budget {
 public:
  static constexpr int64_t kStep = 16;

  explicit Budget(int64_t units) : left_(units) {}
  // ResourceExhausted once more was asked for than there is; asks before the work is done.
  absl::Status Take(int64_t units);
  int64_t left() const { return left_; }

 private:
  int64_t left_;
};

class Value;
struct List;
class Dict;
struct Callable;
struct LoopState;
struct Namespace;

struct Undefined {
  std::shared_ptr<const std::string> what;  // "'x' is undefined"
};
struct None {};

class Value {
 public:
  static constexpr int kMaxDepth = 100;

  Value() : data_(None{}) {}
  static Value Of(bool value) { return Value(Data(value)); }
  static Value Of(int64_t value) { return Value(Data(value)); }
  static Value Of(double value) { return Value(Data(value)); }
  static Value Text(std::string text);
  static Value MakeUndefined(std::string what);
  // InvalidArgument: an item that is no plain data, or too deep.
  static absl::StatusOr<Value> Of(std::vector<Value> items, bool tuple = false);
  static absl::StatusOr<Value> Of(Dict dict);
  static Value Of(std::shared_ptr<const Callable> callable) { return Value(Data(callable)); }
  static Value Of(std::shared_ptr<const LoopState> loop) { return Value(Data(loop)); }
  static Value Of(std::shared_ptr<Namespace> names) { return Value(Data(names)); }

  bool IsUndefined() const { return std::holds_alternative<Undefined>(data_); }
  bool IsNone() const { return std::holds_alternative<None>(data_); }
  // Each null if the value is of another kind.
  const bool* AsBool() const { return std::get_if<bool>(&data_); }
  const std::string* AsText() const { return Pointee<const std::string>(); }
  const std::vector<Value>* AsItems() const;
  bool IsTuple() const;
  const Dict* AsDict() const { return Pointee<const Dict>(); }
  const Callable* AsCallable() const { return Pointee<const Callable>(); }
  const LoopState* AsLoop() const { return Pointee<const LoopState>(); }
  Namespace* AsNamespace() const { return Pointee<Namespace>(); }
  // True and false are numbers, as in Python.
  bool AsInteger(int64_t* value) const;
  bool IsFloat() const { return std::holds_alternative<double>(data_); }
  bool AsNumber(double* value) const;  // integers too

  const std::string& UndefinedReason() const { return *std::get<Undefined>(data_).what; }
  bool Truthy() const;
  // Python's name of the type: "str", "dict", …
  const char* TypeName() const;
  // How deep its containers go: 0 for scalars; above kMaxDepth: not plain data.
  int Depth() const;

 private:
  using Data = std::variant<Undefined, None, bool, int64_t, double,
                            std::shared_ptr<const std::string>, std::shared_ptr<const List>,
                            std::shared_ptr<const Dict>, std::shared_ptr<const Callable>,
                            std::shared_ptr<const LoopState>, std::shared_ptr<Namespace>>;
  explicit Value(Data data) : data_(std::move(data)) {}
  template <typename T>
  T* Pointee() const {
    const auto* pointer = std::get_if<std::shared_ptr<T>>(&data_);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  Data data_;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;
  int depth = 1;
};

// Text keys in the order of insertion.
class Dict {
 public:
  using Entry = std::pair<std::string, Value>;

  const Value* Find(std::string_view key) const;
  // Replaces the value of a key that is there already, in its place.
  void Set(std::string key, Value value);
  const std::vector<Entry>& entries() const { return entries_; }
  int depth() const { return depth_; }

 private:
  std::vector<Entry> entries_;
  absl::flat_hash_map<std::string, size_t> places_;  // only of large ones
  int depth_ = 1;
};

// `namespace(…)`: variables that inner scopes may change.
struct Namespace {
  Dict variables;
};

struct LoopState {
  int64_t index0 = 0;
  std::shared_ptr<const std::vector<Value>> items;
};

struct Statement;
struct Scope;

// A function of the language, a method bound to its object, or a macro.
struct Callable {
  std::string name;
  bool is_method = false;
  Value self;                        // of a method
  const Statement* macro = nullptr;  // defined in `scope`, which outlives all uses
  Scope* scope = nullptr;
};

// Python's == ; an error only when the budget ends.
absl::StatusOr<bool> Equal(const Value& a, const Value& b, Budget& budget);
// Python's < ; InvalidArgument for types that have no order.
absl::StatusOr<bool> Less(const Value& a, const Value& b, Budget& budget);

// Python's str().
absl::StatusOr<std::string> ToText(const Value& value, Budget& budget);

struct JsonStyle {
  bool ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
// Python's json.dumps().
absl::StatusOr<std::string> ToJson(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace strata::data::jinja

#endif  // STRATA_DATA_RECORDS_JINJA_VALUE_H_
