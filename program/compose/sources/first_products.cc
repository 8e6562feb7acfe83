#include "program/compose/sources/first_products.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/matmul.h"

namespace strata::program {
namespace {

// Whether the op adds a product to all bytes of its result.
bool AddsDenseProduct(const Op& op) {
  const auto product = ops::FromOp<ops::MatMul>(op);
  return product.ok() && product->accumulate && (product->ldc == 0 || product->ldc == product->n) &&
         op.operands[ops::MatMul::kC].bytes == BytesOf(product->out_type, product->m * product->n);
}

}  // namespace

void FirstProducts::Before(const Use& use) {
  use_ = use;
  begun_.clear();
}

const FirstProducts::Found& FirstProducts::Find(int template_index, int formal) {
  const auto [known, fresh] = found_.try_emplace({template_index, formal});
  Found& found = known->second;
  if (!fresh) return found;
  std::vector<std::pair<int64_t, int64_t>> touched;
  const std::vector<Op>& ops = stage_.assembler.set().templates[template_index].ops;
  for (size_t o = 0; o < ops.size(); ++o) {
    for (size_t i = 0; i < ops[o].operands.size(); ++i) {
      const Operand& operand = ops[o].operands[i];
      if (operand.slot != formal) continue;
      if (operand.shard_group != Group::kNone) return found = {};
      const std::pair<int64_t, int64_t> range{operand.offset, operand.offset + operand.bytes};
      const bool first = std::none_of(touched.begin(), touched.end(), [&](const auto& other) {
        return range.first < other.second && other.first < range.second;
      });
      if (first && i == ops::MatMul::kC && AddsDenseProduct(ops[o])) {
        found.ops.push_back(static_cast<int>(o));
        found.ranges.push_back(range);
      }
      touched.push_back(range);
    }
  }
  std::sort(found.ranges.begin(), found.ranges.end());
  return found;
}

void FirstProducts::Begin(int set, const Operand& place, const std::string& label) {
  const Template& tmpl = stage_.assembler.set().templates[use_.template_index];
  const std::vector<int>& sets = stage_.graph.layers[use_.layer].sets;
  std::vector<int> adding;
  for (size_t f = 0; f < tmpl.formals.size(); ++f) {
    if (tmpl.formals[f].role == Role::kGradients && sets[tmpl.formals[f].index] == set) {
      adding.push_back(static_cast<int>(f));
    }
  }
  std::vector<std::pair<int64_t, int64_t>> written;
  if (adding.size() == 1) written = Find(use_.template_index, adding.front()).ranges;
  if (!written.empty()) begun_.push_back(adding.front());
  written.emplace_back(place.bytes, place.bytes);
  int64_t end = 0;
  for (const auto& [begin, next] : written) {
    Operand between = place;
    between.offset += end;
    between.bytes = begin - end;
    if (between.bytes > 0) stage_.assembler.Zero(between, Purpose::kBackward, label);
    end = next;
  }
}

int FirstProducts::TemplateToCall() {
  if (begun_.empty()) return use_.template_index;
  std::vector<Template>& templates = stage_.assembler.set().templates;
  const auto [known, fresh] =
      writing_.try_emplace({use_.template_index, begun_}, static_cast<int>(templates.size()));
  if (!fresh) return known->second;
  Template writing = templates[use_.template_index];
  absl::StrAppend(&writing.name, ", first");
  for (const int formal : begun_) {
    for (const int o : Find(use_.template_index, formal).ops) {
      Op& op = writing.ops[o];
      ops::MatMul product = *ops::FromOp<ops::MatMul>(op);
      product.accumulate = false;
      op.ints = ops::ToOp(product).ints;
      op.operands[ops::MatMul::kC].access = Access::kWrite;
    }
  }
  templates.push_back(std::move(writing));
  return known->second;
}

}  // namespace strata::program
