// The variables of a template at one place: those of its block, of the blocks around it, and what
// the language offers.
#ifndef STRATA_DATA_RECORDS_JINJA_SCOPE_H_
#define STRATA_DATA_RECORDS_JINJA_SCOPE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/records/jinja/value.h"

namespace strata::data::jinja {

struct Scope {
  explicit Scope(Scope* parent) : parent(parent) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // Null: there is none.
  const Value* Find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
      for (const auto& [key, value] : scope->variables) {
        if (key == name) return &value;
      }
    }
    return nullptr;
  }

  // In this scope; those around it keep theirs.
  void Set(const std::string& name, Value value) {
    for (auto& [key, old] : variables) {
      if (key == name) {
        old = std::move(value);
        return;
      }
    }
    variables.emplace_back(name, std::move(value));
  }

  Scope* const parent;
  std::vector<std::pair<std::string, Value>> variables;
};

}  // namespace strata::data::jinja

#endif  // STRATA_DATA_RECORDS_JINJA_SCOPE_H_
